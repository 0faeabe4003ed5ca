//! When a response was made: what it says, or the gateway where it says nothing.

use crate::between;
use std::time::Duration;
use titan_testkit::Response;
use titan_testkit::h2::Head;

#[test]
fn a_response_without_a_date_gets_one() {
    let (held, mut client, mut endpoint) = between("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    endpoint.request();
    endpoint.sends("HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n");
    assert_eq!(client.response().has_status(103).fields, []);
    is_dated(&client.response().has_status(204));
    let mut client = held.gateway.connects_h2();
    let stream = client.asks(&Head::get("/"));
    endpoint.request();
    endpoint.sends("HTTP/1.1 204 No Content\r\n\r\n");
    is_dated(&client.response(stream));
    // One that is there stays, and stays alone.
    let stream = client.asks(&Head::get("/"));
    endpoint.request();
    endpoint.sends("HTTP/1.1 204 No Content\r\nDate: x\r\n\r\n");
    assert_eq!(dates(&client.response(stream)), ["x"]);
}

/// Checks that a response says when it was made: about now.
#[track_caller]
fn is_dated(response: &Response) {
    let dates = dates(response);
    let date = httpdate::parse_http_date(dates.first().expect("it has a date"));
    let date = date.expect("it is one");
    let age = date.elapsed().unwrap_or_default();
    assert!(dates.len() == 1 && age < Duration::from_secs(60), "{dates:?}");
}

fn dates(response: &Response) -> Vec<&str> {
    let is_date = |line: &&(String, String)| line.0.eq_ignore_ascii_case("date");
    response.fields.iter().filter(is_date).map(|(_, value)| &**value).collect()
}
