//! What connections meet that come while a reload is under way: the listener has its new rules, and the worker serves from what was before.

use super::drain_tests::plays_between;
use super::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const ROUTES: &str = "tls_routes: { mode: passthrough, upstream: u }";

/// What a client of HTTP without TLS gets.
fn gets(rules: &str, served: &str) -> String {
    let mut response = String::new();
    plays_between((rules, served), &Files::default(), async |mut client, _| {
        let get = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        client.write_all(get).await.unwrap();
        client.read_to_string(&mut response).await.unwrap();
    });
    response
}

#[test]
fn no_connection_is_served_without_tls_where_there_are_tls_routes() {
    assert!(gets("", "").starts_with("HTTP/1.1 204 "));
    for (rules, served) in [(ROUTES, ""), ("", ROUTES), (ROUTES, ROUTES)] {
        let response = gets(rules, served);
        assert!(response.contains("This port speaks HTTPS"), "{rules} {served} {response}");
    }
}
