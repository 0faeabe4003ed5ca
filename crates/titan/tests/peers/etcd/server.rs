//! Members of etcd, in the foreground.

use crate::place::{Folder, own_address};
use crate::program::{Program, output_of, peer};
use crate::wait::eventually;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

/// A member; killed when dropped.
pub(super) struct Etcd {
    program: Program,
    /// Where clients reach it.
    pub(super) address: SocketAddr,
    arguments: Vec<String>,
    folder: Folder,
    /// What its own client is given to reach it.
    access: Vec<String>,
}

impl Etcd {
    /// A cluster of one member.
    pub(super) fn start() -> Etcd {
        Etcd::alone(own_address(), (Folder::new(), "http", &[]))
    }

    /// The same with TLS, by the certificate in the folder.
    pub(super) fn with_tls(folder: Folder, address: SocketAddr) -> Etcd {
        let file = |name: &str| folder.path().join(name).display().to_string();
        let (cert, key) = (file("localhost.pem"), file("localhost.key"));
        let more = ["--cert-file", &cert, "--key-file", &key];
        Etcd::alone(address, (folder, "https", &more))
    }

    fn alone(address: SocketAddr, options: (Folder, &str, &[&str])) -> Etcd {
        let between = own_address();
        Etcd::launch("one", (address, between), &format!("one=http://{between}"), options)
    }

    /// A cluster of three.
    pub(super) fn cluster() -> [Etcd; 3] {
        let places = ["one", "two", "three"].map(|name| (name, (own_address(), own_address())));
        let peers = places.map(|(name, (_, between))| format!("{name}=http://{between}")).join(",");
        let members = places.map(|(name, place)| {
            let (name, peers) = (name.to_owned(), peers.clone());
            // Each waits for the others before it listens.
            std::thread::spawn(move || {
                Etcd::launch(&name, place, &peers, (Folder::new(), "http", &[]))
            })
        });
        members.map(|member| member.join().unwrap())
    }

    fn launch(
        name: &str,
        (address, between): (SocketAddr, SocketAddr),
        peers: &str,
        (folder, scheme, more): (Folder, &str, &[&str]),
    ) -> Etcd {
        let clients = format!("{scheme}://{address}");
        let own = format!("http://{between}");
        let data = folder.path().join("data").display().to_string();
        let mut arguments = vec!["--name", name, "--data-dir", &data];
        arguments.extend(["--listen-client-urls", &clients, "--advertise-client-urls", &clients]);
        arguments.extend(["--listen-peer-urls", &own, "--initial-advertise-peer-urls", &own]);
        arguments.extend(["--initial-cluster", peers, "--logger", "zap", "--log-level", "error"]);
        arguments.extend(more);
        let arguments: Vec<_> = arguments.into_iter().map(str::to_owned).collect();
        let program = run(&arguments, &folder, address);
        let mut access = vec!["--endpoints".to_owned(), clients];
        if scheme == "https" {
            let authority = folder.path().join("ca.pem").display().to_string();
            access.extend(["--cacert".to_owned(), authority]);
        }
        let etcd = Etcd { program, address, arguments, folder, access };
        eventually("it has a leader", || etcd.try_ctl(&["get", "x"]));
        etcd
    }

    /// What its own client says.
    pub(super) fn ctl(&self, command: &[&str]) -> String {
        String::from_utf8(output_of(&mut self.client(command))).unwrap()
    }

    fn try_ctl(&self, command: &[&str]) -> Option<()> {
        self.client(command).output().unwrap().status.success().then_some(())
    }

    fn client(&self, command: &[&str]) -> Command {
        let mut client = peer("etcdctl");
        client.env("ETCDCTL_API", "3").args(&self.access).args(command);
        client
    }

    pub(super) fn put(&self, key: &str, value: &str) {
        // A cluster that has lost a member may need another leader first.
        eventually("it is put", || self.try_ctl(&["put", "--", key, value]));
    }

    pub(super) fn delete(&self, key: &str) {
        assert_eq!(self.ctl(&["del", "--", key]).trim(), "1");
    }

    /// Puts them all at one revision.
    pub(super) fn put_at_once(&self, keys: &[(String, String)]) {
        let puts = keys.iter().map(|(key, value)| format!("put {key} \"{value}\"\n"));
        let mut client = self.client(&["txn"]);
        client.stdin(Stdio::piped()).stdout(Stdio::null());
        let mut client = client.spawn().unwrap();
        let text = format!("\n{}\n\n", puts.collect::<String>());
        client.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        assert!(client.wait().unwrap().success());
    }

    /// Its revision.
    pub(super) fn revision(&self) -> String {
        let status = self.ctl(&["endpoint", "status", "--write-out", "json"]);
        let (_, rest) = status.split_once("\"revision\":").unwrap();
        rest.split(',').next().unwrap().to_owned()
    }

    /// Has its own client log in from now on.
    pub(super) fn log_in(&mut self, user: &str) {
        self.access.extend(["--user".to_owned(), user.to_owned()]);
    }

    pub(super) fn kill(&mut self) {
        self.program.kill();
    }

    /// Starts it again where it was.
    pub(super) fn start_again(&mut self) {
        self.program = run(&self.arguments, &self.folder, self.address);
        eventually("it has a leader", || self.try_ctl(&["get", "x"]));
    }

    /// Starts it again where its clients do not look for it.
    pub(super) fn start_elsewhere(&mut self) {
        let (before, elsewhere) = (self.address.to_string(), own_address());
        let moved = |it: &String| it.replace(&before, &elsewhere.to_string());
        let arguments: Vec<_> = self.arguments.iter().map(moved).collect();
        self.access = self.access.iter().map(moved).collect();
        self.program = run(&arguments, &self.folder, elsewhere);
        eventually("it has a leader", || self.try_ctl(&["get", "x"]));
    }

    /// After that, starts it where it was.
    pub(super) fn come_back(&mut self) {
        self.access = vec!["--endpoints".to_owned(), format!("http://{}", self.address)];
        self.start_again();
    }

    /// What it has stored while it does not run, under another name.
    pub(super) fn back_up(&self) {
        let (from, to) = (self.folder.path().join("data"), self.folder.path().join("backup"));
        output_of(peer("cp").arg("-a").arg(from).arg(to));
    }

    /// Has it store what was backed up, while it does not run.
    pub(super) fn restore(&self) {
        let (from, to) = (self.folder.path().join("backup"), self.folder.path().join("data"));
        fs::remove_dir_all(&to).unwrap();
        fs::rename(from, to).unwrap();
    }

    /// It hangs.
    pub(super) fn stop(&self) {
        self.signal(Signal::STOP);
    }

    /// It goes on.
    pub(super) fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.program.id()).unwrap();
        kill_process(Pid::from_raw(id).unwrap(), signal).unwrap();
    }
}

fn run(arguments: &[String], folder: &Folder, address: SocketAddr) -> Program {
    Program::start(peer("etcd").args(arguments), folder).listens_on(address)
}
