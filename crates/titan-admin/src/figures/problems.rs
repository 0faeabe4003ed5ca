//! What is wrong at the moment, in sentences: what it is about, since when, and why.

use super::tally::as_figure;
use crate::reloads::{Attempts, Subject};
use serde::Serialize;
use std::collections::HashMap;
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use time::OffsetDateTime;
use titan_proxy::{
    BreakerNow, BreakerState, CertificateStatus, Condition, KeySetStatus, MemberStatus,
    PressureLevel, UpstreamStatus,
};

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Problem {
    pub(super) severity: Severity,
    pub(super) about: About,
    /// Unix time; nothing where that is not known.
    pub(super) since: Option<f64>,
    pub(super) text: String,
}

/// How bad it is. Errors come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Severity {
    /// Requests fail, or will without a doubt.
    Error,
    Warning,
}

/// What it is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub(super) struct About {
    pub(super) kind: &'static str,
    pub(super) name: String,
}

/// How many are told. Of those beyond only the number is.
const MOST: usize = 50;

/// A problem, up to the moment when it began.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Draft {
    severity: Severity,
    about: About,
    /// What stands before that moment, and what behind it.
    text: [String; 2],
}

impl Draft {
    fn new(
        severity: Severity,
        (kind, name): (&'static str, &str),
        before: String,
        behind: impl Into<String>,
    ) -> Draft {
        let about = About { kind, name: name.to_owned() };
        Draft { severity, about, text: [before, behind.into()] }
    }

    /// A problem that began then, if that is known.
    fn since(self, since: Option<SystemTime>, now: SystemTime) -> Problem {
        let Draft { severity, about, text: [before, behind] } = self;
        let moment = since.map_or_else(String::new, |it| format!(" since {}", clock(it, now)));
        Problem {
            severity,
            about,
            since: since.map(unix),
            text: format!("{before}{moment}{behind}"),
        }
    }
}

impl Problem {
    fn new(severity: Severity, kind: &'static str, name: &str, text: String) -> Problem {
        Draft::new(severity, (kind, name), text, "").since(None, UNIX_EPOCH)
    }
}

/// The worst first, and no more than can be read.
pub(super) fn sorted(mut problems: Vec<Problem>) -> Vec<Problem> {
    problems.sort_by_key(|problem| problem.severity);
    let more = problems.len().saturating_sub(MOST);
    if more > 0 {
        problems.truncate(MOST);
        let text = format!("{more} more problems are not shown here");
        problems.push(Problem::new(Severity::Warning, "gateway", "", text));
    }
    problems
}

/// What is wrong with an upstream.
pub(super) fn of_upstream(upstream: &UpstreamStatus, now: SystemTime) -> Vec<Problem> {
    let UpstreamStatus { name, panics, breaker, concurrency, endpoints, .. } = upstream;
    let draft = |severity, before: &str, behind: String| {
        Draft::new(severity, ("upstream", name), format!("upstream `{name}`: {before}"), behind)
    };
    let problem = |severity, text: &str| draft(severity, text, String::new()).since(None, now);
    let mut problems = Vec::new();
    let total = endpoints.len();
    let is_out = |member: &MemberStatus| {
        member.endpoint.condition != Condition::Healthy || opened(member.breaker.as_ref())
    };
    let severity = match endpoints.iter().all(is_out) {
        true => Severity::Error,
        false => Severity::Warning,
    };
    if total == 0 {
        problems.push(problem(Severity::Error, "it has no endpoint"));
    }
    for condition in [Condition::Unhealthy, Condition::Ejected, Condition::Draining] {
        let affected = endpoints.iter().filter(|it| it.endpoint.condition == condition);
        let affected: Vec<_> = affected.map(|it| it.endpoint.story.reason()).collect();
        if affected.is_empty() {
            continue;
        }
        let reasons = affected.iter().flatten();
        let since = reasons.clone().map(|reason| reason.since).min();
        let why = whys(reasons.map(|reason| reason.why.as_str()));
        let text = format!("{} {}", count(affected.len(), total), condition.as_str());
        problems.push(draft(severity, &text, why).since(since, now));
    }
    let own = endpoints.iter().filter_map(|it| it.breaker.as_ref()).filter(|it| opened(Some(it)));
    let own: Vec<_> = own.collect();
    if !own.is_empty() {
        let since = own.iter().map(|breaker| now - breaker.lasted).min();
        let causes = own.iter().filter_map(|it| it.figures.cause.as_ref());
        let causes: Vec<_> = causes.map(ToString::to_string).collect();
        let why = whys(causes.iter().map(String::as_str));
        let text = format!("circuit breaker open at {}", count(own.len(), total));
        problems.push(draft(severity, &text, why).since(since, now));
    }
    if let Some(BreakerNow { status, figures, lasted, .. }) = breaker {
        let state = match status.state {
            BreakerState::Closed => None,
            BreakerState::Open => Some((Severity::Error, "open")),
            BreakerState::HalfOpen => Some((Severity::Warning, "half-open")),
        };
        if let Some((severity, state)) = state {
            let cause = figures.cause.as_ref().map_or_else(String::new, |it| format!(", {it}"));
            let text = format!("its circuit breaker is {state}");
            problems.push(draft(severity, &text, cause).since(Some(now - *lasted), now));
        }
    }
    if *panics && total > 0 {
        let text = "too few endpoints can take requests, so they go to all of them";
        problems.push(problem(Severity::Error, text));
    }
    if let Some(concurrency) = concurrency.filter(|it| it.is_overloaded) {
        let (running, limit) = (concurrency.running, concurrency.limit);
        let text = format!("it is overloaded: {running} requests run, and {limit} may");
        problems.push(problem(Severity::Warning, &text));
    }
    problems
}

fn opened(breaker: Option<&BreakerNow>) -> bool {
    breaker.is_some_and(|it| it.status.state == BreakerState::Open)
}

fn count(affected: usize, total: usize) -> String {
    match (affected, total) {
        (1, 1) => "its only endpoint".to_owned(),
        (_, 1..) if affected == total => format!("all {total} endpoints"),
        (1, _) => format!("1 of {total} endpoints"),
        _ => format!("{affected} of {total} endpoints"),
    }
}

/// The first reason, and whether there are others.
fn whys<'w>(mut whys: impl Iterator<Item = &'w str>) -> String {
    let Some(first) = whys.next() else { return String::new() };
    let others = if whys.any(|why| why != first) { ", and others" } else { "" };
    format!(", {first}{others}")
}

