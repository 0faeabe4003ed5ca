//! What rate limits, and faults on purpose, require of the routes that they apply to.

use crate::diagnostic::Diagnostic;
use crate::gateway::ConfigFields;
use crate::limits::beyond_share;
use crate::policy::{Credential, Policies, Policy, PolicyId, PolicyKind, RateKey, RouteCost};
use crate::read::{At, Reading};
use crate::readers::Named;
use crate::route_fields::RouteDraft;
use crate::suggest;
use crate::token::Name;
use std::collections::{HashMap, HashSet};

/// Whether requests that are counted by their API keys, or by what their tokens say, have to have any.
pub(super) fn check_counted(fields: &ConfigFields, in_force: &[Policies], to: &mut Reading<'_>) {
    let of = |id: Option<PolicyId>| fields.policies[id?.index()].value.as_ref();
    for (route, policies) in fields.routes.iter().zip(in_force) {
        let (Some(route), Some(Policy::RateLimit(limit))) = (route, of(policies.rate_limit)) else {
            continue;
        };
        let has_keys = matches!(of(policies.authorise), Some(Policy::Authorise(it))
            if it.api_keys.is_some() && !it.is_choice(Credential::ApiKeys));
        if limit.key.contains(&RateKey::ApiKey) && !has_keys {
            let error = Diagnostic::error(
                route.place,
                "this rate limit counts by API key, but no policy \
                    checks API keys",
            );
            let error = error.label("a rate limit with the key `api_key` applies to this route");
            to.add(
                error.help("apply an `authorise` policy with `api_keys`, or another rate limit"),
            );
        }
        let by_claim = limit.key.iter().any(|part| matches!(part, RateKey::Claim(_)));
        if by_claim && policies.jwt.is_none() {
            let error = Diagnostic::error(
                route.place,
                "this rate limit counts by claim, but no policy checks tokens",
            );
            let error = error.label("a rate limit with a `claim` in its key applies to this route");
            to.add(error.help("apply a `jwt` policy, or another rate limit"));
        }
    }
}

/// Whether one client may have the bodies in memory that routes hold.
pub(super) fn check_retry_bodies(fields: &ConfigFields, to: &mut Reading<'_>) {
    let Some(limits) = &fields.limits else { return };
    for At { value: most, span } in
        fields.routes.iter().flatten().filter_map(RouteDraft::retry_body)
    {
        let memory = ("limits.request_memory", limits.request_memory);
        if let Some(warning) = beyond_share(("retry_body", *most), *span, memory) {
            to.add(warning);
        }
    }
}

/// Whether the routes that rate limits have costs for are there and meet them.
pub(super) fn check_costs(fields: &ConfigFields, in_force: &[Policies], to: &mut Reading<'_>) {
    let mut limits: HashMap<String, [Option<PolicyId>; 2]> = HashMap::new();
    for (route, policies) in fields.routes.iter().zip(in_force) {
        let Some(route) = route else { return };
        let of_route = [policies.early_limit, policies.rate_limit];
        limits.insert(route.name().as_str().to_owned(), of_route);
    }
    for (index, Named { key: policy, value, .. }) in fields.policies.iter().enumerate() {
        let Some(limit) = value.as_ref().and_then(Policy::rate_limit) else { continue };
        for RouteCost { route, span, .. } in &limit.costs {
            let (message, label) = match limits.get(route.as_str()) {
                Some(ids) if ids.iter().flatten().any(|id| id.index() == index) => continue,
                Some(_) => (
                    format!("the policy `{policy}` does not apply to the route `{route}`"),
                    "no effect",
                ),
                None => (format!("there is no route `{route}`"), "not found in `routes`"),
            };
            let error = Diagnostic::error(*span, message).label(label);
            let near = to.did_you_mean(route.as_str(), limits.keys().map(String::as_str));
            let near = near.filter(|_| !limits.contains_key(route.as_str()));
            to.add(near.into_iter().fold(error, Diagnostic::help));
        }
    }
}

/// Whether each part of a path that a rate limit counts by is captured by some route that it is applied to.
pub(super) fn check_params(fields: &ConfigFields, in_force: &[Policies], to: &mut Reading<'_>) {
    for (index, Named { key: policy, key_span, value }) in fields.policies.iter().enumerate() {
        let Some(limit) = value.as_ref().and_then(Policy::rate_limit) else { continue };
        let Some(routes) = routes_under(index, fields, in_force) else { continue };
        for param in limit.key.iter().filter_map(RateKey::param) {
            let captures = |route: &&RouteDraft| route.path.params().any(|it| it == param);
            if routes.iter().any(captures) {
                continue;
            }
            let message = format!("no path has the parameter `{param}` that `{policy}` counts by");
            let error = Diagnostic::error(*key_span, message);
            let error = error.label("it would count all requests together");
            let others = routes.iter().flat_map(|route| route.path.params());
            to.add(match suggest::nearest(param, others) {
                Some(near) => error.help(format!("did you mean `{near}`?")),
                None => error.help(format!(
                    "apply it to a route whose path has `{{{param}}}`, such as `/a/{{{param}}}`"
                )),
            });
        }
    }
}

