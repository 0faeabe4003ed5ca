//! Tokens that are revoked at one gateway, and refused by all.

use super::redis::{HASH_KEY, Redis, ask_at};
use super::{figure, get};
use crate::client::Client;
use crate::gateway::Gateway;
use crate::place::own_address;
use crate::process::resident;
use crate::wait::{TIMEOUT, pause, until};
use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const SECRET: &str = "forty bytes that nobody but us can guess";
/// In which what is revoked at one gateway is refused by all.
const SOON: Duration = Duration::from_secs(1);

fn config(store: &str, more: &str) -> String {
    format!(
        "workers: 2\nlisteners: [127.0.0.1:0]\nadmin: 127.0.0.1:0\nroutes: [{{ respond: 200 }}]\napply: [p]\n\
         policies: {{ p: {{ jwt: {{ providers: {{ algorithms: HS256, keys: {{ secret: {SECRET} }} }} }} }} }}\n\
         stores: {{ s: {{ {store} }} }}\njwt_revocations: {{ file: revoked, store: s{more} }}\n"
    )
}

pub(super) fn gateway(store: &str, more: &str) -> Gateway {
    Gateway::start(&config(store, more))
}

fn three(redis: &Redis, more: &str) -> [Gateway; 3] {
    let gateways = [(); 3].map(|()| gateway(&redis.store(), more));
    gateways.iter().for_each(in_sync);
    gateways
}

pub(super) fn in_sync(gateway: &Gateway) {
    until("the gateway is in sync", || is_in_sync(gateway));
}

fn is_in_sync(gateway: &Gateway) -> bool {
    figure(gateway, "titan_jwt_revocations_in_sync ") == 1.0
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

pub(super) fn token(name: &str) -> String {
    let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
    let claims = format!("{{\"jti\":\"{name}\",\"exp\":{}}}", now() + 3600);
    signed(&format!("{}.{}", part("{\"alg\":\"HS256\"}"), part(&claims)))
}

/// One that has no name.
fn nameless() -> String {
    let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
    let claims = format!("{{\"exp\":{}}}", now() + 3600);
    signed(&format!("{}.{}", part("{\"alg\":\"HS256\"}"), part(&claims)))
}

fn signed(text: &str) -> String {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes()), text.as_bytes());
    format!("{text}.{}", URL_SAFE_NO_PAD.encode(tag))
}

/// What a request with that token gets.
pub(super) fn shows(gateway: &Gateway, token: &str) -> u16 {
    let mut client = Client::connect(gateway.address()).unwrap();
    let request = format!("GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\r\n");
    client.send(request.as_bytes()).unwrap();
    client.response().unwrap().status
}

/// Asks the admin interface.
fn admin(gateway: &Gateway, method: &str, path: &str, body: &str) -> (u16, String) {
    let mut stream = UnixStream::connect(gateway.folder.path().join("admin.sock")).unwrap();
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    (head[9..12].parse().unwrap(), body.to_owned())
}

/// Revokes a token. Tells whether all gateways can know of it.
pub(super) fn revoke(gateway: &Gateway, name: &str) -> bool {
    let body = format!("{{\"jti\":\"{name}\",\"exp\":{}}}", now() + 3600);
    let (status, entry) = admin(gateway, "POST", "/jwt/revocations", &body);
    assert!(matches!(status, 200 | 201), "{status} {entry}");
    let is_published = entry.contains("\"published\":true");
    assert!(is_published || entry.contains("\"published\":false"), "{entry}");
    is_published
}

/// The id of a revoked token at that gateway.
fn id_of(gateway: &Gateway, name: &str) -> u64 {
    let (_, list) = admin(gateway, "GET", "/jwt/revocations", "");
    let list: serde_json::Value = serde_json::from_str(&list).unwrap();
    let all = list["revocations"].as_array().unwrap();
    let entry = all.iter().find(|entry| entry["jti"] == name);
    entry.unwrap_or_else(|| panic!("no {name} in {list}"))["id"].as_u64().unwrap()
}

