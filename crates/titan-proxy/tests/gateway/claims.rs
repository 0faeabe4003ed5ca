//! What an upstream is told of its client, and what a client is told of the upstream.

use titan_testkit::h2::Head;
use titan_testkit::upstream::{self, ok, ok_with};
use titan_testkit::{Request, gateway, scheme};

/// The request that reaches the upstream when a client at 127.0.0.1 sends these fields.
#[track_caller]
fn told(forwarding: &str, fields: &str) -> Request {
    let upstream = upstream::replies(ok(""));
    let gateway = gateway(&format!("forwarding: {{ {forwarding} }}"), &[&upstream]);
    gateway.asks(&format!("GET / HTTP/1.1\r\nHost: a.example\r\n{fields}\r\n")).has_status(200);
    upstream.request()
}

const CLAIMS: &str = "X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: b.example\r\n\
    Forwarded: for=192.0.2.1\r\nX-Real-IP: 192.0.2.1\r\nX-Request-Id: theirs\r\n";

#[test]
fn an_upstream_gets_the_address_of_the_client() {
    let request = told("", "");
    assert_eq!(request.field("x-forwarded-for"), Some("127.0.0.1"));
    assert_eq!(request.field("x-forwarded-proto"), Some(scheme()));
    assert_eq!(request.field("x-forwarded-host"), Some("a.example"));
    assert_eq!(request.field("forwarded"), None);
    assert_eq!(request.field("via"), Some("1.1 titan"));
    assert_eq!(request.field("x-request-id").map(str::len), Some(32));
}

#[test]
fn forged_claims_are_not_passed_on() {
    let request = told("", CLAIMS);
    assert_eq!(request.field("x-forwarded-for"), Some("127.0.0.1"));
    assert_eq!(request.field("x-forwarded-proto"), Some(scheme()));
    assert_eq!(request.field("x-forwarded-host"), Some("a.example"));
    assert_eq!(request.field("forwarded"), None);
    assert_eq!(request.field("x-real-ip"), None);
    assert_eq!(request.field("x-request-id").map(str::len), Some(32));
    // Nor where the gateway says nothing itself: an upstream would believe them.
    let request = told("x_forwarded: false, request_id: off, via: off", CLAIMS);
    for name in [
        "x-forwarded-for",
        "x-forwarded-proto",
        "x-forwarded-host",
        "forwarded",
        "x-real-ip",
        "via",
    ] {
        assert_eq!(request.field(name), None, "{name}");
    }
}

#[test]
fn look_alikes_of_claims_are_passed_on_from_no_peer() {
    let twins = "X_Forwarded_For: 6.6.6.6\r\nX.Forwarded.Proto: gopher\r\nx-forwarded_user: root\r\nX~Real~IP: 6.6.6.6\r\n\
        X_Request_Id: theirs\r\nX.Request-Id: theirs\r\nClient.Cert: :AA==:\r\nTransfer_Encoding: chunked\r\nX_Other: kept\r\n";
    for forwarding in ["", "trusted_proxies: [127.0.0.1]", "x_forwarded: false, request_id: off"] {
        let request = told(forwarding, twins);
        let names: Vec<_> = request.fields.iter().map(|(name, _)| name).collect();
        let odd = |name: &&&String| name.contains(['_', '.', '~']);
        assert_eq!(names.iter().filter(odd).collect::<Vec<_>>(), [&"x_other"], "{forwarding}");
    }
}

#[test]
fn what_upstreams_take_for_a_claim_is_passed_on_over_no_protocol() {
    let upstream = upstream::replies(ok(""));
    let gateway = gateway("forwarding: { request_id: X-Trace }", &[&upstream]);
    let head = Head::get("/").with("x_trace", "theirs").with("x.forwarded.for", "6.6.6.6");
    let mut client = gateway.connects_h2();
    let stream = client.asks(&head.with("x_other", "kept"));
    client.response(stream).has_status(200);
    let request = upstream.request();
    let found = ["x_trace", "x.forwarded.for", "x_other"].map(|name| request.field(name));
    assert_eq!(found, [None, None, Some("kept")]);
}

