//! Breaks endpoints behind gateways under load, and counts what their clients see of it: bench/README.md.

mod bars;
mod case;
mod csv;
mod endpoints;
mod figures;
mod gateway;
mod grpc;
mod http1;
mod load;
mod names;
mod options;
mod run;
mod sample;
mod table;

use std::io;
use std::process::ExitCode;

use clap::Parser;
use titan_bench::launch;
use titan_bench::machine::Machine;

use crate::case::Protocol;
use crate::figures::Figures;
use crate::gateway::Programs;
use crate::options::Options;

fn main() -> ExitCode {
    let outcome = all(&Options::parse());
    launch::clean_up();
    outcome.unwrap_or_else(|error| {
        eprintln!("chaos: {error}");
        ExitCode::FAILURE
    })
}

fn all(options: &Options) -> io::Result<ExitCode> {
    let programs = Programs::prepare(options)?;
    let machine = Machine::inspect()?;
    println!("{machine}");
    let mut figures = Vec::new();
    for protocol in options.protocols() {
        figures.extend(each_case(options, &programs, protocol)?);
    }
    let verdicts = bars::verdicts(&figures);
    verdicts.iter().for_each(|verdict| println!("{verdict}"));
    let met = verdicts.iter().filter(|verdict| verdict.is_met).count();
    println!("{met} of {} bars are met", verdicts.len());
    let folder = options.results.folder(options.is_complete())?;
    let file = folder.join(format!("{}-chaos.csv", machine.file_name()));
    csv::write(&file, &machine, &programs, &figures)?;
    println!("written: {}", file.display());
    Ok(match options.check && met < verdicts.len() {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    })
}

/// The figures of all cases with that protocol, told as they come.
fn each_case(
    options: &Options,
    programs: &Programs,
    protocol: Protocol,
) -> io::Result<Vec<Figures>> {
    println!("\n{}\n{}", protocol.title(), table::HEADER);
    let mut all = Vec::new();
    for case in options.cases() {
        let figures = run::case(case, protocol, options, programs)?;
        figures.iter().for_each(|figures| println!("{}", table::row(figures)));
        all.extend(figures);
    }
    Ok(all)
}
