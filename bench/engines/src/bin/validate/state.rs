//! The outcomes of a commit on this machine, kept so that a run goes on where it stopped.

use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::facts::Facts;
use crate::outcome::Outcome;
use crate::plan::Task;

/// What is kept.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    pub facts: Facts,
    outcomes: Vec<Outcome>,
}

impl State {
    /// Goes on from `earlier`, if that was on such a machine.
    pub fn go_on(facts: Facts, earlier: Option<Self>) -> Self {
        let outcomes = match earlier {
            Some(earlier) if facts.continue_those(&earlier.facts) => earlier.outcomes,
            _ => Vec::new(),
        };
        Self { facts, outcomes }
    }

    /// What there is of an earlier run. A file that cannot be read is none.
    pub fn load(path: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(path).ok()?).ok()
    }

    /// Writes it, whole or not at all.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        let unfinished = path.with_extension("unfinished");
        fs::write(&unfinished, serde_json::to_vec(self)?)?;
        fs::rename(&unfinished, path)
    }

    /// What came of the task: of that section, by that very command.
    pub fn of(&self, task: &Task<'_>) -> Option<&Outcome> {
        self.outcomes.iter().find(|it| it.id == task.section.id && it.command == task.command)
    }

    /// Keeps an outcome.
    pub fn put(&mut self, outcome: Outcome) {
        self.outcomes.push(outcome);
    }

    /// Drops what came of the task, as it is to run again.
    pub fn forget(&mut self, task: &Task<'_>) {
        self.outcomes.retain(|it| it.id != task.section.id || it.command != task.command);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::section::{Proof, Section};

    const LINT: Section<'static> = Section {
        id: "lint",
        title: "",
        command: "",
        expected: "",
        proof: Proof::ExitCode,
        budget: (1, 1),
        pictures: &[],
    };

    fn task(command: &str) -> Task<'static> {
        Task { section: &LINT, command: command.to_owned(), budget: Duration::ZERO }
    }

    fn kept() -> State {
        let facts = Facts(vec![("kernel".to_owned(), "6.1".to_owned())]);
        let mut state = State::go_on(facts, None);
        let outcome = Outcome {
            id: "lint".to_owned(),
            command: "make lint".to_owned(),
            ..Outcome::default()
        };
        state.put(outcome);
        state
    }

    #[test]
    fn a_run_goes_on_with_what_the_same_command_came_to() {
        let state = State::go_on(kept().facts, Some(kept()));
        assert!(state.of(&task("make lint")).is_some());
        assert!(state.of(&task("make lint tidy")).is_none());
    }

    #[test]
    fn nothing_is_kept_of_another_machine_or_of_what_is_to_run_again() {
        let other = Facts(vec![("kernel".to_owned(), "6.2".to_owned())]);
        assert!(State::go_on(other, Some(kept())).of(&task("make lint")).is_none());
        let mut state = kept();
        state.forget(&task("make lint tidy"));
        assert!(state.of(&task("make lint")).is_some());
        state.forget(&task("make lint"));
        assert!(state.of(&task("make lint")).is_none());
    }

    #[test]
    fn what_is_saved_is_loaded_and_half_a_file_is_nothing() {
        let path = std::env::temp_dir().join(format!("validate-{}.json", std::process::id()));
        assert_eq!(State::load(&path), None);
        kept().save(&path).unwrap();
        assert_eq!(State::load(&path), Some(kept()));
        let text = fs::read(&path).unwrap();
        fs::write(&path, &text[..text.len() / 2]).unwrap();
        assert_eq!(State::load(&path), None);
        fs::remove_file(&path).unwrap();
    }
}
