//! Starts the programs of a run, each on its core.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};

use titan_bench::launch::free_address;
pub use titan_bench::launch::{Running, clean_up, pause, run_directory, scratch, send, spawn_on};
use titan_bench::machine::Machine;
use titan_bench::report::{Job, Report};

use crate::engine::{Engine, Place};
use crate::programs::Programs;
use crate::setup::Setup;

/// What proxies of a setup need behind them.
pub struct Services {
    pub origin: Running,
    /// A server of Redis, where the setup counts in one.
    store: Option<Running>,
}

/// Starts the services of this setup, on the origin's core.
pub fn services(setup: Setup, programs: &Programs, machine: &Machine) -> io::Result<Services> {
    let store = setup.needs_store().then(|| store(machine)).transpose()?;
    Ok(Services { origin: origin(setup, programs, machine)?, store })
}

fn origin(setup: Setup, programs: &Programs, machine: &Machine) -> io::Result<Running> {
    let address = free_address()?;
    let origin = setup.origin(programs.origin());
    let mut command = Command::new(programs.origin_path(origin));
    command.arg(address.to_string());
    let log = run_directory("origin")?.join("origin.log");
    Running::start(command, Some(machine.origin_core), address, log, |address| {
        origin.answers(address)
    })
}

fn store(machine: &Machine) -> io::Result<Running> {
    let address = free_address()?;
    let mut command = Command::new("redis-server");
    command.args(["--bind", &address.ip().to_string(), "--port", &address.port().to_string()]);
    command.args(["--save", "", "--appendonly", "no"]);
    let log = run_directory("store")?.join("store.log");
    let answers = |address| pings(address).unwrap_or(false);
    Running::start(command, Some(machine.origin_core), address, log, answers)
}

fn pings(address: SocketAddr) -> io::Result<bool> {
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(b"PING\r\n")?;
    let mut reply = [0; 7];
    stream.read_exact(&mut reply)?;
    Ok(reply == *b"+PONG\r\n")
}

/// Starts an engine on the proxy's core in front of these services. `wrap` may put a tool before its command.
pub fn engine(
    engine: Engine,
    setup: Setup,
    programs: &Programs,
    machine: &Machine,
    services: &Services,
    wrap: impl FnOnce(Command, &Place) -> Command,
) -> io::Result<Running> {
    let place = Place {
        setup,
        suffix: setup.suffix(engine),
        listen: free_address()?,
        origin: services.origin.address,
        store: services.store.as_ref().map(|store| store.address),
        admin: free_address()?,
        directory: run_directory(engine.name())?,
    };
    let command = wrap(engine.command(programs, &place)?, &place);
    let log = place.directory.join("log");
    Running::start(command, Some(machine.proxy_core), place.listen, log, |address| {
        setup.answers(address)
    })
}

/// Runs one job of the load generator on its core; it ends by itself.
pub fn load(programs: &Programs, machine: &Machine, job: &Job) -> io::Result<Report> {
    let mut command = Command::new(programs.load());
    command.arg(serde_json::to_string(job)?).stdout(Stdio::piped());
    let output = spawn_on(machine.load_core, &mut command)?.wait_with_output()?;
    if !output.status.success() {
        return Err(io::Error::other(format!("the load generator failed: {}", output.status)));
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
