//! HTTP/2 as others see it: h2spec judges the frames, curl, nghttp and h2load are clients, nginx, HAProxy and
//! net/http endpoints.

use crate::curl::{Request, to};
use crate::gateway::{Gateway, config_to};
use crate::go;
use crate::haproxy::HaProxy;
use crate::nginx::{LENGTHS, Nginx, pattern};
use crate::place::Folder;
use crate::program::{output_of, peer};
use crate::tls::certify;
use std::net::SocketAddr;

/// A gateway with that listener, which speaks that protocol with `upstream`.
fn gateway(listener: &str, protocol: &str, upstream: SocketAddr) -> Gateway {
    let folder = Folder::new();
    certify(&folder, &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]);
    let config = config_to(upstream)
        .replace("[127.0.0.1:0]", &format!("[{{ address: 127.0.0.1:0, {listener} }}]"))
        .replace("idle_timeout", &format!("protocol: {protocol}, idle_timeout"));
    Gateway::start_in(folder, &config)
}

const CLEAR: &str = "protocols: [h1, h2]";
const CLEAR_H2: &str = "protocols: [h2]";
const SECURE: &str = "tls: { certificates: [{ cert: site.pem, key: site.key }] }";

/// h2spec against a gateway: everything it knows, and nothing may fail.
fn h2spec(gateway: &Gateway, options: &[&str]) {
    let address = gateway.address();
    let mut command = peer("h2spec");
    command.args(["--strict", "-h", &address.ip().to_string(), "-p", &address.port().to_string()]);
    let output = command.args(options).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let sum = text.lines().find(|line| line.contains(" tests, ")).unwrap_or_default();
    let is_passed = sum.starts_with("146 tests, 146 passed, 0 skipped, 0 failed");
    assert!(is_passed && output.status.success(), "{text}");
}

#[test]
fn h2spec_finds_nothing_in_clear_text() {
    let server = go::Server::start();
    for protocol in ["h1", "h2"] {
        // With HTTP/1.1 beside it a client that begins otherwise gets its response in that.
        h2spec(&gateway(CLEAR_H2, protocol, server.address), &[]);
    }
}

#[test]
fn h2spec_finds_nothing_over_tls() {
    let server = go::Server::start();
    for protocol in ["h1", "h2"] {
        h2spec(&gateway(SECURE, protocol, server.address), &["-t", "-k"]);
    }
}

/// A request of curl in HTTP/2, over TLS or without.
fn curl(gateway: &Gateway, is_secure: bool) -> Request {
    let port = gateway.address().port();
    if !is_secure {
        return to(&gateway.url("")).arg("--http2-prior-knowledge");
    }
    let authority = gateway.folder.path().join("site.pem");
    let resolve = format!("localhost:{port}:127.0.0.1");
    let request = to(&format!("https://localhost:{port}"));
    request.args(["--http2", "--cacert", authority.to_str().unwrap(), "--resolve", &resolve])
}

#[test]
fn curl_is_served_in_every_combination() {
    let server = go::Server::start();
    let folder = Folder::new();
    let file = folder.write("source", pattern(3_000_001));
    let data = format!("@{}", file.display());
    for protocol in ["h1", "h2"] {
        for (listener, is_secure) in [(CLEAR, false), (SECURE, true)] {
            let gateway = gateway(listener, protocol, server.address);
            let response = curl(&gateway, is_secure).get("/a?b");
            assert!(response.heads().starts_with("HTTP/2 200"), "{response:?}");
            let seen = response.seen();
            let wanted = if protocol == "h1" { "HTTP/1.1" } else { "HTTP/2.0" };
            assert_eq!((&seen["Proto"], &seen["Target"]), (&wanted.into(), &"/a?b".into()));
            // Declared and not; neither is cut or held up.
            let upload = curl(&gateway, is_secure).args(["--data-binary", &data]).get("/");
            assert_eq!(upload.seen()["BodyLength"], 3_000_001);
            let upload = curl(&gateway, is_secure).args(["-T", "-"]).input(&file).get("/");
            assert_eq!(upload.seen()["BodyLength"], 3_000_001);
            let mirrored = curl(&gateway, is_secure).args(["--data-binary", &data]).get("/mirror");
            assert!(mirrored.body == pattern(3_000_001), "{} bytes", mirrored.body.len());
            assert_eq!(curl(&gateway, is_secure).arg("-I").get("/length?n=1000").status(), 200);
            assert_eq!(curl(&gateway, is_secure).get("/status?code=304").status(), 304);
            let hints = curl(&gateway, is_secure).get("/hints");
            assert!(hints.heads().starts_with("HTTP/2 103"), "{hints:?}");
            assert_eq!(curl(&gateway, is_secure).get("/abort?length").code, Some(92));
        }
    }
}

