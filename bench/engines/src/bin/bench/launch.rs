//! Starts the programs of a run, each on its core.

use std::io;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

use titan_bench::launch::free_address;
pub use titan_bench::launch::{Running, clean_up, pause, run_directory, scratch, send, spawn_on};
use titan_bench::machine::Machine;
use titan_bench::report::{Job, Report};

use crate::engine::{Engine, Place};
use crate::programs::Programs;
use crate::setup::Setup;

/// Starts the origin that proxies of this setup forward to, on its core.
pub fn origin(setup: Setup, programs: &Programs, machine: &Machine) -> io::Result<Running> {
    let address = free_address()?;
    let origin = setup.origin(programs.origin());
    let mut command = Command::new(programs.origin_path(origin));
    command.arg(address.to_string());
    let log = run_directory("origin")?.join("origin.log");
    Running::start(command, Some(machine.origin_core), address, log, |address| {
        origin.answers(address)
    })
}

/// Starts an engine on the proxy's core in front of `origin`. `wrap` may put a tool before its command.
pub fn engine(
    engine: Engine,
    setup: Setup,
    programs: &Programs,
    machine: &Machine,
    origin: SocketAddr,
    wrap: impl FnOnce(Command, &Place) -> Command,
) -> io::Result<Running> {
    let place = Place {
        setup,
        suffix: setup.suffix(engine),
        listen: free_address()?,
        origin,
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
