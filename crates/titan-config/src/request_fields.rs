//! The fields of requests that a configuration names: it decides by them, or changes them.

use crate::answer::Respond;
use crate::balance::{Balance, HashKey};
use crate::gateway::Config;
use crate::policy::{Authorise, Policy, RateKey, Rule, Transform, ValuePiece, ValueTemplate};
use crate::route::{Action, Route};
use crate::token::HeaderName;
use crate::upstream::Upstream;

impl Config {
    /// The fields of requests that something in the file looks at or changes, in any order. What upstreams take for
    /// one of these must not come under another name.
    pub fn request_fields(&self) -> Vec<&HeaderName> {
        let of_policies = self.policies.iter().flat_map(|named| fields_of_policy(&named.policy));
        let of_routes = self.routes.iter().flat_map(fields_of_route);
        let of_upstreams = self.upstreams.iter().filter_map(field_of_upstream);
        of_policies.chain(of_routes).chain(of_upstreams).collect()
    }
}

fn fields_of_policy(policy: &Policy) -> Vec<&HeaderName> {
    match policy {
        Policy::Jwt(_) | Policy::Cors(_) | Policy::FailureLimit(_) | Policy::Compress(_) => {
            policy.told_fields()
        }
        Policy::Authorise(authorise) => fields_of_authorisation(authorise),
        Policy::EarlyLimit(limit) | Policy::RateLimit(limit) => {
            limit.key.iter().filter_map(field_of_key).collect()
        }
        Policy::Transform(transform) => fields_of_transform(transform),
    }
}

fn fields_of_authorisation(authorise: &Authorise) -> Vec<&HeaderName> {
    let Authorise { api_keys, rules, forward_auth, .. } = authorise;
    let of_keys = api_keys.iter().map(|keys| &keys.header);
    let of_rules = rules.iter().flat_map(Rule::headers);
    let of_service = forward_auth.iter().flat_map(|service| &service.request_headers);
    let told = authorise.told_fields().into_iter();
    told.chain(of_keys).chain(of_rules).chain(of_service).collect()
}

fn fields_of_transform(transform: &Transform) -> Vec<&HeaderName> {
    let of_conditions = transform.conditions().flat_map(Rule::headers);
    let of_values = transform.values().flat_map(fields_in);
    transform.request_fields().chain(of_values).chain(of_conditions).collect()
}

fn field_of_key(key: &RateKey) -> Option<&HeaderName> {
    match key {
        RateKey::Header(name) => Some(name),
        _ => None,
    }
}

fn fields_of_route(route: &Route) -> Vec<&HeaderName> {
    let of_body = match &route.action {
        Action::Respond(Respond { template: Some(template), .. }) => Some(&template.text),
        _ => None,
    };
    let of_conditions = route.headers.iter().map(|condition| &condition.name);
    of_conditions.chain(of_body.into_iter().flat_map(fields_in)).collect()
}

fn field_of_upstream(upstream: &Upstream) -> Option<&HeaderName> {
    match &upstream.balance {
        Balance::ConsistentHash(HashKey::Header(name)) => Some(name),
        _ => None,
    }
}

/// The fields that a value is put together of.
fn fields_in(template: &ValueTemplate) -> impl Iterator<Item = &HeaderName> {
    template.pieces.iter().filter_map(|piece| match piece {
        ValuePiece::Header(name) => Some(name),
        _ => None,
    })
}