/// Whether what gives requests other rates, or exempts them from a rate limit, can be known on some route that it is applied to.
pub(super) fn check_plans_and_exemptions(
    fields: &ConfigFields,
    in_force: &[Policies],
    to: &mut Reading<'_>,
) {
    for (index, Named { key: policy, key_span, value }) in fields.policies.iter().enumerate() {
        let Some(limit) = value.as_ref().and_then(Policy::rate_limit) else { continue };
        let beside: Vec<_> = in_force.iter().filter(|it| meets(it, index)).collect();
        if beside.is_empty() {
            continue;
        }
        let mut fail = |message: String, label: &str, help: &str| {
            let error = Diagnostic::error(*key_span, message).label(label.to_owned());
            to.add(error.help(help.to_owned()));
        };
        let has_tokens = beside.iter().any(|it| it.jwt.is_some());
        if limit.plans.is_some() && !has_tokens {
            let message = format!(
                "`{policy}` has plans by claim, but no policy checks tokens on these routes"
            );
            fail(message, "they never apply", "apply a `jwt` policy to the same routes");
        }
        let Some(exempt) = &limit.exempt else { continue };
        if !exempt.claims.is_empty() && !has_tokens {
            let message =
                format!("`{policy}` exempts by claim, but no policy checks tokens on these routes");
            fail(message, "this exempts nobody", "apply a `jwt` policy to the same routes");
        }
        for name in unknown_keys(&exempt.api_keys, &beside, fields) {
            let message = format!(
                "`{policy}` exempts the API key `{name}`, which does not exist on these routes"
            );
            fail(
                message,
                "this exempts nobody",
                "name a key in `authorise.api_keys` of the same routes",
            );
        }
    }
}

/// Whether the API keys whose requests may fail on purpose exist on some route.
pub(super) fn check_faults(fields: &ConfigFields, in_force: &[Policies], to: &mut Reading<'_>) {
    for (index, Named { key: policy, key_span, value }) in fields.policies.iter().enumerate() {
        let Some(Policy::Fault(fault)) = value else { continue };
        let beside: Vec<_> = in_force.iter().filter(|it| meets(it, index)).collect();
        if beside.is_empty() {
            continue;
        }
        for name in unknown_keys(&fault.api_keys, &beside, fields) {
            let message = format!(
                "`{policy}` names the API key `{name}`, which does not exist on these routes"
            );
            let error = Diagnostic::error(*key_span, message).label("no request fails for it");
            to.add(error.help("name a key in `authorise.api_keys` of the same routes"));
        }
    }
}

/// Those of the names that no policy in force checks an API key of. A file may have any.
fn unknown_keys<'n>(
    names: &'n [Name],
    in_force: &[&Policies],
    fields: &ConfigFields,
) -> Vec<&'n Name> {
    let keys = |place: usize| match &fields.policies[place].value {
        Some(Policy::Authorise(authorise)) => authorise.api_keys.as_ref(),
        _ => None,
    };
    // Many routes may meet the same one.
    let places = in_force.iter().filter_map(|it| Some(it.authorise?.index()));
    let places: HashSet<_> = places.collect();
    let keys: Vec<_> = places.into_iter().filter_map(keys).collect();
    if keys.iter().any(|keys| keys.file.is_some()) {
        return Vec::new();
    }
    let known: HashSet<_> =
        keys.iter().flat_map(|keys| &keys.keys).map(|key| key.name.as_str()).collect();
    names.iter().filter(|name| !known.contains(name.as_str())).collect()
}

/// The routes whose requests meet the policy at that place; nothing where there are none, or where some could not be read.
fn routes_under<'f>(
    policy: usize,
    fields: &'f ConfigFields,
    in_force: &[Policies],
) -> Option<Vec<&'f RouteDraft>> {
    let routes = fields.routes.iter().zip(in_force);
    let routes = routes.filter(|(_, policies)| meets(policies, policy));
    let routes: Vec<_> = routes.map(|(route, _)| route.as_ref()).collect::<Option<_>>()?;
    (!routes.is_empty()).then_some(routes)
}

/// Whether a policy is among those in force.
fn meets(in_force: &Policies, policy: usize) -> bool {
    PolicyKind::ALL.iter().filter_map(|kind| in_force.of(*kind)).any(|id| id.index() == policy)
}
