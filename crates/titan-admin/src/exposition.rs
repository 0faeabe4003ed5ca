//! The metrics, for Prometheus and others that scrape it: as text, or as messages with native histograms.

mod family;

mod format;

mod text;

mod messages;

mod page;

mod pressure;

mod quic;
#[cfg(test)]
mod tests;

mod folding;

mod access_logs;
mod breakers;
mod endpoints;
mod events;
mod memory;
mod mirrors;
mod policies;
mod routes;
mod sources;
mod stores;
mod tls;
mod tls_routes;
mod upstreams;

mod things;

pub(crate) use format::Format;
pub(crate) use things::Others;

use crate::reloads::{Attempts, Cause};
use crate::revocations::FleetStatus;
use family::{Family, seconds};
use page::Page;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use things::Things;
use titan_observe::events::Dropped;
use titan_proxy::{Cells, Counter, Metrics, ProcessFigures, Status};

const OF_WORKER: [Family; 25] = [
    Family::counter("titan_connections_accepted_total", "Client connections accepted."),
    Family::counter("titan_connections_closed_total", "Client connections closed."),
    Family::counter(
        "titan_connections_refused_total",
        "Client connections refused because a limit was reached.",
    ),
    Family::counter(
        "titan_tls_handshakes_failed_total",
        "Client connections closed because the TLS handshake failed or did not complete.",
    ),
    Family::counter(
        "titan_tls_client_certificates_refused_total",
        "Failed TLS handshakes whose client presented no certificate where one is required, or \
            one that is not accepted.",
    ),
    Family::counter("titan_received_bytes_total", "Bytes of requests received from clients."),
    Family::counter("titan_sent_bytes_total", "Bytes of responses sent to clients."),
    Family::counter("titan_requests_begun_total", "Requests begun, with or without a response."),
    Family::counter("titan_http2_streams_opened_total", "HTTP/2 streams that clients opened."),
    Family::counter("titan_http2_streams_closed_total", "HTTP/2 streams closed."),
    Family::counter("titan_tunnels_opened_total", "Tunnels, such as WebSockets, opened."),
    Family::counter("titan_tunnels_closed_total", "Tunnels closed."),
    Family::counter(
        "titan_http2_connections_opened_total",
        "Client connections on which HTTP/2 was chosen.",
    ),
    Family::counter("titan_http2_connections_closed_total", "Client connections of HTTP/2 closed."),
    Family::counter(
        "titan_http3_connections_opened_total",
        "Client connections of HTTP/3 whose handshake succeeded.",
    ),
    Family::counter("titan_http3_connections_closed_total", "Client connections of HTTP/3 closed."),
    Family::counter("titan_http3_streams_opened_total", "HTTP/3 requests that clients began."),
    Family::counter("titan_http3_streams_closed_total", "HTTP/3 requests ended."),
    Family::counter(
        "titan_quic_datagrams_handed_over_total",
        "Datagrams that came to another worker than the one whose connection they are for.",
    ),
    Family::counter(
        "titan_quic_datagrams_forwarded_total",
        "Datagrams handed to the process that served before this one.",
    ),
    Family::counter("titan_quic_retries_total", "Clients asked to validate their address first."),
    Family::counter("titan_quic_receive_errors_total", "Failed attempts to receive datagrams."),
    Family::counter("titan_quic_packets_lost_total", "Packets lost on their way to clients."),
    Family::counter("titan_quic_migrations_total", "Changes of the addresses of clients."),
    Family::counter(
        "titan_http3_early_requests_total",
        "HTTP/3 requests served before the handshake was complete.",
    ),
];