/// How many entries the stream has, but for its beginning.
fn entries(redis: &Redis) -> u64 {
    let keys = ask_at(redis.address, &["KEYS", "titan:*:revocations"]);
    let length = ask_at(redis.address, &["XLEN", keys.trim()]);
    length.trim().parse::<u64>().unwrap().saturating_sub(1)
}

/// All gateways show the same status within a second.
pub(super) fn soon(gateways: &[Gateway], token: &str, status: u16, began: Instant) {
    for gateway in gateways {
        while shows(gateway, token) != status {
            assert!(began.elapsed() < SOON, "not {status} in {:?}", began.elapsed());
            pause();
        }
    }
    println!("{status} everywhere after {:?}", began.elapsed());
}

// field: jwt_revocations.store
#[test]
fn what_one_gateway_revokes_all_refuse_within_a_second() {
    let redis = Redis::start();
    let gateways = three(&redis, "");
    let (bad, good) = (token("bad"), token("good"));
    for gateway in &gateways {
        assert_eq!([shows(gateway, &bad), shows(gateway, &good)], [200; 2]);
    }
    for round in 0..3 {
        let began = Instant::now();
        assert!(revoke(&gateways[round], "bad"));
        soon(&gateways, &bad, 401, began);
        // It is withdrawn at another one than where it was revoked, which has its own number for it.
        let other = &gateways[(round + 1) % 3];
        let began = Instant::now();
        let path = format!("/jwt/revocations/{}", id_of(other, "bad"));
        assert_eq!(admin(other, "DELETE", &path, "").0, 204);
        soon(&gateways, &bad, 200, began);
    }
    gateways.iter().for_each(|it| assert_eq!(shows(it, &good), 200));
    until("the stream has what is in force and no more", || entries(&redis) == 1);
    let keys = ask_at(redis.address, &["KEYS", "titan:*:revocations"]);
    let stored = ask_at(redis.address, &["--no-raw", "XRANGE", keys.trim(), "-", "+"]);
    assert!(!stored.contains("bad") && !stored.contains("jti"), "{stored}");
    // One that joins later knows it too.
    assert!(revoke(&gateways[0], "bad"));
    let late = gateway(&redis.store(), "");
    in_sync(&late);
    assert_eq!((shows(&late, &bad), shows(&late, &good)), (401, 200));
}

#[test]
fn a_store_that_dies_is_filled_again_by_what_the_gateways_know() {
    let mut redis = Redis::lasting();
    let mut gateways = three(&redis, ", stale_after: 1s");
    assert!(revoke(&gateways[0], "a"));
    soon(&gateways, &token("a"), 401, Instant::now());
    redis.kill();
    // In force at once where it was revoked, and nowhere else until the store is back.
    assert!(!revoke(&gateways[1], "b"));
    assert_eq!(shows(&gateways[1], &token("b")), 401);
    assert_eq!(shows(&gateways[2], &token("b")), 200);
    let path = format!("/jwt/revocations/{}", id_of(&gateways[2], "a"));
    let (status, body) = admin(&gateways[2], "DELETE", &path, "");
    assert!(status == 202 && body.contains("\"published\":false"), "{status} {body}");
    assert_eq!(figure(&gateways[1], "titan_jwt_revocations_unpublished "), 1.0);
    until("it is told of", || !is_in_sync(&gateways[0]));
    until("an event tells of it", || gateways[0].events().contains("cut off from the store `s`"));
    // What was not published outlives the gateway, which refuses without the store.
    let [one, two, three] = gateways;
    let two = Gateway::start_in(two.kill(), &config(&redis.store(), ", stale_after: 1s"));
    assert_eq!(shows(&two, &token("b")), 401);
    assert_eq!(shows(&two, &token("a")), 401);
    gateways = [one, two, three];
    redis.start_again();
    gateways.iter().for_each(in_sync);
    let began = Instant::now();
    soon(&gateways, &token("b"), 401, began);
    soon(&gateways, &token("a"), 200, began);
    until("an event tells of it", || gateways[0].events().contains("hears again"));
    // And once more, when the store has lost everything.
    redis.kill();
    redis.lose();
    redis.start_again();
    until("it has all of it again", || entries(&redis) == 2);
    gateways.iter().for_each(in_sync);
    let refills = gateways.iter().map(|it| figure(it, "titan_jwt_revocations_refills_total "));
    assert!(refills.sum::<f64>() >= 1.0);
    until("an event tells of it", || gateways[0].events().contains("has lost the revoked tokens"));
    let late = gateway(&redis.store(), "");
    in_sync(&late);
    assert_eq!((shows(&late, &token("b")), shows(&late, &token("a"))), (401, 200));
    // Nor does it matter whether the connection lasts.
    assert!(revoke(&gateways[2], "c"));
    ask_at(redis.address, &["FLUSHALL"]);
    until("it has all of it again", || entries(&redis) == 3);
    soon(&gateways, &token("b"), 401, Instant::now());
}

