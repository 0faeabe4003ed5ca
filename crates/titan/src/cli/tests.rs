//! The help as users see it.

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
      run         Start the gateway; the default without a command
      kubernetes  Start the gateway with what Gateway API says in a Kubernetes cluster
      reload      Have a running gateway read its configuration again, and print what it says
      apply       Put another configuration in force in a running gateway, or write documents for those that follow them
      confirm     Keep the configuration that is on trial in a running gateway
      rollback    Put an earlier configuration in force again in a running gateway
      history     Print which configurations were in force in a running gateway
      sources     Print where more of the configuration of a running gateway comes from, and what of it is held back
      top         Watch a running gateway: rates, durations, errors, endpoints, workers
      recorder    Show the last exchanges of a running gateway, or everything about one of them
      tap         Show exchanges of a running gateway as they end
      upgrade     Have another process take over from a running gateway, and wait until it serves
      log         Print which events a running gateway writes, and have it write others for a while
      check       Validate a configuration file and print a summary
      explain     Show which route a request would take, and why not another
      test        Run test files: requests, and what a configuration is expected to make of each
      plan        Show what changes between two configurations, and what becomes weaker
      cert        Write a certificate for development, and the authority that signed it
      schema      Print the JSON Schema of the configuration, for editors
      help        Print this message or the help of the given subcommand(s)

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
      SIGUSR1           open the files of access logs anew, after logrotate or somebody else has renamed them
      SIGUSR2           start the program anew, from the path that it was started from, and hand over to it;
                        if the new process does not serve within `timeouts.upgrade`, say why and go on.
                        `titan upgrade` does the same, and may name another program

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

    With --id it tells what a running gateway has made of a request, and why.

    Usage: titan explain [OPTIONS] [METHOD] [URL]

    Arguments:
      [METHOD]
              The method, such as GET

      [URL]
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

          --json
              Print what would come of it as JSON

          --id <ID>
              The id of a request that a running gateway has served, as its response has it (X-Request-Id)

          --socket <PATH>
              With --id: the Unix socket of its admin interface; without it the usual places

          --url <URL>
              The address of its admin interface, such as https://gateway.example:8484

          --token-file <FILE>
              A file with the token for that address; a token that may only read suffices

          --ca <FILE>
              A file with the authorities to trust there; without it those of the system

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
      titan explain --id 0198f3c2d1e04b6f9a3c5d7e8f901234

    The exit code is 0 whatever the response would be, and 2 if the request or the configuration is invalid. With
    --id it is 1 if no gateway can be reached, or that request is not there or cannot be judged.
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

          --socket <PATH>
              The Unix socket of its admin interface; without it the usual places

      -c, --config <FILE>
              Its configuration, to find the socket

      -h, --help
              Print help (see a summary with '-h')

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
