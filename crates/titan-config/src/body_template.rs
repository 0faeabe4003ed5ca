//! Bodies built from values of a request, and the escaping that keeps a value from being more than text.

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
    /// That of a media type; none for those in which the effect of a value is unknown.
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
        for byte in text.bytes() {
            match byte {
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
/// or a comment, where other characters have a meaning, nor in an attribute that is one of these.
pub(crate) fn stands_in_text(template: &ValueTemplate) -> bool {
    let mut reader = Markup::default();
    for piece in &template.pieces {
        let ValuePiece::Text(text) = piece else {
            if !reader.takes_value() {
                return false;
            }
            continue;
        };
        text.chars().for_each(|character| reader.read(character));
        let text = text.to_ascii_lowercase();
        if ["<script", "<style", "<!--", "<![cdata["].iter().any(|start| text.contains(start)) {
            return false;
        }
    }
    true
}

/// A reader of HTML or XML, as far as it has come.
#[derive(Default)]
struct Markup {
    place: Position,
    /// The name of the attribute, in lower case.
    name: String,
    /// What its value begins with.
    value: String,
}

/// Where in HTML or XML something stands.
#[derive(Clone, Copy, Default)]
enum Position {
    #[default]
    Text,
    /// In the name of an element.
    Element,
    /// In the name of an attribute, or behind it.
    Name { is_over: bool },
    /// Between the name and the value of an attribute.
    Equals,
    /// In a value without quotes.
    Bare,
    /// In a value in these quotes.
    Quoted(char),
}

/// Attributes whose values are URLs, which some schemes make a script of.
const URLS: [&str; 9] = [
    "href",
    "xlink:href",
    "src",
    "action",
    "formaction",
    "data",
    "poster",
    "background",
    "codebase",
];

impl Markup {
    fn read(&mut self, character: char) {
        let is_space = character.is_ascii_whitespace();
        self.place = match (self.place, character) {
            (Position::Quoted(quote), _) if character != quote => {
                self.value.push(character);
                Position::Quoted(quote)
            }
            (Position::Text, '<') => Position::Element,
            (Position::Text, _) => Position::Text,
            (Position::Quoted(_), _) => self.begin_name(),
            (_, '>') => Position::Text,
            (Position::Element, '/') => self.begin_name(),
            (Position::Element | Position::Bare, _) if is_space => self.begin_name(),
            (Position::Name { .. }, '=') if !self.name.is_empty() => Position::Equals,
            (Position::Name { .. }, _) if is_space || character == '/' => {
                Position::Name { is_over: true }
            }
            (Position::Name { is_over }, _) => {
                if is_over {
                    self.name.clear();
                }
                self.name.push(character.to_ascii_lowercase());
                Position::Name { is_over: false }
            }
            (Position::Equals, '"' | '\'') => {
                self.value.clear();
                Position::Quoted(character)
            }
            (Position::Equals, _) if !is_space => Position::Bare,
            (place, _) => place,
        };
    }

    fn begin_name(&mut self) -> Position {
        self.name.clear();
        Position::Name { is_over: false }
    }

    /// Whether a value here is no more than a value.
    fn takes_value(&self) -> bool {
        match self.place {
            Position::Text => true,
            Position::Quoted(_) => self.attribute_takes_value(),
            _ => false,
        }
    }

    fn attribute_takes_value(&self) -> bool {
        let (name, value) = (self.name.as_str(), self.value.trim().to_ascii_lowercase());
        // Scripts, styles and documents, from which browsers take the escapes away.
        if name.starts_with("on") || matches!(name, "style" | "srcdoc") {
            return false;
        }
        let is_refresh = name == "content" && value.contains("url");
        if !is_refresh && !URLS.contains(&name) {
            return true;
        }
        // Its beginning has to say already what kind of URL it is.
        let is_code = ["javascript:", "vbscript:", "data:"].iter().any(|it| value.contains(it));
        !is_code && value.contains(['/', '?', '#'])
    }
}

#[cfg(test)]
mod tests {
    use crate::gateway::Config;

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
        for held in [
            r#"<a href="/x/{id}">{id}</a>"#,
            r#"<a HREF = "https://a.example/?x={id}&y={id}">x</a>"#,
            r#"<img alt="{id}" src="/logo" title = "{id}"/>{id}"#,
            r#"<!DOCTYPE html PUBLIC "-//W3C//DTD" "http://x/"><meta name=d content="{id}"><br/><p/>{id}"#,
            r#"<?xml version="1.0"?><a b="{id}">{id}</a>"#,
            r#"<meta http-equiv=refresh content="0; url=/x/{id}">"#,
        ] {
            assert!(of("text/html", held), "{held}");
        }
        for open in [
            r#"<a href="{id}">x</a>"#,
            r#"<a class="x" HREF = " {id}">x</a>"#,
            r#"<form action="{id}">"#,
            r#"<a href="JavaScript:f(1/2, {id})">x</a>"#,
            r#"<p onclick="f(`{id}`)">"#,
            r#"<p class="{id}" style="color: {id}">"#,
            r#"<iframe srcdoc="{id}">"#,
            r#"<meta http-equiv=refresh content="0; URL={id}">"#,
            r#"<p title=it"s {id}>"#,
            r#"<p title=x=" {id}">"#,
            r#"<p =" {id}">"#,
            r#"<p title="a"{id}>"#,
            r#"<p title= {id}>"#,
            "<{id}>",
        ] {
            assert!(!of("text/html", open), "{open}");
        }
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
