//! From what is written to what is meant.

use super::{Field, Key, Origin, Secret, Section, Value};
use crate::cidr::parse_cidr;
use crate::language::sections;
use crate::node::{Entry, Kind, Node, Text};
use crate::quantity::{parse_duration, parse_percent, parse_size};
use crate::secrets::MASK;
use crate::shape::{FieldInfo, Pick, Presence, SectionInfo, Shape, one_or_list};
use crate::token::HEADER_NAME;
use crate::yaml;

/// A section of a file without errors.
pub(super) fn fill_section(node: &Node, info: &SectionInfo) -> Section {
    let given = |field: &&FieldInfo| info.pick == Pick::Any || node.entry(field.key).is_some();
    let fields = info.fields.iter().filter(given).map(|field| fill_field(node, field));
    Section { name: info.name, fields: fields.collect() }
}

impl Section {
    /// The section of that name that gives nothing.
    pub(crate) fn of_defaults(name: &str) -> Option<Section> {
        let info = sections().iter().find(|info| info.name == name)?;
        Some(fill_section(&Node::of_default("{}"), info))
    }
}

fn fill_field(node: &Node, info: &FieldInfo) -> Field {
    let FieldInfo { key, doc: _, presence, shape } = info;
    let (value, origin) = match (node.entry(key), presence) {
        (Some(entry), _) => (fill(&entry.value, shape), Origin::Given),
        (None, Presence::Default(text)) => (fill(&Node::of_default(text), shape), Origin::Default),
        (None, Presence::Optional(words)) => (otherwise(words, shape), Origin::Default),
        (None, Presence::Required) => (Value::Absent(""), Origin::Default),
    };
    Field { key, value, origin }
}

/// What holds where an optional field is not given.
fn otherwise(words: &'static str, shape: &Shape) -> Value {
    match written_default(words) {
        Some(node) => fill(&node, shape),
        None => Value::Absent(words),
    }
}

/// The value that these words say is the default.
fn written_default(words: &str) -> Option<Node> {
    let text = quoted(words).filter(|text| !text.contains('.'))?;
    yaml::read_alone(text)
}

/// The text that stands in backticks and is all there is.
pub(super) fn quoted(words: &str) -> Option<&str> {
    let text = words.strip_prefix('`')?.strip_suffix('`')?;
    (!text.contains('`')).then_some(text)
}

fn fill(node: &Node, shape: &Shape) -> Value {
    match shape {
        Shape::Section(section) => Value::Section(fill_section(node, section)),
        Shape::Short { key, section } => Value::Section(match node.is_map() {
            true => fill_section(node, section),
            false => fill_section(&under(key, node), section),
        }),
        Shape::List { item, .. } => fill_list(node, item),
        Shape::Empty => Value::Map(Vec::new()),
        Shape::Map { key, value, .. } => {
            let has_case = key.pattern != HEADER_NAME.pattern;
            let entries = node.entries().iter().map(|entry| fill_entry(entry, value, has_case));
            Value::Map(entries.collect())
        }
        Shape::Either(shapes) => match one_or_list(shapes) {
            Some((item, _)) => fill_list(node, item),
            None => choose(node, shapes),
        },
        shape => {
            if let Some(secret) = secret(node) {
                return secret;
            }
            let scalar = node.as_text().and_then(|text| fill_text(text, node, shape));
            scalar.unwrap_or_else(|| Value::Text(node.describe()))
        }
    }
}

/// A value with something that was taken from a file, or with a credential.
fn secret(node: &Node) -> Option<Value> {
    let (text, shown) = node.as_secret()?;
    Some(Value::Secret(Secret { text: text.to_owned(), shown: shown.to_owned() }))
}

fn fill_list(node: &Node, item: &Shape) -> Value {
    Value::List(match &node.kind {
        Kind::List(items) => items.iter().map(|node| fill(node, item)).collect(),
        _ => vec![fill(node, item)],
    })
}

fn fill_entry(entry: &Entry, shape: &Shape, has_case: bool) -> (Key, Value) {
    let key = Key { text: entry.key.clone(), has_case };
    (key, fill(&entry.value, shape))
}

/// A section that has one field.
fn under(key: &str, node: &Node) -> Node {
    let entry = Entry { key: key.to_owned(), key_span: node.span, value: node.clone() };
    Node { span: node.span, kind: Kind::Map(vec![entry]) }
}

/// What one of several readers makes of the node: the most special that takes it.
fn choose(node: &Node, shapes: &[Shape]) -> Value {
    let section = shapes.iter().find_map(|shape| match shape {
        Shape::Section(section) => Some(section),
        _ => None,
    });
    match &node.kind {
        Kind::Text(text) => {
            secret(node).unwrap_or_else(|| choose_text(&text.text, node, shapes, section))
        }
        Kind::List(_) => {
            if let Some(section) = section.filter(|it| it.name == "claim_rule") {
                return Value::Section(fill_section(&under("any", node), section));
            }
            let list = shapes.iter().find(|shape| takes_list(shape));
            list.map_or(Value::Absent(""), |shape| fill(node, shape))
        }
        Kind::Map(_) => {
            let map = shapes.iter().find(|shape| takes_map(shape));
            map.map_or(Value::Absent(""), |shape| whole(fill(node, shape), shapes))
        }
        Kind::Null => Value::Absent(""),
    }
}

