//! The form of a value: the one description behind messages, the schema and the reference.

use crate::node::{Entry, Kind, Node, quote};
use crate::quantity::{ByteSize, Percent, display_duration};
use std::time::Duration;

/// What a value may look like.
#[derive(Clone, Debug)]
pub(crate) enum Shape {
    /// A text of one kind.
    Text(TextShape),
    /// A text that nobody else may see.
    Secret(TextShape),
    /// A text in which case makes no difference.
    Caseless(TextShape),
    /// A block of addresses.
    Network(TextShape),
    /// One of these words.
    Words(Vec<&'static str>),
    Whole {
        min: i64,
        max: i64,
    },
    Boolean,
    Duration {
        min: Duration,
        max: Duration,
    },
    Size {
        min: ByteSize,
        max: ByteSize,
    },
    Percent {
        min: Percent,
        max: Percent,
    },
    List {
        item: Box<Shape>,
        min: usize,
        max: usize,
    },
    Map {
        key: TextShape,
        value: Box<Shape>,
        max: usize,
        /// Whether the keys name fields of messages or parameters, and the values are theirs.
        is_of_message: bool,
    },
    Section(SectionInfo),
    /// A mapping without keys.
    Empty,
    /// A section, or the value of its field `key` alone.
    Short {
        key: &'static str,
        section: SectionInfo,
    },
    /// One of several; the most usual first.
    Either(Vec<Shape>),
}

/// A kind of text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextShape {
    /// With its article: "a host name".
    pub(crate) what: &'static str,
    /// Two or three texts of that kind as a reader would see them: "`/api`".
    pub(crate) examples: &'static str,
    /// A regular expression that every such text matches; not necessarily only such texts.
    pub(crate) pattern: Option<&'static str>,
    /// Its largest length in bytes.
    pub(crate) max: usize,
}

/// What a section is and holds.
#[derive(Clone, Debug)]
pub(crate) struct SectionInfo {
    /// One word or several; a heading of the reference and a definition of the schema.
    pub(crate) name: &'static str,
    /// With its article: "a route".
    pub(crate) what: &'static str,
    pub(crate) doc: &'static [&'static str],
    pub(crate) pick: Pick,
    pub(crate) fields: Vec<FieldInfo>,
}

/// How many of its fields a section takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pick {
    /// All that it needs and any other.
    Any,
    /// Exactly one.
    One,
}

/// A field of a section.
#[derive(Clone, Debug)]
pub(crate) struct FieldInfo {
    pub(crate) key: &'static str,
    pub(crate) doc: &'static [&'static str],
    pub(crate) presence: Presence,
    pub(crate) shape: Shape,
}

