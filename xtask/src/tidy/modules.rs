//! Arrows between the modules of a crate go one way: a module knows those that its crate declares before it.
//!
//! The order of `mod` in `lib.rs` is thereby the list of what may know what, and there can be no circle.

use super::Finding;
use crate::tree::{File, Tree};

/// The crates whose modules stand in such an order.
const ORDERED: &[&str] =
    &["titan-config", "titan-io", "titan-upstream", "titan-policies", "titan-proxy"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    ORDERED.iter().flat_map(|name| check_crate(tree, name)).collect()
}

fn check_crate(tree: &Tree, name: &str) -> Vec<Finding> {
    let folder = format!("crates/{name}/src/");
    let root = tree.file(&format!("{folder}lib.rs")).and_then(|file| file.text.as_deref());
    let modules: Vec<&str> = root.into_iter().flat_map(str::lines).filter_map(declared).collect();
    let mut findings = Vec::new();
    for (file, text) in tree.texts(&[".rs"]) {
        let own = file.path.strip_prefix(&folder).and_then(|path| path.split(['/', '.']).next());
        let own = own.and_then(|own| modules.iter().position(|module| *module == own));
        let Some(own) = own.filter(|_| !is_test(&file.path)) else { continue };
        findings.extend(arrows_back(file, text, &modules, own));
    }
    findings
}

/// The module that a line declares.
fn declared(line: &str) -> Option<&str> {
    let line = line.strip_prefix("pub(crate) ").or(line.strip_prefix("pub ")).unwrap_or(line);
    line.strip_prefix("mod ")?.strip_suffix(';')
}

/// What a module names that it must not know.
fn arrows_back(file: &File, text: &str, modules: &[&str], own: usize) -> Vec<Finding> {
    let root = way_to_root(&file.path);
    let mut findings = Vec::new();
    for (index, line) in code(text) {
        let by_super =
            line.split(&root).skip(1).filter(|_| !line.contains(&format!("{root}super::")));
        for named in line.split("crate::").skip(1).chain(by_super) {
            let name = named.split(|it: char| it != '_' && !it.is_alphanumeric()).next();
            let place = modules.iter().position(|module| Some(*module) == name);
            if named.starts_with('{') && line.contains("crate::{") {
                let message = "name each module in a `use` of its own";
                findings.push(Finding::line(file, index, message));
            } else if let Some(place) = place.filter(|place| *place > own) {
                let (own, other) = (modules[own], modules[place]);
                let message =
                    format!("`{own}` must not know `{other}`, which is declared after it");
                findings.push(Finding::line(file, index, message));
            }
        }
    }
    findings
}

/// What leads from a file to the root of its crate: as many `super::` as there are modules around it.
fn way_to_root(path: &str) -> String {
    let inside = path.split("/src/").nth(1).unwrap_or_default();
    let depth = inside.split('/').filter(|part| *part != "mod.rs").count();
    "super::".repeat(depth)
}

/// The lines that are neither comments nor for tests alone.
fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_for_tests = false;
    text.lines().enumerate().filter(move |(_, line)| {
        is_for_tests |= *line == "#[cfg(test)]";
        let is_code = !is_for_tests && !line.trim_start().starts_with("//");
        // The item ends where it began: at the margin.
        let is_end = *line == "}" || line.ends_with(';') && !line.starts_with(' ');
        is_for_tests &= !is_end;
        is_code
    })
}

fn is_test(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("/tests.rs")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: (&str, &str) =
        ("crates/titan-io/src/lib.rs", "pub mod a;\n\nmod b;\npub(crate) mod c;\n");

    fn messages(path: &str, text: &str) -> Vec<String> {
        let path = format!("crates/titan-io/src/{path}");
        check(&Tree::of(&[ROOT, (&path, text)])).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn a_module_knows_those_before_it() {
        for (path, text) in [
            ("b.rs", "use crate::a::A;\n"),
            ("c/inner.rs", "fn f(it: &crate::b::B) {}\nuse crate::c::C;\n"),
            ("a.rs", "// crate::b\n#[cfg(test)]\nuse crate::c::C;\n"),
            ("a/tests.rs", "use crate::c::C;\n"),
            ("a/inner.rs", "use super::c;\n"),
        ] {
            assert_eq!(messages(path, text).len(), 0, "{path}");
        }
        let found = messages("a/inner.rs", "\nlet it = crate::c::f();\n");
        assert!(found[0].contains("inner.rs:2: `a` must not know `c`"), "{found:?}");
        assert_eq!(messages("b.rs", "use crate::{a, c};\n").len(), 1);
    }

    #[test]
    fn nothing_hides_an_arrow() {
        for (path, text) in [
            ("a.rs", "#[cfg(test)]\nmod tests;\n\nuse crate::c::C;\n"),
            ("a.rs", "#[cfg(test)]\nmod tests {\n    use super::*;\n}\nuse crate::c::C;\n"),
            ("a.rs", "use super::c::C;\n"),
            ("a/inner.rs", "use super::super::c::C;\n"),
            ("a.rs", "fn f(it: &super::c::C, other: &crate::a::A) {}\n"),
        ] {
            assert_eq!(messages(path, text).len(), 1, "{path}: {text}");
        }
    }
}
