//! What a run has come to, as a page: first what fell short, then what it was run on, then each section.

mod block;
mod html;
mod markdown;

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use titan_bench::verdict::Verdict;

use crate::commit::Commit;
use crate::judge::time;
use crate::outcome::Outcome;
use crate::plan::Task;
use crate::section::Section;
use crate::state::State;
use block::{Block, Picture};

/// What the page is made of.
pub struct Run<'a> {
    pub commit: Commit,
    /// The options, as they were given.
    pub options: String,
    /// When this program was started, UTC.
    pub began: String,
    /// What to export before a command is pasted.
    pub target: String,
    /// All there are.
    pub sections: &'a [Section<'a>],
    /// Those of this run.
    pub tasks: Vec<Task<'a>>,
    pub state: State,
}

/// Writes report.html, report.md and the charts that the latter shows.
pub fn write(folder: &Path, run: &Run<'_>) -> io::Result<()> {
    let blocks = run.blocks();
    let pictures = folder.join("pictures");
    fs::create_dir_all(&pictures)?;
    for block in &blocks {
        if let Block::Picture(picture) = block {
            fs::write(pictures.join(&picture.file), &picture.svg)?;
        }
    }
    fs::write(folder.join("report.html"), html::page(&blocks))?;
    fs::write(folder.join("report.md"), markdown::page(&blocks))
}

impl Run<'_> {
    /// Each task with what came of it, if it has run.
    pub fn outcomes(&self) -> impl Iterator<Item = (&Task<'_>, Option<&Outcome>)> {
        self.tasks.iter().map(|task| (task, self.state.of(task)))
    }

    /// Whether everything has run, and nothing fell short.
    pub fn has_passed(&self) -> bool {
        self.outcomes().all(|(_, outcome)| outcome.is_some_and(Outcome::has_passed))
    }

    fn blocks(&self) -> Vec<Block> {
        let mut blocks = vec![Block::Title(format!("Validation of {}", short(&self.commit.id)))];
        blocks.push(self.verdict());
        blocks.extend(self.shortfalls());
        blocks.push(self.overview());
        blocks.extend(self.ground());
        for (task, outcome) in self.outcomes() {
            blocks.extend(section(task, outcome));
        }
        blocks
    }

    fn verdict(&self) -> Block {
        let count = |wanted| self.outcomes().filter(|it| word(it.1) == wanted).count();
        let (passed, failed, missing) = (count(PASSED), count(FAILED), count(MISSING));
        let all = self.tasks.len();
        Block::Verdict {
            passed: self.has_passed(),
            text: match self.has_passed() {
                true => format!("All {all} sections have passed."),
                false => format!(
                    "FELL SHORT: of {all} sections {passed} have passed, {failed} have failed, and {missing} have not run."
                ),
            },
        }
    }

    /// A line for each thing that is not as it should be.
    fn shortfalls(&self) -> Vec<Block> {
        let mut lines = Vec::new();
        for (task, outcome) in self.outcomes() {
            let id = task.section.id;
            let Some(outcome) = outcome else {
                lines.push(format!("{id}: has not run"));
                continue;
            };
            lines.extend(outcome.faults.iter().map(|fault| format!("{id}: {fault}")));
            let missed = outcome.bars.iter().filter(|(is_met, _)| !is_met);
            lines.extend(missed.map(|(_, text)| format!("{id}: missed: {text}")));
        }
        if lines.is_empty() {
            return Vec::new();
        }
        vec![Block::heading("What fell short"), Block::List(lines)]
    }

    fn overview(&self) -> Block {
        let row = |(task, outcome): (&Task<'_>, Option<&Outcome>)| {
            let came_out = outcome.map(|it| it.summary.join("; ")).unwrap_or_default();
            let took = outcome.map(|it| took(it.time.seconds)).unwrap_or_default();
            let title = format!("{}: {}", task.section.id, task.section.title);
            vec![word(outcome).to_owned(), title, came_out, took]
        };
        let head = ["", "section", "came out", "took"].map(str::to_owned).to_vec();
        Block::Table { name: None, head, rows: self.outcomes().map(row).collect() }
    }

    /// What was validated, how, and on what.
    fn ground(&self) -> Vec<Block> {
        let Self { commit, options, began, target, .. } = self;
        let changed = match commit.changes.len() {
            0 => "none: an interrupted run of this commit can be gone on with".to_owned(),
            count => format!("{count}: this is not the commit, and outcomes were not kept"),
        };
        let options = if options.is_empty() { "none: a short run" } else { options };
        let mut facts = vec![
            ("commit".to_owned(), commit.id.clone()),
            ("changed files".to_owned(), changed),
            ("options".to_owned(), options.to_owned()),
            ("begun or gone on with".to_owned(), format!("{began} UTC")),
        ];
        facts.extend(self.state.facts.0.iter().cloned());
        let mut blocks = vec![Block::heading("What it was run on"), Block::facts(facts)];
        let is_left =
            |section: &&Section<'_>| !self.tasks.iter().any(|it| it.section.id == section.id);
        let left: Vec<_> = self.sections.iter().filter(is_left).map(|it| it.id).collect();
        if !left.is_empty() {
            blocks.push(Block::Text(format!("Not asked for, and not run: {}.", left.join(", "))));
        }
        blocks.push(Block::Text("Commands run in the root of the repository, after:".to_owned()));
        blocks.push(Block::Code(format!("export CARGO_TARGET_DIR={target}")));
        blocks
    }
}

