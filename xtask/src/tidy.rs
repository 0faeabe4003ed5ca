//! The rules of this repository that neither rustc nor clippy knows. A module for each.

mod changelog;
mod circles;
mod documented;
mod heads;
mod links;
mod manifests;
mod modules;
mod names;
mod proofs;
mod published;
mod purity;
mod sizes;
mod strays;
mod vectors;
mod wiring;
mod words;

use crate::tree::{File, Tree};
use std::fmt;
use std::path::Path;

/// A place that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    path: String,
    /// From 1; 0 for the file as a whole.
    line: usize,
    message: String,
}

type Check = fn(&Tree) -> Vec<Finding>;

const CHECKS: &[Check] = &[
    heads::check,
    strays::check,
    words::check,
    sizes::check,
    manifests::check,
    modules::check,
    circles::check,
    purity::check,
    wiring::check,
    proofs::check,
    vectors::check,
    links::check,
    documented::check,
    changelog::check,
    names::check,
    published::check,
];

/// Applies every rule to the repository at `root`; the error lists all that breaks one.
pub(crate) fn run(root: &Path) -> Result<(), String> {
    let tree =
        Tree::read(root).map_err(|error| format!("cannot read {}: {error}", root.display()))?;
    let findings = findings(&tree);
    if findings.is_empty() {
        return Ok(());
    }
    let lines: Vec<_> = findings.iter().map(Finding::to_string).collect();
    Err(format!("{}\nnot tidy: {} findings", lines.join("\n"), findings.len()))
}

fn findings(tree: &Tree) -> Vec<Finding> {
    CHECKS.iter().flat_map(|check| check(tree)).collect()
}

impl Finding {
    /// One about a file as a whole.
    fn file(file: &File, message: impl Into<String>) -> Finding {
        Finding { path: file.path.clone(), line: 0, message: message.into() }
    }

    /// One about a line, counted from 0.
    fn line(file: &File, index: usize, message: impl Into<String>) -> Finding {
        Finding { line: index + 1, ..Finding::file(file, message) }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { path, line, message } = self;
        match line {
            0 => write!(f, "{path}: {message}"),
            line => write!(f, "{path}:{line}: {message}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn this_repository_is_tidy() {
        if let Err(message) = run(&crate::root()) {
            panic!("{message}");
        }
    }

    #[test]
    fn a_folder_with_one_fault_of_each_kind_shows_them_all() {
        let root = std::env::temp_dir().join(format!("xtask-tidy-{}", std::process::id()));
        let files = [
            (".gitignore", "/target\n"),
            ("target/report.md", "[nowhere](nothing.md)"),
            ("crates/titan-http/Cargo.toml", "[dependencies]\ntitan-proxy.workspace = true\n"),
            ("crates/titan-http/src/lib.rs", "fn headless() {}\nuse std::time::Instant;\n"),
            ("crates/titan-config/src/utils.rs", "//! Head.\npub struct A {\n    pub b: u8,\n}\n"),
            ("conformance/http1/a.json", "{\"vectors\": [{\"id\": \"x\"}, {\"id\": \"x\"}]}"),
            (
                "crates/titan-admin/src/exposition.rs",
                "//! Head.\nconst A: &str = \"titan_a_total\";\n",
            ),
            ("crates/titan-io/src/lib.rs", "//! Head.\nmod a;\nmod b;\n"),
            ("crates/titan-io/src/a.rs", "//! Head.\nmod c;\nmod d;\nuse crate::b::B;\n"),
            ("crates/titan-io/src/a/c.rs", "//! Head.\nuse super::d::D;\n// field: a.b\n"),
            ("crates/titan-io/src/a/d.rs", "//! Head.\nuse super::c::C;\n"),
            ("SECURITY.md", "`Gone`\n"),
            ("REPORT.md", "[nowhere](nothing.md)\n"),
            (
                "Cargo.toml",
                "[workspace.metadata.published]\ncrates = [\"titan\"]\ngo = \"a.example/a\"\n",
            ),
            ("wide.rs", &format!("//! {}\n", "x".repeat(200))),
        ];
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let message = run(&root).unwrap_err();
        fs::remove_dir_all(&root).unwrap();
        for check in CHECKS {
            assert!(!check(&Tree::of(&files)).is_empty());
        }
        for part in
            ["lib.rs:1: ", "utils.rs: ", "REPORT.md: ", "REPORT.md:1: ", "a.json", "wide.rs:1: "]
        {
            assert!(message.contains(part), "{part} is missing in\n{message}");
        }
        assert!(!message.contains("target/"), "{message}");
    }
}
