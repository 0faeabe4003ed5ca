//! Routes that are closed for maintenance.

use titan_testkit::gateway;
use titan_testkit::h2::Head;

const TEXT: &str = "
policies:
  net: { authorise: { allow: 192.0.2.1 } }
  cors: { cors: { origins: 'https://a.example' } }
  closed: { maintenance: { message: 'Back at 06:00, in Köln.', retry_after: 2h } }
apply: [cors, closed]
routes:
  - { path: /open, respond: 200, without: maintenance }
  - { path: /page, respond: 200, error_pages: { 503: closed } }
  - { prefix: /, respond: 200 }
";

#[test]
fn requests_are_refused_before_anything_else_is_checked() {
    let gateway = gateway(&TEXT.replace("closed]", "net, closed]"), &[]);
    let asks = |path: &str, fields: &str| {
        gateway.asks(&format!("GET {path} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"))
    };
    let closed = asks("/a", "Origin: https://a.example\r\n").has_problem(503, "maintenance");
    let closed = closed
        .has_field("retry-after", "7200")
        .has_field("access-control-allow-origin", "https://a.example");
    let text = String::from_utf8_lossy(&closed.body);
    assert!(text.contains("\"detail\":\"Back at 06:00, in K\\u00f6ln.\""), "{text}");
    asks("/page", "Accept: text/html\r\n").has_status(503).has_body("closed");
    asks("/open", "").has_problem(403, "address-refused");
}

#[test]
fn calls_get_a_grpc_status() {
    let gateway = gateway(TEXT, &[]);
    let mut client = gateway.connects_h2();
    let call = Head::post("/a.B/C").with("content-type", "application/grpc").with("te", "trailers");
    let stream = client.starts(&call);
    let status = client.response_head(stream).has_status(200).has_field("grpc-status", "14");
    let message = status.field("grpc-message").unwrap_or_default();
    assert!(message.starts_with("Back at 06:00, in K%C3%B6ln. (maintenance"), "{message}");
    client.get("/open").has_status(200);
}
