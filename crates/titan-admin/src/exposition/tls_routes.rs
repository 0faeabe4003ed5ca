//! Metrics of TLS routes.

use super::family::Family;
use super::folding::{Figures, Other, fold};
use super::page::Page;
use titan_proxy::{TlsFailure, TlsRouteCells, TlsRouteStatus};

const CONNECTIONS: Family =
    Family::counter("titan_tls_route_connections_total", "Connections that TLS routes have taken.");
const OPEN: Family =
    Family::gauge("titan_tls_route_connections_open", "Those of them that are open.");
const RECEIVED: Family =
    Family::counter("titan_tls_route_received_bytes_total", "Bytes from clients to endpoints.");
const SENT: Family =
    Family::counter("titan_tls_route_sent_bytes_total", "Bytes from endpoints to clients.");
const FAILURES: Family = Family::counter(
    "titan_tls_route_failures_total",
    "Connections of TLS routes that did not end in good order, by reason.",
);

/// The series that each has.
pub(super) const OF_EACH: usize = 4 + TlsFailure::ALL.len();

/// What is counted for one.
#[derive(Clone, Debug, Default)]
pub(super) struct TlsRouteSum {
    /// Taken, over, bytes from clients, bytes to clients.
    counts: [u64; 4],
    failures: [u64; TlsFailure::ALL.len()],
}

impl TlsRouteSum {
    fn of(route: &TlsRouteStatus) -> TlsRouteSum {
        let sum = |figure: &dyn Fn(&TlsRouteCells) -> u64| route.counted.sum(figure);
        // Over first: one that comes and goes meanwhile must not make more over than taken.
        let closed = sum(&|cells| cells.closed.get());
        TlsRouteSum {
            counts: [
                sum(&|cells| cells.opened.get()),
                closed,
                sum(&|cells| cells.received.get()),
                sum(&|cells| cells.sent.get()),
            ],
            failures: TlsFailure::ALL.map(|it| sum(&|cells| cells.failures[it as usize].get())),
        }
    }

    fn open(&self) -> u64 {
        let [opened, closed, ..] = self.counts;
        opened.saturating_sub(closed)
    }
}

impl Figures for TlsRouteSum {
    fn add(&mut self, other: &TlsRouteSum) {
        self.count_on(other);
    }

    fn since(&self, before: &TlsRouteSum) -> Option<TlsRouteSum> {
        let counts = self.counts.since(&before.counts)?;
        Some(TlsRouteSum { counts, failures: self.failures.since(&before.failures)? })
    }

    fn count_on(&mut self, before: &TlsRouteSum) {
        self.counts.count_on(&before.counts);
        self.failures.count_on(&before.failures);
    }
}

/// Reads one of the figures of a route.
type Figure = fn(&TlsRouteSum) -> u64;

impl Page {
    /// So many with series of their own; nothing where there are none.
    pub(super) fn tls_routes(
        &mut self,
        routes: &[TlsRouteStatus],
        (own, other): (usize, &mut Other<2, TlsRouteSum>),
    ) {
        if routes.is_empty() {
            return;
        }
        let all = routes
            .iter()
            .map(|it| ([it.name.listener.as_str(), it.name.route.as_str()], TlsRouteSum::of(it)));
        let rows = fold(all, own, other);
        let figures: [(Family, Figure); 4] = [
            (CONNECTIONS, |it| it.counts[0]),
            (OPEN, TlsRouteSum::open),
            (RECEIVED, |it| it.counts[2]),
            (SENT, |it| it.counts[3]),
        ];
        for (family, figure) in figures {
            self.begin(family);
            for ([listener, route], sum) in &rows {
                let labels = [("listener", *listener), ("route", *route)];
                self.sample(family.name, &labels, figure(sum));
            }
        }
        self.begin(FAILURES);
        for ([listener, route], sum) in &rows {
            for (reason, count) in TlsFailure::ALL.into_iter().zip(sum.failures) {
                let labels =
                    [("listener", *listener), ("route", *route), ("reason", reason.name())];
                self.sample(FAILURES.name, &labels, count);
            }
        }
    }
}
