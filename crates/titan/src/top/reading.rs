//! What a gateway said at one moment: its metrics, and how its upstreams are doing. Pure.
//!
//! What is missing stays unknown, and what is not known here is passed over: the gateway may be of another version.

use super::samples::{self, BadLine, Sample};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::{Instant, SystemTime};

/// A picture of a gateway.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    /// When it was taken, to measure how long the next one took.
    pub(super) at: Instant,
    /// The same for people.
    pub(super) time: SystemTime,
    pub(super) counts: Counts,
    /// Nothing where the gateway does not tell this caller.
    pub(super) upstreams: Option<Vec<Upstream>>,
}

/// What its metrics say. Each count goes by the name that it is about.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Counts {
    /// Those of the process as a whole, by metric; with its labels where it has some.
    pub(super) single: BTreeMap<String, f64>,
    pub(super) version: Option<String>,
    /// Labels `route`, then by metric; classes are `2xx` and so on.
    pub(super) routes: BTreeMap<String, Group>,
    pub(super) upstreams: BTreeMap<String, Group>,
    /// By upstream and address.
    pub(super) endpoints: BTreeMap<(String, String), Group>,
    pub(super) workers: BTreeMap<String, Group>,
    /// Failed exchanges by problem code.
    pub(super) failures: BTreeMap<String, f64>,
}

/// What is counted of one thing.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Group {
    /// By metric; [`REQUESTS`] by class instead.
    pub(super) counts: BTreeMap<String, f64>,
    /// How long its requests, or attempts, took.
    pub(super) durations: Buckets,
}

/// The buckets of a histogram: upper bounds in seconds, and how many were at most that.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Buckets(pub(super) Vec<(f64, f64)>);

/// How an upstream is doing.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Upstream {
    pub(super) name: String,
    pub(super) panic: bool,
    pub(super) breaker: Option<Breaker>,
    pub(super) endpoints: Vec<Endpoint>,
}

/// How a circuit breaker is doing.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Breaker {
    pub(super) state: String,
    pub(super) why: Option<String>,
    pub(super) since: Option<String>,
    pub(super) ends_in_seconds: Option<f64>,
}

/// How an endpoint is doing.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Endpoint {
    pub(super) address: String,
    pub(super) state: String,
    pub(super) why: Option<String>,
    pub(super) since: Option<String>,
    pub(super) reasons: Vec<Reason>,
    pub(super) breaker: Option<Breaker>,
    pub(super) requests: u64,
    pub(super) failures: u64,
    pub(super) ejections: u64,
    pub(super) latency_seconds: Option<f64>,
    pub(super) requests_active: u32,
    pub(super) requests_waiting: u32,
    pub(super) connections_open: u32,
}

/// One of the things that keep requests from an endpoint.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Reason {
    pub(super) until: Option<String>,
}

#[derive(Deserialize)]
struct Listing {
    upstreams: Vec<Upstream>,
}

/// Requests by route and class.
const REQUESTS: &str = "titan_requests_total";
/// How long requests of a route take, and attempts at an upstream.
const DURATIONS: [&str; 2] =
    ["titan_request_duration_seconds_bucket", "titan_upstream_attempt_duration_seconds_bucket"];
/// What begins so, and has labels of its own that are added up.
const SUMMED: [&str; 1] = ["titan_upstream_retries_total"];
/// What is kept of the process as a whole.
const SINGLE: [&str; 3] = ["titan_config_", "titan_pressure_", "titan_process_"];
/// Things of one kind that are kept, and counts of one thing. A gateway that has more is shown in part.
const MAX_THINGS: usize = 20_000;
const MAX_COUNTS: usize = 200;

impl Counts {
    /// What a text in the Prometheus format says.
    pub(super) fn parse(text: &str) -> Result<Counts, BadLine> {
        let mut counts = Counts::default();
        for sample in samples::parse(text) {
            counts.take(&sample?);
        }
        Ok(counts)
    }

