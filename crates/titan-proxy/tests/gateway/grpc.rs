//! gRPC calls, byte for byte. What whole clients make of the gateway, its tests with other programs show.

use crate::QUIET;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use titan_testkit::h2::{Client, Connection, Endpoint, Frame, Head, code, reply, setting};
use titan_testkit::upstream;
use titan_testkit::{DEADLINE, Gateway, Listening, Response, gateway};

/// An upstream that speaks HTTP/2 without TLS.
const TO_H2: &str = "upstreams: { u: { endpoints: $0, protocol: h2 } }";

/// A message of gRPC that is empty: not compressed, of no bytes.
const EMPTY: [u8; 5] = [0; 5];

/// The head of a call.
fn call(path: &str) -> Head {
    Head::post(path).with("content-type", "application/grpc+proto").with("te", "trailers")
}

/// The head of a response that a message may follow.
fn begins() -> Head {
    reply(200).with("content-type", "application/grpc")
}

/// What stands between a client and an endpoint.
struct Held {
    gateway: Gateway,
    #[expect(dead_code, reason = "it listens until it is dropped")]
    upstream: Listening,
}

/// A client that has begun a call, and an endpoint that has accepted the connection for it.
#[track_caller]
fn between(text: &str, head: &Head) -> (Held, Client, u32, Endpoint) {
    let upstream = upstream::listens();
    let gateway = gateway(&format!("{QUIET}\n{TO_H2}\n{text}"), &[&upstream]);
    let mut client = gateway.connects_h2();
    let stream = client.starts(head);
    let endpoint = upstream.accepts_h2();
    (Held { gateway, upstream }, client, stream, endpoint)
}

/// Checks that a response is a status in trailers alone, and that its message tells that code of the gateway.
#[track_caller]
fn has_status(response: Response, status: &str, code: &str) -> Response {
    let response = response
        .has_status(200)
        .has_field("content-type", "application/grpc")
        .has_field("grpc-status", status)
        .has_body("");
    let message = response.field("grpc-message").unwrap_or_default();
    assert!(message.contains(&format!("({code}")), "{message}");
    response
}

/// How many milliseconds a value of `grpc-timeout` is.
fn milliseconds(value: &str) -> u128 {
    let (number, unit) = value.split_at(value.len() - 1);
    let number: u64 = number.parse().expect("a number stands before the unit");
    let time = match unit {
        "n" => Duration::from_nanos(number),
        "u" => Duration::from_micros(number),
        "m" => Duration::from_millis(number),
        "S" => Duration::from_secs(number),
        _ => panic!("{value}"),
    };
    time.as_millis()
}

#[test]
fn an_endpoint_gets_te_trailers() {
    let (_held, mut client, stream, mut endpoint) = between("", &call("/a.B/C"));
    client.sends_data(stream, EMPTY, true);
    let (stream_up, request) = endpoint.request();
    assert_eq!(request.field("te"), Some("trailers"));
    assert_eq!(request.field("content-type"), Some("application/grpc+proto"));
    assert_eq!(request.body, EMPTY);
    endpoint.sends_head(stream_up, &begins(), false).sends_data(stream_up, EMPTY, false);
    endpoint.sends_trailers(stream_up, &Head::default().with("grpc-status", "0"));
    assert_eq!(client.response_head(stream).has_status(200).status, 200);
    let (body, trailers) = client.takes_rest(stream);
    assert_eq!(body, EMPTY);
    assert_eq!(trailers, [("grpc-status".to_owned(), "0".to_owned())]);
}

