//! What access logs require of the rest of the file, and of each other.

use crate::access_log::{AccessLogDraft, Captures};
use crate::bounds::MAX_CAPTURES;
use crate::diagnostic::Diagnostic;
use crate::gateway::ConfigFields;
use crate::location::Span;
use crate::policy::Policy;
use crate::read::{At, Reading};
use std::collections::{HashMap, HashSet};

pub(super) fn check_access_logs(fields: &ConfigFields, to: &mut Reading<'_>) {
    let logs: Vec<&AccessLogDraft> = fields.access_log.iter().flatten().collect();
    check_targets(&logs, to);
    check_log_routes(&logs, fields, to);
    check_number(&logs, to);
    check_claims(&logs, fields, to);
}

/// Whether each collector gets anything.
pub(super) fn check_collectors(fields: &ConfigFields, to: &mut Reading<'_>) {
    for collector in &fields.otlp {
        // What should have used it may be what an error is about.
        if !to.has_errors() && !to.declared.collectors.is_used(collector.key.as_str()) {
            let message = format!("nothing is sent to the collector `{}`", collector.key);
            let warning = Diagnostic::warning(collector.key_span, message);
            let help = format!(
                "add `tracing: {0}`, or a log: `access_log: {{ otlp: {0} }}`",
                collector.key
            );
            to.add(warning.label("neither `tracing` nor an access log names it").help(help));
        }
    }
}

/// Whether each has what it writes to for itself.
fn check_targets(logs: &[&AccessLogDraft], to: &mut Reading<'_>) {
    let mut seen: HashMap<String, Span> = HashMap::new();
    for log in logs {
        let Some(target) = log.exclusive() else { continue };
        if let Some(first) = seen.get(&target) {
            let error = Diagnostic::error(log.target, format!("two access logs write to {target}"));
            to.add(error.label("here again").also(*first, "first here"));
        } else {
            seen.insert(target, log.target);
        }
    }
}

fn check_log_routes(logs: &[&AccessLogDraft], fields: &ConfigFields, to: &mut Reading<'_>) {
    if fields.routes.iter().any(Option::is_none) {
        // One that could not be read may be the one that is meant.
        return;
    }
    let names = fields.routes.iter().flatten().map(|route| route.name().as_str().to_owned());
    let names: HashSet<String> = names.collect();
    for At { value: route, span } in logs.iter().flat_map(|log| &log.routes) {
        if names.contains(route.as_str()) {
            continue;
        }
        let error = Diagnostic::error(*span, format!("there is no route `{route}`"));
        let error = error.label("not found in `routes`");
        let near = to.did_you_mean(route.as_str(), names.iter().map(String::as_str));
        to.add(near.into_iter().fold(error, Diagnostic::help));
    }
}

/// Whether a record has room for all that is captured.
fn check_number(logs: &[&AccessLogDraft], to: &mut Reading<'_>) {
    let mut all = Captures::default();
    for log in logs {
        all.add(&log.log.captures);
        let Captures { request_headers, response_headers, claims } = &all;
        let counts = [
            ("request headers", request_headers.len()),
            ("response headers", response_headers.len()),
            ("claims", claims.len()),
        ];
        if let Some((what, _)) = counts.into_iter().find(|(_, count)| *count > MAX_CAPTURES) {
            let message = format!("access logs name more than {MAX_CAPTURES} {what}");
            let error = Diagnostic::error(log.target, message);
            to.add(
                error.label("this one exceeds the limit").help("those of all access logs count"),
            );
            return;
        }
    }
}

/// Whether there are tokens whose claims could be logged.
fn check_claims(logs: &[&AccessLogDraft], fields: &ConfigFields, to: &mut Reading<'_>) {
    // A policy that could not be read may have been one.
    let may_check = |policy: &Option<Policy>| matches!(policy, Some(Policy::Jwt(_)) | None);
    if fields.policies.iter().any(|it| may_check(&it.value)) {
        return;
    }
    for log in logs.iter().filter(|log| !log.log.captures.claims.is_empty()) {
        let message = "this access log names claims of tokens, but no policy checks tokens";
        let error = Diagnostic::error(log.target, message);
        to.add(
            error
                .label("there are never any claims")
                .help("add a `jwt` policy, or remove the claims"),
        );
    }
}
