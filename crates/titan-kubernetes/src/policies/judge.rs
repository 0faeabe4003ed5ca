//! What the configuration language says of parts of a configuration.

use crate::names::hash;
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use titan_config::{Config, Policy, Severity};
use titan_sources::literal::document;

/// Valid tokens that each worker remembers for one policy of a cluster, at most.
const MAX_CACHED: usize = 4_096;
/// Clients that one rate limit of a cluster tells apart, at most.
const MAX_COUNTED: u32 = 65_536;
/// Of so many faults each is told.
const MAX_TOLD: usize = 3;

/// What was judged, which is kept from one translation to the next: a cluster changes a little at a time.
#[derive(Debug, Default)]
pub struct Judgements {
    known: HashMap<String, Judgement>,
    round: u64,
    asked: u64,
}

/// What came of it, and the last round in which that was asked for.
#[derive(Debug)]
struct Judgement {
    found: Result<BTreeSet<PathBuf>, String>,
    round: u64,
}

impl Judgements {
    /// How often the configuration language was asked.
    pub fn asked(&self) -> u64 {
        self.asked
    }

    /// Ends a round: forgets what was not asked for in it.
    pub(crate) fn end_round(&mut self) {
        let round = self.round;
        self.known.retain(|_, it| it.round == round);
        self.round += 1;
    }

    /// [`check`], once for the same sections and files.
    pub(super) fn check(
        &mut self,
        sections: &Value,
        files: &BTreeSet<PathBuf>,
    ) -> Result<BTreeSet<PathBuf>, String> {
        let Judgements { known, round, asked } = self;
        let judged = known.entry(digest(sections, files)).or_insert_with(|| {
            *asked += 1;
            Judgement { found: check(sections, files), round: *round }
        });
        judged.round = *round;
        judged.found.clone()
    }
}

/// A digest, as what it is of may be large, and may have secrets in it.
fn digest(sections: &Value, files: &BTreeSet<PathBuf>) -> String {
    let mut text = sections.to_string();
    for file in files {
        text.push('\n');
        text.push_str(&file.to_string_lossy());
    }
    hash(text.as_bytes())
}

/// Reads a configuration of these sections, beside a listener where they have none, and checks that it names none but these files.
/// Returns those that it names. The reason says what, where, and what to do.
fn check(sections: &Value, files: &BTreeSet<PathBuf>) -> Result<BTreeSet<PathBuf>, String> {
    let mut whole = sections.clone();
    if whole["listeners"].is_null() {
        whole["listeners"] = json!([{ "name": "l", "address": "127.0.0.1:1" }]);
    }
    let config = Config::parse("policy", &document(whole)).map_err(|report| {
        let errors = report.diagnostics().iter().filter(|it| it.severity == Severity::Error);
        let told = errors.take(MAX_TOLD).map(|error| {
            let place = place(&error.path);
            let remark = std::iter::once(&error.at.text).chain(&error.help);
            let remark =
                remark.filter(|it| !it.is_empty()).fold(String::new(), |all, it| all + ": " + it);
            format!("`{place}`: {}{remark}", error.message)
        });
        told.collect::<Vec<_>>().join("; ")
    })?;
    let named: BTreeSet<&Path> = config.files().into_iter().collect();
    if let Some(own) = named.iter().find(|it| !files.contains(**it)) {
        let own = own.display();
        return Err(format!(
            "`{own}` is a file of the gateway, which no policy names: write `secretRef` or `configMapRef` in its place"
        ));
    }
    config.policies.iter().try_for_each(|it| check_memory(&it.policy))?;
    Ok(named.into_iter().map(Path::to_owned).collect())
}

/// Where in the policy that is: `policies.jwt.jwt.providers` is what the check calls `jwt.providers`.
fn place(path: &str) -> &str {
    let inside =
        ["policies.", "routes[0].", "upstreams."].iter().find_map(|it| path.strip_prefix(it));
    match inside {
        Some(rest) if !path.starts_with("routes") => {
            rest.split_once('.').map_or(rest, |(_, it)| it)
        }
        Some(rest) => rest,
        None => path,
    }
}

/// What a policy of a cluster may cost the gateway.
fn check_memory(policy: &Policy) -> Result<(), String> {
    let (what, size, most) = match policy {
        Policy::Jwt(jwt) => ("jwt.cache", jwt.cache, MAX_CACHED),
        Policy::RateLimit(limit) => {
            ("rate_limit.capacity", limit.capacity.get() as usize, MAX_COUNTED as usize)
        }
        Policy::EarlyLimit(limit) => {
            ("early_limit.capacity", limit.capacity.get() as usize, MAX_COUNTED as usize)
        }
        Policy::FailureLimit(limit) => {
            ("failure_limit.capacity", limit.capacity.get() as usize, MAX_COUNTED as usize)
        }
        _ => return Ok(()),
    };
    match size <= most {
        true => Ok(()),
        false => Err(format!(
            "`{what}`: {size} is more than {most}, the most that a policy of a cluster may have"
        )),
    }
}
