//! What log records say, as the definition of the protocol reads them.

use super::*;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ScopeLogs};
use prost::Message;
use std::collections::BTreeMap;
use std::time::Duration;
use titan_config::Config;
use titan_http::{FieldName, Fields, Scheme, Version};
use titan_io::error::Kind;
use titan_observe::record::{Bodies, BodyOf, Chosen, ExchangeRecord, TlsVersion};

/// Log records as that log writes these, as the definition of the protocol has them.
fn written(log: &str, records: &[ExchangeRecord]) -> Vec<LogRecord> {
    let file = format!(
        "listeners: [':1']\nroutes: [{{ name: cart, prefix: /cart, respond: 204 }}]\n\
         otlp: {{ c: 'http://a:4317' }}\naccess_log: {{ otlp: c, {log} }}"
    );
    let config = Config::parse("titan.yaml", &file).unwrap_or_else(|report| panic!("{report}"));
    let mut writer =
        LogRecords::new(&config.access_log[0], &Arc::new(RoutePaths::of(&config.routes)));
    let (mut bytes, mut out) = (Vec::new(), Vec::new());
    for record in records {
        bytes.clear();
        record.write_to(&mut bytes);
        writer.write(&Recorded::first_of(&bytes).unwrap().0, &mut out);
    }
    let logs = ScopeLogs::decode(&*out).unwrap();
    assert_eq!(logs.encode_to_vec().len(), out.len(), "nothing is left that is not known");
    logs.log_records
}

/// The attributes as texts, by name.
fn attributes(record: &LogRecord) -> BTreeMap<&str, String> {
    let text = |value: &Any| match value {
        Any::StringValue(text) => text.clone(),
        Any::IntValue(number) => number.to_string(),
        Any::DoubleValue(number) => number.to_string(),
        Any::BoolValue(it) => it.to_string(),
        Any::ArrayValue(list) => format!("{:?}", list.values[0].value),
        other => panic!("{other:?}"),
    };
    let value = |value: &Any| text(value);
    let all = record.attributes.iter();
    let all: Vec<_> = all
        .map(|it| (&*it.key, value(it.value.as_ref().unwrap().value.as_ref().unwrap())))
        .collect();
    let (count, named) = (all.len(), all.into_iter().collect::<BTreeMap<_, _>>());
    assert_eq!(named.len(), count, "no name is there twice");
    named
}

fn plain() -> ExchangeRecord {
    let mut record = ExchangeRecord::default();
    record.facts.set_started(1);
    record
}

fn fields(lines: &[(&str, &[u8])]) -> Fields {
    let mut fields = Fields::default();
    for (name, value) in lines {
        let known = FieldName::of(name.as_bytes());
        fields.push_checked(known, name.as_bytes(), value).expect("it is short");
    }
    fields
}

fn chosen(endpoint: &str) -> Chosen<'_> {
    Chosen { upstream: "api", endpoint, balance: "random", choices: 3 }
}

fn full() -> ExchangeRecord {
    let mut record = ExchangeRecord::default();
    record.facts.set_started(1_795_796_100_012_345);
    record.facts.set_took(Duration::from_micros(1_500));
    record.facts.set_status(Status::from_code(502));
    record.facts.set_version(Version::Http2);
    record.facts.set_tls(Some(TlsVersion::Tls13));
    record.facts.set_scheme(Scheme::Https);
    record.facts.set_client("2001:db8::1".parse().ok());
    for (text, value) in [
        (Text::Method, &b"BREW"[..]),
        (Text::Host, b"[::1]:8443"),
        (Text::Route, b"cart"),
        (Text::RequestId, b"abc"),
        (Text::TraceId, b"0af7651916cd43dd8448eb211c80319c"),
    ] {
        record.set(text, value);
    }
    record.set_target(b"/a", Some(b"b=1&token=hunter2"));
    record.fail(Kind::Connect.into());
    record.begin_attempt(false, Duration::ZERO, chosen("10.0.0.2:80"));
    record.begin_attempt(false, Duration::ZERO, chosen("10.0.0.1:80"));
    record.attempt_at("10.0.0.1:80").unwrap().set_connect(Some(Duration::from_micros(250)));
    record.set_request_head(&fields(&[
        ("User-Agent", b"\xff\x1b[31m"),
        ("Referer", b"http://a/?x"),
        ("X-Tenant", b"t"),
        ("X-Other", b"o"),
    ]));
    record.set_response_head(&fields(&[("Set-Cookie", b"hunter2")]));
    record.add_claim(b"sub", b"me");
    record
}

