//! The conformance vectors through a running gateway: what one side must refuse never reaches the other,
//! and what passes says the same on both sides.

use serde_json::Value;
use std::path::Path;
use titan_testkit::upstream::{self, ok};
use titan_testkit::{Gateway, Message, Response, Upstream, gateway};

/// Under it the gateway adds nothing, keeps what the peer claims, and has the limits of the vectors.
const VECTORS: &str = "\
forwarding: { x_forwarded: false, request_id: off, via: off, trusted_proxies: [127.0.0.1] }
limits: { body: 1MiB, response_head: 16KiB, response_fields: 100 }
routes: [{ prefix: /, upstream: u, retries: 0 }]";

/// Accepted by the engine, and refused by the gateway: the vector, the status, the reason.
const REFUSED: &[(&str, u16, &str)] = &[
    ("9112-3.2-origin-percent", 400, "an encoded control byte"),
    ("9112-3.2-origin-percent-malformed", 400, "escapes without digits"),
    ("9112-3.2-origin-backslash", 400, "a backslash"),
];

/// Targets that reach the upstream in another form.
const TARGETS: &[(&str, &str)] = &[
    ("9112-3.2-origin-dot-segments", "/b/c"),
    ("9112-3.2-origin-double-slash", "/a/b"),
    ("9112-3.2-origin-scheme-inside", "/http:/b/"),
    ("9112-3.2-origin-brackets-and-pipes", "/a[]{}|^`\"<>"),
];

/// Fields for one connection, and those that the gateway writes anew.
const OWN: &[&str] = &[
    // What some upstreams take for a framing field: it passes from no peer.
    "content_length",
    "transfer_encoding",
    // Proxies are believed in X-Forwarded-For.
    "forwarded",
    "date",
    "connection",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "proxy-authenticate",
    "proxy-authorization",
    "host",
    "content-length",
];

struct Vector {
    id: String,
    input: Vec<u8>,
    close: bool,
    json: Value,
}

#[test]
fn a_request_that_must_be_refused_is_and_reaches_no_upstream() {
    let upstream = upstream::replies(ok(""));
    let gateway = gateway(VECTORS, &[&upstream]);
    let vectors = vectors("server", "reject");
    assert!(vectors.len() > 500);
    // How HTTP/2 begins is no fault where that is spoken too.
    let faults = vectors.iter().filter(|vector| !vector.input.starts_with(b"PRI * HTTP/2.0"));
    for vector in faults {
        let mut client = gateway.connects();
        client.offers(&vector.input);
        let response = client.response();
        let status = vector.json["status"].as_u64();
        assert_eq!(Some(u64::from(response.status)), status, "{}: {}", vector.id, response.text());
        assert_eq!(response.field("connection"), Some("close"), "{}", vector.id);
        assert!(!response.problem().is_empty(), "{}", vector.id);
        client.expects_close();
        assert_eq!(upstream.requests(), [], "{}", vector.id);
    }
}

#[test]
fn a_truncated_request_reaches_no_upstream_as_complete() {
    let upstream = upstream::replies(ok(""));
    let gateway = gateway(VECTORS, &[&upstream]);
    for vector in vectors("server", "incomplete") {
        let mut client = gateway.connects();
        client.sends(&vector.input).finishes();
        client.rest();
        assert_eq!(upstream.requests(), [], "{}", vector.id);
    }
}

#[test]
fn a_request_that_passes_says_the_same_on_both_sides() {
    let mut passed = 0;
    for vector in vectors("server", "accept") {
        let upstream = upstream::replies(ok("x"));
        let gateway = gateway(VECTORS, &[&upstream]);
        match expected_refusal(&vector) {
            Some(status) => refuses(&vector, status, &gateway, &upstream),
            None => {
                passes(&vector, &gateway, &upstream);
                passed += 1;
            }
        }
    }
    assert!(passed > 200, "only {passed} vectors pass");
}

fn refuses(vector: &Vector, status: u16, gateway: &Gateway, upstream: &Upstream) {
    let mut client = gateway.connects();
    client.sends(&vector.input);
    let response = client.response();
    assert_eq!(response.status, status, "{}: {}", vector.id, response.text());
    assert_eq!(upstream.requests(), [], "{}", vector.id);
}