#[test]
fn a_store_that_comes_back_without_its_last_entries_is_told_them_again() {
    let mut redis = Redis::lasting();
    let gateways = three(&redis, "");
    assert!(revoke(&gateways[0], "a"));
    soon(&gateways, &token("a"), 401, Instant::now());
    let copy = redis.copy();
    assert!(revoke(&gateways[1], "b"));
    soon(&gateways, &token("b"), 401, Instant::now());
    let path = format!("/jwt/revocations/{}", id_of(&gateways[2], "a"));
    assert_eq!(admin(&gateways[2], "DELETE", &path, "").0, 204);
    soon(&gateways, &token("a"), 200, Instant::now());
    redis.kill();
    redis.restore(&copy);
    redis.start_again();
    // The withdrawn one and `b`.
    until("it has all of it again", || entries(&redis) == 2);
    until("an event tells of it", || {
        gateways.iter().any(|it| it.events().contains("has lost 2 of the revoked tokens"))
    });
    let late = gateway(&redis.store(), "");
    in_sync(&late);
    assert_eq!((shows(&late, &token("a")), shows(&late, &token("b"))), (200, 401));
    assert_eq!(gateways.each_ref().map(|it| shows(it, &token("a"))), [200; 3]);
}

#[test]
fn a_gateway_without_room_refuses_at_once_if_it_is_told_to_until_it_lacks_nothing() {
    let redis = Redis::start();
    let large = gateway(&redis.store(), "");
    let small = gateway(&redis.store(), ", capacity: 1, without_store: deny, stale_after: 1h");
    [&large, &small].into_iter().for_each(in_sync);
    let good = token("good");
    assert!(revoke(&large, "a"));
    until("it is heard", || shows(&small, &token("a")) == 401);
    assert_eq!(shows(&small, &good), 200);
    assert!(revoke(&large, "b"));
    let began = Instant::now();
    while shows(&small, &good) != 503 {
        assert!(began.elapsed() < SOON, "it knows that it lacks something");
        pause();
    }
    assert!(!is_in_sync(&small));
    until("an event tells of it", || small.events().contains("`jwt_revocations.capacity`"));
    // What it knows is read again meanwhile, and told if it is lost.
    let key = ask_at(redis.address, &["KEYS", "titan:*:revocations"]);
    let first = "redis.call('XRANGE', KEYS[1], '(0-1', '+', 'COUNT', 1)[1][1]";
    let removal = format!("return redis.call('XDEL', KEYS[1], {first})");
    ask_at(redis.address, &["EVAL", &removal, "1", key.trim()]);
    assert_eq!(entries(&redis), 1);
    until("it has all of it again", || entries(&redis) == 2);
    // It has as many entries as it may, and lacks none.
    let path = format!("/jwt/revocations/{}", id_of(&large, "b"));
    assert_eq!(admin(&large, "DELETE", &path, "").0, 204);
    until("it lacks nothing", || shows(&small, &good) == 200);
    assert!(is_in_sync(&small));
    assert_eq!((shows(&small, &token("a")), shows(&small, &token("b"))), (401, 200));
}