// field: forwarding.trusted_proxies
#[test]
fn what_a_trusted_proxy_claims_is_passed_on_and_added_to() {
    let request = told("trusted_proxies: [10.0.0.0/8, 127.0.0.1], forwarded: true", CLAIMS);
    assert_eq!(request.field("x-forwarded-for"), Some("192.0.2.1, 127.0.0.1"));
    assert_eq!(request.field("x-forwarded-proto"), Some("https"));
    assert_eq!(request.field("x-forwarded-host"), Some("b.example"));
    assert_eq!(
        request.field("forwarded"),
        Some(&*format!(
            "for=192.0.2.1;host=\"b.example\";proto=https, for=127.0.0.1;host=\"a.example\";proto={}",
            scheme()
        ))
    );
    assert_eq!(request.field("x-real-ip"), Some("192.0.2.1"));
    assert_eq!(request.field("x-request-id"), Some("theirs"));
}

// field: forwarding.trusted_field
#[test]
fn one_field_of_a_trusted_proxy_is_believed() {
    let both = "X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: gopher\r\nX-Forwarded-Host: x.example\r\n\
        X-Forwarded-Port: 1\r\nX-Real-IP: 192.0.2.1\r\n\
        Forwarded: for=192.0.2.9;host=f.example;proto=https\r\n";
    let request = told("trusted_proxies: [127.0.0.1]", both);
    assert_eq!(request.field("x-forwarded-for"), Some("192.0.2.1, 127.0.0.1"));
    assert_eq!(request.field("x-forwarded-port"), Some("1"));
    assert_eq!(request.field("forwarded"), None);

    let forwarded = "trusted_proxies: [127.0.0.1], trusted_field: forwarded, forwarded: true";
    let request = told(forwarded, both);
    let own = format!("for=127.0.0.1;host=\"a.example\";proto={}", scheme());
    assert_eq!(
        request.field("forwarded"),
        Some(&*format!("for=192.0.2.9;host=f.example;proto=https, {own}"))
    );
    assert_eq!(request.field("x-forwarded-for"), Some("192.0.2.9, 127.0.0.1"));
    assert_eq!(request.field("x-forwarded-proto"), Some("https"));
    assert_eq!(request.field("x-forwarded-host"), Some("f.example"));
    assert_eq!(request.field("x-forwarded-port"), None);
    assert_eq!(request.field("x-real-ip"), None);
}

// field: forwarding.x_real_ip
#[test]
fn the_address_of_the_client_stands_by_itself() {
    let lies = "X-Real-IP: 6.6.6.6\r\nX_Real_IP: 6.6.6.6\r\nx.real.ip: 6.6.6.6\r\nX-Forwarded-For: 192.0.2.1\r\n";
    for (forwarding, client) in [
        ("x_real_ip: true", "127.0.0.1"),
        ("x_real_ip: true, trusted_proxies: [127.0.0.1]", "192.0.2.1"),
    ] {
        let request = told(forwarding, lies);
        assert_eq!(request.all("x-real-ip"), [client], "{forwarding}");
        assert_eq!((request.field("x_real_ip"), request.field("x.real.ip")), (None, None));
    }
    assert_eq!(told("", lies).field("x-real-ip"), None);
}

#[test]
fn what_is_malformed_swallows_nothing() {
    let forwarded = "trusted_proxies: [127.0.0.1], trusted_field: forwarded";
    let open = "Forwarded: for=1.1.1.1\r\nForwarded: for=\"6.6.6.6\r\n";
    let request = told(&format!("{forwarded}, forwarded: true"), open);
    let own = format!("for=127.0.0.1;host=\"a.example\";proto={}", scheme());
    assert_eq!(request.field("forwarded"), Some(&*format!("for=unknown, {own}")));
    assert_eq!(request.field("x-forwarded-for"), Some("unknown, 127.0.0.1"));
    assert_eq!(told(forwarded, open).all("forwarded"), ["for=unknown"]);
    let followed = format!("{open}Forwarded: for=192.0.2.9\r\n");
    assert_eq!(told(forwarded, &followed).all("forwarded"), ["for=unknown, for=192.0.2.9"]);
}

