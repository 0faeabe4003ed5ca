//! The tree of a file: what was written, and where. Nothing is interpreted yet; strings are as written.

use crate::location::Span;

/// A value of the file.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// A text as a whole; of a mapping or list the first line that belongs to it.
    pub(crate) span: Span,
    pub(crate) kind: Kind,
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// Nothing, `~` or `null`.
    Null,
    Text(Text),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

#[derive(Clone, Debug)]
pub(crate) struct Text {
    pub(crate) text: String,
    /// Quotes make a text of `true` and `1`, where without them it depends on what is expected.
    pub(crate) quoted: bool,
}

/// A key of a mapping with its value. No key stands twice in the same mapping.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_span: Span,
    pub(crate) value: Node,
}

impl Node {
    /// The value that `text` stands for as the default of a field: a text, `{}`, `[]` or a list of texts.
    pub(crate) fn of_default(text: &str) -> Node {
        let is_nested = text.len() > 2 && text.starts_with('{') || text.starts_with("[[");
        assert!(!is_nested, "a default is a text, `{{}}`, `[]` or a list of texts: {text}");
        let kind = match text {
            "{}" => Kind::Map(Vec::new()),
            "[]" => Kind::List(Vec::new()),
            text => match text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                Some(items) => Kind::List(items.split(", ").map(Node::of_default).collect()),
                None => Kind::Text(Text { text: text.to_owned(), quoted: false }),
            },
        };
        Node { span: Span::NOWHERE, kind }
    }

    pub(crate) fn as_text(&self) -> Option<&str> {
        match &self.kind {
            Kind::Text(text) => Some(&text.text),
            Kind::Null | Kind::List(_) | Kind::Map(_) => None,
        }
    }

    pub(crate) fn is_map(&self) -> bool {
        matches!(self.kind, Kind::Map(_))
    }

    /// The entries of a mapping; none for anything else.
    pub(crate) fn entries(&self) -> &[Entry] {
        match &self.kind {
            Kind::Map(entries) => entries,
            Kind::Null | Kind::Text(_) | Kind::List(_) => &[],
        }
    }

    pub(crate) fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries().iter().find(|entry| entry.key == key)
    }

    /// Where `key` stands in the mapping, or else where the mapping is.
    pub(crate) fn key_span(&self, key: &str) -> Span {
        self.entry(key).map_or(self.span, |entry| entry.key_span)
    }

    /// What it is, as a message calls it.
    pub(crate) fn describe(&self) -> String {
        match &self.kind {
            Kind::Null => "nothing".to_owned(),
            Kind::Text(Text { text, quoted: true }) => format!("the string {}", quote(text)),
            Kind::Text(Text { text, .. }) => quote(text),
            Kind::List(_) => "a list".to_owned(),
            Kind::Map(_) => "a mapping".to_owned(),
        }
    }
}

/// Whether a mapping with these entries is a text such as `{path}` to everyone but YAML.
pub(crate) fn is_unquoted(entries: &[Entry]) -> bool {
    !entries.is_empty() && entries.iter().all(|entry| matches!(entry.value.kind, Kind::Null))
}

/// A text as a message shows it.
pub(crate) fn quote(text: &str) -> String {
    const SHOWN: usize = 60;
    match text.char_indices().nth(SHOWN) {
        None => format!("`{text}`"),
        Some((end, _)) => format!("`{}…`", &text[..end]),
    }
}
