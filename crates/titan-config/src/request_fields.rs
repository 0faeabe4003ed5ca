//! The fields of requests that a configuration names: it decides by them, or changes them.

use crate::balance::{Balance, HashKey};
use crate::gateway::Config;
use crate::policy::ValueTemplate;
use crate::route::{Action, Route};
use crate::token::HeaderName;
use crate::upstream::Upstream;

impl Config {
    /// The request fields that something in the file reads or changes, in any order. What upstreams take for one of
    /// these must not come under another name.
    pub fn request_fields(&self) -> Vec<&HeaderName> {
        let of_policies = self.policies.iter().flat_map(|named| named.policy.request_fields());
        let of_routes = self.routes.iter().flat_map(fields_of_route);
        let of_upstreams = self.upstreams.iter().filter_map(field_of_upstream);
        of_policies.chain(of_routes).chain(of_upstreams).collect()
    }
}

fn fields_of_route(route: &Route) -> Vec<&HeaderName> {
    let of_body = match &route.action {
        Action::Respond(respond) => respond.template.as_ref().map(|template| &template.text),
        _ => None,
    };
    let of_proxy = match &route.action {
        Action::Proxy(proxy) => {
            [&proxy.timeouts.deadline_header, &proxy.retries.idempotency_key].map(Option::as_ref)
        }
        _ => [None; 2],
    };
    let of_conditions = route.headers.iter().map(|condition| &condition.name);
    let of_body = of_body.into_iter().flat_map(ValueTemplate::headers);
    of_conditions.chain(of_proxy.into_iter().flatten()).chain(of_body).collect()
}

fn field_of_upstream(upstream: &Upstream) -> Option<&HeaderName> {
    match &upstream.balance {
        Balance::ConsistentHash(HashKey::Header(name)) => Some(name),
        _ => None,
    }
}
