//! TLS on a listener: certificates, versions, resumption, and clients that do not speak it.

use crate::timeouts::takes;
use std::sync::Arc;
use std::time::Duration;
use titan_testkit::upstream::{self, ok};
use titan_testkit::{
    Authority, Certificate, Gateway, Owner, Peer, authority, certificate, gateway, start_with,
    usual, waits_until,
};

const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

/// A gateway that responds to everything itself, with that much about TLS and those files.
fn secure(tls: &str, files: &[(&str, &Certificate)]) -> Gateway {
    try_secure(tls, "", files).unwrap_or_else(|error| panic!("{error}"))
}

fn try_secure(
    tls: &str,
    more: &str,
    files: &[(&str, &Certificate)],
) -> Result<Gateway, titan_proxy::LoadError> {
    let text = format!(
        "listeners: [{{ address: '127.0.0.1:0', tls: {{ {tls} }} }}]\n\
         routes: [{{ prefix: /, respond: 204 }}]\n{more}"
    );
    start_with(&text, &[], &Certificate::files(files))
}

/// A client that asks for `name` and trusts that certificate alone.
fn asks_for(gateway: &Gateway, name: &str, trusted: &Certificate) -> Option<Peer> {
    Peer::connects(gateway.address()).tries_to_secure(trusted.client(name)).ok()
}

const ONE: &str = "certificates: [{ cert: a.pem, key: a.key }]";
const TWO: &str = "certificates: [{ cert: a.pem, key: a.key }, { cert: b.pem, key: b.key }]";

// field: listener.tls, tls.certificates, certificate.cert, certificate.key
#[test]
fn the_name_decides_about_the_certificate() {
    let (a, b) = (certificate(&["a.example"]), certificate(&["b.example", "*.c.example"]));
    let gateway = secure(TWO, &[("a", &a), ("b", &b)]);
    for (name, right, wrong) in [
        ("a.example", &a, &b),
        ("b.example", &b, &a),
        ("B.Example", &b, &a),
        ("x.c.example", &b, &a),
    ] {
        let mut client = asks_for(&gateway, name, right).expect(name);
        client.sends(GET).response().has_status(204);
        assert!(asks_for(&gateway, name, wrong).is_none(), "{name}");
    }
    // A wildcard stands for one label; a client with an unknown name gets the first certificate, which is not for that
    // name.
    for name in ["x.y.c.example", "c.example", "d.example"] {
        assert!(asks_for(&gateway, name, &b).is_none(), "{name}");
    }
}

// field: certificate.hosts
#[test]
fn a_certificate_is_for_its_hosts_whatever_others_say() {
    let names = ["a.example", "x.b.example"];
    let [wide, of_a, of_b] = [certificate(&names), certificate(&names), certificate(&names)];
    let tls = "certificates: [{ cert: wide.pem, key: wide.key }, { cert: a.pem, key: a.key, hosts: A.example }, \
        { cert: b.pem, key: b.key, hosts: '*.b.example' }]";
    let gateway = secure(tls, &[("wide", &wide), ("a", &of_a), ("b", &of_b)]);
    for (name, right) in [("a.example", &of_a), ("A.Example", &of_a), ("x.b.example", &of_b)] {
        for one in [&wide, &of_a, &of_b] {
            let is_right = std::ptr::eq(one, right);
            assert_eq!(asks_for(&gateway, name, one).is_some(), is_right, "{name}");
        }
    }
    // What no other one is for has the certificate with that name in it.
    let wide = certificate(&["c.example"]);
    let tls = format!("{tls}, unknown_name: refuse");
    let gateway = secure(&tls, &[("wide", &wide), ("a", &of_a), ("b", &of_b)]);
    assert!(asks_for(&gateway, "c.example", &wide).is_some());
    assert!(asks_for(&gateway, "b.example", &of_b).is_none());
}

