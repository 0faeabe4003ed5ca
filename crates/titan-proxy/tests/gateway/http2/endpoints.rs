//! Endpoints that speak HTTP/2: what they share, what they refuse, and what is sent again.

use super::{TO_H2, between, from_h1};
use crate::QUIET;
use std::iter;
use std::time::{Duration, Instant};
use titan_testkit::h2::{Endpoint, Frame, Head, PREFACE, block, code, reply, setting};
use titan_testkit::upstream::{self, ok};
use titan_testkit::{Gate, Gateway, Peer, gateway, waits_until};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const POST: &str = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc";

/// A configuration with one upstream of HTTP/2 that has these settings.
fn settings(text: &str) -> String {
    format!("{QUIET}\nupstreams: {{ u: {{ endpoints: $0, protocol: h2, {text} }} }}")
}

/// The figures of the only endpoint: connections open, requests that wait.
pub(super) fn figures(gateway: &Gateway) -> (u32, u32) {
    let endpoint = gateway.status().endpoints().remove(0);
    (endpoint.open, endpoint.waiting)
}

#[track_caller]
pub(super) fn responds_next(endpoint: &mut Endpoint, text: &str) {
    let (stream, _) = endpoint.request();
    endpoint.responds(stream, &reply(200), text);
}

#[test]
fn many_clients_share_one_connection() {
    let gate = Gate::closed();
    let upstream = upstream::responds_h2(gate.before(ok("x")));
    let gateway = gateway(TO_H2, &[&upstream]);
    let mut clients: Vec<_> = (0..5).map(|_| gateway.connects_h2()).collect();
    let mut old: Vec<Peer> = (0..20).map(|_| gateway.connects()).collect();
    old.iter_mut().for_each(|client| {
        client.sends(GET);
    });
    let streams: Vec<Vec<u32>> = clients
        .iter_mut()
        .map(|client| (0..10).map(|_| client.asks(&Head::get("/"))).collect())
        .collect();
    gate.opens();
    for (client, streams) in clients.iter_mut().zip(streams) {
        for stream in streams {
            client.response(stream).has_body("x");
        }
    }
    old.iter_mut().for_each(|client| {
        client.response().has_body("x");
    });
    assert_eq!((upstream.requests().len(), upstream.connections()), (70, 1));
    assert_eq!(figures(&gateway), (1, 0));
}

#[test]
fn another_connection_is_opened_when_one_takes_no_more_streams() {
    let upstream = upstream::listens();
    let gateway = gateway(TO_H2, &[&upstream]);
    let most = [(setting::MAX_CONCURRENT_STREAMS, 2)];
    let mut client = gateway.connects_h2();
    let first = client.asks(&Head::get("/"));
    let mut endpoint = upstream.accepts_h2_with(&most);
    // The settings have arrived when this has its response.
    responds_next(&mut endpoint, "first");
    client.response(first).has_body("first");
    let streams: Vec<_> = (0..3).map(|_| client.asks(&Head::get("/"))).collect();
    let mut second = upstream.accepts_h2_with(&most);
    responds_next(&mut second, "second");
    responds_next(&mut endpoint, "first");
    responds_next(&mut endpoint, "first");
    let mut bodies: Vec<_> = streams.iter().map(|&it| client.response(it).text()).collect();
    bodies.sort();
    assert_eq!(bodies, ["first", "first", "second"]);
}

#[test]
fn requests_wait_where_there_are_enough_connections() {
    let upstream = upstream::listens();
    let text = "max_connections: 1, queue: { length: 2, timeout: 1m }";
    let gateway = gateway(&settings(text), &[&upstream]);
    let mut client = gateway.connects_h2();
    let first = client.asks(&Head::get("/"));
    let mut endpoint = upstream.accepts_h2_with(&[(setting::MAX_CONCURRENT_STREAMS, 1)]);
    responds_next(&mut endpoint, "0");
    client.response(first).has_body("0");
    let streams: Vec<_> = (0..3).map(|_| client.asks(&Head::get("/"))).collect();
    waits_until("two to wait", || figures(&gateway) == (1, 2));
    client.get("/").has_problem(503, "queue-full");
    for (text, stream) in ["1", "2", "3"].iter().zip(&streams) {
        responds_next(&mut endpoint, text);
        client.response(*stream).has_body(text);
    }
    waits_until("nobody to wait", || figures(&gateway) == (1, 0));
}