#[test]
fn nothing_that_is_written_to_the_stream_keeps_gateways_from_reading_and_writing() {
    let redis = Redis::start();
    let gateways = three(&redis, "");
    let key = {
        assert!(revoke(&gateways[0], "a"));
        ask_at(redis.address, &["KEYS", "titan:*:revocations"])
    };
    let key = key.trim();
    let ask = |command: &[&str]| ask_at(redis.address, command);
    let goes_on = |name: &str, others: u64| {
        let began = Instant::now();
        revoke(&gateways[1], name);
        soon(&gateways, &token(name), 401, began);
        until("it is published", || entries(&redis) == others);
    };
    // More than a connection may bring.
    let long =
        "return redis.call('XADD', KEYS[1], '*', 'sealed', string.rep('x', 2 * 1024 * 1024))";
    ask(&["EVAL", long, "1", key]);
    let many = "for n = 1, 64 do redis.call('XADD', KEYS[1], '*', 'a', 'b', 'c', string.rep('x', 65536)) end";
    ask(&["EVAL", many, "1", key]);
    goes_on("b", 2 + 65);
    let unreadable = |it| figure(it, "titan_jwt_revocations_unreadable_total ") == 65.0;
    until("it is told of", || gateways.iter().all(unreadable));
    // No other entry can follow.
    let last = u64::MAX;
    ask(&["XADD", key, &format!("{last}-{last}"), "sealed", "x"]);
    goes_on("c", 3);
    until("an event tells of it", || gateways[1].events().contains("the greatest id"));
    // Something in place of its beginning.
    let instead = "redis.call('DEL', KEYS[1])
        redis.call('XADD', KEYS[1], '0-1', 'life', string.rep('x', 2 * 1024 * 1024))";
    ask(&["EVAL", instead, "1", key]);
    until("it has all of it again", || entries(&redis) == 3);
    goes_on("d", 4);
    gateways.iter().for_each(in_sync);
}

// field: jwt_revocations.without_store, jwt_revocations.stale_after
#[test]
fn a_gateway_that_is_cut_off_refuses_if_it_is_told_to() {
    let redis = Redis::start();
    let gateways = [
        gateway(&redis.store(), ", without_store: deny, stale_after: 1s"),
        gateway(&redis.store(), ", stale_after: 1s"),
        gateway(&redis.store(), ", without_store: deny, stale_after: 1h"),
    ];
    let good = token("good");
    gateways.iter().for_each(|it| until("it serves", || shows(it, &good) == 200));
    assert!(revoke(&gateways[0], "bad"));
    soon(&gateways, &token("bad"), 401, Instant::now());
    redis.stop();
    until("it refuses", || shows(&gateways[0], &good) == 503);
    assert_eq!(shows(&gateways[0], &nameless()), 200, "nobody can have revoked it");
    until("it is told of", || !is_in_sync(&gateways[1]));
    assert_eq!([1, 2].map(|it| shows(&gateways[it], &good)), [200; 2]);
    assert_eq!([1, 2].map(|it| shows(&gateways[it], &token("bad"))), [401; 2]);
    let refused = "titan_jwt_refused_total{policy=\"p\",reason=\"no-revocations\"}";
    assert!(figure(&gateways[0], refused) >= 1.0);
    // One that starts without the store knows nothing.
    let new = gateway(&redis.store(), ", without_store: deny, stale_after: 1h");
    assert_eq!(shows(&new, &good), 503);
    let readiness = || {
        let page = get(&mut Client::connect(new.admin()).unwrap(), "/readyz");
        (page.status, page.text().to_owned())
    };
    let not_yet = "revoked tokens of other gateways have not been heard yet\n";
    assert_eq!(readiness(), (503, not_yet.to_owned()));
    redis.resume();
    until("it is ready", || readiness().0 == 200);
    for gateway in gateways.iter().chain([&new]) {
        until("it serves again", || shows(gateway, &good) == 200);
        until("it knows", || shows(gateway, &token("bad")) == 401);
    }
}