/// What is wrong with a certificate, or soon will be.
pub(super) fn of_certificate(certificate: &CertificateStatus, now: SystemTime) -> Option<Problem> {
    let CertificateStatus { listener, validity } = certificate;
    let text = validity.warning_now()?;
    #[expect(clippy::cast_precision_loss, reason = "a moment to the second")]
    let (from, until, now) = (validity.begins() as f64, validity.expires() as f64, unix(now));
    let is_valid = from <= now && now < until;
    let severity = if is_valid { Severity::Warning } else { Severity::Error };
    let text = format!("listener `{listener}`: {text}");
    let problem = Problem::new(severity, "certificate", listener, text);
    Some(Problem { since: (now >= until).then_some(until), ..problem })
}

/// What is wrong with the configuration.
pub(super) fn of_attempts(attempts: &Attempts, now: SystemTime) -> Vec<Problem> {
    let Attempts { refused_last, last, is_on_trial, confirm_until, unsaved, .. } = attempts;
    let warning = |kind, text| Problem::new(Severity::Warning, kind, "", text);
    let mut problems = Vec::new();
    if let Some(subject) = refused_last {
        let when = last.map_or_else(String::new, |last| format!(" at {}", clock(last, now)));
        let text = match subject {
            Subject::Configuration => {
                format!("another configuration was refused{when}: the one from before is in force")
            }
            Subject::Files => format!(
                "changed files were refused{when}: what was read from them before is in use"
            ),
        };
        problems.push(Problem { since: last.map(unix), ..warning("reload", text) });
    }
    if *is_on_trial {
        let until = match confirm_until {
            Some(until) => {
                format!("is taken back at {} unless it is confirmed", clock(*until, now))
            }
            None => "is taken back if requests fare worse than before".to_owned(),
        };
        problems
            .push(warning("trial", format!("the configuration in force is on trial: it {until}")));
    }
    if *unsaved > 0 {
        let text = format!("{unsaved} configurations of the history are not on the disk");
        problems.push(warning("history", text));
    }
    problems
}

/// A key set that no token can be checked with.
pub(super) fn of_key_set(set: &KeySetStatus) -> Option<Problem> {
    let KeySetStatus { policy, issuer, keys, failed, .. } = set;
    let of = if issuer.is_empty() { String::new() } else { format!(" of {issuer}") };
    let text = format!(
        "policy `{policy}`: there are no keys{of}, so tokens are refused; fetching them has failed {failed} times"
    );
    (*keys == 0 && *failed > 0).then(|| Problem::new(Severity::Error, "key_set", policy, text))
}

