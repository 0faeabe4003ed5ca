//! What lines say, and that nobody obeys them.

use super::*;
use crate::record::{Bodies, BodyOf, CacheUse, Chosen, ExchangeRecord, Text, TlsVersion};
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::sync::LazyLock;
use std::time::Duration;
use titan_config::{AccessLog, Config, LogField};
use titan_http::{FieldName, Fields, Scheme, Status, Version};
use titan_io::error::Kind;

fn chosen(endpoint: &str) -> Chosen<'_> {
    Chosen { upstream: "api", endpoint, balance: "random", choices: 3 }
}

fn fields(lines: &[(&str, &[u8])]) -> Fields {
    let mut fields = Fields::default();
    for (name, value) in lines {
        let known = FieldName::of(name.as_bytes());
        fields.push_checked(known, name.as_bytes(), value).expect("it is short");
    }
    fields
}

fn full() -> ExchangeRecord {
    let mut record = ExchangeRecord::default();
    let micros = |micros| Some(Duration::from_micros(micros));
    let facts = &mut record.facts;
    facts.set_started(1_795_796_400_123_456);
    facts.set_took(Duration::from_micros(12_034));
    facts.set_head(micros(1_500));
    facts.set_policies(micros(20));
    facts.set_queue(micros(0));
    facts.set_request_bytes(512);
    facts.set_response_bytes(2_048);
    facts.set_status(Some(Status::BAD_GATEWAY));
    facts.set_token_cache(Some(CacheUse::Hit));
    facts.set_auth_cache(Some(CacheUse::Miss));
    facts.set_version(Version::Http2);
    facts.set_tls(Some(TlsVersion::Tls13));
    facts.set_scheme(Scheme::Https);
    facts.set_client("192.0.2.7".parse().ok());
    facts.set_peer("2001:db8::1".parse().ok());
    record.fail(Kind::Connect.into());
    for (text, value) in [
        (Text::Listener, "https"),
        (Text::Sni, "shop.example"),
        (Text::Method, "POST"),
        (Text::Host, "shop.example:8443"),
        (Text::Target, "/cart/a%20b?id=7&token=abc"),
        (Text::Route, "cart"),
        (Text::RefusedBy, "limit"),
        (Text::RequestId, "4f2a"),
        (Text::TraceId, "0af7651916cd43dd8448eb211c80319c"),
    ] {
        record.set(text, value.as_bytes());
    }
    record.begin_attempt(false, Duration::ZERO, chosen("10.0.0.2:80"));
    record.begin_attempt(false, Duration::ZERO, chosen("10.0.0.1:80"));
    let last = record.attempt_at("10.0.0.1:80").expect("it has begun");
    last.set_connect(micros(310));
    last.set_tls(micros(2_100));
    last.note_head(Duration::from_micros(9_800), Status::SERVICE_UNAVAILABLE);
    record.set_request_head(&fields(&[
        ("X-Tenant", b"acme"),
        ("User-Agent", b"curl/8 \"x\""),
        ("Authorization", b"Bearer abc"),
        ("Referer", b"https://u:p@shop.example/cart?sid=1"),
    ]));
    record.set_response_head(&fields(&[("Content-Type", b"text/plain")]));
    record.add_claim(b"sub", b"alice");
    record
}

/// The settings of an access log to which everything is told.
fn log(format: &str) -> AccessLog {
    const CAPTURES: &str = "request_headers: [X-Tenant, Authorization, X-Other], \
        response_headers: Content-Type, claims: sub";
    let captures = if format == "json" { CAPTURES } else { "" };
    let text = format!(
        "listeners: [\":1\"]\nroutes: [{{ respond: 204 }}]\n\
         policies: {{ p: {{ jwt: {{ providers: {{ algorithms: HS256, \
           keys: {{ secret: forty bytes that nobody but us can guess }} }} }} }} }}\n\
         apply: [p]\naccess_log: {{ stdout: {{}}, format: '{format}', {captures} }}"
    );
    Config::parse("test", &text).unwrap().access_log.remove(0)
}

