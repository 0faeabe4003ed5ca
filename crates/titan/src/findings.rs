//! What is found in a configuration, as events: one for each finding, on one line.

use crate::check;
use crate::failure::Failure;
use serde_json::Value;
use titan_config::{Config, LogArea, LogLevel};
use titan_observe::events::{Event, Log};

/// Findings of one kind that are told of one configuration.
const MOST: usize = 20;

/// Tells of the warnings about a configuration.
pub(crate) fn tell_warnings(log: &Log, config: &Config) {
    let lines = check::warned(config).iter().map(|it| config.mask(line(it))).collect();
    tell(log, (LogLevel::Warn, "config_warning"), lines);
}

/// Tells what is wrong with a configuration, or with the attempt to use it.
pub(crate) fn tell_faults(log: &Log, level: LogLevel, failure: &Failure) {
    let lines = match failure {
        Failure::Config(_) | Failure::Credentials { .. } => {
            check::failed("", failure).iter().map(line).collect()
        }
        Failure::BadInput(_) | Failure::Bind { .. } | Failure::Runtime(_) => {
            let text = failure.text(false);
            let words: Vec<_> = text.split_whitespace().skip(1).collect();
            vec![words.join(" ")]
        }
    };
    tell(log, (level, "config_error"), lines);
}

fn tell(log: &Log, (level, kind): (LogLevel, &'static str), mut lines: Vec<String>) {
    let more = lines.len().saturating_sub(MOST);
    lines.truncate(MOST);
    if more > 0 {
        lines.push(format!("{more} more: `titan check` shows all"));
    }
    for line in lines {
        log.tell(Event::new((LogArea::Config, level), kind, line));
    }
}

/// A finding as `titan check --json` has it, on one line.
fn line(finding: &Value) -> String {
    let text = |key: &str| finding[key].as_str();
    let mut line = String::new();
    if let (Some(file), Some(row), Some(column)) =
        (text("file"), finding["line"].as_u64(), finding["column"].as_u64())
    {
        line = format!("{file}:{row}:{column}: ");
    }
    line += text("message").unwrap_or_default();
    line.extend(text("hint").map(|hint| format!(" ({hint})")));
    line
}
