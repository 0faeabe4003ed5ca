//! Streams and connections that end early, on either side.

use super::{TO_H2, between, between_h1, from_h1};
use crate::timeouts::takes;
use std::net::TcpStream;
use std::time::{Duration, Instant};
use titan_testkit::h2::{Client, Frame, Head, PREFACE, block, code, reply};
use titan_testkit::upstream::{self, ok};
use titan_testkit::{End, Gate, Gateway, gateway, scheme, waits_until};

/// Serves a request on each of the two connections, which have gone on.
#[track_caller]
fn goes_on(client: &mut Client, endpoint: &mut titan_testkit::h2::Endpoint) {
    let stream = client.asks(&Head::get("/on"));
    let (theirs, request) = endpoint.request();
    assert_eq!(request.target, "/on");
    endpoint.responds(theirs, &reply(200), "x");
    client.response(stream).has_body("x");
}

#[test]
fn a_request_that_is_given_up_ends_at_an_endpoint_of_http2() {
    // Before the response, while its body comes, and while that of the request does.
    for (is_uploading, is_responding) in
        [(false, false), (false, true), (true, false), (true, true)]
    {
        let (_held, mut client, stream, mut endpoint) =
            between("", &Head::post("/"), !is_uploading);
        let (theirs, _) = endpoint.request_head();
        if is_responding {
            endpoint.sends_head(theirs, &reply(200), false);
            client.response_head(stream).has_status(200);
        }
        client.resets(stream, code::CANCEL);
        assert_eq!(endpoint.reset_of(theirs), code::CANCEL, "{is_uploading} {is_responding}");
        goes_on(&mut client, &mut endpoint);
    }
}

#[test]
fn a_request_that_is_given_up_ends_at_an_endpoint_of_http1() {
    for (is_uploading, is_responding) in
        [(false, false), (false, true), (true, false), (true, true)]
    {
        let (held, mut client, stream, mut endpoint) =
            between_h1("", &Head::post("/"), !is_uploading);
        endpoint.head();
        if is_responding {
            endpoint.sends("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n");
            client.response_head(stream).has_status(200);
        }
        client.resets(stream, code::CANCEL);
        endpoint.rest();
        let stream = client.asks(&Head::get("/on"));
        let mut second = held.upstream.accepts();
        second.request();
        second.sends(ok("x"));
        client.response(stream).has_body("x");
    }
}

