//! What the gateway keeps for its operator when something is wrong with an upstream.

use std::net::UdpSocket;
use titan_proxy::UpstreamFailure;
use titan_testkit::upstream::{self, ok};
use titan_testkit::{End, Gateway, gateway, waits_until};

/// A gateway with a route `shop` to the upstream `u` of these endpoints.
fn shop(endpoints: &str, settings: &str) -> Gateway {
    gateway(
        &format!(
            "routes: [{{ name: shop, upstream: u, retries: 0 }}]\nupstreams: {{ u: {endpoints} }}\n{settings}"
        ),
        &[],
    )
}

/// The only failure that there is to tell of, once there is one.
fn only(gateway: &Gateway) -> UpstreamFailure {
    let mut told = Vec::new();
    waits_until("a failure to be told of", || {
        told.extend(gateway.upstream_failures());
        !told.is_empty()
    });
    let [failure] = told.as_slice() else { panic!("{told:?}") };
    failure.clone()
}

#[test]
fn an_endpoint_that_refuses_is_reported_with_route_endpoint_and_request() {
    let address = upstream::refuses();
    let gateway = shop(&format!("['{address}']"), "");
    let response = gateway.get("/secret?token=secret").has_status(502);
    let failure = only(&gateway);
    assert_eq!(failure.what, format!("{address}: Connection refused (os error 111)"));
    assert_eq!((failure.upstream.as_str(), failure.code, failure.count), ("u", "connect", 1));
    assert_eq!(failure.route.as_deref(), Some("shop"));
    let id = failure.request.expect("requests have ids unless that is off");
    assert_eq!(response.request_id(), id);
    assert_eq!(gateway.upstream_failures(), []);
}

#[test]
fn an_endpoint_that_does_not_speak_tls_is_reported_as_such() {
    let upstream = upstream::listens();
    let address = upstream.address();
    let gateway = shop(&format!("{{ endpoints: '{address}', tls: {{ verify: false }} }}"), "");
    let mut client = gateway.connects();
    client.sends("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    let mut endpoint = upstream.accepts();
    endpoint.sends("HTTP/1.1 400 Bad Request\r\n\r\n");
    client.response().has_status(502);
    assert_eq!(only(&gateway).what, format!("{address}: it does not speak TLS"));
}

#[test]
fn a_service_that_decides_and_fails_is_reported_with_the_route() {
    let text = format!(
        "routes: [{{ name: shop, respond: 204, apply: p }}]\nupstreams: {{ sso: '{}' }}\n\
         policies: {{ p: {{ authorise: {{ forward_auth: {{ upstream: sso }} }} }} }}",
        upstream::refuses()
    );
    let gateway = gateway(&text, &[]);
    gateway.get("/").has_status(503);
    assert_eq!(only(&gateway).route.as_deref(), Some("shop"));
}

#[test]
fn many_failures_are_one_and_a_number() {
    let gateway = shop(&format!("['{}']", upstream::refuses()), "");
    (0..20).for_each(|_| drop(gateway.get("/").has_status(502)));
    assert_eq!(only(&gateway).count, 20);
}

#[test]
fn an_endpoint_that_fails_is_reported_where_another_has_responded() {
    let bad = upstream::refuses();
    let good = upstream::replies(ok("good"));
    let gateway = gateway("upstreams: { u: [\"$0\", $1] }", &[&bad, &good]);
    (0..2).for_each(|_| drop(gateway.get("/").has_status(200)));
    assert!(only(&gateway).what.starts_with(&format!("{bad}: ")));
}

#[test]
fn an_endpoint_that_closes_is_another_cause() {
    let upstream = upstream::listens();
    let gateway = shop(&format!("['{}']", upstream.address()), "");
    let mut client = gateway.connects();
    client.sends("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
    let mut endpoint = upstream.accepts();
    endpoint.request();
    endpoint.ends(End::Close);
    client.response().has_status(502);
    let failure = only(&gateway);
    assert_eq!(failure.code, "upstream-closed");
    assert!(failure.what.starts_with(&format!("{}: ", upstream.address())), "{}", failure.what);
}

#[test]
fn an_endpoint_that_responds_with_errors_is_reported() {
    for (ejection, is_reported) in [("{}", true), ("{ statuses: 501 }", false), ("off", false)] {
        let endpoint = upstream::replies("HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n");
        let address = endpoint.address();
        let gateway = shop(&format!("{{ endpoints: '{address}', ejection: {ejection} }}"), "");
        gateway.get("/").has_status(500);
        if is_reported {
            let failure = only(&gateway);
            assert_eq!(
                (failure.code, failure.what),
                ("error-response", format!("{address}: status 500"))
            );
            assert_eq!(failure.route.as_deref(), Some("shop"));
            assert!(failure.request.is_some());
        } else {
            assert_eq!(gateway.upstream_failures(), [], "{ejection}");
        }
    }
}

/// A name server that never answers.
fn silent() -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0").expect("a port is free")
}

#[test]
fn a_name_that_does_not_resolve_is_reported_and_so_are_the_requests_that_it_fails() {
    let server = silent();
    let address = server.local_addr().expect("a bound socket has an address");
    let resolver = format!("resolver: {{ nameservers: ['{address}'], timeout: 100ms }}");
    let gateway = shop("['backend.test:80']", &resolver);
    gateway.get("/").has_status(503);
    let mut told = Vec::new();
    waits_until("both to be told of", || {
        told.extend(gateway.upstream_failures());
        ["name", "no-endpoint"].iter().all(|code| told.iter().any(|failure| failure.code == *code))
    });
    let of = |code| told.iter().find(|failure| failure.code == code).expect("it is there");
    let reason = &of("name").what;
    assert!(reason.starts_with("backend.test does not resolve: "), "{reason}");
    assert_eq!(of("name").route, None);
    assert_eq!(of("no-endpoint").route.as_deref(), Some("shop"));
    assert!(of("no-endpoint").request.is_some());
}

#[test]
fn what_clients_do_wrong_is_not_reported() {
    let upstream = upstream::listens();
    let gateway = shop(&format!("['{}']", upstream.address()), "limits: { body: 1 }");
    gateway.asks("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab").has_status(413);
    gateway.asks("GET / HTTP/1.1\r\n\r\n").has_status(400);
    let mut client = gateway.connects();
    client.sends("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut endpoint = upstream.accepts();
    endpoint.request();
    client.ends(End::Reset);
    endpoint.rest();
    assert_eq!(gateway.upstream_failures(), []);
}
