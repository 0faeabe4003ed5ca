//! Names that pages tell the reader to search for are in the code.

use super::Finding;
use crate::tree::Tree;
use std::collections::HashSet;

/// Pages that lead by names instead of links.
const PAGES: &[&str] = &["ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md"];

/// Where the code is that they lead to.
const CODE: &[&str] = &["crates/", "shockwave/"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let code: HashSet<&str> = tree
        .texts(&[".rs", ".go"])
        .filter(|(file, _)| CODE.iter().any(|folder| file.path.starts_with(folder)))
        .flat_map(|(_, text)| text.split(|c: char| !c.is_alphanumeric() && c != '_'))
        .collect();
    let mut findings = Vec::new();
    for (file, text) in tree.texts(PAGES) {
        for (index, line) in text.lines().enumerate() {
            let gone = names(line).filter(|name| !code.contains(name));
            findings.extend(
                gone.map(|it| Finding::line(file, index, format!("`{it}` is not in the code"))),
            );
        }
    }
    findings
}

/// The identifiers in the code spans of a line: `Kind::Path` holds two. Spans with anything else, such as
/// files, commands and plain words, are left alone.
fn names(line: &str) -> impl Iterator<Item = &str> {
    let spans = line.split('`').skip(1).step_by(2);
    let is_name = |span: &&str| {
        let is_part = |c: char| c.is_ascii_alphanumeric() || "_:".contains(c);
        span.chars().all(is_part)
            && span.chars().any(|c| c.is_ascii_uppercase() || "_:".contains(c))
    };
    spans.filter(is_name).flat_map(|span| span.split("::"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_gone_is_found() {
        let code =
            ("crates/a/src/lib.rs", "impl Exchange {\n    fn run() {}\n}\nconst MAX_HOPS: u8 = 1;");
        let go = ("shockwave/conn.go", "type Ctx struct{}\n\nfunc (c *conn) readHead() {}\n");
        let gone = |line| check(&Tree::of(&[code, go, ("SECURITY.md", line)])).len();
        for line in [
            "`Exchange::run`, `MAX_HOPS`",
            "`Ctx` and `readHead`",
            "see `a.rs`, `GET /`, `host` and Nothing",
            "`a/B.md`",
        ] {
            assert_eq!(gone(line), 0, "{line}");
        }
        for line in ["`Exchange::walk`", "`MAX_STEPS`", "`Gone`", "`writeHead`"] {
            assert_eq!(gone(line), 1, "{line}");
        }
    }
}
