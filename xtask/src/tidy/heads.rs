//! Every Rust file says in its first line what it is for; every Go package has its doc comment.

use super::Finding;
use crate::tree::{File, Tree};
use std::collections::BTreeMap;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let rust = tree.texts(&[".rs"]).filter(|(_, text)| !text.starts_with("//! "));
    let mut findings: Vec<_> =
        rust.map(|(file, _)| Finding::line(file, 0, "does not begin with `//! `")).collect();
    findings.extend(undocumented_packages(tree));
    findings
}

/// Go wants one doc comment for a package, in whichever of its files.
fn undocumented_packages(tree: &Tree) -> impl Iterator<Item = Finding> {
    let mut packages: BTreeMap<&str, Vec<(&File, &str)>> = BTreeMap::new();
    for (file, text) in tree.texts(&[".go"]).filter(|(file, _)| !file.path.ends_with("_test.go")) {
        let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        packages.entry(folder).or_default().push((file, text));
    }
    packages.into_values().filter_map(|files| {
        let has_doc = files.iter().any(|(_, text)| has_package_doc(text));
        (!has_doc).then(|| Finding::file(files[0].0, "its package has no doc comment in any file"))
    })
}

fn has_package_doc(text: &str) -> bool {
    let mut before = "";
    for line in text.lines() {
        if line.starts_with("package ") {
            return before.starts_with("//") && !before.starts_with("//go:")
                || before.ends_with("*/");
        }
        before = line;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(files: &[(&str, &str)]) -> usize {
        check(&Tree::of(files)).len()
    }

    #[test]
    fn a_rust_file_begins_with_its_purpose() {
        assert_eq!(count(&[("a.rs", "//! What it is for.\n")]), 0);
        for text in ["", "use std::fmt;\n", "// plain\n//! late\n"] {
            assert_eq!(count(&[("a.rs", text)]), 1, "{text:?}");
        }
    }

    #[test]
    fn a_go_package_has_one_doc() {
        let (with, without) = ("// Package a does it.\npackage a\n", "package a\n");
        assert_eq!(count(&[("a/a.go", with), ("a/b.go", without), ("a/a_test.go", without)]), 0);
        assert_eq!(count(&[("a/b.go", without), ("a/c.go", without), ("b/a.go", with)]), 1);
        assert_eq!(count(&[("a/b.go", "//go:build linux\n\npackage a\n")]), 1);
    }
}
