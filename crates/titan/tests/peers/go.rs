//! Go's net/http on both sides of the gateway: an independent parser checks every message.

use crate::gateway::{Gateway, config_to};
use crate::place::{Folder, own_address};
use crate::program::{Program, output_of, peer};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The judge as an upstream.
pub(crate) struct Server {
    program: Program,
    pub(crate) address: SocketAddr,
    folder: Folder,
}

impl Server {
    pub(crate) fn start() -> Server {
        let (address, folder) = (own_address(), Folder::new());
        Server { program: launch(address, &folder), address, folder }
    }

    /// Ends it as a crash would.
    pub(crate) fn kill(&mut self) {
        self.program.kill();
    }

    /// Starts it anew where it was.
    pub(crate) fn restart(&mut self) {
        self.program = launch(self.address, &self.folder);
    }
}

fn launch(address: SocketAddr, folder: &Folder) -> Program {
    let mut command = Command::new(judge());
    command.arg("serve").arg(address.to_string());
    Program::start(&mut command, folder).listens_on(address)
}

fn judge() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| build("gohttp"))
}

/// Builds the Go program in that folder next to this file. To be called once for each.
pub(crate) fn build(name: &str) -> PathBuf {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers").join(name);
    let mut build = peer("go");
    // Without libraries, so that it runs where there is nothing else.
    build.current_dir(source).env("GOTOOLCHAIN", "local").env("CGO_ENABLED", "0");
    build.args(["build", "-o"]).arg(&program);
    output_of(build.arg("."));
    program
}

/// Cases that speak of nothing that HTTP/1.1 has alone.
const OF_ANY_VERSION: &[&str] = &[
    "head-has-a-length-and-no-body",
    "no-content-and-not-modified",
    "options-asterisk",
    "post-with-length",
    "post-empty",
    "post-trailers",
    "response-large",
    "response-trailers",
    "expect-continue",
    "early-hints",
    "early-answer-to-an-upload",
    "cut-off-answers-look-cut-off",
    "connection-is-kept",
    "both-directions-at-once",
    "large-both-ways",
    "many-at-once-are-not-mixed-up",
];

#[test]
fn net_http_finds_nothing_in_http2_on_either_side() {
    let server = Server::start();
    for (check, protocol) in [("check-h2", "h1"), ("check-h2", "h2"), ("check", "h2")] {
        let config = config_to(server.address)
            .replace("idle_timeout", &format!("protocol: {protocol}, idle_timeout"));
        let gateway = Gateway::start(&config);
        let before = gateway.footprint();
        // net/http declares a length beside trailers in HTTP/2; in HTTP/1.1 that leaves no room for them.
        let is_possible = |case: &&&str| check == "check-h2" || **case != "response-trailers";
        let cases = OF_ANY_VERSION.iter().filter(is_possible);
        output_of(Command::new(judge()).args([check, &gateway.url("")]).args(cases));
        gateway.returns_to(before);
    }
}

#[test]
fn net_http_finds_nothing_to_complain_about() {
    let server = Server::start();
    let gateway = Gateway::to(server.address);
    let before = gateway.footprint();
    output_of(Command::new(judge()).args(["check", &gateway.url("")]));
    gateway.returns_to(before);
}
