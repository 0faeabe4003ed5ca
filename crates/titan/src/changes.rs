//! `titan apply`, `confirm`, `rollback` and `history`: another configuration for a running gateway, and the way back; and
//! `titan plan` for what it would change.

use crate::cli::{ApplyOptions, GatewayOption, HistoryOptions, PlanOptions, RollbackOptions};
use crate::client::{Body, Client};
use crate::config_file;
use crate::failure::{BAD_INPUT, Failure};
use crate::plan::exit_code;
use crate::regular_file;
use crate::remote::tell_change;
use crate::terminal;
use serde_json::{Value, json};
use std::fmt::Write;
use std::io;
use std::path::Path;
use std::process::ExitCode;
use titan_admin::history::{Entry, Outcome, Source, rfc3339};
use titan_config::bounds::MAX_FILE;

/// Digits of a SHA-256 that tell one configuration from another.
const DIGITS: usize = 12;

/// Puts a file in force in place of the gateway's.
pub(crate) fn apply(options: &ApplyOptions) -> Result<ExitCode, Failure> {
    let ApplyOptions { new, confirm, guard, guard_window, guard_factor, publish: _, gateway } =
        options;
    let [new] = &new[..] else {
        return Err(Failure::BadInput("one configuration is put in force at a time".to_owned()));
    };
    let bytes = read(new)?;
    let client = Client::find(gateway)?;
    let mut target = format!("/config?name={}", encoded(&config_file::name_of(new)));
    let window = guard.then(|| guard_window.as_deref().unwrap_or(WINDOW));
    let parameters =
        [("confirm", confirm.as_deref()), ("guard", window), ("factor", guard_factor.as_deref())];
    for (key, value) in parameters {
        target.extend(value.map(|value| format!("&{key}={}", encoded(value))));
    }
    let body = Body { media_type: "application/yaml", bytes: &bytes };
    tell_change(&client.call("PUT", &target, Some(body))?)
}

/// How long the guard looks on unless the command line says otherwise.
const WINDOW: &str = "1m";

/// Has a running gateway compare a configuration with the one in force: only the gateway has that as a whole.
pub(crate) fn plan(options: &PlanOptions) -> Result<ExitCode, Failure> {
    let PlanOptions { new, json, gateway, .. } = options;
    let bytes = read(new)?;
    let target = format!("/plan?name={}", encoded(&config_file::name_of(new)));
    let body = Body { media_type: "application/yaml", bytes: &bytes };
    let reply = Client::find(gateway)?.call("POST", &target, Some(body))?;
    let mut document = reply.document();
    let text = document.as_object_mut().and_then(|it| it.remove("text"));
    match (reply.status, text) {
        (200, Some(Value::String(text))) => {
            let code = exit_code(document["result"].as_str().unwrap_or_default());
            terminal::print(&if *json { format!("{document:#}\n") } else { text })?;
            Ok(code)
        }
        (422, Some(Value::String(errors))) => {
            match json {
                true => {
                    let found = &document["diagnostics"];
                    let report = json!({ "result": "invalid", "diagnostics": found });
                    terminal::print(&format!("{report:#}\n"))?;
                }
                false => terminal::complain(&errors),
            }
            Ok(ExitCode::from(BAD_INPUT))
        }
        (400..=499, _) if !matches!(reply.status, 401 | 403) => {
            Err(Failure::BadInput(reply.problem()))
        }
        _ => Err(Failure::Runtime(reply.problem())),
    }
}

/// Keeps what is on trial.
pub(crate) fn confirm(gateway: &GatewayOption) -> Result<ExitCode, Failure> {
    tell_change(&Client::find(gateway)?.call("POST", "/confirm", None)?)
}

/// Puts an earlier configuration in force.
pub(crate) fn roll_back(options: &RollbackOptions) -> Result<ExitCode, Failure> {
    let RollbackOptions { id, gateway } = options;
    let target = id.map_or_else(|| "/rollback".to_owned(), |id| format!("/rollback?id={id}"));
    tell_change(&Client::find(gateway)?.call("POST", &target, None)?)
}

