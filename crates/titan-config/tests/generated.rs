//! What is generated from the sections is up to date, and is what it claims to be.

use std::path::Path;
use titan_config::{access_log_schema, reference, schema};

#[test]
fn the_reference_in_docs_is_up_to_date() {
    is_up_to_date("configuration.md", &reference());
    is_up_to_date("access-log.schema.json", &access_log_schema());
}

fn is_up_to_date(name: &str, generated: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, generated).expect("docs can be written");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    let is_same = committed == generated;
    assert!(is_same, "run UPDATE=1 cargo test -p titan-config reference, and commit {path:?}");
}

/// Every list of the schema stands beside what one item of it alone may be, but where the same section has it under
/// a key of its own.
#[test]
fn one_item_can_stand_for_a_list_everywhere() {
    let schema: serde_json::Value = serde_json::from_str(&schema()).unwrap();
    let mut lists = 0;
    check_lists(&schema, &[], &mut lists);
    assert!(lists > 40, "{lists}");
}

/// Checks the lists in a part of the schema that stands beside these alternatives.
fn check_lists(part: &serde_json::Value, beside: &[serde_json::Value], lists: &mut usize) {
    if let Some(item) = part.get("items") {
        *lists += 1;
        let items = item["anyOf"].as_array().cloned().unwrap_or_else(|| vec![item.clone()]);
        let is_there = items.iter().all(|item| beside.contains(item));
        assert!(is_there, "a list of {item} takes no item alone");
    }
    match part {
        serde_json::Value::Object(members) => {
            for (name, member) in members {
                match member.as_array().filter(|_| name == "anyOf") {
                    Some(all) => all.iter().for_each(|one| check_lists(one, all, lists)),
                    None => check_lists(member, &[], lists),
                }
            }
        }
        serde_json::Value::Array(parts) => {
            parts.iter().for_each(|part| check_lists(part, &[], lists));
        }
        _ => {}
    }
}

#[test]
fn the_schema_is_json_and_its_references_resolve() {
    let text = schema();
    let schema: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    for reference in text.split("\"#/$defs/").skip(1) {
        let name = reference.split('"').next().unwrap();
        assert!(schema["$defs"][name].is_object(), "{name}");
    }
    let required = &schema["$defs"]["endpoint"]["required"];
    assert_eq!(*required, serde_json::json!(["address"]));
    assert_eq!(schema["$defs"]["timeouts"]["additionalProperties"], false);
    assert_eq!(schema["$defs"]["redirect"]["properties"]["status"]["enum"][0], 301);
}
