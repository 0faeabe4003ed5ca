//! `/mirrors`: what has become of copies of requests, and where the responses to them differ.

use crate::http::Response;
use serde::Serialize;
use std::sync::Arc;
use time::OffsetDateTime;
use titan_http::Status;
use titan_proxy::{ComparisonStatus, MirrorStatus, ResponseDifference, Sample, ShownValue};

#[derive(Serialize)]
struct Listing<'m> {
    mirrors: Vec<Shown<'m>>,
}

#[derive(Serialize)]
struct Shown<'m> {
    route: &'m str,
    upstream: &'m str,
    copies: Copies,
    /// Nothing where responses are not compared.
    comparison: Option<Comparison<'m>>,
}

#[derive(Serialize)]
struct Copies {
    sent: u64,
    failed: u64,
    running: u32,
    dropped: Vec<Reason>,
}

#[derive(Serialize)]
struct Comparison<'m> {
    equal: u64,
    different: u64,
    differences: Vec<Part>,
    not_compared: Vec<Reason>,
    places: Vec<Place<'m>>,
    samples: Vec<ShownSample<'m>>,
}

#[derive(Serialize)]
struct Reason {
    reason: &'static str,
    count: u64,
}

#[derive(Serialize)]
struct Part {
    part: &'static str,
    count: u64,
}

#[derive(Serialize)]
struct Place<'m> {
    part: &'static str,
    place: &'m str,
    count: u64,
}

#[derive(Serialize)]
struct ShownSample<'m> {
    #[serde(with = "time::serde::rfc3339")]
    at: OffsetDateTime,
    method: &'m str,
    path: &'m str,
    request_id: Option<&'m str>,
    differences: Vec<Difference<'m>>,
    more: usize,
}

#[derive(Serialize)]
struct Difference<'m> {
    part: &'static str,
    place: &'m str,
    original: Option<Value<'m>>,
    mirror: Option<Value<'m>>,
}

#[derive(Serialize)]
struct Value<'m> {
    r#type: &'static str,
    bytes: usize,
    value: Option<&'m str>,
}

/// Shows every mirror.
pub(crate) fn list(mirrors: &[MirrorStatus]) -> Response {
    let mirrors = mirrors.iter().map(Shown::of).collect();
    Response::json(Status::OK, &Listing { mirrors })
}

impl Shown<'_> {
    fn of(status: &MirrorStatus) -> Shown<'_> {
        let MirrorStatus { route, upstream, running, sent, failed, dropped, comparison } = status;
        let copies =
            Copies { sent: *sent, failed: *failed, running: *running, dropped: reasons(dropped) };
        Shown { route, upstream, copies, comparison: comparison.as_ref().map(Comparison::of) }
    }
}

impl Comparison<'_> {
    fn of(status: &ComparisonStatus) -> Comparison<'_> {
        let ComparisonStatus { equal, different, differing, not_compared, places, samples } =
            status;
        let part = |(part, count): &(&'static str, u64)| Part { part, count: *count };
        let places = places.iter();
        let places = places.map(|(part, place, count)| Place { part, place, count: *count });
        Comparison {
            equal: *equal,
            different: *different,
            differences: differing.iter().map(part).collect(),
            not_compared: reasons(not_compared),
            places: places.collect(),
            // The newest first: whoever looks wants to know about now.
            samples: samples.iter().rev().map(ShownSample::of).collect(),
        }
    }
}

impl ShownSample<'_> {
    fn of(sample: &Arc<Sample>) -> ShownSample<'_> {
        let Sample { at, method, path, request_id, differences, more } = &**sample;
        ShownSample {
            at: (*at).into(),
            method,
            path,
            request_id: request_id.as_deref(),
            differences: differences.iter().map(Difference::of).collect(),
            more: *more,
        }
    }
}

impl Difference<'_> {
    fn of(difference: &ResponseDifference) -> Difference<'_> {
        let ResponseDifference { part, place, original, mirror } = difference;
        let [original, mirror] = [original, mirror].map(|it| it.as_ref().map(Value::of));
        Difference { part, place, original, mirror }
    }
}

impl Value<'_> {
    fn of(shown: &ShownValue) -> Value<'_> {
        let ShownValue { kind, bytes, value } = shown;
        Value { r#type: kind, bytes: *bytes, value: value.as_deref() }
    }
}

fn reasons(counts: &[(&'static str, u64)]) -> Vec<Reason> {
    counts.iter().map(|(reason, count)| Reason { reason, count: *count }).collect()
}
