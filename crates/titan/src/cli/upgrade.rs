//! The options of `titan upgrade`, and its help.

use super::GatewayOption;
use clap::Args;
use std::path::PathBuf;

/// Which program takes over, and from which gateway.
#[derive(Debug, Args)]
pub(crate) struct UpgradeOptions {
    /// The program to start, with the arguments of the running one; without it, the path that the running one was started from
    pub(crate) binary: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) gateway: GatewayOption,
}

pub(super) const AFTER_HELP: &str = "\
Examples:
  titan upgrade                      after the file of the program was replaced
  titan upgrade /opt/titan-0.2/titan

`timeouts.upgrade` (60s) bounds how long the new process may take until it serves.

Exit codes:
  0    the new process serves
  1    no gateway can be reached, or it does not serve this user
  2    refused, or the new process has failed: the old one goes on";

#[cfg(test)]
mod tests {
    use crate::cli::tests::help;

    #[test]
    fn the_help_of_upgrade() {
        insta::assert_snapshot!(help(Some("upgrade")), @r"
        Have another process take over from a running gateway, and wait until it serves

        The new process gets the listening sockets and reads the configuration file; the old one drains and ends.

        No connection is refused, and no request fails. If the new process does not serve, the old one goes on.

        The same as SIGUSR2, but with the outcome. Needs the Unix socket of the admin interface.

        Usage: titan upgrade [OPTIONS] [BINARY]

        Arguments:
          [BINARY]
                  The program to start, with the arguments of the running one; without it, the path that the running one was started from

        Options:
              --socket <PATH>
                  The Unix socket of its admin interface; without it the usual places

          -c, --config <FILE>
                  Its configuration, to find the socket

          -h, --help
                  Print help (see a summary with '-h')

        Examples:
          titan upgrade                      after the file of the program was replaced
          titan upgrade /opt/titan-0.2/titan

        `timeouts.upgrade` (60s) bounds how long the new process may take until it serves.

        Exit codes:
          0    the new process serves
          1    no gateway can be reached, or it does not serve this user
          2    refused, or the new process has failed: the old one goes on
        ");
    }
}
