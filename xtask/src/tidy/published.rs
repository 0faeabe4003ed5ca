//! The names that things would be published under stand once, in the root manifest; manifests and imports agree.

use super::Finding;
use crate::tree::{File, Tree};

const ROOT: &str = "Cargo.toml";
const HEADING: &str = "[workspace.metadata.published]";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(root) = tree.file(ROOT) else { return Vec::new() };
    let Some(names) = Names::of(root) else {
        return vec![Finding::file(root, format!("has no {HEADING}"))];
    };
    let mut findings = crates(tree, root, &names);
    findings.extend(go(tree, &names));
    findings
}

struct Names<'t> {
    crates: Vec<&'t str>,
    go: &'t str,
}

impl<'t> Names<'t> {
    /// As the root manifest has them: texts in the lines of the table that begin with the key.
    fn of(root: &'t File) -> Option<Names<'t>> {
        let (_, table) = root.text.as_deref()?.split_once(HEADING)?;
        let table = table.split("\n[").next().unwrap_or_default();
        let line = |key: &str| table.lines().find(|line| line.starts_with(key)).unwrap_or_default();
        let texts = |line: &'t str| line.split('"').skip(1).step_by(2);
        let go = texts(line("go = ")).next().unwrap_or_default();
        Some(Names { crates: texts(line("crates = ")).collect(), go })
    }
}

/// Each crate of the list is there, and needs no crate of this repository that is not in it.
fn crates(tree: &Tree, root: &File, names: &Names<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for name in &names.crates {
        let manifest = tree.file(&format!("crates/{name}/Cargo.toml"));
        let text = manifest.and_then(|file| file.text.as_deref()).unwrap_or_default();
        let Some(manifest) = manifest.filter(|_| text.contains(&format!("\nname = \"{name}\"\n")))
        else {
            findings.push(Finding::file(
                root,
                format!("publishes `{name}`, but crates/{name} is not a crate with that name"),
            ));
            continue;
        };
        let dependencies = text.split("\n[dependencies]\n").nth(1).unwrap_or_default();
        let dependencies = dependencies.split("\n[").next().unwrap_or_default();
        let own = dependencies.lines().filter_map(|line| line.split(['.', ' ']).next());
        let missing = own.filter(|it| it.starts_with("titan-") && !names.crates.contains(it));
        findings.extend(missing.map(|it| {
            Finding::file(
                manifest,
                format!("is published and needs `{it}`, which is not published: see {ROOT}"),
            )
        }));
    }
    findings
}

/// Imports and requirements of the module, whatever they take for its host, have its path.
fn go(tree: &Tree, names: &Names<'_>) -> Vec<Finding> {
    let Some((_, module)) = names.go.rsplit_once('/') else { return Vec::new() };
    let mut findings = Vec::new();
    for (file, text) in tree.texts(&[".go", "/go.mod"]) {
        for (index, line) in text.lines().enumerate() {
            let paths = line.split(['"', ' ', '\t']).filter(|word| is_path_of(word, module));
            let wrong = paths.filter(|path| !path.starts_with(names.go));
            findings.extend(wrong.map(|path| {
                Finding::line(
                    file,
                    index,
                    format!("`{path}` is not `{}`, as {ROOT} publishes it", names.go),
                )
            }));
        }
    }
    findings
}

/// Whether `word` is an import path: a host, and the module as the next part.
fn is_path_of(word: &str, module: &str) -> bool {
    let mut parts = word.split('/');
    parts.next().is_some_and(|host| !host.starts_with('.') && host.contains('.'))
        && parts.any(|part| part == module)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
[workspace]
[workspace.metadata.published]
crates = [\"titan\", \"titan-h1\"]
go = \"a.example/shockwave\"
[profile.dev]
";
    const TITAN: &str =
        "[package]\nname = \"titan\"\n\n[dependencies]\ntitan-h1.workspace = true\n";
    const H1: &str = "[package]\nname = \"titan-h1\"\n";

    fn messages(titan: &str, h1: &str, go: &str) -> Vec<String> {
        let files = [
            (ROOT, TABLE),
            ("crates/titan/Cargo.toml", titan),
            ("crates/titan-h1/Cargo.toml", h1),
            ("shockwave/a.go", go),
        ];
        check(&Tree::of(&files)).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn crates_have_the_names_of_the_table() {
        assert_eq!(messages(TITAN, H1, ""), [""; 0]);
        assert_eq!(
            messages(TITAN, &H1.replace("titan-h1", "titan-http1"), ""),
            ["Cargo.toml: publishes `titan-h1`, but crates/titan-h1 is not a crate with that name"]
        );
        assert_eq!(
            messages(&TITAN.replace("titan-h1", "titan-h2"), H1, ""),
            [
                "crates/titan/Cargo.toml: is published and needs `titan-h2`, which is not published: see Cargo.toml"
            ]
        );
    }

    #[test]
    fn imports_have_the_path_of_the_table() {
        for good in [
            "import \"a.example/shockwave/parse\"",
            "module a.example/shockwave",
            "\"../shockwave\"",
            "\"b.example/other\"",
        ] {
            assert_eq!(messages(TITAN, H1, good), [""; 0], "{good}");
        }
        for bad in ["import \"b.example/shockwave/parse\"", "\tb.example/x/shockwave v0.0.0"] {
            assert_eq!(messages(TITAN, H1, bad).len(), 1, "{bad}");
        }
    }
}
