//! `titan plan`: what changes between two configurations, and what of it is weaker.

use crate::check::failed;
use crate::cli::PlanOptions;
use crate::config_file;
use crate::failure::Failure;
use crate::terminal;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use titan_admin::orders::Planned;
use titan_config::{Change, ChangeKind, Difference, Move, Part, Plan, Weaker};

/// The exit code for changes that weaken nothing.
const CHANGED: u8 = 3;
/// The exit code where something becomes weaker.
const WEAKER: u8 = 4;
/// Compares two configurations; starts and changes nothing.
pub(crate) fn plan(options: &PlanOptions) -> Result<ExitCode, Failure> {
    let PlanOptions { new, from, json, gateway: _ } = options;
    let plan = match compare(from, new) {
        Ok(plan) => plan,
        Err((file, failure)) if *json => {
            let name = config_file::name_of(&file);
            let report = json!({ "result": "invalid", "diagnostics": failed(&name, &failure) });
            terminal::print(&format!("{report:#}\n"))?;
            return Ok(failure.exit_code());
        }
        Err((_, failure)) => return Err(failure),
    };
    terminal::print(&match json {
        true => format!("{:#}\n", as_json(&plan)),
        false => plan.to_string(),
    })?;
    Ok(exit_code(result(&plan)))
}

/// A plan, to be shown elsewhere.
pub(crate) fn shown(plan: &Plan) -> Planned {
    Planned { text: plan.to_string(), json: as_json(plan) }
}

/// What a plan comes to, in a word.
fn result(plan: &Plan) -> &'static str {
    match () {
        () if plan.is_empty() => "same",
        () if plan.weaker.is_empty() => "changed",
        () => "weaker",
    }
}

/// That of a plan which comes to that.
pub(crate) fn exit_code(result: &str) -> ExitCode {
    match result {
        "same" => ExitCode::SUCCESS,
        "changed" => ExitCode::from(CHANGED),
        _ => ExitCode::from(WEAKER),
    }
}

/// The plan, or which file is wrong and how.
fn compare(from: &Path, new: &Path) -> Result<Plan, (PathBuf, Failure)> {
    if config_file::is_standard_input(from) && config_file::is_standard_input(new) {
        let text = "standard input cannot be both configurations".to_owned();
        return Err((new.to_owned(), Failure::BadInput(text)));
    }
    let resolve = |file: &Path| config_file::resolve(file).map_err(|it| (file.to_owned(), it));
    Ok(Plan::new(&resolve(from)?, &resolve(new)?))
}

/// The shape is an interface: docs/operations.md describes it, keys are added and never change.
fn as_json(plan: &Plan) -> Value {
    let Plan { changes, moves, unreached, weaker } = plan;
    let changes: Vec<Value> = changes.iter().map(change).collect();
    let moves = moves
        .iter()
        .map(|Move { requests, from, to }| json!({ "requests": requests, "from": from, "to": to }));
    let weaker = weaker.iter().map(|Weaker { part: Part { key, name }, what, requests }| {
        json!({ "part": key, "name": name, "what": what, "requests": requests })
    });
    json!({
        "result": result(plan),
        "changes": changes,
        "moves": moves.collect::<Vec<_>>(),
        "unreached": unreached,
        "weaker": weaker.collect::<Vec<_>>(),
    })
}

fn change(change: &Change) -> Value {
    let Change { part: Part { key, name }, kind, differences } = change;
    let kind = match kind {
        ChangeKind::Added => "added",
        ChangeKind::Removed => "removed",
        ChangeKind::Changed => "changed",
    };
    let fields = differences.iter().map(|Difference { field, old, new, is_weaker }| {
        json!({ "field": field, "old": old, "new": new, "weaker": is_weaker })
    });
    json!({ "part": key, "name": name, "change": kind, "fields": fields.collect::<Vec<_>>() })
}