#[test]
fn bodies_are_in_no_record() {
    let mut record = full();
    let bodies = Bodies::new(64);
    bodies.note(BodyOf::Request, b"password=hushhush");
    bodies.note(BodyOf::Response, b"{}");
    record.bodies = Some(bodies);
    assert_eq!(written("", &[record]), written("", &[full()]));
}

#[test]
fn a_record_has_the_attributes_of_the_conventions() {
    let captures = "request_headers: [X-TENANT], response_headers: [Set-Cookie]";
    let records = written(captures, &[full(), plain()]);
    let record = &records[0];
    assert_eq!(record.time_unix_nano, 1_795_796_100_012_345_000);
    assert_eq!(record.observed_time_unix_nano, record.time_unix_nano + 1_500_000);
    assert_eq!((record.severity_number, &*record.severity_text), (17, "ERROR"));
    assert_eq!(record.event_name, "titan.request");
    assert_eq!(record.trace_id, 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c_u128.to_be_bytes());
    let body = record.body.as_ref().unwrap().value.as_ref();
    assert_eq!(body, Some(&Any::StringValue("BREW /a 502".to_owned())));
    let seen = attributes(record);
    for (name, value) in [
        ("http.request.method", "_OTHER"),
        ("http.request.method_original", "BREW"),
        ("url.scheme", "https"),
        ("url.path", "/a"),
        ("url.query", "b=1&token=***"),
        ("server.address", "::1"),
        ("server.port", "8443"),
        ("client.address", "2001:db8::1"),
        ("network.protocol.version", "2"),
        ("tls.protocol.version", "1.3"),
        ("user_agent.original", "\u{fffd}\u{1b}[31m"),
        ("http.request.header.referer", "Some(StringValue(\"http://a/\"))"),
        ("http.request.header.x-tenant", "Some(StringValue(\"t\"))"),
        ("http.response.header.set-cookie", "Some(StringValue(\"***\"))"),
        ("http.response.status_code", "502"),
        ("http.route", "/cart/*"),
        ("titan.route", "cart"),
        ("error.type", "connect"),
        ("titan.caused_by", "upstream"),
        ("titan.upstream", "api"),
        ("titan.endpoint", "10.0.0.1:80"),
        ("titan.attempts", "2"),
        ("titan.connect_ms", "0.25"),
        ("titan.duration_ms", "1.5"),
        ("titan.request_id", "abc"),
    ] {
        assert_eq!(seen.get(name).map(String::as_str), Some(value), "{name}: {seen:#?}");
    }
    assert!(!seen.contains_key("http.request.header.x-other"), "another log wants that");
    assert!(!seen.contains_key("titan.tls_ms"), "what there was not is not there");
    let seen = attributes(&records[1]);
    assert!(!seen.contains_key("http.request.method") && !seen.contains_key("url.query"));
    for of_head in ["url.path", "server.address", "user_agent.original"] {
        assert!(!seen.contains_key(of_head), "{of_head}: no head could be read");
    }
    let body = records[1].body.as_ref().unwrap().value.as_ref();
    assert_eq!(body, Some(&Any::StringValue("no request head ".to_owned())));
    assert!(records[1].trace_id.is_empty());
}

#[test]
fn the_body_is_what_the_format_says() {
    let mut tunnel = full();
    tunnel.facts.set_event(Event::TunnelOpened);
    let records = written("format: '{status} {route}'", &[tunnel]);
    let body = records[0].body.as_ref().unwrap().value.as_ref();
    assert_eq!(body, Some(&Any::StringValue("502 cart".to_owned())));
    assert_eq!(records[0].event_name, "titan.tunnel_opened");
}

#[test]
fn severity_follows_from_whose_doing_it_was_and_from_the_status() {
    for (status, kind, wanted) in [
        (Some(200), None, "INFO"),
        (Some(304), None, "INFO"),
        (None, None, "INFO"),
        (Some(404), None, "WARN"),
        (Some(503), None, "ERROR"),
        (Some(200), Some(Kind::Truncated), "ERROR"),
        (Some(200), Some(Kind::ClientGone), "WARN"),
    ] {
        let mut record = plain();
        record.facts.set_status(status.and_then(Status::from_code));
        kind.into_iter().for_each(|kind| record.fail(kind.into()));
        assert_eq!(written("", &[record])[0].severity_text, wanted, "{status:?} {kind:?}");
    }
}

#[test]
fn what_is_no_id_of_a_trace_is_none() {
    for text in ["", "0af7651916cd43dd8448eb211c80319", "+af7651916cd43dd8448eb211c80319c"] {
        let mut record = plain();
        record.set(Text::TraceId, text.as_bytes());
        let id = &written("", &[record])[0].trace_id;
        assert!(id.is_empty(), "{text}: {id:?}");
    }
}
