//! Servers of Redis, in the foreground.

use crate::place::{Folder, own_address};
use crate::program::{Program, output_of, peer};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What keys are hashed with in the store of these tests.
pub(super) const HASH_KEY: &str = "a key of the fleet";

/// A server; killed when dropped.
pub(super) struct Redis {
    program: Program,
    pub(super) address: SocketAddr,
    arguments: Vec<String>,
    folder: Folder,
}

impl Redis {
    /// One that anybody may use.
    pub(super) fn start() -> Redis {
        Redis::with(own_address(), &[])
    }

    /// One that has what it was told when it is started again.
    pub(super) fn lasting() -> Redis {
        Redis::with(own_address(), &["--appendonly", "yes", "--appendfsync", "always"])
    }

    /// It loses what it was told.
    pub(super) fn lose(&self) {
        fs::remove_dir_all(self.kept()).unwrap();
    }

    /// What it has kept until now, by the names of its files.
    pub(super) fn copy(&self) -> Vec<(OsString, Vec<u8>)> {
        let files = fs::read_dir(self.kept()).unwrap().map(Result::unwrap);
        files.map(|file| (file.file_name(), fs::read(file.path()).unwrap())).collect()
    }

    /// It has kept that and nothing else.
    pub(super) fn restore(&self, copy: &[(OsString, Vec<u8>)]) {
        self.lose();
        fs::create_dir(self.kept()).unwrap();
        copy.iter().for_each(|(name, bytes)| fs::write(self.kept().join(name), bytes).unwrap());
    }

    fn kept(&self) -> PathBuf {
        self.folder.path().join("appendonlydir")
    }

    pub(super) fn replica_of(primary: SocketAddr) -> Redis {
        let (ip, port) = (primary.ip().to_string(), primary.port().to_string());
        let address = own_address();
        // The kernel connects from another loopback address than it listens on.
        let announced = address.ip().to_string();
        let arguments = ["--replicaof", &ip, &port, "--repl-diskless-sync-delay", "0"];
        Redis::with(address, &[&arguments[..], &["--replica-announce-ip", &announced]].concat())
    }

    /// One that is to be a node of a cluster; its other nodes are to reach it at a port of its own.
    pub(super) fn node() -> (Redis, u16) {
        let (address, bus) = (own_address(), own_address().port());
        let (ip, port) = (address.ip().to_string(), bus.to_string());
        let arguments = ["--cluster-enabled", "yes", "--cluster-node-timeout", "500"];
        let reached = ["--cluster-port", &port, "--cluster-announce-ip", &ip];
        let prompt = ["--repl-diskless-sync-delay", "0", "--cluster-allow-replica-migration", "no"];
        (Redis::with(address, &[&arguments[..], &reached, &prompt].concat()), bus)
    }

    /// The same over TLS, by the certificate in the folder, under a name that it announces. `trusted` are the certificates of all.
    pub(super) fn node_named(
        (address, name): (SocketAddr, &str),
        folder: &Folder,
        trusted: &Path,
    ) -> (Redis, u16) {
        let file = |name: &str| folder.path().join(name).display().to_string();
        let (ip, port) = (address.ip().to_string(), address.port().to_string());
        let bus = own_address().port();
        let (cert, key, trusted) =
            (file("site.pem"), file("site.key"), trusted.display().to_string());
        let tls = ["--tls-port", &port, "--port", "0", "--tls-cluster", "yes"];
        let certified =
            ["--tls-cert-file", &cert, "--tls-key-file", &key, "--tls-ca-cert-file", &trusted];
        let (clients, login) = (["--tls-auth-clients", "no"], ["--requirepass", "of-test"]);
        let bus_port = bus.to_string();
        let node =
            ["--cluster-enabled", "yes", "--cluster-port", &bus_port, "--cluster-announce-ip", &ip];
        let named =
            ["--cluster-announce-hostname", name, "--cluster-preferred-endpoint-type", "hostname"];
        let arguments = [&tls[..], &certified, &clients, &login, &node, &named].concat();
        (Redis::with(address, &arguments), bus)
    }