    fn take(&mut self, sample: &Sample<'_>) {
        let Sample { name, value, .. } = *sample;
        if !name.starts_with("titan_") || !value.is_finite() {
            return;
        }
        let of = |label| sample.label(label);
        match (of("route"), of("upstream"), of("endpoint"), of("worker")) {
            (Some(route), None, ..) => self.take_of_route(route, sample),
            (None, Some(upstream), Some(endpoint), _) => {
                let key = (upstream.to_owned(), endpoint.to_owned());
                // Those of its breaker, which is told otherwise, have a label more.
                if let Some(group) = thing(&mut self.endpoints, key)
                    && sample.labels.len() == 2
                {
                    group.take(name.to_owned(), value);
                }
            }
            (None, Some(upstream), None, _) => {
                if let Some(group) = thing(&mut self.upstreams, upstream.to_owned()) {
                    group.take_of_upstream(sample);
                }
            }
            (None, None, None, Some(worker)) => {
                // Handshakes, by version: the sum of them.
                if let Some(group) = thing(&mut self.workers, worker.to_owned()) {
                    group.add(name.to_owned(), value);
                }
            }
            (None, None, None, None) => self.take_single(sample),
            // Mirrors, which belong to a route and an upstream.
            _ => {}
        }
    }

    fn take_of_route(&mut self, route: &str, sample: &Sample<'_>) {
        let Some(group) = thing(&mut self.routes, route.to_owned()) else { return };
        match (sample.name, sample.label("class"), sample.label("le")) {
            (REQUESTS, Some(class), _) => group.take(class.to_owned(), sample.value),
            (name, None, Some(bound)) if DURATIONS.contains(&name) => {
                group.durations.take(bound, sample.value);
            }
            (name, None, None) => group.take(name.to_owned(), sample.value),
            _ => {}
        }
    }

    fn take_single(&mut self, sample: &Sample<'_>) {
        let Sample { name, value, .. } = *sample;
        let labels = &sample.labels;
        match (name, &labels[..]) {
            ("titan_build_info", [("version", version)]) => self.version = Some(version.clone()),
            ("titan_exchange_failures_total", [("code", code)])
                if self.failures.len() < MAX_COUNTS =>
            {
                self.failures.insert(code.clone(), value);
            }
            _ if !SINGLE.iter().any(|start| name.starts_with(start)) => {}
            (_, []) => self.take_named(name.to_owned(), value),
            // Of a resource, or an outcome.
            (_, [(_, label)]) => self.take_named(format!("{name} {label}"), value),
            _ => {}
        }
    }

    fn take_named(&mut self, name: String, value: f64) {
        if self.single.len() < MAX_COUNTS {
            self.single.insert(name, value);
        }
    }
}

/// The group of that name, unless there are too many.
fn thing<K: Ord>(things: &mut BTreeMap<K, Group>, key: K) -> Option<&mut Group> {
    let has_room = things.len() < MAX_THINGS;
    match has_room {
        true => Some(things.entry(key).or_default()),
        false => things.get_mut(&key),
    }
}

impl Group {
    /// What is counted under that name.
    pub(super) fn count(&self, name: &str) -> Option<f64> {
        self.counts.get(name).copied()
    }

    fn take_of_upstream(&mut self, sample: &Sample<'_>) {
        let name = sample.name;
        match (sample.label("le"), sample.labels.len()) {
            (Some(bound), 2) if DURATIONS.contains(&name) => {
                self.durations.take(bound, sample.value);
            }
            (None, 1) => self.take(name.to_owned(), sample.value),
            (None, 2) if SUMMED.contains(&name) => self.add(name.to_owned(), sample.value),
            _ => {}
        }
    }

    fn take(&mut self, name: String, value: f64) {
        if self.counts.len() < MAX_COUNTS {
            self.counts.insert(name, value);
        }
    }

