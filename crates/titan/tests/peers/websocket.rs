//! WebSockets, as Python's `websockets` sees them on both sides of the gateway, and `h2` with `wsproto` over
//! HTTP/2 (RFC 8441).
//!
//! Autobahn's test suite is not among the peers: what is published of it runs under Python 2 alone, which
//! Debian has no more. Of what it judges the gateway could only spoil the bytes; everything else is between
//! client and server.

use crate::gateway::{Gateway, config_to};
use crate::place::{Folder, own_address};
use crate::process::raise_descriptors;
use crate::program::{Program, output_of, python};
use crate::tls::certify;
use std::io::{BufRead, BufReader, Lines};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

const TUNNELS: usize = 1000;

/// What a tunnel may cost while nothing moves in it.
const MEMORY: u64 = 20 << 10;

/// `websockets` as an upstream.
struct Server {
    _program: Program,
    address: SocketAddr,
    folder: Folder,
}

/// A client that keeps a tunnel until the gateway stops.
struct Stayer {
    program: Program,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Server {
    fn start() -> Server {
        Server::start_in(Folder::new(), None, &[])
    }

    /// Starts it with a certificate for localhost, `both.pem` in its folder, and with what it agrees to by ALPN.
    fn start_secure(protocols: &[&str]) -> Server {
        let folder = Folder::new();
        certify(&folder, KIND);
        let read = |name| std::fs::read_to_string(folder.path().join(name)).unwrap();
        let both = folder.write("both.pem", read("site.pem") + &read("site.key"));
        Server::start_in(folder, Some(both), protocols)
    }

    fn start_in(folder: Folder, certificate: Option<PathBuf>, protocols: &[&str]) -> Server {
        let address = own_address();
        let mut command = script("serve.py");
        command.arg(address.to_string()).args(certificate).args(protocols);
        let program = Program::start(&mut command, &folder).listens_on(address);
        Server { _program: program, address, folder }
    }

    /// The configuration of a gateway in front of it, which speaks TLS with it if told so.
    fn config(&self, is_secure: bool) -> String {
        let authority = self.folder.path().join("both.pem");
        let tls = format!("tls: {{ ca: {}, name: localhost }}, idle_timeout", authority.display());
        let config = config_to(self.address);
        if is_secure { config.replace("idle_timeout", &tls) } else { config }
    }
}

/// The kind of key of every certificate here.
const KIND: &[&str] = &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"];

impl Stayer {
    fn start(gateway: &Gateway, name: &str, place: &str) -> Stayer {
        let mut command = script(name);
        command.args(["stay", place]).stdout(Stdio::piped());
        let mut program = Program::start(&mut command, &gateway.folder);
        let lines = BufReader::new(program.child().stdout.take().unwrap()).lines();
        Stayer { program, lines }
    }

    fn says(&mut self, beginning: &str) {
        let line = self.lines.next().unwrap_or_else(|| panic!("{}", self.program.wait()));
        let line = line.unwrap();
        assert!(line.starts_with(beginning), "{line}");
    }
}

fn script(name: &str) -> Command {
    python("websocket", name, &["websockets", "h2", "wsproto"])
}

/// Both clients' cases against a plain listener.
fn check(gateway: &Gateway) {
    let before = gateway.footprint();
    let address = gateway.address().to_string();
    output_of(script("over_h1.py").args(["check", &format!("ws://{address}/")]));
    output_of(script("over_h2.py").args(["check", &address]));
    gateway.returns_to(before);
}

/// The same against a listener that speaks TLS.
fn check_secure(config: &str) {
    let folder = Folder::new();
    certify(&folder, KIND);
    let listener =
        "{ address: 127.0.0.1:0, tls: { certificates: [{ cert: site.pem, key: site.key }] } }";
    let gateway = Gateway::start_in(folder, &config.replace("127.0.0.1:0", listener));
    let authority = gateway.folder.path().join("site.pem");
    let url = format!("wss://localhost:{}/", gateway.address().port());
    output_of(script("over_h1.py").args(["check", &url]).arg(&authority));
    let address = gateway.address().to_string();
    output_of(script("over_h2.py").args(["check", &address]).arg(&authority));
}

#[test]
fn nothing_is_lost_in_the_clear() {
    let server = Server::start();
    check(&Gateway::start(&server.config(false)));
}

#[test]
fn nothing_is_lost_with_tls_towards_clients() {
    let server = Server::start();
    check_secure(&server.config(false));
}

#[test]
fn nothing_is_lost_with_tls_towards_the_server() {
    let server = Server::start_secure(&[]);
    check(&Gateway::start(&server.config(true)));
}

#[test]
fn nothing_is_lost_with_tls_on_both_sides() {
    let server = Server::start_secure(&[]);
    check_secure(&server.config(true));
}

#[test]
fn an_endpoint_that_likes_http_2_better_is_asked_over_http_1() {
    let server = Server::start_secure(&["h2", "http/1.1"]);
    let config = server.config(true).replace("idle_timeout", "protocol: auto, idle_timeout");
    let gateway = Gateway::start(&config);
    let url = format!("ws://{}/", gateway.address());
    output_of(script("over_h1.py").args(["crowd", &url, "10", &gateway.id().to_string()]));
}

#[test]
fn a_thousand_tunnels_at_once_cost_little() {
    raise_descriptors();
    let server = Server::start();
    let gateway = Gateway::start(&server.config(false));
    let before = gateway.footprint();
    let url = format!("ws://{}/", gateway.address());
    let (count, process) = (TUNNELS.to_string(), gateway.id().to_string());
    let told = output_of(script("over_h1.py").args(["crowd", &url, &count, &process]));
    let each: u64 = String::from_utf8(told).unwrap().trim().parse().unwrap();
    println!("{each} bytes for each tunnel");
    assert!(each <= MEMORY, "{each} bytes for each tunnel");
    gateway.returns_to(before);
}

/// Stops a gateway in which a client has a tunnel.
fn stop_under(client: &str, place: impl Fn(SocketAddr) -> String) {
    const DRAIN: Duration = Duration::from_secs(3);
    let server = Server::start();
    let config = server.config(false) + "timeouts: { drain: 3s }\n";
    let mut gateway = Gateway::start(&config);
    let address = gateway.address();
    let mut stayer = Stayer::start(&gateway, client, &place(address));
    stayer.says("open");
    let begin = Instant::now();
    gateway.terminate();
    // Messages have gone both ways after the last connection was accepted.
    stayer.says("still open");
    stayer.says("closed");
    assert!(begin.elapsed() >= DRAIN, "cut after {:?}", begin.elapsed());
    assert_eq!(gateway.exit_code(), Some(0));
}

#[test]
fn a_tunnel_is_cut_when_the_drain_is_over_and_not_before() {
    stop_under("over_h1.py", |address| format!("ws://{address}/"));
}

#[test]
fn a_tunnel_over_http_2_is_cut_when_the_drain_is_over_and_not_before() {
    stop_under("over_h2.py", |address| address.to_string());
}
