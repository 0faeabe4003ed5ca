//! Names and passwords.

use crate::tunnels::WISH;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use titan_proxy::Files;
use titan_testkit::h2::Head;
use titan_testkit::{Certificate, Gateway, Response, gateway, start_with, upstream, usual};

/// The hashes of `password` and of `secret`.
const PASSWORD: &str =
    "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4";
const SECRET: &str = "$2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW";
/// That of `secret` which takes long to check.
const SLOW: &str = "$2b$12$abcdefghijklmnopqrstuuT1Iwu6o8Wx7BoOyIMHfgVJq6JO/IJhW";

fn file(basic: &str) -> String {
    format!("policies: {{ p: {{ authorise: {{ basic: {{ {basic} }} }} }} }}\napply: [p]")
}

/// A hash as it can stand in a configuration where `$0` is an upstream.
fn quoted(hash: &str) -> String {
    format!("\"{}\"", hash.replace('$', "\\x24"))
}

fn users() -> String {
    format!("users: {{ eve: {}, 'bob b': {} }}", quoted(PASSWORD), quoted(SECRET))
}

fn under(basic: &str, rest: &str) -> (Gateway, upstream::Upstream) {
    let upstream = upstream::replies(upstream::ok("x"));
    (gateway(&format!("{}\n{rest}", file(basic)), &[&upstream]), upstream)
}

fn shows(credentials: &str) -> String {
    format!("Authorization: Basic {}\r\n", BASE64_STANDARD.encode(credentials))
}