#[test]
fn a_request_that_gives_up_waiting_is_not_sent() {
    let upstream = upstream::listens();
    let text = "max_connections: 1, queue: { length: 9, timeout: 1m }";
    let gateway = gateway(&settings(text), &[&upstream]);
    let mut client = gateway.connects_h2();
    let first = client.asks(&Head::get("/first"));
    let mut endpoint = upstream.accepts_h2_with(&[(setting::MAX_CONCURRENT_STREAMS, 1)]);
    let (theirs, _) = endpoint.request();
    let [given_up, kept] = ["/given-up", "/kept"].map(|path| client.asks(&Head::get(path)));
    waits_until("two to wait", || figures(&gateway) == (1, 2));
    client.resets(given_up, code::CANCEL);
    waits_until("one to wait", || figures(&gateway) == (1, 1));
    endpoint.responds(theirs, &reply(200), "1");
    client.response(first).has_body("1");
    let (theirs, request) = endpoint.request();
    assert_eq!(request.target, "/kept");
    endpoint.responds(theirs, &reply(200), "2");
    client.response(kept).has_body("2");
}

#[test]
fn a_client_of_http1_that_leaves_while_it_waits_takes_no_stream() {
    let upstream = upstream::listens();
    let text = "max_connections: 1, queue: { length: 9, timeout: 1m }";
    let gateway = gateway(&settings(text), &[&upstream]);
    let mut client = gateway.connects_h2();
    let first = client.asks(&Head::get("/"));
    let mut endpoint = upstream.accepts_h2_with(&[(setting::MAX_CONCURRENT_STREAMS, 1)]);
    responds_next(&mut endpoint, "0");
    client.response(first);
    let running = client.asks(&Head::get("/"));
    let (theirs, _) = endpoint.request();
    let mut leaving = gateway.connects();
    leaving.sends("GET /left HTTP/1.1\r\nHost: a\r\n\r\n");
    waits_until("one to wait", || figures(&gateway) == (1, 1));
    let stays = client.asks(&Head::get("/stays"));
    waits_until("two to wait", || figures(&gateway) == (1, 2));
    leaving.resets();
    endpoint.responds(theirs, &reply(200), "1");
    client.response(running).has_body("1");
    let (theirs, request) = endpoint.request();
    assert_eq!(request.target, "/stays");
    endpoint.responds(theirs, &reply(200), "2");
    client.response(stays).has_body("2");
}

#[test]
fn a_burst_needs_no_queue_to_wait_for_the_first_connection() {
    let upstream = upstream::replies_h2(ok("x"));
    let gateway = gateway(&settings("queue: { length: 0 }"), &[&upstream]);
    let mut client = gateway.connects_h2();
    let streams: Vec<_> = (0..5).map(|_| client.next_stream()).collect();
    let block = block(&Head::get("/"));
    let frames: Vec<_> = streams.iter().map(|&it| Frame::headers(it, &*block, true)).collect();
    client.offers(&frames);
    for stream in streams {
        client.response(stream).has_body("x");
    }
}

#[test]
fn a_request_waits_for_a_stream_for_that_long() {
    let upstream = upstream::listens();
    let gateway = gateway(&settings("max_connections: 1, queue: { timeout: 200ms }"), &[&upstream]);
    let mut client = gateway.connects_h2();
    let first = client.asks(&Head::get("/"));
    let mut endpoint = upstream.accepts_h2_with(&[(setting::MAX_CONCURRENT_STREAMS, 1)]);
    responds_next(&mut endpoint, "0");
    client.response(first);
    let running = client.asks(&Head::get("/"));
    let (theirs, _) = endpoint.request();
    crate::timeouts::takes(Duration::from_millis(200), || {
        client.get("/").has_problem(503, "queue-timeout");
    });
    endpoint.responds(theirs, &reply(200), "1");
    client.response(running).has_body("1");
}

