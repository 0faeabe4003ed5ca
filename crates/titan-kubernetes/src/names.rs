//! Names in Titan's configuration, made from those of objects.

use aws_lc_rs::digest::{SHA256, digest};

/// Bytes of a name.
const MAX: usize = 64;
/// Bytes of it that are kept where it is too long: the rest tells it from all others.
const KEPT: usize = MAX - 1 - 2 * UNIQUE;
/// Bytes of a digest that tell one from all others.
const UNIQUE: usize = 16;

/// The parts, with dots between them. Namespaces have no dots, so that the first part of a name says whose it is.
pub(crate) fn joined(parts: &[&str]) -> String {
    let name = parts.join(".");
    if name.len() <= MAX {
        return name;
    }
    // Names of objects are ASCII.
    let kept: String = name.chars().take(KEPT).collect();
    format!("{kept}-{}", &hash(name.as_bytes())[..2 * UNIQUE])
}

/// SHA-256, in hexadecimal digits.
pub(crate) fn hash(bytes: &[u8]) -> String {
    digest(&SHA256, bytes).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A value of which braces are no variables.
pub(crate) fn without_variables(text: &str) -> String {
    text.replace('{', "{{").replace('}', "}}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_stay_apart() {
        assert_eq!(joined(&["shop", "front", "80"]), "shop.front.80");
        let long = "x".repeat(200);
        let [one, other] = ["80", "81"].map(|port| joined(&["shop", &long, port]));
        assert_ne!(one, other);
        assert_eq!(one.len(), MAX);
        assert!(one.starts_with("shop.xx"), "{one}");
    }

    #[test]
    fn braces_are_no_variables() {
        assert_eq!(without_variables("a{b}"), "a{{b}}");
    }
}
