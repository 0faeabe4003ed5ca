//! Responses compared, and what is shown and kept of them.

use super::*;
use std::fmt::Write as _;
use std::io::Write as _;
use titan_config::{Action, ByteSize, Config};

fn config(compare: &str) -> Comparison {
    let text = format!(
        "listeners: [':80']\nupstreams: {{ a: a:1, b: b:1 }}\n\
         routes: [{{ upstream: a, mirror: {{ upstream: b, compare: {{ {compare} }} }} }}]"
    );
    let config = Config::parse("test", &text).unwrap_or_else(|bad| panic!("{bad}"));
    let Action::Proxy(proxy) = &config.routes[0].action else { unreachable!() };
    proxy.mirrors[0].compare.clone().unwrap()
}

struct Mirror {
    registry: Registry,
    comparer: Arc<Comparer>,
    memory: CopyMemory,
}

impl Mirror {
    fn new(compare: &str) -> Mirror {
        let registry = Registry::default();
        let comparer = Comparer::of(&registry, &config(compare), "r", "b");
        let memory = CopyMemory::of(&registry, ByteSize::new(1 << 20));
        Mirror { registry, comparer, memory }
    }

    fn captured(&self, status: u16, fields: &[(&str, &str)], body: impl AsRef<[u8]>) -> Captured {
        let mut head = ResponseHead::with_status(Status::from_code(status).unwrap());
        for (name, value) in fields {
            head.fields.append_named(name.as_bytes(), value.as_bytes()).unwrap();
        }
        let mut captured = self.comparer.capture(&head, BodyLength::Unknown, &self.memory).unwrap();
        body.as_ref().chunks(3).for_each(|data| captured.append(data));
        captured
    }

    /// Compares two responses of JSON.
    fn judges(&self, one: &str, other: &str) {
        self.judges_all(&[one, other].map(|body| self.captured(200, JSON, body)));
    }

    fn judges_all(&self, responses: &[Captured; 2]) {
        let mut request = RequestHead::default();
        request.set_path(b"/orders/7").unwrap();
        request.set_query(Some(b"token=x")).unwrap();
        request.fields.append(FieldName::XRequestId, b"id-1").unwrap();
        self.comparer.judge(ComparedRequest::of(&request), responses);
    }

    fn not_compared(&self) -> Vec<&'static str> {
        let counted = self.comparer.status().not_compared.into_iter();
        counted.filter(|(_, count)| *count > 0).map(|(reason, _)| reason).collect()
    }

    /// The differences of the newest sample, a line each.
    fn shown(&self) -> String {
        let status = self.comparer.status();
        let sample = status.samples.last().expect("something differs");
        let mut text = String::new();
        let value = |value: &Option<ShownValue>| match value {
            None => "nothing".to_owned(),
            Some(ShownValue { kind, bytes, value: None }) => format!("{kind} of {bytes}"),
            Some(ShownValue { value: Some(value), .. }) => value.clone(),
        };
        for ResponseDifference { part, place, original, mirror } in &sample.differences {
            writeln!(text, "{part} {place}: {} | {}", value(original), value(mirror)).unwrap();
        }
        text
    }
}

const JSON: &[(&str, &str)] = &[("Content-Type", "application/json; charset=utf-8")];

