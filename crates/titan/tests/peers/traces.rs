//! Traces: what upstreams are told of them, and what the OpenTelemetry Collector's receiver gets.

use crate::client::Client;
use crate::gateway::Gateway;
use crate::otlp::{Collector, attributes, metric};
use crate::place::own_address;
use crate::upstream::{Request, serve};
use crate::wait::eventually;
use serde_json::Value;
use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const SPAN: &str = "b7ad6b7169203331";

/// A service that responds with the head of the request.
fn service() -> SocketAddr {
    serve(TcpListener::bind("127.0.0.1:0").unwrap(), |request| request.head.clone())
}

/// A gateway in front of it, with a route that retries and one that never gets there, and with these settings of tracing.
fn gateway(collector: SocketAddr, tracing: &str) -> Gateway {
    let (admin, service, dead) = (own_address(), service(), own_address());
    Gateway::start(&format!(
            "workers: 1
listeners: [127.0.0.1:0]
admin: {{ address: '{admin}' }}
routes:
  - {{ name: page, prefix: /, upstream: page, retries: 2 }}
  - {{ name: quiet, prefix: /quiet, upstream: page, trace_share: 0% }}
  - {{ name: loud, prefix: /loud, upstream: page, trace_share: 100% }}
  - {{ name: gone, path: '/gone/{{id}}', upstream: gone, retries: 0 }}
  - {{ name: both, prefix: /both, upstream: both, retries: 2 }}
upstreams:
  page: '{service}'
  gone: '{dead}'
  both: {{ endpoints: [{{ address: '{dead}' }}, {{ address: '{service}', priority: 1 }}], ejection: off, spill_below: 1% }}
policies: {{ limit: {{ rate_limit: {{ rates: 1000000/s, key: client_address }} }} }}
apply: [limit]
otlp: {{ it: 'http://{collector}' }}
tracing: {{ collector: it, {tracing} }}
"
    ))
}

/// What the service sees of a request with these fields.
fn seen(gateway: &Gateway, target: &str, fields: &str) -> Request {
    let mut client = Client::connect(gateway.address()).unwrap();
    let head = format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
    client.send(head.as_bytes()).unwrap();
    let head = String::from_utf8(client.response().unwrap().body).unwrap();
    Request { head, body: Vec::new() }
}

/// The trace, the span and the flags that an upstream was told.
fn told(request: &Request) -> (String, String, String) {
    let field = request.field("traceparent").unwrap_or_else(|| panic!("{}", request.head));
    let parts: Vec<_> = field.split('-').map(str::to_owned).collect();
    let [version, trace, span, flags] = &parts[..] else { panic!("{field}") };
    assert_eq!((version.as_str(), trace.len(), span.len()), ("00", 32, 16));
    (trace.clone(), span.clone(), flags.clone())
}

/// Whether the service was told that a request is traced.
fn is_traced(gateway: &Gateway, target: &str, fields: &str) -> bool {
    told(&seen(gateway, target, fields)).2 == "01"
}

fn of_client(flags: &str) -> String {
    format!("traceparent: 00-{TRACE}-{SPAN}-{flags}\r\n")
}

/// A collector that nobody needs.
fn nobody() -> SocketAddr {
    own_address()
}

/// The spans that a collector has got, once there are as many.
fn spans(collector: &Collector, count: usize) -> Vec<Value> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    eventually(&format!("{count} spans"), || {
        let of_resources =
            collector.messages().into_iter().flat_map(|it| list(&it["resourceSpans"]));
        let of_scopes = of_resources.flat_map(|it| list(&it["scopeSpans"]));
        let spans: Vec<_> = of_scopes.flat_map(|it| list(&it["spans"])).collect();
        Some(spans).filter(|spans| spans.len() >= count)
    })
}

const SERVER: u64 = 2;
const CLIENT: u64 = 3;

