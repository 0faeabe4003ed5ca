//! `titan sources`: where more of the configuration of a running gateway comes from, and what of it is held back.

use crate::cli::SourcesOptions;
use crate::client::Client;
use crate::failure::Failure;
use crate::terminal;
use std::fmt::Write;
use std::process::ExitCode;
use titan_admin::history::rfc3339;
use titan_admin::sources::{HeldBack, Source, Sources};

/// Characters of a revision that are shown.
const REVISION: usize = 20;

/// Prints how the sources fare.
pub(crate) fn sources(options: &SourcesOptions) -> Result<ExitCode, Failure> {
    let SourcesOptions { json, gateway } = options;
    let reply = Client::find(gateway)?.call("GET", "/sources", None)?;
    if reply.status != 200 {
        return Err(Failure::Runtime(reply.problem()));
    }
    let document = reply.document();
    if *json {
        terminal::print(&format!("{document:#}\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let Sources { sources } = serde_json::from_value(document).map_err(|error| {
        Failure::Runtime(format!("the sources are not what this version of Titan knows: {error}"))
    })?;
    terminal::print(&match sources.is_empty() {
        true => "no sources: the configuration is in files alone\n".to_owned(),
        false => table(&sources),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// A line for each source, and below it one for what is wrong with it and for each document that is held back.
fn table(sources: &[Source]) -> String {
    let width = sources.iter().map(|it| it.name.len()).max().unwrap_or(0).max("name".len());
    let kinds = sources.iter().map(|it| it.kind.len()).max().unwrap_or(0).max("kind".len());
    let mut text = format!(
        "{:width$}  {:kinds$}  {:7}  {:REVISION$}  {:20}  {:>9}  {:>9}\n",
        "name", "kind", "state", "revision", "last success", "documents", "held back"
    );
    for source in sources {
        let Source { name, kind, local_files: _, state, revision, .. } = source;
        let Source { last_success, failure, documents, held_back, .. } = source;
        let revision: String = revision.as_deref().unwrap_or("-").chars().take(REVISION).collect();
        let last = last_success.map_or_else(|| "never".to_owned(), |time| rfc3339(time.into()));
        let (state, held) = (state.as_str(), held_back.len());
        writeln!(
            text,
            "{name:width$}  {kind:kinds$}  {state:7}  {revision:REVISION$}  {last:20}  {documents:>9}  {held:>9}"
        )
        .expect("a String takes everything");
        let failure = failure.iter().map(|why| format!("  cannot be asked: {why}\n"));
        text.extend(failure);
        text.extend(
            held_back.iter().map(|HeldBack { document, reason }| {
                format!("  {document} is held back: {reason}\n")
            }),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};
    use titan_admin::SourceState;

    #[test]
    fn sources_are_a_table() {
        let source = |name: &str, state, failure: Option<&str>| Source {
            name: name.to_owned(),
            kind: "http".to_owned(),
            local_files: false,
            state,
            revision: Some("5f1e-8a".to_owned()),
            last_success: Some((UNIX_EPOCH + Duration::from_secs(1_800_000_000)).into()),
            failure: failure.map(str::to_owned),
            documents: 1,
            held_back: Vec::new(),
        };
        let held =
            HeldBack { document: "b.yaml".to_owned(), reason: "1:1: unknown key".to_owned() };
        let sources = [
            Source { held_back: vec![held], ..source("shop", SourceState::Up, None) },
            source("team", SourceState::Failing, Some("no response within 10s")),
            Source {
                revision: None,
                last_success: None,
                ..source("x", SourceState::Waiting, None)
            },
        ];
        insta::assert_snapshot!(table(&sources), @r"
        name  kind  state    revision              last success          documents  held back
        shop  http  up       5f1e-8a               2027-01-15T08:00:00Z          1          1
          b.yaml is held back: 1:1: unknown key
        team  http  failing  5f1e-8a               2027-01-15T08:00:00Z          1          0
          cannot be asked: no response within 10s
        x     http  waiting  -                     never                         1          0
        ");
    }
}
