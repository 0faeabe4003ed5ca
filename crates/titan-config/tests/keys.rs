//! Messages name keys of the file: each of them exists.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use titan_config::schema;

/// By each key of the file those that may stand directly under it.
fn keys() -> BTreeMap<String, BTreeSet<String>> {
    let root: Value = serde_json::from_str(&schema()).expect("the schema is JSON");
    let mut keys = BTreeMap::new();
    collect(&root, &root, &mut keys);
    keys
}

fn collect(part: &Value, root: &Value, keys: &mut BTreeMap<String, BTreeSet<String>>) {
    match part {
        Value::Object(members) => {
            for (name, shape) in part["properties"].as_object().into_iter().flatten() {
                let under = keys.entry(name.clone()).or_default();
                properties(shape, root, 0, under);
            }
            members.values().for_each(|it| collect(it, root, keys));
        }
        Value::Array(items) => items.iter().for_each(|it| collect(it, root, keys)),
        _ => {}
    }
}

/// The names of what a value of that shape may have.
fn properties(shape: &Value, root: &Value, depth: usize, to: &mut BTreeSet<String>) {
    if depth > 8 {
        return;
    }
    if let Some(named) = shape["$ref"].as_str() {
        let place = named.trim_start_matches('#');
        properties(root.pointer(place).expect("the schema has what it names"), root, depth + 1, to);
    }
    to.extend(shape["properties"].as_object().into_iter().flatten().map(|(name, _)| name.clone()));
    for key in ["anyOf", "oneOf", "allOf"] {
        let all = shape[key].as_array().into_iter().flatten();
        all.for_each(|it| properties(it, root, depth + 1, to));
    }
    for key in ["items", "additionalProperties"] {
        properties(&shape[key], root, depth + 1, to);
    }
}

/// What stands between backticks or quotes in the code of a file, outside of comments, and looks like a path of keys.
fn paths_in(code: &str) -> Vec<Vec<String>> {
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let quoted = lines.flat_map(|line| {
        ['`', '"'].into_iter().flat_map(move |sign| line.split(sign).skip(1).step_by(2))
    });
    let is_key = |part: &str| {
        !part.is_empty() && part.bytes().all(|it| it.is_ascii_lowercase() || it == b'_')
    };
    let path = |text: &str| {
        let parts = text.split('.').map(|part| part.trim_end_matches("[]").to_owned());
        let parts: Vec<_> = parts.filter(|part| part != "*").collect();
        (parts.len() > 1 && parts.iter().all(|part| is_key(part))).then_some(parts)
    };
    quoted.filter_map(path).collect()
}

fn sources(folder: &Path, to: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).expect("the sources are here") {
        let path = entry.expect("the sources are here").path();
        match path.is_dir() {
            true => sources(&path, to),
            false => to.push(std::fs::read_to_string(path).expect("a source is text")),
        }
    }
}

#[test]
fn every_key_that_a_message_names_exists() {
    let keys = keys();
    let mut code = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut code);
    let named: BTreeSet<_> = code.iter().flat_map(|code| paths_in(code)).collect();
    // What rules look at, hosts, files and attributes of telemetry are no keys.
    let others = [
        "request",
        "claims",
        "client",
        "certificate",
        "deployment",
        "service",
        "com",
        "example",
        "internal",
        "html",
        "log",
        "yaml",
    ];
    let is_other = |part: &String| others.contains(&part.as_str());
    let named = named
        .iter()
        .filter(|path| !path.first().is_some_and(is_other) && !path.last().is_some_and(is_other));
    let wrong: Vec<_> = named
        .clone()
        .filter(|path| {
            path.windows(2).any(|pair| !keys.get(&pair[0]).is_some_and(|it| it.contains(&pair[1])))
        })
        .collect();
    assert!(wrong.is_empty(), "no keys: {wrong:?}");
    assert!(named.count() > 5, "the messages name some");
}
