//! Requests that a limit does not count.

use crate::authorise::holds;
use crate::context::PolicyContext;
use crate::findings::Findings;
use serde_json::{Map, Value};
use std::net::IpAddr;
use titan_config::Exempt;

/// Whether one of the things holds by which requests are exempt.
pub(super) fn is_exempt(exempt: &Exempt, context: &PolicyContext<'_>) -> bool {
    let Exempt { addresses, claims, api_keys } = exempt;
    let key = || context.findings.api_key.as_ref().map(|(_, name)| &**name);
    !addresses.is_empty() && has_address(exempt, context.client())
        || !claims.is_empty() && has_claim(exempt, context.findings.claims())
        || !api_keys.is_empty() && has_key(exempt, key())
}

/// Why the requests of such a client are exempt, in words.
pub(super) fn explain(
    exempt: &Exempt,
    client: Option<IpAddr>,
    findings: &Findings,
) -> Option<&'static str> {
    let (claims, api_key) = (findings.claims(), findings.api_key.as_ref().map(|(_, name)| &**name));
    let by_claim = || has_claim(exempt, claims).then_some("the token is exempt by its claims");
    let by_key = || has_key(exempt, api_key).then_some("the API key is exempt");
    let by_address = has_address(exempt, client).then_some("the client's address is exempt");
    by_address.or_else(by_claim).or_else(by_key)
}

fn has_address(exempt: &Exempt, client: Option<IpAddr>) -> bool {
    client.is_some_and(|client| exempt.addresses.iter().any(|block| block.contains(client)))
}

fn has_key(exempt: &Exempt, key: Option<&str>) -> bool {
    key.is_some_and(|key| exempt.api_keys.iter().any(|name| name.as_str() == key))
}

fn has_claim(exempt: &Exempt, claims: Option<&Map<String, Value>>) -> bool {
    claims.is_some_and(|claims| exempt.claims.iter().any(|rule| holds(rule, claims)))
}
