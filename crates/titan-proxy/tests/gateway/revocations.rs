//! Revoked tokens while they are still good.

use crate::jwt::{PROVIDER, Signer, Source, at, fetching, gets, token};
use std::sync::Arc;
use std::time::Duration;
use titan_proxy::{Revocation, Revocations, Revoked};
use titan_testkit::h2::Head;
use titan_testkit::upstream::{self, Upstream, ok};
use titan_testkit::usual;
use titan_testkit::{Certificate, Gateway, gateway, start_revocable, waits_until};

/// A gateway of so many workers that asks for tokens, and what can be revoked.
fn revocable(workers: usize) -> (Gateway, Upstream, Revocations) {
    let (upstream, revocations) = (upstream::replies(ok("x")), Revocations::default());
    let files = Certificate::files(&[("usual", usual())]);
    let text =
        format!("workers: {workers}\npolicies: {{ p: {{ jwt: {{ {PROVIDER} }} }} }}\napply: [p]");
    let gateway = start_revocable(&text, &[&upstream], &files, Some(&revocations));
    let gateway = gateway.unwrap_or_else(|error| panic!("{error}"));
    (gateway, upstream, revocations)
}

fn until(seconds: i64) -> Duration {
    Duration::from_secs(u64::try_from(at(seconds)).expect("it is after 1970"))
}

fn by_name(name: &str) -> Revocation {
    Revocation { of: Revoked::Token(name.into()), issuer: None, until: until(60) }
}

fn named(name: &str) -> String {
    token(&format!("{{\"jti\":\"{name}\",\"exp\":{}}}", at(60)))
}

fn asking(token: &str) -> String {
    format!("GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\r\n")
}

fn refused(gateway: &Gateway) -> u64 {
    gateway.metrics().of_policies("titan_jwt_refused_total", "revoked")
}

#[test]
fn a_token_that_is_remembered_is_refused_once_it_is_revoked() {
    let (gateway, upstream, revocations) = revocable(1);
    let (bad, good) = (named("bad"), named("good"));
    for token in [&bad, &good, &bad, &good] {
        gateway.asks(&asking(token)).has_body("x");
    }
    assert_eq!(gateway.metrics().of_policies("titan_jwt_cache_hits_total", ""), 2);
    revocations.add(&by_name("bad"));
    let challenge = "Bearer realm=\"gateway\", error=\"invalid_token\"";
    for _ in 0..2 {
        let response = gateway.asks(&asking(&bad));
        response.has_field("www-authenticate", challenge).has_problem(401, "token-invalid");
        gateway.asks(&asking(&good)).has_body("x");
    }
    assert_eq!((refused(&gateway), upstream.requests().len()), (2, 6));
    revocations.remove(&by_name("bad"));
    gateway.asks(&asking(&bad)).has_body("x");
}

#[test]
fn tokens_of_a_subject_are_refused_up_to_their_issue_time() {
    let (gateway, _upstream, revocations) = revocable(1);
    let issued = |at_seconds: i64| {
        let (iat, exp) = (at(at_seconds), at(60));
        asking(&token(&format!("{{\"sub\":\"ann\",\"iat\":{iat},\"exp\":{exp}}}")))
    };
    let (old, new) = (issued(-600), issued(0));
    gateway.asks(&old).has_body("x");
    let of = Revoked::Subject("ann".into(), until(-300));
    revocations.add(&Revocation { of, issuer: None, until: until(60) });
    gateway.asks(&old).has_problem(401, "token-invalid");
    gateway.asks(&new).has_body("x");
    let undated = token(&format!("{{\"sub\":\"ann\",\"exp\":{}}}", at(60)));
    gateway.asks(&asking(&undated)).has_problem(401, "token-invalid");
}

#[test]
fn a_revocation_reaches_every_worker_at_once() {
    let (gateway, _upstream, revocations) = revocable(4);
    let token = named("bad");
    // The kernel deals connections out: with so many each worker has some.
    let mut clients: Vec<_> = (0..32).map(|_| gateway.connects()).collect();
    for client in &mut clients {
        client.sends(asking(&token));
        client.response().has_body("x");
    }
    let metrics = gateway.metrics();
    let busy = metrics.workers().iter().filter(|cells| cells.begun.get() > 0).count();
    assert!(busy > 1, "one worker has served all");
    revocations.add(&by_name("bad"));
    for client in &mut clients {
        client.sends(asking(&token));
        client.response().has_problem(401, "token-invalid");
    }
    assert_eq!(refused(&gateway), 32);
}

#[test]
fn streams_tunnels_and_calls_of_connections_that_are_open_are_refused_too() {
    let (gateway, upstream, revocations) = revocable(1);
    let token = named("bad");
    let bearer = format!("Bearer {token}");
    let mut client = gateway.connects_h2();
    let stream = client.asks(&Head::get("/").with("authorization", &bearer));
    client.response(stream).has_status(200).has_body("x");
    revocations.add(&by_name("bad"));
    let stream = client.asks(&Head::get("/").with("authorization", &bearer));
    client.response(stream).has_status(401);
    let call = Head::post("/a.B/C").with("content-type", "application/grpc");
    let stream = client.asks(&call.with("authorization", &bearer));
    client.response(stream).has_status(200).has_field("grpc-status", "16");
    let options = "Connection: Upgrade\r\nUpgrade: websocket\r\n\
        Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    let options = asking(&token).replace("\r\n\r\n", &format!("\r\n{options}"));
    gateway.asks(&options).has_problem(401, "token-invalid");
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn a_token_whose_name_is_no_text_could_not_be_revoked() {
    let (gateway, _upstream, _revocations) = revocable(1);
    for name in ["jti", "sub"] {
        let token = token(&format!("{{\"{name}\":1,\"exp\":{}}}", at(60)));
        gateway.asks(&asking(&token)).has_problem(401, "token-invalid");
    }
}

#[test]
fn nobody_waits_for_keys_of_a_policy_that_a_source_delivers() {
    let (source, one) = (Arc::new(Source::default()), Signer::new("one"));
    let (listening, upstream) = (source.listens(), upstream::replies(ok("x")));
    let gateway = gateway("", &[&upstream]);
    let text = fetching(&listening, "refresh: 1s, pause: 1s");
    gateway.reloads_delivered(&text, &[&upstream]).expect("it comes into force without its keys");
    gets(&gateway, &one.token()).has_problem(503, "token-keys");
    assert!(gateway.status().is_ready(), "other routes are served");
    source.has(Some(&[&one]));
    waits_until("the keys are there", || gets(&gateway, &one.token()).status == 200);
}
