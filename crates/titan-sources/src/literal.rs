//! Documents of values that somebody else has chosen.

use serde_json::Value;

/// A document of these values. What they say is literal: nobody who may write an object or a label reads variables or files of this
/// machine.
pub fn document(mut values: Value) -> String {
    make_literal(&mut values);
    values.to_string()
}

fn make_literal(value: &mut Value) {
    match value {
        Value::String(text) if text.contains("${") => *text = text.replace("${", "$${"),
        Value::Array(items) => items.iter_mut().for_each(make_literal),
        Value::Object(members) => members.values_mut().for_each(make_literal),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nothing_in_a_document_is_a_variable() {
        let text =
            document(json!({ "a": ["${file:/etc/shadow}", { "b": "x${HOME}$${" }], "c": "$1" }));
        assert_eq!(text, r#"{"a":["$${file:/etc/shadow}",{"b":"x$${HOME}$$${"}],"c":"$1"}"#);
    }
}