#[test]
fn a_long_message_does_not_cost_a_call_its_status() {
    let message = |bytes| Head::default().with("grpc-message", "x".repeat(bytes));
    let status = |head: Head| head.with("grpc-status", "9");
    let (_held, mut client, first, mut endpoint) = between("", &call("/a.B/C"));
    // What an endpoint goes by when it decides whether its trailers can be sent.
    assert_eq!(endpoint.setting(setting::MAX_HEADER_LIST_SIZE), Some(64 << 10));
    let beside = client.starts(&call("/a.B/Beside"));
    let (first_up, _) = endpoint.request_head();
    let (beside_up, _) = endpoint.request_head();
    let cases = [
        (status(message(4200)), 2),
        (status(message(60 << 10)), 2),
        (status(message(64 << 10)), 1),
        (status(message(200 << 10)), 1),
        (status(Head::default()).with("grpc-message", "x".repeat(200 << 10)), 1),
    ];
    let mut call_now = Some((first, first_up));
    for (trailers, kept) in cases {
        let (stream, stream_up) = call_now.take().unwrap_or_else(|| {
            let stream = client.starts(&call("/a.B/C"));
            (stream, endpoint.request_head().0)
        });
        client.sends_data(stream, EMPTY, true);
        endpoint.sends_head(stream_up, &begins(), false).sends_data(stream_up, EMPTY, false);
        endpoint.sends_trailers(stream_up, &trailers);
        let (body, trailers) = client.takes_rest(stream);
        assert_eq!((body.as_slice(), trailers.len()), (EMPTY.as_slice(), kept));
        assert!(trailers.contains(&("grpc-status".to_owned(), "9".to_owned())));
    }
    // The calls beside them go on.
    client.sends_data(beside, EMPTY, true);
    endpoint.sends_head(beside_up, &begins(), false);
    endpoint.sends_trailers(beside_up, &status(Head::default()));
    let (_, trailers) = client.takes_rest(beside);
    assert_eq!(trailers, [("grpc-status".to_owned(), "9".to_owned())]);
}

#[test]
fn a_response_that_is_all_trailers_may_be_as_long_as_trailers() {
    let (_held, mut client, first, mut endpoint) = between("", &call("/a.B/C"));
    let second = client.starts(&call("/a.B/C"));
    let failed = begins().with("grpc-status", "9").with("grpc-message", "x".repeat(40 << 10));
    for (stream, end) in [(first, true), (second, false)] {
        client.sends_data(stream, EMPTY, true);
        let (stream_up, _) = endpoint.request_head();
        endpoint.sends_head(stream_up, &failed, end);
    }
    let response = client.response(first).has_status(200).has_field("grpc-status", "9");
    assert_eq!(response.field("grpc-message").map(str::len), Some(40 << 10));
    has_status(client.response(second), "13", "malformed");
}

#[test]
fn calls_whose_time_is_over_may_be_given_up() {
    let text = "routes: [{ path: /own, respond: 204 }, { prefix: /, upstream: u }]";
    let upstream = upstream::listens();
    let gateway = gateway(&format!("{QUIET}\n{TO_H2}\n{text}"), &[&upstream]);
    let mut client = gateway.connects_h2();
    let mut endpoint = None;
    // The gateway goes by half of the time: all calls must have come to the endpoint before it is over.
    let head = call("/a.B/C").with("grpc-timeout", "2S");
    for _ in 0..4 {
        let calls: Vec<_> = (0..100).map(|_| client.asks(&head)).collect();
        let endpoint = endpoint.get_or_insert_with(|| upstream.accepts_h2());
        calls.iter().for_each(|_| drop(endpoint.request_head()));
        let since = Instant::now();
        while since.elapsed() < Duration::from_secs(1) {
            gateway.get("/own").has_status(204);
        }
        client.offers(&calls.iter().map(|&it| Frame::reset(it, code::CANCEL)).collect::<Vec<_>>());
        client.pings();
    }
    assert_eq!(client.has_gone_away(), None);
    client.get("/own").has_status(204);
}

#[test]
fn other_requests_go_without_te_trailers() {
    let (_held, _client, _stream, mut endpoint) =
        between("", &Head::post("/").with("te", "trailers"));
    let (_, request) = endpoint.request_head();
    assert_eq!(request.field("te"), None);
}