#[test]
fn a_client_that_knows_no_http2_is_served_beside() {
    let server = go::Server::start();
    let gateway = gateway(CLEAR, "h2", server.address);
    for version in ["--http1.1", "--http1.0"] {
        let response = to(&gateway.url("")).arg(version).get("/a");
        assert!(response.heads().starts_with("HTTP/1.1 200"), "{response:?}");
    }
    // Asked to upgrade in clear text the gateway goes on as it was.
    let response = to(&gateway.url("")).arg("--http2").get("/a");
    assert!(response.heads().starts_with("HTTP/1.1 200"), "{response:?}");
}

#[test]
fn nghttp_sends_trailers_and_many_requests_at_once() {
    let server = go::Server::start();
    for protocol in ["h1", "h2"] {
        let gateway = gateway(CLEAR, protocol, server.address);
        let folder = Folder::new();
        let file = folder.write("source", pattern(300_000));
        let mut nghttp = peer("nghttp");
        nghttp.args(["--trailer", "x-sum: 1", "--no-content-length", "-d"]).arg(&file);
        let seen = output_of(nghttp.arg(gateway.url("/")));
        let seen: serde_json::Value = serde_json::from_slice(&seen).unwrap();
        assert_eq!(seen["Trailer"], serde_json::json!({ "X-Sum": ["1"] }), "{seen}");
        assert_eq!(seen["BodyLength"], 300_000);
        let mut nghttp = peer("nghttp");
        nghttp.args(["-m", "50"]).arg(gateway.url("/length?n=100000"));
        assert_eq!(output_of(&mut nghttp).len(), 50 * 100_000);
    }
}

#[test]
fn h2load_is_content() {
    let nginx = Nginx::start_h2("keepalive_requests 1000; location / { return 200 'hello\n'; }");
    let old = Nginx::start("keepalive_requests 1000; location / { return 200 'hello\n'; }");
    for (protocol, upstream) in [("h1", old.address), ("h2", nginx.address)] {
        for listener in [CLEAR, SECURE] {
            let gateway = gateway(listener, protocol, upstream);
            let before = gateway.footprint();
            let scheme = if listener == SECURE { "https" } else { "http" };
            let mut h2load = peer("h2load");
            h2load.args(["-n", "10000", "-c", "10", "-m", "100"]);
            h2load.arg(format!("{scheme}://{}/", gateway.address()));
            let output = String::from_utf8(output_of(&mut h2load)).unwrap();
            let case = format!("{protocol} {listener}: {output}");
            assert!(output.contains(" 10000 succeeded, 0 failed, 0 errored, 0 timeout"), "{case}");
            assert!(output.contains("status codes: 10000 2xx, 0 3xx, 0 4xx, 0 5xx"), "{case}");
            gateway.returns_to(before);
        }
    }
}

#[test]
fn nginx_is_an_endpoint_of_http2() {
    let nginx = Nginx::start_h2("location /gone { return 404; }");
    let gateway = gateway(CLEAR, "h2", nginx.address);
    for length in LENGTHS {
        nginx.file(&length.to_string(), &pattern(length));
        let response = curl(&gateway, false).get(&format!("/files/{length}"));
        assert_eq!(response.status(), 200);
        assert!(response.body == pattern(length), "{length}: {} bytes", response.body.len());
    }
    assert_eq!(curl(&gateway, false).get("/gone").status(), 404);
    assert_eq!(to(&gateway.url("")).get("/gone").status(), 404);
}

#[test]
fn haproxy_is_an_endpoint_of_http2() {
    let server = go::Server::start();
    let behind = HaProxy::to_h2(server.address);
    let gateway = gateway(CLEAR, "h2", behind.address);
    let seen = curl(&gateway, false).args(["-d", "body"]).get("/a?b").seen();
    assert_eq!((&seen["Target"], &seen["BodyLength"]), (&"/a?b".into(), &4.into()));
    let folder = Folder::new();
    let file = folder.write("source", pattern(3_000_001));
    let data = format!("@{}", file.display());
    let mirrored = curl(&gateway, false).args(["--data-binary", &data]).get("/mirror");
    assert!(mirrored.body == pattern(3_000_001), "{} bytes", mirrored.body.len());
}
