//! The command line and its help.

mod plan;
mod test;

pub(crate) use plan::PlanOptions;
pub(crate) use test::TestOptions;

mod reload;

pub(crate) use reload::GatewayOption;

use clap::{Args, Parser, Subcommand};
use std::net::IpAddr;
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
    /// Have a running gateway read its configuration again, and print what it says
    ///
    /// It puts the file in force that it was started with, or says what is wrong with it and changes nothing.
    ///
    /// The same as SIGHUP, but with the outcome. Needs the Unix socket of the admin interface.
    #[command(after_help = reload::AFTER_HELP)]
    Reload(GatewayOption),
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
    #[command(after_help = AFTER_EXPLAIN)]
    Explain {
        /// The method, such as GET
        method: String,
        /// `http://host/path?query`, or `/path` together with -H 'Host: ...'
        url: String,
        /// A header of the request; may be repeated
        #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
        fields: Vec<String>,
        /// The certificate that the client presents, a PEM file; it is not verified
        #[arg(long, value_name = "FILE")]
        client_cert: Option<PathBuf>,
        /// The address that the client connects from; without it, nothing is decided by address
        #[arg(long, value_name = "ADDRESS")]
        from: Option<IpAddr>,
        /// Print a case for `titan test` instead, with the request as given: tokens too
        #[arg(long, requires = "config")]
        as_test: bool,
        #[command(flatten)]
        config: ConfigOption,
    },
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
  SIGUSR2           start the program anew, from the path that it was started from, and hand over to it;
                    if the new process does not serve within `timeouts.upgrade`, say why and go on

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

const AFTER_EXPLAIN: &str = "\
Examples:
  titan explain GET http://a.example/items/42 -c titan.yaml
  titan explain POST /items -H 'Host: a.example' -H 'Content-Length: 5' -c titan.yaml
  titan explain GET http://a.example/ -H 'Authorization: Bearer eyJhb...' -c titan.yaml
  titan explain GET http://a.example/ --from 203.0.113.7 -c titan.yaml
  titan explain GET http://a.example/ -c titan.yaml --as-test > tests.yaml