// field: tls.unknown_name
#[test]
fn an_unknown_name_gets_the_first_certificate_or_nothing() {
    let a = certificate(&["a.example", "127.0.0.1"]);
    // A client that connects to an address sends no server name.
    for rule in ["default", "refuse"] {
        let gateway = secure(&format!("{ONE}, unknown_name: {rule}"), &[("a", &a)]);
        assert!(asks_for(&gateway, "a.example", &a).is_some(), "{rule}");
        assert!(asks_for(&gateway, "127.0.0.1", &a).is_some(), "{rule}");
        let error = Peer::connects(gateway.address()).tries_to_secure(a.client("b.example"));
        let error = error.expect_err("the certificate is for another name").to_string();
        assert_eq!(error.contains("alert"), rule == "refuse", "{rule}: {error}");
    }
}

// field: tls.min_version
#[test]
fn no_older_version_is_spoken_than_configured() {
    let a = certificate(&["a.example"]);
    for (least, newest, is_served) in
        [("1.2", "1.2", true), ("1.2", "1.3", true), ("1.3", "1.2", false), ("1.3", "1.3", true)]
    {
        let gateway = secure(&format!("{ONE}, min_version: {least}"), &[("a", &a)]);
        let client = a.client_of_version("a.example", newest);
        let served = Peer::connects(gateway.address()).tries_to_secure(client);
        assert_eq!(served.is_ok(), is_served, "{least} {newest}");
    }
}

// field: timeouts.handshake
#[test]
fn a_handshake_has_its_time() {
    let a = certificate(&["a.example"]);
    let more = "timeouts: { handshake: 200ms, idle: 20s }";
    let gateway = try_secure(ONE, more, &[("a", &a)]).expect("it starts");
    takes(Duration::from_millis(200), || Peer::connects(gateway.address()).expects_close());
    // The beginning of a handshake makes no difference.
    let mut client = Peer::connects(gateway.address());
    client.sends(b"\x16\x03\x01").rest();
    client.expects_close();
    // A client that only checks whether the port is open has not failed.
    Peer::connects(gateway.address()).closes();
    let failed = || gateway.metrics().sum(|cells| cells.handshakes_failed.get());
    waits_until("the one that had begun to be counted", || failed() == 1);
}

#[test]
fn early_data_is_skipped() {
    let a = certificate(&["a.example"]);
    let gateway = try_secure(ONE, "", &[("a", &a)]).expect("it starts");
    for bytes in [1, 10_000, 16_384] {
        let session = a.client_with_early_data("a.example", bytes);
        let mut client = Peer::connects(gateway.address()).secures(session);
        client.sends(GET).response().has_status(204);
    }
}

#[test]
fn what_cannot_be_understood_does_not_end_in_good_order() {
    let a = certificate(&["a.example"]);
    let gateway = try_secure(ONE, "", &[("a", &a)]).expect("it starts");
    // A part of a hello, and a warning in the middle of it.
    let mut client = Peer::connects(gateway.address());
    let hello = b"\x16\x03\x01\0\x04\x01\0\0\xff\x15\x03\x03\0\x02\x01\x5a";
    let said = client.sends(hello).rest();
    // The end of a close_notify: a warning, number 0.
    assert!(!said.ends_with(b"\x01\0"), "{}", said.escape_ascii());
}

#[test]
fn a_record_that_does_not_end_is_no_request() {
    let a = certificate(&["a.example"]);
    let more = "timeouts: { head: 1500ms, idle: 1500ms }";
    let secure = try_secure(ONE, more, &[("a", &a)]).expect("it starts");
    let clock = gateway("timeouts: { idle: 100ms }\nroutes: [{ respond: 204 }]", &[]);
    let mut client = asks_for(&secure, "a.example", &a).expect("it is the right one");
    // The head of a record of 16 KiB, and then a byte of it now and then.
    client.offers_unsealed(b"\x17\x03\x03\x40\0");
    let is_over = (0..30).any(|_| {
        clock.connects().expects_close();
        client.offers_unsealed(b"x").has_news()
    });
    assert!(is_over, "each byte gives it all its time again");
}

#[test]
fn a_client_that_says_nothing_does_not_hold_up_the_drain() {
    let a = certificate(&["a.example"]);
    let gateway = try_secure(ONE, "timeouts: { handshake: 60s }", &[("a", &a)]).expect("it starts");
    let _silent = Peer::connects(gateway.address());
    waits_until("it to be accepted", || gateway.metrics().sum(|cells| cells.accepted.get()) == 1);
    gateway.drains();
    gateway.waits_for_end();
}