// field: file.tracing, tracing.collector
#[test]
fn a_request_has_a_span_and_one_below_it_for_the_attempt_that_its_upstream_is_told_of() {
    let collector = Collector::start();
    let gateway = gateway(collector.grpc, "parent: always");
    let fields = format!("{}tracestate: v=1\r\nbaggage: k=v\r\n", of_client("01"));
    let request = seen(&gateway, "/a?token=secret", &fields);
    let (trace, span, flags) = told(&request);
    assert_eq!((trace.as_str(), flags.as_str()), (TRACE, "01"));
    assert_eq!((request.field("tracestate"), request.field("baggage")), (Some("v=1"), Some("k=v")));
    let spans = spans(&collector, 2);
    let [server, client] = &spans[..] else { panic!("{spans:#?}") };
    assert_eq!((&server["kind"], &client["kind"]), (&SERVER.into(), &CLIENT.into()));
    for it in [server, client] {
        assert_eq!(it["traceId"], TRACE);
    }
    assert_eq!(server["parentSpanId"], SPAN);
    assert_eq!(client["parentSpanId"], server["spanId"]);
    assert_eq!(client["spanId"], span.as_str());
    assert_eq!((&server["name"], &client["name"]), (&"GET /*".into(), &"GET".into()));
    let seen = attributes(server);
    assert_eq!((&seen["http.route"], &seen["titan.route"]), (&"/*".into(), &"page".into()));
    assert_eq!(seen["url.query"], "token=***");
    assert_eq!(seen["http.response.status_code"], 200);
    let event = &server["events"][0];
    assert_eq!(event["name"], "titan.policy");
    let verdict = attributes(event);
    assert_eq!(
        (&verdict["titan.policy.name"], &verdict["titan.policy.verdict"]),
        (&"limit".into(), &"passed".into())
    );
    let seen = attributes(client);
    assert_eq!(
        (&seen["server.address"], &seen["titan.upstream"]),
        (&"127.0.0.1".into(), &"page".into())
    );
    assert!(seen.get("http.request.resend_count").is_none());
    let nanos = |span: &Value, name: &str| span[name].as_str().unwrap().parse::<u64>().unwrap();
    assert!(nanos(server, "startTimeUnixNano") <= nanos(client, "startTimeUnixNano"));
    assert!(nanos(client, "endTimeUnixNano") <= nanos(server, "endTimeUnixNano"));
    assert!(nanos(client, "startTimeUnixNano") < nanos(client, "endTimeUnixNano"));
    let sent = r#"titan_otlp_sent_total{collector="it",signal="traces"}"#;
    eventually("both are counted", || (metric(&gateway, sent) >= 2.0).then_some(()));
}

#[test]
fn a_retry_is_a_span_of_its_own() {
    let collector = Collector::start();
    let gateway = gateway(collector.grpc, "");
    let (trace, span, _) = told(&seen(&gateway, "/both", ""));
    let spans = spans(&collector, 3);
    let [server, first, second] = &spans[..] else { panic!("{spans:#?}") };
    assert!(server.get("parentSpanId").is_none_or(|id| id == ""), "the trace begins here");
    for it in [first, second] {
        assert_eq!(
            (&it["traceId"], &it["parentSpanId"]),
            (&trace.as_str().into(), &server["spanId"])
        );
    }
    assert_ne!(first["spanId"], second["spanId"]);
    assert_eq!(second["spanId"], span.as_str());
    let (seen, failed) = (attributes(second), attributes(first));
    assert_eq!(
        (&seen["http.request.resend_count"], &seen["titan.attempt"]),
        (&1.into(), &"retry".into())
    );
    assert_eq!(
        (&failed["error.type"], &failed["titan.attempt"]),
        (&"connect".into(), &"first".into())
    );
    assert_eq!((&first["status"]["code"], &second["status"]["code"]), (&2.into(), &Value::Null));
}

