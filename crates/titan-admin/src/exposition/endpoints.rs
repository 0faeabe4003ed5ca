//! How endpoints are doing.

use super::family::Family;
use super::folding::{Now, Other, fold};
use super::page::Page;
use titan_proxy::{Condition, EndpointStatus, UpstreamStatus};

/// In the order of [`of_endpoint`].
pub(super) const OF_ENDPOINT: [Family; 8] = [
    Family::gauge("titan_endpoint_requests_active", "Requests in progress."),
    Family::gauge("titan_endpoint_connections_open", "Open connections, including idle ones."),
    Family::gauge("titan_endpoint_connections_idle", "Idle connections."),
    Family::gauge("titan_endpoint_requests_waiting", "Requests waiting for a connection."),
    Family::gauge(
        "titan_endpoint_healthy",
        "Whether it is neither unhealthy by its probes, nor ejected, nor drained by an operator.",
    ),
    Family::counter("titan_endpoint_ejections_total", "Ejections."),
    Family::counter("titan_endpoint_probes_total", "Probes."),
    Family::counter("titan_endpoint_probes_failed_total", "Probes that failed."),
];

/// The gauges among them, and behind these the counters.
pub(super) type EndpointSum = (Now<5>, [u64; 3]);

impl Page {
    /// So many with series of their own.
    pub(super) fn endpoints(
        &mut self,
        upstreams: &[UpstreamStatus],
        (own, other): (usize, &mut Other<2, EndpointSum>),
    ) {
        let endpoints = upstreams.iter().flat_map(|upstream| {
            let status = upstream.endpoints.iter().map(|member| &member.endpoint);
            status.map(|it| ([it.upstream.as_str(), it.address.as_str()], of_endpoint(it)))
        });
        let rows = fold(endpoints, own, other);
        for (figure, family) in OF_ENDPOINT.into_iter().enumerate() {
            self.begin(family);
            for ([upstream, address], (Now(gauges), counts)) in &rows {
                let labels = [("upstream", *upstream), ("endpoint", *address)];
                let value = gauges.iter().chain(counts).nth(figure).copied();
                self.sample(family.name, &labels, value.unwrap_or_default());
            }
        }
    }
}

/// In the order of [`OF_ENDPOINT`].
fn of_endpoint(status: &EndpointStatus) -> EndpointSum {
    let EndpointStatus { active, open, idle, waiting, condition, story, .. } = status;
    let [active, open, idle, waiting] = [active, open, idle, waiting].map(|it| u64::from(*it));
    let is_healthy = u64::from(*condition == Condition::Healthy);
    let counts = [story.ejections, story.probes, story.probes_failed];
    (Now([active, open, idle, waiting, is_healthy]), counts)
}