#[test]
fn a_failure_of_the_gateway_is_a_status() {
    let gone = upstream::refuses();
    let text = format!(
        "upstreams: {{ u: {{ endpoints: \"{gone}\", protocol: h2 }} }}\n\
         routes: [{{ path: /a.B/Connect, upstream: u }}, \
                  {{ path: /a.B/Get, methods: GET, upstream: u }}, \
                  {{ path: /a.B/Small, upstream: u, limits: {{ body: 10 }} }}]"
    );
    let gateway = gateway(&text, &[]);
    let mut client = gateway.connects_h2();
    let cases = [
        ("/a.B/Connect", "14", "connect"),
        ("/a.B/None", "12", "no-route"),
        ("/a.B/Get", "12", "method-not-allowed"),
        ("/%00", "13", "bad-path"),
        ("/a.B/Small", "8", "body-too-large"),
    ];
    for (path, status, code) in cases {
        let stream = client.asks_with(&call(path).with("content-length", "11"), [0; 11]);
        let response = has_status(client.response(stream), status, code);
        let message = response.field("grpc-message").unwrap_or_default();
        assert!(message.contains(", request "), "{message}");
        // The same over HTTP/1.1.
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/grpc\r\n\
             Content-Length: 11\r\n\r\n{}",
            "x".repeat(11)
        );
        has_status(gateway.asks(&request), status, code);
    }
    // A client that does not speak gRPC gets an ordinary response.
    gateway.get("/a.B/None").has_problem(404, "no-route");
}

#[test]
fn the_response_of_an_endpoint_is_passed_on_whatever_it_is() {
    let (_held, mut client, stream, mut endpoint) = between("", &call("/a.B/C"));
    client.sends_data(stream, EMPTY, true);
    let (stream_up, _) = endpoint.request();
    endpoint.responds(stream_up, &reply(502).with("content-type", "text/html"), "<p>");
    client.response(stream).has_status(502).has_field("content-type", "text/html").has_body("<p>");
}

#[test]
fn a_failure_after_the_response_has_begun_is_a_reset() {
    let (_held, mut client, stream, mut endpoint) = between("", &call("/a.B/C"));
    client.sends_data(stream, EMPTY, true);
    let (stream_up, _) = endpoint.request();
    endpoint.sends_head(stream_up, &begins(), false);
    client.response_head(stream).has_status(200);
    endpoint.resets(stream_up, code::INTERNAL_ERROR);
    assert_eq!(client.reset_of(stream), code::INTERNAL_ERROR);
}

#[test]
fn a_deadline_is_for_the_whole_of_a_call() {
    let head = call("/a.B/C").with("grpc-timeout", "400m");
    let (_held, mut client, stream, mut endpoint) = between("", &head);
    client.sends_data(stream, EMPTY, true);
    let (stream_up, request) = endpoint.request();
    let left = milliseconds(request.field("grpc-timeout").unwrap());
    assert!((1..400).contains(&left), "{left}");
    has_status(client.response(stream), "4", "deadline");
    assert_eq!(endpoint.reset_of(stream_up), code::CANCEL);
}

/// Services keep the deadline as well, and with a finer clock; the gateway has had the call for longer.
#[test]
fn an_endpoint_that_keeps_the_deadline_first_is_not_blamed() {
    let (held, mut client, stream, mut endpoint) = between("", &impatient());
    let (stream_up, _) = endpoint.request_head();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(301) {
        thread::yield_now();
    }
    endpoint.resets(stream_up, code::CANCEL);
    has_status(client.response(stream), "4", "deadline");
    assert_eq!(held.gateway.status().upstreams()[0].sum(|cells| cells.failures.get()), 0);
}

#[test]
fn a_deadline_ends_a_response_that_has_begun() {
    let head = call("/a.B/C").with("grpc-timeout", "400m");
    let (_held, mut client, stream, mut endpoint) = between("", &head);
    let (stream_up, _) = endpoint.request_head();
    endpoint.sends_head(stream_up, &begins(), false).sends_data(stream_up, EMPTY, false);
    client.response_head(stream).has_status(200);
    assert_eq!(client.reset_of(stream), code::INTERNAL_ERROR);
    assert_eq!(endpoint.reset_of(stream_up), code::CANCEL);
}