/// What is open: a gauge, and where [`OF_WORKER`] has what was opened and what was closed again.
const OPEN: [(Family, usize, usize); 6] = [
    (Family::gauge("titan_connections_open", "Open client connections."), 0, 1),
    (Family::gauge("titan_http2_streams_open", "Open HTTP/2 streams of clients."), 8, 9),
    (Family::gauge("titan_tunnels_open", "Open tunnels."), 10, 11),
    (Family::gauge("titan_http2_connections_open", "Open client connections of HTTP/2."), 12, 13),
    (Family::gauge("titan_http3_connections_open", "Open client connections of HTTP/3."), 14, 15),
    (Family::gauge("titan_http3_streams_open", "Open HTTP/3 requests of clients."), 16, 17),
];

/// In the order of the figures in [`Page::reloads`].
const OF_RELOADS: [Family; 2] = [
    Family::gauge(
        "titan_config_last_reload_timestamp_seconds",
        "Unix time of the last attempt to put another configuration or changed files in force; 0 for never.",
    ),
    Family::gauge(
        "titan_config_last_reload_successful",
        "Whether the last attempt, or the start, succeeded.",
    ),
];

/// What there is to tell.
pub(crate) struct Sources<'s> {
    pub(crate) metrics: &'s Metrics,
    pub(crate) status: &'s Status,
    pub(crate) attempts: &'s Attempts,
    /// How many revocations there are and may be, where there is a file for them, and how gateways tell each other of them.
    pub(crate) revoked: Option<((usize, usize), Option<FleetStatus>)>,
    /// Calls of the admin interface by name and outcome.
    pub(crate) calls: &'s [(&'s str, &'s str, u64)],
    /// Those of them with a wrong token.
    pub(crate) wrong_tokens: u64,
    pub(crate) started: SystemTime,
    /// Events that were not written.
    pub(crate) dropped: Dropped,
    /// How many series there may be.
    pub(crate) most: usize,
    /// What things without series of their own had counted on the page before.
    pub(crate) others: &'s Mutex<Others>,
}

/// Every metric there is.
pub(crate) fn write(sources: &Sources<'_>, format: Format) -> Vec<u8> {
    let Sources { metrics, status, attempts, revoked, calls, wrong_tokens, started, .. } = *sources;
    let Sources { dropped, most, others, .. } = *sources;
    let mut page = Page::new(format);
    page.process(started);
    page.events(dropped);
    let logs = status.access_logs();
    page.access_logs(metrics, logs.iter().map(AsRef::as_ref));
    page.exporters(&status.exporters());
    page.reloads(attempts, status);
    page.trials(attempts);
    page.sources(&attempts.sources, SystemTime::now());
    page.calls(calls, wrong_tokens);
    page.workers(metrics);
    page.memory(metrics, &status.memory());
    page.failures(metrics);
    page.revocations(revoked);
    page.stores(&status.stores());
    // Before anything is read: on a page that is written meanwhile figures may be later ones.
    let mut others = others.lock().unwrap_or_else(PoisonError::into_inner);
    let things = Things::of(metrics, status);
    things.write(&mut page, most, &mut others);
    page.finish()
}

impl Page {
    fn process(&mut self, started: SystemTime) {
        let build = Family::info("titan_build_info", "Version of the running program; always 1.");
        self.begin(build);
        self.sample(build.name, &[("version", env!("CARGO_PKG_VERSION"))], 1_u8);
        let start = Family::gauge(
            "titan_process_start_time_seconds",
            "Unix time at which the process started.",
        );
        let since_epoch = started.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.single(start, since_epoch.as_secs_f64());
        self.process_figures(&ProcessFigures::now());
    }