#[test]
fn an_idle_connection_is_kept_for_that_long() {
    let upstream = upstream::replies_h2(ok("x"));
    let gateway = gateway(&settings("idle_timeout: 100ms"), &[&upstream]);
    gateway.get("/").has_body("x");
    upstream.waits_for_open(0);
    waits_until("none to be open", || figures(&gateway) == (0, 0));
    gateway.get("/").has_body("x");
}

#[test]
fn a_refused_stream_is_sent_again() {
    // Whatever its method: the endpoint has done nothing with it.
    for request in [GET, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"] {
        let (_held, mut client, mut endpoint) = from_h1("", request);
        let (stream, _) = endpoint.request();
        endpoint.resets(stream, code::REFUSED_STREAM);
        responds_next(&mut endpoint, "again");
        client.response().has_body("again");
    }
    // But not for ever.
    let (_held, mut client, mut endpoint) = from_h1("", GET);
    let mut times = 0;
    while !client.has_news() {
        if let Some(stream) = endpoint.request_so_far() {
            endpoint.resets(stream, code::REFUSED_STREAM);
            times += 1;
            assert!(times < 10);
        }
    }
    client.response().has_problem(503, "upstream-refused");
}

#[test]
fn a_refused_stream_whose_body_is_used_is_not_sent_again() {
    let (_held, mut client, mut endpoint) = from_h1("", POST);
    let (stream, _) = endpoint.request();
    endpoint.resets(stream, code::REFUSED_STREAM);
    client.response().has_problem(503, "upstream-refused");
}

#[test]
fn a_refused_stream_is_sent_again_with_a_body_that_was_held() {
    let (_held, mut client, mut endpoint) = from_h1("limits: { retry_body: 1KiB }", POST);
    let (stream, sent) = endpoint.request();
    endpoint.resets(stream, code::REFUSED_STREAM);
    let (stream, again) = endpoint.request();
    assert_eq!((sent.text(), again.text()), ("abc".to_owned(), "abc".to_owned()));
    endpoint.responds(stream, &reply(200), "again");
    client.response().has_body("again");
}

#[test]
fn a_stream_that_is_reset_is_sent_again_where_that_does_no_harm() {
    let (_held, mut client, mut endpoint) = from_h1("limits: { retry_body: 1KiB }", POST);
    let (stream, _) = endpoint.request();
    endpoint.resets(stream, code::INTERNAL_ERROR);
    client.response().has_problem(502, "upstream-reset");
    client.sends(GET);
    let (stream, _) = endpoint.request();
    endpoint.resets(stream, code::INTERNAL_ERROR);
    responds_next(&mut endpoint, "again");
    client.response().has_body("again");
}

#[test]
fn a_stream_that_is_reset_is_a_502() {
    for code in [code::CANCEL, code::INTERNAL_ERROR, code::NO_ERROR] {
        let (_held, mut client, mut endpoint) =
            from_h1("routes: [{ upstream: u, retries: 0 }]", GET);
        let (stream, _) = endpoint.request();
        endpoint.resets(stream, code);
        client.response().has_problem(502, "upstream-reset");
        client.sends(GET);
        responds_next(&mut endpoint, "next");
        client.response().has_body("next");
    }
}

#[test]
fn what_an_endpoint_that_leaves_has_not_processed_goes_elsewhere() {
    let (held, mut client, first, mut endpoint) = between("", &Head::get("/first"), true);
    let (theirs, _) = endpoint.request();
    let late = client.asks(&Head::request("POST", "/late"));
    let (theirs_late, _) = endpoint.request();
    let upload = client.starts(&Head::post("/upload"));
    let (theirs_upload, _) = endpoint.request_head();
    assert!(theirs < theirs_late && theirs_late < theirs_upload);
    endpoint.sends(&Frame::go_away(theirs, code::NO_ERROR));
    let mut second = held.upstream.accepts_h2();
    let (again, request) = second.request();
    assert_eq!((request.method.as_str(), request.target.as_str()), ("POST", "/late"));
    second.responds(again, &reply(200), "late");
    client.response(late).has_body("late");
    let (again, request) = second.request_head();
    assert_eq!(request.target, "/upload");
    client.sends_data(upload, "body", true);
    assert_eq!(second.takes_rest(again).0, b"body");
    second.responds(again, &reply(200), "upload");
    client.response(upload).has_body("upload");
    // What was processed is finished there, and what is new goes where the rest went.
    let next = client.asks(&Head::get("/next"));
    responds_next(&mut second, "next");
    client.response(next).has_body("next");
    endpoint.responds(theirs, &reply(200), "first");
    client.response(first).has_body("first");
    endpoint.ends();
}

