//! `titan reload`, and how commands name a gateway that runs.

use clap::Args;
use std::path::PathBuf;

/// Which running gateway.
#[derive(Debug, Args)]
pub(crate) struct GatewayOption {
    /// The Unix socket of its admin interface; without it the usual places
    #[arg(long, value_name = "PATH", conflicts_with = "config")]
    pub(crate) socket: Option<PathBuf>,
    /// Its configuration, to find the socket
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

pub(super) const AFTER_HELP: &str = "\
Examples:
  titan reload
  titan reload --socket /run/titan/shop.sock
  titan reload -c /etc/titan/titan.yaml      where the file sets `admin.socket`

Without options it looks for admin.sock in $RUNTIME_DIRECTORY, $XDG_RUNTIME_DIR/titan and /run/titan.

Exit codes:
  0    the file is in force
  1    no gateway can be reached, or it does not serve this user
  2    refused, because it is wrong or cannot be put in force (an address is in use): the previous
       configuration stays in force";

#[cfg(test)]
mod tests {
    use crate::cli::tests::help;

    #[test]
    fn the_help_of_reload() {
        insta::assert_snapshot!(help(Some("reload")), @r"
        Have a running gateway read its configuration again, and print what it says

        It puts the file in force that it was started with, or says what is wrong with it and changes nothing.

        The same as SIGHUP, but with the outcome. Needs the Unix socket of the admin interface.

        Usage: titan reload [OPTIONS]

        Options:
              --socket <PATH>
                  The Unix socket of its admin interface; without it the usual places

          -c, --config <FILE>
                  Its configuration, to find the socket

          -h, --help
                  Print help (see a summary with '-h')

        Examples:
          titan reload
          titan reload --socket /run/titan/shop.sock
          titan reload -c /etc/titan/titan.yaml      where the file sets `admin.socket`

        Without options it looks for admin.sock in $RUNTIME_DIRECTORY, $XDG_RUNTIME_DIR/titan and /run/titan.

        Exit codes:
          0    the file is in force
          1    no gateway can be reached, or it does not serve this user
          2    refused, because it is wrong or cannot be put in force (an address is in use): the previous
               configuration stays in force
        ");
    }
}