fn choose_text(text: &str, node: &Node, shapes: &[Shape], section: Option<&SectionInfo>) -> Value {
    let is_word =
        shapes.iter().any(|shape| matches!(shape, Shape::Words(words) if words.contains(&text)));
    match section {
        // `tls: on` takes all defaults.
        Some(section) if is_word && text == "on" => {
            let all = Node { span: node.span, kind: Kind::Map(Vec::new()) };
            return Value::Section(fill_section(&all, section));
        }
        Some(section) if section.name == "claim_rule" => {
            return Value::Section(fill_section(&under("equals", node), section));
        }
        // `stdout` is `stdout: {}`.
        Some(section) if is_word && has_empty(section, text) => {
            let empty = Node { span: node.span, kind: Kind::Map(Vec::new()) };
            return Value::Section(fill_section(&under(text, &empty), section));
        }
        _ => {}
    }
    if is_word {
        return Value::Word(text.to_owned());
    }
    if shares(shapes).is_some() {
        let key = Key { text: text.to_owned(), has_case: true };
        return Value::Map(vec![(key, Value::Whole(1))]);
    }
    let mut plain: Vec<&Shape> = shapes.iter().collect();
    // Whatever is a text too comes last.
    plain.sort_by_key(|shape| !matches!(shape, Shape::Boolean | Shape::Whole { .. }));
    let found = plain.iter().find_map(|shape| match shape {
        Shape::Section(_) | Shape::Map { .. } | Shape::Empty | Shape::List { .. } => None,
        Shape::Either(_) | Shape::Short { .. } => Some(fill(node, shape)),
        shape => fill_text(text, node, shape),
    });
    found.unwrap_or_else(|| Value::Text(text.to_owned()))
}

/// Whether the section has a field of that name that has nothing in it.
fn has_empty(section: &SectionInfo, key: &str) -> bool {
    section.fields.iter().any(|field| field.key == key && matches!(field.shape, Shape::Empty))
}

fn takes_list(shape: &Shape) -> bool {
    match shape {
        Shape::List { .. } => true,
        Shape::Short { .. } => takes_list(shape.short()),
        Shape::Either(shapes) => shapes.iter().any(takes_list),
        _ => false,
    }
}

fn takes_map(shape: &Shape) -> bool {
    match shape {
        Shape::Section(_) | Shape::Short { .. } | Shape::Map { .. } | Shape::Empty => true,
        Shape::Either(shapes) => shapes.iter().any(takes_map),
        _ => false,
    }
}

/// Whether these are a name, or names with numbers: the shares of upstreams.
fn shares(shapes: &[Shape]) -> Option<()> {
    let [Shape::Text(_), Shape::Map { value, .. }] = shapes else { return None };
    matches!(**value, Shape::Whole { .. }).then_some(())
}

/// An upstream without a share gets nothing, and one that is alone gets everything, whatever its weight.
fn whole(value: Value, shapes: &[Shape]) -> Value {
    let (Value::Map(mut entries), Some(())) = (value.clone(), shares(shapes)) else { return value };
    entries.retain(|(_, weight)| *weight != Value::Whole(0));
    if let [(_, weight)] = entries.as_mut_slice() {
        *weight = Value::Whole(1);
    }
    Value::Map(entries)
}

fn fill_text(text: &str, node: &Node, shape: &Shape) -> Option<Value> {
    let is_quoted = matches!(&node.kind, Kind::Text(Text { quoted: true, .. }));
    match shape {
        Shape::Text(_) => Some(Value::Text(text.to_owned())),
        Shape::Secret(_) => {
            Some(Value::Secret(Secret { text: text.to_owned(), shown: MASK.to_owned() }))
        }
        Shape::Caseless(_) => Some(Value::Name(Key { text: text.to_owned(), has_case: false })),
        Shape::Network(_) => parse_cidr(text).ok().map(Value::Network),
        Shape::Words(words) => words.contains(&text).then(|| Value::Word(text.to_owned())),
        Shape::Whole { .. } if is_quoted => None,
        Shape::Whole { .. } => text.parse().ok().map(Value::Whole),
        Shape::Boolean if is_quoted => None,
        Shape::Boolean => text.parse().ok().map(Value::Boolean),
        Shape::Duration { .. } => parse_duration(text).ok().map(Value::Duration),
        Shape::Size { .. } => parse_size(text).ok().map(Value::Size),
        Shape::Percent { .. } => parse_percent(text).ok().map(Value::Percent),
        Shape::Section(_)
        | Shape::Short { .. }
        | Shape::List { .. }
        | Shape::Map { .. }
        | Shape::Empty
        | Shape::Either(_) => None,
    }
}
