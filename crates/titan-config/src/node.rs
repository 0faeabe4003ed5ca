//! The tree of a file: what was written, and where. Nothing is interpreted yet; strings are as written.

use crate::location::Span;
use std::collections::HashMap;

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
    /// How it came about, where it is not as it stands in the file.
    pub(crate) made: Option<Box<Made>>,
}

/// A text in which variables were replaced.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    /// The text with `***` in place of what files contain, or of credentials, if there are any.
    pub(crate) shown: Option<String>,
    /// What stands in the file, with `{}` in place of what does not.
    pub(crate) written: String,
    /// Whether nothing of it stands in the file itself.
    pub(crate) is_elsewhere: bool,
}

impl Text {
    /// The text as it is written.
    pub(crate) fn written(text: String, quoted: bool) -> Text {
        Text { text, quoted, made: None }
    }

    /// The text without what was taken from files, and without credentials.
    pub(crate) fn shown(&self) -> &str {
        self.made.as_ref().and_then(|made| made.shown.as_deref()).unwrap_or(&self.text)
    }
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
                None => Kind::Text(Text::written(text.to_owned(), false)),
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

    /// The items of a list; none for anything else.
    pub(crate) fn items(&self) -> &[Node] {
        match &self.kind {
            Kind::List(items) => items,
            Kind::Null | Kind::Text(_) | Kind::Map(_) => &[],
        }
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

    /// Puts other texts in the place of those that stand there.
    pub(crate) fn replace_texts(&mut self, texts: &HashMap<Span, String>) {
        match &mut self.kind {
            Kind::Null => {}
            Kind::Text(text) => {
                if let Some(other) = texts.get(&self.span) {
                    text.text.clone_from(other);
                }
            }
            Kind::List(items) => items.iter_mut().for_each(|item| item.replace_texts(texts)),
            Kind::Map(entries) => {
                entries.iter_mut().for_each(|entry| entry.value.replace_texts(texts));
            }
        }
    }

    /// Shows these texts in the place of those that stand there.
    pub(crate) fn show_texts(&mut self, texts: &HashMap<Span, String>) {
        match &mut self.kind {
            Kind::Null => {}
            Kind::Text(Text { text, quoted: _, made }) => {
                if let Some(shown) = texts.get(&self.span) {
                    let new = || Made { shown: None, written: text.clone(), is_elsewhere: false };
                    made.get_or_insert_with(|| Box::new(new())).shown = Some(shown.clone());
                }
            }
            Kind::List(items) => items.iter_mut().for_each(|item| item.show_texts(texts)),
            Kind::Map(entries) => {
                entries.iter_mut().for_each(|entry| entry.value.show_texts(texts));
            }
        }
    }

    /// The text, and what is shown of it, where some of it is not.
    pub(crate) fn as_secret(&self) -> Option<(&str, &str)> {
        let Kind::Text(Text { text, quoted: _, made: Some(made) }) = &self.kind else {
            return None;
        };
        Some((text, made.shown.as_deref()?))
    }

    /// What it is, without what it says.
    pub(crate) fn kind(&self) -> &'static str {
        match &self.kind {
            Kind::Null => "nothing",
            Kind::Text(_) => "a string",
            Kind::List(_) => "a list",
            Kind::Map(_) => "a mapping",
        }
    }

    /// What it is, as a message calls it.
    pub(crate) fn describe(&self) -> String {
        match &self.kind {
            Kind::Text(text) if text.quoted => format!("the string {}", quote(text.shown())),
            Kind::Text(text) => quote(text.shown()),
            Kind::Null | Kind::List(_) | Kind::Map(_) => self.kind().to_owned(),
        }
    }
}

/// Whether a mapping with these entries is a text such as `{path}` to everyone but YAML.
pub(crate) fn is_unquoted(entries: &[Entry]) -> bool {
    !entries.is_empty() && entries.iter().all(|entry| matches!(entry.value.kind, Kind::Null))
}

/// Characters of a text that a message shows.
pub(crate) const SHOWN: usize = 60;

/// A text as a message shows it.
pub(crate) fn quote(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        None => format!("`{text}`"),
        Some((end, _)) => format!("`{}…`", &text[..end]),
    }
}