#[test]
fn a_session_is_resumed_by_any_worker() {
    let a = certificate(&["a.example"]);
    let gateway = try_secure(ONE, "workers: 2", &[("a", &a)]).expect("it starts");
    let trusted = Arc::new(a.trusted());
    let mut resumed = 0;
    for _ in 0..8 {
        let session = Certificate::client_with(&trusted, "a.example");
        let mut client = Peer::connects(gateway.address()).secures(session);
        client.sends(GET).response().has_status(204);
        resumed += usize::from(client.has_resumed());
    }
    assert_eq!(resumed, 7);
}

#[test]
fn certificates_are_replaced_without_a_pause() {
    let (old, new) = (certificate(&["a.example"]), certificate(&["a.example"]));
    let gateway = secure(ONE, &[("a", &old)]);
    let mut client = asks_for(&gateway, "a.example", &old).expect("it is the right one");
    gateway.rereads(&Certificate::files(&[("a", &new)])).expect("it can be used");
    assert!(asks_for(&gateway, "a.example", &old).is_none());
    assert!(asks_for(&gateway, "a.example", &new).is_some());
    client.sends(GET).response().has_status(204);
    // What cannot be used changes nothing.
    assert!(gateway.rereads(&Certificate::files(&[])).is_err());
    assert!(asks_for(&gateway, "a.example", &new).is_some());
}

#[test]
fn credentials_that_do_not_fit_keep_the_gateway_from_starting() {
    let (a, b) = (certificate(&["a.example"]), certificate(&["b.example"]));
    let says = |files: &titan_proxy::Files| {
        let text =
            format!("listeners: [{{ address: '127.0.0.1:0', tls: {{ {ONE} }} }}]\nroutes: []");
        let text = text.replace("[]", "[{ prefix: /, respond: 204 }]");
        start_with(&text, &[], files).map(drop).expect_err("it does not start").to_string()
    };
    let mut files = Certificate::files(&[("a", &a)]);
    files.insert("a.key".into(), b.key.clone().into_bytes());
    assert_eq!(says(&files), "a.key cannot be used: it does not match the certificate in a.pem");
    let encrypted = b"-----BEGIN ENCRYPTED PRIVATE KEY-----\n-----END ENCRYPTED PRIVATE KEY-----\n";
    files.insert("a.key".into(), encrypted.to_vec());
    let wanted =
        "a.key cannot be used: its private key is encrypted: decrypt it with `openssl pkey`";
    assert_eq!(says(&files), wanted);
    files.insert("a.pem".into(), b"nothing".to_vec());
    assert_eq!(says(&files), "a.pem cannot be used: it contains no certificate in PEM format");
}

#[test]
fn a_client_that_speaks_http_on_an_https_port_gets_400() {
    let a = certificate(&["a.example"]);
    let gateway = secure(ONE, &[("a", &a)]);
    let mut client = Peer::connects(gateway.address());
    client.sends(GET).response().has_status(400);
    client.expects_close();
    // And what is neither gets no response at all.
    Peer::connects(gateway.address()).sends(b"\0\0\0\0").expects_close();
}

#[test]
fn the_end_is_announced() {
    // A client that sees no announcement takes the end of such a response for an attack.
    let a = certificate(&["a.example"]);
    let upstream = upstream::replies("HTTP/1.1 200 OK\r\n\r\nto the end").then_closes();
    let text = format!("listeners: [{{ address: '127.0.0.1:0', tls: {{ {ONE} }} }}]");
    let gateway = start_with(&text, &[&upstream], &Certificate::files(&[("a", &a)]));
    let gateway = gateway.unwrap_or_else(|error| panic!("{error}"));
    let mut client = asks_for(&gateway, "a.example", &a).expect("it is the right one");
    client.sends("GET / HTTP/1.0\r\n\r\n");
    assert!(client.rest().ends_with(b"to the end"));
    client.expects_close();
}

