//! Responses that come bit by bit: server-sent events and long polling. Each bit is there before the next is
//! sent, so that nothing can be held back unnoticed.

use crate::client::Client;
use crate::gateway::{Gateway, config_to};
use crate::go;
use crate::place::Folder;
use crate::program::{Program, peer};
use crate::tls::certify;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

const EVENTS: usize = 100;

/// Of a length that the gateway moves through a pipe where it can.
const LONG: usize = 2000;

/// A gateway in front of `server` with two listeners, the second one with TLS.
fn gateway(server: &go::Server, protocol: &str) -> Gateway {
    let folder = Folder::new();
    certify(&folder, &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]);
    let listeners = "listeners: [127.0.0.1:0, { address: 127.0.0.1:0, \
                     tls: { certificates: [{ cert: site.pem, key: site.key }] } }]";
    let config = config_to(server.address)
        .replace("listeners: [127.0.0.1:0]", listeners)
        .replace("idle_timeout", &format!("protocol: {protocol}, idle_timeout"));
    Gateway::start_in(folder, &config)
}

/// Every way to `path` through gateways before `server`: what curl has to be told.
fn each_way(server: &go::Server, mut go: impl FnMut(&Gateway, &str, &[String])) {
    for protocol in ["h1", "h2"] {
        let gateway = gateway(server, protocol);
        let [plain, secure] = [0, 1].map(|at| gateway.addresses[at].port());
        let authority = gateway.folder.path().join("site.pem").display().to_string();
        for (version, port) in [
            ("--http1.1", plain),
            ("--http2-prior-knowledge", plain),
            ("--http1.1", secure),
            ("--http2", secure),
        ] {
            let scheme = if port == plain { "http" } else { "https" };
            let base = format!("{scheme}://localhost:{port}");
            let resolve = format!("localhost:{port}:127.0.0.1");
            let arguments = [version, "--cacert", &authority, "--resolve", &resolve, &base];
            let name = format!("{version}-{scheme}-{protocol}").replace("--", "");
            go(&gateway, &name, &arguments.map(str::to_owned));
        }
    }
}

/// curl on its way, and what it has got so far.
struct Reader {
    program: Program,
    lines: BufReader<std::process::ChildStdout>,
}

impl Reader {
    fn start(gateway: &Gateway, arguments: &[String], path: &str) -> Reader {
        let (base, arguments) = arguments.split_last().unwrap();
        let mut curl = peer("curl");
        curl.args(["-q", "-sSN", "--max-time", "60", "--noproxy", "*"]).args(arguments);
        curl.arg(format!("{base}{path}")).stdout(Stdio::piped());
        let mut program = Program::start(&mut curl, &gateway.folder);
        let lines = BufReader::new(program.child().stdout.take().unwrap());
        Reader { program, lines }
    }

    /// The next line that is data.
    fn data(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert_ne!(self.lines.read_line(&mut line).unwrap(), 0, "{}", self.program.wait());
            if let Some(data) = line.strip_prefix("data: ") {
                return data.trim().to_owned();
            }
        }
    }
}

/// The other channel: tells the server itself what has been seen.
fn tell(server: &mut Client, key: &str) {
    let head = format!("GET /seen?key={key} HTTP/1.1\r\nHost: a\r\n\r\n");
    server.send(head.as_bytes()).unwrap();
    assert_eq!(server.response().unwrap().status, 200);
}

#[test]
fn an_event_is_there_before_the_next_one_is_sent() {
    let server = go::Server::start();
    let mut direct = Client::connect(server.address).unwrap();
    for size in [0, LONG] {
        each_way(&server, |gateway, name, arguments| {
            let path = format!("/events?count={EVENTS}&size={size}&key={name}-{size}");
            let mut reader = Reader::start(gateway, arguments, &path);
            for number in 1..=EVENTS {
                assert_eq!(reader.data(), number.to_string(), "{name}");
                // With the last one curl has all that was declared, and goes.
                if number < EVENTS {
                    tell(&mut direct, &format!("{name}-{size}"));
                }
            }
            assert!(reader.program.wait().success(), "{name}");
        });
    }
}

#[test]
fn a_poll_gets_a_response_when_there_is_news() {
    let server = go::Server::start();
    let mut direct = Client::connect(server.address).unwrap();
    each_way(&server, |gateway, name, arguments| {
        let mut reader = Reader::start(gateway, arguments, &format!("/poll?key={name}"));
        // That is taken when the request has come.
        tell(&mut direct, name);
        let mut response = String::new();
        reader.lines.read_line(&mut response).unwrap();
        assert_eq!(response, "now", "{name}");
        assert!(reader.program.wait().success(), "{name}");
    });
}