/// Whether a field must be there, and what stands for it otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    Required,
    /// The default as one would write it.
    Default(&'static str),
    /// What happens without it, in words. A value in backticks and nothing else is a value as one would write it;
    /// with a dot in it, the key of the file that holds instead.
    Optional(&'static str),
}

impl SectionInfo {
    /// Whether a key that it does not have may be a secret: one that lost its own key, or a part of one.
    pub(crate) fn may_be_secret(&self, entry: &Entry) -> bool {
        let has = |is: fn(&Shape) -> bool| self.fields.iter().any(|field| is(&field.shape));
        let is_alone = matches!(entry.value.kind, Kind::Null);
        has(Shape::is_secret) || is_alone && has(Shape::has_secrets)
    }
}

impl Shape {
    /// What a message says was expected.
    pub(crate) fn describe(&self) -> String {
        match self {
            Shape::Text(text)
            | Shape::Secret(text)
            | Shape::Caseless(text)
            | Shape::Network(text) => match *text {
                TextShape { what, examples: "", .. } => what.to_owned(),
                TextShape { what, examples, .. } => format!("{what} such as {examples}"),
            },
            Shape::Words(words) => alternatives(words.iter().map(|it| format!("`{it}`")).collect()),
            Shape::Whole { min: i64::MIN, max: i64::MAX } => "a whole number".to_owned(),
            Shape::Whole { min, max } => format!("a whole number from {min} to {max}"),
            Shape::Boolean => "`true` or `false`".to_owned(),
            Shape::Duration { min, max } => {
                format!("a duration from {} to {}", display_duration(*min), display_duration(*max))
            }
            Shape::Size { min, max } => format!("a size from {min} to {max}"),
            Shape::Percent { min, max } => format!("a percentage from {min} to {max}"),
            Shape::List { item, .. } => format!("a list, each item {}", item.describe()),
            Shape::Short { key, section } => format!("{}, or its `{key}` alone", section.what),
            Shape::Map { key, value, .. } => {
                format!("a mapping from {} to {}", key.what, value.describe())
            }
            Shape::Section(SectionInfo { what, .. }) => (*what).to_owned(),
            Shape::Empty => "`{}`".to_owned(),
            Shape::Either(shapes) => match one_or_list(shapes) {
                Some((item, _)) => format!("{}, or a list of these", item.describe()),
                None => alternatives(shapes.iter().flat_map(Shape::alternatives).collect()),
            },
        }
    }

    fn alternatives(&self) -> Vec<String> {
        match self {
            Shape::Words(words) => words.iter().map(|it| format!("`{it}`")).collect(),
            Shape::Either(shapes) => shapes.iter().flat_map(Shape::alternatives).collect(),
            other => vec![other.describe()],
        }
    }

    /// The words that may stand there.
    pub(crate) fn words(&self) -> Vec<&'static str> {
        match self {
            Shape::Words(words) => words.clone(),
            Shape::Boolean => vec!["true", "false"],
            Shape::Short { .. } => self.short().words(),
            Shape::Either(shapes) => shapes.iter().flat_map(Shape::words).collect(),
            _ => Vec::new(),
        }
    }

    /// Whether a text such as a person types is among what may stand there.
    pub(crate) fn takes_text(&self) -> bool {
        match self {
            Shape::Text(_) | Shape::Secret(_) | Shape::Caseless(_) | Shape::Network(_) => true,
            Shape::Short { .. } => self.short().takes_text(),
            Shape::Either(shapes) => shapes.iter().any(Shape::takes_text),
            _ => false,
        }
    }

    /// Whether a mapping is among what may stand there.
    pub(crate) fn takes_mapping(&self) -> bool {
        match self {
            Shape::Section(_) | Shape::Short { .. } | Shape::Map { .. } | Shape::Empty => true,
            Shape::List { item, .. } => item.takes_mapping(),
            Shape::Either(shapes) => shapes.iter().any(Shape::takes_mapping),
            _ => false,
        }
    }

    /// What the items of a list in that place look like, if there may be one.
    pub(crate) fn item(&self) -> Option<&Shape> {
        match self {
            Shape::List { item, .. } => Some(item),
            Shape::Short { .. } => self.short().item(),
            Shape::Either(shapes) => shapes.iter().find_map(Shape::item),
            _ => None,
        }
    }

    /// Whether a text that stands there is a secret.
    pub(crate) fn is_secret(&self) -> bool {
        self.texts().iter().any(|shape| matches!(shape, Shape::Secret(_)))
    }

    /// Whether a text that stands there is a secret, or may contain one: where no text belongs, it may be all that is left
    /// of a section with secrets.
    pub(crate) fn may_hide_text(&self) -> bool {
        self.is_secret() || self.texts().is_empty() && self.has_secrets()
    }

    /// What a text may be that stands there.
    fn texts(&self) -> Vec<&Shape> {
        match self {
            Shape::Section(_) | Shape::Map { .. } | Shape::Empty => Vec::new(),
            Shape::Short { .. } => self.short().texts(),
            Shape::List { item, .. } => item.texts(),
            Shape::Either(shapes) => shapes.iter().flat_map(Shape::texts).collect(),
            text => vec![text],
        }
    }

    fn has_secrets(&self) -> bool {
        match self {
            Shape::Secret(_) => true,
            Shape::Section(section) | Shape::Short { section, .. } => {
                section.fields.iter().any(|field| field.shape.has_secrets())
            }
            Shape::List { item: inner, .. } | Shape::Map { value: inner, .. } => {
                inner.has_secrets()
            }
            Shape::Either(shapes) => shapes.iter().any(Shape::has_secrets),
            _ => false,
        }
    }

    /// What the short form of a section looks like; of anything else the whole.
    pub(crate) fn short(&self) -> &Shape {
        let Shape::Short { key, section } = self else { return self };
        let field = section.fields.iter().find(|field| field.key == *key);
        &field.expect("the short form is that of a field").shape
    }

    /// The keys of a section that has to be a mapping, as help.
    pub(crate) fn keys(&self) -> Option<String> {
        const SHOWN: usize = 12;
        let section = match self {
            Shape::Section(section) => section,
            Shape::Either(shapes) => return shapes.iter().find_map(Shape::keys),
            _ => return None,
        };
        let needed = |field: &&FieldInfo| field.presence == Presence::Required;
        let (first, others): (Vec<_>, Vec<_>) = section.fields.iter().partition(needed);
        let keys = first.iter().chain(&others).map(|field| format!("`{}`", field.key));
        let shown: Vec<_> = keys.take(SHOWN).collect();
        let more = match section.fields.len().saturating_sub(SHOWN) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let keys = format!("{}{more}", shown.join(", "));
        Some(match (section.pick, first.as_slice()) {
            (Pick::One, _) => format!("write a mapping with one of the keys {keys}"),
            (Pick::Any, []) => {
                format!("write a mapping with some of the keys {keys}; `{{}}` for the defaults")
            }
            (Pick::Any, first) => {
                let verb = if first.len() == 1 { "is" } else { "are" };
                let first: Vec<_> = first.iter().map(|field| format!("`{}`", field.key)).collect();
                let first = first.join(" and ");
                format!("write a mapping with the keys {keys}; {first} {verb} required")
            }
        })
    }

    /// How a list of things with names is written where a mapping by name is expected.
    pub(crate) fn names_of(&self, items: &[Node]) -> Option<String> {
        let Shape::Map { .. } = self else { return None };
        let name = items.first()?.entry("name")?.value.as_text()?;
        let (here, there) = (quote(&format!("{name}: ...")), quote(&format!("- name: {name}")));
        Some(format!("write each under its name: {here} instead of {there}"))
    }

    /// The sections in it, not those inside sections.
    pub(crate) fn sections(&self) -> Vec<&SectionInfo> {
        match self {
            Shape::Section(section) | Shape::Short { section, .. } => vec![section],
            Shape::List { item, .. } => item.sections(),
            Shape::Map { value, .. } => value.sections(),
            Shape::Either(shapes) => shapes.iter().flat_map(Shape::sections).collect(),
            _ => Vec::new(),
        }
    }
}

/// The item and the most items where the alternatives are an item and a list of such.
pub(crate) fn one_or_list(shapes: &[Shape]) -> Option<(&Shape, usize)> {
    match shapes {
        [item, Shape::List { max, .. }] => Some((item, *max)),
        _ => None,
    }
}

/// "a, b or c".
pub(crate) fn alternatives(mut parts: Vec<String>) -> String {
    let Some(last) = parts.pop() else { return String::new() };
    match parts.is_empty() {
        true => last,
        false => format!("{} or {last}", parts.join(", ")),
    }
}
