//! `titan reload` and `titan upgrade`, and what all commands say that ask a running gateway for another configuration.

use crate::cli::{GatewayOption, UpgradeOptions};
use crate::client::{Body, Client, Reply};
use crate::failure::{BAD_INPUT, Failure};
use crate::terminal;
use serde_json::{Value, json};
use std::path::{self, Path};
use std::process::ExitCode;
use std::time::Duration;

/// How long an upgrade may take: `timeouts.upgrade`, which the gateway watches, is no longer than that.
const LONGEST_UPGRADE: Duration = Duration::from_secs(25 * 60 * 60);

/// Has the gateway read its file again.
pub(crate) fn reload(option: &GatewayOption) -> Result<ExitCode, Failure> {
    tell_change(&Client::find(option)?.call("POST", "/reload", None)?)
}

/// Has another process take over from the gateway.
pub(crate) fn upgrade(options: &UpgradeOptions) -> Result<ExitCode, Failure> {
    let UpgradeOptions { binary, gateway } = options;
    let named = binary.as_deref().map(naming).transpose()?;
    let body =
        named.as_ref().map(|text| Body { media_type: "application/json", bytes: text.as_bytes() });
    let reply = Client::find(gateway)?.within(LONGEST_UPGRADE).call("POST", "/upgrade", body)?;
    let document = reply.document();
    match (reply.status, document["pid"].as_u64()) {
        (200, Some(pid)) => {
            let text = |key: &str| document[key].as_str().unwrap_or_default();
            let (program, version) = (text("program"), text("version"));
            terminal::print(&format!(
                "process {pid} (titan {version}) serves now, started from {program}\n\
                 the process before it drains\n"
            ))?;
            Ok(ExitCode::SUCCESS)
        }
        (400..=499, _) if !matches!(reply.status, 401 | 403) => {
            terminal::complain(&Failure::BadInput(reply.problem()).text(terminal::has_color()));
            terminal::complain("the process that serves goes on\n");
            Ok(ExitCode::from(BAD_INPUT))
        }
        _ => Err(Failure::Runtime(reply.problem())),
    }
}

/// The body of a request for that program, whose path starts in the directory of this process.
fn naming(binary: &Path) -> Result<String, Failure> {
    let bad = |why: &str| Failure::BadInput(format!("{}: {why}", binary.display()));
    let path = path::absolute(binary).map_err(|error| bad(&error.to_string()))?;
    let path = path.to_str().ok_or_else(|| bad("the path is not UTF-8"))?;
    Ok(json!({ "program": path }).to_string())
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
