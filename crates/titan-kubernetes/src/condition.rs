//! Conditions of statuses.

use serde_json::{Value, json};

/// What a controller says of one aspect of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The aspect.
    pub of_type: &'static str,
    /// Whether it is so; `None` while that is not known.
    pub holds: Option<bool>,
    /// Why, in a word that programs know.
    pub reason: String,
    /// Why, for people.
    pub message: String,
}

impl Condition {
    /// It is so.
    pub fn yes(of_type: &'static str, reason: &str) -> Condition {
        Condition { of_type, holds: Some(true), reason: reason.to_owned(), message: String::new() }
    }

    /// It is not so.
    pub fn no(of_type: &'static str, reason: &str, message: impl Into<String>) -> Condition {
        let message = message.into();
        Condition { of_type, holds: Some(false), reason: reason.to_owned(), message }
    }

    /// It is not known yet.
    pub fn unknown(of_type: &'static str, reason: &str, message: impl Into<String>) -> Condition {
        Condition { holds: None, ..Condition::no(of_type, reason, message) }
    }
}

/// A message of the API has at most so many characters.
const MAX_MESSAGE: usize = 32_768;
/// What messages are cut to, far below: a status is read by people.
const SHOWN: usize = 1_024;
const _: () = assert!(SHOWN < MAX_MESSAGE);

/// Conditions of an object of this generation as they are written. One whose `holds` is as it was keeps its time.
pub fn written(wanted: &[Condition], before: &Value, generation: i64, now: &str) -> Value {
    let written = wanted.iter().map(|it| {
        let status = match it.holds {
            Some(true) => "True",
            Some(false) => "False",
            None => "Unknown",
        };
        let before = before.as_array().into_iter().flatten();
        let same = |it: &&Value, of_type| it["type"] == of_type && it["status"] == status;
        let since = before.clone().find(|before| same(before, it.of_type));
        let since = since.and_then(|it| it["lastTransitionTime"].as_str()).unwrap_or(now);
        let message: String = it.message.chars().take(SHOWN).collect();
        json!({
            "type": it.of_type,
            "status": status,
            "reason": it.reason,
            "message": message,
            "observedGeneration": generation,
            "lastTransitionTime": since,
        })
    });
    written.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_changes_with_the_status_alone() {
        let first = written(&[Condition::yes("Accepted", "Accepted")], &Value::Null, 1, "1970");
        assert_eq!(first[0]["lastTransitionTime"], "1970");
        let same = written(&[Condition::yes("Accepted", "Other")], &first, 2, "2000");
        assert_eq!(same[0]["lastTransitionTime"], "1970");
        assert_eq!(same[0]["observedGeneration"], 2);
        let other = written(&[Condition::no("Accepted", "Invalid", "why")], &same, 2, "2000");
        assert_eq!(other[0]["lastTransitionTime"], "2000");
        assert_eq!(other[0]["status"], "False");
        let unknown = written(&[Condition::unknown("Accepted", "Pending", "")], &other, 2, "2001");
        assert_eq!(unknown[0]["status"], "Unknown");
    }

    #[test]
    fn messages_are_cut() {
        let long = Condition::no("Accepted", "Invalid", "ä".repeat(MAX_MESSAGE));
        let written = written(&[long], &Value::Null, 1, "1970");
        assert_eq!(written[0]["message"].as_str().unwrap().chars().count(), SHOWN);
    }
}
