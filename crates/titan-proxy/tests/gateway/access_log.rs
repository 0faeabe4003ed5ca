//! What is told of each exchange: in a file, as the thread that writes it has written it.

use crate::jwt::{PROVIDER, at, token};
use crate::tunnels::{CONSENT, WISH};
use serde_json::Value;
use std::fmt::Display;
use std::fs;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use titan_testkit::h2::{Head, block, setting};
use titan_testkit::upstream::{self, ok, ok_with};
use titan_testkit::{Gateway, gateway, waits_until};

/// A log file of its own, which is removed in the end.
pub(crate) struct LogFile(PathBuf);

impl LogFile {
    pub(crate) fn new() -> LogFile {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("titan-access-{}-{number}.log", std::process::id());
        LogFile(std::env::temp_dir().join(name))
    }

    /// A gateway that logs there.
    fn of(&self, settings: &str, rest: &str, upstreams: &[&dyn Display]) -> Gateway {
        gateway(&self.text(settings, rest), upstreams)
    }

    pub(crate) fn text(&self, settings: &str, rest: &str) -> String {
        format!("access_log: {{ file: '{}', {settings} }}\n{rest}", self.0.display())
    }

    /// The lines, once there are so many.
    fn lines(&self, count: usize) -> Vec<String> {
        let mut lines = Vec::new();
        waits_until("the lines", || {
            let text = fs::read_to_string(&self.0).expect("the log was opened");
            lines = text.lines().map(str::to_owned).collect();
            text.ends_with('\n') && lines.len() >= count
        });
        assert_eq!(lines.len(), count, "{lines:#?}");
        lines
    }

    pub(crate) fn records(&self, count: usize) -> Vec<Value> {
        self.lines(count)
            .iter()
            .map(|line| serde_json::from_str(line).expect("a line is a record"))
            .collect()
    }

    pub(crate) fn record(&self) -> Value {
        self.records(1).remove(0)
    }
}

impl Drop for LogFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Whether a phase took some time, and no longer than the whole.
fn is_phase(record: &Value, name: &str) -> bool {
    let took = record[name].as_f64();
    let whole = record["duration_ms"].as_f64();
    took.zip(whole).is_some_and(|(took, whole)| took > 0.0 && took <= whole)
}

// field: file.access_log, access_log.file, log_file.path, access_log.request_headers, access_log.response_headers
#[test]
fn an_exchange_is_told_with_everything_that_there_was() {
    let log = LogFile::new();
    let upstream = upstream::responds(|_| ok_with("X-Kind: a\r\nSet-Cookie: sid=1\r\n", "hello"));
    let settings =
        "request_headers: [X-Tenant, Authorization], response_headers: [X-Kind, Set-Cookie]";
    let gateway = log.of(settings, "", &[&upstream]);
    gateway
        .asks(
            "POST /a%20b/../c?page=2&token=abc HTTP/1.1\r\nHost: shop.example:81\r\nX-Tenant: acme\r\n\
             X-Tenant: \"b\"\r\nAuthorization: Bearer abc\r\nUser-Agent: tests\r\nReferer: https://u:p@a/b?sid=1\r\n\
             traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\nContent-Length: 3\r\n\r\nabc",
        )
        .has_body("hello");
    let record = log.record();
    for (name, value) in [
        ("event", "request"),
        ("protocol", "HTTP/1.1"),
        ("client", "127.0.0.1"),
        ("peer", "127.0.0.1"),
        ("method", "POST"),
        ("host", "shop.example:81"),
        ("path", "/a%20b/../c"),
        ("query", "page=2&token=***"),
        ("user_agent", "tests"),
        ("referer", "a/b"),
        ("upstream", "u"),
        ("endpoint", &upstream.address().to_string()),
        ("trace_id", "0af7651916cd43dd8448eb211c80319c"),
    ] {
        assert_eq!(record[name], value, "{name}: {record:#}");
    }
    for (name, number) in [("status", 200), ("upstream_status", 200), ("attempts", 1)] {
        assert_eq!(record[name], number, "{name}: {record:#}");
    }
    assert_eq!(record["complete"], true);
    assert_eq!(record["request_headers"]["X-Tenant"], "acme, \"b\"");
    assert_eq!(record["request_headers"]["Authorization"], "***");
    assert_eq!(record["response_headers"]["X-Kind"], "a");
    assert_eq!(record["response_headers"]["Set-Cookie"], "***");
    assert!(record["request_bytes"].as_u64().unwrap() > 200);
    assert!(record["response_bytes"].as_u64().unwrap() > 60);
    assert!(is_phase(&record, "connect_ms") && is_phase(&record, "upstream_head_ms"), "{record:#}");
    assert!(record["head_ms"].as_f64().unwrap() > 0.0);
    for absent in ["error", "caused_by", "refused_by", "queue_ms", "tls_ms", "policies_ms"] {
        assert_eq!(record[absent], Value::Null, "{absent}");
    }
    let id = upstream.request().field("X-Request-Id").unwrap().to_owned();
    assert_eq!(record["request_id"], id.as_str());
}

