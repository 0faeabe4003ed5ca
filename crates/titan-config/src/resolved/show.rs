//! The whole as a file in YAML.

use super::{Field, Key, Origin, Resolved, Secret, Section, Value};
use crate::json::Json;
use crate::quantity::display_duration;
use crate::variables::literal;
use std::fmt::{self, Write};

impl fmt::Display for Resolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_section(f, &self.file, 0)
    }
}

fn write_section(f: &mut fmt::Formatter<'_>, section: &Section, depth: usize) -> fmt::Result {
    for Field { key, value, origin: _ } in &section.fields {
        write_entry(f, key, value, depth)?;
    }
    Ok(())
}

fn write_entry(f: &mut fmt::Formatter<'_>, key: &str, value: &Value, depth: usize) -> fmt::Result {
    let indent = 2 * depth;
    match value {
        Value::Absent(_) => Ok(()),
        Value::Section(section) if has_lines(section) => {
            writeln!(f, "{:indent$}{key}:", "")?;
            write_section(f, section, depth + 1)
        }
        Value::Map(entries) if !entries.is_empty() => {
            writeln!(f, "{:indent$}{key}:", "")?;
            let mut entries = entries.iter();
            entries.try_for_each(|(key, value)| write_entry(f, &plain(&key.text), value, depth + 1))
        }
        Value::List(items) if items.iter().any(is_nested) => {
            writeln!(f, "{:indent$}{key}:", "")?;
            items.iter().try_for_each(|item| write_item(f, item, depth + 1))
        }
        value => writeln!(f, "{:indent$}{key}: {}", "", value.inline()),
    }
}

/// An item in lines of its own; those after the first are indented.
fn write_item(f: &mut fmt::Formatter<'_>, item: &Value, depth: usize) -> fmt::Result {
    let indent = 2 * depth;
    match item {
        Value::Section(section) if has_lines(section) => {
            let mut lines = String::new();
            write!(lines, "{}", Indented(section, depth + 1))?;
            writeln!(f, "{:indent$}- {}", "", lines.trim())
        }
        item => writeln!(f, "{:indent$}- {}", "", item.inline()),
    }
}

struct Indented<'s>(&'s Section, usize);

impl fmt::Display for Indented<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_section(f, self.0, self.1)
    }
}

fn has_lines(section: &Section) -> bool {
    section.fields.iter().any(|field| !matches!(field.value, Value::Absent(_)))
}

fn is_nested(value: &Value) -> bool {
    matches!(value, Value::Section(_) | Value::Map(_) | Value::List(_))
}

impl Value {
    /// The value in one line, as the file gives it.
    pub(crate) fn inline(&self) -> String {
        match self {
            Value::Absent(words) => format!("({words})"),
            Value::Text(text) | Value::Name(Key { text, .. }) => plain(text),
            Value::Word(word) if word.starts_with(|c: char| c.is_ascii_alphanumeric()) => {
                word.clone()
            }
            Value::Word(word) => plain(word),
            Value::Secret(Secret { shown, text: _ }) => plain(shown),
            Value::Boolean(value) => value.to_string(),
            Value::Whole(number) => number.to_string(),
            Value::Duration(duration) => display_duration(*duration),
            Value::Size(size) => size.to_string(),
            Value::Percent(percent) => percent.to_string(),
            Value::Network(network) => network.to_string(),
            Value::List(items) => {
                format!("[{}]", items.iter().map(Value::inline).collect::<Vec<_>>().join(", "))
            }
            Value::Map(entries) => {
                braces(entries.iter().map(|(key, value)| (plain(&key.text), value)))
            }
            Value::Section(section) => {
                let given = section.fields.iter().filter(|it| it.origin == Origin::Given);
                braces(given.map(|field| (field.key.to_owned(), &field.value)))
            }
        }
    }
}

fn braces<'v>(entries: impl Iterator<Item = (String, &'v Value)>) -> String {
    let entries: Vec<_> =
        entries.map(|(key, value)| format!("{key}: {}", value.inline())).collect();
    match entries.is_empty() {
        true => "{}".to_owned(),
        false => format!("{{ {} }}", entries.join(", ")),
    }
}

/// A text as YAML reads it back: in quotes where it would be taken for something else.
fn plain(text: &str) -> String {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || "_./-+*".contains(c);
    let starts = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/' || c == '_');
    let is_word = ["true", "false", "null", "yes", "no", "on", "off"]
        .contains(&text.to_ascii_lowercase().as_str());
    match starts && !is_word && text.chars().all(is_safe) {
        true => text.to_owned(),
        false => Json::text(literal(text)).pretty().trim_end().to_owned(),
    }
}