// field: tracing.share, route.trace_share
#[test]
fn requests_of_no_trace_are_traced_by_the_share_of_all_or_of_their_route() {
    let gateway = gateway(nobody(), "share: 0%, parent: always");
    assert!(!is_traced(&gateway, "/", ""));
    assert!(is_traced(&gateway, "/loud", ""));
    assert!(is_traced(&gateway, "/", &of_client("01")), "as its client has decided");
    assert!(!is_traced(&gateway, "/loud", &of_client("00")), "as its client has decided");
    assert_ne!(told(&seen(&gateway, "/", "")).0, told(&seen(&gateway, "/", "")).0);
    let gateway = self::gateway(nobody(), "share: 100%");
    assert!(is_traced(&gateway, "/", ""));
    assert!(!is_traced(&gateway, "/quiet", ""));
}

// field: tracing.rate
#[test]
fn no_more_traces_begin_in_a_second_than_the_rate() {
    let gateway = gateway(nobody(), "rate: 3, parent: always");
    let began = Instant::now();
    let traced = (0..20).filter(|_| is_traced(&gateway, "/", "")).count() as u64;
    let seconds = began.elapsed().as_secs() + 2;
    assert!((3..=3 * seconds).contains(&traced), "{traced} in {seconds} s");
    assert!(is_traced(&gateway, "/", &of_client("01")), "its trace has begun elsewhere");
}

// field: tracing.parent
#[test]
fn whose_traces_are_gone_on_with_is_for_the_file_to_say() {
    let zipkin = format!("b3: {TRACE}-{SPAN}-1\r\nX-B3-TraceId: {TRACE}\r\nX-B3-Flags: 1\r\n");
    let fields = format!("{}tracestate: v=1\r\nbaggage: k=v\r\n{zipkin}", of_client("00"));
    for parent in ["", "parent: never", "parent: trusted"] {
        let gateway = gateway(nobody(), parent);
        let request = seen(&gateway, "/", &fields);
        let (trace, _, flags) = told(&request);
        assert_ne!(trace, TRACE);
        assert_eq!(flags, "01");
        assert_eq!(request.field("tracestate"), None, "it is of another trace");
        assert_eq!(request.field("baggage"), Some("k=v"));
        for name in ["b3", "X-B3-TraceId", "X-B3-Flags"] {
            assert_eq!(request.field(name), None, "{name} is of another trace");
        }
    }
    let admin = own_address();
    let (service, nobody) = (service(), nobody());
    let gateway = Gateway::start(&format!(
        "listeners: [127.0.0.1:0]
admin: {{ address: '{admin}' }}
forwarding: {{ trusted_proxies: 127.0.0.1 }}
routes: {{ upstream: it }}
upstreams: {{ it: '{service}' }}
otlp: {{ it: 'http://{nobody}' }}
tracing: {{ collector: it }}
"
    ));
    assert_eq!(told(&seen(&gateway, "/", &fields)).0, TRACE);
}

// field: tracing.propagation
#[test]
fn fields_of_zipkin_are_read_and_written_where_that_is_asked_for() {
    let single = format!("b3: {TRACE}-{SPAN}-1\r\n");
    let multi = format!(
        "X-B3-TraceId: {TRACE}\r\nX-B3-SpanId: {SPAN}\r\nX-B3-Sampled: 1\r\nX-B3-ParentSpanId: {SPAN}\r\n"
    );
    let plain = gateway(nobody(), "share: 0%");
    assert!(!is_traced(&plain, "/", &single), "nobody has asked for it");
    let gateway = gateway(nobody(), "share: 0%, parent: always, propagation: [b3, b3_multi]");
    for fields in [&single, &multi] {
        let request = seen(&gateway, "/", fields);
        let (trace, span, flags) = told(&request);
        assert_eq!((trace.as_str(), flags.as_str()), (TRACE, "01"));
        assert_eq!(request.field("b3"), Some(&*format!("{TRACE}-{span}-1")));
        assert_eq!(request.field("X-B3-TraceId"), Some(TRACE));
        assert_eq!(request.field("X-B3-SpanId"), Some(&*span));
        assert_eq!(request.field("X-B3-Sampled"), Some("1"));
        assert_eq!(request.field("X-B3-ParentSpanId"), None);
    }
    let other = seen(&gateway, "/", &format!("{single}tracestate: v=1\r\n"));
    assert_eq!(other.field("tracestate"), None, "it was not beside a traceparent");
    let retried = format!("{}tracestate: v=1\r\n", of_client("01"));
    assert_eq!(seen(&gateway, "/both", &retried).field("tracestate"), Some("v=1"));
    assert!(is_traced(&gateway, "/", &format!("b3: garbage\r\n{multi}")), "it hides nothing");
    let both = format!("{single}{}", of_client("00"));
    assert!(!is_traced(&gateway, "/", &both), "traceparent comes first");
    assert!(!is_traced(&gateway, "/loud", "b3: 0\r\n"));
}

