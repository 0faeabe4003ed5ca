//! The endpoints of one gateway: processes that fail as they are told.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use titan_bench::launch::{self, free_address};
use titan_bench::programs::go_build;
use tokio::net::UdpSocket;
use tokio::task::{JoinHandle, spawn_local};

use crate::case::{Fault, Protocol};

/// How many there are; the last one comes in when a name changes.
pub const COUNT: usize = 4;
const START_LIMIT: Duration = Duration::from_secs(20);

/// One endpoint, which runs until this value is dropped.
pub struct Endpoint {
    program: PathBuf,
    protocol: Protocol,
    pub name: u8,
    pub address: SocketAddr,
    child: Child,
    reports: SocketAddr,
    log: PathBuf,
    /// When each request came to it.
    tries: Rc<RefCell<Vec<Instant>>>,
    listening: JoinHandle<()>,
}

/// Builds the program.
pub fn build(program: &Path) -> io::Result<()> {
    go_build("./endpoint", program)
}

/// Starts all of them, on one port of several addresses: a name stands for addresses alone.
pub async fn start(
    program: &Path,
    protocol: Protocol,
    directory: &Path,
) -> io::Result<Vec<Endpoint>> {
    let port = free_address()?.port();
    let mut endpoints = Vec::new();
    for number in 1..=COUNT as u8 {
        let ip = Ipv4Addr::new(127, 0, 0, 10 + number);
        let address = SocketAddr::from((ip, port));
        endpoints.push(Endpoint::start(program, protocol, number, address, directory).await?);
    }
    endpoints.iter_mut().try_for_each(Endpoint::wait)?;
    Ok(endpoints)
}

impl Endpoint {
    async fn start(
        program: &Path,
        protocol: Protocol,
        number: u8,
        address: SocketAddr,
        directory: &Path,
    ) -> io::Result<Self> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let reports = socket.local_addr()?;
        let tries = Rc::default();
        let listening = spawn_local(note(socket, Rc::clone(&tries)));
        let (name, log) = (b'0' + number, directory.join(format!("endpoint-{number}.log")));
        let child = launch(program, protocol, address, reports, name, &log)?;
        let program = program.to_owned();
        Ok(Self { program, protocol, name, address, child, reports, log, tries, listening })
    }

    fn wait(&mut self) -> io::Result<()> {
        let deadline = Instant::now() + START_LIMIT;
        while TcpStream::connect(self.address).is_err() {
            if self.child.try_wait()?.is_some() || Instant::now() > deadline {
                let log = std::fs::read_to_string(&self.log)?;
                return Err(io::Error::other(format!("an endpoint does not start: {log}")));
            }
            launch::pause();
        }
        Ok(())
    }

    /// Fails from now on.
    pub fn fail(&mut self, fault: Fault) -> io::Result<()> {
        match fault {
            Fault::Killed => self.kill(),
            Fault::Stopped => launch::send(&self.child, Signal::STOP),
            Fault::Told(name) => self.tell(name)?,
        }
        Ok(())
    }

    /// Is well again.
    pub fn recover(&mut self, fault: Fault) -> io::Result<()> {
        let Self { program, protocol, name, address, reports, log, .. } = self;
        match fault {
            Fault::Killed => {
                self.child = launch(program, *protocol, *address, *reports, *name, log)?;
            }
            Fault::Stopped => launch::send(&self.child, Signal::CONT),
            Fault::Told(_) => self.tell("none")?,
        }
        Ok(())
    }

    /// When requests have come to it.
    pub fn tries(&self) -> Vec<Instant> {
        self.tries.borrow().clone()
    }

    fn tell(&mut self, fault: &str) -> io::Result<()> {
        let commands = self.child.stdin.as_mut();
        writeln!(commands.ok_or(io::ErrorKind::BrokenPipe)?, "{fault}")
    }

    fn kill(&mut self) {
        launch::send(&self.child, Signal::KILL);
        let _ = self.child.wait();
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.listening.abort();
        if matches!(self.child.try_wait(), Ok(None)) {
            self.kill();
        }
    }
}

fn launch(
    program: &Path,
    protocol: Protocol,
    address: SocketAddr,
    reports: SocketAddr,
    name: u8,
    log: &Path,
) -> io::Result<Child> {
    let version = if protocol == Protocol::Http1 { "h1" } else { "h2" };
    let mut command = Command::new(program);
    command.args([version, &address.to_string(), &reports.to_string()]);
    command.arg(char::from(name).to_string());
    let log = File::options().create(true).append(true).open(log)?;
    launch::spawn(command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log))
}

/// Notes when each datagram comes: one for each request.
async fn note(socket: UdpSocket, tries: Rc<RefCell<Vec<Instant>>>) {
    let mut datagram = [0; 8];
    while socket.recv(&mut datagram).await.is_ok() {
        tries.borrow_mut().push(Instant::now());
    }
}
