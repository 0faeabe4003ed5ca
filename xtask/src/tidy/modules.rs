//! Arrows between the modules of a crate go one way: a module knows those that its crate declares before it.
//!
//! The order of `mod` in `lib.rs` or `main.rs` is thereby the list of what may know what, and there can be no circle. A name that
//! the root re-exports stands for the module that it comes from. What is the root's own no module uses: the root
//! knows them all.

use super::Finding;
use crate::tree::{File, Tree};

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let roots = tree.texts(&["src/lib.rs", "src/main.rs"]);
    roots.flat_map(|(file, text)| check_crate(tree, &file.path, text)).collect()
}

fn check_crate(tree: &Tree, path: &str, text: &str) -> Vec<Finding> {
    let folder = path.trim_end_matches("lib.rs").trim_end_matches("main.rs");
    let root = Declarations::of(text);
    let mut findings = Vec::new();
    for (file, text) in tree.texts(&[".rs"]) {
        let own = file.path.strip_prefix(folder).and_then(|path| path.split(['/', '.']).next());
        let own = own.and_then(|own| root.place_of_module(own));
        let Some(own) = own.filter(|_| !is_test(&file.path)) else { continue };
        findings.extend(arrows_back(file, text, &root, own));
    }
    findings
}

/// A file that declares modules: these in their order, and what it says of them by `use`.
pub(super) struct Declarations<'a> {
    pub(super) modules: Vec<&'a str>,
    /// Names, and the modules that they come from.
    used: Vec<(&'a str, &'a str)>,
}

impl<'a> Declarations<'a> {
    pub(super) fn of(text: &'a str) -> Declarations<'a> {
        let used = text.split(';').filter_map(used_names).flatten();
        Declarations { modules: text.lines().filter_map(declared).collect(), used: used.collect() }
    }

    pub(super) fn place_of_module(&self, name: &str) -> Option<usize> {
        self.modules.iter().position(|module| *module == name)
    }

    /// The place of the module that a name stands for.
    pub(super) fn place_of(&self, name: &str) -> Option<usize> {
        let used = || self.used.iter().find(|(known, _)| *known == name);
        self.place_of_module(name).or_else(|| self.place_of_module(used()?.1))
    }
}

/// The module that a line declares.
fn declared(line: &str) -> Option<&str> {
    without_visibility(line).strip_prefix("mod ")?.strip_suffix(';')
}

/// The names that a statement takes from a module.
fn used_names(statement: &str) -> Option<impl Iterator<Item = (&str, &str)>> {
    let path = without_visibility(statement.trim_start()).strip_prefix("use ")?;
    let (module, names) = path.split_once("::")?;
    let names = names.split(|it| !is_of_name(it)).filter(|name| !name.is_empty());
    Some(names.map(move |name| (name, module)))
}

fn without_visibility(line: &str) -> &str {
    line.strip_prefix("pub(crate) ").or(line.strip_prefix("pub ")).unwrap_or(line)
}

pub(super) fn is_of_name(it: char) -> bool {
    it == '_' || it.is_alphanumeric()
}

/// What a module names that it must not know.
fn arrows_back(file: &File, text: &str, root: &Declarations<'_>, own: usize) -> Vec<Finding> {
    let above = way_to_root(&file.path);
    let mut findings = Vec::new();
    for (index, line) in code(text) {
        let by_super =
            line.split(&above).skip(1).filter(|_| !line.contains(&format!("{above}super::")));
        for named in line.split("crate::").skip(1).chain(by_super) {
            let name = named.split(|it| !is_of_name(it)).next().unwrap_or_default();
            let module = root.modules[own];
            let message = match root.place_of(name) {
                None if named.starts_with(['{', '*']) => {
                    "use a separate `use` for each module".to_owned()
                }
                None if !name.is_empty() => {
                    format!(
                        "`{name}` belongs to the root, which depends on `{module}`: move it into a module"
                    )
                }
                Some(place) if place > own => {
                    let other = root.modules[place];
                    format!("`{module}` must not depend on `{other}`, which is declared after it")
                }
                _ => continue,
            };
            findings.push(Finding::line(file, index, message));
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
pub(super) fn code(text: &str) -> impl Iterator<Item = (usize, &str)> {
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

pub(super) fn is_test(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("/tests.rs")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: (&str, &str) = (
        "crates/titan-io/src/lib.rs",
        "pub mod a;\n\nmod b;\npub(crate) mod c;\n\npub use c::{C, D};\n\nfn own() {}\n",
    );

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
        assert!(found[0].contains("inner.rs:2: `a` must not depend on `c`"), "{found:?}");
        assert_eq!(messages("b.rs", "use crate::{a, c};\n").len(), 1);
    }

    #[test]
    fn every_crate_has_an_order() {
        for root in ["crates/titan/src/main.rs", "xtask/src/main.rs", "fuzz/src/lib.rs"] {
            let (folder, _) = root.rsplit_once('/').unwrap();
            let arrow = |path: &str, text: &str| {
                let path = format!("{folder}/{path}");
                check(&Tree::of(&[(root, "mod a;\nmod b;\n"), (&path, text)])).len()
            };
            assert_eq!(arrow("a.rs", "use crate::b::B;\n"), 1, "{root}");
            assert_eq!(arrow("b.rs", "use crate::a::A;\n"), 0, "{root}");
        }
    }

    #[test]
    fn what_the_root_re_exports_stands_for_its_module() {
        assert!(messages("a.rs", "use crate::D;\n")[0].contains("`a` must not depend on `c`"));
        assert_eq!(messages("c/inner.rs", "use crate::D;\n").len(), 0);
        assert!(messages("c.rs", "crate::own();\n")[0].contains("`own` belongs to the root"));
    }

    #[test]
    fn nothing_hides_an_arrow() {
        for (path, text) in [
            ("a.rs", "#[cfg(test)]\nmod tests;\n\nuse crate::c::C;\n"),
            ("a.rs", "#[cfg(test)]\nmod tests {\n    use super::*;\n}\nuse crate::c::C;\n"),
            ("a.rs", "use super::c::C;\n"),
            ("a.rs", "use super::{b, c};\n"),
            ("a.rs", "use crate::{\n    b,\n    c,\n};\n"),
            ("a.rs", "use crate::*;\n"),
            ("a/inner.rs", "use super::super::c::C;\n"),
            ("a.rs", "fn f(it: &super::c::C, other: &crate::a::A) {}\n"),
        ] {
            assert_eq!(messages(path, text).len(), 1, "{path}: {text}");
        }
    }
}