    fn add(&mut self, name: String, value: f64) {
        let before = self.count(&name).unwrap_or(0.0);
        self.take(name, before + value);
    }
}

impl Buckets {
    fn take(&mut self, bound: &str, count: f64) {
        let bound = if bound == "+Inf" { Ok(f64::INFINITY) } else { bound.parse() };
        let Ok(bound) = bound else { return };
        let follows = self.0.last().is_none_or(|(last, _)| *last < bound);
        if follows && self.0.len() < MAX_COUNTS {
            self.0.push((bound, count));
        }
    }
}

/// What `/upstreams` says; nothing if it is not known here.
pub(super) fn upstreams(body: &[u8]) -> Option<Vec<Upstream>> {
    let listing: Listing = serde_json::from_slice(body).ok()?;
    Some(listing.upstreams)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_sorted_by_what_they_are_about() {
        let text = r#"
titan_build_info{version="1.2.3"} 1
titan_requests_total{route="a",class="2xx"} 5
titan_request_duration_seconds_bucket{route="a",le="0.1"} 4
titan_request_duration_seconds_bucket{route="a",le="+Inf"} 5
titan_response_size_bytes_sum{route="a"} 77
titan_mirror_copies_total{route="a",upstream="u"} 9
titan_upstream_requests_total{upstream="u"} 6
titan_upstream_retries_total{upstream="u",reason="connect"} 1
titan_upstream_retries_total{upstream="u",reason="reset"} 2
titan_circuit_breaker_state{upstream="u",state="open"} 1
titan_endpoint_healthy{upstream="u",endpoint="10.0.0.1:80"} 1
titan_circuit_breaker_state{upstream="u",endpoint="10.0.0.1:80",state="open"} 1
titan_received_bytes_total{worker="0"} 3
titan_tls_handshakes_total{worker="0",version="1.3",resumption="full"} 2
titan_tls_handshakes_total{worker="0",version="1.2",resumption="full"} 2
titan_exchange_failures_total{code="upstream-timeout"} 8
titan_pressure_ratio{resource="memory"} 0.5
titan_config_in_use NaN
titan_pressure_level 2
titan_jwt_cache_hits_total{policy="p"} 4
process_cpu_seconds_total 4
"#;
        let counts = Counts::parse(text).unwrap();
        assert_eq!(counts.version.as_deref(), Some("1.2.3"));
        let route = &counts.routes["a"];
        assert_eq!(route.count("2xx"), Some(5.0));
        assert_eq!(route.count("titan_response_size_bytes_sum"), Some(77.0));
        assert_eq!(route.durations.0, [(0.1, 4.0), (f64::INFINITY, 5.0)]);
        assert_eq!(route.counts.len(), 2);
        let upstream = &counts.upstreams["u"];
        assert_eq!(upstream.count("titan_upstream_retries_total"), Some(3.0));
        assert_eq!(upstream.counts.len(), 2);
        let endpoint = &counts.endpoints[&("u".to_owned(), "10.0.0.1:80".to_owned())];
        assert_eq!(endpoint.counts.len(), 1);
        assert_eq!(counts.workers["0"].count("titan_tls_handshakes_total"), Some(4.0));
        assert_eq!(counts.failures["upstream-timeout"], 8.0);
        let single: Vec<_> = counts.single.keys().map(String::as_str).collect();
        assert_eq!(single, ["titan_pressure_level", "titan_pressure_ratio memory"]);
    }

    #[test]
    fn upstreams_may_say_less_and_more() {
        let body = br#"{"upstreams":[{"name":"u","new":1,"endpoints":[{"address":"a","state":"ejected","why":null}]}],"x":0}"#;
        let found = upstreams(body).unwrap();
        assert_eq!(found[0].endpoints[0].state, "ejected");
        assert_eq!(upstreams(b"{}"), None);
        assert_eq!(upstreams(b"<html>"), None);
    }
}