#[test]
fn the_durations_of_a_route_have_the_traces_of_requests() {
    let log = LogFile::new();
    let gateway = log.of("", "routes: [{ name: all, respond: 204 }]", &[]);
    gateway.get("/").has_status(204);
    let traced = "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    gateway.asks(&format!("GET / HTTP/1.1\r\nHost: a\r\n{traced}\r\n\r\n")).has_status(204);
    let mut found = Vec::new();
    waits_until("an exemplar", || {
        let exemplars = gateway.status().exemplars().remove("all");
        found = exemplars.into_iter().flatten().flatten().collect();
        !found.is_empty()
    });
    let [exemplar] = found[..] else { panic!("{found:?}") };
    assert_eq!(exemplar.trace[..4], [0x0a, 0xf7, 0x65, 0x19]);
}

#[test]
fn a_failure_has_its_code_and_whose_doing_it_was() {
    let log = LogFile::new();
    let gone = upstream::refuses();
    let gateway = log.of("", "routes: [{ upstream: u, retries: 0 }]", &[&gone]);
    gateway.get("/").has_status(502);
    gateway.asks("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n").has_status(400);
    let [refused, malformed] = &log.records(2)[..] else { unreachable!() };
    assert_eq!((&refused["error"], &refused["caused_by"]), (&"connect".into(), &"upstream".into()));
    assert_eq!((&refused["status"], &refused["attempts"]), (&502.into(), &1.into()));
    assert_eq!(refused["upstream_status"], Value::Null);
    assert_eq!(
        (&malformed["error"], &malformed["caused_by"]),
        (&"malformed".into(), &"client".into())
    );
    assert_eq!((&malformed["status"], &malformed["attempts"]), (&400.into(), &Value::Null));
    for of_head in ["method", "host", "path", "query"] {
        assert_eq!(malformed.get(of_head), None, "the head could not be read: {malformed}");
    }
}

#[test]
fn retries_and_the_endpoint_that_has_responded_are_told() {
    let log = LogFile::new();
    let (gone, upstream) = (upstream::refuses(), upstream::replies(ok("")));
    let rest = "upstreams: { u: { endpoints: [$0, $1], balance: round_robin } }";
    let gateway = log.of("", rest, &[&gone, &upstream]);
    gateway.get("/").has_status(200);
    gateway.get("/").has_status(200);
    let records = log.records(2);
    let attempts: Vec<_> = records.iter().map(|it| it["attempts"].as_u64().unwrap()).collect();
    assert!(attempts.contains(&2), "{attempts:?}");
    for record in &records {
        assert_eq!(record["endpoint"], upstream.address().to_string().as_str());
        assert_eq!(record["error"], Value::Null);
    }
}

#[test]
fn a_policy_that_refuses_is_named() {
    let log = LogFile::new();
    let rest = "policies: { slowly: { rate_limit: { rates: 1/h } } }\napply: [slowly]\n\
        routes: [{ name: all, respond: 204 }]";
    let gateway = log.of("", rest, &[]);
    gateway.get("/").has_status(204);
    gateway.get("/").has_status(429);
    let [admitted, refused] = &log.records(2)[..] else { unreachable!() };
    assert_eq!(admitted["refused_by"], Value::Null);
    assert_eq!((&refused["refused_by"], &refused["route"]), (&"slowly".into(), &"all".into()));
    assert_eq!(
        (&refused["error"], &refused["caused_by"]),
        (&"rate-limited".into(), &"gateway".into())
    );
    for record in [admitted, refused] {
        assert!(is_phase(record, "policies_ms"), "{record:#}");
    }
}

