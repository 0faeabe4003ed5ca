//! `titan recorder` and `titan tap`: the last exchanges of a running gateway, and exchanges as they end.

mod page;
#[cfg(test)]
mod tests;

pub(crate) use page::{Exchange, page};

use crate::cli::{RecorderOptions, TapOptions};
use crate::client::Client;
use crate::failure::Failure;
use crate::terminal;
use serde_json::Value;
use std::fmt::Write;
use std::ops::ControlFlow;
use std::process::ExitCode;
use std::time::SystemTime;

/// Why a list of exchanges has none and will have none. The gateway says the same of a single one.
const OFF: &str = "the recorder is off; remove `recorder: off` from the configuration to have the next exchanges kept";

/// Shows the last exchanges that are asked for, or one of them in full.
pub(crate) fn recorder(options: &RecorderOptions) -> Result<ExitCode, Failure> {
    let RecorderOptions { id, json, address, gateway, .. } = options;
    if options.has_no_time() {
        let text = "--until is before --since: the longer time ago is that of --since";
        return Err(Failure::BadInput(text.to_owned()));
    }
    let client = Client::find_at(address, gateway)?;
    let document = match id {
        Some(id) => client.document(&format!("/recorder/{}", encoded(id)), &["request_id"])?,
        None => {
            let conditions = query(&options.conditions(SystemTime::now()));
            client.document(&format!("/recorder?{conditions}"), &["exchanges", "covers"])?
        }
    };
    if document["covers"]["bytes_at_most"] == 0 {
        return Err(Failure::Runtime(OFF.to_owned()));
    }
    terminal::print(&match (json, id) {
        (true, _) => format!("{document:#}\n"),
        (false, Some(_)) => page(&Exchange(&document)),
        (false, None) => list(&document),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Tells of exchanges as they end.
pub(crate) fn tap(options: &TapOptions) -> Result<ExitCode, Failure> {
    let TapOptions { filter, rate, json, address, gateway } = options;
    let client = Client::find_at(address, gateway)?;
    let mut conditions = filter.conditions();
    conditions.push(("rate", rate.to_string()));
    let mut has_begun = false;
    client.lines(&format!("/tap?{}", query(&conditions)), |line| {
        has_begun = true;
        match told(line, *json) {
            // It only keeps the connection.
            _ if line.is_empty() => Ok(ControlFlow::Continue(())),
            Some(text) => terminal::print_while_read(&text),
            None => Err(client.no_interface()),
        }
    })?;
    // A gateway begins with a line.
    if has_begun { Ok(ExitCode::SUCCESS) } else { Err(client.no_interface()) }
}

/// What a line of a tap is printed as; nothing for one that no gateway sends.
fn told(line: &str, is_json: bool) -> Option<String> {
    let document: Value = serde_json::from_str(line).ok()?;
    match (document["skipped"].as_u64(), document.get("request_id")) {
        (None, None) => None,
        _ if is_json => Some(format!("{line}\n")),
        (Some(skipped), _) => Some(format!("... {skipped} more\n")),
        (None, Some(_)) => Some(format!("{}\n", Exchange(&document).line())),
    }
}

fn list(document: &Value) -> String {
    let exchanges = document["exchanges"].as_array().map_or(&[][..], Vec::as_slice);
    let mut text = String::new();
    for exchange in exchanges {
        line(&mut text, format_args!("{}", Exchange(exchange).line()));
    }
    let kept = match document["covers"]["since"].as_f64() {
        None => "nothing is recorded yet".to_owned(),
        Some(since) => format!(
            "every exchange since {} is recorded, failures and slow ones for longer",
            page::clock_time(since)
        ),
    };
    match (exchanges.len(), document["has_more"].as_bool()) {
        (0, _) => line(&mut text, format_args!("no such exchange; {kept}")),
        (_, Some(true)) => line(&mut text, format_args!("and more (--limit); {kept}")),
        _ => line(&mut text, format_args!("{kept}")),
    }
    text
}

fn query(conditions: &[(&'static str, String)]) -> String {
    let pairs = conditions.iter().map(|(name, value)| format!("{name}={}", encoded(value)));
    pairs.collect::<Vec<_>>().join("&")
}

/// A text as a segment of a path or a part of a query.
pub(crate) fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte) {
            true => encoded.push(char::from(byte)),
            false => write!(encoded, "%{byte:02X}").expect("a String takes everything"),
        }
    }
    encoded
}

fn line(text: &mut String, line: std::fmt::Arguments<'_>) {
    writeln!(text, "{line}").expect("a String takes everything");
}
