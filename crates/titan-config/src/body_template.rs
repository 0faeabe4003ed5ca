//! Bodies that are put together of what a request brings, and how its values are kept from being more than that.

use crate::policy::{ValuePiece, ValueTemplate};

/// A body with places for what a request brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodyTemplate {
    /// The body.
    pub text: ValueTemplate,
    /// How the values are written.
    pub escaping: Escaping,
}

/// How values are written, so that each stays one value whatever is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Escaping {
    /// As they are.
    Plain,
    /// As a part of a string of JSON.
    Json,
    /// As text, or as a part of an attribute in quotes.
    Markup,
}

impl Escaping {
    /// That of a media type; none for those in which nobody knows what a value would do.
    pub(crate) fn of(content_type: &str) -> Option<Escaping> {
        let media_type = content_type.split(';').next().unwrap_or_default();
        match media_type.trim().to_ascii_lowercase().as_str() {
            "text/plain" => Some(Escaping::Plain),
            "application/json" => Some(Escaping::Json),
            json if json.starts_with("application/") && json.ends_with("+json") => {
                Some(Escaping::Json)
            }
            "text/html" | "text/xml" | "application/xml" | "application/xhtml+xml" => {
                Some(Escaping::Markup)
            }
            _ => None,
        }
    }
}

/// Whether every value stands within a string of JSON: elsewhere nothing holds it.
pub(crate) fn stands_in_strings(template: &ValueTemplate) -> bool {
    let (mut is_string, mut is_escape) = (false, false);
    for piece in &template.pieces {
        let ValuePiece::Text(text) = piece else {
            if !is_string || is_escape {
                return false;
            }
            continue;
        };
        for octet in text.bytes() {
            match octet {
                _ if is_escape => is_escape = false,
                b'\\' if is_string => is_escape = true,
                b'"' => is_string = !is_string,
                _ => {}
            }
        }
    }
    true
}

/// Whether every value stands where text or a quoted attribute does: not in a tag beside that, nor in a script, a style
/// or a comment, where other characters have a meaning.
pub(crate) fn stands_in_text(template: &ValueTemplate) -> bool {
    let mut quote = None;
    let mut is_tag = false;
    for piece in &template.pieces {
        let ValuePiece::Text(text) = piece else {
            if is_tag && quote.is_none() {
                return false;
            }
            continue;
        };
        for octet in text.bytes() {
            match (octet, quote) {
                (b'"' | b'\'', None) if is_tag => quote = Some(octet),
                (_, Some(open)) if octet == open => quote = None,
                (b'<', None) => is_tag = true,
                (b'>', None) => is_tag = false,
                _ => {}
            }
        }
        let text = text.to_ascii_lowercase();
        if ["<script", "<style", "<!--", "<![cdata["].iter().any(|start| text.contains(start)) {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use crate::Config;

    fn is_taken(route: &str) -> bool {
        let text = format!("listeners: [':80']\nroutes:\n  - {{ path: '/{{id}}', {route} }}");
        Config::parse("titan.yaml", &text).is_ok()
    }

    #[test]
    fn values_stand_only_where_something_holds_them() {
        let of = |media_type: &str, template: &str| {
            is_taken(&format!("respond: {{ content_type: {media_type}, template: '{template}' }}"))
        };
        assert!(of("application/json", r#"{{"a{{":"\\{id}", "{id}":[1]}}"#));
        assert!(of("application/problem+json; charset=utf-8", r#"{{"a":"{id}"}}"#));
        assert!(!of("application/json", r#"{{"a":{id}}}"#));
        assert!(!of("application/json", r#"{{"a":"\{id}"}}"#));
        assert!(of("text/html", r#"<p class="{id}">{id}</p>"#));
        assert!(!of("text/html", "<p class={id}>x</p>"));
        assert!(!of("text/html", "<script>let a = 1</script>{id}"));
        assert!(!of("text/html", "<!-- {id} -->"));
        assert!(of("text/plain", "{id}") && !of("text/css", "{id}"));
    }

    #[test]
    fn a_template_names_what_there_is() {
        assert!(is_taken("respond: { template: '{id} {client} {header:x-a}' }"));
        for route in [
            "respond: { template: '{other}' }",
            "respond: { template: '{claim:sub}' }",
            "respond: { template: 'a', body: b }",
            "respond: { template: 'a', status: 204 }",
            "respond: { template: '{' }",
        ] {
            assert!(!is_taken(route), "{route}");
        }
    }
}
