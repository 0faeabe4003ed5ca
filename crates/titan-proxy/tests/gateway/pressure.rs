//! A gateway whose own limits come near: the memory of this process is as much as a test wants it to be of its limit.

use titan_testkit::h2::{Head, code};
use titan_testkit::{End, Gateway, Peer, gateway, waits_until};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const ROUTES: &str = "routes:
  - { path: /sheddable, respond: 204, importance: sheddable }
  - { prefix: /, respond: 204 }
";

/// A tenth of the memory that there may be is in use, so that thresholds of 1% are reached and others are not.
fn under(pressure: &str) -> Gateway {
    gateway(&format!("{ROUTES}{}", settings(pressure)), &[])
}

/// The settings for that.
pub(super) fn settings(pressure: &str) -> String {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let resident = resident.expect("a process that runs has memory");
    let kilobytes: u64 = resident.trim().trim_end_matches(" kB").parse().expect("it is a number");
    let limit = kilobytes * 10;
    format!("pressure: {{ max_memory: {limit}KiB, {pressure} }}")
}

fn level(gateway: &Gateway) -> u8 {
    gateway.metrics().pressure.level() as u8
}

// field: pressure.stop_keep_alive, pressure.max_memory
#[test]
fn connections_close_after_a_response() {
    let gateway = under("stop_keep_alive: 1%");
    waits_until("the memory is measured", || level(&gateway) == 1);
    let mut client = gateway.connects();
    client.sends(GET).response().has_status(204).has_field("connection", "close");
    client.expects_close();
    gateway.get("/sheddable").has_status(204);
    assert!(gateway.metrics().workers()[0].pressure_closed.get() >= 2);
    let lines = gateway.tells();
    assert!(lines[0].ends_with("connections close after their response"), "{lines:?}");
}

#[test]
fn http2_connections_end_once_they_have_served_what_they_had() {
    let gateway = under("stop_keep_alive: 1%");
    waits_until("the memory is measured", || level(&gateway) == 1);
    let mut client = gateway.connects_h2();
    let streams = [(); 3].map(|()| client.asks(&Head::get("/")));
    for stream in streams {
        client.response(stream).has_status(204);
    }
    assert_eq!(client.go_away().1, code::NO_ERROR);
    assert_eq!(client.ends(), End::Close);
    // The next one is no worse off.
    gateway.connects_h2().get("/").has_status(204);
    waits_until("each connection to count once", || {
        let metrics = gateway.metrics();
        metrics.workers().iter().map(|it| it.pressure_closed.get()).sum::<u64>() == 2
    });
}

/// Of descriptors there is one limit for all that runs in this process, and others need theirs: so as many are opened as are a
/// hundredth of it.
#[test]
fn descriptors_count_as_memory_does() {
    let limits = std::fs::read_to_string("/proc/self/limits").expect("Linux has it");
    let limit = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let limit = limit.and_then(|line| line.split_whitespace().next()?.parse().ok());
    let limit: usize = limit.expect("the number of descriptors is limited");
    let open = || std::fs::File::open("/dev/null").expect("descriptors are left");
    let _open: Vec<_> = (0..=limit / 100).map(|_| open()).collect();
    let settings = "pressure: { max_memory: 1024GiB, stop_keep_alive: 1%, shed: 1% }";
    let gateway = gateway(&format!("{ROUTES}{settings}"), &[]);
    waits_until("the descriptors are measured", || level(&gateway) == 2);
    gateway.get("/sheddable").has_problem(503, "overloaded");
    gateway.get("/").has_status(204).has_field("connection", "close");
    let [descriptors, memory] = gateway.metrics().pressure.shares();
    assert!(descriptors >= 0.01 && memory < 0.01, "{descriptors}, {memory}");
    let lines = gateway.tells();
    assert!(lines[0].ends_with("sheddable requests are refused"), "{lines:?}");
}

// field: pressure.shed
#[test]
fn what_matters_least_is_refused() {
    let gateway = under("stop_keep_alive: 1%, shed: 1%");
    waits_until("the memory is measured", || level(&gateway) == 2);
    gateway.get("/sheddable").has_problem(503, "overloaded").has_field("retry-after", "1");
    gateway.get("/").has_status(204);
}

// field: pressure.stop_accepting
#[test]
fn no_connection_is_accepted_until_the_pressure_is_over() {
    let gateway = under("stop_keep_alive: 1%, shed: 1%, stop_accepting: 1%");
    waits_until("the memory is measured", || level(&gateway) == 3);
    // Without a handshake, which nobody would take part in.
    let _client = Peer::connects(gateway.address());
    let metrics = gateway.metrics();
    let cells = &metrics.workers()[0];
    waits_until("the listener pauses", || cells.pressure_pauses.get() > 2);
    assert_eq!(cells.accepted.get(), 0);
    gateway.reloads(ROUTES, &[]).unwrap();
    waits_until("the connection to be accepted", || cells.accepted.get() == 1);
    gateway.get("/").has_status(204);
}

// field: pressure.max_lag
#[test]
fn a_worker_that_is_late_refuses_what_matters_least() {
    let settings = "pressure: { max_lag: 1ms, stop_keep_alive: 1%, shed: 1% }";
    let gateway = gateway(&format!("{ROUTES}{settings}"), &[]);
    waits_until("a tick is late", || gateway.get("/sheddable").field("retry-after").is_some());
}

// field: file.pressure
#[test]
fn nothing_is_done_where_it_is_off() {
    let gateway = gateway(&format!("{ROUTES}pressure: off"), &[]);
    for _ in 0..20 {
        gateway.get("/sheddable").has_status(204);
    }
    assert_eq!(level(&gateway), 0);
}