/// Prints what was in force.
pub(crate) fn history(options: &HistoryOptions) -> Result<ExitCode, Failure> {
    let HistoryOptions { json, gateway } = options;
    let reply = Client::find(gateway)?.call("GET", "/history", None)?;
    if reply.status != 200 {
        return Err(Failure::Runtime(reply.problem()));
    }
    let document = reply.document();
    if *json {
        terminal::print(&format!("{document:#}\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let entries = serde_json::from_value(document["entries"].clone());
    let entries: Vec<Entry> = entries.map_err(|error| {
        Failure::Runtime(format!("the history is not what this version of Titan knows: {error}"))
    })?;
    for note in document["notes"].as_array().into_iter().flatten().filter_map(|it| it.as_str()) {
        terminal::complain(&format!("warning: {note}\n"));
    }
    terminal::print(&table(&entries))?;
    Ok(ExitCode::SUCCESS)
}

/// Reads a configuration to be sent.
fn read(new: &Path) -> Result<Vec<u8>, Failure> {
    let read = match config_file::is_standard_input(new) {
        true => regular_file::read_to_bound(io::stdin().lock(), MAX_FILE),
        false => regular_file::read(new, MAX_FILE),
    };
    read.map_err(|error| {
        Failure::BadInput(format!("cannot read {}: {error}", config_file::name_of(new)))
    })
}

/// A text as the value of a query parameter (RFC 3986 section 2).
fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                encoded.push(char::from(byte));
            }
            other => write!(encoded, "%{other:02X}").expect("a String takes everything"),
        }
    }
    encoded
}

/// A line for each entry, and one for the reason where there is one.
fn table(entries: &[Entry]) -> String {
    let author =
        |entry: &Entry| entry.author.as_ref().map_or_else(String::new, ToString::to_string);
    let width = entries.iter().map(|it| author(it).len()).max().unwrap_or(0).max("author".len());
    let mut text = format!(
        "  {:>4}  {:20}  {:10}  {:width$}  {:12}  outcome\n",
        "id", "time", "source", "author", "sha256"
    );
    for entry in entries {
        let mark = if entry.in_force { '*' } else { ' ' };
        let sha256 = entry.sha256.get(..DIGITS).unwrap_or(&entry.sha256);
        let (id, at, source) = (entry.id, rfc3339(entry.at.into()), source(entry));
        let (author, outcome) = (author(entry), outcome(entry));
        writeln!(
            text,
            "{mark} {id:>4}  {at:20}  {source:10}  {author:width$}  {sha256:12}  {outcome}"
        )
        .expect("a String takes everything");
    }
    text
}

fn source(entry: &Entry) -> &'static str {
    match entry.source {
        Source::Start => "start",
        Source::Signal => "signal",
        Source::Watch => "watch",
        Source::Delivery => "delivery",
        Source::Admin => "admin",
        Source::Rollback => "rollback",
        Source::TakenBack => "taken back",
    }
}

fn outcome(entry: &Entry) -> String {
    let outcome = match (entry.outcome, entry.in_force) {
        (Outcome::Applied, true) => "in force",
        (Outcome::Applied, false) => "superseded",
        (Outcome::OnTrial, _) => "on trial",
        (Outcome::Confirmed, true) => "in force",
        (Outcome::Confirmed, false) => "superseded",
        (Outcome::TakenBack, _) => "taken back",
        (Outcome::Unconfirmed, _) => "not confirmed before the process ended",
    };
    let repeats = entry.repeats.map(|id| format!("as {id}"));
    let more: Vec<String> = repeats.into_iter().chain(entry.why.clone()).collect();
    match more.is_empty() {
        true => outcome.to_owned(),
        false => format!("{outcome} ({})", more.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use titan_admin::history::Author;

    #[test]
    fn a_name_is_one_value_of_a_query() {
        assert_eq!(encoded("/etc/titan/a b&c=ü.yaml"), "/etc/titan/a%20b%26c%3D%C3%BC.yaml");
    }

    #[test]
    fn the_history_is_a_table() {
        let entry = |id, source, author, in_force, outcome, why: Option<&str>| Entry {
            id,
            at: (std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_800_000_000 + id)).into(),
            source,
            author,
            in_force,
            repeats: (source == Source::TakenBack).then_some(1),
            outcome,
            why: why.map(str::to_owned),
            sha256: "0123456789abcdef".repeat(4),
        };
        let (peer, token) =
            (Author::Peer { uid: 0, pid: Some(42) }, Author::Token("ci".to_owned()));
        let entries = [
            entry(4, Source::Signal, Some(Author::Signal), true, Outcome::Applied, None),
            entry(3, Source::TakenBack, None, false, Outcome::Applied, None),
            entry(
                2,
                Source::Admin,
                Some(token),
                false,
                Outcome::TakenBack,
                Some("it was not confirmed in time"),
            ),
            entry(1, Source::Admin, Some(peer), false, Outcome::Unconfirmed, None),
        ];
        insta::assert_snapshot!(table(&entries), @r"
            id  time                  source      author          sha256        outcome
        *    4  2027-01-15T08:00:04Z  signal      signal          0123456789ab  in force
             3  2027-01-15T08:00:03Z  taken back                  0123456789ab  superseded (as 1)
             2  2027-01-15T08:00:02Z  admin       token ci        0123456789ab  taken back (it was not confirmed in time)
             1  2027-01-15T08:00:01Z  admin       uid 0 (pid 42)  0123456789ab  not confirmed before the process ended
        ");
    }
}
