//! Conformance vectors: every id once, and every file in the README beside it.

use super::Finding;
use crate::tree::{File, Tree};
use serde_json::Value;
use std::collections::HashMap;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut seen = HashMap::new();
    for (file, text) in tree.texts(&[".json"]) {
        let Some((folder, name)) = file.path.rsplit_once('/') else { continue };
        if !folder.starts_with("conformance/") {
            continue;
        }
        let readme =
            tree.file(&format!("{folder}/README.md")).and_then(|file| file.text.as_deref());
        if !readme.is_some_and(|readme| readme.contains(name)) {
            findings.push(Finding::file(file, format!("is not listed in {folder}/README.md")));
        }
        if name != "schema.json" {
            findings.extend(ids(file, text, &mut seen));
        }
    }
    findings
}

fn ids(file: &File, text: &str, seen: &mut HashMap<String, String>) -> Vec<Finding> {
    let document: Value = match serde_json::from_str(text) {
        Ok(document) => document,
        Err(error) => return vec![Finding::file(file, format!("is not JSON: {error}"))],
    };
    let Some(vectors) = document["vectors"].as_array().filter(|vectors| !vectors.is_empty()) else {
        return vec![Finding::file(file, "contains no vectors")];
    };
    let mut findings = Vec::new();
    for (index, vector) in vectors.iter().enumerate() {
        let Some(id) = vector["id"].as_str() else {
            findings.push(Finding::file(file, format!("vector {} has no id", index + 1)));
            continue;
        };
        if let Some(first) = seen.insert(id.to_owned(), file.path.clone()) {
            findings.push(Finding::file(file, format!("the id `{id}` is already in {first}")));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const README: (&str, &str) = ("conformance/http1/README.md", "a.json b.json schema.json");

    fn messages(files: &[(&str, &str)]) -> Vec<String> {
        check(&Tree::of(files)).into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn an_id_is_unique_over_all_files() {
        let one = r#"{"vectors": [{"id": "x"}]}"#;
        let (a, b) = ("conformance/http1/a.json", "conformance/http1/b.json");
        assert_eq!(messages(&[README, (a, one)]), [""; 0]);
        assert_eq!(
            messages(&[README, (a, one), (b, one)]),
            ["the id `x` is already in conformance/http1/a.json"]
        );
        for text in ["{", "{}", r#"{"vectors": []}"#, r#"{"vectors": [{}]}"#] {
            assert_eq!(messages(&[README, (a, text)]).len(), 1, "{text}");
        }
    }

    #[test]
    fn every_file_is_listed() {
        let found =
            messages(&[README, ("conformance/http1/c.json", r#"{"vectors": [{"id": "x"}]}"#)]);
        assert_eq!(found, ["is not listed in conformance/http1/README.md"]);
        assert_eq!(messages(&[README, ("conformance/http1/schema.json", "{}")]), [""; 0]);
    }
}