// field: tracing.always, trace_always.failures
#[test]
fn what_fails_is_told_of_although_it_is_not_traced() {
    let collector = Collector::start();
    let gateway = gateway(collector.grpc, "share: 0%, always: { failures: true }");
    assert!(!is_traced(&gateway, "/", ""));
    let mut client = Client::connect(gateway.address()).unwrap();
    client.send(b"GET /gone/7 HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    assert_eq!(client.response().unwrap().status, 502);
    let spans = spans(&collector, 2);
    let routes = spans.iter().filter_map(|span| attributes(span).get("http.route").cloned());
    assert_eq!(routes.collect::<Vec<_>>(), ["/gone/{id}"]);
    assert_eq!(spans[0]["status"]["code"], 2);
}

// field: trace_always.slower_than
#[test]
fn what_is_slow_is_told_of_although_it_is_not_traced() {
    let collector = Collector::start();
    let (admin, began) = (own_address(), Instant::now());
    let service = serve(TcpListener::bind("127.0.0.1:0").unwrap(), move |request| {
        let until = began.elapsed() + Duration::from_millis(60);
        while request.head.starts_with("GET /slow") && began.elapsed() < until {
            std::thread::park_timeout(Duration::from_millis(5));
        }
        "x".to_owned()
    });
    let address = collector.http;
    let gateway = Gateway::start(&format!(
        "workers: 1
listeners: [127.0.0.1:0]
admin: {{ address: '{admin}' }}
routes: {{ upstream: it }}
upstreams: {{ it: '{service}' }}
otlp: {{ it: {{ endpoint: 'http://{address}', protocol: http }} }}
tracing: {{ collector: it, share: 0%, always: {{ slower_than: 50ms }} }}
"
    ));
    seen(&gateway, "/fast", "");
    seen(&gateway, "/slow", "");
    let spans = spans(&collector, 2);
    let paths = spans.iter().filter_map(|span| attributes(span).get("url.path").cloned());
    assert_eq!(paths.collect::<Vec<_>>(), ["/slow"]);
}

#[test]
fn a_collector_that_is_away_costs_nothing_but_drops() {
    let gateway = gateway(nobody(), "");
    for _ in 0..100 {
        assert!(is_traced(&gateway, "/", ""));
    }
    let failing = r#"titan_otlp_failing{collector="it",signal="traces"}"#;
    eventually("it fails", || (metric(&gateway, failing) >= 1.0).then_some(()));
    assert!(is_traced(&gateway, "/", ""));
}

#[test]
fn without_tracing_the_fields_of_clients_are_passed_on_as_they_are() {
    let (admin, service) = (own_address(), service());
    let gateway = Gateway::start(&format!(
        "listeners: [127.0.0.1:0]\nadmin: {{ address: '{admin}' }}\nroutes: {{ upstream: it }}\nupstreams: {{ it: '{service}' }}\n"
    ));
    let request = seen(&gateway, "/", &format!("{}tracestate: v=1\r\n", of_client("01")));
    assert_eq!(request.field("traceparent"), Some(&*format!("00-{TRACE}-{SPAN}-01")));
    assert_eq!(request.field("tracestate"), Some("v=1"));
    assert_eq!(seen(&gateway, "/", "").field("traceparent"), None);
}
