//! Exchanges as text.

use super::*;
use serde_json::json;

fn exchange() -> Value {
    json!({
        "time": "2026-11-27T16:20:00.123456Z", "event": "request", "listener": "https", "client": "192.0.2.7",
        "protocol": "HTTP/2", "tls_version": "TLSv1.3", "method": "GET", "scheme": "https", "host": "shop.example",
        "path": "/cart", "query": "id=7&token=***", "request_bytes": 120, "route": "cart", "upstream": "api",
        "endpoint": "10.0.0.2:80", "attempts": 2, "status": 200, "response_bytes": 512, "complete": true,
        "duration_ms": 12.034, "upstream_head_ms": 9.0, "request_id": "4f2a",
        "trace_id": "0af7651916cd43dd8448eb211c80319c",
        "request_head": [["Authorization", "***"], ["X-Html", "<b>\u{1b}[31m\u{202e}"]],
        "response_head": [["Content-Type", "text/plain"]], "claims": [],
        "request_cut": { "missing": 1, "shortened": 2 },
        "decisions": [
            { "what": "route", "at_ms": 0.0, "text": "route `cart` takes the request" },
            { "what": "policy", "text": "policy `token` lets it pass" },
            { "what": "response", "at_ms": 12.034, "text": "the client gets 200, 512 bytes" }
        ]
    })
}

#[test]
fn a_list_has_a_line_for_each_and_says_what_is_kept() {
    let document = json!({
        "exchanges": [exchange()], "has_more": true,
        "covers": { "since": 1_795_796_400.5, "bytes": 1, "bytes_at_most": 2 }
    });
    insta::assert_snapshot!(list(&document), @r"
    2026-11-27T16:20:00.123456Z 200 GET shop.example/cart?id=7&token=*** 12.0 ms route=cart endpoint=10.0.0.2:80 attempts=2 id=4f2a
    and more (--limit); every exchange since 2026-11-27 16:20:00 UTC is recorded, failures and slow ones for longer
    ");
    let nothing = json!({ "exchanges": [], "has_more": false, "covers": { "since": null, "bytes": 0, "bytes_at_most": 2 } });
    assert_eq!(list(&nothing), "no such exchange; nothing is recorded yet\n");
}

#[test]
fn a_page_has_everything_and_obeys_nothing() {
    let page = page(&Exchange(&exchange()));
    assert!(page.chars().all(|c| c == '\n' || c.is_ascii_graphic() || c == ' '), "{page:?}");
    insta::assert_snapshot!(page, @r"
    GET https://shop.example/cart?id=7&token=***
      HTTP/2 over TLSv1.3 from 192.0.2.7 at listener https
      began 2026-11-27T16:20:00.123456Z, took 12.0 ms
      id 4f2a
      trace 0af7651916cd43dd8448eb211c80319c

    what happened
           0.000 ms  route `cart` takes the request
                     policy `token` lets it pass
          12.034 ms  the client gets 200, 512 bytes

    how long it took
           9.000 ms  until the head of its response
          12.034 ms  in all

    120 bytes from the client, 512 bytes to it

    request
      Authorization: ***
      X-Html: <b>\u{1b}[31m\u{202e}
      ... 1 field is not kept
      ... 2 fields are cut off

    response
      Content-Type: text/plain
    ");
}

#[test]
fn of_a_head_that_could_not_be_read_nothing_is_made_up() {
    let mut exchange = exchange();
    let members = exchange.as_object_mut().unwrap();
    for name in ["method", "host", "path", "query"] {
        members.remove(name);
    }
    let exchange = Exchange(&exchange);
    assert!(page(&exchange).starts_with("no request head\n  HTTP/2 over TLSv1.3 from "));
    assert!(exchange.line().contains("Z 200 - - 12.0 ms "), "{}", exchange.line());
}

#[test]
fn bodies_are_shown_line_by_line_and_not_obeyed() {
    let mut exchange = exchange();
    exchange["request_body"] = json!({ "bytes": 53_211, "kept": 40, "encoding": "text",
        "content": "{\r\n\t\"a\": \"\u{1b}[2J\u{202e}\u{9b}\",\n\n  \u{2028}b\r\u{0}é" });
    exchange["response_body"] =
        json!({ "bytes": 3, "kept": 3, "encoding": "base64", "content": "AP/+" });
    let page = page(&Exchange(&exchange));
    assert!(
        page.chars().all(|c| c == '\n' || c == ' ' || c == 'é' || c.is_ascii_graphic()),
        "{page:?}"
    );
    let bodies = page.split_once("\n\n120 bytes").unwrap().1;
    insta::assert_snapshot!(bodies, @r#"
     from the client, 512 bytes to it

    request
      Authorization: ***
      X-Html: <b>\u{1b}[31m\u{202e}
      ... 1 field is not kept
      ... 2 fields are cut off

    request body, the first 40 of 53211 bytes
      {
          "a": "\u{1b}[2J\u{202e}\u{9b}",

        \u{2028}b\u{d}\u{0}é

    response
      Content-Type: text/plain

    response body, 3 bytes, in base64
      AP/+
    "#);
}

#[test]
fn lines_of_a_tap_are_exchanges_and_counts() {
    let line = exchange().to_string();
    assert!(told(&line, false).unwrap().contains(" 200 GET shop.example/cart?"));
    assert_eq!(told(&line, true).unwrap(), format!("{line}\n"));
    assert_eq!(told("{\"skipped\":7}", false).unwrap(), "... 7 more\n");
    for line in ["", "nonsense", "[1]", "{\"status\":200}"] {
        assert_eq!((told(line, false), told(line, true)), (None, None), "{line}");
    }
}

#[test]
fn conditions_are_written_so_that_the_gateway_reads_them() {
    assert_eq!(
        query(&[("route", "a b&c".to_owned()), ("status", "5xx,404".to_owned())]),
        "route=a%20b%26c&status=5xx%2C404"
    );
    assert_eq!(encoded("a/é+"), "a%2F%C3%A9%2B");
}