#[test]
fn a_request_outlives_several_connections_that_are_left() {
    // As under load, when an endpoint leaves each connection after so many requests.
    let once = "routes: [{ upstream: u, retries: 0 }]";
    let (held, mut client, first, mut endpoint) = between(once, &Head::post("/"), true);
    let streams: Vec<_> =
        iter::once(first).chain((1..6).map(|_| client.asks(&Head::request("POST", "/")))).collect();
    for served in 1..=4 {
        let theirs: Vec<_> = (served..=6).map(|_| endpoint.request().0).collect();
        endpoint.responds(theirs[0], &reply(200), "x");
        endpoint.sends(&Frame::go_away(theirs[0], code::NO_ERROR));
        if served < 4 {
            endpoint = held.upstream.accepts_h2();
        }
    }
    let mut statuses: Vec<_> = streams.iter().map(|it| client.response(*it).status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 200, 200, 200, 503, 503]);
}

#[test]
fn what_an_endpoint_refuses_before_it_has_responded_is_sent_again_as_a_retry_only() {
    let once = "routes: [{ upstream: u, retries: 0 }]";
    for leaves in [false, true] {
        let (held, mut client, stream, mut endpoint) = between(once, &Head::get("/"), true);
        let (theirs, _) = endpoint.request();
        if leaves {
            endpoint.sends(&Frame::go_away(0, code::NO_ERROR));
        } else {
            endpoint.resets(theirs, code::REFUSED_STREAM);
        }
        client.response(stream).has_status(503);
        held.upstream.expects_no_connection();
        assert_eq!(endpoint.request_so_far(), None);
    }
}

#[test]
fn what_an_endpoint_has_processed_is_not_sent_again() {
    for (head, is_replayed) in [(Head::get("/"), true), (Head::post("/"), false)] {
        let (held, mut client, stream, mut endpoint) = between("", &head, true);
        let (theirs, _) = endpoint.request();
        endpoint.sends(&Frame::go_away(theirs, code::NO_ERROR));
        endpoint.pings();
        endpoint.into_peer().closes();
        if is_replayed {
            // As after any connection that closes: it does no harm.
            let mut next = held.upstream.accepts_h2();
            responds_next(&mut next, "again");
            client.response(stream).has_body("again");
        } else {
            client.response(stream).has_problem(502, "upstream-closed");
            held.upstream.expects_no_connection();
        }
    }
}

#[test]
fn an_upload_that_is_not_processed_and_used_is_not_sent_again() {
    let (held, mut client, stream, mut endpoint) = between("", &Head::post("/"), false);
    let (theirs, _) = endpoint.request_head();
    client.sends_data(stream, "abc", false);
    endpoint.takes_data(theirs, 3);
    endpoint.sends(&Frame::go_away(0, code::NO_ERROR));
    client.response(stream).has_problem(503, "upstream-refused");
    held.upstream.expects_no_connection();
}

#[test]
fn a_connection_that_dies_is_replaced() {
    let (held, mut client, mut endpoint) = from_h1("", GET);
    responds_next(&mut endpoint, "one");
    client.response().has_body("one");
    endpoint.into_peer().resets();
    waits_until("the connection to be given up", || figures(&held.gateway).0 == 0);
    client.sends(GET);
    let mut next = held.upstream.accepts_h2();
    responds_next(&mut next, "two");
    client.response().has_body("two");
}

#[test]
fn an_endpoint_that_speaks_something_else_is_a_502() {
    for said in ["HTTP/1.1 400 Bad Request\r\n\r\n", "garbage garbage garbage", ""] {
        let upstream = upstream::listens();
        let gateway = gateway(
            &format!("{TO_H2}\nroutes: [{{ prefix: /, upstream: u, retries: 0 }}]"),
            &[&upstream],
        );
        let mut client = gateway.connects();
        client.sends(POST);
        let mut endpoint = upstream.accepts();
        endpoint.takes(PREFACE.len());
        endpoint.sends(said);
        endpoint.finishes();
        let response = client.response();
        assert_eq!(response.status, 502, "{said}: {}", response.text());
        drop(endpoint);
    }
}

