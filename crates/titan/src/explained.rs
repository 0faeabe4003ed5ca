//! What `titan explain --json` prints, and POST `/explain` responds.

use crate::check;
use serde_json::{Value, json};
use titan_admin::orders::Explained;
use titan_config::Config;
use titan_http::Status;
use titan_proxy::{Explanation, Forwarded, Outcome};

/// An explanation, to be shown elsewhere, with stars in place of secrets.
pub(crate) fn shown(explanation: &Explanation, config: &Config) -> Explained {
    let text = config.mask(explanation.to_string());
    Explained { text, json: check::masked(as_json(&explanation.outcome), config) }
}

/// The shape is an interface: keys are added and never change.
fn as_json(outcome: &Outcome) -> Value {
    let Outcome { route, action, upstreams, received, forwarded, status, code, location, policies } =
        outcome;
    let policies: Vec<_> = policies
        .iter()
        .map(|(kind, verdict)| json!({ "policy": kind.as_str(), "verdict": verdict.as_str() }))
        .collect();
    let forwarded = forwarded.as_ref().map(|Forwarded { path, query, host, fields }| {
        json!({ "path": path, "query": query, "host": host, "headers": fields })
    });
    json!({
        "route": route,
        "action": action,
        "upstreams": upstreams,
        "received": received,
        "forwarded": forwarded,
        "status": status.map(Status::code),
        "code": code,
        "location": location,
        "policies": policies,
    })
}