fn passes(vector: &Vector, gateway: &Gateway, upstream: &Upstream) {
    let Vector { id, input, close, json } = vector;
    let mut client = gateway.connects();
    client.sends(input);
    if *close {
        client.finishes();
    }
    let method = text(&json["head"]["method"]);
    let response = client.response_to(&method);
    assert_eq!(response.status, 200, "{id}: {}", response.text());
    let request = &upstream.requests()[0];
    assert_eq!(request.method, method, "{id}");
    assert_eq!(
        request.target,
        target_upstream(id, &method, &text(&json["head"]["target"])),
        "{id}"
    );
    assert_same(id, request, json);
    let host = pairs(&json["fields"]).into_iter().find(|(name, _)| name == "host");
    if let Some((_, host)) = host {
        // The target's authority stands above Host, and may write the same in another way.
        let received = request.field("host").expect("a host").trim_end_matches(':');
        let host = host.trim_end_matches(':');
        assert!(received.eq_ignore_ascii_case(host), "{id}: {received} instead of {host}");
    }
    if json["persist"] == true && bytes(&json["rest"]).is_empty() && !close {
        client.sends("GET /next HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.response().status, 200, "{id}");
        assert_eq!(upstream.requests()[1].target, "/next", "{id}");
    }
    if json["persist"] == false {
        client.expects_close();
        assert_eq!(upstream.requests().len(), 1, "{id}");
    }
}

/// Responses that a client refuses, and whose status and body the gateway delivers: it drops trailers beyond their limit.
const DELIVERED: &[&str] = &["9112-7.1.2-response-section-of-4097-bytes"];

#[test]
fn a_response_that_must_be_refused_never_looks_complete() {
    for vector in vectors("client", "reject") {
        if DELIVERED.contains(&vector.id.as_str()) {
            continue;
        }
        let upstream = upstream::listens();
        let gateway = gateway(VECTORS, &[&upstream]);
        let Some(method) = method(&vector) else { continue };
        let mut client = gateway.connects();
        client.sends(format!("{method} / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
        let mut endpoint = upstream.accepts();
        endpoint.request();
        endpoint.offers(&vector.input);
        is_not_passed_off(&vector.id, client.last_response_to(&method));
        // Nothing that comes after it is believed either.
        endpoint.rest();
    }
}

#[test]
fn a_response_that_is_cut_short_never_looks_complete() {
    for vector in vectors("client", "incomplete").into_iter().filter(|vector| vector.close) {
        let upstream = upstream::listens();
        let gateway = gateway(VECTORS, &[&upstream]);
        let Some(method) = method(&vector) else { continue };
        let mut client = gateway.connects();
        client.sends(format!("{method} / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
        let mut endpoint = upstream.accepts();
        endpoint.request();
        endpoint.sends(&vector.input);
        endpoint.closes();
        is_not_passed_off(&vector.id, client.last_response_to(&method));
    }
}

/// Either the gateway says that the endpoint failed, or the client sees that something is missing.
fn is_not_passed_off(id: &str, response: Option<Response>) {
    if let Some(response) = response {
        assert_eq!(response.status, 502, "{id}");
        assert_eq!(response.field("content-type"), Some("application/problem+json"), "{id}");
    }
}

#[test]
fn a_response_that_passes_says_the_same_on_both_sides() {
    let mut passed = 0;
    for vector in vectors("client", "accept") {
        let Some(method) = method(&vector) else { continue };
        let Vector { id, input, close, json } = &vector;
        if json["head"]["status"] == 101 {
            continue;
        }
        let upstream = upstream::listens();
        let gateway = gateway(VECTORS, &[&upstream]);
        let mut client = gateway.connects();
        client.sends(format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n"));
        let mut endpoint = upstream.accepts();
        endpoint.request();
        endpoint.sends(input);
        if *close {
            endpoint.finishes();
        }
        for interim in json["interim"].as_array().into_iter().flatten() {
            // That one was not requested.
            if interim["status"] != 100 {
                let response = client.response();
                assert_eq!(Some(u64::from(response.status)), interim["status"].as_u64(), "{id}");
                assert_eq!(passed_on(&response), passed_on_of(&interim["fields"]), "{id}");
            }
        }
        let response = client.response_to(&method);
        assert_eq!(Some(u64::from(response.status)), json["head"]["status"].as_u64(), "{id}");
        assert_same(id, &response, json);
        client.sends("GET /next HTTP/1.1\r\nHost: a\r\n\r\n");
        // What is left on its connection, or comes over it later, is not a response to any request.
        let goes_on = json["persist"] == true && bytes(&json["rest"]).is_empty() && !close;
        let mut next = if goes_on { endpoint } else { upstream.accepts() };
        assert_eq!(next.request().target, "/next", "{id}");
        next.sends(ok("next"));
        assert_eq!(client.response().body, b"next", "{id}");
        passed += 1;
    }
    assert!(passed > 50, "only {passed} vectors pass");
}

#[test]
fn exceptions_are_of_vectors_that_exist() {
    let all = vectors("server", "accept");
    let ids = REFUSED.iter().map(|(id, ..)| id).chain(TARGETS.iter().map(|(id, _)| id));
    ids.for_each(|id| assert!(all.iter().any(|vector| vector.id == *id), "{id}"));
}

/// The vectors for that role with that verdict, but for those with limits that no configuration has.
fn vectors(role: &str, verdict: &str) -> Vec<Vector> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/http1");
    let mut vectors = Vec::new();
    for entry in folder.read_dir().expect("the vectors") {
        let path = entry.expect("an entry").path();
        let is_data = path.extension().is_some_and(|extension| extension == "json");
        if !is_data || path.ends_with("schema.json") {
            continue;
        }
        let file = std::fs::read_to_string(&path).expect("a readable file");
        let file: Value = serde_json::from_str(&file).expect("JSON");
        let list = file["vectors"].as_array().expect("a list of vectors");
        let wanted =
            |it: &&Value| it["role"] == role && it["verdict"] == verdict && it["limits"].is_null();
        vectors.extend(list.iter().filter(wanted).map(Vector::new));
    }
    vectors
}

impl Vector {
    fn new(json: &Value) -> Vector {
        Vector {
            id: text(&json["id"]),
            input: bytes(&json["input"]),
            close: json["close"] == true,
            json: json.clone(),
        }
    }
}

fn expected_refusal(vector: &Vector) -> Option<u16> {
    if vector.json["head"]["method"] == "CONNECT" {
        return Some(501);
    }
    let refused = REFUSED.iter().find(|(id, ..)| *id == vector.id);
    refused.map(|(_, status, _)| *status)
}

/// The method of the request that the vector is a response to; none where the gateway would not send it on.
fn method(vector: &Vector) -> Option<String> {
    let method = vector.json["request_method"].as_str().unwrap_or("GET");
    (method != "CONNECT").then(|| method.to_owned())
}

/// Absolute-form becomes origin-form (RFC 9112 section 3.2.1).
fn target_upstream(id: &str, method: &str, target: &str) -> String {
    if let Some((_, target)) = TARGETS.iter().find(|(known, _)| *known == id) {
        return (*target).to_owned();
    }
    let Some((_, rest)) = target.split_once("://").filter(|_| !target.starts_with('/')) else {
        return target.to_owned();
    };
    match rest.find(['/', '?']) {
        None if method == "OPTIONS" => "*".to_owned(),
        None => "/".to_owned(),
        Some(start) if rest[start..].starts_with('?') => format!("/{}", &rest[start..]),
        Some(start) => rest[start..].to_owned(),
    }
}

/// Compares fields, body and trailers with what the vector says.
#[track_caller]
fn assert_same(id: &str, message: &Message, json: &Value) {
    assert_eq!(passed_on(message), passed_on_of(&json["fields"]), "{id}");
    assert!(message.body == bytes(&json["body"]), "{id}: {}", message.text());
    assert_eq!(message.trailers, pairs(&json["trailers"]), "{id}");
}

fn passed_on(message: &Message) -> Vec<(String, String)> {
    without_own(message.fields.clone())
}

fn passed_on_of(fields: &Value) -> Vec<(String, String)> {
    without_own(pairs(fields))
}

fn without_own(mut fields: Vec<(String, String)>) -> Vec<(String, String)> {
    let listed: Vec<String> = fields
        .iter()
        .filter(|(name, _)| name == "connection")
        .flat_map(|(_, list)| list.split(',').map(|member| member.trim().to_ascii_lowercase()))
        .collect();
    fields.retain(|(name, _)| !OWN.contains(&name.as_str()) && !listed.contains(name));
    fields
}

fn pairs(json: &Value) -> Vec<(String, String)> {
    let list = json.as_array().into_iter().flatten();
    list.map(|pair| (text(&pair[0]).to_ascii_lowercase(), text(&pair[1]))).collect()
}

fn text(json: &Value) -> String {
    json.as_str().expect("a string").to_owned()
}

/// A string whose characters are bytes, or pieces and runs of such strings.
fn bytes(json: &Value) -> Vec<u8> {
    match json {
        Value::String(text) => text.chars().map(|it| u8::try_from(it).expect("a byte")).collect(),
        Value::Array(pieces) => pieces.iter().flat_map(bytes).collect(),
        Value::Object(run) => {
            let times = run["times"].as_u64().expect("a number").try_into().expect("a size");
            bytes(&run["repeat"]).repeat(times)
        }
        _ => Vec::new(),
    }
}
