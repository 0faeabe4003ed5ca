//! What a worker serves from: immutable tables, built from a checked configuration.

use crate::copied::CopyMemory;
use crate::error_pages::Pages;
use crate::exemplar_notes::ExemplarNotes;
use crate::fallback::Fallback;
use crate::files::Site;
use crate::forwarding::Forwarding;
use crate::guard::Guard;
use crate::listener_id::ListenerId;
use crate::metrics::{Metrics, NO_ROUTE, RouteCells};
use crate::mirror::{Mirror, MirrorStatus};
use crate::route::{LookAlikes, Routes, Split};
use crate::template::PathRewrite;
use crate::tls_route::{TlsRouteStatus, TlsRoutes};
use crate::tracing::Tracing;
use crate::upgrade::{TunnelPermit, Tunnels};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use titan_config::{
    AccessLog, ByteSize, Config, Importance, Limits, LogDestination, Name, Pressure, Route,
    Timeouts, TraceAlways,
};
use titan_http::section::SectionLimits;
use titan_io::counter::{Counted, Durations};
use titan_io::exemplar::{self, Exemplars};
use titan_io::memory::{ClientMemory, UsedMemory};
use titan_io::quic::QuicLimits;
use titan_io::registry::Registry;
use titan_io::tls::{ClientTls, Files};
use titan_observe::captures::Captures;
use titan_observe::destination::DestinationFigures;
use titan_observe::events::Log;
use titan_observe::recorder::Recorder;
use titan_otlp::figures::{ExporterFigures, Signal};
use titan_policies::chain::Chains;
use titan_policies::credentials::PolicyCredentials;
use titan_policies::jwt::Revocations;
use titan_policies::list::Shared;
use titan_policies::transform::Body;
use titan_store::stores::Stores;
use titan_upstream::fed;
use titan_upstream::feeds::Feeds;
use titan_upstream::members::Upstream;
use titan_upstream::shared::Sharing;

/// Everything that requests are served from. A request sees exactly one.
pub(crate) struct Snapshot {
    /// Unique in the process, so that what was made for one is not taken for what was made for another.
    pub(crate) id: u64,
    pub(crate) routes: Routes,
    /// What happens to paths that some upstreams take for others.
    pub(crate) look_alikes: LookAlikes,
    /// By the index of the route.
    pub(crate) actions: Vec<Action>,
    /// How much the requests of each matter.
    importance: Vec<Importance>,
    /// What is counted for each; behind them for requests that no route took.
    counted: Vec<Arc<Counted<RouteCells>>>,
    /// Exchanges to show beside how long those of each route took.
    exemplars: Arc<Exemplars<Durations>>,
    /// The policies that requests meet.
    pub(crate) chains: Chains,
    pub(crate) upstreams: Vec<Arc<Upstream>>,
    /// What requests get in place of each of them while its circuit breaker is open.
    pub(crate) fallbacks: Vec<Option<Fallback>>,
    /// Pages in place of problem documents.
    pub(crate) error_pages: Pages,
    pub(crate) limits: Limits,
    pub(crate) timeouts: Timeouts,
    /// Which fields of requests are accepted.
    pub(crate) guard: Guard,
    pub(crate) forwarding: Forwarding,
    /// What a request may be like.
    pub(crate) request_limits: titan_h1::Limits,
    /// What an endpoint's response may be like.
    pub(crate) response_limits: titan_h1::Limits,
    /// What a connection of HTTP/2 may be like.
    pub(crate) stream_limits: titan_h2::Limits,
    /// Those of HTTP/3, and of QUIC below it.
    pub(crate) h3_limits: titan_h3::Limits,
    pub(crate) quic_limits: QuicLimits,
    /// What a connection of HTTP/2 to an endpoint may be like.
    pub(crate) sharing: Sharing,
    /// Which claims are noted of tokens.
    pub(crate) captures: Captures,
    /// How requests are traced; `None` where none are.
    pub(crate) tracing: Option<Tracing>,
    /// Whether exchanges are told of.
    pub(crate) is_recorded: bool,
    /// How many bytes of bodies are recorded, by the index of the route; of no route where it is empty.
    recorded_bodies: Vec<usize>,
    /// The last exchanges; without memory where none are kept.
    pub(crate) recorder: Arc<Recorder>,
    /// What is counted of each access log.
    pub(crate) access_logs: Vec<Arc<DestinationFigures>>,
    /// What is counted of what goes to collectors of OpenTelemetry.
    pub(crate) exporters: Vec<Arc<ExporterFigures>>,
    /// What gateways count together in.
    pub(crate) stores: Stores,
    /// The TLS routes of each listener that has any.
    tls_routes: Box<[(ListenerId, Arc<TlsRoutes>)]>,
    /// The tunnels that are open.
    tunnels: Arc<Tunnels>,
    /// What is done when limits of the gateway itself come near.
    pub(crate) pressure: Option<Pressure>,
    /// What decoders of request bodies may have.
    pub(crate) decoding_memory: ClientMemory,
    /// What request bodies may have that are held.
    pub(crate) request_memory: ClientMemory,
    /// What responses may have whose client is slow.
    pub(crate) response_memory: ClientMemory,
    /// What copies of requests may have.
    copy_memory: CopyMemory,
}

