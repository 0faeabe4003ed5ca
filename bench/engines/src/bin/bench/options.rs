//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use titan_bench::results::Results;

use crate::engine::Engine;
use crate::origin::Origin;
use crate::scenario::{SCENARIOS, Scenario};

/// Measures Titan against nginx, HAProxy and the floor, one worker each, in the same run.
#[derive(Parser)]
#[command(name = "bench", args_conflicts_with_subcommands = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Option<Command>,
    #[command(flatten)]
    pub run: RunOptions,
}

#[derive(Subcommand)]
pub enum Command {
    /// Shows where a proxy's share goes: system calls, instructions and functions per request.
    Profile(ProfileOptions),
}

/// What is built before anything runs.
#[derive(Args)]
pub struct BuildOptions {
    /// Run what is built already.
    #[arg(long)]
    pub no_build: bool,
    /// Measure this titan binary; none is built.
    #[arg(long, value_name = "PATH")]
    pub titan: Option<PathBuf>,
    /// The service behind the proxies.
    #[arg(long, value_enum, value_name = "NAME", default_value_t)]
    pub origin: Origin,
}

#[derive(Args)]
pub struct RunOptions {
    #[command(flatten)]
    pub build: BuildOptions,
    /// Two rounds of one second: a look, not a result.
    #[arg(long)]
    pub quick: bool,
    /// Rounds of each scenario; every engine runs once in each [default: 5].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: Option<u32>,
    /// Seconds measured of each engine in each round [default: 3].
    #[arg(long)]
    seconds: Option<f64>,
    /// Only these scenarios.
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = scenario)]
    scenario: Vec<&'static Scenario>,
    /// Only these engines.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    engine: Vec<Engine>,
    /// Fail when Titan misses a bar.
    #[arg(long)]
    pub check: bool,
    #[command(flatten)]
    pub results: Results,
}

#[derive(Args)]
pub struct ProfileOptions {
    #[command(flatten)]
    pub build: BuildOptions,
    /// The engine to look at.
    #[arg(long, default_value = "titan")]
    pub engine: Engine,
    /// The load to put on it.
    #[arg(long, default_value = "small-64", value_parser = scenario)]
    pub scenario: &'static Scenario,
}

impl RunOptions {
    pub fn rounds(&self) -> u32 {
        self.rounds.unwrap_or(if self.quick { 2 } else { 5 })
    }

    pub fn seconds(&self) -> f64 {
        self.seconds.unwrap_or(if self.quick { 1.0 } else { 3.0 })
    }

    pub fn scenarios(&self) -> Vec<&'static Scenario> {
        let chosen = |scenario: &&Scenario| {
            self.scenario.is_empty() || self.scenario.iter().any(|name| name.name == scenario.name)
        };
        SCENARIOS.iter().filter(chosen).collect()
    }

    pub fn engines(&self) -> Vec<Engine> {
        let chosen = |engine: &Engine| self.engine.is_empty() || self.engine.contains(engine);
        Engine::ALL.into_iter().filter(chosen).collect()
    }

    /// Everything at the full length, or more, in front of the usual origin.
    pub fn complete(&self) -> bool {
        let full = self.rounds() >= 5 && self.seconds() >= 3.0;
        let usual = self.build.origin == Origin::default();
        full && usual
            && self.engines().len() == Engine::ALL.len()
            && self.scenarios().len() == SCENARIOS.len()
    }
}

fn scenario(name: &str) -> Result<&'static Scenario, String> {
    SCENARIOS.iter().find(|scenario| scenario.name == name).ok_or_else(|| {
        let names: Vec<_> = SCENARIOS.iter().map(|scenario| scenario.name).collect();
        format!("one of {}", names.join(", "))
    })
}
