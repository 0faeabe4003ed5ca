//! The options of `titan plan`.

use super::GatewayOption;
use clap::Args;
use std::path::{Path, PathBuf};

/// What to compare.
#[derive(Debug, Args)]
pub(crate) struct PlanOptions {
    /// The new configuration, YAML or JSON; `-` for standard input
    pub(crate) new: PathBuf,
    /// The old one: a file, `-` for standard input, or `running` for the gateway that runs
    #[arg(long, value_name = "OLD", default_value = RUNNING)]
    pub(crate) from: PathBuf,
    /// Print the plan as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) gateway: GatewayOption,
}

/// What stands for a running gateway in place of a file.
const RUNNING: &str = "running";

impl PlanOptions {
    /// Whether the old one is that of a running gateway.
    pub(crate) fn is_running(&self) -> bool {
        self.from == Path::new(RUNNING)
    }
}

/// The end of its help.
pub(super) const HELP: &str = "\
Examples:
  titan plan new.yaml                                          against what a running gateway has in force
  titan plan new.yaml --from titan.yaml
  git show main:titan.yaml | titan plan titan.yaml --from -    in CI: what a branch changes
  titan plan new.yaml --from titan.yaml --json

Weaker is, for example: a route that needs no token any more, a scope, network or limit that is gone, an
older version of TLS, certificates that are not verified. So is a new route that takes requests of another
one and asks less of them.

Exit codes:
  0    the two mean the same
  1    no gateway can be reached, or standard output could not be written
  2    one of them is invalid or cannot be read
  3    something changes, and nothing becomes weaker
  4    something becomes weaker";