#[test]
fn a_malformed_response_ends_its_stream_alone() {
    let bad = [
        Head::default().with("x", "no status"),
        reply(200).with("X", "upper case"),
        reply(200).with("x", "a\r\nb: c"),
        reply(200).with("x", "a\0b"),
        reply(200).with("transfer-encoding", "chunked"),
        reply(200).with("connection", "close"),
        reply(200).with("content-length", "1").with("content-length", "2"),
        reply(101),
        Head::default().with(":status", "20"),
        Head::default().with(":status", "2000"),
        reply(200).with(":status", "200"),
        reply(200).with(":path", "/"),
    ];
    let (_held, mut client, stream, mut endpoint) = between("", &Head::get("/"), true);
    let (theirs, _) = endpoint.request();
    for head in bad {
        let other = client.asks(&Head::get("/"));
        let (theirs, _) = endpoint.request();
        endpoint.sends_head(theirs, &head, true);
        client.response(other).has_problem(502, "malformed");
        assert_eq!(endpoint.reset_of(theirs), code::PROTOCOL_ERROR, "{head:?}");
    }
    endpoint.responds(theirs, &reply(200), "x");
    client.response(stream).has_body("x");
}

#[test]
fn a_response_longer_or_shorter_than_declared_is_broken_off() {
    for sent in ["abcd", "ab"] {
        let (_held, mut client, stream, mut endpoint) = between("", &Head::get("/"), true);
        let (theirs, _) = endpoint.request();
        endpoint.sends_head(theirs, &reply(200).with("content-length", "3"), false);
        client.response_head(stream).has_status(200);
        endpoint.sends_data(theirs, sent, true);
        assert_ne!(client.reset_of(stream), code::NO_ERROR);
    }
}

#[test]
fn a_connection_that_breaks_a_rule_is_replaced() {
    let broken = [
        Frame::new(Frame::HEADERS, Frame::END_HEADERS, 0, block(&reply(200))),
        Frame::new(Frame::DATA, 0, 1, vec![0; 16_385]),
        Frame::headers(1, [0xff, 0xff, 0xff, 0xff, 0xff, 0xff], true),
        Frame::new(5, Frame::END_HEADERS, 1, [0, 0, 0, 2, 0x82]),
        Frame::settings(&[(setting::INITIAL_WINDOW_SIZE, 1 << 31)]),
        Frame::window_update(0, 0),
    ];
    for frame in broken {
        let (held, mut client, mut endpoint) = from_h1("", POST);
        endpoint.request();
        endpoint.sends(&frame);
        let response = client.response();
        assert_eq!(response.status, 502, "{frame:?}: {}", response.text());
        // Where some of it was left unread, a reset may overtake what the gateway says.
        let said = endpoint.looks_for(|talk| talk.has_gone_away());
        assert!(said.is_none_or(|(_, code)| code != code::NO_ERROR), "{frame:?}");
        client.sends(GET);
        let mut next = held.upstream.accepts_h2();
        responds_next(&mut next, "next");
        client.response().has_body("next");
    }
}

#[test]
fn an_endpoint_that_does_not_respond_is_a_504() {
    let (held, mut client, mut endpoint) = from_h1("timeouts: { response: 200ms }", GET);
    let (theirs, _) = endpoint.request();
    client.response().has_problem(504, "response-timeout");
    assert_eq!(endpoint.reset_of(theirs), code::CANCEL);
    // The connection may be dead: no other request should have to find out.
    client.sends(GET);
    let mut next = held.upstream.accepts_h2();
    responds_next(&mut next, "next");
    client.response().has_body("next");
}

#[test]
fn a_response_that_pauses_is_cut_short() {
    let (_held, mut client, stream, mut endpoint) =
        between("timeouts: { response_body: 200ms }", &Head::get("/"), true);
    let (theirs, _) = endpoint.request();
    endpoint.sends_head(theirs, &reply(200), false);
    client.response_head(stream);
    assert_eq!(client.reset_of(stream), code::INTERNAL_ERROR);
    assert_eq!(endpoint.reset_of(theirs), code::CANCEL);
}