// field: file.forwarding, forwarding.x_forwarded
#[test]
fn each_of_these_fields_can_be_switched_off() {
    let request = told("x_forwarded: false", "");
    for name in ["x-forwarded-for", "x-forwarded-proto", "x-forwarded-host"] {
        assert_eq!(request.field(name), None, "{name}");
    }
    assert_eq!(told("via: off", "").field("via"), None);
    assert_eq!(told("request_id: off", "").field("x-request-id"), None);
}

// field: forwarding.forwarded
#[test]
fn forwarded_says_the_same_in_one_field() {
    let request = told("forwarded: true", "");
    assert_eq!(
        request.field("forwarded"),
        Some(&*format!("for=127.0.0.1;host=\"a.example\";proto={}", scheme()))
    );
}

// field: forwarding.via
#[test]
fn a_gateway_has_the_name_that_it_is_given() {
    let request = told("via: edge-1", "Via: 1.0 fred\r\n");
    assert_eq!(request.all("via"), ["1.0 fred", "1.1 edge-1"]);
}

#[test]
fn a_request_that_goes_in_circles_is_stopped() {
    let upstream = upstream::replies(ok(""));
    let gateway = gateway("", &[&upstream]);
    let request = |times| {
        format!("GET / HTTP/1.1\r\nHost: a\r\nVia: {}\r\n\r\n", vec!["1.1 titan"; times].join(", "))
    };
    gateway.asks(&request(8)).has_status(200);
    gateway.asks(&request(9)).has_problem(502, "loop");
    assert_eq!(upstream.requests().len(), 1);
}

// field: forwarding.request_id
#[test]
fn a_request_has_one_id_everywhere() {
    let upstream = upstream::replies("garbage\r\n\r\n");
    let gateway = gateway(
        "forwarding: { request_id: X-Trace }\nroutes: [{ upstream: u, retries: 0 }]\nupstreams: { u: [$0] }",
        &[&upstream],
    );
    let mut ids: Vec<_> = (0..3)
        .map(|index| {
            let response = gateway.get("/").has_problem(502, "malformed");
            let request = &upstream.requests()[index];
            assert_eq!(request.field("x-trace"), Some(response.request_id().as_str()));
            assert_eq!(request.field("x-request-id"), None);
            response.request_id()
        })
        .collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 3, "each has its own");
}

#[test]
fn the_id_of_a_trusted_proxy_is_kept_where_it_is_harmless() {
    let trusted = "trusted_proxies: [127.0.0.1]";
    assert_eq!(told(trusted, "X-Request-Id: a-b.c:1\r\n").field("x-request-id"), Some("a-b.c:1"));
    let long = format!("X-Request-Id: {}\r\n", "x".repeat(200));
    for fields in [
        "X-Request-Id: a b\r\n",
        "X-Request-Id: \"x\"\r\n",
        "X-Request-Id:\r\n",
        &long,
        "X-Request-Id: a\r\nX-Request-Id: b\r\n",
    ] {
        let request = told(trusted, fields);
        assert_eq!(request.field("x-request-id").map(str::len), Some(32), "{fields}");
    }
}

#[test]
fn a_connection_list_cannot_take_away_what_the_gateway_says() {
    let list = "Connection: X-Forwarded-For, X-Forwarded-Proto, Via, X-Request-Id\r\n";
    for forwarding in ["", "trusted_proxies: [127.0.0.1]"] {
        let request = told(forwarding, list);
        for name in ["x-forwarded-for", "x-forwarded-proto", "via", "x-request-id"] {
            assert!(request.field(name).is_some(), "{name}");
        }
    }
}

// field: forwarding.server
#[test]
fn the_server_field_is_what_the_configuration_says() {
    let upstream = upstream::replies(ok_with("Server: secret/1.0\r\n", ""));
    let cases = [("pass", Some("secret/1.0")), ("remove", None), ("\"front\"", Some("front"))];
    for (server, seen) in cases {
        let gateway = gateway(&format!("forwarding: {{ server: {server} }}"), &[&upstream]);
        assert_eq!(gateway.get("/").field("server"), seen, "{server}");
    }
    // Of its own responses too.
    let gateway =
        gateway("forwarding: { server: front }\nroutes: [{ path: /a, respond: 204 }]", &[]);
    gateway.get("/a").has_field("server", "front");
    gateway.get("/b").has_field("server", "front");
}

