//! The command line and its help.

mod plan;
mod test;

pub(crate) use plan::PlanOptions;
pub(crate) use test::TestOptions;

mod reload;

pub(crate) use reload::GatewayOption;

mod upgrade;

pub(crate) use upgrade::UpgradeOptions;

mod log;

pub(crate) use log::LogOptions;

mod top;

pub(crate) use top::{AddressOption, TopOptions};

mod explain;

pub(crate) use explain::ExplainOptions;

mod recorder;

pub(crate) use recorder::{RecorderOptions, TapOptions};

mod kubernetes;

pub(crate) use kubernetes::KubernetesOptions;

mod changes;
#[cfg(test)]
mod tests;

pub(crate) use changes::{
    ApplyOptions, HistoryOptions, PublishOptions, RollbackOptions, SourcesOptions,
};

use clap::{Args, Parser, Subcommand};
use std::path::{Path, PathBuf};

/// An API gateway: accepts requests, routes them to upstreams, and streams the responses back.
#[derive(Debug, Parser)]
#[command(name = "titan", version, args_conflicts_with_subcommands = true)]
#[command(after_help = AFTER_HELP, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    /// The configuration; `--config FILE` is the same
    #[arg(value_name = "FILE", conflicts_with = "config", value_parser = file_and_no_slip)]
    file: Option<PathBuf>,
    #[command(flatten)]
    run: ConfigOption,
    /// Put the file in force again whenever it changes, as SIGHUP does
    #[arg(long)]
    watch: bool,
}

/// What is to be done.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start the gateway; the default without a command
    #[command(after_help = AFTER_RUN)]
    Run(RunOptions),
    /// Start the gateway with what Gateway API says in a Kubernetes cluster
    ///
    /// It is controller and data plane in one: it reads gateways and routes, serves them, and writes their statuses.
    #[command(after_help = kubernetes::AFTER_HELP)]
    Kubernetes(KubernetesOptions),
    /// Have a running gateway read its configuration again, and print what it says
    ///
    /// It puts the file in force that it was started with, or says what is wrong with it and changes nothing.
    ///
    /// The same as SIGHUP, but with the outcome. Needs the Unix socket of the admin interface.
    #[command(after_help = reload::AFTER_HELP)]
    Reload(GatewayOption),
    /// Put another configuration in force in a running gateway, or write documents for those that follow them
    ///
    /// NEW is read as if it stood in place of the gateway's own file, which stays as it is: a reload or a restart reads that
    /// file again.
    #[command(after_help = changes::AFTER_APPLY)]
    Apply(ApplyOptions),
    /// Keep the configuration that is on trial in a running gateway
    Confirm(GatewayOption),
    /// Put an earlier configuration in force again in a running gateway
    ///
    /// A configuration that is on trial is taken back. Configurations from before the last start of the gateway have no
    /// secrets: those that had some are refused.
    #[command(after_help = changes::AFTER_ROLLBACK)]
    Rollback(RollbackOptions),
    /// Print which configurations were in force in a running gateway
    #[command(after_help = changes::AFTER_HISTORY)]
    History(HistoryOptions),
    /// Print where more of the configuration of a running gateway comes from, and what of it is held back
    #[command(after_help = changes::AFTER_SOURCES)]
    Sources(SourcesOptions),
    /// Watch a running gateway: rates, durations, errors, endpoints, workers
    ///
    /// A page in the terminal. It reads the admin interface and changes nothing.
    #[command(after_help = top::AFTER_HELP)]
    Top(TopOptions),
    /// Show the last exchanges of a running gateway, or everything about one of them
    #[command(after_help = recorder::AFTER_RECORDER)]
    Recorder(RecorderOptions),
    /// Show exchanges of a running gateway as they end
    #[command(after_help = recorder::AFTER_TAP)]
    Tap(TapOptions),
    /// Have another process take over from a running gateway, and wait until it serves
    ///
    /// The new process gets the listening sockets and reads the configuration file; the old one drains and ends.
    ///
    /// No connection is refused, and no request fails. If the new process does not serve, the old one goes on.
    ///
    /// The same as SIGUSR2, but with the outcome. Needs the Unix socket of the admin interface.
    #[command(after_help = upgrade::AFTER_HELP)]
    Upgrade(UpgradeOptions),
    /// Print which events a running gateway writes, and have it write others for a while
    #[command(after_help = log::AFTER_HELP)]
    Log(LogOptions),
    /// Validate a configuration file and print a summary
    ///
    /// Shows all errors at once, each with its position. Starts, binds and resolves nothing.
    #[command(after_help = AFTER_CHECK)]
    Check(CheckOptions),
    /// Show which route a request would take, and why not another
    ///
    /// Sends nothing: the code that serves requests reads, routes and rewrites this one.
    ///
    /// Checks tokens with the keys of the configuration. If these are fetched, or cannot be read here,
    /// it does not check signatures.
    ///
    /// With --id it tells what a running gateway has made of a request, and why.
    #[command(after_help = explain::AFTER_HELP)]
    Explain(ExplainOptions),
    /// Run test files: requests, and what a configuration is expected to make of each
    ///
    /// Sends nothing: the code that serves requests reads, routes and rewrites them, as for `titan explain`.
    #[command(after_help = test::HELP)]
    Test(TestOptions),
    /// Show what changes between two configurations, and what becomes weaker
    ///
    /// Compares what they mean: defaults, short forms and order make no difference.
    /// Starts and changes nothing. Secrets are not shown.
    #[command(after_help = plan::HELP)]
    Plan(PlanOptions),
    /// Write a certificate for development, and the authority that signed it
    ///
    /// Writes ca.pem, localhost.pem and localhost.key, and prints what to configure. Clients that trust
    /// ca.pem accept the certificate for 397 days. The authority's key is not kept.
    Cert {
        /// The names and addresses that the certificate is for
        #[arg(default_values = ["localhost", "127.0.0.1", "::1"])]
        names: Vec<String>,
        /// The directory to write to
        #[arg(short, long, value_name = "DIRECTORY", default_value = ".")]
        out: PathBuf,
    },
    /// Print the JSON Schema of the configuration, for editors
    Schema,
}

