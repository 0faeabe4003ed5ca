//! The gateway as a program: command line, start-up, signals, exit codes.
//!
//! | what | module |
//! |---|---|
//! | the command line and its help | `cli` |
//! | `titan run`: start, serve, drain | `run` |
//! | `titan kubernetes`, and sources that are clusters | `kubernetes`, `clusters` |
//! | what is printed at the start | `greeting` |
//! | the gateway without a configuration file | `demo` |
//! | another process takes over | `upgrade` |
//! | sockets that the service manager passes | `activation` |
//! | what the service manager is told | `supervisor` |
//! | `titan check` | `check` |
//! | `titan test`, and the case that `titan explain --as-test` writes | `cases` |
//! | `titan explain --json` | `explained` |
//! | `titan plan` | `plan` |
//! | `titan cert` | `cert` |
//! | events that the operator should know of | `events` |
//! | failures of upstreams, certificates and keys while it serves | `failures` |
//! | reading the file, those that it includes, and what they name | `regular_file`, `documents`, `config_file` |
//! | documents of sources, which of them fit together, and what is kept of them for a start | `delivered`, `fit`, `kept`, `restored` |
//! | `titan reload` and `titan upgrade` | `remote` |
//! | `titan apply`, `confirm`, `rollback`, `history` | `changes` |
//! | `titan apply --to`: documents for gateways that follow them | `publish` |
//! | `titan sources` | `sources` |
//! | `titan top` | `top` |
//! | `titan recorder`, `titan tap` | `recorder` |
//! | `titan explain` | `explain`, `explained` |
//! | calls of a gateway that runs | `client` |
//! | the sockets of the admin interface | `admin`, `socket_path` |
//! | why the program fails | `failure` |
//! | standard output and standard error | `terminal` |

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may stop at a surprise"))]

mod failure;

mod terminal;

mod cli;

mod regular_file;

mod delivered;

mod documents;

mod config_file;

mod fit;

mod kept;

mod restored;

mod socket_path;

mod cases;

mod cert;

mod check;

mod explained;

mod findings;

mod client;

mod demo;

mod failures;

mod key_sets;

mod stores;

mod greeting;

mod events;

mod plan;

mod endpoints;

mod clusters;

mod reload;
mod upgrade;

mod remote;

mod log;

mod top;

mod recorder;

mod explain;

mod activation;

mod changes;

mod publish;

mod sources;

mod admin;

mod supervisor;

mod run;

mod kubernetes;

use clap::Parser;
use cli::{Cli, Command};
use failure::Failure;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(help_or_error) => {
            let _ = help_or_error.print();
            let is_error = help_or_error.use_stderr();
            return if is_error { ExitCode::from(failure::BAD_INPUT) } else { ExitCode::SUCCESS };
        }
    };
    match perform(cli) {
        Ok(code) => code,
        Err(failure) => {
            terminal::complain(&failure.text(terminal::has_color()));
            failure.exit_code()
        }
    }
}

fn perform(cli: Cli) -> Result<ExitCode, Failure> {
    match cli.into_command() {
        Command::Run(options) => return run::run(&options),
        Command::Kubernetes(options) => return kubernetes::run(&options),
        Command::Reload(gateway) => return remote::reload(&gateway),
        Command::Upgrade(options) => return remote::upgrade(&options),
        Command::Apply(options) => {
            return match &options.publish.to {
                Some(to) => publish::publish(to, &options),
                None => changes::apply(&options),
            };
        }
        Command::Confirm(gateway) => return changes::confirm(&gateway),
        Command::Rollback(options) => return changes::roll_back(&options),
        Command::History(options) => return changes::history(&options),
        Command::Sources(options) => return sources::sources(&options),
        Command::Log(options) => return log::log(&options),
        Command::Top(options) => return top::top(&options),
        Command::Recorder(options) => return recorder::recorder(&options),
        Command::Tap(options) => return recorder::tap(&options),
        Command::Check(options) => return check::check(&options),
        Command::Explain(options) => return explain::explain(&options),
        Command::Test(options) => return cases::test(&options),
        Command::Plan(options) if options.is_running() => return changes::plan(&options),
        Command::Plan(options) => return plan::plan(&options),
        Command::Cert { names, out } => terminal::print(&cert::write(&out, &names)?.text())?,
        Command::Schema => terminal::print(&titan_config::schema())?,
    }
    Ok(ExitCode::SUCCESS)
}