fn asks(gateway: &Gateway, fields: &str) -> Response {
    gateway.asks(&format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n"))
}

// field: authorise.basic, basic.users
#[test]
fn a_request_shows_a_name_and_its_password() {
    let (gateway, upstream) = under(&users(), "");
    for credentials in ["eve:password", "bob b:secret"] {
        asks(&gateway, &shows(credentials)).has_status(200).lacks("www-authenticate");
    }
    for request in upstream.requests() {
        assert_eq!(request.field("authorization"), None);
    }
    let right = shows("eve:password");
    for fields in [
        "",
        &shows("eve:secret"),
        &shows("eve:password "),
        &shows("eve:"),
        &shows("Eve:password"),
        &shows("nobody:password"),
        &shows("bob b:password"),
        &shows(":password"),
        &shows("eve"),
        &shows(&format!("eve:{PASSWORD}")),
        &shows(&format!("eve:{}", "a".repeat(2000))),
        &format!("{right}{right}"),
        &format!("{right}Authorization: Bearer x\r\n"),
        &right.replace("Basic", "Bearer"),
        &right.replace("Authorization", "Proxy-Authorization"),
        "Authorization: Basic !!!\r\n",
    ] {
        asks(&gateway, fields)
            .has_problem(401, "password")
            .has_field("www-authenticate", "Basic realm=\"gateway\", charset=\"UTF-8\"");
    }
    assert_eq!(upstream.requests().len(), 2);
}

// field: basic.realm, basic.identity_header, basic.forward
#[test]
fn an_upstream_gets_what_the_policy_says() {
    let basic = format!("{}, realm: staff, identity_header: X-User, forward: true", users());
    let open = "routes: [{ path: /open, upstream: u, without: [authorise] }, { upstream: u }]";
    let (gateway, upstream) = under(&basic, open);
    let claims = "X-User: root\r\nx_user: root\r\n";
    let right = shows("bob b:secret");
    asks(&gateway, &format!("{right}{claims}")).has_status(200);
    gateway.asks(&format!("GET /open HTTP/1.1\r\nHost: a\r\n{claims}\r\n")).has_status(200);
    let told = upstream.requests();
    let fields: Vec<_> = told.iter().map(|it| (it.field("x-user"), it.field("x_user"))).collect();
    assert_eq!(fields, [(Some("bob b"), None), (None, None)]);
    let passed = told[0].field("authorization").expect("it is passed on");
    assert!(right.contains(passed));
    let challenge = "Basic realm=\"staff\", charset=\"UTF-8\"";
    asks(&gateway, "").has_status(401).has_field("www-authenticate", challenge);
}

fn files(bytes: &str) -> Files {
    let mut files = Certificate::files(&[("usual", usual())]);
    files.insert("users".into(), bytes.as_bytes().to_vec());
    files
}

// field: basic.file
#[test]
fn a_file_is_read_again() {
    let upstream = upstream::replies(upstream::ok("x"));
    let basic = format!("file: users, users: {{ bob: {} }}", quoted(SECRET));
    let starts = |bytes: &str| start_with(&file(&basic), &[&upstream], &files(bytes));
    let gateway = starts(&format!("eve:{PASSWORD}\n")).unwrap_or_else(|error| panic!("{error}"));
    let status = |credentials: &str| asks(&gateway, &shows(credentials)).status;
    assert_eq!(["eve:password", "bob:secret", "eve:password"].map(status), [200, 200, 200]);
    for bad in ["eve", "eve:password", &format!("bob:{SECRET}")] {
        let error = gateway.rereads(&files(bad)).expect_err("it cannot be used");
        assert!(error.to_string().starts_with("users cannot be used: "), "{error}");
        assert!(starts(bad).is_err());
        assert_eq!(status("eve:password"), 200);
    }
    gateway.rereads(&files(&format!("eve:{SECRET}"))).expect("it can be used");
    assert_eq!(["eve:password", "eve:secret", "bob:secret"].map(status), [401, 200, 200]);
    gateway.rereads(&files(&format!("joe:{SECRET}"))).expect("it can be used");
    assert_eq!(["eve:secret", "joe:secret", "bob:secret"].map(status), [401, 200, 200]);
    gateway.rereads(&files("# joe\n")).expect("it can be used");
    assert_eq!(["joe:secret", "bob:secret"].map(status), [401, 200]);
}

#[test]
fn a_file_without_users_allows_no_request() {
    let upstream = upstream::replies(upstream::ok("x"));
    let start = |users: &str| start_with(&file("file: users"), &[&upstream], &files(users));
    let gateway = start(&format!("eve:{SECRET}")).unwrap_or_else(|error| panic!("{error}"));
    let status = |gateway: &Gateway| asks(gateway, &shows("eve:secret")).status;
    assert_eq!(status(&gateway), 200);
    gateway.rereads(&files("")).expect("it can be used");
    assert_eq!(status(&gateway), 401);
    assert_eq!(status(&start("").unwrap_or_else(|error| panic!("{error}"))), 401);
}

#[test]
fn a_password_is_checked_once_in_a_while() {
    let upstream = upstream::replies(upstream::ok("x"));
    let basic = "file: users";
    let gateway = start_with(&file(basic), &[&upstream], &files(&format!("eve:{SECRET}")));
    let gateway = gateway.unwrap_or_else(|error| panic!("{error}"));
    let counts = || {
        let metrics = gateway.metrics();
        let checked = metrics.of_policies("titan_basic_auth_cache_misses_total", "");
        (checked, metrics.of_policies("titan_basic_auth_cache_hits_total", ""))
    };
    for credentials in ["eve:secret", "eve:secret", "eve:wrong", "eve:wrong", "joe:secret"] {
        asks(&gateway, &shows(credentials));
    }
    assert_eq!(counts(), (3, 2));
    // Other files may have changed.
    gateway.rereads(&files(&format!("eve:{SECRET}\n"))).expect("it can be used");
    asks(&gateway, &shows("eve:secret")).has_status(200);
    assert_eq!(counts(), (3, 3));
    gateway.rereads(&files(&format!("eve:{PASSWORD}"))).expect("it can be used");
    asks(&gateway, &shows("eve:secret")).has_status(401);
    assert_eq!(counts(), (4, 3));
    // What was wrong may be right by now.
    asks(&gateway, &shows("eve:password")).has_status(200);
}

#[test]
fn clients_without_a_place_in_the_queue_get_retry_after() {
    let (gateway, upstream) = under(&format!("users: {{ eve: {} }}", quoted(SLOW)), "");
    let mut client = gateway.connects_h2();
    let shown = |number: u32| format!("Basic {}", BASE64_STANDARD.encode(format!("eve:{number}")));
    let ask = |number| Head::get("/").with("authorization", shown(number));
    // Two are being checked, and those behind them wait.
    let streams: Vec<_> = (0..120).map(|number| client.asks(&ask(number))).collect();
    let last = *streams.last().unwrap();
    let refused = client.response(last).has_problem(503, "password-queue");
    refused.has_field("retry-after", "1").lacks("www-authenticate");
    // Requests without a password do not wait for them.
    gateway.get("/").has_problem(401, "password");
    assert!(upstream.requests().is_empty());
}

/// A client that guesses fast delays others by no more than what is being checked at the moment.
#[test]
fn clients_take_turns_at_having_passwords_checked() {
    let users = format!("users: {{ eve: {}, bob: {} }}", quoted(SLOW), quoted(SECRET));
    let (gateway, _upstream) = under(&users, "forwarding: { trusted_proxies: [127.0.0.1] }");
    let mut guesser = gateway.connects_h2();
    for number in 0..30 {
        let shown = BASE64_STANDARD.encode(format!("eve:{number}"));
        let head = Head::get("/").with("authorization", format!("Basic {shown}"));
        guesser.asks(&head.with("x-forwarded-for", "192.0.2.1"));
    }
    guesser.pings();
    let from_elsewhere = format!("{}X-Forwarded-For: 192.0.2.2\r\n", shows("bob:secret"));
    asks(&gateway, &from_elsewhere).has_status(200);
    let checked = gateway.metrics().of_policies("titan_basic_auth_cache_misses_total", "");
    assert!(checked < 10, "{checked} were checked first");
}

#[test]
fn tunnels_and_calls_need_a_password_too() {
    let (gateway, upstream) = under(&users(), "");
    gateway.asks(WISH).has_problem(401, "password");
    let mut client = gateway.connects_h2();
    let call = Head::post("/a.B/C").with("content-type", "application/grpc").with("te", "trailers");
    let stream = client.starts(&call);
    let response = client.response_head(stream).has_status(200).has_field("grpc-status", "16");
    assert!(response.field("grpc-message").unwrap().contains("(password"));
    let right = BASE64_STANDARD.encode("eve:password");
    let stream = client.asks(&Head::get("/").with("authorization", format!("basic {right}")));
    client.response(stream).has_status(200);
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn a_password_is_no_business_of_the_service_that_decides() {
    let (to, auth) = (upstream::replies(upstream::ok("x")), upstream::replies(upstream::ok("")));
    let text = format!(
        "policies: {{ p: {{ authorise: {{ basic: {{ users: {{ eve: {} }} }}, \
         forward_auth: {{ upstream: auth }} }} }} }}\napply: [p]\nupstreams: {{ u: $0, auth: $1 }}",
        quoted(SECRET)
    );
    let gateway = gateway(&text, &[&to, &auth]);
    asks(&gateway, "").has_problem(401, "password");
    asks(&gateway, &shows("eve:secret")).has_status(200);
    assert_eq!(auth.request().field("authorization"), None);
}
