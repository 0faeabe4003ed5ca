//! Arrows between crates go one way, and versions and lints stand in the root manifest alone.

use super::Finding;
use crate::tree::{File, Tree};

/// Which crates of this repository each of them may depend on, and which other crates it may not.
///
/// titan-h1, titan-h2 and titan-http do no I/O, and the data plane does not know the file's syntax.
const ARROWS: &[Arrows] = &[
    Arrows { from: "titan-http", to: &[], never: &["tokio", "socket2", "rustix"] },
    Arrows { from: "titan-h1", to: &["titan-http"], never: &["tokio", "socket2", "rustix"] },
    Arrows { from: "titan-h2", to: &["titan-http"], never: &["tokio", "socket2", "rustix"] },
    Arrows {
        from: "titan-h3",
        to: &["titan-http"],
        never: &["tokio", "socket2", "rustix", "quinn-proto"],
    },
    Arrows { from: "titan-config", to: &["titan-http"], never: &["tokio"] },
    Arrows {
        from: "titan-io",
        to: &["titan-config", "titan-h1", "titan-h2", "titan-h3", "titan-http"],
        never: &["saphyr-parser", "serde", "serde_json"],
    },
    Arrows {
        from: "titan-upstream",
        to: &[
            "titan-config",
            "titan-h1",
            "titan-h2",
            "titan-h3",
            "titan-http",
            "titan-io",
            "titan-observe",
        ],
        never: &["saphyr-parser", "serde", "serde_json"],
    },
    Arrows {
        from: "titan-store",
        to: &["titan-config", "titan-io"],
        never: &["saphyr-parser", "serde", "serde_json"],
    },
    Arrows {
        from: "titan-policies",
        to: &["titan-config", "titan-h1", "titan-http", "titan-io", "titan-store"],
        never: &["saphyr-parser"],
    },
    Arrows {
        from: "titan-observe",
        to: &["titan-config", "titan-http", "titan-io"],
        never: &["saphyr-parser"],
    },
    Arrows {
        from: "titan-otlp",
        to: &["titan-config", "titan-http", "titan-io", "titan-observe", "titan-upstream"],
        never: &["saphyr-parser"],
    },
    Arrows {
        from: "titan-sources",
        to: &["titan-config", "titan-http", "titan-io", "titan-upstream"],
        never: &["saphyr-parser"],
    },
    Arrows {
        from: "titan-proxy",
        to: &[
            "titan-config",
            "titan-h1",
            "titan-h2",
            "titan-h3",
            "titan-http",
            "titan-io",
            "titan-observe",
            "titan-otlp",
            "titan-policies",
            "titan-store",
            "titan-upstream",
        ],
        never: &["saphyr-parser"],
    },
    Arrows {
        from: "titan-admin",
        to: &[
            "titan-config",
            "titan-h1",
            "titan-http",
            "titan-io",
            "titan-observe",
            "titan-proxy",
            "titan-store",
        ],
        never: &[],
    },
    Arrows {
        from: "titan-kubernetes",
        to: &["titan-config", "titan-sources"],
        never: &["saphyr-parser"],
    },
    Arrows { from: "titan-testkit", to: &["titan-config", "titan-proxy"], never: &[] },
];

struct Arrows {
    from: &'static str,
    to: &'static [&'static str],
    never: &'static [&'static str],
}

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, text) in tree.texts(&["/Cargo.toml"]) {
        let member = file.path.strip_prefix("crates/").or_else(|| file.path.strip_prefix("xtask/"));
        if member.is_none() {
            continue;
        }
        if !text.contains("[lints]\nworkspace = true\n") {
            findings.push(Finding::file(file, "does not use the lints of the workspace"));
        }
        findings.extend(dependencies(text).filter_map(|it| fault(file, &it)));
    }
    findings
}

/// A line below a `[dependencies]` or `[dev-dependencies]` heading.
struct Dependency<'t> {
    index: usize,
    name: &'t str,
    is_inherited: bool,
    is_for_tests: bool,
}

fn dependencies(text: &str) -> impl Iterator<Item = Dependency<'_>> {
    let mut table = "";
    text.lines().enumerate().filter_map(move |(index, line)| {
        if line.starts_with('[') {
            table = line;
        }
        let name = line.split(['.', ' ', '=']).next().filter(|name| !name.is_empty())?;
        let is_entry = table.ends_with("dependencies]") && !line.starts_with(['[', '#']);
        is_entry.then(|| Dependency {
            index,
            name,
            is_inherited: line.replace(' ', "").contains("workspace=true"),
            is_for_tests: table == "[dev-dependencies]",
        })
    })
}

fn fault(file: &File, dependency: &Dependency<'_>) -> Option<Finding> {
    let Dependency { index, name, is_inherited, is_for_tests } = dependency;
    if !is_inherited {
        return Some(Finding::line(
            file,
            *index,
            format!("the version of `{name}` belongs in the root manifest"),
        ));
    }
    let from = file.path.split('/').nth(1)?;
    let arrows = ARROWS.iter().find(|arrows| arrows.from == from).filter(|_| !is_for_tests)?;
    let is_ours = name.starts_with("titan");
    let is_allowed = if is_ours { arrows.to.contains(name) } else { !arrows.never.contains(name) };
    (!is_allowed)
        .then(|| Finding::line(file, *index, format!("`{from}` must not depend on `{name}`")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINTS: &str = "[lints]\nworkspace = true\n";

    fn messages(path: &str, text: &str) -> Vec<String> {
        check(&Tree::of(&[(path, text)])).iter().map(Finding::to_string).collect()
    }

    fn with(lines: &str) -> Vec<String> {
        messages("crates/titan-h1/Cargo.toml", &format!("{lines}{LINTS}"))
    }

    #[test]
    fn arrows_go_one_way() {
        assert_eq!(
            with("[dependencies]\ntitan-http.workspace = true\nmemchr.workspace = true\n").len(),
            0
        );
        for name in ["titan-proxy", "titan-config", "tokio"] {
            let found = with(&format!("[dependencies]\n{name}.workspace = true\n"));
            assert_eq!(found.len(), 1, "{name}");
        }
        assert_eq!(with("[dev-dependencies]\ntokio = { workspace = true }\n").len(), 0);
    }

    #[test]
    fn versions_and_lints_stand_in_the_root() {
        assert!(with("[dependencies]\nmemchr = \"2\"\n")[0].contains("Cargo.toml:2: the version"));
        assert_eq!(messages("crates/a/Cargo.toml", "[package]\n").len(), 1);
        assert_eq!(messages("fuzz/Cargo.toml", "[dependencies]\na = \"1\"\n").len(), 0);
    }
}
