//! Responses of collectors, and what is made of them.

use super::*;
use opentelemetry_proto::tonic::collector::logs::v1::{
    ExportLogsPartialSuccess, ExportLogsServiceResponse,
};
use prost::Message;
use std::time::SystemTime;
use titan_io::protobuf;

/// What is made of a response with these fields.
fn judged(protocol: OtlpProtocol, status: u16, fields: &[(&str, &str)], body: &[u8]) -> Verdict {
    let mut answer = Answer::default();
    answer.head.status = Status::from_code(status).unwrap();
    for (name, value) in fields {
        // A call's fields may be in the trailers or, where nothing else comes, in the head.
        let is_trailer = name.starts_with("grpc-") && !body.is_empty();
        let to = if is_trailer { &mut answer.trailers } else { &mut answer.head.fields };
        to.append_named(name.as_bytes(), value.as_bytes()).unwrap();
    }
    answer.body = body.to_vec();
    Verdict::of(&answer, protocol)
}

fn call(fields: &[(&str, &str)], body: &[u8]) -> Verdict {
    judged(OtlpProtocol::Grpc, 200, fields, body)
}

fn http(status: u16, fields: &[(&str, &str)], body: &[u8]) -> Verdict {
    judged(OtlpProtocol::Http, status, fields, body)
}

/// For how long the collector wants to be left alone; `None` if it is not to be tried again.
fn later(verdict: &Verdict) -> Option<Option<Duration>> {
    match verdict {
        Verdict::Later { after, .. } => Some(*after),
        Verdict::Refused { .. } => None,
        Verdict::Accepted { .. } => panic!("it was accepted"),
    }
}

fn partial() -> Vec<u8> {
    let partial_success = Some(ExportLogsPartialSuccess {
        rejected_log_records: 3,
        error_message: "too \u{1b}[31mold".to_owned(),
    });
    ExportLogsServiceResponse { partial_success }.encode_to_vec()
}

#[test]
fn what_is_accepted_may_be_so_in_part() {
    let all = Verdict::Accepted { rejected: 0, why: String::new() };
    assert_eq!(http(200, &[], b""), all);
    assert_eq!(call(&[("grpc-status", "0")], &[0; 5]), all);
    assert_eq!(call(&[("grpc-status", "0")], b""), all);
    let some = Verdict::Accepted { rejected: 3, why: "too [31mold".to_owned() };
    assert_eq!(http(200, &[], &partial()), some);
    let framed = [&[0, 0, 0, 0, 9][..], &partial()].concat();
    assert_eq!(call(&[("grpc-status", "0")], &framed), some);
}

#[test]
fn what_the_specification_says_may_be_sent_again_is() {
    for code in 1..=20 {
        let is_passing = matches!(code, 1 | 4 | 10 | 11 | 14 | 15);
        let verdict = call(&[("grpc-status", &code.to_string())], b"");
        assert_eq!(later(&verdict).is_some(), is_passing, "{code}");
    }
    for status in [301, 400, 401, 403, 404, 413, 429, 500, 501, 502, 503, 504] {
        let is_passing = matches!(status, 429 | 502 | 503 | 504);
        assert_eq!(later(&http(status, &[], b"")).is_some(), is_passing, "{status}");
        let verdict = judged(OtlpProtocol::Grpc, status, &[], b"");
        assert_eq!(later(&verdict).is_some(), is_passing, "{status}");
    }
    assert_eq!(later(&call(&[], b"")), None);
    assert_eq!(later(&call(&[("grpc-status", "x")], b"")), None);
}

#[test]
fn a_collector_may_ask_for_time_but_not_for_any() {
    let asks = |value| later(&http(503, &[("retry-after", value)], b"")).unwrap();
    assert_eq!(asks("7"), Some(Duration::from_secs(7)));
    assert_eq!(asks("99999999999"), Some(MOST_PATIENCE));
    assert_eq!(asks("-1"), None);
    assert_eq!(asks("soon"), None);
    assert_eq!(asks("Thu, 01 Jan 1970 00:00:00 GMT"), Some(Duration::ZERO));
    let date = httpdate::fmt_http_date(SystemTime::now() + Duration::from_secs(60));
    assert!(asks(&date).unwrap() > Duration::from_secs(30));
}

/// `google.rpc.Status` with a `RetryInfo` of that many seconds and nanoseconds.
fn details(seconds: u64, nanos: u64) -> String {
    let (mut delay, mut info, mut any, mut status) =
        <(Vec<u8>, Vec<u8>, Vec<u8>, Vec<u8>)>::default();
    protobuf::number(1, seconds, &mut delay);
    protobuf::number(2, nanos, &mut delay);
    protobuf::bytes(1, &delay, &mut info);
    protobuf::bytes(1, b"type.googleapis.com/google.rpc.RetryInfo", &mut any);
    protobuf::bytes(2, &info, &mut any);
    protobuf::number(1, 8, &mut status);
    protobuf::bytes(3, b"", &mut status);
    protobuf::bytes(3, &any, &mut status);
    base64::engine::general_purpose::STANDARD_NO_PAD.encode(status)
}

#[test]
fn an_exhausted_collector_is_asked_again_only_if_it_says_when() {
    assert_eq!(later(&call(&[("grpc-status", "8")], b"")), None);
    let with = |code, seconds, nanos| {
        let details = details(seconds, nanos);
        later(&call(&[("grpc-status", code), ("grpc-status-details-bin", &details)], b""))
    };
    assert_eq!(with("8", 2, 500_000_000), Some(Some(Duration::from_millis(2_500))));
    assert_eq!(with("14", 1, 0), Some(Some(Duration::from_secs(1))));
    assert_eq!(with("8", u64::MAX, u64::MAX), Some(Some(MOST_PATIENCE)));
    assert_eq!(with("3", 1, 0), None);
    let cut = &details(2, 0)[..20];
    assert_eq!(later(&call(&[("grpc-status", "8"), ("grpc-status-details-bin", cut)], b"")), None);
}

#[test]
fn what_it_says_is_shown_and_obeyed_by_no_terminal() {
    let mut status = Vec::new();
    protobuf::bytes(2, "no \u{1b}[2Jkey".as_bytes(), &mut status);
    let verdict = http(401, &[("content-type", "application/x-protobuf")], &status);
    assert_eq!(verdict, Verdict::Refused { why: "status 401: no [2Jkey".to_owned() });
    let long = "x".repeat(1_000);
    let Verdict::Refused { why } = call(&[("grpc-status", "3"), ("grpc-message", &long)], b"")
    else {
        panic!("it is refused");
    };
    assert_eq!(why.len(), "grpc-status 3: ".len() + SHOWN);
}
