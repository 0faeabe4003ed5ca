//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use titan_bench::results::Results;

use crate::case::{CASES, Case, Protocol};
use crate::gateway::Engine;

/// Breaks endpoints behind Titan, HAProxy, Envoy and nginx in the same way at the same time, under the same load, and
/// counts what clients see of it.
#[derive(Parser)]
#[command(name = "chaos")]
pub struct Options {
    /// Titan alone, in the cases in which no GET may fail, and when everything is down: half a minute.
    #[arg(long)]
    pub short: bool,
    /// Only these cases.
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = case)]
    case: Vec<&'static Case>,
    /// Only these gateways.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    gateway: Vec<Engine>,
    /// Only these protocols of the endpoints.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    upstream: Vec<Protocol>,
    /// Run what is built already.
    #[arg(long)]
    pub no_build: bool,
    /// Run this titan binary; none is built.
    #[arg(long, value_name = "PATH")]
    pub titan: Option<PathBuf>,
    /// Fail when Titan misses a bar.
    #[arg(long)]
    pub check: bool,
    #[command(flatten)]
    pub results: Results,
}

/// How much load there is, and how long each part of a case takes.
pub struct Schedule {
    /// Requests in a second, for each gateway.
    pub rate: u32,
    /// While nothing is the matter.
    pub before: Duration,
    /// While the fault lasts.
    pub during: Duration,
    /// After it, at least.
    pub after: Duration,
    /// After it, as long as a gateway sends nothing to an endpoint that is well again.
    pub patience: Duration,
}

impl Options {
    pub fn cases(&self) -> Vec<&'static Case> {
        let chosen = |case: &&Case| match self.case.is_empty() {
            true => !self.short || case.is_short,
            false => self.case.iter().any(|name| name.name == case.name),
        };
        CASES.iter().filter(chosen).collect()
    }

    pub fn gateways(&self) -> Vec<Engine> {
        match self.gateway.is_empty() {
            true if self.short => vec![Engine::Titan],
            true => Engine::ALL.into(),
            false => self.gateway.clone(),
        }
    }

    pub fn protocols(&self) -> Vec<Protocol> {
        match self.upstream.is_empty() {
            true if self.short => vec![Protocol::Http1],
            true => Protocol::ALL.into(),
            false => self.upstream.clone(),
        }
    }

    pub fn schedule(&self) -> Schedule {
        let seconds = |seconds: u64| Duration::from_secs(seconds);
        match self.short {
            true => Schedule {
                rate: 100,
                before: seconds(1),
                during: seconds(3),
                after: seconds(0),
                patience: seconds(20),
            },
            false => Schedule {
                rate: 300,
                before: seconds(2),
                during: seconds(6),
                after: seconds(4),
                patience: seconds(12),
            },
        }
    }

    /// All cases with all gateways and all protocols.
    pub fn is_complete(&self) -> bool {
        self.cases().len() == CASES.len()
            && self.gateways().len() == Engine::ALL.len()
            && self.protocols().len() == Protocol::ALL.len()
    }
}

fn case(name: &str) -> Result<&'static Case, String> {
    CASES.iter().find(|case| case.name == name).ok_or_else(|| {
        let names: Vec<_> = CASES.iter().map(|case| case.name).collect();
        format!("one of {}", names.join(", "))
    })
}
