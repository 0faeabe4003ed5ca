//! Limits on requests before authentication.

use super::rate_limit::{self, Exempt, RateKey, RateLimit};
use crate::diagnostic::Diagnostic;
use crate::read::Read;

/// A rate limit that applies before authentication.
pub type EarlyLimit = RateLimit;

pub(super) fn policy() -> impl Read<Value = EarlyLimit> {
    rate_limit::policy().then(|limit, node, to| {
        let by_key = limit.key.iter().filter_map(RateKey::judged);
        let by_key = by_key.map(|what| ("key", "count", what));
        let by_plan = limit.plans.iter().map(|_| ("plans", "have plans", "claims of tokens"));
        let by_exempt = limit.exempt.iter().flat_map(Exempt::judged);
        let by_exempt = by_exempt.map(|what| ("exempt", "exempt requests", what));
        let mut seen = Vec::new();
        for fault in by_key.chain(by_plan).chain(by_exempt) {
            if seen.contains(&fault) {
                continue;
            }
            seen.push(fault);
            let (key, verb, what) = fault;
            let message = format!("an early limit cannot {verb} by {what}");
            let error = Diagnostic::error(node.key_span(key), message);
            let error = error.label("it runs before they are verified");
            to.add(error.help("use a `rate_limit`, which runs after `jwt` and `authorise`"));
        }
        seen.is_empty().then_some(limit)
    })
}
