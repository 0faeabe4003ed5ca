//! A configuration as it is used: short forms written out, defaults filled in, and in each route what it takes from the
//! rest of the file. Made from the shapes of the sections alone, so that a new field is part of it by being declared.

mod fill;
mod inherit;
mod show;

use crate::check::Composed;
use crate::cidr::Cidr;
use crate::gateway::Config;
use crate::quantity::{ByteSize, Percent};
use crate::report::Report;
use crate::surroundings::{Alone, Document};
use std::fmt;
use std::time::Duration;

/// A checked configuration, and all that it says or leaves to defaults. `Display` shows that as a file in YAML, with
/// stars in place of secrets.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// What is served.
    pub config: Config,
    pub(crate) file: Section,
}

impl Resolved {
    /// Reads a file as [`Config::parse`] does.
    pub fn parse(name: &str, text: &str) -> Result<Resolved, Report> {
        Composed::read(Document::alone(name, text), &mut Alone).map(Resolved::from)
    }
}

impl From<Composed> for Resolved {
    fn from(Composed { config, root, .. }: Composed) -> Resolved {
        Resolved::new(config, &root)
    }
}

/// A section with all of its fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Section {
    pub(crate) name: &'static str,
    pub(crate) fields: Vec<Field>,
}

/// A field of a section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Field {
    pub(crate) key: &'static str,
    pub(crate) value: Value,
    pub(crate) origin: Origin,
}

/// Where the value of a field comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The file gives it.
    Given,
    /// It is the default.
    Default,
    /// Another part of the file gives it.
    Elsewhere,
}

/// A value in its normal form: two that mean the same are equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// None is given; what then holds, in words.
    Absent(&'static str),
    Text(String),
    Name(Key),
    Secret(Secret),
    /// One of the words that the field knows.
    Word(String),
    Boolean(bool),
    Whole(i64),
    Duration(Duration),
    Size(ByteSize),
    Percent(Percent),
    Network(Cidr),
    List(Vec<Value>),
    Map(Vec<(Key, Value)>),
    Section(Section),
}

/// A name, which is shown as it is written.
#[derive(Clone, Debug, Eq)]
pub(crate) struct Key {
    pub(crate) text: String,
    /// Whether case tells it from others.
    has_case: bool,
}

impl Key {
    /// The same text for keys of a mapping that are equal.
    pub(crate) fn folded(&self) -> String {
        match self.has_case {
            true => self.text.clone(),
            false => self.text.to_ascii_lowercase(),
        }
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Key) -> bool {
        match self.has_case && other.has_case {
            true => self.text == other.text,
            false => self.text.eq_ignore_ascii_case(&other.text),
        }
    }
}

/// A text that is compared and never shown as a whole.
#[derive(Clone, Eq)]
pub(crate) struct Secret {
    text: String,
    /// With `***` in place of what is secret.
    shown: String,
}

impl PartialEq for Secret {
    fn eq(&self, other: &Secret) -> bool {
        self.text == other.text
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl Section {
    pub(crate) fn field(&self, key: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.key == key)
    }

    pub(crate) fn value(&self, key: &str) -> Option<&Value> {
        self.field(key).map(|field| &field.value)
    }

    pub(crate) fn field_mut(&mut self, key: &str) -> Option<&mut Field> {
        self.fields.iter_mut().find(|field| field.key == key)
    }

    /// The items of a list.
    pub(crate) fn list(&self, key: &str) -> &[Value] {
        match self.value(key) {
            Some(Value::List(items)) => items,
            _ => &[],
        }
    }

    /// The sections of a mapping by name.
    pub(crate) fn named(&self, key: &str) -> impl Iterator<Item = (&str, &Section)> {
        let entries = match self.value(key) {
            Some(Value::Map(entries)) => entries.as_slice(),
            _ => &[],
        };
        entries.iter().filter_map(|(name, value)| Some((name.text.as_str(), value.as_section()?)))
    }
}

impl Value {
    pub(crate) fn as_section(&self) -> Option<&Section> {
        match self {
            Value::Section(section) => Some(section),
            _ => None,
        }
    }

    /// Whether the field says that there is none of it.
    pub(crate) fn is_absent(&self) -> bool {
        match self {
            Value::Absent(_) | Value::Boolean(false) => true,
            Value::Word(word) => word == "off",
            _ => false,
        }
    }

    /// The value as the name of something.
    pub(crate) fn label(&self) -> String {
        match self {
            Value::Text(text) | Value::Word(text) => text.clone(),
            other => other.inline(),
        }
    }
}