/// What to check, and how to tell.
#[derive(Debug, Args)]
pub(crate) struct CheckOptions {
    /// The configuration, YAML or JSON; `-` for standard input
    #[arg(required_unless_present = "config")]
    file: Option<PathBuf>,
    /// The same as FILE
    #[arg(short, long, value_name = "FILE", conflicts_with = "file")]
    config: Option<PathBuf>,
    /// Do not read the files and directories that it names: certificates, keys, lists
    #[arg(long)]
    pub(crate) no_files: bool,
    /// Treat warnings as errors, with exit code 3
    #[arg(long)]
    pub(crate) strict: bool,
    /// Print errors and warnings as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the routes in the order in which they are tried
    #[arg(long)]
    pub(crate) list_routes: bool,
    /// Print the whole configuration as it is used: one file, defaults filled in, secrets masked
    #[arg(long, conflicts_with_all = ["json", "list_routes"])]
    pub(crate) resolved: bool,
}

impl CheckOptions {
    /// The configuration.
    pub(crate) fn file(&self) -> &Path {
        let given = self.file.as_deref().or(self.config.as_deref());
        given.expect("clap asks for one of the two")
    }
}

/// With which configuration to start.
#[derive(Debug, Args)]
pub(crate) struct RunOptions {
    /// The configuration; `--config FILE` is the same
    #[arg(value_name = "FILE", conflicts_with = "config")]
    file: Option<PathBuf>,
    #[command(flatten)]
    config: ConfigOption,
    /// Put the file in force again whenever it changes, as SIGHUP does
    #[arg(long)]
    pub(crate) watch: bool,
}

impl RunOptions {
    /// With this file.
    pub(crate) fn of(file: &Path) -> RunOptions {
        let config = ConfigOption { config: None };
        RunOptions { file: Some(file.to_owned()), config, watch: false }
    }