/// The memory for bodies of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryStatus {
    /// What it is for, in one word.
    pub purpose: &'static str,
    /// The bytes in use.
    pub used: usize,
    /// The bytes that there may be.
    pub most: usize,
}

/// What a route does, ready to be done.
pub(crate) enum Action {
    /// An upstream responds.
    Proxy(Box<Proxy>),
    /// The client is sent elsewhere.
    Redirect(titan_config::Redirect),
    /// The gateway responds.
    Respond(Arc<titan_config::Respond>, Option<Body>),
    /// The gateway responds with files.
    Files(Box<Site>),
}

/// How a request goes to an upstream.
pub(crate) struct Proxy {
    pub(crate) config: Arc<titan_config::Proxy>,
    pub(crate) split: Split,
    pub(crate) rewrite: Option<PathRewrite>,
    /// Where copies of its requests go.
    pub(crate) mirrors: Box<[Mirror]>,
}

impl Snapshot {
    /// Builds the tables for that many workers, with what outlives them out of `registry`. The configuration has been
    /// checked, and TLS has been set up for each of its upstreams that speaks it: nothing can fail. `files` says where
    /// relative paths start.
    pub(crate) fn build(
        config: &Config,
        (registry, workers): (&Registry, usize),
        tls: Vec<Option<ClientTls>>,
        credentials: &PolicyCredentials,
        files: &Files,
        (revoked, stores): (Option<&Revocations>, &Stores),
    ) -> Snapshot {
        let upstreams = config.upstreams.iter().zip(tls);
        let around = (registry, workers);
        let feeds = Feeds::of(registry);
        let upstreams = upstreams.map(|(it, tls)| {
            let upstream = Upstream::of(it, &config.resolver, tls, around);
            fed::follow(&upstream, &feeds);
            upstream
        });
        let routes = config.routes.iter().map(|route| route.name.as_str()).chain([NO_ROUTE]);
        let counted = routes.map(|name| Counted::of(registry, name, workers));
        let mirrors = Mirrors {
            config,
            around,
            memory: CopyMemory::of(registry, config.limits.mirror_memory),
        };
        let actions =
            config.routes.iter().map(|route| Action::new(route, files.folder(), &mirrors));
        let access_logs = log_figures(&config.access_log, registry);
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let snapshot = Snapshot {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            routes: Routes::new(&config.routes),
            look_alikes: LookAlikes::new(&config.routes),
            actions: actions.collect(),
            importance: config.routes.iter().map(|route| route.importance).collect(),
            counted: counted.collect(),
            exemplars: Exemplars::of(registry),
            chains: Chains::new(
                config,
                credentials,
                &Shared::new(revoked, stores, registry),
                around,
            ),
            upstreams: upstreams.collect(),
            fallbacks: config.upstreams.iter().map(|it| Fallback::of(it, files)).collect(),
            error_pages: Pages::new(config),
            limits: config.limits.clone(),
            timeouts: config.timeouts.clone(),
            guard: Guard::new(config),
            forwarding: Forwarding::new(config),
            request_limits: request_limits(&config.limits),
            response_limits: response_limits(&config.limits),
            stream_limits: stream_limits(&config.limits),
            h3_limits: h3_limits(&config.limits),
            quic_limits: quic_limits(&config.limits, &config.timeouts),
            sharing: Sharing::new(
                endpoint_stream_limits(&config.limits),
                endpoint_h3_limits(&config.limits),
                config.timeouts.write,
            ),
            is_recorded: config.recorder.is_some()
                || config.tracing.is_some()
                || !config.access_log.is_empty(),
            recorded_bodies: recorded_bodies(config),
            recorder: registry.shared((), Recorder::default),
            tracing: Tracing::of(config, registry),
            captures: Captures::of(&config.access_log),
            exporters: exporter_figures(config, &access_logs, registry),
            access_logs,
            tls_routes: tls_routes(config, around),
            tunnels: registry.shared((), Tunnels::default),
            stores: stores.clone(),
            pressure: config.pressure.clone(),
            decoding_memory: memory(registry, Bodies::Decoded, config.limits.decoding_memory),
            request_memory: memory(registry, Bodies::Held, config.limits.request_memory),
            response_memory: memory(registry, Bodies::ReadAhead, config.limits.response_memory),
            copy_memory: mirrors.memory,
        };
        registry.sweep();
        snapshot
    }

