//! The options of `titan top`, and its help.

use super::GatewayOption;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;
use titan_config::Url;

/// What to show, of which gateway.
#[derive(Debug, Args)]
pub(crate) struct TopOptions {
    /// How often to ask the gateway, from 100ms to 1h
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub(crate) interval: Duration,
    /// Print one picture as text, of two samples, and exit
    #[arg(long)]
    pub(crate) once: bool,
    /// Use no colours; the same as NO_COLOR
    #[arg(long)]
    pub(crate) no_color: bool,
    #[command(flatten)]
    pub(crate) address: AddressOption,
    #[command(flatten)]
    pub(crate) gateway: GatewayOption,
}

/// A gateway at an address, in place of a Unix socket.
#[derive(Debug, Args)]
pub(crate) struct AddressOption {
    /// The address of its admin interface, such as https://gateway.example:8484
    #[arg(long, value_name = "URL", conflicts_with_all = ["socket", "config"], value_parser = address)]
    pub(crate) url: Option<Url>,
    /// A file with the token for that address; a token that may only read suffices
    #[arg(long, value_name = "FILE", requires = "url")]
    pub(crate) token_file: Option<PathBuf>,
    /// A file with the authorities to trust there; without it those of the system
    #[arg(long, value_name = "FILE", requires = "url")]
    pub(crate) ca: Option<PathBuf>,
}

fn interval(text: &str) -> Result<Duration, String> {
    let time = titan_config::duration(text)?;
    match (Duration::from_millis(100)..=Duration::from_secs(3600)).contains(&time) {
        true => Ok(time),
        false => Err("expected from 100ms to 1h".to_owned()),
    }
}

fn address(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|why| match text.contains("://") {
        true => why,
        false => format!("{why}: write `http://{text}` or `https://{text}`"),
    })?;
    match url.target == "/" {
        true => Ok(url),
        false => Err("it has a path: write it without one".to_owned()),
    }
}

pub(super) const AFTER_HELP: &str = "\
Keys:
  1 2 3 4, Tab    overview, routes, upstreams with their endpoints, workers
  arrows          move; PgUp, PgDn, Home and End too
  s, r            sort by the next column; reverse the order
  /               show only names that contain a text; Enter keeps it, Esc removes it
  space           pause, and go on
  ?               the keys and what the columns mean
  q, Ctrl-C       leave

Examples:
  titan top
  titan top --socket /run/titan/shop.sock --interval 5s
  titan top --url https://gateway.example:8484 --token-file token --ca ca.pem
  titan top --once | grep -w ejected

Without a terminal it does as with --once. Without a token an address shows no reasons and no breakers.

Exit codes:
  0    it was left, or the picture was printed
  1    no gateway can be reached, or it does not serve this user
  2    the command line is wrong
  129, 130, 143
       ended by SIGHUP, SIGINT, SIGTERM

Environment:
  NO_COLOR    when set, there are no colours";

#[cfg(test)]
mod tests {
    use crate::cli::Cli;
    use crate::cli::tests::help;
    use clap::Parser;

    fn error(arguments: &[&str]) -> String {
        let all = ["titan", "top"].iter().chain(arguments);
        Cli::try_parse_from(all).unwrap_err().to_string()
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        assert!(error(&["--interval", "10ms"]).contains("expected from 100ms to 1h"));
        let wanted = "it has no scheme: write `http://gateway:8484` or `https://gateway:8484`";
        assert!(error(&["--url", "gateway:8484"]).contains(wanted));
        assert!(error(&["--url", "ftp://a"]).contains("neither `https` nor `http`\n"));
        assert!(error(&["--url", "http://a/metrics"]).contains("write it without one"));
        assert!(error(&["--url", "http://a", "--socket", "b"]).contains("cannot be used with"));
        assert!(error(&["--token-file", "a"]).contains("--url"));
    }

    #[test]
    fn the_help_of_top() {
        insta::assert_snapshot!(help(Some("top")), @r"
        Watch a running gateway: rates, durations, errors, endpoints, workers

        A page in the terminal. It reads the admin interface and changes nothing.

        Usage: titan top [OPTIONS]

        Options:
              --interval <TIME>
                  How often to ask the gateway, from 100ms to 1h

                  [default: 1s]

              --once
                  Print one picture as text, of two samples, and exit

              --no-color
                  Use no colours; the same as NO_COLOR

              --url <URL>
                  The address of its admin interface, such as https://gateway.example:8484

              --token-file <FILE>
                  A file with the token for that address; a token that may only read suffices

              --ca <FILE>
                  A file with the authorities to trust there; without it those of the system

              --socket <PATH>
                  The Unix socket of its admin interface; without it the usual places

          -c, --config <FILE>
                  Its configuration, to find the socket

          -h, --help
                  Print help (see a summary with '-h')

        Keys:
          1 2 3 4, Tab    overview, routes, upstreams with their endpoints, workers
          arrows          move; PgUp, PgDn, Home and End too
          s, r            sort by the next column; reverse the order
          /               show only names that contain a text; Enter keeps it, Esc removes it
          space           pause, and go on
          ?               the keys and what the columns mean
          q, Ctrl-C       leave

        Examples:
          titan top
          titan top --socket /run/titan/shop.sock --interval 5s
          titan top --url https://gateway.example:8484 --token-file token --ca ca.pem
          titan top --once | grep -w ejected

        Without a terminal it does as with --once. Without a token an address shows no reasons and no breakers.

        Exit codes:
          0    it was left, or the picture was printed
          1    no gateway can be reached, or it does not serve this user
          2    the command line is wrong
          129, 130, 143
               ended by SIGHUP, SIGINT, SIGTERM

        Environment:
          NO_COLOR    when set, there are no colours
        ");
    }
}