// field: access_log.claims
#[test]
fn claims_and_what_is_known_of_a_token_are_told() {
    let log = LogFile::new();
    let rest = format!(
        "policies: {{ p: {{ jwt: {{ {PROVIDER} }} }} }}\napply: [p]\nroutes: [{{ respond: 204 }}]"
    );
    let gateway = log.of("claims: [sub, /org/name, missing]", &rest, &[]);
    let claims = format!("{{\"sub\":\"ann\",\"org\":{{\"name\":[1]}},\"exp\":{}}}", at(60));
    for _ in 0..2 {
        let asked = format!("Authorization: Bearer {}", token(&claims));
        gateway.asks(&format!("GET / HTTP/1.1\r\nHost: a\r\n{asked}\r\n\r\n")).has_status(204);
    }
    let [checked, known] = &log.records(2)[..] else { unreachable!() };
    assert_eq!(known["claims"], serde_json::json!({ "sub": "ann", "/org/name": "[1]" }));
    assert_eq!((&checked["token_cache"], &known["token_cache"]), (&"miss".into(), &"hit".into()));
    assert_eq!(known["auth_cache"], Value::Null);
}

#[test]
fn what_caches_have_known_is_told() {
    let log = LogFile::new();
    let service = upstream::replies(ok(""));
    let rest = "upstreams: { auth: $0 }\n\
        policies: { ask: { authorise: { forward_auth: { upstream: auth, cache: { ttl: 1m } } } } }\n\
        apply: [ask]\nroutes: [{ respond: 204 }]";
    let gateway = log.of("", rest, &[&service]);
    gateway.get("/a").has_status(204);
    gateway.get("/a").has_status(204);
    let [asked, known] = &log.records(2)[..] else { unreachable!() };
    assert_eq!((&asked["auth_cache"], &known["auth_cache"]), (&"miss".into(), &"hit".into()));
    assert_eq!(known["token_cache"], Value::Null);
}