    /// From now on, what is shared with other snapshots follows this configuration and uses these credentials. Nothing does
    /// before this call.
    pub(crate) fn take_effect(&self, credentials: PolicyCredentials) {
        self.upstreams.iter().for_each(|upstream| upstream.take_effect());
        self.chains.replace_credentials(credentials);
        self.exemplars.keep(self.counted.iter().map(|counted| counted.name()));
    }

    /// The tables of a gateway that makes no connections: it needs no certificates.
    pub(crate) fn unconnected(config: &Config, credentials: &PolicyCredentials) -> Snapshot {
        let tls = config.upstreams.iter().map(|_| None);
        let around = (&Registry::default(), 1);
        let stores = Stores::unconnected(config);
        let kept = (None, &stores);
        Snapshot::build(config, around, tls.collect(), credentials, &Files::default(), kept)
    }

    /// How much a stream can surely bring before any of it is passed on: its own window, or its part of that of its
    /// connection.
    pub(crate) fn part_of_window(&self) -> usize {
        let part = self.limits.connection_window.as_usize() / self.limits.streams.get() as usize;
        part.min(self.limits.stream_window.as_usize())
    }

    /// Bytes per second that the body of a request must bring; 0 for anything.
    pub(crate) fn body_rate(&self) -> u64 {
        self.limits.body_rate.map_or(0, ByteSize::bytes)
    }

    /// Bytes per second that a client must take of a response; 0 for anything.
    pub(crate) fn response_rate(&self) -> u64 {
        self.limits.response_rate.map_or(0, ByteSize::bytes)
    }

    /// Where requests are counted that the route at that place took, or none.
    pub(crate) fn counted(&self, route: Option<usize>) -> &Counted<RouteCells> {
        &self.counted[route.unwrap_or(self.counted.len() - 1)]
    }

    /// How much the requests of that route matter.
    pub(crate) fn importance(&self, route: Option<usize>) -> Importance {
        route.map_or(Importance::Default, |route| self.importance[route])
    }