The exit code is 0 whatever the response would be, and 2 if the request or the configuration is invalid.";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    pub(super) fn help(of: Option<&str>) -> String {
        let mut command = Cli::command();
        command.build();
        let command = match of {
            Some(name) => command.find_subcommand_mut(name).unwrap(),
            None => &mut command,
        };
        let text = command.render_long_help().to_string();
        text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn the_help_is_worth_reading() {
        insta::assert_snapshot!(help(None), @r"
        An API gateway: accepts requests, routes them to upstreams, and streams the responses back

        Usage: titan [OPTIONS] [FILE]
               titan <COMMAND>

        Commands:
          run      Start the gateway; the default without a command
          reload   Have a running gateway read its configuration again, and print what it says
          check    Validate a configuration file and print a summary
          explain  Show which route a request would take, and why not another
          test     Run test files: requests, and what a configuration is expected to make of each
          plan     Show what changes between two configurations, and what becomes weaker
          cert     Write a certificate for development, and the authority that signed it
          schema   Print the JSON Schema of the configuration, for editors
          help     Print this message or the help of the given subcommand(s)

        Arguments:
          [FILE]
                  The configuration; `--config FILE` is the same

        Options:
          -c, --config <FILE>
                  The configuration, YAML or JSON; without it a built-in demo

              --watch
                  Put the file in force again whenever it changes, as SIGHUP does

          -h, --help
                  Print help

          -V, --version
                  Print version

        Examples:
          titan                                   start the demo: an echo service on 127.0.0.1:8080
          titan --config titan.yaml               start with a configuration
          titan check titan.yaml                  show its errors, or a summary
          titan reload                            have the running gateway read its configuration again
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
          NO_COLOR    when set, errors have no colours, not even on a terminal
        ");
    }

    #[test]
    fn the_help_of_run() {
        insta::assert_snapshot!(help(Some("run")), @r"
        Start the gateway; the default without a command

        Usage: titan run [OPTIONS] [FILE]

        Arguments:
          [FILE]
                  The configuration; `--config FILE` is the same

        Options:
          -c, --config <FILE>
                  The configuration, YAML or JSON; without it a built-in demo

              --watch
                  Put the file in force again whenever it changes, as SIGHUP does

          -h, --help
                  Print help

        Signals:
          SIGTERM, SIGINT   drain: accept nothing new, finish running requests within `timeouts.drain`, exit 0;
                            a second signal exits at once with 128 plus its number (143, 130)
          SIGHUP            read FILE again and put it in force, or say what is wrong with it and change nothing
          SIGUSR2           start the program anew, from the path that it was started from, and hand over to it;
                            if the new process does not serve within `timeouts.upgrade`, say why and go on

        The admin interface (127.0.0.1:8484, unless the configuration says otherwise) serves /healthz,
        /readyz and /metrics. It closes when the drain begins; the address in `admin.probes` keeps responding
        until the end. Commands such as `titan reload` use its Unix socket, `admin.socket`.
        ");
    }

    #[test]
    fn the_help_of_check() {
        insta::assert_snapshot!(help(Some("check")), @r"
        Validate a configuration file and print a summary

        Shows all errors at once, each with its position. Starts, binds and resolves nothing.

        Usage: titan check [OPTIONS] [FILE]

        Arguments:
          [FILE]
                  The configuration, YAML or JSON; `-` for standard input

        Options:
          -c, --config <FILE>
                  The same as FILE

              --no-files
                  Do not read the files and directories that it names: certificates, keys, lists

              --strict
                  Treat warnings as errors, with exit code 3

              --json
                  Print errors and warnings as JSON

              --list-routes
                  Print the routes in the order in which they are tried

              --resolved
                  Print the whole configuration as it is used: one file, defaults filled in, secrets masked

          -h, --help
                  Print help (see a summary with '-h')

        Examples:
          titan check titan.yaml
          titan check --no-files --strict --json titan.yaml    in CI, without the certificates
          titan check --list-routes - < titan.yaml
          titan check --resolved titan.yaml                    with the files that it includes, and defaults

        Exit codes:
          0    valid; there may be warnings
          1    standard output could not be written, or the file of `jwt_revocations` could not be read
          2    invalid
          3    valid, but there are warnings, and --strict does not allow any
        ");
    }

    #[test]
    fn the_help_of_explain() {
        insta::assert_snapshot!(help(Some("explain")), @r"
        Show which route a request would take, and why not another

        Sends nothing: the code that serves requests reads, routes and rewrites this one.

        Checks tokens with the keys of the configuration. If these are fetched, or cannot be read here, it does not check signatures.

        Usage: titan explain [OPTIONS] <METHOD> <URL>

        Arguments:
          <METHOD>
                  The method, such as GET

          <URL>
                  `http://host/path?query`, or `/path` together with -H 'Host: ...'

        Options:
          -H, --header <NAME: VALUE>
                  A header of the request; may be repeated

              --client-cert <FILE>
                  The certificate that the client presents, a PEM file; it is not verified

              --from <ADDRESS>
                  The address that the client connects from; without it, nothing is decided by address

              --as-test
                  Print a case for `titan test` instead, with the request as given: tokens too

          -c, --config <FILE>
                  The configuration, YAML or JSON; without it a built-in demo

          -h, --help
                  Print help (see a summary with '-h')

        Examples:
          titan explain GET http://a.example/items/42 -c titan.yaml
          titan explain POST /items -H 'Host: a.example' -H 'Content-Length: 5' -c titan.yaml
          titan explain GET http://a.example/ -H 'Authorization: Bearer eyJhb...' -c titan.yaml
          titan explain GET http://a.example/ --from 203.0.113.7 -c titan.yaml
          titan explain GET http://a.example/ -c titan.yaml --as-test > tests.yaml

        The exit code is 0 whatever the response would be, and 2 if the request or the configuration is invalid.
        ");
    }

    #[test]
    fn the_help_of_test() {
        insta::assert_snapshot!(help(Some("test")), @r"
        Run test files: requests, and what a configuration is expected to make of each

        Sends nothing: the code that serves requests reads, routes and rewrites them, as for `titan explain`.

        Usage: titan test [OPTIONS] <FILE>...

        Arguments:
          <FILE>...
                  The test files, YAML or JSON

        Options:
          -c, --config <FILE>
                  The configuration, in place of `config` in the test files

          -h, --help
                  Print help (see a summary with '-h')

        A test file:
          config: titan.yaml            # from the directory of this file
          cases:
            - name: users need a token
              request: { url: http://a.example/users/7, from: 192.0.2.1 }
              expect: { route: users, status: 401, code: token-missing, policies: { jwt: refuses } }

        `titan explain --as-test` writes such a case. `${NAME}` stands for a variable of the environment, such as a
        token that is in no file.

        Exit codes:
          0    everything is as expected
          1    something is not, or standard output could not be written
          2    a test file or a configuration is invalid
        ");
    }

    #[test]
    fn the_help_of_plan() {
        insta::assert_snapshot!(help(Some("plan")), @r"
        Show what changes between two configurations, and what becomes weaker

        Compares what they mean: defaults, short forms and order make no difference. Starts and changes nothing. Secrets are not shown.

        Usage: titan plan [OPTIONS] <NEW>

        Arguments:
          <NEW>
                  The new configuration, YAML or JSON; `-` for standard input

        Options:
              --from <OLD>
                  The old one: a file, `-` for standard input, or `running` for the gateway that runs

                  [default: running]

              --json
                  Print the plan as JSON

          -h, --help
                  Print help (see a summary with '-h')

        Examples:
          titan plan new.yaml --from titan.yaml
          git show main:titan.yaml | titan plan titan.yaml --from -    in CI: what a branch changes
          titan plan new.yaml --from titan.yaml --json

        Weaker is, for example: a route that needs no token any more, a scope, network or limit that is gone, an
        older version of TLS, certificates that are not verified. So is a new route that takes requests of another
        one and asks less of them.

        Exit codes:
          0    the two mean the same
          1    standard output could not be written
          2    one of them is invalid or cannot be read
          3    something changes, and nothing becomes weaker
          4    something becomes weaker
        ");
    }

    #[test]
    fn without_a_command_it_runs() {
        for arguments in [&["titan"][..], &["titan", "run"]] {
            let command = Cli::try_parse_from(arguments).unwrap().into_command();
            assert!(matches!(command, Command::Run(options) if options.file().is_none()));
        }
        assert!(Cli::try_parse_from(["titan", "--config", "a", "schema"]).is_err());
    }

    #[test]
    fn a_file_stands_with_and_without_its_option() {
        for arguments in [
            &["titan", "a.yaml"][..],
            &["titan", "--config", "a.yaml"],
            &["titan", "run", "a.yaml"],
            &["titan", "run", "-c", "a.yaml"],
            &["titan", "check", "a.yaml"],
            &["titan", "check", "--config", "a.yaml"],
        ] {
            let command = Cli::try_parse_from(arguments).unwrap().into_command();
            let file = match &command {
                Command::Run(options) => options.file(),
                Command::Check(options) => Some(options.file()),
                _ => None,
            };
            assert_eq!(file, Some(Path::new("a.yaml")), "{arguments:?}");
        }
        for arguments in [
            &["titan", "check"][..],
            &["titan", "a.yaml", "-c", "b.yaml"],
            &["titan", "run", "a.yaml", "-c", "b.yaml"],
            &["titan", "check", "a.yaml", "-c", "b.yaml"],
            &["titan", "chek"],
            &["titan", "chek", "a.yaml"],
        ] {
            assert!(Cli::try_parse_from(arguments).is_err(), "{arguments:?}");
        }
    }
}
