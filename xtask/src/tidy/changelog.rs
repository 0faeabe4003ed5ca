//! What users have a name for is named in CHANGELOG.md: each field of the configuration, metric, problem code, command
//! and option.
//!
//! The first entries speak of many in sum; `changelog/first.txt` lists those. What is added later is named by its entry,
//! in backticks. All that is needed is the tree, so a clone without history will do. What only behaves differently has
//! no name that could be missed: its entry is up to its author.

mod things;

use super::Finding;
use crate::tree::Tree;
use std::collections::BTreeSet;
use things::{Thing, things};

const PAGE: &str = "CHANGELOG.md";
const FIRST: &str = "xtask/src/tidy/changelog/first.txt";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = unnamed(tree);
    findings.extend(gone(tree));
    findings.extend(headings(tree));
    findings
}

/// What no entry names.
fn unnamed(tree: &Tree) -> Vec<Finding> {
    let first: BTreeSet<&str> = text(tree, FIRST).lines().collect();
    let entries = entries(text(tree, PAGE));
    let things = things(tree);
    let mut findings = Vec::new();
    for (thing, (file, index)) in &things {
        let has_namesake = things.keys().any(|other| other != thing && other.name == thing.name);
        let is_named = |entry: &BTreeSet<&str>| {
            entry.contains(thing.name.as_str()) && (!has_namesake || thing.is_owned(entry))
        };
        if !first.contains(thing.to_string().as_str()) && !entries.iter().any(is_named) {
            let message = format!(
                "no entry of {PAGE} names `{thing}`: add one for users, with the name in backticks"
            );
            findings.push(Finding::line(file, *index, message));
        }
    }
    findings
}

/// What is listed and gone, which is a line below `Removed`.
fn gone(tree: &Tree) -> Vec<Finding> {
    let Some(list) = tree.file(FIRST) else { return Vec::new() };
    let there: BTreeSet<String> = things(tree).keys().map(Thing::to_string).collect();
    let lines = text(tree, FIRST).lines().enumerate();
    let gone = lines.filter(|(_, line)| !there.contains(*line));
    let message =
        |name| format!("`{name}` is gone: say so in {PAGE}, and remove it from this list");
    gone.map(|(index, name)| Finding::line(list, index, message(name))).collect()
}

/// Headings that stand twice below one version, as merges leave them.
fn headings(tree: &Tree) -> Vec<Finding> {
    let Some(page) = tree.file(PAGE) else { return Vec::new() };
    let mut seen = BTreeSet::new();
    let mut findings = Vec::new();
    for (index, line) in text(tree, PAGE).lines().enumerate() {
        if line.starts_with("## ") {
            seen.clear();
        } else if line.starts_with("### ") && !seen.insert(line) {
            let message = format!("`{line}` appears twice: join the two");
            findings.push(Finding::line(page, index, message));
        }
    }
    findings
}

fn entries(page: &str) -> Vec<BTreeSet<&str>> {
    page.split("\n- ").skip(1).map(words).collect()
}

/// The words in the code spans of an entry, which ends where a heading comes.
fn words(entry: &str) -> BTreeSet<&str> {
    let entry = entry.split("\n#").next().unwrap_or_default();
    let spans = entry.split('`').skip(1).step_by(2);
    let is_inside = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    spans.flat_map(|span| span.split(move |c| !is_inside(c))).collect()
}

fn text<'t>(tree: &'t Tree, path: &str) -> &'t str {
    tree.file(path).and_then(|file| file.text.as_deref()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::documented::CONFIGURATION;
    use crate::tidy::documented::{CODES, METRICS};
    use things::COMMAND_LINE;

    const FILES: &[(&str, &str)] = &[
        (
            CONFIGURATION,
            "<a id=\"limits\"></a>\n## Limits\n### `head`\n### `body`\n\n<a id=\"timeouts\"></a>\n## Timeouts\n### `body`\n",
        ),
        (
            METRICS,
            "self.sample(\"titan_a_total\", &labels);\nself.sample(\"titan_a_total\", &other);\n",
        ),
        (CODES, "    ConnectTimeout Upstream GATEWAY_TIMEOUT \"connect-timeout\" \"Too late.\";\n"),
        (
            COMMAND_LINE,
            "enum Command {\n    Check {\n        #[arg(long)]\n        no_files: bool,\n    },\n}\n",
        ),
    ];
    const ALL: &str = "- `head`, `limits.body` and `timeouts: { body: 1s }`\n- `titan_a_total`,\n  `connect-timeout`\n\
        - `titan check --no-files`\n";

    fn found(changelog: &str, first: &str) -> Vec<String> {
        let mut files = FILES.to_vec();
        files.extend([(PAGE, changelog), (FIRST, first)]);
        check(&Tree::of(&files)).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn what_has_a_name_is_named() {
        assert_eq!(found(&format!("\n{ALL}"), ""), [""; 0]);
        for (name, place) in [
            ("head", "docs/configuration.md:3: no entry of CHANGELOG.md names `limits.head`"),
            ("titan_a_total", "exposition.rs:1: no entry of CHANGELOG.md names `titan_a_total`"),
            ("connect-timeout", "error.rs:1: no entry of CHANGELOG.md names `connect-timeout`"),
            ("--no-files", "cli.rs:4: no entry of CHANGELOG.md names `check --no-files`"),
        ] {
            let without = found(&format!("\n{}", ALL.replace(name, "x")), "");
            assert_eq!(without.len(), 1, "{without:?}");
            assert!(without[0].contains(place), "{without:?}");
        }
    }

    #[test]
    fn a_shared_name_is_told_apart_by_its_owner() {
        let without = found(&format!("\n{}", ALL.replace("timeouts: {", "{")), "");
        assert_eq!(without.len(), 1, "{without:?}");
        assert!(without[0].contains("`timeouts.body`"), "{without:?}");
    }

    #[test]
    fn what_the_first_entries_sum_up_is_listed_until_it_is_gone() {
        let first = "check\ncheck --no-files\nconnect-timeout\nlimits.body\nlimits.head\ntimeouts.body\ntitan_a_total\n";
        assert_eq!(found("", first), [""; 0]);
        let gone = found("", &format!("{first}limits.gone\n"));
        assert_eq!(
            gone,
            [format!(
                "{FIRST}:8: `limits.gone` is gone: say so in {PAGE}, and remove it from this list"
            )]
        );
    }

    #[test]
    fn a_heading_stands_once_below_a_version() {
        let twice = format!("## [0.2.0]\n### Fixed\n\n{ALL}\n### Fixed\n## [0.1.0]\n### Fixed\n");
        assert_eq!(
            found(&twice, ""),
            [format!("{PAGE}:9: `### Fixed` appears twice: join the two")]
        );
    }
}
