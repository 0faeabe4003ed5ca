//! Runs everything that says how good Titan and Shockwave are, section by section, and writes down what fell short.

mod commit;
mod facts;
mod judge;
mod options;
mod outcome;
mod place;
mod plan;
mod report;
mod run;
mod section;
mod sections;
mod state;
mod table;

use std::fs;
use std::io;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use titan_bench::machine::{Machine, now};

use crate::commit::Commit;
use crate::facts::Facts;
use crate::judge::time;
use crate::options::Options;
use crate::outcome::{Left, Outcome, Time};
use crate::place::Place;
use crate::plan::{Task, plan};
use crate::report::Run;
use crate::run::{Interrupts, Setting};
use crate::section::Section;
use crate::sections::SECTIONS;
use crate::state::State;

/// Of a program that was asked to end, as shells have it.
const INTERRUPTED: u8 = 130;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let outcome = read_sections_and_validate(&Options::parse()).await;
    outcome.unwrap_or_else(|error| {
        eprintln!("validate: {error}");
        ExitCode::FAILURE
    })
}

async fn read_sections_and_validate(options: &Options) -> io::Result<ExitCode> {
    let Some(file) = &options.sections else { return validate(&SECTIONS, options).await };
    let text = fs::read_to_string(file)?;
    let sections: Vec<Section<'_>> = serde_json::from_str(&text)?;
    validate(&sections, options).await
}

async fn validate(sections: &[Section<'_>], options: &Options) -> io::Result<ExitCode> {
    let place = Place::here()?;
    let _alone = place.lock()?;
    let mut interrupts = Interrupts::listen()?;
    let mut run = begin(sections, options, &place)?;
    report::write(&place.folder, &run)?;
    for index in 0..run.tasks.len() {
        if let Some(outcome) = run.state.of(&run.tasks[index]) {
            println!("{}: {}, in an earlier run", outcome.id, told(outcome));
            continue;
        }
        let Some(outcome) = section(&run.tasks[index], &run, &place, &mut interrupts).await? else {
            println!("interrupted: the same command goes on with {}", run.tasks[index].section.id);
            return Ok(ExitCode::from(INTERRUPTED));
        };
        println!("{}: {}", outcome.id, told(&outcome));
        run.state.put(outcome);
        run.state.facts.look_again(&place.target);
        keep(&run, &place)?;
        report::write(&place.folder, &run)?;
    }
    println!("\n{}", place.folder.join("report.html").display());
    Ok(if run.has_passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What there is to do, and what is done already.
fn begin<'a>(sections: &'a [Section<'a>], options: &Options, place: &Place) -> io::Result<Run<'a>> {
    let tasks = plan(sections, options.extent(), &options.only).map_err(io::Error::other)?;
    let commit = Commit::look(&place.root)?;
    let earlier = match commit.is_clean() {
        true => State::load(&place.state(&commit)),
        false => None,
    };
    let mut state = State::go_on(Facts::look(&place.target)?, earlier);
    if options.again {
        tasks.iter().for_each(|task| state.forget(task));
    }
    let given: Vec<_> = std::env::args().skip(1).collect();
    let target = place.target.display().to_string();
    let run =
        Run { commit, options: given.join(" "), began: now(), target, sections, tasks, state };
    keep(&run, place)?;
    Ok(run)
}

/// Outcomes of changed files are kept nowhere.
fn keep(run: &Run<'_>, place: &Place) -> io::Result<()> {
    match run.commit.is_clean() {
        true => run.state.save(&place.state(&run.commit)),
        false => Ok(()),
    }
}

/// Runs a section and judges it; `None` if it was interrupted.
async fn section(
    task: &Task<'_>,
    run: &Run<'_>,
    place: &Place,
    interrupts: &mut Interrupts,
) -> io::Result<Option<Outcome>> {
    let id = task.section.id;
    println!("{id}: {} (at most {})", task.command, time(task.budget));
    let before = Commit::look(&place.root)?;
    if before.id != run.commit.id {
        return Err(io::Error::other("there is another commit now: begin again"));
    }
    let log = place.prepare(id)?;
    let (began, load, clock) = (now(), Machine::load()?, Instant::now());
    let setting = Setting { root: &place.root, target: &place.target, log };
    let Some(end) = run::run(&task.command, task.budget, setting, interrupts).await? else {
        return Ok(None);
    };
    let time = Time { began, load, seconds: clock.elapsed().as_secs_f64() };
    let changed = Commit::look(&place.root)?.changed_since(&before);
    let left = Left { printed: place.printed(id)?, tables: place.tables(id)?, changed };
    Ok(Some(Outcome::of(task, time, end, left)))
}

fn told(outcome: &Outcome) -> String {
    match outcome.has_passed() {
        true => "passed".to_owned(),
        false => format!("FAILED: {}", outcome.faults.join("; ")),
    }
}