#[test]
fn the_bytes_of_a_response_are_those_that_its_client_gets() {
    let log = LogFile::new();
    let upstream = upstream::replies(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nhello!\r\n0\r\nX-Sum: 1\r\n\r\n",
    );
    let gateway = log.of("", "", &[&upstream]);
    let mut client = gateway.connects();
    client.sends("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let over_h1 = client.rest().len();
    let mut client = gateway.connects_h2();
    let stream = client.asks(&Head::get("/"));
    assert_eq!(client.response(stream).has_body("hello!").trailers.len(), 1);
    let over_h2 = client.blocks_so_far() + client.data_so_far();
    for record in log.records(2) {
        let came = if record["protocol"] == "HTTP/1.1" { over_h1 } else { over_h2 };
        assert_eq!(record["response_bytes"], came, "{record:#}");
    }
}

#[test]
fn the_bytes_of_a_request_are_those_that_its_client_sends() {
    const REQUEST: &str = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nhello!";
    let log = LogFile::new();
    let upstream = upstream::replies(ok(""));
    let gateway = log.of("", "", &[&upstream]);
    let mut client = gateway.connects();
    client.sends(REQUEST);
    client.head();
    let mut client = gateway.connects_h2();
    let head = Head::post("/");
    let stream = client.asks_with(&head, "hello!");
    client.response(stream).has_status(200);
    let over_h2 = block(&head).len() + "hello!".len();
    for record in log.records(2) {
        let sent = if record["protocol"] == "HTTP/1.1" { REQUEST.len() } else { over_h2 };
        assert_eq!(record["request_bytes"], sent, "{record:#}");
    }
}

#[test]
fn a_response_that_its_client_does_not_take_is_not_complete() {
    let (log, long) = (LogFile::new(), "x".repeat(300));
    let upstream = upstream::replies(format!(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Long: {long}\r\n\r\n"
    ));
    let rest = format!(
        "routes:\n  - {{ path: /head, respond: {{ status: 204, headers: {{ X-Long: {long} }} }} }}\n  \
         - {{ path: /trailers, upstream: u }}\n  - {{ path: /short, respond: 204 }}"
    );
    let gateway = log.of("", &rest, &[&upstream]);
    let mut client = gateway.connects_h2_with(&[(setting::MAX_HEADER_LIST_SIZE, 300)]);
    for path in ["/head", "/trailers"] {
        let stream = client.asks(&Head::get(path));
        client.reset_of(stream);
    }
    client.get("/short").has_status(204);
    let told = log.records(3).into_iter().map(|it| (it["path"].clone(), it["complete"].clone()));
    let wanted = [("/head", false), ("/trailers", false), ("/short", true)];
    assert_eq!(Vec::from_iter(told), wanted.map(|(path, is_whole)| (path.into(), is_whole.into())));
}

#[test]
fn a_tunnel_is_told_when_it_opens_and_when_it_ends() {
    let log = LogFile::new();
    let upstream = upstream::listens();
    let gateway = log.of("", "", &[&upstream]);
    let mut client = gateway.connects();
    client.sends(WISH);
    let mut endpoint = upstream.accepts();
    endpoint.head();
    endpoint.sends(CONSENT);
    client.head();
    let opened = log.record();
    assert_eq!((&opened["event"], &opened["status"]), (&"tunnel_opened".into(), &101.into()));
    client.sends("four");
    endpoint.expects("four");
    endpoint.sends("seven!!");
    client.expects("seven!!");
    // Over TLS a close without a farewell would be a loss.
    client.finishes();
    endpoint.expects_close();
    endpoint.closes();
    let closed = &log.records(2)[1];
    assert_eq!((&closed["event"], &closed["complete"]), (&"tunnel_closed".into(), &true.into()));
    assert_eq!(closed["request_id"], opened["request_id"]);
    let more = |name: &str| closed[name].as_u64().unwrap() - opened[name].as_u64().unwrap();
    // The head of the response may be on its way still when the tunnel opens.
    assert!(more("request_bytes") == 4 && more("response_bytes") >= 7, "{closed:#}");
}

#[test]
fn the_end_of_a_tunnel_is_told_with_the_short_fields_of_long_heads() {
    let log = LogFile::new();
    let upstream = upstream::listens();
    let settings = "request_headers: [X-Tenant, X-Long], response_headers: [X-Kind]";
    let gateway = log.of(settings, "", &[&upstream]);
    let mut client = gateway.connects();
    let fields =
        format!("X-Long: {}\r\nUser-Agent: tests\r\nX-Tenant: acme\r\n\r\n", "x".repeat(5_000));
    client.sends(WISH.replacen("\r\n\r\n", &format!("\r\n{fields}"), 1));
    let mut endpoint = upstream.accepts();
    endpoint.head();
    endpoint.sends(CONSENT.replacen("\r\n\r\n", "\r\nX-Kind: chat\r\n\r\n", 1));
    client.head();
    client.finishes();
    endpoint.expects_close();
    endpoint.closes();
    let [opened, closed] = &log.records(2)[..] else { unreachable!() };
    assert_eq!(opened["request_headers"]["X-Long"].as_str().map(str::len), Some(5_000));
    assert_eq!(closed["request_headers"], serde_json::json!({ "X-Tenant": "acme" }));
    for name in ["request_id", "path", "host", "endpoint", "user_agent", "response_headers"] {
        assert!(!closed[name].is_null() && closed[name] == opened[name], "{name}: {closed:#}");
    }
}

#[test]
fn streams_of_http2_are_told_one_by_one() {
    let log = LogFile::new();
    let upstream = upstream::replies(ok("x"));
    let gateway = log.of("", "", &[&upstream]);
    let mut client = gateway.connects_h2();
    for path in ["/a", "/b"] {
        let stream = client.asks(&Head::get(path));
        client.response(stream);
    }
    let records = log.records(2);
    assert_eq!((&records[0]["path"], &records[1]["path"]), (&"/a".into(), &"/b".into()));
    assert!(records.iter().all(|record| record["protocol"] == "HTTP/2"));
    assert!(records[0]["head_ms"].is_number() && records[1]["head_ms"].is_null());
}

/// Of two endpoints one fails and one cannot be reached: what the first one has done is not told of the second.
#[test]
fn what_is_told_of_an_attempt_is_that_of_the_last_one() {
    let log = LogFile::new();
    let failing = upstream::replies("HTTP/1.1 503 X\r\nContent-Length: 0\r\n\r\n");
    let gone = upstream::refuses();
    let rest = "upstreams: { u: { endpoints: [$0, $1], balance: round_robin } }\n\
        routes: [{ upstream: u, retries: { attempts: 1, statuses: 503 } }]";
    let gateway = log.of("", rest, &[&failing, &gone]);
    gateway.get("/");
    let record = log.record();
    assert_eq!((&record["attempts"], &record["error"]), (&2.into(), &"connect".into()));
    assert_eq!(record["endpoint"], gone.to_string().as_str());
    for absent in ["upstream_status", "upstream_head_ms", "connect_ms"] {
        assert_eq!(record[absent], Value::Null, "{absent}: {record:#}");
    }
}

#[test]
fn a_body_that_is_waited_for_is_no_time_of_the_upstream() {
    let log = LogFile::new();
    let upstream = upstream::replies(ok(""));
    let rest = "limits: { retry_body: 16KiB }";
    let gateway = log.of("", rest, &[&upstream]);
    let mut client = gateway.connects();
    client.sends("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n");
    // Longer than an endpoint on the same machine takes.
    let began = Instant::now();
    waits_until("a while", || began.elapsed() > Duration::from_millis(300));
    client.sends("abc");
    client.response().has_status(200);
    let record = log.record();
    let [whole, head] = ["duration_ms", "upstream_head_ms"].map(|it| record[it].as_f64().unwrap());
    assert!(whole - head >= 250.0, "{record:#}");
}

/// A drain that takes too long drops what runs.
#[test]
fn what_a_drain_gives_up_is_told_too() {
    let log = LogFile::new();
    let upstream = upstream::listens();
    let gateway = log.of("", "timeouts: { drain: 1s }", &[&upstream]);
    let (mut tunnel, mut slow) = (gateway.connects(), gateway.connects());
    tunnel.sends(WISH);
    let mut endpoint = upstream.accepts();
    endpoint.head();
    endpoint.sends(CONSENT);
    tunnel.head();
    slow.sends("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
    upstream.accepts().request();
    gateway.drains();
    gateway.waits_for_end();
    let records = log.records(3);
    let of = |event: &str| records.iter().find(|it| it["event"] == event).unwrap();
    assert_eq!(
        (&of("request")["path"], &of("request")["complete"]),
        (&"/slow".into(), &false.into())
    );
    assert_eq!(of("tunnel_closed")["complete"], false);
}

#[test]
fn a_client_that_leaves_is_told_of() {
    let log = LogFile::new();
    let upstream = upstream::listens();
    let gateway = log.of("", "", &[&upstream]);
    let mut client = gateway.connects();
    client.sends("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut endpoint = upstream.accepts();
    endpoint.request();
    client.resets();
    let record = log.record();
    assert_eq!((&record["error"], &record["caused_by"]), (&"client-gone".into(), &"client".into()));
    assert_eq!((&record["complete"], &record["status"]), (&false.into(), &Value::Null));
}

// field: access_log.format
#[test]
fn a_format_is_that_of_its_destination() {
    let log = LogFile::new();
    let gateway = log.of(
        "format: '{method} {path}{query} {status} {route} {{{request_header.x-a}}}'",
        "routes: [{ name: all, respond: 204 }]",
        &[],
    );
    gateway.asks("GET /a?b=%22c HTTP/1.1\r\nHost: a\r\nX-A: 1\r\n\r\n").has_status(204);
    assert_eq!(log.lines(1), ["GET /a?b=%22c 204 all {1}"]);
}

// field: access_log.only, log_only.routes, log_only.statuses, access_log.share
// field: access_log.always, log_always.failures, log_always.statuses
#[test]
fn only_what_is_wanted_is_written() {
    const ROUTES: &str = "routes:\n  - { name: a, path: /a, respond: 204 }\n  \
        - { name: b, path: /b, respond: 404 }\n  - { name: none, path: /c, upstream: u }";
    let gone = upstream::refuses();
    for (settings, wanted) in [
        ("only: { routes: [a] }", "/a"),
        ("only: { statuses: [404] }", "/b"),
        ("only: { slower_than: 1h }", ""),
        ("only: { slower_than: 1h }, always: { statuses: [2xx] }", "/a"),
        ("share: 0%, always: { failures: true }", "/c"),
        ("share: 0%, always: { slower_than: 1h, statuses: [404] }", "/b"),
        ("only: { routes: [b], statuses: [2xx] }, always: { failures: true }", "/c"),
    ] {
        let log = LogFile::new();
        let format = "format: '{path}'";
        let gateway = log.of(&format!("{settings}, {format}"), ROUTES, &[&gone]);
        for path in ["/a", "/b", "/c"] {
            gateway.get(path);
        }
        gateway.drains();
        gateway.waits_for_end();
        assert_eq!(fs::read_to_string(&log.0).unwrap().trim_end(), wanted, "{settings}");
    }
}

// field: log_only.slower_than, log_always.slower_than
#[test]
fn what_is_slow_can_be_told_apart() {
    const REST: &str = "policies: { late: { fault: { delay: 1500ms } } }\n\
        routes: [{ path: /a, respond: 204 }, { path: /slow, respond: 204, apply: [late] }]";
    for settings in ["only: { slower_than: 1s }", "share: 0%, always: { slower_than: 1s }"] {
        let log = LogFile::new();
        let gateway = log.of(&format!("{settings}, format: '{{path}}'"), REST, &[]);
        for path in ["/a", "/slow"] {
            gateway.get(path).has_status(204);
        }
        assert_eq!(log.lines(1), ["/slow"], "{settings}");
    }
}

#[test]
fn a_reload_changes_what_is_written_and_loses_nothing() {
    let (first, second) = (LogFile::new(), LogFile::new());
    const ROUTES: &str = "routes: [{ respond: 204 }]";
    let text = first.text("format: '{path}'", ROUTES);
    let gateway = gateway(&text, &[]);
    gateway.get("/a").has_status(204);
    gateway.reloads(&second.text("format: '{path}'", ROUTES), &[]).unwrap();
    gateway.get("/b").has_status(204);
    gateway.reloads(ROUTES, &[]).unwrap();
    gateway.get("/c").has_status(204);
    gateway.reloads(&first.text("format: '{path}'", ROUTES), &[]).unwrap();
    gateway.get("/d").has_status(204);
    assert_eq!(
        (first.lines(2), second.lines(1)),
        (vec!["/a".into(), "/d".into()], vec!["/b".into()])
    );
}

/// The next line that comes over a connection of syslog; nothing at its end.
fn next_message(connection: &mut TcpStream, end: &str) -> String {
    let (mut text, mut byte) = (Vec::new(), [0]);
    while !text.ends_with(end.as_bytes()) && connection.read(&mut byte).expect("it is in time") > 0
    {
        text.extend(byte);
    }
    String::from_utf8(text).expect("it is text")
}

#[test]
fn a_reload_that_does_not_change_a_destination_goes_on_with_it() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let log = |format: &str| format!("{{ syslog: 'tcp://{address}', format: '{format}' }}");
    let text = |logs: &str, status: u16| {
        format!("access_log: [{logs}]\nroutes: [{{ respond: {status} }}]")
    };
    let gateway = gateway(&text(&log("{path} 1"), 204), &[]);
    gateway.get("/a").has_status(204);
    let (mut first, _) = server.accept().unwrap();
    first.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    assert!(next_message(&mut first, "/a 1").ends_with(" - /a 1"));
    gateway.reloads(&text(&log("{path} 2"), 205), &[]).unwrap();
    gateway.get("/b").has_status(205);
    assert!(next_message(&mut first, "/b 2").ends_with(" - /b 2"), "the connection was given up");
    // Two to the same server are two.
    let both = format!("{}, {}", log("{path} 3"), log("{path} 4"));
    gateway.reloads(&text(&both, 204), &[]).unwrap();
    gateway.get("/c").has_status(204);
    let (mut second, _) = server.accept().unwrap();
    second.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    assert!(next_message(&mut first, "/c 3").ends_with(" - /c 3"));
    assert!(next_message(&mut second, "/c 4").ends_with(" - /c 4"));
    let (one, other) = (format!("syslog tcp://{address}"), format!("syslog tcp://{address} (2)"));
    // A line is counted once it is sent, and may have come before that.
    waits_until("the lines are counted", || {
        let logs = gateway.status().access_logs();
        let written: Vec<_> = logs.iter().map(|log| (log.name(), log.written())).collect();
        written == [(one.as_str(), 3), (other.as_str(), 1)]
    });
    gateway.reloads("routes: [{ respond: 204 }]", &[]).unwrap();
    assert_eq!(next_message(&mut first, "never"), "", "nobody writes to it any more");
}

#[test]
fn a_log_that_cannot_be_written_is_no_start_and_no_reload() {
    const ROUTES: &str = "routes: [{ respond: 204 }]";
    let impossible = format!("access_log: {{ file: /nowhere/at/all.log }}\n{ROUTES}");
    let error = titan_testkit::start(&impossible, &[]).err().unwrap().to_string();
    assert!(error.contains("/nowhere/at/all.log"), "{error}");
    let gateway = gateway(ROUTES, &[]);
    gateway.reloads(&impossible, &[]).unwrap_err();
    gateway.get("/").has_status(204);
}
