//! Failures while the gateway serves, reported on standard error: the same one at most once a minute.

use crate::terminal;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt::Write;
use std::time::{Duration, Instant};
use titan_proxy::{Event, Gateway, UpstreamFailure};

/// What was reported lately. Its size is bounded by upstreams, causes and listeners, which the configuration has, and
/// by lists of certificates and sets of keys, which it names.
#[derive(Default)]
pub(crate) struct Failures {
    reported: HashMap<String, Reported>,
    /// Which warnings about lists and keys were printed lately, and when.
    warned: HashMap<String, Instant>,
}

/// What was reported of one place.
struct Reported {
    reason: String,
    when: Instant,
    /// How often the same has happened since without a line.
    unreported: u64,
}

/// How long the same failure is not reported again.
const QUIET: Duration = Duration::from_secs(60);
/// How long the same warning about a revocation list or a key set is not repeated.
const LONG: Duration = Duration::from_secs(3600);

impl Failures {
    /// Reports what has gone wrong since the last call.
    pub(crate) fn look(&mut self, gateway: &Gateway, now: Instant) {
        for failure in &gateway.upstream_failures() {
            // The reason is not compared: endpoints that fail in turn have one each.
            let place = format!("upstream `{}`: {}", failure.upstream, failure.code);
            self.tell(&place, "", &described(failure), failure.count, now);
        }
        let (events, more) = gateway.upstream_events();
        events.iter().for_each(|event| terminal::event(&decided(event)));
        if more > 0 {
            terminal::event(&format!("{more} further decisions about upstreams"));
        }
        gateway.metrics().pressure.take_lines().iter().for_each(|line| terminal::event(line));
        for (name, reason) in &gateway.refused_certificates() {
            self.tell(&format!("listener `{name}`"), reason, reason, 1, now);
        }
        self.warn(gateway.warnings(), now);
        self.warn(gateway.key_failures(), now);
    }

    /// Warns of lasting conditions.
    pub(crate) fn warn(&mut self, warnings: Vec<String>, now: Instant) {
        self.warned.retain(|_, when| now.duration_since(*when) < LONG);
        for warning in warnings {
            if let Entry::Vacant(place) = self.warned.entry(warning) {
                terminal::event(place.key());
                place.insert(now);
            }
        }
    }

    fn tell(&mut self, place: &str, reason: &str, what: &str, count: u64, now: Instant) {
        if let Some(line) = self.line(place, reason, what, count, now) {
            terminal::event(&line);
        }
    }

    /// The line for `count` failures at that place, unless the same was reported a moment ago.
    fn line(
        &mut self,
        place: &str,
        reason: &str,
        what: &str,
        count: u64,
        now: Instant,
    ) -> Option<String> {
        let mut more = count.saturating_sub(1);
        if let Some(told) = self.reported.get_mut(place).filter(|told| told.reason == reason) {
            if now.duration_since(told.when) < QUIET {
                told.unreported += count;
                return None;
            }
            more += told.unreported;
        }
        let reported = Reported { reason: reason.to_owned(), when: now, unreported: 0 };
        self.reported.insert(place.to_owned(), reported);
        let more = if more > 0 { format!("; {more} more like it") } else { String::new() };
        Some(format!("{place}: {what}{more}"))
    }
}

fn decided(Event { upstream, what }: &Event) -> String {
    format!("upstream `{upstream}`: {what}")
}

/// The reason, and whose request was the first to meet it.
fn described(failure: &UpstreamFailure) -> String {
    let UpstreamFailure { upstream: _, code: _, what, route, request, count: _ } = failure;
    let mut text = what.trim_end_matches('.').to_owned();
    if let Some(route) = route {
        let _ = write!(text, "; route `{route}`");
    }
    if let Some(request) = request {
        let _ = write!(text, "; request {request}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_for_each_place_and_minute_has_the_count() {
        let (mut failures, start) = (Failures::default(), Instant::now());
        let mut line = |place: &str, reason: &str, count, seconds| {
            let now = start + Duration::from_secs(seconds);
            failures.line(place, reason, "it is down", count, now)
        };
        let told = |text: &str| Some(text.to_owned());
        assert_eq!(line("a", "", 1, 0), told("a: it is down"));
        assert_eq!(line("b", "", 5, 0), told("b: it is down; 4 more like it"));
        assert_eq!(line("a", "", 70, 2), None);
        assert_eq!(line("a", "", 3, 59), None);
        assert_eq!(line("a", "", 2, 60), told("a: it is down; 74 more like it"));
        assert_eq!(line("a", "", 1, 61), None);
        assert_eq!(line("a", "another", 1, 62), told("a: it is down"));
    }

    #[test]
    fn a_failure_is_described_with_route_and_request() {
        let mut failure = UpstreamFailure {
            upstream: "api".to_owned(),
            code: "connect",
            what: "10.0.0.1:80: Connection refused (os error 111)".to_owned(),
            route: Some("shop".to_owned()),
            request: Some("4f2a".to_owned()),
            count: 1,
        };
        let wanted = "10.0.0.1:80: Connection refused (os error 111); route `shop`; request 4f2a";
        assert_eq!(described(&failure), wanted);
        (failure.what, failure.route, failure.request) = ("None.".to_owned(), None, None);
        assert_eq!(described(&failure), "None");
    }
}
