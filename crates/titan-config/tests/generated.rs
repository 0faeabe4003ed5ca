//! What is generated from the sections is up to date, and is what it claims to be.

use std::path::Path;
use titan_config::{reference, schema};

#[test]
fn the_reference_in_docs_is_up_to_date() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, reference()).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    let is_same = committed == reference();
    assert!(is_same, "run UPDATE=1 cargo test -p titan-config reference, and commit {path:?}");
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
