//! HAProxy in front of the gateway, with the PROXY protocol, and behind it.

use crate::gateway::{Gateway, config_to};
use crate::go;
use crate::place::{Folder, own_address};
use crate::program::{Program, output_of, peer};
use crate::upstream;
use crate::wait::until;
use serde_json::Value;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};

/// A HAProxy with one frontend, named by its address.
pub(crate) struct HaProxy {
    _program: Program,
    pub(crate) address: SocketAddr,
    _folder: Folder,
}

impl HaProxy {
    /// `mode` is `tcp` or `http`; `rest` goes on behind the frontend's `bind`.
    fn start(mode: &str, rest: &str) -> HaProxy {
        HaProxy::start_with("", mode, rest)
    }

    /// One that speaks HTTP/2 alone, and HTTP/1.1 with `server`.
    pub(crate) fn to_h2(server: SocketAddr) -> HaProxy {
        let rest = format!("  default_backend back\nbackend back\n  server s {server}\n");
        HaProxy::start_with("proto h2", "http", &rest)
    }

    fn start_with(how: &str, mode: &str, rest: &str) -> HaProxy {
        let (address, folder) = (own_address(), Folder::new());
        let config = format!(
            "global\n  maxconn 256\n\
             defaults\n  mode {mode}\n  timeout connect 5s\n  timeout client 30s\n  timeout server 30s\n\
             frontend front\n  bind {address} {how}\n{rest}"
        );
        let file = folder.write("haproxy.cfg", config);
        let mut command = peer("haproxy");
        command.arg("-db").arg("-f").arg(file);
        let program = Program::start(&mut command, &folder).listens_on(address);
        HaProxy { _program: program, address, _folder: folder }
    }

    pub(crate) fn to(mode: &str, server: SocketAddr, options: &str) -> HaProxy {
        let rest = format!("  default_backend back\nbackend back\n  server s {server} {options}\n");
        HaProxy::start(mode, &rest)
    }
}

/// What the judge sees of a request that comes from that address.
fn seen_from(client: &str, url: &str) -> Value {
    let mut curl = peer("curl");
    let limits = ["-q", "-sS", "--fail-with-body", "--max-time", "60", "--noproxy", "*"];
    let response = output_of(curl.args(limits).args(["--interface", client, "-d", "body", url]));
    serde_json::from_slice(&response).unwrap()
}

/// A gateway behind balancers that speak the PROXY protocol.
fn expecting_a_header(upstream: SocketAddr) -> Gateway {
    let expecting = "listeners: [{ address: 127.0.0.1:0, proxy_protocol: { from: [127.0.0.1] } }]";
    Gateway::start(&config_to(upstream).replace("listeners: [127.0.0.1:0]", expecting))
}

#[test]
fn the_client_behind_a_balancer_is_known_by_its_proxy_header() {
    let server = go::Server::start();
    let gateway = expecting_a_header(server.address);
    for mode in ["tcp", "http"] {
        for version in ["send-proxy", "send-proxy-v2"] {
            let balancer = HaProxy::to(mode, gateway.address(), version);
            for client in ["127.9.8.7", "127.9.8.6"] {
                let seen = seen_from(client, &format!("http://{}/a", balancer.address));
                let told = &seen["Header"]["X-Forwarded-For"];
                assert_eq!(told, &serde_json::json!([client]), "{mode}, {version}");
                assert_eq!(seen["BodyLength"], 4, "{mode}, {version}");
            }
        }
    }
}

#[test]
fn a_health_check_is_the_balancers_own_request() {
    let checks = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&checks);
    let upstream = upstream::serve(TcpListener::bind(own_address()).unwrap(), move |request| {
        if request.head.starts_with("GET /check ") {
            noted.lock().unwrap().push(request.field("X-Forwarded-For").unwrap().to_owned());
        }
        String::new()
    });
    let gateway = expecting_a_header(upstream);
    for version in ["send-proxy", "send-proxy-v2"] {
        checks.lock().unwrap().clear();
        let rest = format!(
            "  default_backend back\nbackend back\n  option httpchk\n  \
             http-check send meth GET uri /check ver HTTP/1.1 hdr Host a\n  \
             server s {} {version} check inter 50ms\n",
            gateway.address()
        );
        let _balancer = HaProxy::start("http", &rest);
        until("the balancer checks", || checks.lock().unwrap().len() >= 2);
        // It speaks for itself: LOCAL in version 2, UNKNOWN in version 1.
        let seen = checks.lock().unwrap();
        assert!(seen.iter().all(|client| client == "127.0.0.1"), "{version}: {seen:?}");
    }
}

#[test]
fn haproxy_is_an_upstream_like_others() {
    let server = go::Server::start();
    let behind = HaProxy::to("http", server.address, "");
    let gateway = Gateway::to(behind.address);
    let seen = seen_from("127.9.8.7", &gateway.url("/a?b"));
    assert_eq!(seen["Target"], "/a?b");
    assert_eq!(seen["BodyLength"], 4);
    assert_eq!(seen["Header"]["X-Forwarded-For"][0], "127.9.8.7");
}

#[test]
fn responses_that_haproxy_makes_itself_pass() {
    let rest = "  http-request return status 418 content-type text/plain lf-string \"%[path]\"\n";
    let behind = HaProxy::start("http", rest);
    let gateway = Gateway::to(behind.address);
    let mut curl = peer("curl");
    let limits = ["-q", "-sS", "--max-time", "60", "--noproxy", "*", "-w", " %{http_code}"];
    let response = output_of(curl.args(limits).arg(gateway.url("/tea")));
    assert_eq!(String::from_utf8(response).unwrap(), "/tea 418");
}