fn line(record: &ExchangeRecord, log: &AccessLog) -> String {
    let (mut bytes, mut line) = (Vec::new(), Vec::new());
    record.write_to(&mut bytes);
    let (record, _) = Recorded::first_of(&bytes).unwrap();
    Formatter::new(&log.format, &log.captures).line(&record, &mut line);
    String::from_utf8(line).unwrap()
}

/// A record of what passed.
fn with_bodies(request: &[u8], response: &[u8]) -> ExchangeRecord {
    let mut record = full();
    let bodies = Bodies::new(64);
    bodies.note(BodyOf::Request, request);
    bodies.note(BodyOf::Response, response);
    record.bodies = Some(bodies);
    record
}

/// What a formatter makes of it.
fn written(
    record: &ExchangeRecord,
    write: fn(&mut FullFormatter, &Recorded<'_>, &mut Vec<u8>),
) -> Value {
    let (mut bytes, mut text) = (Vec::new(), Vec::new());
    record.write_to(&mut bytes);
    let (record, _) = Recorded::first_of(&bytes).unwrap();
    write(&mut FullFormatter::default(), &record, &mut text);
    serde_json::from_slice(&text).unwrap()
}

#[test]
fn bodies_are_in_no_log() {
    let (record, without) =
        (with_bodies(b"password=hushhush", b"{\"token\":\"hushhush\"}"), full());
    let template =
        "{method} {path} {query} {request_header.X-Tenant} {response_header.Content-Type}";
    for format in ["json", "combined", template] {
        let log = log(format);
        assert_eq!(line(&record, &log), line(&without, &log), "{format}");
    }
    let listed = written(&record, FullFormatter::object);
    assert_eq!(listed, written(&without, FullFormatter::object));
    assert_eq!(written(&without, FullFormatter::object_with_bodies), listed);
}

#[test]
fn bodies_are_text_where_they_can_be_read() {
    let bodies = |request: &[u8], response: &[u8]| {
        let written = written(&with_bodies(request, response), FullFormatter::object_with_bodies);
        (written["request_body"].clone(), written["response_body"].clone())
    };
    let text = |content: &str, bytes: u64, kept: u64| json!({ "bytes": bytes, "kept": kept, "encoding": "text", "content": content });
    let hostile = "{\"a\": \"\u{202e}\u{1b}[31m</script>\"}\r\n";
    let long = "ä".repeat(100);
    let (request, response) = bodies(hostile.as_bytes(), format!("a{long}").as_bytes());
    assert_eq!(request, text(hostile, hostile.len() as u64, hostile.len() as u64));
    assert_eq!(response, text(&format!("a{}", &long[..62]), 201, 64), "without half a character");
    let (request, response) = bodies(b"", b"\0\0\0\0\x02\xff");
    assert_eq!(request, Value::Null, "nothing of it has passed");
    let binary = json!({ "bytes": 6, "kept": 6, "encoding": "base64", "content": "AAAAAAL/" });
    assert_eq!(response, binary);
}

#[test]
fn json_has_everything_by_name() {
    let line = line(&full(), &log("json"));
    let json: Value = serde_json::from_str(&line).unwrap();
    insta::assert_snapshot!(serde_json::to_string_pretty(&json).unwrap());
}

/// The schema has the names and types of all that a record can tell, and no others.
#[test]
fn json_is_what_its_schema_says() {
    let schema: Value = serde_json::from_str(&titan_config::access_log_schema()).unwrap();
    let properties = schema["properties"].as_object().unwrap();
    let full: Value = serde_json::from_str(&line(&full(), &log("json"))).unwrap();
    let full = full.as_object().unwrap();
    assert_eq!(names(full), names(properties));
    for (name, value) in full {
        let is_of_type = match properties[name]["type"].as_str().unwrap() {
            "string" => value.is_string(),
            "integer" => value.is_u64(),
            "number" => value.is_number(),
            "boolean" => value.is_boolean(),
            _ => value.as_object().unwrap().values().all(Value::is_string),
        };
        assert!(is_of_type, "{name}: {value}");
    }
    let empty: Value =
        serde_json::from_str(&line(&ExchangeRecord::default(), &log("json"))).unwrap();
    let required: BTreeSet<_> =
        schema["required"].as_array().unwrap().iter().map(|it| it.as_str().unwrap()).collect();
    assert_eq!(names(empty.as_object().unwrap()), required);
}

fn names(object: &Map<String, Value>) -> BTreeSet<&str> {
    object.keys().map(String::as_str).collect()
}

/// Every field, in the order of the table.
#[test]
fn a_text_can_have_every_field() {
    let names = LogField::ALL.iter().map(|field| format!("{}={{{}}}", field.name(), field.name()));
    let all = names.chain([
        "{request_header.x-tenant} {request_header.Nothing} {response_header.content-type} {{}}"
            .to_owned(),
    ]);
    let format = all.collect::<Vec<_>>().join("\n").replace('\n', " | ");
    let log = log(&format);
    let write = |record: &ExchangeRecord| line(record, &log).trim_end().replace(" | ", "\n");
    insta::assert_snapshot!(write(&full()));
    insta::assert_snapshot!(write(&ExchangeRecord::default()));
}

#[test]
fn json_leaves_out_what_there_was_not() {
    let line = line(&ExchangeRecord::default(), &log("json"));
    insta::assert_snapshot!(line.trim_end());
}

#[test]
fn of_a_head_that_could_not_be_read_nothing_is_made_up() {
    let mut record = ExchangeRecord::default();
    record.facts.set_status(Some(Status::BAD_REQUEST));
    record.fail(Kind::HeadTimeout.into());
    let json: Value = serde_json::from_str(&line(&record, &log("json"))).unwrap();
    let of_head = ["method", "host", "path", "query", "user_agent", "referer", "request_headers"];
    let schema: Value = serde_json::from_str(&titan_config::access_log_schema()).unwrap();
    for name in of_head {
        assert_eq!(json.get(name), None, "{json}");
        assert!(schema["properties"].get(name).is_some(), "{name}");
        assert!(!schema["required"].as_array().unwrap().contains(&name.into()), "{name}");
    }
    for name in ["method", "host", "path"] {
        let said = schema["properties"][name]["description"].as_str().unwrap();
        assert!(said.contains("Not there if the head of the request could not be read."), "{said}");
    }
    assert_eq!((&json["status"], &json["caused_by"]), (&400.into(), &"client".into()));
    let text = "{method} {host} {path} {query} {user_agent} {request_header.X-Tenant} {status}";
    assert_eq!(line(&record, &log(text)), "- - - - - - 400\n");
    assert!(line(&record, &log("combined")).contains("] \"-\" 400 "));
}

#[test]
fn combined_is_what_log_tools_read() {
    insta::assert_snapshot!(line(&full(), &log("combined")).trim_end());
    insta::assert_snapshot!(line(&ExchangeRecord::default(), &log("combined")).trim_end());
}

proptest! {
    /// Escapes of a terminal, ends of lines, marks that turn the direction of text, HTML, bytes that are no text.
    #[test]
    fn a_line_is_one_line_of_ascii_and_tells_what_was_sent(
        value in prop::collection::vec(any::<u8>(), 1..60),
        characters in "\\PC{0,10}[\u{202e}\u{1b}\u{9b}<>\"\\\\\n\r]{0,5}",
    ) {
        static LOGS: LazyLock<[AccessLog; 3]> =
            LazyLock::new(|| ["json", "combined", "{user_agent} {path} {claim.sub}"].map(log));
        let logs = &*LOGS;
        for value in [&value[..], characters.as_bytes()].into_iter().filter(|it| !it.is_empty()) {
            let mut record = full();
            record.set_request_head(&fields(&[("User-Agent", value)]));
            record.set(Text::Target, value);
            record.add_claim(b"sub", value);
            for log in logs {
                let line = line(&record, log);
                prop_assert!(line.trim_end_matches('\n').bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{line}");
                prop_assert_eq!(line.matches('\n').count(), 1);
            }
            let json: Value = serde_json::from_str(&line(&record, &logs[0])).unwrap();
            prop_assert_eq!(json["user_agent"].as_str().unwrap(), String::from_utf8_lossy(value));
        }
    }
}
