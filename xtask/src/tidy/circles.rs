//! Modules that stand beside each other in another one form no circle: some can be read without the others.
//!
//! Between the modules of a crate's root there is an order besides: `modules.rs` holds it.

use super::Finding;
use super::modules::{Declarations, code, is_of_name, is_test};
use crate::tree::{File, Tree};

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let is_inner = |path: &str| {
        let within = path.split_once("/src/").map_or("", |(_, within)| within);
        !["", "lib.rs", "main.rs"].contains(&within) && !is_test(path)
    };
    let parents = tree.texts(&[".rs"]).filter(|(file, _)| is_inner(&file.path));
    parents.filter_map(|(file, text)| circle_in(tree, file, text)).collect()
}

/// The circle that the modules of one file form, if they do.
fn circle_in(tree: &Tree, parent: &File, text: &str) -> Option<Finding> {
    let declared = Declarations::of(text);
    if declared.modules.len() < 2 {
        return None;
    }
    let folder = format!("{}/", parent.path.trim_end_matches(".rs").trim_end_matches("/mod"));
    let mut arrows = vec![Vec::new(); declared.modules.len()];
    for (file, text) in tree.texts(&[".rs"]) {
        let Some(inside) = file.path.strip_prefix(&folder) else { continue };
        let own = inside.split(['/', '.']).next().and_then(|own| declared.place_of_module(own));
        let Some(own) = own.filter(|_| !is_test(&file.path)) else { continue };
        let code: Vec<&str> = code(text).map(|(_, line)| line).collect();
        let named = named_in(&code.join("\n"), &folder, inside, &declared);
        arrows[own].extend(named.into_iter().filter(|it| *it != own));
    }
    let circle: Vec<_> = circle(&arrows)?.iter().map(|place| declared.modules[*place]).collect();
    let message = format!("its modules depend on each other in a circle: {}", circle.join(" -> "));
    Some(Finding::file(parent, message))
}

/// The places of the modules in `folder` that a file in it names.
fn named_in(code: &str, folder: &str, inside: &str, declared: &Declarations<'_>) -> Vec<usize> {
    let (_, parent) = folder.split_once("/src/").unwrap_or_default();
    let from_root = ["crate::", &parent.replace('/', "::")].concat();
    let depth = inside.split('/').filter(|part| *part != "mod.rs").count();
    let from_inside = "super::".repeat(depth);
    let names = [from_root, from_inside].into_iter().flat_map(|way| names_behind(code, &way));
    names.filter_map(|name| declared.place_of(name)).collect()
}

/// The names behind `way`; of a group all that stand in it.
fn names_behind<'c>(code: &'c str, way: &str) -> Vec<&'c str> {
    let ways = code.match_indices(way).filter(|(at, _)| !code[..*at].ends_with("super::"));
    let behind = ways.map(|(at, _)| &code[at + way.len()..]);
    let names = behind.flat_map(|rest| {
        let names = rest.split(';').next().unwrap_or_default().split(|it| !is_of_name(it));
        names.take(if rest.starts_with('{') { usize::MAX } else { 1 })
    });
    names.filter(|name| !name.is_empty()).collect()
}

/// A circle of arrows, from one of its places back to it.
fn circle(arrows: &[Vec<usize>]) -> Option<Vec<usize>> {
    let mut left: Vec<usize> = (0..arrows.len()).collect();
    // What knows nothing that is left is in no circle.
    loop {
        let before = left.clone();
        left.retain(|place| arrows[*place].iter().any(|it| before.contains(it)));
        if left.len() == before.len() {
            break;
        }
    }
    // Each of these leads to another one of them.
    let mut way = vec![*left.first()?];
    loop {
        let next = *arrows[*way.last()?].iter().find(|it| left.contains(it))?;
        let start = way.iter().position(|it| *it == next);
        way.push(next);
        if let Some(start) = start {
            return Some(way.split_off(start));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(parent: &str, files: &[(&str, &str)]) -> Vec<String> {
        let path = |name: &str| format!("crates/titan-io/src/a/{name}");
        let files: Vec<_> = files.iter().map(|(name, text)| (path(name), *text)).collect();
        let mut all: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        all.push(("crates/titan-io/src/a.rs", parent));
        check(&Tree::of(&all)).iter().map(Finding::to_string).collect()
    }

    const PARENT: &str = "mod b;\nmod c;\nmod d;\n\npub use c::C;\n";

    #[test]
    fn a_circle_is_shown_whole() {
        let found = messages(
            PARENT,
            &[
                ("b.rs", "use super::c::C;\n"),
                ("c.rs", "use crate::a::d::D;\n"),
                ("d/inner.rs", "use super::super::{\n    E,\n    b::B,\n};\n"),
            ],
        );
        assert_eq!(found.len(), 1);
        assert!(
            found[0].contains("src/a.rs: ") && found[0].ends_with("b -> c -> d -> b"),
            "{found:?}"
        );
        let found =
            messages(PARENT, &[("b.rs", "use super::C;\n"), ("c.rs", "use super::b::B;\n")]);
        assert!(
            found[0].ends_with("b -> c -> b"),
            "what is re-exported is its module's: {found:?}"
        );
    }

    #[test]
    fn what_goes_one_way_is_no_circle() {
        let one_way =
            [("b.rs", "use super::c::C;\n"), ("c.rs", "use super::d::D;\nuse super::E;\n")];
        assert_eq!(messages(PARENT, &one_way).len(), 0);
        let for_tests =
            [("b.rs", "use super::c::C;\n"), ("c.rs", "#[cfg(test)]\nuse super::b::B;\n")];
        assert_eq!(messages(PARENT, &for_tests).len(), 0);
        let elsewhere = [("b.rs", "use super::c::C;\n"), ("c/inner.rs", "use super::b::B;\n")];
        assert_eq!(messages(PARENT, &elsewhere).len(), 0, "that is another `b`");
    }
}
