//! Every field of the configuration has a test that fails when nothing reads it.
//!
//! The test says so in the lines above its `#[test]`: `// field: limits.head, limits.response_head`. It stands wherever the
//! field can be proven: beside the code, or in a suite that runs the gateway.

use super::Finding;
use super::documented::{CONFIGURATION, fields};
use crate::tree::{File, Tree};
use std::collections::BTreeSet;

const MARK: &str = "// field:";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let declared: Vec<_> = tree
        .under(CONFIGURATION)
        .flat_map(|page| {
            fields(page.text.as_deref().unwrap_or_default()).into_iter().map(move |it| (page, it))
        })
        .map(|(page, (index, section, key))| (page, index, format!("{section}.{key}")))
        .collect();
    let names: BTreeSet<&str> = declared.iter().map(|(.., name)| name.as_str()).collect();
    let (mut proven, mut findings) = (BTreeSet::new(), Vec::new());
    for (file, text) in tree.texts(&[".rs"]).filter(|(file, _)| file.path.starts_with("crates/")) {
        for (index, field) in marks(text, file, &mut findings) {
            if !names.contains(field) {
                let message = format!(
                    "`{field}` is not in {CONFIGURATION}: correct it, or run `cargo xtask reference`"
                );
                findings.push(Finding::line(file, index, message));
            }
            proven.insert(field);
        }
    }
    for (page, index, name) in &declared {
        if !proven.contains(name.as_str()) {
            let message = format!(
                "no test is marked `{MARK} {name}`: write one that fails when nothing reads it"
            );
            findings.push(Finding::line(page, *index, message));
        }
    }
    findings
}

/// The fields that the tests of a file prove, each with its line.
fn marks<'t>(text: &'t str, file: &File, findings: &mut Vec<Finding>) -> Vec<(usize, &'t str)> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let mut marks = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        let Some(named) = line.strip_prefix(MARK) else { continue };
        let mut below = lines[index..].iter().skip_while(|line| line.starts_with(MARK));
        if !below.next().is_some_and(|line| is_test_attribute(line)) {
            let message = "tests prove fields: this mark is not above a `#[test]`";
            findings.push(Finding::line(file, index, message));
        }
        marks.extend(named.split(',').map(|field| (index, field.trim())));
    }
    marks
}

/// Whether a line makes what is below it a test that runs.
fn is_test_attribute(line: &str) -> bool {
    line == "#[test]" || line.starts_with("#[tokio::test")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "<a id=\"limits\"></a>\n### `head`\n### `body`\n";

    fn messages(tests: &str) -> Vec<String> {
        let tree = Tree::of(&[(CONFIGURATION, PAGE), ("crates/a/tests/b.rs", tests)]);
        check(&tree).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn each_field_has_a_test_that_names_it() {
        let both = "// field: limits.head, limits.body\n#[test]\nfn a() {}\n";
        assert_eq!(messages(both), [""; 0]);
        let apart =
            "// field: limits.head\n// field: limits.body\n#[tokio::test]\nasync fn a() {}\n";
        assert_eq!(messages(apart), [""; 0]);
        let missing = "docs/configuration.md:3: no test is marked `// field: limits.body`: write one that fails when \
                       nothing reads it";
        assert_eq!(messages("// field: limits.head\n#[test]\nfn a() {}\n"), [missing]);
    }

    #[test]
    fn a_mark_names_a_field_and_stands_above_a_test() {
        let both = "// field: limits.head, limits.body\n";
        let stray = "crates/a/tests/b.rs:1: tests prove fields: this mark is not above a `#[test]`";
        assert_eq!(messages(&format!("{both}fn a() {{}}\n")), [stray]);
        assert_eq!(messages(&format!("{both}// #[test]\nfn a() {{}}\n")), [stray]);
        let gone = "crates/a/tests/b.rs:2: `limits.tail` is not in docs/configuration.md: correct it, or run `cargo xtask reference`";
        assert_eq!(
            messages(&format!("{both}// field: limits.tail\n#[test]\nfn a() {{}}\n")),
            [gone]
        );
    }
}