/// Descriptors and memory, each as a share of what there may be.
pub(super) fn of_pressure(level: PressureLevel, shares: [f64; 2]) -> Option<Draft> {
    let what = match level {
        PressureLevel::None => return None,
        PressureLevel::StopKeepAlive => "connections close after their response",
        PressureLevel::Shed => "sheddable requests are refused",
        PressureLevel::StopAccepting => "no connection is accepted",
    };
    let severity = match level {
        PressureLevel::None | PressureLevel::StopKeepAlive => Severity::Warning,
        PressureLevel::Shed | PressureLevel::StopAccepting => Severity::Error,
    };
    let [descriptors, memory] = shares.map(percent);
    let text =
        format!("{descriptors} of the descriptors and {memory} of the memory are in use: {what}");
    Some(Draft::new(severity, ("pressure", ""), text, ""))
}

/// A worker that is late, or has no time left. `busy` is the share of a core.
pub(super) fn of_worker(worker: usize, busy: Option<f64>, lag: Duration) -> Option<Draft> {
    const LATE: Duration = Duration::from_millis(100);
    const SATURATED: f64 = 0.95;
    let text = match busy.filter(|busy| *busy >= SATURATED) {
        _ if lag >= LATE => format!("its timers are {lag:.1?} late"),
        Some(busy) => format!("it uses {} of a core", percent(busy)),
        None => return None,
    };
    let name = worker.to_string();
    let about = ("worker", name.as_str());
    Some(Draft::new(Severity::Warning, about, format!("worker {worker}: {text}"), ""))
}

/// An access log that fails, for that reason, or takes lines too slowly; and how many it lacks.
pub(super) fn of_log(name: &str, fault: Option<String>, dropped: u64) -> Draft {
    let why = fault.unwrap_or_else(|| "it takes lines too slowly".to_owned());
    let lost = format!("; {dropped} lines are lost so far");
    let text = format!("access log `{name}`: {why}");
    Draft::new(Severity::Warning, ("access_log", name), text, lost)
}

/// What was dropped in the last seconds before it could be written.
pub(super) fn of_drops(what: &'static str, dropped: u64) -> Option<Draft> {
    let text = format!("{what} are dropped");
    let count = format!(", {dropped} in the last seconds");
    (dropped > 0).then(|| Draft::new(Severity::Warning, ("dropped", what), text, count))
}

/// A route whose requests fail: so many errors among so many requests, in so many seconds.
pub(super) fn of_route(
    route: &str,
    (errors, requests, seconds): (u64, u64, f64),
    since: Option<SystemTime>,
    now: SystemTime,
) -> Option<Problem> {
    if !fails(errors, requests) {
        return None;
    }
    let share = as_figure(errors) / as_figure(requests);
    let severity = if share >= 0.25 { Severity::Error } else { Severity::Warning };
    let text = format!("route `{route}`: {} of the responses are errors", percent(share));
    let [errors, requests] = [errors, requests].map(|it| as_figure(it) / seconds);
    let rates = format!(", {errors:.1} of {requests:.1} a second");
    Some(Draft::new(severity, ("route", route), text, rates).since(since, now))
}

/// Whether that is worth a word: one in twenty, and not just a single one.
fn fails(errors: u64, requests: u64) -> bool {
    errors >= 3 && errors.saturating_mul(20) >= requests
}

/// Whether one in twenty fails.
pub(super) fn is_failing(errors: f32, rate: f32) -> bool {
    errors > 0.0 && errors * 20.0 >= rate
}

/// Notes when each of these began that do not know it themselves.
pub(super) fn dated(
    drafts: impl Iterator<Item = Draft>,
    since: &mut HashMap<About, SystemTime>,
    now: SystemTime,
) -> Vec<Problem> {
    let mut kept = HashMap::new();
    let dated = drafts.map(|draft| {
        let began = since.get(&draft.about).copied().unwrap_or(now);
        kept.insert(draft.about.clone(), began);
        draft.since(Some(began), now)
    });
    let dated = dated.collect();
    *since = kept;
    dated
}

pub(super) fn unix(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

fn percent(share: f64) -> Percent {
    Percent(share * 100.0)
}

struct Percent(f64);

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Percent(percent) = self;
        match *percent < 10.0 {
            true => write!(f, "{percent:.1}%"),
            false => write!(f, "{percent:.0}%"),
        }
    }
}

/// The time of the day, with the day where that is another one.
fn clock(time: SystemTime, now: SystemTime) -> String {
    let [time, now] = [time, now].map(OffsetDateTime::from);
    let (hour, minute) = (time.hour(), time.minute());
    match time.date() == now.date() {
        true => format!("{hour:02}:{minute:02} UTC"),
        false => format!("{} {hour:02}:{minute:02} UTC", time.date()),
    }
}
