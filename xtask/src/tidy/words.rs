//! Words that do not stay: notes to oneself, stages of a plan, versions in names, names that say nothing.

use super::Finding;
use crate::tree::{File, Tree};

/// Where they are looked for.
const TEXTS: &[&str] = &[
    ".rs",
    ".go",
    ".ts",
    ".tsx",
    ".s",
    ".sh",
    ".py",
    ".toml",
    ".md",
    ".mod",
    "Makefile",
    "Dockerfile",
];

/// Notes to oneself belong to the issue tracker. Written in two halves: this file is looked at too.
const NOTES: &[&str] =
    &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X"), concat!("HA", "CK")];

/// Names for what has no name of its own, or had another one before.
const EMPTY_NAMES: &[&str] = &[
    "util", "utils", "helper", "helpers", "common", "core", "misc", "manager", "legacy", "old",
    "new",
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings: Vec<_> = tree.files.iter().filter_map(bad_name).collect();
    for (file, text) in tree.texts(TEXTS) {
        for (index, line) in text.lines().enumerate() {
            let found = words(line)
                .zip(words(line).skip(1).chain([""]))
                .find_map(|(word, next)| fault(word, next));
            findings.extend(found.map(|fault| Finding::line(file, index, fault)));
        }
    }
    findings
}

fn bad_name(file: &File) -> Option<Finding> {
    let is_empty = |name: &str| {
        let stem = name.split('.').next().unwrap_or_default();
        EMPTY_NAMES.contains(&stem) || stem.split(['_', '-']).any(is_version)
    };
    let name = file.path.split('/').find(|name| is_empty(name))?;
    Some(Finding::file(
        file,
        format!("`{name}` does not say what it is: see the words in CONTRIBUTING.md"),
    ))
}

fn fault(word: &str, next: &str) -> Option<String> {
    if NOTES.contains(&word) {
        return Some(format!("`{word}`: plans belong to the issue tracker"));
    }
    let is_number = !next.is_empty() && next.bytes().all(|byte| byte.is_ascii_digit());
    if word.eq_ignore_ascii_case("phase") && is_number {
        return Some(format!("`{word} {next}`: a stage of a plan means nothing to a reader"));
    }
    names_a_version(word)
        .then(|| format!("`{word}`: there is one of each thing, without a version"))
}

/// Whether an identifier ends in a version. The 4 and 6 of addresses are none.
fn names_a_version(word: &str) -> bool {
    let camel = word.strip_suffix("V2").or_else(|| word.strip_suffix("V3"));
    camel.is_some_and(|stem| stem.ends_with(|last: char| last.is_ascii_lowercase()))
        || word.rsplit_once('_').is_some_and(|(stem, end)| !stem.is_empty() && is_version(end))
}

fn is_version(part: &str) -> bool {
    matches!(part, "v2" | "v3")
}

fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_not_be_written() {
        // In halves again: this file is looked at too.
        for line in [
            concat!("// TO", "DO: later"),
            concat!("// Pha", "se 3 of it"),
            concat!("pha", "se-2"),
            concat!("fn parse", "_v2() {}"),
            concat!("struct Parser", "V2;"),
        ] {
            assert_eq!(check(&Tree::of(&[("a.rs", line)])).len(), 1, "{line}");
        }
        for line in ["enum Phase { Serve }", "SocketAddrV6", "PROXY v2", "IpAddr::V4", "phase two"]
        {
            assert_eq!(check(&Tree::of(&[("a.rs", line)])).len(), 0, "{line}");
        }
    }

    #[test]
    fn what_no_file_may_be_called() {
        for path in ["a/util.rs", "common/a.rs", concat!("a/parser", "_v2.rs"), "a/legacy.go"] {
            assert_eq!(check(&Tree::of(&[(path, "")])).len(), 1, "{path}");
        }
        assert_eq!(check(&Tree::of(&[("a/renewal.rs", "")])).len(), 0);
    }
}
