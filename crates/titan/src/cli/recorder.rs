//! The options of `titan recorder` and `titan tap`, and their help.

use super::{AddressOption, GatewayOption};
use clap::Args;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use titan_config::{Cidr, Statuses};
use titan_http::Method;
use titan_proxy::is_request_id;

/// Which exchanges to show, of which gateway.
#[derive(Debug, Args)]
pub(crate) struct RecorderOptions {
    /// The id of a request, as its response has it (X-Request-Id): shows everything that is known of it
    #[arg(value_name = "ID", value_parser = request_id)]
    pub(crate) id: Option<String>,
    #[command(flatten)]
    pub(crate) filter: FilterOptions,
    /// Only what began so long ago at most, such as 10m
    #[arg(long, value_name = "TIME", value_parser = titan_config::duration)]
    pub(crate) since: Option<Duration>,
    /// Only what began so long ago at least
    #[arg(long, value_name = "TIME", value_parser = titan_config::duration)]
    pub(crate) until: Option<Duration>,
    /// How many at most, up to 1000
    #[arg(long, value_name = "COUNT", default_value = "50", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) limit: u16,
    /// Print them as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) address: AddressOption,
    #[command(flatten)]
    pub(crate) gateway: GatewayOption,
}

/// Which exchanges to tell of, of which gateway.
#[derive(Debug, Args)]
pub(crate) struct TapOptions {
    #[command(flatten)]
    pub(crate) filter: FilterOptions,
    /// How many in a second at most, up to 1000; the others are counted
    #[arg(long, value_name = "COUNT", default_value = "100", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) rate: u16,
    /// Print each as JSON, on a line of its own
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) address: AddressOption,
    #[command(flatten)]
    pub(crate) gateway: GatewayOption,
}

/// What has to hold of an exchange.
#[derive(Debug, Args)]
pub(crate) struct FilterOptions {
    /// The route that took it; `none` for what no route took
    #[arg(long, value_name = "NAME")]
    pub(crate) route: Option<String>,
    /// An upstream that was tried
    #[arg(long, value_name = "NAME")]
    pub(crate) upstream: Option<String>,
    /// An endpoint that was tried
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) endpoint: Option<String>,
    /// The method, such as GET; `get` is another one
    #[arg(long, value_parser = method)]
    pub(crate) method: Option<String>,
    /// What the path begins with
    #[arg(long, value_name = "PREFIX", value_parser = path)]
    pub(crate) path: Option<String>,
    /// The status that the client got: 404, 5xx, 500-503, several between commas
    #[arg(long)]
    pub(crate) status: Option<Statuses>,
    /// The network that the client is in, such as 10.0.0.0/8
    #[arg(long, value_name = "NETWORK")]
    pub(crate) client: Option<Cidr>,
    /// How long it took at least, such as 500ms
    #[arg(long, value_name = "TIME", value_parser = titan_config::duration)]
    pub(crate) slower_than: Option<Duration>,
    /// Only what has failed, statuses from 400 on among it
    #[arg(long)]
    pub(crate) failed: bool,
}

impl FilterOptions {
    /// The conditions, as a query has them.
    pub(crate) fn conditions(&self) -> Vec<(&'static str, String)> {
        let FilterOptions { route, upstream, endpoint, method, path, status, client, .. } = self;
        let FilterOptions { slower_than, failed, .. } = self;
        let status = status.as_ref().map(|it| it.to_string().replace(' ', ""));
        let slower_than = slower_than.map(|it| it.as_secs_f64().to_string());
        [
            ("route", route.clone()),
            ("upstream", upstream.clone()),
            ("endpoint", endpoint.clone()),
            ("method", method.clone()),
            ("path", path.clone()),
            ("status", status),
            ("client", client.map(|it| it.to_string())),
            ("slower_than", slower_than),
            ("failed", failed.then(|| "true".to_owned())),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
    }
}

impl RecorderOptions {
    /// Whether nothing can have begun in such a time: it would be over before it begins.
    pub(crate) fn has_no_time(&self) -> bool {
        matches!((self.since, self.until), (Some(since), Some(until)) if until > since)
    }

