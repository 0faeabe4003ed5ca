//! Which exchanges are asked for.

use crate::record::{Facts, Recorded, Text};
use std::fmt;
use std::time::Duration;
use titan_config::{Cidr, Statuses};
use titan_http::Status;
use titan_io::error::Side;

/// What has to hold of an exchange; of what is not said, anything may.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// The id of the request.
    pub id: Option<String>,
    /// The name of the route; `none` for what no route has taken.
    pub route: Option<String>,
    /// The name of an upstream that was tried.
    pub upstream: Option<String>,
    /// The address of an endpoint that was tried.
    pub endpoint: Option<String>,
    /// The method.
    pub method: Option<String>,
    /// What the path begins with.
    pub path: Option<String>,
    /// The status that the client got.
    pub status: Option<Statuses>,
    /// Where the client is.
    pub client: Option<Cidr>,
    /// How long it took at least.
    pub slower_than: Option<Duration>,
    /// When it started at the earliest, in microseconds since 1970.
    pub since: Option<u64>,
    /// When it started at the latest.
    pub until: Option<u64>,
    /// Whether it has failed, by anybody's doing.
    pub failed: bool,
}

/// Why something cannot be asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadFilter {
    /// The name of the condition.
    pub name: String,
    /// What is wrong with it, and what to write.
    pub why: String,
}

impl Filter {
    /// The names of all conditions.
    pub const NAMES: [&str; 12] = [
        "id",
        "route",
        "upstream",
        "endpoint",
        "method",
        "path",
        "status",
        "client",
        "slower_than",
        "since",
        "until",
        "failed",
    ];

    /// Adds a condition, as a query has it; false if there is none of that name.
    pub fn set(&mut self, name: &str, value: &str) -> Result<bool, BadFilter> {
        let bad = |why: String| BadFilter { name: name.to_owned(), why };
        let text = || Some(value.to_owned());
        match name {
            "id" => self.id = text(),
            "route" => self.route = text(),
            "upstream" => self.upstream = text(),
            "endpoint" => self.endpoint = text(),
            "method" => self.method = text(),
            "path" => self.path = text(),
            "status" => self.status = Some(value.parse().map_err(bad)?),
            "client" => self.client = Some(value.parse().map_err(bad)?),
            "slower_than" => self.slower_than = Some(seconds(value).map_err(bad)?),
            "since" => self.since = Some(micros(value).map_err(bad)?),
            "until" => self.until = Some(micros(value).map_err(bad)?),
            "failed" => self.failed = truth(value).map_err(bad)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Whether it holds of an exchange.
    pub fn holds(&self, record: &Recorded<'_>) -> bool {
        let Filter { id, route, upstream, endpoint, method, path, status, client, .. } = self;
        let Filter { slower_than, since, until, failed, .. } = self;
        let facts = &record.facts;
        let is_text = |wanted: &Option<String>, text: Text| {
            wanted.as_ref().is_none_or(|wanted| record.text(text) == wanted.as_bytes())
        };
        let is_route = route.as_ref().is_none_or(|wanted| match record.text(Text::Route) {
            b"" => wanted == "none",
            name => name == wanted.as_bytes(),
        });
        let is_tried = |wanted: &Option<String>, is_upstream: bool| {
            wanted.as_ref().is_none_or(|wanted| {
                let tried =
                    record.attempts().map(|it| if is_upstream { it.upstream } else { it.endpoint });
                tried.into_iter().any(|tried| tried == wanted.as_bytes())
            })
        };
        is_text(id, Text::RequestId)
            && is_route
            && is_text(method, Text::Method)
            && path.as_ref().is_none_or(|start| record.path().starts_with(start.as_bytes()))
            && status
                .as_ref()
                .is_none_or(|wanted| facts.status.is_some_and(|it| wanted.contains(it)))
            && client
                .as_ref()
                .is_none_or(|wanted| facts.client.is_some_and(|it| wanted.contains(it)))
            && slower_than.is_none_or(|least| facts.took >= least)
            && since.is_none_or(|since| facts.started >= since)
            && until.is_none_or(|until| facts.started <= until)
            && (!failed || has_failed(facts.caused_by, facts.status))
            && is_tried(upstream, true)
            && is_tried(endpoint, false)
    }
}

impl fmt::Display for BadFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.name, self.why)
    }
}

impl std::error::Error for BadFilter {}

/// Whether an exchange has failed, by anybody's doing.
pub(super) fn has_failed(caused_by: Option<Side>, status: Option<Status>) -> bool {
    caused_by.is_some() || status.is_none_or(|status| status.class() >= 4)
}

/// When an exchange was over, in microseconds since 1970.
pub(super) fn ended(facts: &Facts) -> u64 {
    let took = u64::try_from(facts.took.as_micros()).unwrap_or(u64::MAX);
    facts.started.saturating_add(took)
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: Option<f64> = text.parse().ok();
    seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| "write seconds, such as `0.5`".to_owned())
}

fn micros(text: &str) -> Result<u64, String> {
    let since_1970 =
        seconds(text).map_err(|_| "write seconds since 1970, such as `1764272000.5`".to_owned())?;
    Ok(u64::try_from(since_1970.as_micros()).unwrap_or(u64::MAX))
}

fn truth(text: &str) -> Result<bool, String> {
    match text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err("write `true` or `false`".to_owned()),
    }
}
