//! The options of the commands that change a running gateway, and their help.

use super::GatewayOption;
use clap::Args;
use std::path::PathBuf;

/// What to put in force, and what takes it back.
#[derive(Debug, Args)]
pub(crate) struct ApplyOptions {
    /// The configuration, YAML or JSON; `-` for standard input. With --to documents, or directories of them
    #[arg(value_name = "NEW", required = true)]
    pub(crate) new: Vec<PathBuf>,
    /// Take it back unless `titan confirm` comes within this time, such as 5m
    #[arg(long, value_name = "TIME", conflicts_with = "to")]
    pub(crate) confirm: Option<String>,
    /// Take it back if requests of a route fail more often, or take longer, than before
    #[arg(long, conflicts_with = "to")]
    pub(crate) guard: bool,
    /// How long the guard watches; 1m without this
    #[arg(long, value_name = "TIME", requires = "guard")]
    pub(crate) guard_window: Option<String>,
    /// How many times worse is too bad; 2 without this
    #[arg(long, value_name = "NUMBER", requires = "guard")]
    pub(crate) guard_factor: Option<String>,
    #[command(flatten)]
    pub(crate) gateway: GatewayOption,
    #[command(flatten)]
    pub(crate) publish: PublishOptions,
}

/// Where to write documents for gateways that follow them.
#[derive(Debug, Args)]
#[command(next_help_heading = "Documents for gateways that follow them")]
pub(crate) struct PublishOptions {
    /// Write NEW to etcd: etcd://HOST:PORT/PREFIX, or etcds:// with TLS; several members have commas between them
    #[arg(long, value_name = "URL", conflicts_with = "socket")]
    pub(crate) to: Option<String>,
    /// Remove what is below the prefix and not among NEW
    #[arg(long, requires = "to")]
    pub(crate) prune: bool,
    /// Print what would change, and change nothing
    #[arg(long, requires = "to")]
    pub(crate) dry_run: bool,
    /// Log in as this user, with the password in TITAN_ETCD_PASSWORD unless a file has it
    #[arg(long, value_name = "NAME", requires = "to")]
    pub(crate) user: Option<String>,
    /// The file with the password
    #[arg(long, value_name = "PATH", requires = "user")]
    pub(crate) password_file: Option<PathBuf>,
    /// The authorities that the members' certificates have to be from
    #[arg(long, value_name = "PATH", requires = "to")]
    pub(crate) ca: Option<PathBuf>,
}

/// What to go back to.
#[derive(Debug, Args)]
pub(crate) struct RollbackOptions {
    /// Its id in the history; without it the one before the one in force
    pub(crate) id: Option<u64>,
    #[command(flatten)]
    pub(crate) gateway: GatewayOption,
}

/// How to print the history.
#[derive(Debug, Args)]
pub(crate) struct HistoryOptions {
    /// Print it as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) gateway: GatewayOption,
}

/// How to print the sources.
#[derive(Debug, Args)]
pub(crate) struct SourcesOptions {
    /// Print them as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) gateway: GatewayOption,
}

pub(super) const AFTER_APPLY: &str = "\
Examples:
  titan apply new.yaml
  titan apply new.yaml --confirm 5m      and within 5 minutes: titan confirm
  titan apply new.yaml --guard --guard-window 10m --guard-factor 1.5
  titan apply --to etcd://127.0.0.1:2379/titan shop.yaml routes/ --prune --dry-run

With --to no gateway is asked. A document is called as its file, or by its path in the directory. All are checked with
what is there already; with --config as sources of that file, where they need what it declares. Either all changes of a
transaction are written or none, and none if somebody else has changed something since it was read.

The guard judges routes with at least 100 requests: the share of 5xx, if there are at least 5 and it is at least one
percentage point above the one before, and the 99th percentile of durations from 10 ms on.

Exit codes:
  0    NEW is in force; with --to: it is written, or as it was
  1    no gateway can be reached, or it does not serve this user; with --to: etcd cannot be reached, or
       somebody else has changed something meanwhile
  2    refused, because it is wrong or cannot be put in force (an address is in use): the previous
       configuration stays in force";

pub(super) const AFTER_ROLLBACK: &str = "\
Examples:
  titan rollback
  titan rollback 7      the ids are those of `titan history`

Exit codes:
  0    the earlier configuration is in force
  1    no gateway can be reached, or it does not serve this user
  2    refused, because it is wrong or cannot be put in force (an address is in use): the previous
       configuration stays in force";

pub(super) const AFTER_HISTORY: &str = "\
The configuration in force is marked with a star. `state.history` says how many are kept.

Exit codes:
  0    it was printed
  1    no gateway can be reached, or it does not serve this user";

pub(super) const AFTER_SOURCES: &str = "\
A source that fails leaves in force what it has delivered before; so does a document that is held back.

Exit codes:
  0    they were printed
  1    no gateway can be reached, or it does not serve this user";

#[cfg(test)]
mod tests {
    use crate::cli::tests::help;

    #[test]
    fn the_help_of_apply() {
        insta::assert_snapshot!(help(Some("apply")), @r"
        Put another configuration in force in a running gateway, or write documents for those that follow them

        NEW is read as if it stood in place of the gateway's own file, which stays as it is: a reload or a restart reads that file again.

        Usage: titan apply [OPTIONS] <NEW>...

        Arguments:
          <NEW>...
                  The configuration, YAML or JSON; `-` for standard input. With --to documents, or directories of them

        Options:
              --confirm <TIME>
                  Take it back unless `titan confirm` comes within this time, such as 5m

              --guard
                  Take it back if requests of a route fail more often, or take longer, than before

              --guard-window <TIME>
                  How long the guard watches; 1m without this

              --guard-factor <NUMBER>
                  How many times worse is too bad; 2 without this

              --socket <PATH>
                  The Unix socket of its admin interface; without it the usual places

          -c, --config <FILE>
                  Its configuration, to find the socket

          -h, --help
                  Print help (see a summary with '-h')

        Documents for gateways that follow them:
              --to <URL>
                  Write NEW to etcd: etcd://HOST:PORT/PREFIX, or etcds:// with TLS; several members have commas between them

              --prune
                  Remove what is below the prefix and not among NEW

              --dry-run
                  Print what would change, and change nothing

              --user <NAME>
                  Log in as this user, with the password in TITAN_ETCD_PASSWORD unless a file has it

              --password-file <PATH>
                  The file with the password

              --ca <PATH>
                  The authorities that the members' certificates have to be from

        Examples:
          titan apply new.yaml
          titan apply new.yaml --confirm 5m      and within 5 minutes: titan confirm
          titan apply new.yaml --guard --guard-window 10m --guard-factor 1.5
          titan apply --to etcd://127.0.0.1:2379/titan shop.yaml routes/ --prune --dry-run

        With --to no gateway is asked. A document is called as its file, or by its path in the directory. All are checked with
        what is there already; with --config as sources of that file, where they need what it declares. Either all changes of a
        transaction are written or none, and none if somebody else has changed something since it was read.

        The guard judges routes with at least 100 requests: the share of 5xx, if there are at least 5 and it is at least one
        percentage point above the one before, and the 99th percentile of durations from 10 ms on.

        Exit codes:
          0    NEW is in force; with --to: it is written, or as it was
          1    no gateway can be reached, or it does not serve this user; with --to: etcd cannot be reached, or
               somebody else has changed something meanwhile
          2    refused, because it is wrong or cannot be put in force (an address is in use): the previous
               configuration stays in force
        ");
    }
}