#[test]
fn a_stream_that_has_begun_anew_is_trusted_by_those_who_know_what_it_had() {
    let redis = Redis::start();
    let denies = ", without_store: deny, stale_after: 1h";
    let old = gateway(&redis.store(), denies);
    let good = token("good");
    assert_eq!(shows(&old, &good), 503, "others may have something to say");
    until("an event tells of it", || old.events().contains("have begun anew"));
    until("it serves", || shows(&old, &good) == 200);
    assert!(revoke(&old, "bad"));
    // Nobody has lost anything: a new one can serve at once.
    let late = gateway(&redis.store(), denies);
    assert_eq!([&late, &old].map(|it| shows(it, &good)), [200; 2]);
    drop(late);
    ask_at(redis.address, &["FLUSHALL"]);
    let new = gateway(&redis.store(), denies);
    assert_eq!((shows(&new, &good), shows(&old, &good)), (503, 200));
    until("it serves", || shows(&new, &good) == 200);
    assert_eq!([&new, &old].map(|it| shows(it, &token("bad"))), [401; 2]);
}

#[test]
fn a_store_that_refuses_to_be_written_to_is_heard_nevertheless() {
    let redis = Redis::start();
    let gateway = gateway(&redis.store(), ", without_store: deny, stale_after: 1s");
    let good = token("good");
    until("it serves", || shows(&gateway, &good) == 200);
    ask_at(redis.address, &["CONFIG", "SET", "maxmemory", "1"]);
    assert!(!revoke(&gateway, "bad"));
    until("an event tells of it", || gateway.events().contains("refuses to be told"));
    let began = Instant::now();
    while began.elapsed() < 3 * SOON {
        assert_eq!(shows(&gateway, &good), 200);
        pause();
    }
    assert_eq!(shows(&gateway, &token("bad")), 401);
    ask_at(redis.address, &["CONFIG", "SET", "maxmemory", "0"]);
    until("it is told", || entries(&redis) == 1);
}

#[test]
fn no_request_waits_for_a_store_that_hangs() {
    let redis = Redis::start();
    let gateways = three(&redis, "");
    redis.stop();
    let (good, began) = (token("good"), Instant::now());
    let mut client = Client::connect(gateways[0].address()).unwrap();
    let request = format!("GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {good}\r\n\r\n");
    let mut slowest = Duration::ZERO;
    while began.elapsed() < Duration::from_secs(3) {
        let sent = Instant::now();
        client.send(request.as_bytes()).unwrap();
        assert_eq!(client.response().unwrap().status, 200);
        slowest = slowest.max(sent.elapsed());
    }
    println!("the slowest request took {slowest:?}");
    assert!(slowest < Duration::from_millis(250), "{slowest:?}");
    let began = Instant::now();
    assert!(!revoke(&gateways[0], "bad"));
    assert!(began.elapsed() < 2 * SOON, "{:?}", began.elapsed());
    assert_eq!(shows(&gateways[0], &token("bad")), 401);
    redis.resume();
    until("it is published", || shows(&gateways[1], &token("bad")) == 401);
}

