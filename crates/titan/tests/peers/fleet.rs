//! Gateways that count together in Redis: what passes over all of them, and what happens when it is gone, slow, or not Redis.

mod clustered;
mod redis;
mod revoked;

use crate::client::{Client, Response};
use crate::gateway::Gateway;
use crate::place::{Folder, own_address};
use crate::program::Program;
use crate::tls::certify;
use crate::wait::{TIMEOUT, eventually, until};
use redis::{HASH_KEY, Redis, ask_at, sentinel};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A gateway whose routes have a policy each that is counted in the store: by the name of the route.
fn gateway(store: &str, limits: &[(&str, &str)]) -> Gateway {
    gateway_in(Folder::new(), store, limits)
}

fn gateway_in(folder: Folder, store: &str, limits: &[(&str, &str)]) -> Gateway {
    let routes = limits.iter().map(|(name, _)| {
        format!("  - {{ name: {name}, path: /{name}, respond: 200, apply: {name} }}\n")
    });
    let policies =
        limits.iter().map(|(name, limit)| format!("  {name}: {{ rate_limit: {{ {limit} }} }}\n"));
    let config = format!(
        "workers: 1\nlisteners: [127.0.0.1:0]\nadmin: 127.0.0.1:0\nstores: {{ s: {{ {store} }} }}\nroutes:\n{}policies:\n{}",
        routes.collect::<String>(),
        policies.collect::<String>(),
    );
    Gateway::start_in(folder, &config)
}

fn get(client: &mut Client, path: &str) -> Response {
    client.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).unwrap();
    client.response().unwrap()
}

/// The status of a request of its own.
fn status(gateway: &Gateway, path: &str) -> u16 {
    get(&mut Client::connect(gateway.address()).unwrap(), path).status
}

/// How many of so many requests pass.
fn passing(gateway: &Gateway, path: &str, count: usize) -> usize {
    let mut client = Client::connect(gateway.address()).unwrap();
    (0..count).filter(|_| get(&mut client, path).status == 200).count()
}

/// A figure of the page of metrics.
fn figure(gateway: &Gateway, series: &str) -> f64 {
    let page = get(&mut Client::connect(gateway.admin()).unwrap(), "/metrics");
    let line = page.text().lines().find(|line| line.starts_with(series));
    let line = line.unwrap_or_else(|| panic!("no {series} in {}", page.text()));
    line.rsplit_once(' ').unwrap().1.parse().unwrap()
}

fn sees(gateway: &Gateway, gateways: u32) {
    until("the gateways see each other", || {
        figure(gateway, "titan_store_gateways{") == f64::from(gateways)
    });
}

/// How long the load lasts, and the requests a second that may pass. For longer and faster: `make fleet`.
fn load() -> (Duration, u32) {
    let longer = std::env::var("FLEET_SECONDS").ok().and_then(|it| it.parse().ok());
    longer.map_or((Duration::from_secs(2), 200), |it| (Duration::from_secs(it), 1000))
}

/// What a client has met.
struct Met {
    sent: usize,
    passed: usize,
    slowest: Duration,
    first: (Instant, Instant),
    last: (Instant, Instant),
}

/// Asks one request after another for so long, until one is refused.
fn ask_for(address: SocketAddr, lasts: Duration) -> Met {
    let mut client = Client::connect(address).unwrap();
    let began = Instant::now();
    let start = (began, began);
    let mut met = Met { sent: 0, passed: 0, slowest: Duration::ZERO, first: start, last: start };
    loop {
        let sent = Instant::now();
        let response = get(&mut client, "/p");
        let has_passed = response.status == 200;
        met.last = (sent, Instant::now());
        if response.field("Connection") == Some("close") {
            // It was the last of `requests_per_connection`.
            client = Client::connect(address).unwrap();
        }
        met.slowest = met.slowest.max(met.last.1 - sent);
        if met.sent == 0 {
            met.first = met.last;
        }
        met.sent += 1;
        met.passed += usize::from(has_passed);
        if began.elapsed() > lasts && !has_passed {
            return met;
        }
    }
}