    /// One with TLS, by the certificate in the folder, and a user who may do only what the gateway does.
    pub(super) fn secured(folder: &Folder) -> Redis {
        let file = |name: &str| folder.path().join(name).display().to_string();
        let address = own_address();
        let port = address.port().to_string();
        let rights = "~titan:* +eval +evalsha +get +set +time +zadd +zcard +zrem +zremrangebyscore +pexpire +ping +role +select";
        let user = format!("titan on >of-titan {rights}");
        let mut arguments = vec!["--tls-port", &port, "--tls-auth-clients", "no"];
        let (cert, key) = (file("site.pem"), file("site.key"));
        arguments.extend(["--tls-cert-file", &cert, "--tls-key-file", &key, "--port", "0"]);
        arguments.push("--user");
        arguments.extend(user.split(' '));
        arguments.extend(["--user", "default", "on", ">of-test", "~*", "+@all"]);
        Redis::with(address, &arguments)
    }

    fn with(address: SocketAddr, more: &[&str]) -> Redis {
        let folder = Folder::new();
        let (ip, port) = (address.ip().to_string(), address.port().to_string());
        let own = folder.path().display().to_string();
        let arguments =
            ["--port", &port, "--bind", &ip, "--save", "", "--appendonly", "no", "--dir", &own];
        let arguments: Vec<_> = arguments.iter().chain(more).map(|it| (*it).to_owned()).collect();
        let program = launch(&arguments, &folder, address);
        Redis { program, address, arguments, folder }
    }

    /// The section of the store.
    pub(super) fn store(&self) -> String {
        // Where a machine that runs tests is busy the store may be late, and few tests are about that.
        format!("address: \"redis://{}\", hash_key: \"{HASH_KEY}\", timeout: 100ms", self.address)
    }

    /// It hangs.
    pub(super) fn stop(&self) {
        self.signal(Signal::STOP);
    }

    /// It goes on.
    pub(super) fn resume(&self) {
        self.signal(Signal::CONT);
    }

    pub(super) fn kill(&mut self) {
        self.program.kill();
    }

    pub(super) fn start_again(&mut self) {
        self.program = launch(&self.arguments, &self.folder, self.address);
    }

    /// What it replies to its own client over TLS, with the certificate in the folder.
    pub(super) fn ask_securely(&self, folder: &Folder, command: &[&str]) -> String {
        let mut client = client_to(self.address);
        client.args(["--tls", "--insecure", "--no-auth-warning", "-a", "of-test", "--cacert"]);
        client.arg(folder.path().join("site.pem"));
        String::from_utf8(output_of(client.args(command))).unwrap()
    }

    fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.program.id()).unwrap();
        kill_process(Pid::from_raw(id).unwrap(), signal).unwrap();
    }
}

/// What a server replies to its own client.
pub(super) fn ask_at(address: SocketAddr, command: &[&str]) -> String {
    String::from_utf8(output_of(client_to(address).args(command))).unwrap()
}

fn client_to(address: SocketAddr) -> Command {
    let mut client = peer("redis-cli");
    client.args(["-h", &address.ip().to_string(), "-p", &address.port().to_string()]);
    client
}

fn launch(arguments: &[String], folder: &Folder, address: SocketAddr) -> Program {
    Program::start(peer("redis-server").args(arguments), folder).listens_on(address)
}

/// A sentinel that watches over a primary, and names another as soon as it misses it.
pub(super) fn sentinel(primary: SocketAddr) -> ((Program, Folder), SocketAddr) {
    let (folder, address) = (Folder::new(), own_address());
    let config = format!(
        "port {}\nbind {}\nsentinel monitor fleet {} {} 1\nsentinel down-after-milliseconds fleet 300\n\
         sentinel failover-timeout fleet 2000\n",
        address.port(),
        address.ip(),
        primary.ip(),
        primary.port()
    );
    let file = folder.write("sentinel.conf", config);
    let mut command = peer("redis-server");
    let program = Program::start(command.arg(file).arg("--sentinel"), &folder).listens_on(address);
    ((program, folder), address)
}
