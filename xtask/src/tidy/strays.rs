//! What is neither source nor manifest stands in a list, with the reason it is here.
//!
//! So a report, a profile or a dump of results does not stay by accident.

use super::Finding;
use crate::tree::Tree;

/// Source and manifests: welcome anywhere.
const SOURCES: &[&str] = &[
    ".rs",
    ".go",
    ".ts",
    ".tsx",
    ".s",
    ".sh",
    ".toml",
    "Cargo.lock",
    "go.mod",
    "go.sum",
    "go.work",
    ".gitignore",
];

/// Everything else: a path, in which a `*` stands for one name or a part of it, and why it is here.
const LISTED: &[(&str, &str)] = &[
    ("README.md", "the first page"),
    ("ARCHITECTURE.md", "where to find what, and why it is so"),
    ("CONTRIBUTING.md", "how to change it"),
    ("SECURITY.md", "the threat model, and how to report"),
    ("CHANGELOG.md", "what users notice of each version"),
    ("LICENSE", "the terms"),
    ("Makefile", "the index of commands"),
    (".ci/run", "what continuous integration calls"),
    ("docs/configuration.md", "generated from the field docs"),
    ("docs/access-log.schema.json", "generated from the fields of access logs"),
    ("docs/operations.md", "how to run it"),
    ("docs/sizing.md", "how many gateways, of what size"),
    ("docs/sources.md", "where more of the configuration can come from"),
    ("docs/kubernetes.md", "how to run it in a cluster"),
    ("docs/http3.md", "how to run HTTP/3, and what differs from TCP"),
    ("docs/decisions/*.md", "a page for each decision"),
    ("docs/monitoring/*.yml", "alerts for Prometheus, and when each of them fires"),
    ("docs/monitoring/grafana.json", "a dashboard, whose queries a test runs"),
    ("packaging/Dockerfile", "the container"),
    ("packaging/Dockerfile.dockerignore", "what the container is not built from"),
    ("packaging/titan.service", "the systemd unit"),
    ("packaging/helm/titan/*", "the Helm chart: what it is, its values and which there may be"),
    ("packaging/helm/titan/crds/*", "the definitions of our own objects, for Helm and kubectl"),
    ("packaging/helm/titan/templates/*", "the Helm chart: the objects that it makes"),
    ("shockwave/README.md", "what Shockwave is, for those who write services on it"),
    ("conformance/*/README.md", "the format of the vectors, and how to run what has none"),
    ("conformance/*/*.json", "vectors that both engines must judge alike, and their schema"),
    ("conformance/kubernetes/suite/options.yaml", "what Titan declares to Gateway API's suite"),
    ("xtask/src/tidy/changelog/first.txt", "what the first entries of the changelog sum up"),
    (
        "crates/titan-admin/openapi.json",
        "the admin interface, for programs: a test holds it to what is served",
    ),
    ("crates/*/src/snapshots/*.snap", "what texts for people look like"),
    ("crates/*/src/*/snapshots/*.snap", "what texts for people look like"),
    ("crates/*/src/*/*/snapshots/*.snap", "what texts for people look like"),
    ("crates/*/tests/snapshots/*.snap", "what texts for people look like"),
    ("crates/*/proptest-regressions/*.txt", "inputs that once failed"),
    ("crates/titan/tests/peers/*/*.py", "programs for peers that are Python libraries"),
    ("dashboard/package.json", "what the page is built with"),
    ("dashboard/package-lock.json", "the same, to the byte"),
    ("dashboard/tsconfig.json", "how its types are checked"),
    ("dashboard/*.mjs", "how it is built and checked"),
    ("dashboard/src/index.html", "what the page begins with"),
    ("dashboard/src/icon.svg", "its icon"),
    ("dashboard/src/*.css", "how it looks"),
    ("dashboard/dist/index.html", "built: embedded into the gateway"),
    ("dashboard/dist/app.js", "built: embedded into the gateway"),
    ("dashboard/dist/app.css", "built: embedded into the gateway"),
    ("dashboard/dist/icon.svg", "built: embedded into the gateway"),
    ("bench/README.md", "how to measure, and what the figures mean"),
    ("bench/chaos.md", "what is broken, how, and what the figures mean"),
    ("bench/validate.md", "how to run everything that says how good it is, and how to read it"),
    ("bench/engines/src/bin/bench/*.py", "what a program is started through"),
    ("bench/definitions/*.conf", "the peers as they are measured"),
    ("bench/definitions/*.cfg", "the peers as they are measured"),
    ("bench/definitions/*.yaml", "Titan as it is measured"),
    ("bench/results/*.csv", "results, named by date and machine"),
    ("bench/results/*.svg", "the same as a chart"),
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = strays(tree);
    findings.extend(stale(tree));
    findings
}

fn strays(tree: &Tree) -> Vec<Finding> {
    let is_source = |path: &str| SOURCES.iter().any(|end| path.ends_with(end));
    let is_listed = |path: &str| LISTED.iter().any(|(pattern, _)| matches(pattern, path));
    let strays = tree.files.iter().filter(|file| !is_source(&file.path) && !is_listed(&file.path));
    let message = "stray: list it with a reason in xtask/src/tidy/strays.rs, or remove it";
    strays.map(|file| Finding::file(file, message)).collect()
}

/// An entry whose one file is gone. Only where the list itself is part of the tree.
fn stale(tree: &Tree) -> Vec<Finding> {
    let Some(list) = tree.file("xtask/src/tidy/strays.rs") else { return Vec::new() };
    let paths = LISTED.iter().map(|(pattern, _)| pattern).filter(|pattern| !pattern.contains('*'));
    let gone = paths.filter(|path| tree.file(path).is_none());
    gone.map(|path| Finding::file(list, format!("lists `{path}`, which is gone"))).collect()
}

/// Whether `path` is what `pattern` describes, name by name.
fn matches(pattern: &str, path: &str) -> bool {
    let (patterns, names) = (pattern.split('/'), path.split('/'));
    patterns.clone().count() == names.clone().count()
        && patterns.zip(names).all(|(pattern, name)| match pattern.split_once('*') {
            None => pattern == name,
            Some((start, end)) => {
                name.len() > start.len() + end.len()
                    && name.starts_with(start)
                    && name.ends_with(end)
            }
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_listed_is_a_stray() {
        let strays = |path| check(&Tree::of(&[(path, "")])).len();
        for path in ["README.md", "crates/a/src/lib.rs", "docs/decisions/0001-a.md", "a/go.mod"] {
            assert_eq!(strays(path), 0, "{path}");
        }
        for path in [
            "REPORT.md",
            "crates/a/README.md",
            "docs/decisions/a/b.md",
            "docs/decisions/.md",
            "profile.svg",
            "out.json",
            "bench/results/a.png",
            "perf.data",
        ] {
            assert_eq!(strays(path), 1, "{path}");
        }
    }

    #[test]
    fn an_entry_goes_with_its_file() {
        let tree = Tree::of(&[("xtask/src/tidy/strays.rs", ""), ("README.md", "")]);
        let stale = check(&tree);
        assert!(stale.iter().any(|finding| finding.message.contains("`LICENSE`")));
        assert!(!stale.iter().any(|finding| finding.message.contains("`README.md`")));
    }
}