/// What three gateways have let pass under load, and how often they have asked the store.
fn three_under_load(mode: &str) -> (Vec<Met>, Vec<Gateway>, Redis) {
    let redis = Redis::start();
    let (lasts, rate) = load();
    let limit = format!(
        "rates: {{ rate: {rate}/s, burst: {} }}, shared: {{ store: s, mode: {mode} }}",
        rate / 2
    );
    let gateways: Vec<_> = (0..3).map(|_| gateway(&redis.store(), &[("p", &limit)])).collect();
    gateways.iter().for_each(|gateway| sees(gateway, 3));
    let met: Vec<Met> = thread::scope(|scope| {
        let clients = gateways.iter().flat_map(|gateway| [gateway.address(); 2]);
        let clients: Vec<_> =
            clients.map(|address| scope.spawn(move || ask_for(address, lasts))).collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    (met, gateways, redis)
}

/// How often gateways have asked the store, with that outcome.
fn calls(gateways: &[Gateway], outcome: &str) -> f64 {
    let series = format!("titan_store_calls_total{{store=\"s\",outcome=\"{outcome}\"}}");
    gateways.iter().map(|it| figure(it, &series)).sum()
}

/// Checks that as many have passed as a limit lets through, apart from those that the gateways hold.
fn check_passed(met: &[Met], gateways: &[Gateway], held: f64) {
    let (_, rate) = load();
    let burst = rate / 2;
    let sum = |of: fn(&Met) -> usize| met.iter().map(of).sum::<usize>();
    let (sent, passed) = (sum(|met| met.sent), sum(|met| met.passed));
    // The store has counted some time between these two.
    let first_sent = met.iter().map(|met| met.first.0).min().unwrap();
    let first_told = met.iter().map(|met| met.first.1).min().unwrap();
    let last_sent = met.iter().map(|met| met.last.0).max().unwrap();
    let last_told = met.iter().map(|met| met.last.1).max().unwrap();
    let fits = |time: Duration| f64::from(burst) + f64::from(rate) * time.as_secs_f64();
    let (least, most) = (fits(last_sent - first_told), fits(last_told - first_sent));
    let (failed, asked) = (calls(gateways, "timeout"), calls(gateways, "replied"));
    println!("{passed} of {sent} have passed by {asked} calls; exact is {least:.1} to {most:.1}");
    let passed = passed as f64;
    // A call that had no reply in time may have been counted, and its gateway has counted by itself meanwhile.
    assert!(passed <= most + held + failed * f64::from(burst), "{passed} of {most}");
    assert!(passed >= 0.999 * least - 1.0 - held - failed * (1.0 + held), "{passed} of {least}");
}

// field: file.stores, store.address, rate_limit.shared, shared_limit.store
#[test]
fn three_gateways_let_as_much_pass_as_one_would() {
    let (met, gateways, _redis) = three_under_load("exact");
    check_passed(&met, &gateways, 0.0);
}

// field: shared_limit.mode
#[test]
fn three_gateways_with_leases_let_as_much_pass_as_one_would_and_what_they_hold() {
    let (met, gateways, _redis) = three_under_load("lease");
    let (_, rate) = load();
    // Of the rate what it gives in 100 ms, and no more than a gateway's part of half the burst.
    let each = f64::from((rate / 10).min(rate / 2 / 6));
    check_passed(&met, &gateways, 3.0 * each);
    let (asked, sent) = (calls(&gateways, "replied"), met.iter().map(|it| it.sent).sum::<usize>());
    assert!(asked < sent as f64 / 2.0, "{asked} calls for {sent} requests");
}

/// The permits that are charged for the only key, at one a second.
fn charged(redis: &Redis) -> f64 {
    let names = ask_at(redis.address, &["KEYS", "titan:*:limit:*"]);
    let value = ask_at(redis.address, &["GET", names.trim()]);
    let time = ask_at(redis.address, &["TIME"]);
    let numbers = |text: &str| text.split_whitespace().map(|it| it.parse().unwrap()).collect();
    let (value, time): (Vec<f64>, Vec<f64>) = (numbers(&value), numbers(&time));
    value[1] / 1e9 - (time[0] + time[1] / 1e6 - value[0] / 1e6)
}

/// Requests of which some permits are left over: how many, since when.
fn leave_some_over(gateway: &Gateway, redis: &Redis) -> (f64, Instant) {
    let (mut sent, began) = (0.0, Instant::now());
    let mut client = Client::connect(gateway.address()).unwrap();
    while charged(redis) < sent + 2.0 {
        // Fast enough to be busy: a look takes long.
        for _ in 0..15 {
            assert_eq!(get(&mut client, "/p").status, 200);
            sent += 1.0;
        }
        assert!(sent < 900.0, "nothing is taken ahead");
    }
    (sent, began)
}

const LEASED: &str =
    "rates: { rate: 1/s, burst: 1000 }, shared: { store: s, mode: lease, without_store: deny }";

#[test]
fn permits_that_nobody_uses_are_given_back() {
    let redis = Redis::start();
    let gateway = gateway(&redis.store(), &[("p", LEASED)]);
    assert_eq!(counted(&gateway, "/p"), 200);
    let (sent, _) = leave_some_over(&gateway, &redis);
    until("they are given back", || charged(&redis) <= sent + 1.0);
}

#[test]
fn a_gateway_that_ends_gives_permits_back() {
    let redis = Redis::start();
    let mut gateway = gateway(&redis.store(), &[("p", LEASED)]);
    assert_eq!(counted(&gateway, "/p"), 200);
    let (sent, began) = leave_some_over(&gateway, &redis);
    gateway.terminate();
    assert_eq!(gateway.exit_code(), Some(0));
    let least = sent - began.elapsed().as_secs_f64() - 1.0;
    let left = charged(&redis);
    assert!((least..=sent + 1.0).contains(&left), "{left} are charged for {sent}");
}

#[test]
fn gateways_with_leases_do_without_a_store_that_hangs_or_dies() {
    let mut redis = Redis::start();
    let rate = 300;
    let limit =
        format!("rates: {{ rate: {rate}/s, burst: {rate} }}, shared: {{ store: s, mode: lease }}");
    let gateways: Vec<_> = (0..3).map(|_| gateway(&redis.store(), &[("p", &limit)])).collect();
    gateways.iter().for_each(|gateway| sees(gateway, 3));
    let began = Instant::now();
    let met: Vec<Met> = thread::scope(|scope| {
        let clients = gateways.iter().map(Gateway::address);
        let lasts = Duration::from_secs(4);
        let clients: Vec<_> =
            clients.map(|address| scope.spawn(move || ask_for(address, lasts))).collect();
        let replied = || calls(&gateways, "replied");
        let goes_on = || {
            let before = replied();
            until("the store counts", || replied() > before + 10.0);
        };
        goes_on();
        redis.stop();
        let lost = || gateways.iter().all(|it| figure(it, "titan_store_up{") == 0.0);
        until("it is missed", lost);
        redis.resume();
        goes_on();
        redis.kill();
        until("it is missed", lost);
        redis.start_again();
        goes_on();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    let passed: usize = met.iter().map(|it| it.passed).sum();
    let time = began.elapsed().as_secs_f64();
    // Beside the rate: a burst in the store at first and another when it has forgotten everything, each gateway's part of one, and
    // what they hold.
    let most = f64::from(rate) * (time + 3.0) + 3.0 * 30.0 * 2.0;
    println!("{passed} have passed of {most:.0} in {time:.1} s");
    assert!((passed as f64) < most, "{passed} of {most}");
    let slowest = met.iter().map(|it| it.slowest).max().unwrap();
    assert!(slowest < Duration::from_secs(1), "a request has waited for {slowest:?}");
}

// field: shared_limit.without_store
#[test]
fn without_a_store_each_does_what_it_is_told() {
    let mut redis = Redis::start();
    let limit =
        |without: &str| format!("rates: 5/h, shared: {{ store: s, without_store: {without} }}");
    let limits = ["local", "allow", "deny"].map(|it| (it, limit(it)));
    let limits = limits.each_ref().map(|(name, limit)| (*name, limit.as_str()));
    let gateways = [gateway(&redis.store(), &limits), gateway(&redis.store(), &limits)];
    gateways.iter().for_each(|gateway| sees(gateway, 2));
    for (name, _) in limits {
        assert_eq!(status(&gateways[0], &format!("/{name}")), 200, "{name}");
    }
    redis.stop();
    let [one, _other] = &gateways;
    assert_eq!(passing(one, "/allow", 20), 20);
    assert_eq!(passing(one, "/deny", 20), 0);
    // Two gateways share a burst of 5: a request counts twice.
    assert_eq!(passing(one, "/local", 20), 2);
    let refused = get(&mut Client::connect(one.address()).unwrap(), "/deny");
    assert_eq!((refused.status, refused.field("Retry-After")), (503, Some("1")));
    assert!(refused.text().contains("store-unavailable"), "{}", refused.text());
    let waited = figure(one, "titan_store_calls_total{store=\"s\",outcome=\"timeout\"}");
    assert!((1.0..=8.0).contains(&waited), "{waited} requests have waited for it");
    assert_eq!(figure(one, "titan_store_up{"), 0.0);
    let ready = get(&mut Client::connect(one.admin()).unwrap(), "/readyz");
    assert_eq!(ready.status, 200, "no gateway depends on a store");
    redis.resume();
    until("the store counts again", || status(one, "/deny") != 503);
    until("all gateways use it", || gateways.iter().all(|it| figure(it, "titan_store_up{") == 1.0));
    redis.kill();
    until("the store is missed", || status(one, "/deny") == 503);
    redis.start_again();
    until("the store counts again", || status(one, "/deny") == 200);
    until("an event tells of it", || {
        let events = std::fs::read_to_string(one.folder.path().join("stderr")).unwrap();
        events.contains("the store `s` cannot be used")
    });
}

// field: store.hash_key
#[test]
fn fleets_with_another_key_count_apart() {
    let redis = Redis::start();
    let limit = [("p", "rates: 5/h, shared: { store: s, without_store: deny }")];
    let other = redis.store().replace(HASH_KEY, "another key of another fleet");
    let (ours, theirs) = (gateway(&redis.store(), &limit), gateway(&other, &limit));
    until("our limit is used up", || counted(&ours, "/p") == 429);
    // A call may count whose reply comes too late: theirs are more than one.
    assert_eq!(counted(&theirs, "/p"), 200);
    let again = gateway(&redis.store(), &limit);
    assert_eq!(counted(&again, "/p"), 429);
}

/// The status of a request once the store is there.
fn counted(gateway: &Gateway, path: &str) -> u16 {
    eventually("the store counts", || Some(status(gateway, path)).filter(|it| *it != 503))
}

// field: store.timeout
#[test]
fn a_request_waits_for_the_store_as_long_as_it_may() {
    let redis = Redis::start();
    let store = redis.store();
    let limit = [("p", "rates: 1000/h, shared: { store: s, without_store: deny }")];
    let gateway = gateway(&store, &limit);
    assert_eq!(counted(&gateway, "/p"), 200);
    redis.stop();
    let began = Instant::now();
    assert_eq!(status(&gateway, "/p"), 503);
    assert!(began.elapsed() >= Duration::from_millis(100), "{:?}", began.elapsed());
}

#[test]
fn what_is_no_store_is_done_without() {
    let peers: [fn(&mut std::net::TcpStream); 3] = [
        |stream| drop(stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")),
        |stream| drop(stream.write_all(b"*1000000000\r\n*1000000000\r\n$-7\r\n")),
        |stream| {
            let begun = stream.write_all(b"$100000000000\r\n");
            let bytes = [b'x'; 1 << 16];
            while begun.is_ok() && stream.write_all(&bytes).is_ok() {}
        },
    ];
    for peer in peers {
        let listener = TcpListener::bind(own_address()).unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                thread::spawn(move || {
                    let _ = stream.read(&mut [0; 1024]);
                    peer(&mut stream);
                    // Until the gateway has had enough.
                    let _ = stream.read_to_end(&mut Vec::new());
                });
            }
        });
        let store = format!("address: \"redis://{address}\", hash_key: \"{HASH_KEY}\"");
        let limits = [
            ("deny", "rates: 5/h, shared: { store: s, without_store: deny }"),
            ("local", "rates: 5/h, shared: s"),
        ];
        let gateway = gateway(&store, &limits);
        until("the store is down", || figure(&gateway, "titan_store_up{") == 0.0);
        assert_eq!((status(&gateway, "/deny"), status(&gateway, "/local")), (503, 200));
    }
}

// field: store.tls, store.username, store.password, store.database
#[test]
fn a_user_with_few_rights_counts_over_tls() {
    let folder = Folder::new();
    certify(&folder, &["-newkey", "rsa:2048"]);
    let redis = Redis::secured(&folder);
    let address = redis.address;
    let store = format!(
        "address: \"rediss://{address}\", hash_key: \"{HASH_KEY}\", username: titan, password: of-titan, database: 3, \
         tls: {{ ca: {}, name: localhost }}, timeout: 100ms",
        folder.path().join("site.pem").display()
    );
    let gateway =
        gateway(&store, &[("p", "rates: 2/h, shared: { store: s, without_store: deny }")]);
    assert_eq!(counted(&gateway, "/p"), 200);
    assert_eq!((status(&gateway, "/p"), status(&gateway, "/p")), (200, 429));
    sees(&gateway, 1);
    let names = redis.ask_securely(&folder, &["-n", "3", "KEYS", "*"]);
    let names: Vec<_> = names.lines().collect();
    assert_eq!(names.len(), 2, "{names:?}");
    for name in names {
        assert!(name.starts_with("titan:") && !name.contains("127.0.0.1"), "{name}");
        let lifetime: i64 =
            redis.ask_securely(&folder, &["-n", "3", "PTTL", name]).trim().parse().unwrap();
        assert!(lifetime > 0, "{name} stays: {lifetime}");
    }
}

/// A primary, its replica, and the section of a store whose sentinel watches over both.
struct Watched {
    primary: Redis,
    replica: Redis,
    _sentinel: (Program, Folder),
    store: String,
}

fn watched() -> Watched {
    let primary = Redis::start();
    let replica = Redis::replica_of(primary.address);
    let is_linked = || ask_at(replica.address, &["ROLE"]).contains("connected");
    until("the replica follows", is_linked);
    let (sentinel, address) = sentinel(primary.address);
    let port = replica.address.port().to_string();
    let replicas = || ask_at(address, &["SENTINEL", "REPLICAS", "fleet"]);
    until("the sentinel knows it", || replicas().contains(&port));
    let store = format!(
        "address: \"redis://{address}\", sentinel: fleet, hash_key: \"{HASH_KEY}\", timeout: 100ms"
    );
    Watched { primary, replica, _sentinel: sentinel, store }
}

/// Looks until `is_so`, for as long as sentinels may take to agree.
fn until_it_has_moved(mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < 3 * TIMEOUT, "no other primary is used");
        crate::wait::pause();
    }
}