const PASSED: &str = "passed";
const FAILED: &str = "FAILED";
const MISSING: &str = "NOT RUN";

fn word(outcome: Option<&Outcome>) -> &'static str {
    match outcome {
        Some(outcome) if outcome.has_passed() => PASSED,
        Some(_) => FAILED,
        None => MISSING,
    }
}

fn section(task: &Task<'_>, outcome: Option<&Outcome>) -> Vec<Block> {
    let Section { id, title, expected, .. } = task.section;
    let mut blocks = vec![
        Block::heading(&format!("{id}: {title}")),
        Block::Verdict {
            passed: outcome.is_some_and(Outcome::has_passed),
            text: word(outcome).to_owned(),
        },
        Block::Code(task.command.clone()),
    ];
    let mut facts = vec![("expected".to_owned(), (*expected).to_owned())];
    if let Some(outcome) = outcome {
        facts.extend(came_out(task, outcome));
    }
    blocks.push(Block::facts(facts));
    blocks.extend(outcome.map(details).unwrap_or_default());
    blocks
}

fn came_out(task: &Task<'_>, outcome: &Outcome) -> Vec<(String, String)> {
    let mut sentences = outcome.faults.clone();
    sentences.extend(outcome.summary.iter().cloned());
    if sentences.is_empty() {
        sentences.push("it ended well".to_owned());
    }
    let took = format!("{} of {} at most", took(outcome.time.seconds), time(task.budget));
    [
        ("came out", sentences.join("; ")),
        ("began", format!("{} UTC, load average {}", outcome.time.began, outcome.time.load)),
        ("took", took),
        ("all it printed", format!("raw/{}.log", outcome.id)),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .to_vec()
}

/// Bars, charts and figures; the end of the output first, where it failed.
fn details(outcome: &Outcome) -> Vec<Block> {
    let mut blocks = Vec::new();
    if !outcome.tail.is_empty() {
        blocks.push(Block::Text("The end of what it printed:".to_owned()));
        blocks.push(Block::Code(outcome.tail.join("\n")));
    }
    let verdict = |(is_met, text): &(bool, String)| {
        Verdict { is_met: *is_met, text: text.clone() }.to_string()
    };
    if !outcome.bars.is_empty() {
        blocks.push(Block::List(outcome.bars.iter().map(verdict).collect()));
    }
    for (number, (title, svg)) in outcome.pictures.iter().enumerate() {
        let file = format!("{}-{}.svg", outcome.id, number + 1);
        blocks.push(Block::Picture(Picture { title: title.clone(), svg: svg.clone(), file }));
    }
    for (name, table) in &outcome.tables {
        let (table, same) = table.simplified();
        let same: Vec<_> = same.iter().map(|(name, value)| format!("{name} {value}")).collect();
        let name =
            if same.is_empty() { name.clone() } else { format!("{name}: {}", same.join(", ")) };
        blocks.push(Block::Table { name: Some(name), head: table.head, rows: table.rows });
    }
    blocks
}

fn took(seconds: f64) -> String {
    time(Duration::try_from_secs_f64(seconds).unwrap_or_default())
}

fn short(commit: &str) -> &str {
    commit.get(..12).unwrap_or(commit)
}

#[cfg(test)]
mod tests;