#[test]
fn another_address_is_another_client() {
    let upstream = upstream::replies(ok(""));
    let gateway = gateway("forwarding: { trusted_proxies: [127.0.0.2] }", &[&upstream]);
    for (index, (source, seen)) in
        [("127.0.0.2", "192.0.2.1, 127.0.0.2"), ("127.0.0.3", "127.0.0.3")].into_iter().enumerate()
    {
        let mut client = gateway.connects_from(source);
        client.sends("GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n");
        client.response().has_status(200);
        assert_eq!(upstream.requests()[index].field("x-forwarded-for"), Some(seen));
    }
}

#[test]
fn no_claim_comes_in_a_trailer() {
    let upstream = upstream::replies(ok("x"));
    let gateway = gateway("", &[&upstream]);
    let mut client = gateway.connects();
    client.sends(
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\
        X-Forwarded-For: 6.6.6.6\r\nX-Real-IP: 6.6.6.6\r\nX-Sum: 1\r\n\r\n",
    );
    client.response().has_status(200);
    let bytes = String::from_utf8(upstream.requests()[0].bytes.clone()).unwrap();
    assert!(bytes.ends_with("0\r\nX-Sum: 1\r\n\r\n"), "{bytes}");
}

#[test]
fn what_policies_say_comes_in_no_trailer() {
    let upstream = upstream::replies(ok("x"));
    let text = "policies:
  p: { transform: { request: { headers: { set: { X-Tenant: a } } } } }
  q: { jwt: { headers: { X-User: sub }, \
    providers: { algorithms: HS256, keys: { secret: 0123456789012345678901234567890123 } } } }
  r: { authorise: { api_keys: { identity_header: X-Client, \
    keys: { k: 7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed } } } }
routes: [{ prefix: /, upstream: u, apply: [p] }, { path: /q, respond: 204, apply: [q, r] }]";
    let gateway = gateway(text, &[&upstream]);
    let mut client = gateway.connects();
    client.sends(
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\
        X-User: root\r\nX_Tenant: b\r\nX.Tenant: b\r\nX-Client: k\r\nX-API-Key: two\r\n\
        x_api_key: two\r\nX-Sum: 1\r\n\r\n",
    );
    client.response().has_status(200);
    let bytes = String::from_utf8(upstream.requests()[0].bytes.clone()).unwrap();
    assert!(bytes.ends_with("0\r\nX-Sum: 1\r\n\r\n"), "{bytes}");
}

#[test]
fn max_forwards_counts_down_to_the_gateway() {
    let upstream = upstream::replies(ok("x"));
    let gateway = gateway("", &[&upstream]);
    let mut client = gateway.connects();
    client
        .sends("OPTIONS / HTTP/1.1\r\nHost: a\r\nMax-Forwards: 1\r\n\r\n")
        .response()
        .has_body("x");
    client
        .sends("OPTIONS / HTTP/1.1\r\nHost: a\r\nMax-Forwards: 0\r\n\r\n")
        .response()
        .has_body("");
    client
        .sends("TRACE / HTTP/1.1\r\nHost: a\r\nMax-Forwards: 0\r\n\r\n")
        .response()
        .has_status(501);
    assert_eq!(upstream.requests().len(), 1);
    assert_eq!(upstream.requests()[0].field("max-forwards"), Some("0"));
}

#[test]
fn interim_responses_keep_the_server_to_themselves_too() {
    let upstream = upstream::listens();
    let gateway = gateway("forwarding: { server: remove }", &[&upstream]);
    let mut client = gateway.connects();
    client.sends("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    let mut endpoint = upstream.accepts();
    endpoint.request();
    endpoint.sends("HTTP/1.1 103 Early Hints\r\nServer: secret\r\nLink: </a>\r\n\r\n");
    client.expects("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n");
}
