//! What is depended on, held to deny.toml: licences, versions that stand twice, and where packages come from.
//!
//! cargo-deny reads the same file and looks for advisories besides (`make audit`). It takes minutes to build, and its
//! database is not everywhere at hand; this takes a second and what cargo has downloaded anyway.

mod license;

use crate::tree::Tree;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

const RULES: &str = "deny.toml";
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Checks the packages of every workspace; the error lists all that breaks a rule.
pub(crate) fn check(root: &Path) -> Result<(), String> {
    let tree =
        Tree::read(root).map_err(|error| format!("cannot read {}: {error}", root.display()))?;
    let text = tree.file(RULES).and_then(|file| file.text.as_deref());
    let rules = Rules::parse(text.ok_or_else(|| format!("{RULES} is missing"))?);
    let mut packages = BTreeSet::new();
    let mut findings = Vec::new();
    for manifest in workspaces(&tree) {
        let these = packages_of(&root.join(manifest))?;
        findings
            .extend(rules.faults(&these).into_iter().map(|fault| format!("{manifest}: {fault}")));
        packages.extend(these);
    }
    findings.extend(rules.idle(&packages).map(|it| format!("{RULES}: no dependency matches {it}")));
    if findings.is_empty() { Ok(()) } else { Err(findings.join("\n")) }
}

/// The manifests with a lock file of their own beside them.
fn workspaces(tree: &Tree) -> impl Iterator<Item = &str> {
    let manifests = tree.texts(&["Cargo.toml"]).map(|(file, _)| file.path.as_str());
    manifests.filter(|path| tree.has(&path.replace("Cargo.toml", "Cargo.lock")))
}

/// A package, as far as there is a rule for it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
    /// `None` for those of this repository.
    source: Option<String>,
}

/// What cargo resolves for this machine's platform: what others need in other places is not built.
fn packages_of(manifest: &Path) -> Result<BTreeSet<Package>, String> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--format-version=1", "--locked", "--filter-platform", &host()?]);
    let document = output(cargo.arg("--manifest-path").arg(manifest))?;
    let document: Value = serde_json::from_str(&document)
        .map_err(|error| format!("cargo metadata is not JSON: {error}"))?;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let package = |package: &Value| {
        Some(Package {
            name: text(&package["name"])?,
            version: text(&package["version"])?,
            license: text(&package["license"]),
            source: text(&package["source"]),
        })
    };
    let packages = document["packages"].as_array().into_iter().flatten();
    packages.map(|it| package(it).ok_or_else(|| format!("not a package: {it}"))).collect()
}

fn host() -> Result<String, String> {
    let version = output(Command::new("rustc").arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.ok_or("rustc does not say which platform this is")?.to_owned())
}

fn output(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("cannot run {command:?}: {error}"))?;
    if !output.status.success() {
        return Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// What deny.toml says of that which is looked at here.
#[derive(Debug)]
struct Rules {
    licenses: Vec<String>,
    skipped: Vec<Skipped>,
}

/// The first text in quotes of each line of a list.
fn list<'t>(text: &'t str, key: &str) -> impl Iterator<Item = String> + use<'t> {
    let start = text.find(&format!("\n{key}")).map_or(text.len(), |at| at + 1);
    let lines = text[start..].lines().skip(1).take_while(|line| !line.starts_with(']'));
    lines.filter_map(|line| line.trim().split('"').nth(1)).map(str::to_owned)
}

/// A version that may stand beside another one of the same package.
#[derive(Debug)]
struct Skipped {
    name: String,
    version: String,
}

impl Rules {
    /// Takes the two lists out of the file, in the form that they have there: an entry a line.
    fn parse(text: &str) -> Rules {
        let skipped = list(text, "skip = [").filter_map(|it| {
            let (name, version) = it.split_once('@')?;
            Some(Skipped { name: name.to_owned(), version: version.to_owned() })
        });
        Rules { licenses: list(text, "allow = [").collect(), skipped: skipped.collect() }
    }