// field: tls.ciphers
#[test]
fn only_the_named_ciphers_are_agreed_on() {
    let a = certificate(&["a.example"]);
    let named = ["TLS_AES_128_GCM_SHA256", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"];
    let gateway = secure(&format!("{ONE}, ciphers: [{}]", named.join(", ")), &[("a", &a)]);
    for (name, cipher) in titan_config::Cipher::ALL {
        // The key of the certificate is one for ECDSA.
        let is_usable = !name.contains("_RSA_");
        let session = Certificate::client_with(&Arc::new(a.trusted_for_suite(name)), "a.example");
        let served = Peer::connects(gateway.address()).tries_to_secure(session).is_ok();
        assert_eq!(served, named.contains(name), "{name}");
        let everything = secure(ONE, &[("a", &a)]);
        let session = Certificate::client_with(&Arc::new(a.trusted_for_suite(name)), "a.example");
        let served = Peer::connects(everything.address()).tries_to_secure(session).is_ok();
        assert_eq!(served, is_usable, "{name} {cipher:?}");
    }
}

// field: tls.hsts, hsts.max_age, hsts.include_subdomains, hsts.preload
#[test]
fn every_response_over_tls_has_hsts() {
    const FIELD: &str = "Strict-Transport-Security";
    let a = certificate(&["a.example"]);
    let theirs =
        "HTTP/1.1 200 OK\r\nStrict-Transport-Security: max-age=1\r\nContent-Length: 0\r\n\r\n";
    for (hsts, value) in [
        ("365d", "max-age=31536000"),
        ("0s", "max-age=0"),
        ("{ max_age: 1h, include_subdomains: true }", "max-age=3600; includeSubDomains"),
        (
            "{ max_age: 400d, include_subdomains: true, preload: true }",
            "max-age=34560000; includeSubDomains; preload",
        ),
    ] {
        let upstream = upstream::replies(theirs);
        let text = format!(
            "listeners:\n\
             - {{ address: '127.0.0.1:0', tls: {{ {ONE}, hsts: {hsts} }} }}\n\
             - {{ name: plain, address: '127.0.0.1:0' }}\n\
             policies: {{ t: {{ transform: {{ response: {{ headers: {{ set: {{ {FIELD}: max-age=2 }} }} }} }} }} }}\n\
             routes: [{{ path: /own, respond: 204 }}, {{ path: /u, upstream: u }}, \
             {{ path: /t, respond: 204, apply: t }}]"
        );
        let gateway = start_with(&text, &[&upstream], &Certificate::files(&[("a", &a)]));
        let gateway = gateway.unwrap_or_else(|error| panic!("{error}"));
        let get = |client: &mut Peer, path| {
            client.sends(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")).response()
        };
        let mut client = asks_for(&gateway, "a.example", &a).expect("it is the right one");
        for (path, status) in [("/own", 204), ("/u", 200), ("/none", 404), ("/%00", 400)] {
            let response = get(&mut client, path).has_status(status);
            assert_eq!(response.all(FIELD), [value], "{path}");
        }
        assert_eq!(get(&mut client, "/t").all(FIELD), ["max-age=2"]);
        // Without TLS it would mean nothing, and is not added. What an upstream or a transform says passes.
        let mut client = Peer::connects(gateway.address_of("plain"));
        assert!(get(&mut client, "/own").all(FIELD).is_empty());
        assert_eq!(get(&mut client, "/u").all(FIELD), ["max-age=1"]);
        assert_eq!(get(&mut client, "/t").all(FIELD), ["max-age=2"]);
    }
}

// field: listener.redirect_to_https
#[test]
fn a_client_without_tls_is_redirected() {
    let (plain, routes) = ("{ address: '127.0.0.1:0', redirect_to_https:", "[{ respond: 204 }]");
    let starts = |port| gateway(&format!("listeners: [{plain} {port} }}]\nroutes: {routes}"), &[]);
    let to = |gateway: &Gateway, request: &str| {
        let mut client = Peer::connects(gateway.address());
        let method = request.split(' ').next().unwrap();
        let response = client.sends(request).response_to(method);
        (response.status, response.field("Location").unwrap_or_default().to_owned())
    };
    let (usual, other) = (starts("true"), starts("8443"));
    for (request, location) in [
        (
            "GET /a//b/%7Ec?x=1&y=%20 HTTP/1.1\r\nHost: A.example\r\n\r\n",
            "A.example|/a/b/~c?x=1&y=%20",
        ),
        ("GET / HTTP/1.1\r\nHost: a.example:8080\r\n\r\n", "a.example|/"),
        ("GET / HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n", "[::1]|/"),
        ("HEAD /x HTTP/1.0\r\nHost: a.example\r\n\r\n", "a.example|/x"),
        ("POST /x HTTP/1.1\r\nHost: a.example\r\nContent-Length: 2\r\n\r\nhi", "a.example|/x"),
        ("GET http://b.example:1/x HTTP/1.1\r\nHost: b.example:1\r\n\r\n", "b.example|/x"),
        ("GET //evil.example/x HTTP/1.1\r\nHost: a.example\r\n\r\n", "a.example|/evil.example/x"),
    ] {
        let at = |port: &str| format!("https://{}", location.replace('|', port));
        assert_eq!(to(&usual, request), (308, at("")), "{request}");
        assert_eq!(to(&other, request), (308, at(":8443")), "{request}");
    }
    let mut client = Peer::connects(usual.address());
    client.sends("GET / HTTP/1.0\r\n\r\n").response().has_problem(400, "no-host");
    for request in [
        "GET / HTTP/1.0\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost:\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a@evil.example\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a.example/x\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nHost: a.example\r\n\r\n",
    ] {
        assert_eq!(to(&usual, request), (400, String::new()), "{request}");
    }
    starts("false").get("/").has_status(204);
}

/// A gateway in front of one that speaks TLS, with that certificate for itself and those settings.
fn in_front_of(inner: &Gateway, trusted: &Certificate, tls: &str) -> Gateway {
    let text = format!("upstreams: {{ u: {{ endpoints: $0, tls: {tls} }} }}");
    let files = Certificate::files(&[("ca", trusted), ("usual", usual())]);
    let started = start_with(&text, &[&inner.address()], &files);
    started.unwrap_or_else(|error| panic!("{error}"))
}

// field: upstream.tls, upstream_tls.ca
#[test]
fn an_endpoint_is_verified() {
    let (a, b) = (certificate(&["127.0.0.1"]), certificate(&["127.0.0.1"]));
    let inner = secure(ONE, &[("a", &a)]);
    in_front_of(&inner, &a, "{ ca: ca.pem }").get("/").has_status(204);
    in_front_of(&inner, &b, "{ ca: ca.pem }").get("/").has_problem(502, "upstream-tls");
    let inner = gateway("listeners: ['127.0.0.1:0']\nroutes: [{ respond: 204 }]", &[]);
    let files = Certificate::files(&[("ca", &a), ("usual", usual())]);
    let text = "upstreams: { u: { endpoints: $0, tls: { ca: ca.pem } } }";
    let outer =
        start_with(text, &[&inner.address()], &files).unwrap_or_else(|error| panic!("{error}"));
    outer.get("/").has_problem(502, "upstream-tls");
}

// field: upstream_tls.name
#[test]
fn an_endpoint_is_verified_for_the_configured_name() {
    let a = certificate(&["a.example"]);
    let inner = secure(&format!("{ONE}, unknown_name: refuse"), &[("a", &a)]);
    in_front_of(&inner, &a, "{ ca: ca.pem }").get("/").has_problem(502, "upstream-tls");
    in_front_of(&inner, &a, "{ ca: ca.pem, name: A.example }").get("/").has_status(204);
}

// field: upstream_tls.alt_names
#[test]
fn an_endpoint_may_have_one_of_several_names() {
    let ca = authority("endpoints");
    let names = &["dns:a.example", "uri:spiffe://example/A"];
    let own = ca.signs(Owner { names, is_server: true, ..Owner::default() });
    let inner = secure(ONE, &[("a", &own)]);
    let status = |authority: &Authority, tls: &str| {
        let text =
            format!("upstreams: {{ u: {{ endpoints: $0, tls: {{ ca: trusted.pem, {tls} }} }} }}");
        let mut files = Certificate::files(&[("usual", usual())]);
        files.insert("trusted.pem".into(), authority.cert.clone().into_bytes());
        let outer = start_with(&text, &[&inner.address()], &files);
        outer.unwrap_or_else(|error| panic!("{error}")).get("/").status
    };
    for (tls, expected) in [
        ("alt_names: a.example", 204),
        ("alt_names: [b.example, A.example]", 204),
        ("alt_names: 'spiffe://example/A'", 204),
        ("alt_names: [b.example, 'spiffe://example/A']", 204),
        // What is sent is another matter.
        ("name: b.example, alt_names: a.example", 204),
        ("name: a.example, alt_names: b.example", 502),
        ("alt_names: 'spiffe://example/a'", 502),
        ("alt_names: 'spiffe://example/A/b'", 502),
        ("alt_names: 127.0.0.1", 502),
    ] {
        assert_eq!(status(&ca, tls), expected, "{tls}");
    }
    assert_eq!(status(&authority("strangers"), "alt_names: a.example"), 502);
    let late = ca.signs(Owner { names, is_server: true, until: 2001, ..Owner::default() });
    let inner = secure(ONE, &[("a", &late)]);
    let text =
        "upstreams: { u: { endpoints: $0, tls: { ca: trusted.pem, alt_names: a.example } } }";
    let mut files = Certificate::files(&[("usual", usual())]);
    files.insert("trusted.pem".into(), ca.cert.clone().into_bytes());
    let outer = start_with(text, &[&inner.address()], &files);
    outer.unwrap_or_else(|error| panic!("{error}")).get("/").has_problem(502, "upstream-tls");
}

// field: upstream_tls.verify
#[test]
fn any_certificate_is_accepted_only_if_configured() {
    let (a, b) = (certificate(&["a.example"]), certificate(&["b.example"]));
    let inner = secure(ONE, &[("a", &a)]);
    in_front_of(&inner, &b, "{ ca: ca.pem, verify: true }")
        .get("/")
        .has_problem(502, "upstream-tls");
    in_front_of(&inner, &b, "{ verify: false }").get("/").has_status(204);
}

#[test]
fn an_idle_connection_to_an_endpoint_outlives_its_tickets() {
    let a = certificate(&["127.0.0.1"]);
    let inner = secure(ONE, &[("a", &a)]);
    let outer = in_front_of(&inner, &a, "{ ca: ca.pem }");
    let mut client = outer.connects();
    for _ in 0..5 {
        client.sends(GET).response().has_status(204);
    }
    assert_eq!(inner.metrics().sum(|cells| cells.accepted.get()), 1);
    // One that the endpoint has closed is not used again.
    drop(inner);
    client.sends(GET).response().has_status(502);
}

#[test]
fn what_is_trusted_is_replaced_too() {
    let (a, b) = (certificate(&["127.0.0.1"]), certificate(&["127.0.0.1"]));
    let inner = secure(ONE, &[("a", &a)]);
    let outer = in_front_of(&inner, &b, "{ ca: ca.pem }");
    outer.get("/").has_problem(502, "upstream-tls");
    let files = Certificate::files(&[("ca", &a), ("usual", usual())]);
    outer.rereads(&files).expect("they can be used");
    outer.get("/").has_status(204);
}

#[test]
fn large_bodies_go_through_two_sessions() {
    let a = certificate(&["127.0.0.1"]);
    let endpoint = upstream::responds(|request| ok(&String::from_utf8_lossy(&request.body)));
    let text = format!("listeners: [{{ address: '127.0.0.1:0', tls: {{ {ONE} }} }}]");
    let inner = start_with(&text, &[&endpoint], &Certificate::files(&[("a", &a)]));
    let inner = inner.unwrap_or_else(|error| panic!("{error}"));
    let outer = in_front_of(&inner, &a, "{ ca: ca.pem }");
    let mut client = outer.connects();
    for length in [1, 16_000, 16_384, 70_000, 3_000_000] {
        let body: String = (0..length).map(|index| char::from(b'a' + (index % 23) as u8)).collect();
        client
            .sends(format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{body}"));
        client.response().has_body(&body);
    }
}

#[test]
fn a_client_that_is_refused_is_not_read_for_ever() {
    const MUCH: usize = 64 << 20;
    let a = certificate(&["a.example"]);
    let gateway = secure(ONE, &[("a", &a)]);
    let mut client = Peer::connects(gateway.address());
    client.sends(GET).response().has_status(400);
    // What the kernel keeps comes on top of what is read.
    let sent = client.sends_until_blocked(MUCH);
    assert!(sent < MUCH / 4, "{sent} bytes");
}
