//! Clients that hold as much of an upstream as they can at next to no cost, and what a good client notices of them.

use titan_testkit::h2::{Client, Head, setting};
use titan_testkit::upstream::{self, Upstream, ok};
use titan_testkit::{Gateway, gateway};

/// The connections that the endpoint takes, where it has a limit.
const CONNECTIONS: usize = 32;
/// How many of them one client can take: an eighth is for those that use few.
const TAKEN: usize = CONNECTIONS - CONNECTIONS / 8;
/// More than is read ahead of a client.
const LARGE: usize = 300 << 10;

/// Where the attackers are.
const ATTACKERS: &str = "127.0.0.1";

/// What the good client has, and how it comes to that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Case {
    /// Nothing limits the connections of the endpoint.
    Unlimited,
    /// They are limited, and its address is not that of the attackers.
    Elsewhere,
    /// They are limited, and it has the attackers' address: this is what they would do to every client.
    Here,
}

impl Case {
    /// The limit, and how long requests wait where they do so in vain.
    fn upstream(self) -> String {
        match self {
            Case::Unlimited => String::new(),
            Case::Elsewhere => format!("max_connections: {CONNECTIONS}, queue: {{ timeout: 10s }}"),
            Case::Here => format!("max_connections: {CONNECTIONS}, queue: {{ timeout: 100ms }}"),
        }
    }
}

/// A gateway with these limits in front of an endpoint that responses `/large`, and anything else shortly.
fn before(limits: &str, case: Case) -> (Gateway, Upstream) {
    let upstream = upstream::responds(|request| match request.target.as_str() {
        "/large" => ok(&"x".repeat(LARGE)),
        _ => ok("x"),
    });
    let upstreams = format!("{{ u: {{ endpoints: $0, {} }} }}", case.upstream());
    // Where the attack is to succeed it may take its time.
    let rate = if case == Case::Here { "off" } else { "240B" };
    let limits = format!("{limits}response_rate: {rate}, body_rate: {rate}");
    let text = format!("limits: {{ {limits} }}\nupstreams: {upstreams}");
    (gateway(&text, &[&upstream]), upstream)
}

/// How many of ten requests are served.
fn served(gateway: &Gateway, case: Case) -> usize {
    let source = if case == Case::Elsewhere { "127.0.0.2" } else { ATTACKERS };
    let statuses = (0..10).map(|_| {
        let mut client = gateway.connects_from(source);
        client.sends("GET /small HTTP/1.1\r\nHost: a\r\n\r\n").response().status
    });
    statuses.filter(|status| *status == 200).count()
}

/// A connection of an attacker, with as many requests as it may have.
struct Attacker {
    client: Client,
    begin: Begin,
    head: Head,
    streams: Vec<u32>,
}

/// How it begins a request: with all of it, or the head alone.
type Begin = fn(&mut Client, &Head) -> u32;

impl Attacker {
    const STREAMS: usize = 100;

    fn begins(gateway: &Gateway, begin: Begin, head: Head) -> Attacker {
        let mut client = gateway.connects_h2_with(&[(setting::INITIAL_WINDOW_SIZE, 0)]);
        client.holds_windows();
        let mut attacker = Attacker { client, begin, head, streams: Vec::new() };
        attacker.goes_on(|_, _| ());
        attacker
    }

    /// Gives up what was refused, does something with each of the others, and asks for as much again as is missing.
    fn goes_on(&mut self, mut drips: impl FnMut(&mut Client, u32)) {
        let Attacker { client, begin, head, streams } = self;
        client.looks();
        streams.retain(|&stream| {
            let is_over = client.has_reset(stream).is_some();
            let is_refused = client.has_responded(stream).is_some_and(|status| status != 200);
            if is_refused && !is_over {
                client.resets(stream, titan_testkit::h2::code::CANCEL);
            }
            !is_refused && !is_over
        });
        streams.iter().for_each(|stream| drips(client, *stream));
        while streams.len() < Attacker::STREAMS {
            streams.push(begin(client, head));
        }
    }
}

/// Checks that of 50 requests of a good client all are served while the attackers go on, or where it cannot be told from
/// them none.
#[track_caller]
fn judge(
    gateway: &Gateway,
    case: Case,
    attackers: &mut [Attacker],
    drips: impl Fn(&mut Client, u32),
) {
    let rounds = if case == Case::Here { 1 } else { 5 };
    for round in 0..rounds {
        attackers.iter_mut().for_each(|attacker| attacker.goes_on(&drips));
        let wanted = if case == Case::Here { 0 } else { 10 };
        assert_eq!(served(gateway, case), wanted, "{case:?}, round {round}");
    }
}

#[test]
fn unread_responses_leave_others_an_upstream() {
    for case in [Case::Unlimited, Case::Elsewhere, Case::Here] {
        let (gateway, upstream) = before("", case);
        let begins = |_| Attacker::begins(&gateway, Client::asks, Head::get("/large"));
        let mut attackers: Vec<_> = (0..3).map(begins).collect();
        upstream.waits_for_open(if case == Case::Unlimited { 300 } else { TAKEN });
        judge(&gateway, case, &mut attackers, |client, stream| {
            client.gives(stream, 1100);
        });
    }
}

#[test]
fn bodies_that_do_not_come_leave_others_an_upstream() {
    let post = Head::post("/upload").with("content-length", "100000");
    for (buffer, case) in [
        ("16KiB", Case::Unlimited),
        ("16KiB", Case::Elsewhere),
        ("off", Case::Elsewhere),
        ("off", Case::Here),
    ] {
        let (gateway, upstream) = before(&format!("request_buffer: {buffer}, "), case);
        let begins = |_| Attacker::begins(&gateway, Client::starts, post.clone());
        let mut attackers: Vec<_> = (0..3).map(begins).collect();
        if buffer == "off" {
            upstream.waits_for_open(TAKEN);
        }
        judge(&gateway, case, &mut attackers, |client, stream| {
            client.sends_data(stream, b"0123456789", false);
        });
        let asked = upstream.connections();
        assert!(buffer == "off" || asked <= 50, "{asked} connections for uploads that do not come");
    }
}
