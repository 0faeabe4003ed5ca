//! The JSON Schema of the file, for editors: completion, documentation, error marks.

use crate::json::Json;
use crate::language::sections;
use crate::shape::{FieldInfo, Pick, Presence, SectionInfo, Shape, TextShape};

/// The JSON Schema (2020-12) of a configuration file.
///
/// What it accepts may still be wrong: it knows neither references nor clashes.
pub fn schema() -> String {
    let (root, others) = sections().split_first().expect("the file itself is a section");
    let mut members = vec![
        ("$schema".to_owned(), Json::text("https://json-schema.org/draft/2020-12/schema")),
        ("title".to_owned(), Json::text("Titan configuration")),
    ];
    members.extend(section_members(root));
    let definitions =
        others.iter().map(|it| (it.name.to_owned(), Json::Object(section_members(it))));
    members.push(("$defs".to_owned(), Json::Object(definitions.collect())));
    Json::Object(members).pretty()
}

fn section_members(section: &SectionInfo) -> Vec<(String, Json)> {
    let SectionInfo { name: _, what: _, doc, pick, fields } = section;
    let properties = fields.iter().map(|field| (field.key.to_owned(), property(field)));
    let mut members = vec![
        ("description".to_owned(), Json::Text(one_line(doc))),
        ("type".to_owned(), Json::text("object")),
        ("properties".to_owned(), Json::Object(properties.collect())),
        ("additionalProperties".to_owned(), Json::Bool(false)),
    ];
    let required = fields.iter().filter(|field| field.presence == Presence::Required);
    let required: Vec<_> = required.map(|field| Json::text(field.key)).collect();
    if !required.is_empty() {
        members.push(("required".to_owned(), Json::List(required)));
    }
    if *pick == Pick::One {
        members.push(("minProperties".to_owned(), Json::Number(1)));
        members.push(("maxProperties".to_owned(), Json::Number(1)));
    }
    members
}

fn property(field: &FieldInfo) -> Json {
    let FieldInfo { key: _, doc, presence, shape } = field;
    let description = match presence {
        Presence::Default("{}" | "[]") => one_line(doc),
        Presence::Default(text) => format!("{} Default: {text}.", one_line(doc)),
        Presence::Optional("") | Presence::Required => one_line(doc),
        Presence::Optional(otherwise) => format!("{} Without it: {otherwise}.", one_line(doc)),
    };
    let mut members = shape_members(shape);
    members.insert(0, ("description".to_owned(), Json::Text(description)));
    Json::Object(members)
}

fn of_shape(shape: &Shape) -> Json {
    Json::Object(shape_members(shape))
}

fn shape_members(shape: &Shape) -> Vec<(String, Json)> {
    let object = match shape {
        Shape::Text(shape)
        | Shape::Secret(shape)
        | Shape::Caseless(shape)
        | Shape::Network(shape) => return text_members(shape),
        Shape::Words(words) => {
            Json::object([("enum", Json::List(words.iter().map(word).collect()))])
        }
        Shape::Whole { min, max } => Json::object([
            ("type", Json::text("integer")),
            ("minimum", Json::Number(*min)),
            ("maximum", Json::Number(*max)),
        ]),
        Shape::Boolean => Json::object([("type", Json::text("boolean"))]),
        Shape::Duration { .. } => Json::object([
            ("type", Json::text("string")),
            ("pattern", Json::text("^[0-9]+ *(ms|s|m|h|d)$")),
        ]),
        Shape::Size { .. } => Json::object([
            ("type", Json::List(vec![Json::text("string"), Json::text("integer")])),
            ("pattern", Json::text("^[0-9]+ *([KMGT]i?B|B)?$")),
        ]),
        Shape::Percent { .. } => Json::object([
            ("type", Json::text("string")),
            ("pattern", Json::text("^[0-9]+(\\.[0-9]{1,2})? *%$")),
        ]),
        Shape::List { item, min, max } => Json::object([
            ("type", Json::text("array")),
            ("items", of_shape(item)),
            ("minItems", Json::size(*min)),
            ("maxItems", Json::size(*max)),
        ]),
        Shape::Map { key, value, max, is_of_message: _ } => Json::object([
            ("type", Json::text("object")),
            ("propertyNames", Json::Object(key_members(key))),
            ("additionalProperties", of_shape(value)),
            ("maxProperties", Json::size(*max)),
        ]),
        Shape::Empty => {
            Json::object([("type", Json::text("object")), ("maxProperties", Json::Number(0))])
        }
        Shape::Section(section) => {
            Json::object([("$ref", Json::Text(format!("#/$defs/{}", section.name)))])
        }
        Shape::Short { section, .. } => {
            let section = Json::object([("$ref", Json::Text(format!("#/$defs/{}", section.name)))]);
            let mut members = any_of(std::slice::from_ref(shape.short()));
            members.push(section);
            Json::object([("anyOf", Json::List(members))])
        }
        Shape::Either(shapes) => Json::object([("anyOf", Json::List(any_of(shapes)))]),
    };
    match object {
        Json::Object(members) => members,
        _ => unreachable!("every shape is described by an object"),
    }
}

/// The alternatives, those inside alternatives among them.
fn any_of(shapes: &[Shape]) -> Vec<Json> {
    let members = shapes.iter().flat_map(|shape| match of_shape(shape) {
        Json::Object(mut members) => match members.pop() {
            Some((name, Json::List(inner))) if name == "anyOf" => inner,
            last => {
                members.extend(last);
                vec![Json::Object(members)]
            }
        },
        other => vec![other],
    });
    members.collect()
}

/// A text may be written without quotes, and then YAML takes some for a number or a boolean.
fn text_members(shape: &TextShape) -> Vec<(String, Json)> {
    let looks = |sample: &str| shape.pattern.is_none_or(|pattern| is_match(pattern, sample));
    let mut kinds = vec![Json::text("string")];
    kinds.extend(looks("1").then(|| Json::text("number")));
    kinds.extend(looks("true").then(|| Json::text("boolean")));
    let mut members = key_members(shape);
    members.insert(0, ("type".to_owned(), Json::List(kinds)));
    members
}

fn key_members(shape: &TextShape) -> Vec<(String, Json)> {
    let TextShape { what: _, examples: _, pattern, max } = shape;
    let pattern = pattern.map(|pattern| ("pattern".to_owned(), Json::text(pattern)));
    std::iter::once(("maxLength".to_owned(), Json::size(*max))).chain(pattern).collect()
}

fn is_match(pattern: &str, sample: &str) -> bool {
    regex::Regex::new(pattern).expect("the patterns of shapes are constants").is_match(sample)
}

/// A word that looks like a number is one to YAML.
fn word(word: &&'static str) -> Json {
    word.parse().map_or_else(|_| Json::text(*word), Json::Number)
}

fn one_line(doc: &[&str]) -> String {
    doc.concat().trim().to_owned()
}