    /// The configuration; none for the demo.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.file.as_deref().or(self.config.config.as_deref())
    }
}

/// Which configuration.
#[derive(Debug, Args)]
pub(crate) struct ConfigOption {
    /// The configuration, YAML or JSON; without it a built-in demo
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

impl Cli {
    /// The command; `run` where none is given.
    pub(crate) fn into_command(self) -> Command {
        let Cli { command, file, run: config, watch } = self;
        command.unwrap_or(Command::Run(RunOptions { file, config, watch }))
    }
}

/// A file in place of a command. What looks like a command and is no file is a slip in one.
fn file_and_no_slip(text: &str) -> Result<PathBuf, &'static str> {
    let path = PathBuf::from(text);
    match text.contains(['/', '.']) || text == "-" || path.exists() {
        true => Ok(path),
        false => Err("there is no command or file with that name"),
    }
}

const AFTER_HELP: &str = "\
Examples:
  titan                                   start the demo: an echo service on 127.0.0.1:8080
  titan --config titan.yaml               start with a configuration
  titan check titan.yaml                  show its errors, or a summary
  titan reload                            have the running gateway read its configuration again
  titan apply new.yaml --confirm 5m       put another one in force, and take it back unless it is confirmed
  titan history; titan rollback           what was in force, and back to the one before
  titan top                               what the running gateway does, in the terminal
  titan recorder --failed --since 10m     who got errors of late; with an id all about one request
  titan tap --route api --status 5xx      requests as they end
  titan upgrade                           have another process take over, of a new version say
  titan log --area health --level debug --for 10m
                                          have the running gateway tell more of itself for a while
  titan explain GET http://a.example/x -c titan.yaml
                                          which route this request takes, and why
  titan test tests.yaml                   whether requests get what they should
  titan plan new.yaml --from titan.yaml   what changes, and what becomes weaker
  titan schema > titan.schema.json        completion and error marks in editors
  titan cert                              a certificate for localhost, to try HTTPS with

Exit codes:
  0    success; for `run`: drained after a signal, or cut off after `timeouts.drain`
  1    the gateway could not start (an address is in use), one of its workers died, or standard
       output could not be written
  2    the configuration or the command line is wrong; nothing was started
  3    `check --strict`: there are warnings; `plan`: something changes
  4    `plan`: something becomes weaker
  130  stopped at once by a second signal, SIGINT
  143  stopped at once by a second signal, SIGTERM

Files:
  FILE is read at the start and on SIGHUP; docs/configuration.md describes its keys. Certificates that it
  names are read again when they change.

Environment:
  NO_COLOR    when set, errors have no colours, not even on a terminal";

const AFTER_RUN: &str = "\
Signals:
  SIGTERM, SIGINT   drain: accept nothing new, finish running requests within `timeouts.drain`, exit 0;
                    a second signal exits at once with 128 plus its number (143, 130)
  SIGHUP            read FILE again and put it in force, or say what is wrong with it and change nothing
  SIGUSR1           open the files of access logs anew, after logrotate or somebody else has renamed them
  SIGUSR2           start the program anew, from the path that it was started from, and hand over to it;
                    if the new process does not serve within `timeouts.upgrade`, say why and go on.
                    `titan upgrade` does the same, and may name another program

The admin interface (127.0.0.1:8484, unless the configuration says otherwise) serves /healthz,
/readyz and /metrics. It closes when the drain begins; the address in `admin.probes` keeps responding
until the end. Commands such as `titan reload` use its Unix socket, `admin.socket`.";

const AFTER_CHECK: &str = "\
Examples:
  titan check titan.yaml
  titan check --no-files --strict --json titan.yaml    in CI, without the certificates
  titan check --list-routes - < titan.yaml
  titan check --resolved titan.yaml                    with the files that it includes, and defaults

Exit codes:
  0    valid; there may be warnings
  1    standard output could not be written, or the file of `jwt_revocations` could not be read
  2    invalid
  3    valid, but there are warnings, and --strict does not allow any";