    fn faults(&self, packages: &BTreeSet<Package>) -> Vec<String> {
        let mut faults = Vec::new();
        let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for Package { name, version, license, source } in packages {
            let license = license.as_deref().unwrap_or_default();
            if !license::is_allowed(license, &self.licenses) {
                faults.push(format!(
                    "{name} {version}: the licence `{license}` is not allowed by {RULES}"
                ));
            }
            if let Some(source) = source.as_deref().filter(|source| *source != REGISTRY) {
                faults.push(format!("{name} {version}: comes from {source}, not from crates.io"));
            }
            if !self.skipped.iter().any(|it| it.is(name, version)) {
                versions.entry(name).or_default().push(version);
            }
        }
        let twice = versions.iter().filter(|(_, versions)| versions.len() > 1);
        faults.extend(twice.map(|(name, versions)| {
            format!(
                "{name}: has several versions, {}; `cargo tree -i {name}@VERSION` shows why",
                versions.join(" and ")
            )
        }));
        faults
    }

    /// What is allowed to stand twice and does not.
    fn idle(&self, packages: &BTreeSet<Package>) -> impl Iterator<Item = String> {
        let is_there =
            |skipped: &Skipped| packages.iter().any(|it| skipped.is(&it.name, &it.version));
        let idle = self.skipped.iter().filter(move |it| !is_there(it));
        idle.map(|it| format!("{}@{}", it.name, it.version))
    }
}

impl Skipped {
    /// Whether the version is this one or begins with it: `0.22` is each of 0.22.
    fn is(&self, name: &str, version: &str) -> bool {
        let rest = version.strip_prefix(&self.version).filter(|_| name == self.name);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
[licenses]
allow = [
    \"MIT\",
    \"ISC\", # a reason
]
[bans]
skip = [
    { crate = \"a@0.1\", reason = \"b has it\" },
]
";

    fn package(name: &str, version: &str, license: &str) -> Package {
        let source = Some(REGISTRY.to_owned());
        Package {
            name: name.to_owned(),
            version: version.to_owned(),
            license: Some(license.to_owned()),
            source,
        }
    }

    fn faults(packages: &[Package]) -> Vec<String> {
        Rules::parse(TEXT).faults(&packages.iter().cloned().collect())
    }

    #[test]
    fn a_licence_is_one_of_the_list() {
        assert_eq!(
            faults(&[package("a", "1.0.0", "MIT"), package("b", "1.0.0", "ISC OR GPL-3.0")]),
            [""; 0]
        );
        let none = Package { license: None, ..package("a", "1.0.0", "") };
        for (package, license) in [(package("a", "1.0.0", "GPL-3.0"), "GPL-3.0"), (none, "")] {
            assert_eq!(
                faults(&[package]),
                [format!("a 1.0.0: the licence `{license}` is not allowed by deny.toml")]
            );
        }
    }

    #[test]
    fn a_package_stands_there_once() {
        let twice = |one: &str, other: &str| {
            faults(&[package("a", one, "MIT"), package("a", other, "MIT")]).len()
        };
        assert_eq!(twice("0.1.7", "0.2.0"), 0);
        assert_eq!(twice("0.2.0", "0.11.0"), 1);
        assert_eq!(twice("0.2.0", "1.0.0"), 1);
    }

    #[test]
    fn packages_come_from_crates_io() {
        let source = Some("git+https://forge.example/a".to_owned());
        let found = faults(&[Package { source, ..package("a", "1.0.0", "MIT") }]);
        assert_eq!(found, ["a 1.0.0: comes from git+https://forge.example/a, not from crates.io"]);
        let own = Package { source: None, ..package("a", "1.0.0", "MIT") };
        assert_eq!(faults(&[own]), [""; 0]);
    }

    #[test]
    fn an_exception_goes_with_its_reason() {
        let rules = Rules::parse(TEXT);
        let of = |version: &str| BTreeSet::from([package("a", version, "MIT")]);
        assert_eq!(rules.idle(&of("0.1.0")).count(), 0);
        assert_eq!(rules.idle(&of("0.11.0")).collect::<Vec<_>>(), ["a@0.1"]);
    }
}