#[test]
fn a_store_that_has_what_nobody_wrote_there_does_no_harm() {
    let redis = Redis::start();
    let gateways = three(&redis, ", stale_after: 1s");
    assert!(revoke(&gateways[0], "a"));
    soon(&gateways, &token("a"), 401, Instant::now());
    let key = ask_at(redis.address, &["KEYS", "titan:*:revocations"]);
    let key = key.trim();
    // A forged entry, an old one once more, and a hundred thousand more.
    ask_at(
        redis.address,
        &["XADD", key, "*", "sealed", "{\"id\":1,\"jti\":\"good\",\"exp\":9999999999}"],
    );
    let many = "local e = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 2)[2][2][2]
        for n = 1, 100000 do redis.call('XADD', KEYS[1], '*', 'sealed', n % 100 == 0 and e or 'no entry') end";
    ask_at(redis.address, &["EVAL", many, "1", key]);
    assert_eq!(shows(&gateways[1], &token("good")), 200);
    assert_eq!(shows(&gateways[1], &token("a")), 401);
    let began = Instant::now();
    let last = "titan_jwt_revocations_unreadable_total ";
    while gateways.iter().any(|it| figure(it, last) < 99_000.0) {
        assert!(began.elapsed() < 5 * TIMEOUT, "{}", figure(&gateways[0], last));
        pause();
    }
    println!("a hundred thousand entries were read in {:?}", began.elapsed());
    gateways.iter().for_each(in_sync);
    let began = Instant::now();
    assert!(revoke(&gateways[2], "b"));
    soon(&gateways, &token("b"), 401, began);
    assert_eq!(shows(&gateways[1], &token("good")), 200);
    let memory = resident(gateways[0].id());
    assert!(memory < 300 << 20, "{memory} bytes");
    until("an event tells of it", || gateways[0].events().contains("no gateway of this fleet"));
    // Something of another type is not overwritten, and told of.
    ask_at(redis.address, &["DEL", key]);
    ask_at(redis.address, &["SET", key, "text"]);
    until("it is missed", || !is_in_sync(&gateways[0]));
    assert_eq!(ask_at(redis.address, &["GET", key]).trim(), "text");
    assert!(!revoke(&gateways[0], "c"));
    ask_at(redis.address, &["DEL", key]);
    gateways.iter().for_each(in_sync);
    soon(&gateways, &token("c"), 401, Instant::now());
}

#[test]
fn what_is_no_store_tells_nothing() {
    let peers: [fn(&mut std::net::TcpStream); 3] = [
        |stream| drop(stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")),
        |stream| drop(stream.write_all(b"*1000000000\r\n*1000000000\r\n$-7\r\n")),
        |stream| {
            // It begins as a store would, and does not end.
            let _ = stream.write_all(b"*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n$100000000000\r\n");
            while stream.write_all(&[b'x'; 1 << 16]).is_ok() {}
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
                    let _ = stream.read_to_end(&mut Vec::new());
                });
            }
        });
        let store = format!("address: \"redis://{address}\", hash_key: \"{HASH_KEY}\"");
        let gateway = gateway(&store, ", stale_after: 1s");
        assert!(!revoke(&gateway, "bad"));
        until("it is told of", || gateway.events().contains("cut off from the store `s`"));
        assert_eq!((shows(&gateway, &token("bad")), shows(&gateway, &token("good"))), (401, 200));
        let memory = resident(gateway.id());
        assert!(memory < 200 << 20, "{memory} bytes");
        let ready = get(&mut Client::connect(gateway.admin()).unwrap(), "/readyz");
        assert_eq!(ready.status, 200, "no gateway depends on a store");
    }
}

#[test]
fn fleets_with_another_key_hear_nothing_of_each_other() {
    let redis = Redis::start();
    let other = redis.store().replace(HASH_KEY, "another key of another fleet");
    let (ours, theirs) = (gateway(&redis.store(), ""), gateway(&other, ""));
    [&ours, &theirs].into_iter().for_each(in_sync);
    assert!(revoke(&ours, "bad"));
    assert!(revoke(&theirs, "other"));
    assert_eq!((shows(&ours, &token("bad")), shows(&theirs, &token("bad"))), (401, 200));
}