#[test]
fn a_deadline_holds_in_a_queue_and_what_is_waited_there_is_not_given_to_the_endpoint() {
    let upstream = upstream::listens();
    let text = "upstreams: { u: { endpoints: $0, max_connections: 1, queue: { timeout: 1m } } }";
    let gateway = gateway(&format!("{QUIET}\n{text}"), &[&upstream]);
    let mut first = gateway.connects();
    first.sends("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut endpoint = upstream.accepts();
    endpoint.request();
    let mut client = gateway.connects_h2();
    let short = client.asks(&call("/a.B/C").with("grpc-timeout", "100m"));
    let long = client.asks(&call("/a.B/C").with("grpc-timeout", "60S"));
    has_status(client.response(short), "4", "deadline");
    endpoint.sends("HTTP/1.1 204 No Content\r\n\r\n");
    let request = endpoint.request();
    let left = milliseconds(request.field("grpc-timeout").unwrap());
    assert!((30_000..=59_900).contains(&left), "{left}");
    endpoint.sends("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    client.response(long).has_status(200);
}

/// A call that is over before an endpoint that does not respond is given up for slow.
fn impatient() -> Head {
    call("/a.B/C").with("grpc-timeout", "300m")
}

#[test]
fn a_dead_connection_is_noticed_although_no_client_waits_for_a_timeout() {
    let upstream = upstream::listens();
    let gateway = gateway(&format!("{QUIET}\n{TO_H2}"), &[&upstream]);
    let mut client = gateway.connects_h2();
    let stream = client.asks(&impatient());
    let mut dead = upstream.accepts_h2();
    // Says nothing from now on, not even that it has got a ping.
    dead.request();
    has_status(client.response(stream), "4", "deadline");
    let is_replaced = AtomicBool::new(false);
    let _alive = thread::scope(|scope| {
        scope.spawn(|| {
            // For as long as a test waits for anything, and not longer.
            let begun = Instant::now();
            while !is_replaced.load(Ordering::Relaxed) && begun.elapsed() < DEADLINE {
                let stream = client.asks(&impatient());
                has_status(client.response(stream), "4", "deadline");
            }
        });
        let mut alive = upstream.accepts_h2();
        alive.request();
        is_replaced.store(true, Ordering::Relaxed);
        alive
    });
}

#[test]
fn a_connection_whose_endpoint_is_only_slow_is_kept() {
    let upstream = upstream::listens();
    let gateway = gateway(&format!("{QUIET}\n{TO_H2}"), &[&upstream]);
    let mut client = gateway.connects_h2();
    let mut stream = client.asks(&impatient());
    let mut slow = upstream.accepts_h2();
    thread::scope(|scope| {
        // It answers pings, and nothing else.
        scope.spawn(move || slow.looks_for(|_| None::<()>));
        for _ in 0..10 {
            has_status(client.response(stream), "4", "deadline");
            stream = client.asks(&impatient());
        }
        upstream.expects_no_connection();
        drop(gateway);
    });
}

#[test]
fn a_deadline_that_cannot_be_read_is_refused() {
    let upstream = upstream::listens();
    let gateway = gateway(&format!("{QUIET}\n{TO_H2}"), &[&upstream]);
    let mut client = gateway.connects_h2();
    for value in ["", "1", "S", "1s", "123456789m", "-1S"] {
        let stream = client.asks(&call("/a.B/C").with("grpc-timeout", value));
        has_status(client.response(stream), "13", "bad-grpc-timeout");
    }
    let stream = client.asks(&call("/a.B/C").with("grpc-timeout", "0n"));
    has_status(client.response(stream), "4", "deadline");
    upstream.expects_no_connection();
}

#[test]
fn a_route_bounds_the_wait_for_a_response_all_the_same() {
    let head = call("/a.B/C").with("grpc-timeout", "1H");
    let (held, mut client, stream, mut endpoint) = between("timeouts: { response: 200ms }", &head);
    client.sends_data(stream, EMPTY, true);
    endpoint.request();
    has_status(client.response(stream), "4", "response-timeout");
    drop(held.gateway);
}

/// Times that are over at once where they count, and how long a call may be idle.
const SHORT: &str = "timeouts: { body: 1ms, response_body: 1s }\n\
                     limits: { body_rate: 1GiB }";
/// Longer than that, however late the gateway looks at its clock.
const LONGER: Duration = Duration::from_millis(1300);

/// Sends one message after the other in one direction for longer than the other may be silent.
fn talks(from: &mut Connection, stream_from: u32, to: &mut Connection, stream_to: u32) {
    let begun = Instant::now();
    while begun.elapsed() < LONGER {
        from.sends_data(stream_from, EMPTY, false);
        to.takes_data(stream_to, EMPTY.len());
    }
}

#[test]
fn one_side_of_a_call_may_be_silent_while_the_other_is_not() {
    let (_held, mut client, stream, mut endpoint) = between(SHORT, &call("/a.B/C"));
    let (stream_up, _) = endpoint.request_head();
    talks(&mut client, stream, &mut endpoint, stream_up);
    endpoint.sends_head(stream_up, &begins(), false);
    client.response_head(stream).has_status(200);
    talks(&mut endpoint, stream_up, &mut client, stream);
    talks(&mut client, stream, &mut endpoint, stream_up);
    client.sends_data(stream, [], true);
    endpoint.takes_rest(stream_up);
    endpoint.sends_trailers(stream_up, &Head::default().with("grpc-status", "0"));
    assert_eq!(client.takes_rest(stream).1, [("grpc-status".to_owned(), "0".to_owned())]);
}

#[test]
fn a_client_that_takes_nothing_of_its_call_is_given_up() {
    let upstream = upstream::listens();
    let gateway = gateway(&format!("{QUIET}\n{TO_H2}\ntimeouts: {{ write: 200ms }}"), &[&upstream]);
    let mut client = gateway.connects_h2_with(&[(setting::INITIAL_WINDOW_SIZE, 0)]);
    let stream = client.starts(&call("/a.B/C"));
    let mut endpoint = upstream.accepts_h2();
    let (stream_up, _) = endpoint.request_head();
    endpoint.sends_head(stream_up, &begins(), false).sends_data(stream_up, EMPTY, false);
    client.response_head(stream);
    // Long before the call as a whole is idle.
    assert_eq!(client.reset_of(stream), code::INTERNAL_ERROR);
}

#[test]
fn a_call_in_which_nothing_moves_is_given_up() {
    let text = "timeouts: { response_body: 200ms }";
    let (_held, mut client, stream, mut endpoint) = between(text, &call("/a.B/C"));
    let (stream_up, _) = endpoint.request_head();
    has_status(client.response(stream), "4", "body-timeout");
    endpoint.reset_of(stream_up);
    let (_held, mut client, stream, mut endpoint) = between(text, &call("/a.B/C"));
    let (stream_up, _) = endpoint.request_head();
    endpoint.sends_head(stream_up, &begins(), false);
    client.response_head(stream);
    assert_eq!(client.reset_of(stream), code::INTERNAL_ERROR);
    endpoint.reset_of(stream_up);
}

/// A route that translates.
const WEB: &str = "routes: [{ prefix: /, upstream: u, grpc_web: true }]";

/// A gRPC endpoint that responds to each call with what it was sent, as one message, and with trailers.
#[track_caller]
fn echoes(endpoint: &mut Endpoint) -> titan_testkit::Request {
    let (stream, request) = endpoint.request();
    endpoint.sends_head(stream, &begins().with("x-head", "1"), false);
    endpoint.sends_data(stream, &request.body, false);
    endpoint
        .sends_trailers(stream, &Head::default().with("grpc-status", "0").with("x-sum-bin", "AA"));
    request
}

/// A message of gRPC.
fn message(bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).expect("it is short");
    [&[0], &length.to_be_bytes()[..], bytes].concat()
}

/// What [`echoes`] sends as its trailers, as a browser sees them.
const TRAILER_FRAME: &[u8] = b"\x80\0\0\0\x1fgrpc-status: 0\r\nx-sum-bin: AA\r\n";

// field: route.grpc_web
#[test]
fn a_call_of_a_browser_is_translated_where_the_route_says_so() {
    let sent = message(b"hello");
    for media_type in ["application/grpc-web", "application/grpc-web+proto"] {
        let head = Head::post("/a.B/C").with("content-type", media_type).with("x-grpc-web", "1");
        let (held, mut client, stream, mut endpoint) = between(WEB, &head);
        client.sends_data(stream, &sent, true);
        let request = echoes(&mut endpoint);
        let native = media_type.replace("-web", "");
        assert_eq!(request.field("content-type"), Some(&*native));
        assert_eq!((request.field("te"), &request.body), (Some("trailers"), &sent));
        let response = client.response(stream).has_status(200).has_field("x-head", "1");
        assert_eq!(response.field("content-type"), Some("application/grpc-web"));
        assert_eq!(response.body, [&sent, TRAILER_FRAME].concat());
        // The same over HTTP/1.1.
        let mut client = held.gateway.connects();
        client.sends(format!(
            "POST /a.B/C HTTP/1.1\r\nHost: a\r\nContent-Type: {media_type}\r\nContent-Length: 10\r\n\r\n"
        ));
        client.sends(&sent);
        assert_eq!(echoes(&mut endpoint).body, sent);
        assert_eq!(client.response().has_status(200).body, [&sent, TRAILER_FRAME].concat());
    }
    let head = Head::post("/a.B/C").with("content-type", "application/grpc-web");
    let (_held, mut client, stream, mut endpoint) = between("", &head);
    client.sends_data(stream, &sent, true);
    assert_eq!(echoes(&mut endpoint).field("content-type"), Some("application/grpc-web"));
    assert_eq!(client.response(stream).body, sent);
}

/// Calls with that body, in pieces of that length; the whole response.
#[track_caller]
fn asks_in_text(text: &[u8], piece: usize) -> Vec<u8> {
    let head = Head::post("/a.B/C").with("content-type", "application/grpc-web-text");
    let (_held, mut client, stream, mut endpoint) = between(WEB, &head);
    for piece in text.chunks(piece) {
        client.sends_data(stream, piece, false);
        client.pings();
    }
    client.sends_data(stream, [], true);
    assert_eq!(echoes(&mut endpoint).body, message(b"hello"));
    let response = client.response(stream).has_status(200);
    assert_eq!(response.field("content-type"), Some("application/grpc-web-text"));
    response.body.clone()
}

#[test]
fn text_is_read_wherever_it_is_split_and_padded() {
    let (whole, padded) = (&b"AAAAAAVoZWxsbw=="[..], &b"AA==AAAABWhlbGxv"[..]);
    for (text, piece) in [(whole, 100), (whole, 1), (padded, 5), (padded, 4)] {
        let body = asks_in_text(text, piece);
        assert_eq!(decoded(&body), [&message(b"hello"), TRAILER_FRAME].concat());
    }
}

#[test]
fn text_that_is_none_is_refused() {
    for text in ["AAAAAAVoZWxsbw", "????", "AAAAAAVoZWxsbw=A"] {
        let head = Head::post("/a.B/C").with("content-type", "application/grpc-web-text");
        let (_held, mut client, stream, _endpoint) = between(WEB, &head);
        client.sends_data(stream, text, true);
        let response = client.response(stream).has_status(200).has_field("grpc-status", "13");
        let message = response.field("grpc-message").unwrap_or_default();
        assert!(message.contains("(bad-grpc-web-text"), "{message}");
        assert_eq!(response.field("content-type"), Some("application/grpc-web-text"));
    }
}

#[test]
fn each_message_of_a_stream_is_translated_when_it_comes() {
    for (accepts, is_text) in [("*/*", false), ("application/grpc-web-text", true)] {
        let head = Head::post("/a.B/C").with("content-type", "application/grpc-web+proto");
        let (_held, mut client, stream, mut endpoint) = between(WEB, &head.with("accept", accepts));
        client.sends_data(stream, EMPTY, true);
        let (stream_up, _) = endpoint.request();
        let head = reply(200).with("content-type", "application/grpc+proto");
        endpoint.sends_head(stream_up, &head, false);
        let response = client.response_head(stream).has_status(200);
        let media_type = if is_text { "grpc-web-text+proto" } else { "grpc-web+proto" };
        assert_eq!(response.field("content-type"), Some(&*format!("application/{media_type}")));
        // The client has each before the next one is sent.
        for bytes in [&b"a"[..], b"bc", &[b'd'; 40_000]] {
            let sent = message(bytes);
            endpoint.sends_data(stream_up, &sent, false);
            let mut came = Vec::new();
            while came.len() < sent.len() {
                match is_text {
                    true => came.extend(decoded(&client.takes_data(stream, 4))),
                    false => came.extend(client.takes_data(stream, 1)),
                }
            }
            assert!(came == sent, "{} bytes", bytes.len());
        }
        endpoint
            .sends_trailers(stream_up, &Head::default().with("Grpc-Status".to_lowercase(), "5"));
        let (rest, trailers) = client.takes_rest(stream);
        let rest = if is_text { decoded(&rest) } else { rest };
        assert_eq!(rest, b"\x80\0\0\0\x10grpc-status: 5\r\n");
        assert_eq!(trailers, []);
    }
}

#[test]
fn a_status_without_a_message_stays_in_the_head() {
    let head = Head::post("/a.B/C").with("content-type", "application/grpc-web-text");
    let (_held, mut client, stream, mut endpoint) = between(WEB, &head);
    client.sends_data(stream, "AAAAAAA=", true);
    let (stream_up, _) = endpoint.request();
    endpoint.responds(stream_up, &begins().with("grpc-status", "7"), "");
    let response = client.response(stream).has_status(200).has_field("grpc-status", "7");
    response.has_body("").has_field("content-type", "application/grpc-web-text");
}

#[test]
fn a_browser_gets_a_response_that_is_not_grpc_unchanged() {
    let head = Head::post("/a.B/C").with("content-type", "application/grpc-web-text");
    let (_held, mut client, stream, mut endpoint) = between(WEB, &head);
    client.sends_data(stream, "AAAAAAA=", true);
    let (stream_up, _) = endpoint.request();
    endpoint.responds(stream_up, &reply(502).with("content-type", "text/html"), "<p>");
    client.response(stream).has_status(502).has_field("content-type", "text/html").has_body("<p>");
}

#[test]
fn a_browser_gets_failures_as_grpc_web() {
    let gateway = gateway("routes: [{ path: /a, respond: 204 }]", &[]);
    for dialect in ["grpc-web", "grpc-web-text"] {
        let request = format!(
            "POST /a.B/C HTTP/1.1\r\nHost: a\r\nContent-Type: application/{dialect}+proto\r\n\
             Content-Length: 0\r\n\r\n"
        );
        let response = gateway.asks(&request).has_status(200).has_field("grpc-status", "12");
        assert_eq!(response.field("content-type"), Some(&*format!("application/{dialect}")));
    }
}

/// What text in base64 stands for, which may be padded after each group.
fn decoded(text: &[u8]) -> Vec<u8> {
    assert_eq!(text.len() % 4, 0, "groups of four");
    let value = |character: u8| match character {
        b'A'..=b'Z' => character - b'A',
        b'a'..=b'z' => character - b'a' + 26,
        b'0'..=b'9' => character - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => panic!("{character}"),
    };
    let mut bytes = Vec::new();
    for group in text.chunks(4) {
        let length = group.iter().position(|character| *character == b'=').unwrap_or(4);
        let bits = group[..length].iter().fold(0, |bits, it| bits << 6 | u32::from(value(*it)));
        bytes.extend_from_slice(&(bits << (6 * (4 - length))).to_be_bytes()[1..length]);
    }
    bytes
}
