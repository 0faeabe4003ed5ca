//! The benchmark's driver: builds everything, runs the proxies in turn under the same load, reports ratios.

mod bars;
mod chart;
mod csv;
mod engine;
mod figures;
mod keys;
mod launch;
mod measure;
mod options;
mod origin;
mod profile;
mod programs;
mod reloads;
mod scenario;
mod setup;
mod table;
mod tokens;

use std::io;
use std::process::ExitCode;

use clap::Parser;
use titan_bench::machine::Machine;
use titan_bench::quic;

use crate::figures::Figures;
use crate::options::{Cli, Command, RunOptions};
use crate::programs::Programs;
use crate::setup::Setup;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome = match cli.command {
        Some(Command::Profile(options)) => profile::run(&options).map(|()| ExitCode::SUCCESS),
        None => run(&cli.run),
    };
    launch::clean_up();
    outcome.unwrap_or_else(|error| {
        eprintln!("bench: {error}");
        ExitCode::FAILURE
    })
}

fn run(options: &RunOptions) -> io::Result<ExitCode> {
    let setups: Vec<Setup> = options.scenarios().iter().map(|scenario| scenario.setup).collect();
    let programs = Programs::prepare(&options.build, &options.engines(), &setups)?;
    let machine = Machine::inspect()?;
    println!("{machine}; {}", machine.shares());
    println!("origin: {}", programs.origin().name());
    machine.warn_when_busy()?;
    if setups.contains(&Setup::Http3) {
        quic::warn_of_small_buffers()?;
    }
    keys::write_all()?;
    tokens::write_all()?;
    let runs = measure::all(options, &programs, &machine)?;
    let figures: Vec<Figures> = runs.iter().map(Figures::of).collect();
    for scenario in &figures {
        print!("{}", table::lay_out(scenario));
    }
    let verdicts = bars::verdicts(&figures);
    verdicts.iter().for_each(|verdict| println!("{verdict}"));
    let results = options.results.folder(options.complete())?;
    let name = machine.file_name();
    csv::write(&results.join(format!("{name}.csv")), &machine, &programs, &figures)?;
    chart::write(&results.join(format!("{name}.svg")), &machine, programs.origin(), &figures)?;
    println!("\nwritten: {}.csv and .svg", results.join(name).display());
    let missed = options.check && verdicts.iter().any(|verdict| !verdict.is_met);
    let wrong = figures.iter().any(Figures::has_errors);
    Ok(if wrong || missed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
