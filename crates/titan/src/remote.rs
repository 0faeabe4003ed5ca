//! `titan reload`, and what all commands say that ask a running gateway for another configuration.

use crate::cli::GatewayOption;
use crate::client::{Client, Reply};
use crate::failure::{BAD_INPUT, Failure};
use crate::terminal;
use serde_json::Value;
use std::process::ExitCode;

/// Has the gateway read its file again.
pub(crate) fn reload(option: &GatewayOption) -> Result<ExitCode, Failure> {
    tell_change(&Client::find(option)?.call("POST", "/reload", None)?)
}

/// Prints what came of a change, as `titan check` prints what it finds.
pub(crate) fn tell_change(reply: &Reply) -> Result<ExitCode, Failure> {
    let document = reply.document();
    let found = document["text"].as_str();
    match (reply.status, found) {
        (200, Some(warnings)) => {
            terminal::complain(warnings);
            tell_applied(&document["applied"])?;
            Ok(ExitCode::SUCCESS)
        }
        (_, Some(errors)) => {
            terminal::complain(errors);
            terminal::complain("the previous configuration stays in force\n");
            Ok(ExitCode::from(BAD_INPUT))
        }
        (400..=499, None) if !matches!(reply.status, 401 | 403) => {
            Err(Failure::BadInput(reply.problem()))
        }
        _ => Err(Failure::Runtime(reply.problem())),
    }
}

fn tell_applied(applied: &Value) -> Result<(), Failure> {
    for note in applied["notes"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        terminal::complain(&format!("warning: {note}\n"));
    }
    let summary = applied["summary"].as_str().unwrap_or_default();
    let entry = &applied["entry"];
    let (id, digest) = (&entry["id"], entry["sha256"].as_str().unwrap_or_default());
    let digest = digest.get(..12).unwrap_or(digest);
    terminal::print(&format!("configuration {id} is in force (sha256 {digest})\n\n{summary}"))
}
