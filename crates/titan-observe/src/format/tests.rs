use super::*;
use crate::record::{CaptureKind, ExchangeRecord, Facts, Phases, Text, TlsVersion};
use proptest::prelude::*;
use std::time::Duration;
use titan_http::{Scheme, Status, Version};
use titan_io::error::Kind;

fn full() -> ExchangeRecord {
    let mut record = ExchangeRecord::default();
    let micros = |micros| Some(Duration::from_micros(micros));
    record.facts = Facts {
        started: 1_795_796_400_123_456,
        took: Duration::from_micros(12_034),
        phases: Phases {
            head: micros(1_500),
            policies: micros(20),
            queue: micros(0),
            connect: micros(310),
            tls: micros(2_100),
            upstream_head: micros(9_800),
        },
        request_bytes: 512,
        response_bytes: 2_048,
        status: Some(Status::BAD_GATEWAY),
        upstream_status: Some(Status::SERVICE_UNAVAILABLE),
        attempts: 2,
        version: Version::Http2,
        tls: Some(TlsVersion::Tls13),
        scheme: Scheme::Https,
        client: Some("192.0.2.7".parse().unwrap()),
        peer: Some("2001:db8::1".parse().unwrap()),
        ..Facts::default()
    };
    record.fail(Kind::Connect.into());
    for (text, value) in [
        (Text::Listener, "https"),
        (Text::Sni, "shop.example"),
        (Text::Method, "POST"),
        (Text::Host, "shop.example:8443"),
        (Text::Target, "/cart/a%20b?id=7&token=abc"),
        (Text::Route, "cart"),
        (Text::Upstream, "api"),
        (Text::Endpoint, "10.0.0.1:80"),
        (Text::RefusedBy, "limit"),
        (Text::RequestId, "4f2a"),
        (Text::TraceId, "0af7651916cd43dd8448eb211c80319c"),
        (Text::UserAgent, "curl/8 \"x\""),
        (Text::Referer, "https://u:p@shop.example/cart?sid=1"),
    ] {
        record.set(text, value.as_bytes());
    }
    record.capture(CaptureKind::RequestHeader, b"X-Tenant", [&b"acme"[..]]);
    record.capture(CaptureKind::RequestHeader, b"Authorization", [&b"Bearer abc"[..]]);
    record.capture(CaptureKind::ResponseHeader, b"Content-Type", [&b"text/plain"[..]]);
    record.capture(CaptureKind::Claim, b"sub", [&b"alice"[..]]);
    record
}

fn line(record: &ExchangeRecord, write: fn(&mut Formatter, &Recorded<'_>, &mut Vec<u8>)) -> String {
    let (mut bytes, mut line) = (Vec::new(), Vec::new());
    record.write_to(&mut bytes);
    write(&mut Formatter::default(), &Recorded::first_of(&bytes).unwrap().0, &mut line);
    String::from_utf8(line).unwrap()
}

#[test]
fn json_has_everything_by_name() {
    let line = line(&full(), Formatter::json);
    let json: serde_json::Value = serde_json::from_str(&line).unwrap();
    insta::assert_snapshot!(serde_json::to_string_pretty(&json).unwrap());
}

#[test]
fn json_leaves_out_what_there_was_not() {
    let line = line(&ExchangeRecord::default(), Formatter::json);
    insta::assert_snapshot!(line.trim_end());
}

#[test]
fn combined_is_what_log_tools_read() {
    insta::assert_snapshot!(line(&full(), Formatter::combined).trim_end());
    insta::assert_snapshot!(line(&ExchangeRecord::default(), Formatter::combined).trim_end());
}

proptest! {
    /// Escapes of a terminal, ends of lines, marks that turn the direction of text, HTML, bytes that are no text.
    #[test]
    fn a_line_is_one_line_of_ascii_and_tells_what_was_sent(value in prop::collection::vec(any::<u8>(), 1..60), characters in "\\PC{0,10}[\u{202e}\u{1b}\u{9b}<>\"\\\\\n\r]{0,5}") {
        for value in [&value[..], characters.as_bytes()].into_iter().filter(|it| !it.is_empty()) {
            let mut record = full();
            record.set(Text::UserAgent, value);
            record.set(Text::Target, value);
            record.capture(CaptureKind::Claim, value, [value]);
            for write in [Formatter::json, Formatter::combined] {
                let line = line(&record, write);
                prop_assert!(line.trim_end_matches('\n').bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{line}");
                prop_assert_eq!(line.matches('\n').count(), 1);
            }
            let json: serde_json::Value = serde_json::from_str(&line(&record, Formatter::json)).unwrap();
            prop_assert_eq!(json["user_agent"].as_str().unwrap(), String::from_utf8_lossy(value));
        }
    }
}
