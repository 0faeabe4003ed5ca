//! What came of a section: all that the report says of it.

use serde::{Deserialize, Serialize};

use crate::judge::{End, Found, faults};
use crate::plan::Task;
use crate::section::Section;
use crate::table::Table;

/// Lines of the end of the output that the report shows, and letters of each.
const TAIL: usize = 40;
const MAX_LINE: usize = 400;

/// It is complete: files that it was made from may be those of a later run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Of the section.
    pub id: String,
    /// What was run.
    pub command: String,
    pub time: Time,
    /// What is wrong; it has passed if nothing is.
    pub faults: Vec<String>,
    /// What came out, in sentences.
    pub summary: Vec<String>,
    /// Whether each bar is met, and its text.
    pub bars: Vec<(bool, String)>,
    /// The end of its output, where it failed.
    pub tail: Vec<String>,
    /// Its results, with their names.
    pub tables: Vec<(String, Table)>,
    /// Charts of them as SVG, with their titles.
    pub pictures: Vec<(String, String)>,
}

/// When a section ran.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Time {
    /// UTC.
    pub began: String,
    /// The machine's load average then.
    pub load: String,
    pub seconds: f64,
}

/// What a section leaves.
#[derive(Debug, Default)]
pub struct Left {
    pub printed: String,
    /// With the names of their files.
    pub tables: Vec<(String, Table)>,
    /// Files of the repository that are not as they were.
    pub changed: Vec<String>,
}

impl Outcome {
    /// Judges how the section ended, and what it has left.
    pub fn of(task: &Task<'_>, time: Time, end: End, left: Left) -> Self {
        let Left { printed, tables, changed } = left;
        let found = Found::look(&printed);
        let mut faults = faults(task.section.proof, end, &found, &changed);
        let (pictures, missing) = draw(task.section, &tables);
        // What did not come to its end has left nothing to draw.
        if end == End::Exited(0) {
            faults.extend(missing.iter().map(|title| format!("there are no figures of: {title}")));
        }
        Self {
            id: task.section.id.to_owned(),
            command: task.command.clone(),
            time,
            tail: if faults.is_empty() { Vec::new() } else { tail(&printed) },
            faults,
            summary: found.summary(),
            bars: found.verdicts.into_iter().map(|it| (it.is_met, it.text)).collect(),
            tables,
            pictures,
        }
    }

    pub fn has_passed(&self) -> bool {
        self.faults.is_empty()
    }
}

/// The section's charts, and the titles of those that there are no figures for.
fn draw(
    section: &Section<'_>,
    tables: &[(String, Table)],
) -> (Vec<(String, String)>, Vec<&'static str>) {
    let (mut drawn, mut missing) = (Vec::new(), Vec::new());
    for picture in section.pictures {
        match tables.iter().find_map(|(_, table)| table.draw(picture)) {
            Some(svg) => drawn.push((picture.title.to_owned(), svg)),
            None => missing.push(picture.title),
        }
    }
    (drawn, missing)
}

/// The last lines.
fn tail(printed: &str) -> Vec<String> {
    let lines: Vec<&str> = printed.lines().collect();
    let last = &lines[lines.len().saturating_sub(TAIL)..];
    last.iter().map(|line| line.chars().take(MAX_LINE).collect()).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::section::{Picture, Proof};

    const BENCH: Section<'static> = Section {
        id: "bench",
        title: "",
        command: "",
        expected: "",
        proof: Proof::ExitCode,
        budget: (1, 1),
        pictures: &[Picture {
            title: "Cost",
            panel: &["scenario"],
            bar: &["engine"],
            value: "cost",
            unit: "us",
        }],
    };

    fn outcome(end: End, printed: &str, csv: &str) -> Outcome {
        let task = Task { section: &BENCH, command: String::new(), budget: Duration::ZERO };
        let tables = vec![("it.csv".to_owned(), Table::parse(csv))];
        let left = Left { printed: printed.to_owned(), tables, changed: Vec::new() };
        Outcome::of(&task, Time::default(), end, left)
    }

    const CSV: &str = "scenario,engine,cost\nsmall,titan,1.5\n";

    #[test]
    fn figures_are_drawn_and_missing_ones_are_a_fault() {
        let passed = outcome(End::Exited(0), "done", CSV);
        assert!(passed.has_passed() && passed.tail.is_empty(), "{passed:?}");
        assert_eq!(passed.pictures.len(), 1);
        for csv in ["", "scenario,engine,cost\nsmall,titan,\n"] {
            let wanted = ["there are no figures of: Cost"];
            assert_eq!(outcome(End::Exited(0), "done", csv).faults, wanted);
        }
        assert_eq!(outcome(End::Exited(1), "", "").faults, ["exit code 1"]);
    }

    #[test]
    fn a_failure_shows_the_end_of_what_was_printed() {
        let printed: String = (0..100).map(|line| format!("line {line}\n")).collect();
        let tail = outcome(End::Exited(1), &(printed + &"x".repeat(1000)), CSV).tail;
        assert_eq!(
            (tail.len(), tail[0].as_str(), tail[TAIL - 1].len()),
            (TAIL, "line 61", MAX_LINE)
        );
    }
}
