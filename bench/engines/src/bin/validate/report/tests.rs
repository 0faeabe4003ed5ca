//! Pages of a run that has been interrupted, in which a section has printed what is no text in either format.

use std::time::Duration;

use super::*;
use crate::facts::Facts;
use crate::section::Proof;
use crate::table::Table;

const HOSTILE: &str = "<b>&\"|`*_[a](b)\n```";

const SECTIONS: [Section<'static>; 3] = [
    section_of("lint", "Formatting and clippy"),
    section_of("unit", "Tests"),
    section_of("bench", "Costs"),
];

const fn section_of(id: &'static str, title: &'static str) -> Section<'static> {
    let (command, expected, proof) = ("make it", "no fault", Proof::ExitCode);
    Section { id, title, command, expected, proof, budget: (60, 60), pictures: &[] }
}

fn outcome(id: &str, faults: &[&str]) -> Outcome {
    Outcome {
        id: id.to_owned(),
        command: "make it".to_owned(),
        faults: faults.iter().map(|fault| (*fault).to_owned()).collect(),
        ..Outcome::default()
    }
}

/// A run of the first so many sections, with these outcomes.
fn run(sections: usize, outcomes: Vec<Outcome>) -> Run<'static> {
    let task =
        |section| Task { section, command: "make it".to_owned(), budget: Duration::from_secs(60) };
    let facts = Facts(vec![("kernel".to_owned(), "Linux 6.1".to_owned())]);
    let mut state = State::go_on(facts, None);
    outcomes.into_iter().for_each(|outcome| state.put(outcome));
    Run {
        commit: Commit { id: "0123456789abcdef".to_owned(), changes: Vec::new() },
        options: "--full".to_owned(),
        began: "2026-01-31 09:05".to_owned(),
        target: "/x/target".to_owned(),
        sections: &SECTIONS,
        tasks: SECTIONS[..sections].iter().map(task).collect(),
        state,
    }
}

fn pages(run: &Run<'_>) -> [String; 2] {
    let blocks = run.blocks();
    [html::page(&blocks), markdown::page(&blocks)]
}

#[test]
fn a_page_begins_with_the_verdict_and_what_fell_short() {
    let missed = Outcome {
        bars: vec![(true, "small 0.78".to_owned()), (false, "large 1.17".to_owned())],
        ..outcome("unit", &["1 of 2 bars are missed"])
    };
    for page in pages(&run(3, vec![outcome("lint", &[]), missed])) {
        let in_this_order = [
            "Validation of 0123456789ab",
            "FELL SHORT: of 3 sections 1 have passed, 1 have failed, and 1 have not run.",
            "unit: 1 of 2 bars are missed",
            "unit: missed: large 1.17",
            "bench: has not run",
            "Linux 6.1",
            "bar met: small 0.78",
        ];
        let places =
            in_this_order.map(|text| page.find(text).unwrap_or_else(|| panic!("{text}: {page}")));
        assert!(places.is_sorted(), "{page}");
    }
}

#[test]
fn only_a_run_in_which_all_has_run_and_passed_has_passed() {
    let passed = || vec![outcome("lint", &[]), outcome("unit", &[])];
    assert!(run(2, passed()).has_passed());
    assert!(!run(3, passed()).has_passed());
    assert!(!run(2, vec![outcome("lint", &[]), outcome("unit", &["exit code 1"])]).has_passed());
    for page in pages(&run(2, passed())) {
        assert!(page.contains("All 2 sections have passed."), "{page}");
        assert!(page.contains("Not asked for, and not run: bench."), "{page}");
        assert!(!page.contains("What fell short"), "{page}");
    }
}

#[test]
fn what_sections_print_is_text_and_nothing_else() {
    let table = Table { head: vec![HOSTILE.to_owned()], rows: vec![vec![HOSTILE.to_owned()]] };
    let hostile = Outcome {
        summary: vec![HOSTILE.to_owned()],
        bars: vec![(true, HOSTILE.to_owned())],
        tail: vec![HOSTILE.to_owned()],
        tables: vec![(HOSTILE.to_owned(), table)],
        ..outcome("lint", &[HOSTILE])
    };
    let [html, markdown] = pages(&run(1, vec![hostile]));
    assert!(!html.contains("<b>"), "{html}");
    assert_eq!(html.matches("&lt;b&gt;&amp;&quot;|").count(), 9, "{html}");
    let escaped = "\\<b\\>\\&\"\\|\\`\\*\\_\\[a\\](b) \\`\\`\\`";
    assert_eq!(markdown.matches(escaped).count(), 8, "{markdown}");
    // The end of what it printed, in a fence that is longer than its own.
    assert!(markdown.contains(&format!("\n````\n{HOSTILE}\n````\n")), "{markdown}");
}

#[test]
fn charts_are_in_the_page_and_beside_it() {
    let svg = "<svg xmlns=\"http://www.w3.org/2000/svg\"></svg>\n";
    let drawn =
        Outcome { pictures: vec![("Costs".to_owned(), svg.to_owned())], ..outcome("lint", &[]) };
    let run = run(1, vec![drawn]);
    let [html, markdown] = pages(&run);
    assert!(html.contains(svg), "{html}");
    assert!(markdown.contains("![Costs](pictures/lint-1.svg)"), "{markdown}");
    let folder = std::env::temp_dir().join(format!("validate-report-{}", std::process::id()));
    write(&folder, &run).unwrap();
    assert_eq!(fs::read_to_string(folder.join("pictures/lint-1.svg")).unwrap(), svg);
    fs::remove_dir_all(&folder).unwrap();
}