#[test]
fn responses_are_compared_by_status_headers_and_body() {
    let mirror = Mirror::new("headers: [ETag, Vary, Content-Type]");
    let tag = ("etag", "\"1\"");
    let of = |status, fields: &[_]| mirror.captured(status, fields, "");
    mirror.judges_all(&[
        of(200, &[tag, ("vary", "a"), ("vary", "b")]),
        of(200, &[tag, ("vary", "a, b"), ("date", "x")]),
    ]);
    assert_eq!(mirror.comparer.status().equal, 1);
    mirror.judges_all(&[of(200, &[tag]), of(200, &[tag, ("vary", "a, b")])]);
    assert_eq!(mirror.shown(), "header Vary: nothing | a, b\n");
    mirror.judges_all(&[of(200, &[tag]), of(500, &[])]);
    assert_eq!(mirror.shown(), "status : 200 | 500\n");
    mirror.judges(r#"{"a":1}"#, r#"{"a":2}"#);
    let ComparisonStatus { equal, different, differing, places, .. } = mirror.comparer.status();
    assert_eq!((equal, different), (1, 3));
    assert_eq!(differing, [("status", 1), ("header", 1), ("body", 1)]);
    let places: Vec<_> = places.iter().map(|(part, at, count)| (*part, &**at, *count)).collect();
    assert_eq!(places, [("body", "/a", 1), ("header", "Vary", 1), ("status", "", 1)]);
}

#[test]
fn what_cannot_be_compared_is_counted_by_reason() {
    let gzip = &[("Content-Type", "application/json"), ("Content-Encoding", "compress")][..];
    let text = &[("Content-Type", "text/plain")][..];
    let deep = "[".repeat(100) + &"]".repeat(100);
    let large = "x".repeat(101);
    for (fields, bodies, reason) in [
        (gzip, ["a", "b"], "encoded"),
        (text, ["a", "b"], "not-json"),
        (text, ["{}", "[]"], "not-json"),
        (JSON, ["{", "{}"], "not-json"),
        (JSON, ["{}", &deep[..]], "too-deep"),
        (JSON, ["{}", &large[..]], "body-too-large"),
    ] {
        let mirror = Mirror::new(if reason == "too-deep" { "" } else { "body: 100B" });
        mirror.judges_all(&bodies.map(|body| mirror.captured(200, fields, body)));
        assert_eq!(mirror.not_compared(), [reason]);
        // Bytes that are the same need not be understood.
        let mirror = Mirror::new("");
        mirror.judges_all(&[0, 1].map(|_| mirror.captured(200, fields, bodies[1])));
        assert_eq!(mirror.comparer.status().equal, 1, "{reason}");
    }
    let mirror = Mirror::new("body: off");
    mirror.judges("1", "2");
    assert_eq!(mirror.comparer.status().equal, 1);
}

#[test]
fn bodies_are_decoded_to_be_compared() {
    let gzip = |text: &str| {
        let level = flate2::Compression::fast();
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    let zstd = |text: &str| zstd::encode_all(text.as_bytes(), 1).unwrap();
    let json = "application/json";
    let coded = |coding| [("Content-Type", json), ("Content-Encoding", coding)];
    let long = format!("\"{}\"", "x".repeat(2000));
    for (one, other, (equal, different, reason)) in [
        (("x-gzip", gzip("{\"a\":1}")), ("zstd", zstd("{\"a\":1.0}")), (1, 0, None)),
        (("identity", b"7".to_vec()), ("gzip", gzip("7")), (1, 0, None)),
        (("gzip", gzip("{\"a\":1}")), ("gzip", gzip("{\"a\":2}")), (0, 1, None)),
        (("gzip", gzip(&long)), ("gzip", gzip("1")), (0, 0, Some("body-too-large"))),
        (("gzip", b"no gzip".to_vec()), ("gzip", gzip("1")), (0, 0, Some("encoded"))),
        (("gzip, br", b"x".to_vec()), ("gzip, br", b"y".to_vec()), (0, 0, Some("encoded"))),
    ] {
        let mirror = Mirror::new("body: 1KiB");
        let responses =
            [&one, &other].map(|(coding, body)| mirror.captured(200, &coded(coding), body));
        mirror.judges_all(&responses);
        let status = mirror.comparer.status();
        assert_eq!((status.equal, status.different), (equal, different), "{one:?} {other:?}");
        assert_eq!(mirror.not_compared(), Vec::from_iter(reason));
    }
}

#[test]
fn media_types_tell_what_is_json() {
    for json in ["application/json", "Application/JSON ; x=y", "application/problem+json"] {
        assert!(is_json(json.as_bytes()), "{json}");
    }
    for other in ["", "text/json", "application/jsonp", "application/json-seq", "json"] {
        assert!(!is_json(other.as_bytes()), "{other}");
    }
}

#[test]
fn values_are_shown_only_where_the_configuration_says_so() {
    let one = r#"{"user":{"name":"Ann","accessToken":"s1","signingKey":"s2","sid":"s7","tags":["s3"]},"price":10,"paid":null}"#;
    let other = r#"{"user":{"name":"Bob","accessToken":"s4","signingKey":"s5","sid":"s8","tags":{"a":"s6"}},"price":12,"paid":true}"#;
    let hidden = Mirror::new("");
    hidden.judges(one, other);
    assert_eq!(
        hidden.shown(),
        "body /paid: null of 4 | boolean of 4\n\
         body /price: number of 2 | number of 2\n\
         body /user/accessToken: string of 4 | string of 4\n\
         body /user/name: string of 5 | string of 5\n\
         body /user/sid: string of 4 | string of 4\n\
         body /user/signingKey: string of 4 | string of 4\n\
         body /user/tags: array of 6 | object of 10\n"
    );
    let some = Mirror::new("show: [/price, /user]");
    some.judges(one, other);
    assert_eq!(
        some.shown(),
        "body /paid: null of 4 | boolean of 4\n\
         body /price: 10 | 12\n\
         body /user/accessToken: string of 4 | string of 4\n\
         body /user/name: \"Ann\" | \"Bob\"\n\
         body /user/sid: string of 4 | string of 4\n\
         body /user/signingKey: string of 4 | string of 4\n\
         body /user/tags: array of 6 | object of 10\n"
    );
    let sample = Arc::clone(&some.comparer.status().samples[0]);
    assert_eq!((&*sample.method, &*sample.path), ("GET", "/orders/7"), "and no query");
    assert_eq!(sample.request_id.as_deref(), Some("id-1"));
}

#[test]
fn values_of_headers_that_tell_secrets_are_never_shown() {
    let names = "Set-Cookie, Location, WWW-Authenticate, X-Api-Key, X-Session, Authentication-Info";
    let mirror = Mirror::new(&format!("headers: [{names}, ETag]"));
    let fields = |value| {
        let names = names.split(", ").chain(["ETag"]);
        names.map(|name| (name, value)).collect::<Vec<_>>()
    };
    mirror.judges_all(&["one", "other"].map(|it| mirror.captured(200, &fields(it), "")));
    let shown = mirror.shown();
    assert_eq!(shown.matches("string of 3 | string of 5").count(), 6, "{shown}");
    assert_eq!(shown.matches("one").count(), 1, "{shown}");
}

#[test]
fn what_is_kept_of_differences_is_bounded() {
    let mirror = Mirror::new("samples: 3, show: /*, body: 1MiB");
    let list = |value: &str| {
        let items: Vec<_> = (0..1000).map(|it| format!(r#"{{"m{it}":"{value}"}}"#)).collect();
        format!("[{}]", items.join(","))
    };
    for _ in 0..5 {
        mirror.judges(&list(&"x".repeat(300)), &list("y"));
    }
    let status = mirror.comparer.status();
    assert_eq!((status.different, status.samples.len(), status.places.len()), (5, 3, MOST_PLACES));
    assert!(status.places.iter().all(|(_, at, count)| at.starts_with("/*/m") && *count == 5));
    let sample = &status.samples[0];
    assert_eq!((sample.differences.len(), sample.more), (10, 990));
    let shown = sample.differences[0].original.as_ref().unwrap();
    assert_eq!(
        (shown.bytes, shown.value.as_deref()),
        (302, Some(&*format!("\"{}…", "x".repeat(99))))
    );
    let name = "é".repeat(100_000);
    mirror.judges(&format!(r#"{{"{name}":1}}"#), &format!(r#"{{"{name}":2}}"#));
    let place = &mirror.comparer.status().samples[2].differences[0].place;
    assert!(place.len() <= 203 && place.ends_with("é…"), "{place}");
    assert_eq!(shortened("aé".as_bytes(), 2), "a…");
}

#[test]
fn captured_bodies_have_the_memory_of_copies() {
    let mirror = Mirror::new("body: 1MiB");
    let large = "x".repeat(600_000);
    let first = mirror.captured(200, &[], &large);
    assert!(first.wants_more() && !mirror.captured(200, &[], &large).wants_more());
    drop(first);
    assert!(mirror.captured(200, &[], &large).wants_more());
    let head = ResponseHead::with_status(Status::OK);
    let length = BodyLength::Known((1 << 20) + 1);
    assert!(!mirror.comparer.capture(&head, length, &mirror.memory).unwrap().wants_more());
}

#[test]
fn captured_heads_have_it_too() {
    for compare in ["headers: [x-large]", "headers: [x-large], body: 1KiB"] {
        let mirror = Mirror::new(compare);
        let mut head = ResponseHead::with_status(Status::OK);
        head.fields.append_named(b"x-large", &[b'x'; 600_000]).unwrap();
        let capture = || mirror.comparer.capture(&head, BodyLength::Known(2000), &mirror.memory);
        let first = capture().unwrap();
        assert_eq!(capture().err(), Some(NotCompared::NoMemory), "{compare}");
        drop(first);
        capture().unwrap();
    }
}

#[test]
fn what_has_differed_outlives_a_configuration_that_shows_the_same() {
    let mirror = Mirror::new("show: /a");
    mirror.judges(r#"{"a":1}"#, r#"{"a":2}"#);
    let of = |compare: &str| Comparer::of(&mirror.registry, &config(compare), "r", "b").status();
    assert_eq!(of("show: /a, ignore: /b, samples: 1"), mirror.comparer.status());
    let other = of("show: /b");
    assert_eq!((other.different, other.samples.len(), other.places.len()), (1, 0, 0));
}

/// The thread compares what it is given, and ends with the last mirror.
#[test]
fn a_thread_compares() {
    let mirror = Mirror::new("");
    let Mirror { comparer, .. } = &mirror;
    for _ in 0..10 {
        let both = ["1", "2"].map(|body| mirror.captured(200, JSON, body));
        comparer.compare(ComparedRequest::of(&RequestHead::default()), both);
    }
    let thread = Arc::downgrade(&comparer.thread);
    while comparer.status().different + mirror.not_compared().len() as u64 != 10 {
        thread::yield_now();
    }
    drop(mirror);
    while thread.strong_count() > 0 {
        thread::yield_now();
    }
}
