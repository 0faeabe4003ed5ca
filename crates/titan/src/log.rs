//! `titan log`: which events a running gateway writes.

use crate::cli::LogOptions;
use crate::client::{Body, Client};
use crate::failure::Failure;
use crate::terminal;
use serde_json::{Map, Value, json};
use std::fmt::Write;
use std::process::ExitCode;
use titan_config::LogArea;

/// Shows the levels in force, after a change if one is wanted.
pub(crate) fn log(options: &LogOptions) -> Result<ExitCode, Failure> {
    let LogOptions { json, gateway, .. } = options;
    let client = Client::find(gateway)?;
    let reply = match wanted(options) {
        Some(body) => {
            let bytes = body.to_string();
            let body = Body { media_type: "application/json", bytes: bytes.as_bytes() };
            client.call("PUT", "/log", Some(body))?
        }
        None => client.call("GET", "/log", None)?,
    };
    match reply.status {
        200 => {}
        400..=499 if !matches!(reply.status, 401 | 403) => {
            return Err(Failure::BadInput(reply.problem()));
        }
        _ => return Err(Failure::Runtime(reply.problem())),
    }
    let document = reply.document();
    terminal::print(&if *json { format!("{document:#}\n") } else { table(&document) })?;
    Ok(ExitCode::SUCCESS)
}

/// The body of a request for a change; none where nothing is to change.
fn wanted(options: &LogOptions) -> Option<Value> {
    let LogOptions { area, level, time, reset, .. } = options;
    if *reset {
        return Some(json!({}));
    }
    let level = (*level)?.as_str();
    let mut wanted = match area.is_empty() {
        true => json!({ "level": level }),
        false => {
            let areas = area.iter().map(|area| (area.to_string(), Value::from(level)));
            json!({ "areas": Map::from_iter(areas) })
        }
    };
    if let Some(time) = time {
        wanted["for"] = Value::from(time.as_str());
    }
    Some(wanted)
}

/// A line for each area, with a mark where its level is not that of the configuration.
fn table(document: &Value) -> String {
    let changed = document["changed"].as_array();
    let is_changed = |area: &str| changed.is_some_and(|all| all.iter().any(|it| it == area));
    let mut text = String::new();
    for area in LogArea::ALL.map(LogArea::as_str) {
        let mark = if is_changed(area) { '*' } else { ' ' };
        let level = document["levels"][area].as_str().unwrap_or("?");
        line(&mut text, format_args!("{mark} {area:8}  {level}"));
    }
    match (document["ends_in_seconds"].as_f64(), changed.is_some_and(|all| !all.is_empty())) {
        (Some(left), true) => {
            line(&mut text, format_args!("\n* for another {left:.0} s"));
        }
        (None, true) => line(&mut text, format_args!("\n* until the configuration changes")),
        (_, false) => {}
    }
    let left_out = |reason: &str| document["dropped"][reason].as_u64().unwrap_or(0);
    let (queue, rate) = (left_out("queue"), left_out("rate"));
    if queue + rate > 0 {
        line(
            &mut text,
            format_args!(
                "\nleft out since the start: {queue} events without room, {rate} too many in a second"
            ),
        );
    }
    text
}

fn line(text: &mut String, line: std::fmt::Arguments<'_>) {
    writeln!(text, "{line}").expect("a String takes everything");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_a_table() {
        let levels: Map<_, _> =
            LogArea::ALL.iter().map(|area| (area.to_string(), json!("info"))).collect();
        let mut document = json!({
            "levels": levels, "changed": [], "ends_in_seconds": null, "dropped": { "queue": 0, "rate": 0 }
        });
        assert!(table(&document).ends_with("  upgrade   info\n  log       info\n"));
        document["levels"]["health"] = json!("debug");
        document["changed"] = json!(["health"]);
        document["ends_in_seconds"] = json!(599.7);
        document["dropped"]["rate"] = json!(7);
        let text = table(&document);
        assert!(text.contains("\n* health    debug\n"), "{text}");
        assert!(text.ends_with(
            "* for another 600 s\n\nleft out since the start: 0 events without room, 7 too many in a second\n"
        ));
    }
}
