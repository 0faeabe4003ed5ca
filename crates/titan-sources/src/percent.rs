//! Values in the query of a URL.

/// The same, so that it can stand there (RFC 3986 section 2.1).
pub(crate) fn encoded(text: &str) -> String {
    let one = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'.' | b'-' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_queries_are_encoded() {
        assert_eq!(encoded(r#"{"a":["b-c"]}"#), "%7B%22a%22%3A%5B%22b-c%22%5D%7D");
        assert_eq!(encoded("a b&c=ä"), "a%20b%26c%3D%C3%A4");
    }
}
