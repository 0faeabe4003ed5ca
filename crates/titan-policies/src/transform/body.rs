//! Bodies built from values of a request.

use super::value::{Piece, RequestParts, Target};
use crate::transform::BAD_TRANSFORM;
use std::fmt::Write;
use titan_config::{BodyTemplate, Escaping, Route};
use titan_http::RequestHead;
use titan_io::error::Error;

/// A body, ready to be put together.
pub struct Body {
    pieces: Box<[Piece]>,
    escaping: Escaping,
}

/// The most bytes that a body may have that is put together.
const MAX_BODY: usize = 256 << 10;

impl Body {
    /// The body of that route's responses.
    pub fn new(template: &BodyTemplate, route: &Route) -> Body {
        let pieces = template.text.pieces.iter().map(|piece| Piece::new(piece, Some(route)));
        Body { pieces: pieces.collect(), escaping: template.escaping }
    }

    /// The body for that request. Whatever its values have in them, each is one value.
    pub fn make(&self, request: &RequestHead, seen: &RequestParts<'_>) -> Result<Vec<u8>, Error> {
        let (mut out, mut value) = (String::new(), Vec::new());
        for piece in &self.pieces {
            value.clear();
            piece.write(request, seen, Target::Field, &mut value);
            let text = String::from_utf8_lossy(&value);
            match piece {
                Piece::Text(_) => out.push_str(&text),
                _ => write_escaped(self.escaping, &text, &mut out),
            }
            if out.len() > MAX_BODY {
                return Err(BAD_TRANSFORM.into());
            }
        }
        Ok(out.into_bytes())
    }
}

fn write_escaped(escaping: Escaping, value: &str, out: &mut String) {
    for character in value.chars() {
        match (escaping, character) {
            (Escaping::Plain, plain) => out.push(plain),
            (Escaping::Json, '"' | '\\') => out.extend(['\\', character]),
            // The last ones too: the text may end up in a script.
            (
                Escaping::Json,
                '\0'..='\u{1f}' | '\u{7f}' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}',
            ) => {
                let _ = write!(out, "\\u{:04x}", u32::from(character));
            }
            (Escaping::Markup, '<' | '>' | '&' | '"' | '\'' | '`' | '=') => {
                let _ = write!(out, "&#{};", u32::from(character));
            }
            (_, other) => out.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_value_leaves_its_string(value in ".*") {
            let mut out = String::from("{\"a\":\"");
            write_escaped(Escaping::Json, &value, &mut out);
            out.push_str("\"}");
            let read: serde_json::Value = serde_json::from_str(&out).unwrap();
            prop_assert_eq!(read, serde_json::json!({ "a": value }));
        }

        #[test]
        fn no_value_opens_a_tag(value in ".*") {
            let mut out = String::new();
            write_escaped(Escaping::Markup, &value, &mut out);
            prop_assert!(!out.contains(['<', '>', '"', '\'', '`', '=']));
        }
    }
}