    /// How many bytes are recorded of each body of that route, if any are.
    pub(crate) fn recorded_of_bodies(&self, route: usize) -> Option<usize> {
        self.recorded_bodies.get(route).copied().filter(|most| *most > 0)
    }

    /// What is counted for each route, and behind them for requests that no route took.
    pub(crate) fn all_counted(&self) -> &[Arc<Counted<RouteCells>>] {
        &self.counted
    }

    /// What is counted of an access log to a collector.
    pub(crate) fn exporter(&self, log: &Arc<DestinationFigures>) -> &Arc<ExporterFigures> {
        let its = |it: &&Arc<ExporterFigures>| Arc::ptr_eq(&it.destination, log);
        self.exporters.iter().find(its).expect("each log to a collector has some")
    }

    /// What is counted of spans, where there are any.
    pub(crate) fn trace_exporter(&self) -> Option<&Arc<ExporterFigures>> {
        self.exporters.iter().find(|it| it.signal == Signal::Traces)
    }

    /// Notes exemplars of the durations of routes from records.
    pub(crate) fn exemplar_notes(&self, always: Option<TraceAlways>) -> ExemplarNotes {
        ExemplarNotes::new(Arc::clone(&self.exemplars), always)
    }

    /// The exemplars of the durations of each route that has any, by its name.
    pub(crate) fn exemplars(&self) -> HashMap<String, exemplar::Buckets> {
        self.exemplars.all()
    }

    /// How each mirror is doing, in the order of their routes.
    pub(crate) fn mirrors(&self) -> Vec<MirrorStatus> {
        let mirrors = |action: &Action| match action {
            Action::Proxy(proxy) => proxy.mirrors.iter().map(Mirror::status).collect(),
            Action::Redirect(_) | Action::Respond(..) | Action::Files(_) => Vec::new(),
        };
        self.actions.iter().flat_map(mirrors).collect()
    }

    /// What its bodies have of the memory for them, over all workers.
    pub(crate) fn memory(&self) -> [MemoryStatus; 4] {
        [
            ("request_decoding", self.decoding_memory.figures()),
            ("held_requests", self.request_memory.figures()),
            ("slow_responses", self.response_memory.figures()),
            ("mirror_copies", self.copy_memory.figures()),
        ]
        .map(|(purpose, (used, most))| MemoryStatus { purpose, used, most })
    }

    /// The TLS routes of that listener, if it has any.
    pub(crate) fn tls_routes(&self, listener: &ListenerId) -> Option<&Arc<TlsRoutes>> {
        self.tls_routes.iter().find(|(id, _)| id == listener).map(|(_, routes)| routes)
    }

    /// What is counted for those of all listeners, in the order of the file.
    pub(crate) fn tls_routes_now(&self) -> Vec<TlsRouteStatus> {
        self.tls_routes.iter().flat_map(|(_, routes)| routes.status()).collect()
    }

    /// A place for one more tunnel, if there is one.
    pub(crate) fn enter_tunnel(&self) -> Option<TunnelPermit> {
        self.tunnels.enter(self.limits.tunnels)
    }

    /// The cells that workers with this snapshot count in.
    pub(crate) fn metrics(&self, workers: usize, log: &Log) -> Metrics {
        Metrics::new(workers, self.chains.counters(), log)
    }
}

impl Action {
    fn new(route: &Route, folder: &Path, mirrors: &Mirrors<'_>) -> Action {
        match &route.action {
            titan_config::Action::Redirect(redirect) => Action::Redirect(redirect.clone()),
            titan_config::Action::Respond(respond) => {
                let body = respond.template.as_ref().map(|template| Body::new(template, route));
                Action::Respond(Arc::clone(respond), body)
            }
            titan_config::Action::Files(files) => {
                Action::Files(Box::new(Site::new(files, &route.path, folder)))
            }
            titan_config::Action::Proxy(config) => Action::Proxy(Box::new(Proxy {
                config: Arc::clone(config),
                split: Split::new(&config.shares),
                rewrite: config.rewrite.as_ref().map(|it| PathRewrite::new(it, &route.path)),
                mirrors: config.mirrors.iter().map(|it| mirrors.of(route, it)).collect(),
            })),
        }
    }
}

