//! The options of `titan log`, and its help.

use super::GatewayOption;
use clap::Args;
use titan_config::{LogArea, LogLevel};

/// Which events are to be written, of which gateway.
#[derive(Debug, Args)]
pub(crate) struct LogOptions {
    /// The area whose level changes, such as `health`; may be repeated. Without it, all change
    #[arg(long, value_name = "AREA", requires = "level", value_parser = area)]
    pub(crate) area: Vec<LogArea>,
    /// The least important events to be written: error, warn, info or debug
    #[arg(long, value_name = "LEVEL", value_parser = level)]
    pub(crate) level: Option<LogLevel>,
    /// How long, such as 10m, up to 24h; without it until the configuration changes
    #[arg(long = "for", value_name = "TIME", requires = "level")]
    pub(crate) time: Option<String>,
    /// Go back to the levels of the configuration
    #[arg(long, conflicts_with = "level")]
    pub(crate) reset: bool,
    /// Print it as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) gateway: GatewayOption,
}

fn area(name: &str) -> Result<LogArea, String> {
    LogArea::named(name)
}

fn level(name: &str) -> Result<LogLevel, &'static str> {
    LogLevel::named(name).ok_or("the levels are `error`, `warn`, `info` and `debug`")
}

pub(super) const AFTER_HELP: &str = "\
Examples:
  titan log                                         what is written, and how much was left out
  titan log --area health --level debug --for 10m
  titan log --level warn                            until the configuration changes
  titan log --reset

Levels that were set before end when others are set. `log` in the configuration has them for good.

Exit codes:
  0    it was printed; the levels are in force
  1    no gateway can be reached, or it does not serve this user
  2    refused, because it is wrong: nothing has changed";

#[cfg(test)]
mod tests {
    use crate::cli::tests::help;

    #[test]
    fn the_help_of_log() {
        insta::assert_snapshot!(help(Some("log")), @r"
        Print which events a running gateway writes, and have it write others for a while

        Usage: titan log [OPTIONS]

        Options:
              --area <AREA>
                  The area whose level changes, such as `health`; may be repeated. Without it, all change

              --level <LEVEL>
                  The least important events to be written: error, warn, info or debug

              --for <TIME>
                  How long, such as 10m, up to 24h; without it until the configuration changes

              --reset
                  Go back to the levels of the configuration

              --json
                  Print it as JSON

              --socket <PATH>
                  The Unix socket of its admin interface; without it the usual places

          -c, --config <FILE>
                  Its configuration, to find the socket

          -h, --help
                  Print help

        Examples:
          titan log                                         what is written, and how much was left out
          titan log --area health --level debug --for 10m
          titan log --level warn                            until the configuration changes
          titan log --reset

        Levels that were set before end when others are set. `log` in the configuration has them for good.

        Exit codes:
          0    it was printed; the levels are in force
          1    no gateway can be reached, or it does not serve this user
          2    refused, because it is wrong: nothing has changed
        ");
    }
}