#[test]
fn connections_close_when_the_gateway_ends() {
    let upstream = upstream::replies_h2(ok("x"));
    let gateway = gateway(&format!("{TO_H2}\nworkers: 2"), &[&upstream]);
    for _ in 0..10 {
        gateway.get("/").has_body("x");
    }
    assert!(upstream.connections() <= 2);
    drop(gateway);
    upstream.waits_for_open(0);
}

#[test]
fn what_clients_cancel_does_not_cost_the_others_their_connection() {
    let (_held, mut old, mut endpoint) = from_h1("", POST);
    let (running, _) = endpoint.request();
    let mut client = _held.gateway.connects_h2();
    for _ in 0..60 {
        let stream = client.asks(&Head::get("/"));
        let (theirs, _) = endpoint.request();
        client.resets(stream, code::CANCEL);
        assert_eq!(endpoint.reset_of(theirs), code::CANCEL);
        // Sent before the endpoint could know.
        endpoint.sends_head(theirs, &reply(200), false);
        for _ in 0..4 {
            endpoint.sends(&Frame::data(theirs, vec![b'x'; 16_384], false));
        }
    }
    endpoint.pings();
    endpoint.responds(running, &reply(200), "x");
    old.response().has_body("x");
}

#[test]
fn requests_that_wait_for_a_connection_do_not_wait_for_each_other() {
    let upstream = upstream::accepts_nobody();
    let gateway = gateway(&format!("{TO_H2}\ntimeouts: {{ connect: 500ms }}"), &[&upstream]);
    let mut client = gateway.connects_h2();
    let started = Instant::now();
    let streams: Vec<_> = (0..16).map(|_| client.asks(&Head::get("/"))).collect();
    for stream in streams {
        client.response(stream).has_problem(504, "connect-timeout");
    }
    let took = started.elapsed();
    assert!(took < Duration::from_secs(4), "{took:?}");
}

/// Waits until a request has come to the endpoint, or so many wait for a connection.
#[track_caller]
pub(super) fn comes_or_waits(
    endpoint: &mut Endpoint,
    gateway: &Gateway,
    waiting: u32,
) -> Option<u32> {
    let mut stream = None;
    waits_until("a request to come or to wait", || {
        stream = endpoint.request_so_far();
        stream.is_some() || figures(gateway).1 == waiting
    });
    stream
}

#[test]
fn a_connection_in_use_gives_way_to_requests_of_another_worker() {
    let upstream = upstream::listens();
    let text = format!("workers: 2\n{}", settings("max_connections: 1, queue: { timeout: 1m }"));
    let gateway = gateway(&text, &[&upstream]);
    let mut busy = gateway.connects_h2();
    let mut asked = busy.asks(&Head::get("/"));
    let mut endpoint = upstream.accepts_h2();
    let (mut running, _) = endpoint.request();
    // Those on the same worker share the connection; the first of the others has to wait.
    let (mut other, stream) = loop {
        let mut client = gateway.connects_h2();
        let stream = client.asks(&Head::get("/"));
        let Some(theirs) = comes_or_waits(&mut endpoint, &gateway, 1) else {
            break (client, stream);
        };
        endpoint.responds(running, &reply(200), "x");
        busy.response(asked).has_body("x");
        (busy, asked, running) = (client, stream, theirs);
    };
    // From here on the connection is never without a request.
    let started = Instant::now();
    loop {
        assert!(started.elapsed() < Duration::from_secs(5), "it is never given up");
        let next = busy.asks(&Head::get("/"));
        let theirs = comes_or_waits(&mut endpoint, &gateway, 2);
        endpoint.responds(running, &reply(200), "x");
        busy.response(asked).has_body("x");
        asked = next;
        let Some(theirs) = theirs else { break };
        running = theirs;
    }
    let mut next = upstream.accepts_h2();
    responds_next(&mut next, "y");
    other.response(stream).has_body("y");
    let mut next = upstream.accepts_h2();
    responds_next(&mut next, "x");
    busy.response(asked).has_body("x");
}
