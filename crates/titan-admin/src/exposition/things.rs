//! What a configuration may have any number of: routes, upstreams, endpoints and the like.

use super::breakers::OtherBreakers;
use super::endpoints::{EndpointSum, OF_ENDPOINT};
use super::family::Family;
use super::folding::{Need, Other, share_out};
use super::page::Page;
use super::policies::{KeySet, OF_KEY_SET, PolicySum};
use super::routes::{RouteExemplars, RouteSum};
use super::tls_routes::TlsRouteSum;
use super::upstreams::UpstreamSum;
use super::{breakers, mirrors, policies, routes, tls_routes, upstreams};
use std::sync::Arc;
use titan_proxy::{
    CertificateStatus, Counted, KeySetStatus, Metrics, MirrorStatus, PolicyMetric, RouteCells,
    Status, TlsRouteStatus, UpstreamCells, UpstreamStatus,
};

const SERIES: Family = Family::gauge(
    "titan_metrics_series",
    "Series of this page, but for those that say so; no more than `admin.metrics_series`.",
);

const FOLDED: Family = Family::gauge(
    "titan_metrics_folded",
    "Things whose figures are added up under the name (other), to stay below `admin.metrics_series`.",
);

/// The kinds of things, in the order in which [`Things::needs`] has them.
const KINDS: [&str; 8] =
    ["route", "upstream", "endpoint", "mirror", "policy", "key_set", "certificate", "tls_route"];

/// What those have counted that have no series of their own, from page to page.
#[derive(Default)]
pub(crate) struct Others {
    routes: Other<1, RouteSum>,
    upstreams: Other<1, UpstreamSum>,
    endpoints: Other<2, EndpointSum>,
    breakers: OtherBreakers,
    mirrors: Other<2, MirrorStatus>,
    policies: Other<1, PolicySum>,
    key_sets: Other<2, KeySet>,
    tls_routes: Other<2, TlsRouteSum>,
}

/// All of them.
pub(super) struct Things {
    routes: Vec<Arc<Counted<RouteCells>>>,
    exemplars: RouteExemplars,
    upstreams: Vec<Arc<Counted<UpstreamCells>>>,
    upstreams_now: Vec<UpstreamStatus>,
    mirrors: Vec<MirrorStatus>,
    policies: Vec<PolicyMetric>,
    key_sets: Vec<KeySetStatus>,
    certificates: Arc<Vec<CertificateStatus>>,
    tls_routes: Vec<TlsRouteStatus>,
}

impl Things {
    /// How they are now.
    pub(super) fn of(metrics: &Metrics, status: &Status) -> Things {
        Things {
            routes: status.routes(),
            exemplars: status.exemplars(),
            upstreams: status.upstreams(),
            upstreams_now: status.upstreams_now(),
            mirrors: status.mirrors(),
            policies: metrics.policies(),
            key_sets: status.key_sets(),
            certificates: status.certificates(),
            tls_routes: status.tls_routes(),
        }
    }

    /// Writes about them, so that the page has no more than `most` series in all, as far as that depends on them.
    pub(super) fn write(&self, page: &mut Page, most: usize, others: &mut Others) {
        let needs = self.needs();
        // What is about the page itself, and the requests that no route took.
        let rest = KINDS.len() + 1 + routes::OF_EACH;
        let own = share_out(most.saturating_sub(page.series() + rest), needs);
        let [routes, upstreams, endpoints, mirrors, policies, key_sets, certificates, tls] = own;
        page.routes(&self.routes, &self.exemplars, (routes, &mut others.routes));
        page.upstreams(&self.upstreams, (upstreams, &mut others.upstreams));
        page.concurrency(&self.upstreams_now, upstreams);
        page.endpoints(&self.upstreams_now, (endpoints, &mut others.endpoints));
        page.breakers(&self.upstreams_now, ((upstreams, endpoints), &mut others.breakers));
        page.mirrors(&self.mirrors, (mirrors, &mut others.mirrors));
        page.policies(&self.policies, (policies, &mut others.policies));
        page.key_sets(&self.key_sets, (key_sets, &mut others.key_sets));
        page.certificates(&self.certificates, certificates);
        page.tls_routes(&self.tls_routes, (tls, &mut others.tls_routes));
        page.single(SERIES, page.series());
        page.begin(FOLDED);
        for ((kind, need), own) in KINDS.into_iter().zip(needs).zip(own) {
            page.sample(FOLDED.name, &[("kind", kind)], need.count - own);
        }
    }

    /// How many there are of each kind, but for the requests that no route took, and how many series each has.
    fn needs(&self) -> [Need; KINDS.len()] {
        let upstreams = &self.upstreams_now;
        let endpoints = || upstreams.iter().flat_map(|upstream| &upstream.endpoints);
        let if_any = |is_there: bool, series: usize| if is_there { series } else { 0 };
        let limited = upstreams.iter().any(|it| it.concurrency.is_some());
        let broken = upstreams.iter().any(|it| it.breaker.is_some());
        let of_upstream = upstreams::OF_EACH
            + if_any(limited, upstreams::OF_LIMITED)
            + if_any(broken, breakers::OF_EACH);
        let broken = endpoints().any(|it| it.breaker.is_some());
        let of_endpoint = OF_ENDPOINT.len() + if_any(broken, breakers::OF_EACH);
        let of_mirror = self.mirrors.iter().map(mirrors::series).max().unwrap_or_default();
        let need = |count, each| Need { count, each };
        [
            need(self.routes.len().saturating_sub(1), routes::OF_EACH),
            need(self.upstreams.len(), of_upstream),
            need(endpoints().count(), of_endpoint),
            need(self.mirrors.len(), of_mirror),
            policies::need(&self.policies),
            need(self.key_sets.len(), OF_KEY_SET.len()),
            need(self.certificates.len(), 1),
            need(self.tls_routes.len(), tls_routes::OF_EACH),
        ]
    }
}