// field: store.sentinel
#[test]
fn the_primary_that_sentinels_name_is_followed() {
    let Watched { mut primary, replica, _sentinel, store } = watched();
    let gateway =
        gateway(&store, &[("p", "rates: 1000/h, shared: { store: s, without_store: deny }")]);
    assert_eq!(counted(&gateway, "/p"), 200);
    primary.kill();
    let is_replica = || ask_at(replica.address, &["ROLE"]).contains("slave");
    until_it_has_moved(|| status(&gateway, "/p") == 200 && !is_replica());
}

/// What a client has met that asked without a pause: its statuses, and how long the slowest response took.
fn ask_until(address: SocketAddr, path: &str, is_over: &AtomicBool) -> (Vec<u16>, Duration) {
    let mut client = Client::connect(address).unwrap();
    let (mut statuses, mut slowest) = (Vec::new(), Duration::ZERO);
    while !is_over.load(Ordering::Relaxed) {
        let sent = Instant::now();
        statuses.push(get(&mut client, path).status);
        slowest = slowest.max(sent.elapsed());
    }
    (statuses, slowest)
}

#[test]
fn a_primary_that_dies_under_load_keeps_no_request_waiting() {
    let Watched { mut primary, replica, _sentinel, store } = watched();
    let (rate, burst) = (50.0, 25.0);
    let limit = |without: &str| {
        format!(
            "rates: {{ rate: {rate}/s, burst: {burst} }}, shared: {{ store: s, without_store: {without} }}"
        )
    };
    let (deny, allow) = (limit("deny"), limit("allow"));
    let few = "rates: 3/h, shared: { store: s, without_store: deny }";
    let limits = [("deny", &*deny), ("allow", &*allow), ("used", few), ("new", few)];
    let gateway = gateway(&store, &limits);
    for status in [200, 200, 200, 429] {
        assert_eq!(counted(&gateway, "/used"), status);
    }
    let used = |redis: &Redis| {
        let name = ask_at(redis.address, &["KEYS", "titan:*:limit:*"]);
        ask_at(redis.address, &["GET", name.trim()])
    };
    until("the replica knows that", || used(&primary) == used(&replica));
    let (began, is_over) = (Instant::now(), AtomicBool::new(false));
    let met = thread::scope(|scope| {
        let clients = ["/deny", "/allow"].map(|path| {
            let (address, is_over) = (gateway.address(), &is_over);
            scope.spawn(move || ask_until(address, path, is_over))
        });
        let replied = || calls(std::slice::from_ref(&gateway), "replied");
        let before = replied();
        until("the store counts", || replied() > before + 100.0);
        primary.kill();
        until("it is missed", || status(&gateway, "/new") == 503);
        until_it_has_moved(|| status(&gateway, "/used") != 503);
        let before = replied();
        until("the store counts again", || replied() > before + 100.0);
        is_over.store(true, Ordering::Relaxed);
        clients.map(|client| client.join().unwrap())
    });
    let time = began.elapsed().as_secs_f64();
    let [(denied, slowest), (allowed, other)] = met;
    let with = |statuses: &[u16], status| statuses.iter().filter(|it| **it == status).count();
    println!(
        "{} and {} requests in {time:.1} s; {slowest:?}, {other:?}",
        denied.len(),
        allowed.len()
    );
    assert!(slowest.max(other) < Duration::from_millis(500), "a request has waited");
    // Without a primary one refuses everything, and the other nothing.
    let kinds = [200, 429, 503].map(|status| with(&denied, status));
    assert!(
        kinds.iter().all(|it| *it > 0) && kinds.iter().sum::<usize>() == denied.len(),
        "{kinds:?}"
    );
    assert_eq!(with(&allowed, 200) + with(&allowed, 429), allowed.len());
    assert!(with(&allowed, 200) > with(&denied, 200));
    // What the replica had not heard yet passes once more: no more than a burst.
    let most = rate * time + 2.0 * burst;
    assert!((kinds[0] as f64) <= most, "{} of {most}", kinds[0]);
    // What was used up before stays so, and what was not is there, no more and no less.
    assert_eq!(counted(&gateway, "/used"), 429);
    for status in [200, 200, 200, 429] {
        assert_eq!(counted(&gateway, "/new"), status);
    }
}
