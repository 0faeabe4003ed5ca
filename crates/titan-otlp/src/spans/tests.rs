//! What spans say, as the definition of the protocol reads them.

use super::*;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::trace::v1::{ScopeSpans, Span};
use prost::Message;
use std::collections::BTreeMap;
use titan_config::Config;
use titan_http::Status;
use titan_io::error::{Error, Kind};
use titan_observe::record::{Bodies, BodyOf, Chosen, ExchangeRecord};
use titan_observe::trace::Sampling;

const TRACE: TraceContext =
    TraceContext { trace_id: 7, parent: 9, span: 11, sampling: Sampling::Sampled };

fn written(record: &ExchangeRecord) -> Vec<Span> {
    let (mut bytes, mut lines) = (Vec::new(), Lines::default());
    record.write_to(&mut bytes);
    let (record, _) = Recorded::first_of(&bytes).unwrap();
    let config = "listeners: [':1']\nroutes: [{ name: cart, path: '/cart/{id}', respond: 204 }]";
    let routes = RoutePaths::of(&Config::parse("titan.yaml", config).unwrap().routes);
    Spans::new(&Arc::new(routes)).write(&record, &TRACE, &mut lines);
    let spans = ScopeSpans::decode(&*lines.text).unwrap();
    assert_eq!(spans.encode_to_vec().len(), lines.text.len(), "nothing is left that is not known");
    assert_eq!(spans.spans.len(), lines.len());
    spans.spans
}

fn attributes(all: &[opentelemetry_proto::tonic::common::v1::KeyValue]) -> BTreeMap<&str, String> {
    let text = |value: &Any| match value {
        Any::StringValue(text) => text.clone(),
        Any::IntValue(number) => number.to_string(),
        Any::DoubleValue(number) => number.to_string(),
        other => format!("{other:?}"),
    };
    let text = &text;
    all.iter()
        .map(|it| (&*it.key, text(it.value.as_ref().unwrap().value.as_ref().unwrap())))
        .collect()
}

fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

fn chosen(endpoint: &str) -> Chosen<'_> {
    Chosen { upstream: "api", endpoint, balance: "random", choices: 3 }
}

fn base() -> ExchangeRecord {
    let mut record = ExchangeRecord::default();
    record.facts.set_started(1_000_000);
    record.facts.set_took(micros(5_000));
    record.facts.set_status(Some(Status::OK));
    record.set(Text::Method, b"GET");
    record.set(Text::Route, b"cart");
    record
}

#[test]
fn bodies_are_in_no_span() {
    let mut record = base();
    let bodies = Bodies::new(64);
    bodies.note(BodyOf::Request, b"password=hushhush");
    record.bodies = Some(bodies);
    assert_eq!(written(&record), written(&base()));
}

#[test]
fn attempts_are_spans_below_that_of_the_request() {
    let mut record = base();
    record.begin_attempt(false, micros(100), chosen("10.0.0.1:80"));
    let error = Error { side: Side::Upstream, kind: Kind::Connect };
    record.end_attempt("10.0.0.1:80", micros(300), Some(error));
    record.begin_attempt(false, micros(400), chosen("[::1]:81"));
    let last = record.attempt_at("[::1]:81").unwrap();
    last.set_status(Some(Status::OK));
    last.set_connect(Some(micros(250)));
    let spans = written(&record);
    let [server, first, second] = &spans[..] else { panic!("{spans:#?}") };
    assert_eq!((server.kind, first.kind, second.kind), (2, 3, 3));
    assert_eq!((&*server.name, &*first.name), ("GET /cart/{id}", "GET"));
    for span in &spans {
        assert_eq!(span.trace_id, 7u128.to_be_bytes());
        assert_eq!(span.flags, 1);
    }
    assert_eq!(
        (&*server.span_id, &*server.parent_span_id),
        (&11u64.to_be_bytes()[..], &9u64.to_be_bytes()[..])
    );
    for (number, span) in [(0, first), (1, second)] {
        assert_eq!(span.parent_span_id, server.span_id);
        assert_eq!(span.span_id, TRACE.attempt_span(number).to_be_bytes());
    }
    let times = |span: &Span| {
        [span.start_time_unix_nano, span.end_time_unix_nano].map(|it| it / 1_000 - 1_000_000)
    };
    assert_eq!(
        (times(server), times(first), times(second)),
        ([0, 5_000], [100, 300], [400, 5_000])
    );
    let (failed, seen) = (attributes(&first.attributes), attributes(&second.attributes));
    assert_eq!((&*failed["error.type"], &*failed["titan.attempt"]), ("connect", "first"));
    assert_eq!((&*failed["server.address"], &*failed["server.port"]), ("10.0.0.1", "80"));
    assert_eq!((&*seen["server.address"], &*seen["server.port"]), ("::1", "81"));
    assert_eq!((&*seen["http.request.resend_count"], &*seen["titan.attempt"]), ("1", "retry"));
    assert_eq!((&*seen["http.response.status_code"], &*seen["titan.connect_ms"]), ("200", "0.25"));
    let codes = |span: &Span| span.status.as_ref().map(|status| status.code);
    assert_eq!((codes(server), codes(first), codes(second)), (None, Some(2), None));
}

#[test]
fn hedges_keep_the_ids_that_their_upstreams_were_told_whichever_decides() {
    let mut record = base();
    record.begin_attempt(false, micros(0), chosen("10.0.0.1:80"));
    record.begin_attempt(true, micros(50), chosen("10.0.0.2:80"));
    record.decide_by("10.0.0.1:80");
    record.end_attempt("10.0.0.2:80", micros(70), None);
    let spans = written(&record);
    let of = |number| {
        let id = TRACE.attempt_span(number).to_be_bytes();
        let span = spans.iter().find(|span| span.span_id == id).unwrap();
        attributes(&span.attributes)["titan.attempt"].clone()
    };
    assert_eq!((&*of(0), &*of(1)), ("first", "hedge"));
}

#[test]
fn policies_are_events_and_the_doing_of_clients_is_no_failure() {
    let mut record = base();
    record.facts.set_policies(Some(micros(20)));
    record.facts.set_status(Some(Status::FORBIDDEN));
    record.add_passed("limit");
    record.set(Text::RefusedBy, b"acl");
    record.set(Text::Method, b"BREW");
    record.set(Text::Route, b"");
    let spans = written(&record);
    let [server] = &spans[..] else { panic!("{spans:#?}") };
    assert_eq!((&*server.name, &server.status), ("HTTP", &None));
    let events: Vec<_> = server
        .events
        .iter()
        .map(|event| {
            let said = attributes(&event.attributes);
            assert_eq!((&*event.name, event.time_unix_nano), ("titan.policy", 1_000_020_000));
            format!("{} {}", said["titan.policy.name"], said["titan.policy.verdict"])
        })
        .collect();
    assert_eq!(events, ["limit passed", "acl refused"]);
    record.fail(Error { side: Side::Downstream, kind: Kind::ClientGone });
    assert_eq!(written(&record)[0].status, None);
    record.facts.set_status(Some(Status::BAD_GATEWAY));
    assert!(written(&record)[0].status.is_some());
}
