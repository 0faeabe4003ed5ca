//! The gateway as a process of its own.

use crate::place::Folder;
use crate::process;
use crate::program::{Program, output_of};
use crate::wait::until;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A gateway that serves; killed when dropped.
pub(crate) struct Gateway {
    program: Program,
    /// Its TCP listeners in the order of the configuration.
    pub(crate) addresses: Vec<SocketAddr>,
    /// Where its admin interface listens, if it has one on TCP.
    admin: Option<SocketAddr>,
    pub(crate) folder: Folder,
}

/// What a gateway has open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Footprint {
    pub(crate) descriptors: usize,
    /// Memory in bytes.
    pub(crate) resident: u64,
}

impl Gateway {
    /// Starts one with that configuration.
    pub(crate) fn start(config: &str) -> Gateway {
        Gateway::start_in(Folder::new(), config)
    }

    /// Starts one with that configuration, in a folder with the files that it names.
    pub(crate) fn start_in(folder: Folder, config: &str) -> Gateway {
        let file = folder.write(FILE, config);
        let mut command = Command::new(titan());
        command.arg("--config").arg(file).stdout(Stdio::piped());
        command.env("RUNTIME_DIRECTORY", folder.path());
        // Tests compare memory, which huge pages round up by 2 MiB wherever a byte of one is touched.
        command.env("MIMALLOC_ALLOW_THP", "0");
        let mut program = Program::start(&mut command, &folder);
        let mut lines = BufReader::new(program.child().stdout.take().unwrap()).lines();
        let mut addresses = Vec::new();
        loop {
            let line = lines.next().expect("the gateway tells where it listens").unwrap();
            if let Some((_, address)) =
                line.split_once("://").filter(|_| line.starts_with("listening on"))
            {
                // Its name may follow.
                addresses.push(address.split(' ').next().unwrap().parse().unwrap());
            } else if let Some(rest) = line.strip_prefix("admin ") {
                let admin = rest.strip_prefix("on http://").and_then(|it| it.parse().ok());
                return Gateway { program, addresses, admin, folder };
            }
        }
    }

    /// Starts one with two workers that sends everything to `upstream`.
    pub(crate) fn to(upstream: SocketAddr) -> Gateway {
        Gateway::start(&config_to(upstream))
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.addresses[0]
    }

    /// That of its admin interface.
    pub(crate) fn admin(&self) -> SocketAddr {
        self.admin.expect("the configuration has an admin interface on TCP")
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address())
    }

    pub(crate) fn id(&self) -> u32 {
        self.program.id()
    }

    /// What a command of the program says that asks it.
    pub(crate) fn told_by(&self, command: &str) -> String {
        let mut asking = Command::new(titan());
        asking.arg(command).env("RUNTIME_DIRECTORY", self.folder.path());
        String::from_utf8(output_of(&mut asking)).unwrap()
    }

    /// What it tells of itself, so far.
    pub(crate) fn events(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("stderr")).unwrap()
    }

    /// Ends it as a crash would, and keeps its folder.
    pub(crate) fn kill(self) -> Folder {
        let Gateway { mut program, folder, .. } = self;
        program.kill();
        folder
    }

    /// Tells it to drain and stop.
    pub(crate) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Puts another configuration into its file and tells it to read that.
    pub(crate) fn reload(&self, config: &str) {
        self.folder.write(FILE, config);
        self.signal(Signal::HUP);
    }

    fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.program.id()).unwrap();
        kill_process(Pid::from_raw(id).unwrap(), signal).unwrap();
    }

    pub(crate) fn exit_code(&mut self) -> Option<i32> {
        self.program.wait().code()
    }

    /// What it has open while it is idle.
    pub(crate) fn footprint(&self) -> Footprint {
        self.wake_workers();
        self.is_at_rest();
        let id = self.program.id();
        Footprint { descriptors: process::descriptors(id), resident: process::resident(id) }
    }

    /// Waits until nothing is open any more, and compares that with `before`.
    pub(crate) fn returns_to(&self, before: Footprint) {
        self.is_at_rest();
        let now = self.footprint();
        let most = before.descriptors + PIPES;
        assert!(now.descriptors <= most, "{} descriptors, before {before:?}", now.descriptors);
        let most = before.resident + MEMORY;
        assert!(now.resident <= most, "{} bytes of memory, before {before:?}", now.resident);
    }

    /// Waits until it has closed every connection. It has to notice by itself those whose peer has
    /// closed long ago: they wait for it in CLOSE_WAIT.
    pub(crate) fn is_at_rest(&self) {
        let id = self.program.id();
        until("the gateway closes its connections", || process::connections(id) == 0);
    }

    /// The kernel spreads connections over the workers, and a worker opens something on its first.
    pub(crate) fn wake_workers(&self) {
        for _ in 0..32 {
            let mut stream = TcpStream::connect(self.address()).unwrap();
            stream.write_all(b"TRACE /wake HTTP/1.1\r\nConnection: close\r\n\r\n").unwrap();
            stream.read_to_end(&mut Vec::new()).unwrap();
        }
    }
}

/// The program: the one that belongs to this test, or another build of it.
pub(crate) fn titan() -> PathBuf {
    let other = std::env::var_os("TITAN_PROGRAM").map(PathBuf::from);
    other.unwrap_or_else(|| env!("CARGO_BIN_EXE_titan").into())
}

/// The name of its configuration.
const FILE: &str = "titan.yaml";
/// Two ends each of the pipes that a worker keeps, for two workers.
const PIPES: usize = 2 * 2 * 32;
/// What a gateway may keep for later: buffers, scratches, freed pages. Less than what leaks add up to.
const MEMORY: u64 = 64 << 20;

/// The configuration of [`Gateway::to`]; further sections can be appended.
pub(crate) fn config_to(upstream: SocketAddr) -> String {
    format!(
        "workers: 2\nlisteners: [127.0.0.1:0]\nadmin: off\nroutes: [{{ upstream: it }}]\n\
         upstreams: {{ it: {{ endpoints: \"{upstream}\", idle_timeout: 1s }} }}\n"
    )
}
