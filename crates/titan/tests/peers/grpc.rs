//! gRPC through the gateway: grpc-go on both sides, with the cases of the official interoperability tests.

use crate::gateway::{Gateway, config_to};
use crate::go;
use crate::place::{Folder, own_address};
use crate::program::{Program, output_of};
use crate::tls::certify;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The official service.
struct Server {
    _program: Program,
    address: SocketAddr,
    folder: Folder,
}

impl Server {
    /// Starts it without TLS.
    fn start() -> Server {
        Server::start_in(Folder::new(), &[])
    }

    /// Starts it with a certificate for localhost, `both.pem` in its folder.
    fn start_secure() -> Server {
        let folder = Folder::new();
        certify(&folder, KIND);
        let read = |name| std::fs::read_to_string(folder.path().join(name)).unwrap();
        let both = folder.write("both.pem", read("site.pem") + &read("site.key"));
        Server::start_in(folder, &["-tls", both.to_str().unwrap()])
    }

    fn start_in(folder: Folder, options: &[&str]) -> Server {
        let address = own_address();
        let mut command = Command::new(judge());
        command.arg("serve").args(options).arg(address.to_string());
        let program = Program::start(&mut command, &folder).listens_on(address);
        Server { _program: program, address, folder }
    }

    /// The configuration of a gateway in front of it.
    fn config(&self) -> String {
        config_to(self.address)
            .replace("idle_timeout", "protocol: h2, idle_timeout")
            .replace("upstream: it", "upstream: it, grpc_web: true")
    }
}

/// The kind of key of every certificate here.
const KIND: &[&str] = &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"];

fn judge() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| go::build("grpc"))
}

/// Runs the official cases against a gateway.
fn check(gateway: &Gateway, options: &[&str]) {
    let mut command = Command::new(judge());
    output_of(command.arg("check").args(options).arg(gateway.address().to_string()));
}

#[test]
fn every_case_of_the_interoperability_tests_passes_in_the_clear() {
    let server = Server::start();
    let gateway = Gateway::start(&server.config());
    let before = gateway.footprint();
    check(&gateway, &[]);
    gateway.returns_to(before);
}

#[test]
fn every_case_of_the_interoperability_tests_passes_with_tls_on_both_sides() {
    let server = Server::start_secure();
    let authority = server.folder.path().join("both.pem");
    let tls = format!("protocol: h2, tls: {{ ca: {}, name: localhost }}", authority.display());
    let folder = Folder::new();
    certify(&folder, KIND);
    let listener =
        "{ address: 127.0.0.1:0, tls: { certificates: [{ cert: site.pem, key: site.key }] } }";
    let config = server.config().replace("protocol: h2", &tls).replace("127.0.0.1:0", listener);
    let gateway = Gateway::start_in(folder, &config);
    let trusted = gateway.folder.path().join("site.pem");
    check(&gateway, &["-tls", trusted.to_str().unwrap()]);
}
