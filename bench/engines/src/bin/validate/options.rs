//! The command line.

use std::path::PathBuf;

use clap::Parser;

use crate::plan::Extent;

/// Runs everything that says how good Titan and Shockwave are, and writes down what fell short: bench/validate.md.
#[derive(Parser)]
#[command(name = "validate")]
pub struct Options {
    /// Everything, at full length; without, a short run: a look, not a result.
    #[arg(long)]
    full: bool,
    /// A full run in which what has no end of its own (fuzzing, soak, outages) takes so many hours together.
    #[arg(long, value_name = "H", conflicts_with = "full")]
    hours: Option<f64>,
    /// Only these sections.
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Run sections again that have an outcome of this commit already.
    #[arg(long)]
    pub again: bool,
    /// For this program's own test: the sections, as JSON.
    #[arg(long, value_name = "FILE", hide = true)]
    pub sections: Option<PathBuf>,
}

impl Options {
    pub fn extent(&self) -> Extent {
        match self.hours {
            Some(hours) => Extent::Hours(hours),
            None if self.full => Extent::Full,
            None => Extent::Short,
        }
    }
}
