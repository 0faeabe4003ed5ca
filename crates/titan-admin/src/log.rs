//! `/log`: from which level on events are written, by area, and what was left out.

use crate::http::{Request, Response, media_type};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::RangeInclusive;
use std::time::Duration;
use titan_config::{LogArea, LogLevel};
use titan_http::Status;
use titan_observe::events::{Dropped, LevelsNow, Log, Wish};

const JSON: &str = "application/json";
/// How long other levels may hold: what is meant for longer belongs in the file.
const TIMES: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(24 * 3600);
const EXAMPLE: &str = r#"{"areas": {"health": "debug"}, "for": "10m"}"#;

#[derive(Serialize)]
struct Shown {
    /// The level of each area.
    levels: BTreeMap<&'static str, &'static str>,
    /// The areas whose level is not that of the configuration.
    changed: Vec<&'static str>,
    /// When these change back; nothing where only another configuration ends that.
    ends_in_seconds: Option<f64>,
    dropped: ShownDropped,
}

#[derive(Serialize)]
struct ShownDropped {
    queue: u64,
    rate: u64,
}

/// What is wanted of the log. Without levels those of the configuration are.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted<'r> {
    #[serde(borrow)]
    level: Option<Cow<'r, str>>,
    #[serde(borrow, default)]
    areas: BTreeMap<Cow<'r, str>, Cow<'r, str>>,
    #[serde(rename = "for")]
    time: Option<Value>,
}

/// Shows the levels in force.
pub(crate) fn read(log: &Log) -> Response {
    Response::json(Status::OK, &Shown::of(&log.levels(), log.dropped()))
}

/// Has the levels of the body hold, and shows what comes of it.
pub(crate) fn put(log: &Log, request: &Request) -> Response {
    if !media_type(&request.head).eq_ignore_ascii_case(JSON.as_bytes()) {
        return Response::problem(Status::BAD_REQUEST, "send `Content-Type: application/json`");
    }
    match wish(&request.body) {
        Ok(wish) => {
            log.wish(&wish);
            read(log)
        }
        Err(fault) => Response::problem(Status::BAD_REQUEST, &fault),
    }
}

/// What a body wants, for the line about it, or why it makes no sense.
pub(crate) fn named(request: &Request) -> String {
    let Wish { level, areas, time } = match wish(&request.body) {
        Ok(wish) => wish,
        Err(why) => return why,
    };
    let mut text = level.map_or_else(String::new, |level| format!("all {level} "));
    for (area, level) in areas {
        let _ = write!(text, "{area} {level} ");
    }
    match time {
        _ if text.is_empty() => "the levels of the configuration".to_owned(),
        Some(time) => format!("{text}for {time:?}"),
        None => format!("{text}until the configuration changes"),
    }
}

fn wish(body: &[u8]) -> Result<Wish, String> {
    let Wanted { level, areas, time } =
        serde_json::from_slice(body).map_err(|error| format!("{error}; send {EXAMPLE}"))?;
    let level = level.as_deref().map(parse_level).transpose()?;
    let areas = areas.iter().map(|(area, level)| {
        let unknown = |help| format!("`{area}` is not an area of the log: {help}");
        Ok((LogArea::named(area).map_err(unknown)?, parse_level(level)?))
    });
    let areas = areas.collect::<Result<Vec<_>, String>>()?;
    let time = match time {
        None => None,
        Some(Value::String(text)) => {
            Some(titan_config::duration(&text).map_err(|why| format!("`for`: {why}"))?)
        }
        Some(_) => return Err("`for` is a duration with its unit, such as \"10m\"".to_owned()),
    };
    if time.is_some_and(|time| !TIMES.contains(&time)) {
        return Err("`for` is not between 1s and 24h; what is meant for longer belongs in the configuration".to_owned());
    }
    if time.is_some() && level.is_none() && areas.is_empty() {
        return Err("`for` needs a `level`, or `areas`".to_owned());
    }
    Ok(Wish { level, areas, time })
}

fn parse_level(name: &str) -> Result<LogLevel, String> {
    let unknown = || format!("`{name}` is none of the levels `error`, `warn`, `info` and `debug`");
    LogLevel::named(name).ok_or_else(unknown)
}

impl Shown {
    fn of(now: &LevelsNow, Dropped { queue, rate }: Dropped) -> Shown {
        let LevelsNow { areas, ends_in } = now;
        let changed = areas.iter().filter(|(.., is_wished)| *is_wished);
        Shown {
            levels: areas.iter().map(|(area, level, _)| (area.as_str(), level.as_str())).collect(),
            changed: changed.map(|(area, ..)| area.as_str()).collect(),
            ends_in_seconds: ends_in.map(|time| time.as_secs_f64()),
            dropped: ShownDropped { queue, rate },
        }
    }
}