    /// The conditions, as a query has them, at that time.
    pub(crate) fn conditions(&self, now: SystemTime) -> Vec<(&'static str, String)> {
        let ago = |time: Duration| {
            let since_1970 = now.duration_since(UNIX_EPOCH).unwrap_or_default();
            since_1970.saturating_sub(time).as_secs_f64().to_string()
        };
        let times = [("since", self.since), ("until", self.until)];
        let times = times.into_iter().filter_map(|(name, time)| Some((name, ago(time?))));
        let limit = [("limit", self.limit.to_string())];
        self.filter.conditions().into_iter().chain(times).chain(limit).collect()
    }
}

/// A method as clients send it: case makes another one of it (RFC 9110 section 9.1).
fn method(text: &str) -> Result<String, String> {
    let is_method = Method::parse(text.as_bytes()).is_some();
    is_method
        .then(|| text.to_owned())
        .ok_or_else(|| "this is no method: write one such as `GET`".to_owned())
}

/// The beginning of a path. That of a request about the server as a whole is `*`.
fn path(text: &str) -> Result<String, String> {
    match text.starts_with('/') || text == "*" {
        true => Ok(text.to_owned()),
        false => Err(format!("paths begin with a slash: write `/{text}`")),
    }
}

/// An id as requests have them: of the gateway, or of a proxy that is trusted.
pub(super) fn request_id(text: &str) -> Result<String, String> {
    match is_request_id(text.as_bytes()) {
        true => Ok(text.to_owned()),
        false => Err("no request has such an id: it is 32 hexadecimal digits, or what a trusted proxy has sent, \
                      up to 128 letters, digits and -_.:+/=@~"
            .to_owned()),
    }
}

pub(super) const AFTER_RECORDER: &str = "\
Examples:
  titan recorder                                    the last exchanges, the latest first
  titan recorder 0198f3c2d1e04b6f9a3c5d7e8f901234   one of them: heads, decisions, attempts
  titan recorder --route api --failed --since 10m
  titan recorder --slower-than 1s --json | jq .

Secrets are masked. The last exchanges are kept, as many as the memory of `recorder` in the
configuration has room for; failures and the slowest of each minute stay for longer.

Exit codes:
  0    it was printed
  1    no gateway can be reached, it does not serve this user, its recorder is off, or that
       request is not there
  2    the command line is wrong";

pub(super) const AFTER_TAP: &str = "\
Examples:
  titan tap --route api --status 5xx
  titan tap --client 10.0.0.0/8 --slower-than 200ms
  titan tap --json | jq 'select(.attempts > 1)'

It ends with Ctrl-C, or when its output is closed. Secrets are masked.

Exit codes:
  0    its output was closed, or the gateway has ended
  1    no gateway can be reached, it does not serve this user, or its recorder is off
  2    the command line is wrong";

#[cfg(test)]
mod tests {
    use crate::cli::Cli;
    use crate::cli::tests::help;
    use clap::Parser;
    use titan_observe::recorder::Filter;

    #[test]
    fn there_is_an_option_for_each_condition() {
        for name in Filter::NAMES.iter().filter(|name| **name != "id") {
            let option = format!("--{}", name.replace('_', "-"));
            assert!(help(Some("recorder")).contains(&option), "{option}");
            let is_of_a_time = ["since", "until"].contains(name);
            assert_eq!(help(Some("tap")).contains(&option), !is_of_a_time, "{option}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let error = |arguments: &[&str]| {
            let all = ["titan"].iter().chain(arguments);
            Cli::try_parse_from(all).unwrap_err().to_string()
        };
        assert!(error(&["recorder", "--status", "6xx"]).contains("statuses are from 100 to 599"));
        assert!(error(&["tap", "--client", "10.0.0.0/40"]).contains("--client"));
        for id in ["", "two words", "4f2a?", &"a".repeat(129)] {
            for command in [&["recorder"][..], &["explain", "--id"]] {
                let error = error(&[command, &[id]].concat());
                assert!(error.contains("no request has such an id"), "{error}");
            }
        }
        for command in ["recorder", "tap"] {
            for (name, value, wanted) in [
                ("--method", "GET /", "this is no method"),
                ("--method", "", "this is no method"),
                ("--path", "cart", "paths begin with a slash: write `/cart`"),
                ("--path", "", "paths begin with a slash: write `/`"),
            ] {
                let error = error(&[command, name, value]);
                assert!(error.contains(wanted), "{error}");
            }
            let all = ["titan", command, "--method", "M-SEARCH", "--path", "/a"];
            assert!(Cli::try_parse_from(all).is_ok());
            assert!(Cli::try_parse_from(["titan", command, "--method", "get"]).is_ok());
            assert!(Cli::try_parse_from(["titan", command, "--path", "*"]).is_ok());
        }
        assert!(error(&["tap", "--rate", "0"]).contains("1..=1000"));
        assert!(error(&["recorder", "--since", "yesterday"]).contains("--since"));
        assert!(error(&["recorder", "--limit", "5000"]).contains("1..=1000"));
    }
}
