//! What a trial, a guard and a watch keep in mind.

use super::*;
use std::net::TcpListener;
use titan_testkit::upstream;

/// Two requests an hour.
const LIMITED: &str = "apply: [l]\npolicies: { l: { rate_limit: { key: route, rates: 2/h } } }\n";

#[test]
fn what_comes_back_has_counted_on() {
    let limited = with_status(200) + LIMITED;
    let mut program = Program::starts(&limited);
    assert_eq!(program.statuses(3), [200, 200, 429]);
    program.change(apply(&with_status(201), confirm_within(LONG))).unwrap();
    assert_eq!(program.status(), 201);
    program.change(Change::Rollback(None)).unwrap();
    assert_eq!(program.status(), 429);
    // What does not come back is forgotten.
    program.change(apply(&with_status(201), PLAIN)).unwrap();
    program.change(Change::Rollback(None)).unwrap();
    assert_eq!(program.status(), 200);
}

#[test]
fn going_back_begins_with_what_is_in_force_by_then() {
    let mut program = Program::starts(&with_status(200));
    program.change(apply(&with_status(201), PLAIN)).unwrap();
    let orders = program.orders.clone();
    let ask = |change: Change| {
        let orders = orders.clone();
        async move { orders.change(change, PEER).await }
    };
    let (applied, back) = program.during(async {
        tokio::join!(ask(apply(&with_status(202), PLAIN)), ask(Change::Rollback(None)))
    });
    assert_eq!(applied.unwrap().entry.id, 3);
    let back = back.unwrap().entry;
    assert_eq!((back.id, back.repeats, program.status()), (4, Some(2), 201));
}

#[test]
fn a_watched_file_is_read_again_where_the_reason_may_pass() {
    let mut program = Program::starts(&with_status(200));
    program.reloading = program.reloading.take().map(Reloading::watching);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("'{}'", taken.local_addr().unwrap());
    let text = with_status(201).replace("'127.0.0.1:0'", &format!("'127.0.0.1:0', {address}"));
    std::fs::write(program.folder.join("titan.yaml"), text).unwrap();
    program.is_fast = true;
    let is_refused = |reloads: &Reloads| reloads.attempts().refused_last.is_some();
    let reloads = Arc::clone(&program.reloads);
    program.until_all(move |_| is_refused(&reloads));
    assert_eq!(program.status(), 200);
    drop(taken);
    program.until(|entry| entry.source == Source::Watch);
    assert_eq!(program.status(), 201);
    assert_eq!(program.reloads.attempts().refused, 1, "what is known is told once");
}

#[test]
fn other_files_do_not_make_a_refused_configuration_good() {
    let mut program = Program::starts(&with_status(200));
    let certificate = program.folder.join("secret");
    std::fs::write(&certificate, SECRET).unwrap();
    let with_file = with_status(201)
        + "apply: [p]\npolicies: { p: { jwt: { required: false, providers: { algorithms: HS256, \
           keys: { secret_file: secret } } } } }\n";
    program.change(apply(&with_file, PLAIN)).unwrap();
    assert!(program.change(apply("nonsense", PLAIN)).is_err());
    std::fs::write(&certificate, format!("another {SECRET}")).unwrap();
    let applied = program.reloads.attempts().applied;
    let reloads = Arc::clone(&program.reloads);
    program.until_all(move |_| reloads.attempts().applied > applied);
    assert_eq!(program.reloads.attempts().refused_last, Some(titan_admin::Subject::Configuration));
    program.change(Change::Reload).unwrap();
    assert_eq!(program.reloads.attempts().refused_last, None);
}

#[test]
fn a_guard_sees_requests_that_get_no_response() {
    let silent = upstream::stalls();
    let mut program = Program::starts(&with_status(200));
    program.gets(200, 6);
    let guard = Guard { window: Duration::from_secs(20), factor: 2.0 };
    let text = with_status(200).replace("respond: 200", "upstream: u")
        + &format!("upstreams: {{ u: '{}' }}\n", silent.address());
    let safeguards = Safeguards { confirm: None, guard: Some(guard) };
    program.change(apply(&text, safeguards)).unwrap();
    let address = program.gateway.listeners()[0].socket_address.unwrap();
    let _waiting: Vec<TcpStream> = (0..150)
        .map(|_| {
            let mut stream = TcpStream::connect(address).unwrap();
            write!(stream, "GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
            stream
        })
        .collect();
    silent.waits_for_requests(150);
    program.is_fast = true;
    let history = program.until(|entry| entry.source == Source::TakenBack);
    let why = history.entries[1].why.clone().unwrap();
    assert!(why.starts_with("route `r`: 150 requests have waited for more than 1s"), "{why}");
}

#[test]
fn a_trial_that_was_taken_back_is_no_standard_for_the_next() {
    let mut program = Program::starts(&with_status(200));
    program.gets(200, 6);
    let guard = Guard { window: Duration::from_secs(600), factor: 2.0 };
    let safeguards = Safeguards { confirm: None, guard: Some(guard) };
    for round in 0..4 {
        program.change(apply(&with_status(503), safeguards)).unwrap();
        program.gets(503, 3);
        let history = program.until(|entry| entry.source == Source::TakenBack);
        let why = history.entries[1].why.as_deref();
        let wanted = "route `r`: 5xx 100.0 % of 150 requests, before 0.0 % of 300 requests";
        assert_eq!(why, Some(wanted), "round {round}");
    }
}