/// How many bytes of bodies are recorded, by the index of the route. Where none are, there is nothing to look up.
fn recorded_bodies(config: &Config) -> Vec<usize> {
    let most = config.routes.iter().map(|route| route.record_bodies.as_usize());
    let most: Vec<_> = most.filter(|_| config.recorder.is_some()).collect();
    if most.iter().all(|most| *most == 0) { Vec::new() } else { most }
}

fn tls_routes(config: &Config, around: (&Registry, usize)) -> Box<[(ListenerId, Arc<TlsRoutes>)]> {
    let ids = ListenerId::all(&config.listeners);
    let all = ids.into_iter().zip(&config.listeners);
    all.filter_map(|(id, listener)| Some((id, TlsRoutes::of(listener, around)?))).collect()
}

/// What mirrors are made of.
struct Mirrors<'c> {
    config: &'c Config,
    around: (&'c Registry, usize),
    memory: CopyMemory,
}

impl Mirrors<'_> {
    fn of(&self, route: &Route, mirror: &titan_config::Mirror) -> Mirror {
        let upstream = self.config.upstreams[mirror.upstream.index()].name.as_str();
        let names = (route.name.as_str(), upstream);
        Mirror::new(mirror, names, self.around, self.memory.clone())
    }
}

/// What makes the figures of an access log those of the same one: its name.
#[derive(PartialEq, Eq, Hash)]
struct LogKey(String);

/// What makes figures those of the same exporter: the name of its log.
#[derive(PartialEq, Eq, Hash)]
struct ExporterKey(String);

/// What is counted of each access log; it counts on for as long as some configuration has one to the same destination.
fn log_figures(logs: &[AccessLog], registry: &Registry) -> Vec<Arc<DestinationFigures>> {
    let figures = DestinationFigures::of_all(logs.iter().map(|log| &log.to));
    let shared = figures.map(|it| registry.shared(LogKey(it.name().to_owned()), || it));
    shared.collect()
}

/// The same of those to collectors, with what is counted of these alone.
fn exporter_figures(
    config: &Config,
    of_logs: &[Arc<DestinationFigures>],
    registry: &Registry,
) -> Vec<Arc<ExporterFigures>> {
    let of = |collector: &Name, signal, figures: Arc<DestinationFigures>| {
        let key = ExporterKey(figures.name().to_owned());
        registry.shared(key, || ExporterFigures::new(collector.clone(), signal, figures))
    };
    let logs = config.access_log.iter().zip(of_logs).filter_map(|(log, figures)| {
        let LogDestination::Otlp(collector) = &log.to else { return None };
        Some(of(collector, Signal::Logs, Arc::clone(figures)))
    });
    let traces = config.tracing.iter().map(|tracing| {
        let name = format!("traces {}", tracing.collector);
        let figures =
            registry.shared(LogKey(name.clone()), || DestinationFigures::named(name.clone()));
        of(&tracing.collector, Signal::Traces, figures)
    });
    logs.chain(traces).collect()
}

/// Bodies that have memory in common.
#[derive(PartialEq, Eq, Hash)]
enum Bodies {
    /// Those of requests that are decoded.
    Decoded,
    /// Those of requests that are held.
    Held,
    /// Those of responses whose client is slow.
    ReadAhead,
}

/// So much memory for such bodies. What they have of it counts on, whatever the limit was before.
fn memory(registry: &Registry, of: Bodies, most: ByteSize) -> ClientMemory {
    ClientMemory::new(most.as_usize(), registry.shared(of, UsedMemory::default))
}