    fn reloads(&mut self, attempts: &Attempts, status: &Status) {
        let Attempts { applied, refused, last, refused_last, .. } = attempts;
        self.in_force(attempts);
        let reloads = Family::counter(
            "titan_config_reloads_total",
            "Attempts to put another configuration or changed files in force.",
        );
        self.begin(reloads);
        for (outcome, count) in [("applied", applied), ("refused", refused)] {
            self.sample(reloads.name, &[("outcome", outcome)], count);
        }
        let last = last.and_then(|last| last.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
        let figures = [last.as_secs_f64(), f64::from(u8::from(refused_last.is_none()))];
        for (family, figure) in OF_RELOADS.into_iter().zip(figures) {
            self.single(family, figure);
        }
        let in_use = Family::gauge(
            "titan_config_in_use",
            "Configurations in use: the one in force, and earlier ones that requests still run under.",
        );
        self.single(in_use, status.configurations_in_use());
    }

    fn in_force(&mut self, Attempts { digest, id, .. }: &Attempts) {
        let info = Family::info(
            "titan_config_info",
            "SHA-256 of the configuration in force, without its secrets, and its id in the history; always 1.",
        );
        self.begin(info);
        let id = id.map(|id| id.to_string());
        let id = id.as_deref().map(|id| ("id", id));
        let labels: Vec<_> = [("sha256", digest.as_str())].into_iter().chain(id).collect();
        self.sample(info.name, &labels, 1_u8);
    }

    fn trials(&mut self, attempts: &Attempts) {
        let Attempts { is_on_trial, taken_back, unsaved, .. } = attempts;
        let on_trial = Family::gauge(
            "titan_config_on_trial",
            "Whether the configuration in force is taken back unless it is confirmed or its guard is content.",
        );
        self.single(on_trial, u8::from(*is_on_trial));
        let family = Family::counter(
            "titan_config_taken_back_total",
            "Configurations on trial that were taken back.",
        );
        self.begin(family);
        for (cause, count) in Cause::ALL.into_iter().zip(taken_back) {
            self.sample(family.name, &[("cause", cause.as_str())], count);
        }
        let family = Family::gauge(
            "titan_history_unsaved",
            "Configurations that the state directory should have and does not.",
        );
        self.single(family, unsaved);
    }

    fn calls(&mut self, calls: &[(&str, &str, u64)], wrong_tokens: u64) {
        let family = Family::counter(
            "titan_admin_calls_total",
            "Calls of the admin interface that change something.",
        );
        self.begin(family);
        for (call, outcome, count) in calls {
            self.sample(family.name, &[("call", call), ("outcome", outcome)], count);
        }
        let family = Family::counter(
            "titan_admin_tokens_refused_total",
            "Calls of the admin interface with a wrong token.",
        );
        self.single(family, wrong_tokens);
    }

    fn workers(&mut self, metrics: &Metrics) {
        let figures: Vec<_> = metrics.workers().iter().map(of_worker).collect();
        for (index, family) in OF_WORKER.into_iter().enumerate() {
            self.begin(family);
            for (worker, figures) in figures.iter().enumerate() {
                self.sample(family.name, &[("worker", &worker.to_string())], figures[index]);
            }
        }
        for (family, opened, closed) in OPEN {
            self.begin(family);
            for (worker, figures) in figures.iter().enumerate() {
                let count = figures[opened].saturating_sub(figures[closed]);
                self.sample(family.name, &[("worker", &worker.to_string())], count);
            }
        }
        self.round_trips(metrics);
        self.handshakes(metrics);
        self.pressure(metrics);
        let busy = Family::counter(
            "titan_worker_busy_seconds_total",
            "CPU time of the worker; a worker that gains a second each second is saturated.",
        );
        self.begin(busy);
        for (worker, cells) in metrics.workers().iter().enumerate() {
            self.sample(
                busy.name,
                &[("worker", &worker.to_string())],
                seconds(cells.busy_micros.get()),
            );
        }
    }

    fn failures(&mut self, metrics: &Metrics) {
        let family =
            Family::counter("titan_exchange_failures_total", "Failed exchanges, by problem code.");
        self.begin(family);
        for (code, count) in metrics.failures_by_code() {
            self.sample(family.name, &[("code", code)], count);
        }
    }

    /// How many there are, and may be.
    fn revocations(&mut self, revoked: Option<((usize, usize), Option<FleetStatus>)>) {
        let Some(((count, capacity), fleet)) = revoked else { return };
        let entries =
            Family::gauge("titan_jwt_revocations", "Entries in the store of revoked tokens.");
        let most = Family::gauge(
            "titan_jwt_revocations_capacity",
            "Maximum number of entries in \
            the store of revoked tokens.",
        );
        for (family, number) in [(entries, count), (most, capacity)] {
            self.single(family, number);
        }
        fleet.iter().for_each(|fleet| self.revocations_of_fleet(fleet));
    }

    fn revocations_of_fleet(&mut self, fleet: &FleetStatus) {
        let FleetStatus { is_in_sync, unpublished, received, unreadable, refills } = *fleet;
        let in_sync = Family::gauge(
            "titan_jwt_revocations_in_sync",
            "Whether the gateway has lately heard all that others have revoked.",
        );
        self.single(in_sync, u8::from(is_in_sync));
        let family = Family::gauge(
            "titan_jwt_revocations_unpublished",
            "Entries of revoked tokens that other gateways cannot know of yet.",
        );
        self.single(family, unpublished);
        let families = [
            Family::counter(
                "titan_jwt_revocations_received_total",
                "Entries of revoked tokens heard from other gateways that were news.",
            ),
            Family::counter(
                "titan_jwt_revocations_unreadable_total",
                "Entries in the store of the fleet that none of its gateways has written.",
            ),
            Family::counter(
                "titan_jwt_revocations_refills_total",
                "How often the store of the fleet has lost the revoked tokens, and got them again.",
            ),
        ];
        for (family, count) in families.into_iter().zip([received, unreadable, refills]) {
            self.single(family, count);
        }
    }
}

/// In the order of [`OF_WORKER`].
fn of_worker(cells: &Cells) -> [u64; OF_WORKER.len()] {
    // Those that are not used here have functions of their own.
    let Cells {
        accepted,
        closed,
        refused,
        handshakes: _,
        handshakes_failed,
        certificates_refused,
        received,
        sent,
        begun,
        h2_opened,
        h2_closed,
        h3_opened,
        h3_closed,
        quic_handed_over,
        quic_forwarded,
        quic_retries,
        quic_receive_errors,
        quic_lost,
        quic_migrations,
        // A histogram has a function of its own.
        quic_round_trips: _,
        h3_streams_opened,
        h3_streams_closed,
        h3_early_requests,
        streams_opened,
        streams_closed,
        tunnels_opened,
        tunnels_closed,
        busy_micros: _,
        // For the service manager.
        ticks: _,
        // These have families of their own.
        lag_micros: _,
        lag_level: _,
        receive_buffers: _,
        kept_heads: _,
        compression: _,
        pressure_closed: _,
        pressure_shed: _,
        pressure_pauses: _,
        records_dropped: _,
        failures: _,
    } = cells;
    // Closed first: a connection that comes and goes meanwhile must not make more closed than accepted.
    let [closed, streams_closed, tunnels_closed, h2_closed] =
        [closed, streams_closed, tunnels_closed, h2_closed].map(Counter::get);
    let [h3_closed, h3_streams_closed] = [h3_closed, h3_streams_closed].map(Counter::get);
    // And those of a kind before all: they are among them.
    let certificates = certificates_refused.get();
    let [refused, failed] = [refused.get(), handshakes_failed.get()];
    let [accepted, received, sent, begun] = [accepted, received, sent, begun].map(Counter::get);
    let [streams, tunnels, h2] = [streams_opened, tunnels_opened, h2_opened].map(Counter::get);
    let [h3, h3_streams] = [h3_opened, h3_streams_opened].map(Counter::get);
    [
        accepted,
        closed,
        refused,
        failed,
        certificates,
        received,
        sent,
        begun,
        streams,
        streams_closed,
        tunnels,
        tunnels_closed,
        h2,
        h2_closed,
        h3,
        h3_closed,
        h3_streams,
        h3_streams_closed,
        quic_handed_over.get(),
        quic_forwarded.get(),
        quic_retries.get(),
        quic_receive_errors.get(),
        quic_lost.get(),
        quic_migrations.get(),
        h3_early_requests.get(),
    ]
}
