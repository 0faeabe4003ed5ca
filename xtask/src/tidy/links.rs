//! Links in Markdown lead to files that are there.

use super::Finding;
use crate::tree::Tree;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, text) in tree.texts(&[".md"]) {
        let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        for (index, line) in text.lines().enumerate() {
            let broken = targets(line).filter(|target| !tree.has(&resolve(folder, target)));
            findings.extend(
                broken.map(|it| Finding::line(file, index, format!("`{it}` does not exist"))),
            );
        }
    }
    findings
}

/// What the links of a line point to, as far as that is a file.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    let links = line.split("](").skip(1).filter_map(|rest| rest.split([')', '#', ' ']).next());
    links.filter(|target| !target.is_empty() && !target.contains(':'))
}

/// `target` as seen from `folder`, from the root.
fn resolve(folder: &str, target: &str) -> String {
    let mut names: Vec<&str> = folder.split('/').filter(|name| !name.is_empty()).collect();
    for name in target.split('/') {
        match name {
            "" | "." => {}
            ".." => drop(names.pop()),
            name => names.push(name),
        }
    }
    names.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_leads_somewhere() {
        let broken = |line| check(&Tree::of(&[("docs/a.md", line), ("src/lib.rs", "")])).len();
        for line in [
            "[a](a.md#there)",
            "[s](../src)",
            "[s](../src/lib.rs)",
            "[w](https://x.example/)",
            "[h](#here)",
        ] {
            assert_eq!(broken(line), 0, "{line}");
        }
        for line in ["[a](b.md)", "[s](src)", "![p](a.png) and [a](a.md)"] {
            assert_eq!(broken(line), 1, "{line}");
        }
    }
}