#[test]
fn a_client_that_leaves_gives_up_all_its_requests() {
    for end in [End::Close, End::Reset] {
        let (held, mut client, _, mut endpoint) = between("", &Head::get("/"), true);
        let mut other = held.gateway.connects_h2();
        client.starts(&Head::post("/"));
        let theirs = [endpoint.request_head().0, endpoint.request_head().0];
        client.into_peer().ends(end);
        for stream in theirs {
            assert_eq!(endpoint.reset_of(stream), code::CANCEL, "{end:?}");
        }
        goes_on(&mut other, &mut endpoint);
    }
    // One of HTTP/1.1 as well.
    for end in [End::Close, End::Reset] {
        let (_held, client, mut endpoint) = from_h1("", "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let (theirs, _) = endpoint.request();
        client.ends(end);
        assert_eq!(endpoint.reset_of(theirs), code::CANCEL, "{end:?}");
    }
}

#[test]
fn a_response_that_breaks_off_is_broken_off() {
    let (_held, mut client, stream, mut endpoint) = between("", &Head::get("/"), true);
    let (theirs, _) = endpoint.request();
    endpoint.sends_head(theirs, &reply(200).with("content-length", "5"), false);
    endpoint.sends_data(theirs, "ab", false);
    client.response_head(stream).has_status(200);
    assert_eq!(client.takes_data(stream, 2), b"ab");
    endpoint.resets(theirs, code::INTERNAL_ERROR);
    assert_eq!(client.reset_of(stream), code::INTERNAL_ERROR);
    goes_on(&mut client, &mut endpoint);

    let (_held, mut client, stream, mut endpoint) = between_h1("", &Head::get("/"), true);
    endpoint.request();
    endpoint.sends("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab");
    client.response_head(stream);
    endpoint.closes();
    assert_eq!(client.reset_of(stream), code::INTERNAL_ERROR);
    client.pings();

    let (_held, mut client, mut endpoint) = from_h1("", "GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let (theirs, _) = endpoint.request();
    endpoint.sends_head(theirs, &reply(200), false);
    endpoint.sends_data(theirs, "ab", false);
    client.head();
    endpoint.resets(theirs, code::CANCEL);
    client.expects_close_after("2\r\nab\r\n");
}

#[test]
fn what_came_of_a_response_that_breaks_off_arrives() {
    let (_held, mut client, stream, mut endpoint) = between_h1("", &Head::get("/"), true);
    endpoint.request();
    endpoint.sends("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1e8480\r\n");
    // The last of it waits in front of the gateway when the endpoint breaks off.
    let sent = endpoint.sends_until_blocked(1_000_000);
    endpoint.closes();
    client.response_head(stream).has_status(200);
    assert_eq!(client.reset_of(stream), code::INTERNAL_ERROR);
    assert_eq!(client.body_so_far(stream), sent);
}

#[test]
fn a_request_that_breaks_a_rule_half_way_is_broken_off() {
    for head in [Head::post("/").with("content-length", "3"), Head::post("/")] {
        let (_held, mut client, stream, mut endpoint) = between("", &head, false);
        let (theirs, request) = endpoint.request_head();
        if request.field("content-length").is_some() {
            client.sends_data(stream, "abcd", false);
        } else {
            client.sends_head(stream, &Head::default().with("x", "1"), false);
        }
        assert_eq!(client.reset_of(stream), code::PROTOCOL_ERROR);
        endpoint.reset_of(theirs);
        goes_on(&mut client, &mut endpoint);
    }
}

#[test]
fn a_drain_loses_no_request() {
    let (held, mut client, stream, mut endpoint) = between("", &Head::get("/"), true);
    let (theirs, _) = endpoint.request();
    client.acknowledges_nothing();
    held.gateway.drains();
    assert_eq!(client.go_away(), ((1 << 31) - 1, code::NO_ERROR));
    // This one was sent before the client knew.
    let late = client.asks(&Head::get("/late"));
    let (theirs_late, request) = endpoint.request();
    assert_eq!(request.target, "/late");
    client.acknowledges();
    assert_eq!(client.go_away(), (late, code::NO_ERROR));
    endpoint.responds(theirs, &reply(200), "one");
    endpoint.responds(theirs_late, &reply(200), "two");
    client.response(stream).has_body("one");
    client.response(late).has_body("two");
    assert_eq!(client.ends(), End::Close);
    held.gateway.waits_for_end();
    assert_eq!(endpoint.ends(), End::Close);
}

#[test]
fn idle_connections_close_on_drain() {
    let upstream = upstream::replies(ok("x"));
    let gateway = gateway("", &[&upstream]);
    let mut client = gateway.connects_h2();
    client.get("/").has_body("x");
    gateway.drains();
    assert_eq!(client.go_away().1, code::NO_ERROR);
    assert_eq!(client.ends(), End::Close);
    gateway.waits_for_end();
}

#[test]
fn a_client_that_ignores_goaway_is_cut_off_when_the_drain_is_over() {
    let (held, mut client, _, mut endpoint) =
        between("timeouts: { drain: 300ms }", &Head::get("/"), true);
    endpoint.request();
    client.acknowledges_nothing();
    held.gateway.drains();
    client.ends();
    held.gateway.waits_for_end();
}

#[test]
fn a_connection_serves_as_many_requests_as_allowed() {
    let gate = Gate::closed();
    let upstream = upstream::responds(gate.before(ok("x")));
    let gateway = gateway("limits: { requests_per_connection: 3 }", &[&upstream]);
    let mut client = gateway.connects_h2();
    let mut streams: Vec<_> = (0..3).map(|_| client.asks(&Head::get("/"))).collect();
    client.acknowledges_nothing();
    assert_eq!(client.go_away(), ((1 << 31) - 1, code::NO_ERROR));
    streams.push(client.asks(&Head::get("/")));
    client.pings();
    client.acknowledges();
    assert_eq!(client.go_away(), (streams[3], code::NO_ERROR));
    gate.opens();
    for stream in streams {
        client.response(stream).has_body("x");
    }
    assert_eq!(client.ends(), End::Close);
}

const LONG: Duration = Duration::from_millis(300);

#[test]
fn a_connection_without_a_request_is_given_up() {
    let gateway = gateway("timeouts: { idle: 300ms }\nroutes: [{ respond: 204 }]", &[]);
    takes(LONG, || is_sent_away(gateway.connects_h2(), code::NO_ERROR));
}

#[track_caller]
fn is_sent_away(mut client: Client, code: u32) {
    assert_eq!(client.go_away().1, code);
    assert_eq!(client.ends(), End::Close);
}

#[test]
fn what_does_not_come_to_its_end_is_given_up() {
    let upstream = upstream::listens();
    let text = "timeouts: { head: 300ms }\n\
                routes: [{ path: /own, respond: 204 }, { prefix: /, upstream: u }]";
    let gateway = gateway(text, &[&upstream]);
    // Half a preface is no connection.
    takes(LONG, || {
        let mut client = gateway.connects();
        client.sends("PRI * HTTP");
        client.rest();
    });
    takes(LONG, || gateway.connects().sends("PR").rest());
    let block = block(&Head::get("/own"));
    let begins =
        |stream| Frame::new(Frame::HEADERS, Frame::END_STREAM, stream, &block[..10]).bytes();
    let goes_on = |stream| Frame::continuation(stream, &block[10..], true).bytes();
    let cases = [
        ("half a block", begins(3)),
        ("half the head of a frame", begins(3)[..4].to_vec()),
        ("half a frame", Frame::ping([0; 8]).bytes()[..12].to_vec()),
        ("a second block", [begins(3), goes_on(3), begins(5)].concat()),
    ];
    for (name, bytes) in cases {
        // Beside a request that runs, and on a connection that has none.
        for runs in [true, false] {
            let mut client = gateway.connects_h2();
            let running = client.asks(&Head::get("/"));
            let mut endpoint = upstream.accepts();
            endpoint.request();
            if !runs {
                endpoint.sends(ok("x"));
                client.response(running).has_body("x");
            }
            client.pings().acknowledges_nothing();
            takes(LONG, || {
                client.peer().sends(&bytes);
                is_sent_away(client, code::ENHANCE_YOUR_CALM);
            });
            drop(endpoint);
            println!("{name}");
        }
    }
}

#[test]
fn a_body_may_take_longer_than_a_head() {
    let text = "timeouts: { head: 200ms, idle: 300ms }";
    let (held, mut client, stream, mut endpoint) = between(text, &Head::post("/"), false);
    let (theirs, _) = endpoint.request_head();
    let frame = Frame::data(stream, "abcd", true).bytes();
    let (first, last) = frame.split_at(11);
    client.pings().peer().sends(first);
    takes(LONG, || held.gateway.connects().rest());
    client.peer().sends(last);
    endpoint.responds(theirs, &reply(200), "x");
    client.response(stream).has_body("x");
}

#[test]
fn a_connection_between_requests_is_given_up() {
    let upstream = upstream::replies(ok("x"));
    let gateway = gateway("timeouts: { idle: 300ms }", &[&upstream]);
    takes(LONG, || {
        let mut client = gateway.connects_h2();
        client.get("/").has_body("x");
        assert_eq!(client.go_away(), (1, code::NO_ERROR));
        assert_eq!(client.ends(), End::Close);
    });
    // Pings are no requests.
    let mut client = gateway.connects_h2();
    client.get("/").has_body("x");
    while client.has_gone_away().is_none() {
        client.offers(&[Frame::ping([7; 8])]);
        gateway.get("/").has_body("x");
        client.peer().has_news();
        client.looks();
    }
}

#[test]
fn a_running_request_keeps_its_connection() {
    let (held, mut client, stream, mut endpoint) =
        between("timeouts: { idle: 200ms, head: 200ms }", &Head::get("/"), true);
    let (theirs, _) = endpoint.request();
    takes(Duration::from_millis(200), || held.gateway.connects().rest());
    takes(Duration::from_millis(200), || held.gateway.connects().rest());
    endpoint.responds(theirs, &reply(200), "x");
    client.response(stream).has_body("x");
}

#[test]
fn a_client_that_reads_nothing_is_disconnected() {
    let upstream = upstream::replies(ok(&"x".repeat(8 << 20)));
    let gateway = gateway("timeouts: { write: 300ms }", &[&upstream]);
    let windows = [(titan_testkit::h2::setting::INITIAL_WINDOW_SIZE, (1 << 31) - 1)];
    let mut client = gateway.connects_h2_with(&windows);
    client.gives(0, 1 << 30);
    client.peer().takes_little(4096);
    client.asks(&Head::get("/"));
    waits_until("it to be disconnected", || is_over(&gateway));
}

#[test]
fn unread_responses_are_not_gathered() {
    const HEAD: u64 = 16_000;
    // What the kernel keeps, and then some.
    const MOST: u64 = 16 << 20;
    let text = format!(
        "timeouts: {{ write: 1s }}\nroutes: [{{ respond: {{ status: 204, \
         headers: {{ a: {0}, b: {0}, c: {0}, d: {0} }} }} }}]",
        "x".repeat(4000)
    );
    let gateway = gateway(&text, &[]);
    let mut client = gateway.connects_h2();
    client.peer().takes_little(4096);
    let block = block(&Head::get("/"));
    let responses = || gateway.metrics().sum(|cells| cells.begun.get());
    // No more at once than streams are allowed.
    for count in (100..).step_by(100) {
        let streams: Vec<_> = (0..100).map(|_| client.next_stream()).collect();
        let frames: Vec<_> = streams.iter().map(|&it| Frame::headers(it, &*block, true)).collect();
        client.offers(&frames);
        waits_until("responses, or the end", || responses() == count || is_over(&gateway));
        if is_over(&gateway) {
            break;
        }
        assert!(responses() * HEAD < MOST, "{} responses", responses());
    }
}

#[test]
fn a_client_that_gives_no_window_loses_its_stream() {
    let upstream = upstream::replies(ok("x"));
    let gateway = gateway("timeouts: { write: 300ms }", &[&upstream]);
    let windows = [(titan_testkit::h2::setting::INITIAL_WINDOW_SIZE, 0)];
    let mut client = gateway.connects_h2_with(&windows);
    let code = takes(LONG, || {
        let stream = client.asks(&Head::get("/"));
        client.reset_of(stream)
    });
    assert_eq!(code, code::INTERNAL_ERROR);
    client.pings();
}

/// The rate is measured over ten seconds, and so this test takes as long.
// field: limits.response_rate
#[test]
fn a_client_takes_its_response_at_a_minimum_rate() {
    let upstream = upstream::replies(ok(&"x".repeat(90_000)));
    let windows = [(titan_testkit::h2::setting::INITIAL_WINDOW_SIZE, 0)];
    let client_of = |gateway: &Gateway| {
        let mut client = gateway.connects_h2_with(&windows);
        client.holds_windows();
        let stream = client.asks(&Head::get("/"));
        client.response_head(stream).has_status(200);
        client.gives(0, 1 << 20);
        (client, stream)
    };
    let [slow, free] = ["1KiB", "off"].map(|rate| {
        let text = format!("limits: {{ response_rate: {rate} }}\ntimeouts: {{ write: 3s }}");
        gateway(&text, &[&upstream])
    });
    let code = takes(Duration::from_secs(10), || {
        let [(mut one_by_one, cut), (mut enough, kept), (mut forgiven, free)] =
            [&slow, &slow, &free].map(client_of);
        while one_by_one.looks().has_reset(cut).is_none() {
            one_by_one.gives(cut, 1);
            forgiven.gives(free, 1);
            enough.gives(kept, 1000);
            let until = Instant::now() + Duration::from_millis(200);
            waits_until("a moment to be over", || Instant::now() >= until);
        }
        assert_eq!(enough.looks().has_reset(kept), None);
        assert_eq!(forgiven.looks().has_reset(free), None);
        for (client, stream) in [(&mut enough, kept), (&mut forgiven, free)] {
            client.gives(stream, 100_000);
            client.takes_rest(stream);
        }
        one_by_one.reset_of(cut)
    });
    assert_eq!(code, code::INTERNAL_ERROR);
}

fn is_over(gateway: &Gateway) -> bool {
    gateway.metrics().sum(|cells| cells.closed.get()) == 1
}

#[test]
fn no_new_request_is_accepted_while_a_stream_runs() {
    let (held, mut client, stream, mut endpoint) = between("", &Head::get("/"), true);
    let (theirs, _) = endpoint.request();
    let address = held.gateway.address();
    held.gateway.drains();
    waits_until("connections to be refused", || TcpStream::connect(address).is_err());
    endpoint.responds(theirs, &reply(200), "x");
    client.response(stream).has_body("x");
    held.gateway.waits_for_end();
}

#[test]
fn the_metrics_count_streams_as_requests() {
    let upstream = upstream::replies_h2(ok("x"));
    let gateway = gateway(&format!("{TO_H2}\nroutes: [{{ path: /a, upstream: u }}]"), &[&upstream]);
    let mut client = gateway.connects_h2();
    for (path, status) in [("/a", 200), ("/a", 200), ("/b", 404)] {
        client.get(path).has_status(status);
    }
    // A head that is none, and one that is too long.
    let stream = client.asks(&Head::get("/a").with("X", "1"));
    assert_eq!(client.reset_of(stream), code::PROTOCOL_ERROR);
    let metrics = gateway.metrics();
    let sums = || {
        let sum = |figure: fn(&titan_proxy::Cells) -> u64| metrics.sum(figure);
        (
            sum(|cells| cells.accepted.get()),
            sum(|cells| cells.begun.get()),
            gateway.status().routes()[0].sum(|cells| cells.classes[2].get()),
            gateway.status().routes()[1].sum(|cells| cells.classes[4].get()),
            gateway.status().upstreams()[0].sum(|cells| cells.attempts.get()),
            metrics.failures_by_code().find(|(code, _)| *code == "malformed").map(|it| it.1),
        )
    };
    waits_until(&format!("{:?}", sums()), || sums() == (1, 3, 2, 1, 2, Some(1)));
}

#[test]
fn requests_in_the_first_flight_get_a_response_at_once() {
    // Over TLS nothing is read before it is known that HTTP/2 is spoken.
    if scheme() == "https" {
        return;
    }
    // What ends the connection would write it, too.
    let text = "timeouts: { head: 1h, idle: 1h }\nroutes: [{ respond: 204 }]";
    let gateway = gateway(text, &[]);
    let mut client = gateway.connects();
    let flight = [PREFACE, &Frame::settings(&[]).bytes(), &Frame::ping([7; 8]).bytes()].concat();
    client.sends(flight);
    let mut acknowledged = Vec::new();
    while acknowledged.len() < 2 {
        let head = client.takes(9);
        client.takes(usize::from(u16::from_be_bytes([head[1], head[2]])));
        acknowledged.extend((head[4] == Frame::ACK).then_some(head[3]));
    }
    assert_eq!(acknowledged, [Frame::SETTINGS, Frame::PING]);
}
