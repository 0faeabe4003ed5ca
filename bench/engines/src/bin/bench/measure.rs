//! The rounds: in each, every engine runs once, so that whatever else the machine does hits all alike.

use std::io;

use titan_bench::machine::Machine;
use titan_bench::report::Report;

use crate::engine::Engine;
use crate::launch;
use crate::options::RunOptions;
use crate::programs::Programs;
use crate::reloads::Reloading;
use crate::scenario::Scenario;

/// Memory varies far less than time: rounds beyond these would only take longer.
const IDLE_ROUNDS: u32 = 2;

/// One engine's reports in one scenario, one for each round.
pub struct Samples {
    pub engine: Engine,
    /// Connections that were open; fewer than asked for where the descriptor limit is low.
    pub connections: usize,
    pub reports: Vec<Report>,
    /// How many reloads there were in a second, in each round.
    pub reloads: Vec<f64>,
}

/// All engines' reports in one scenario.
pub struct ScenarioRun {
    pub scenario: &'static Scenario,
    pub samples: Vec<Samples>,
}

/// Runs every chosen scenario.
pub fn all(
    options: &RunOptions,
    programs: &Programs,
    machine: &Machine,
) -> io::Result<Vec<ScenarioRun>> {
    let runs =
        options.scenarios().into_iter().map(|scenario| one(scenario, options, programs, machine));
    runs.collect()
}

fn one(
    scenario: &'static Scenario,
    options: &RunOptions,
    programs: &Programs,
    machine: &Machine,
) -> io::Result<ScenarioRun> {
    let rounds = if scenario.idle() { options.rounds().min(IDLE_ROUNDS) } else { options.rounds() };
    let samples = |engine| Samples {
        engine,
        connections: scenario
            .connections
            .min(machine.descriptors / Engine::sockets_per_client(engine)),
        reports: Vec::new(),
        reloads: Vec::new(),
    };
    let engines = options.engines().into_iter().filter(|engine| scenario.setup.suits(*engine));
    let mut run = ScenarioRun { scenario, samples: engines.map(samples).collect() };
    for round in 0..rounds {
        eprintln!("{}: round {} of {rounds}", scenario.name, round + 1);
        // Each round begins with another engine: none is always the one that runs first.
        let count = run.samples.len();
        for offset in 0..count {
            let samples = &mut run.samples[(round as usize + offset) % count];
            let (report, reloads) = measure(scenario, samples, options, programs, machine)?;
            samples.reports.push(report);
            samples.reloads.extend(reloads);
        }
    }
    Ok(run)
}

fn measure(
    scenario: &Scenario,
    samples: &Samples,
    options: &RunOptions,
    programs: &Programs,
    machine: &Machine,
) -> io::Result<(Report, Option<f64>)> {
    let services = launch::services(scenario.setup, programs, machine)?;
    let plain = |command, _: &_| command;
    let proxy =
        launch::engine(samples.engine, scenario.setup, programs, machine, &services, plain)?;
    let mut job = scenario.timed(proxy.address, options.seconds(), &proxy.processes()?);
    job.connections = samples.connections;
    if samples.engine == Engine::Bare {
        job.coding = None;
    }
    let reloads = scenario.reloads() && samples.engine == Engine::Titan;
    let reloading = match reloads {
        true => Some(Reloading::start(&proxy, &proxy.file("titan-reloads.yaml"))?),
        false => None,
    };
    let mut report = launch::load(programs, machine, &job)?;
    if scenario.reloads() {
        // Threads that have read a configuration have ended, and count.
        report.cpu_ns = report.whole_cpu_ns;
    }
    let reloads = reloading.map(|reloading| reloading.end(&proxy)).transpose()?;
    if report.cpu_ns == 0 && report.errors == 0 {
        return Err(io::Error::other(format!(
            "{}: no processor time was seen",
            samples.engine.name()
        )));
    }
    if report.unread_handshakes > 0 {
        let (name, count) = (samples.engine.name(), report.unread_handshakes);
        eprintln!("  {name}: did not read {count} handshakes, which were tried again");
    }
    if let Some(error) = &report.first_error {
        eprintln!("  {}: {} errors, first: {error}", samples.engine.name(), report.errors);
    }
    Ok((report, reloads))
}