/// The body of a request is limited by its route, which is not known while the head is read.
fn request_limits(limits: &Limits) -> titan_h1::Limits {
    titan_h1::Limits {
        head: limits.head.as_usize(),
        target: limits.target.as_usize(),
        fields: limits.fields.get().into(),
        chunk_line: limits.chunk_line.as_usize(),
        trailers: limits.trailers.as_usize(),
        drops_trailers: false,
        body: u64::MAX,
    }
}

fn response_limits(limits: &Limits) -> titan_h1::Limits {
    titan_h1::Limits {
        head: limits.response_head.as_usize(),
        fields: limits.response_fields.get().into(),
        trailers: limits.response_trailers.as_usize(),
        drops_trailers: true,
        ..request_limits(limits)
    }
}

fn stream_limits(limits: &Limits) -> titan_h2::Limits {
    titan_h2::Limits {
        streams: limits.streams.get(),
        head: limits.head.as_usize(),
        fields: limits.fields.get().into(),
        target: limits.target.as_usize(),
        trailers: limits.trailers.as_usize(),
        stream_window: limits.stream_window.as_u32(),
        grown_window: limits.stream_window.as_u32(),
        connection_window: limits.connection_window.as_u32(),
        // A client may take back all of its streams at once.
        flood_budget: titan_h2::Limits::default().flood_budget.max(limits.streams.get()),
        ..titan_h2::Limits::default()
    }
}

/// The same for HTTP/3.
fn h3_limits(limits: &Limits) -> titan_h3::Limits {
    let streams = limits.streams.get();
    titan_h3::Limits {
        streams,
        sections: SectionLimits {
            head: limits.head.as_usize(),
            trailers: limits.trailers.as_usize(),
            fields: limits.fields.get().into(),
            target: limits.target.as_usize(),
        },
        stream_window: limits.stream_window.as_usize(),
        connection_window: limits.connection_window.as_usize(),
        // A client may take back all of its streams at once.
        flood_budget: titan_h3::Limits::default().flood_budget.max(streams),
        ..titan_h3::Limits::default()
    }
}

/// Bytes that were sent to a client and that it has not acknowledged: what a path of 100 Mbit/s holds in 160 ms.
const SEND_WINDOW: u64 = 2 << 20;

fn quic_limits(limits: &Limits, timeouts: &Timeouts) -> QuicLimits {
    QuicLimits {
        streams: limits.streams.get(),
        stream_window: limits.stream_window.as_u32(),
        connection_window: limits.connection_window.as_u32(),
        head: limits.head.as_u32(),
        send_window: SEND_WINDOW,
        idle: timeouts.idle,
    }
}

/// What an endpoint may send of a response before its client has taken any.
const FIRST_RESPONSE_WINDOW: u32 = 64 << 10;

fn endpoint_stream_limits(limits: &Limits) -> titan_h2::Limits {
    titan_h2::Limits {
        head: limits.response_head.as_usize(),
        fields: limits.response_fields.get().into(),
        trailers: limits.response_trailers.as_usize(),
        // Clients that open no window would have that much of each of their responses lie in memory.
        stream_window: limits.stream_window.as_u32().min(FIRST_RESPONSE_WINDOW),
        // Many clients share the connection: those that take nothing of their responses must not use up the
        // window of the others. Each stream has its own.
        connection_window: u32::MAX,
        ..stream_limits(limits)
    }
}

/// The same for HTTP/3.
fn endpoint_h3_limits(limits: &Limits) -> titan_h3::Limits {
    titan_h3::Limits {
        sections: SectionLimits {
            head: limits.response_head.as_usize(),
            trailers: limits.response_trailers.as_usize(),
            fields: limits.response_fields.get().into(),
            target: limits.target.as_usize(),
        },
        stream_window: limits.stream_window.as_u32().min(FIRST_RESPONSE_WINDOW) as usize,
        connection_window: u32::MAX as usize,
        ..h3_limits(limits)
    }
}

#[cfg(test)]
mod tests;
