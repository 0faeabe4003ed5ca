//! Formats of lines: text with places for the fields of a record.

use super::fields::LogField;
use crate::bounds::MAX_LOG_FORMAT;
use crate::policy::{Claim, Part, parse_claim, split};
use crate::problem::Problem;
use crate::read::Read;
use crate::readers::{text, words_or};
use crate::shape::TextShape;
use crate::suggest;
use crate::token::{HeaderName, parse_header_name, unexpected};
use std::ops::Range;

/// How a record becomes a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// A JSON object with every field that there is, and what was captured.
    Json,
    /// The combined format of Apache and nginx.
    Combined,
    /// Text with fields.
    Template(LogTemplate),
}

/// Text with places for the fields of a record; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogTemplate {
    /// In order, as written.
    pub parts: Vec<LogPart>,
}

/// A part of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogPart {
    /// Itself, without line breaks.
    Text(String),
    /// A field of the record.
    Field(LogField),
    /// A header field of the request, one of the captures.
    RequestHeader(HeaderName),
    /// A header field of the response, one of the captures.
    ResponseHeader(HeaderName),
    /// A claim of the verified token, one of the captures.
    Claim(Claim),
}

impl LogFormat {
    /// What a line is made of; nothing for the fixed formats.
    pub(super) fn parts(&self) -> &[LogPart] {
        match self {
            LogFormat::Template(LogTemplate { parts }) => parts,
            LogFormat::Json | LogFormat::Combined => &[],
        }
    }
}

const TEMPLATE: TextShape = TextShape {
    what: "a text with fields",
    examples: "`\"{time} {client} {method} {path} {status}\"`",
    pattern: Some("\\{"),
    max: MAX_LOG_FORMAT,
};

pub(super) fn format() -> impl Read<Value = LogFormat> {
    let fixed = [("json", LogFormat::Json), ("combined", LogFormat::Combined)];
    words_or(&fixed, text(TEMPLATE, parse_template).map(LogFormat::Template))
}

fn parse_template(text: &str) -> Result<LogTemplate, Problem> {
    let is_control = |c: char| c.is_control() && c != '\t';
    if let Some((at, c)) = text.char_indices().find(|(_, c)| is_control(*c)) {
        return Err(unexpected(at, c).help("each record is one line"));
    }
    let parts = split(text)?.into_iter().map(part).collect::<Result<Vec<_>, _>>()?;
    match parts.iter().any(|part| !matches!(part, LogPart::Text(_))) {
        true => Ok(LogTemplate { parts }),
        false => Err(without_fields(text)),
    }
}

/// What is said of a text that says the same of every exchange.
fn without_fields(text: &str) -> Problem {
    let problem = Problem::new("it has no fields");
    match text.contains(['$', '%']) {
        true => problem
            .help("a field is its name in braces: `{client}` instead of `$remote_addr` or `%h`"),
        false => problem
            .help("write `json`, `combined`, or a text such as `\"{method} {path} {status}\"`"),
    }
}

fn part(part: Part<'_>) -> Result<LogPart, Problem> {
    let (name, at) = match part {
        Part::Text(text) => return Ok(LogPart::Text(text)),
        Part::Variable { name, at } => (name, at),
    };
    if let Some(field) = LogField::ALL.iter().find(|field| field.name() == name) {
        return Ok(LogPart::Field(*field));
    }
    let located = |problem: Problem| Problem { part: Some(at.clone()), ..problem };
    match name.split_once('.') {
        Some((REQUEST_HEADER, name)) => {
            parse_header_name(name).map(LogPart::RequestHeader).map_err(located)
        }
        Some((RESPONSE_HEADER, name)) => {
            parse_header_name(name).map(LogPart::ResponseHeader).map_err(located)
        }
        Some((CLAIM, name)) => parse_claim(name).map(LogPart::Claim).map_err(located),
        _ => Err(unknown(name, at)),
    }
}

const REQUEST_HEADER: &str = "request_header";
const RESPONSE_HEADER: &str = "response_header";
const CLAIM: &str = "claim";

fn unknown(name: &str, at: Range<usize>) -> Problem {
    let problem = Problem::new(format!("there is no field `{{{name}}}`")).part(at);
    if let Some(meant) = meant_capture(name) {
        return problem.help(format!("did you mean `{{{meant}}}`?"));
    }
    let names = || LogField::ALL.iter().map(|field| field.name());
    if let Some(near) = suggest::nearest(name, names()) {
        return problem.help(format!("did you mean `{{{near}}}`?"));
    }
    let names: Vec<&str> = names().collect();
    problem.help(format!(
        "the fields are {}, {REQUEST_HEADER}.NAME, {RESPONSE_HEADER}.NAME and {CLAIM}.NAME",
        names.join(", ")
    ))
}

/// The field that is meant by how transforms, nginx and others name fields of messages.
fn meant_capture(name: &str) -> Option<String> {
    let known = [
        ("header:", REQUEST_HEADER),
        ("header.", REQUEST_HEADER),
        ("request_header:", REQUEST_HEADER),
        ("response_header:", RESPONSE_HEADER),
        ("request_headers.", REQUEST_HEADER),
        ("response_headers.", RESPONSE_HEADER),
        ("claim:", CLAIM),
        ("claims.", CLAIM),
    ];
    let found = known.iter().find_map(|(begin, ours)| Some((name.strip_prefix(begin)?, ours)));
    found.filter(|(name, _)| !name.is_empty()).map(|(name, ours)| format!("{ours}.{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_can_be_named() {
        for field in LogField::ALL {
            let text = format!("a{{{}}}", field.name());
            let parts = parse_template(&text).unwrap().parts;
            assert_eq!(parts, [LogPart::Text("a".to_owned()), LogPart::Field(*field)]);
            assert!(field.doc().ends_with('.'), "{}", field.name());
        }
    }

    #[test]
    fn what_is_captured_is_named_with_its_kind() {
        let text = "{request_header.X-A} {response_header.X-B} {claim.sub} {claim./a/b} {{}}";
        let parts = parse_template(text).unwrap().parts;
        let space = || LogPart::Text(" ".to_owned());
        let expected = [
            LogPart::RequestHeader(parse_header_name("X-A").unwrap()),
            space(),
            LogPart::ResponseHeader(parse_header_name("X-B").unwrap()),
            space(),
            LogPart::Claim(parse_claim("sub").unwrap()),
            space(),
            LogPart::Claim(parse_claim("/a/b").unwrap()),
            LogPart::Text(" {}".to_owned()),
        ];
        assert_eq!(parts, expected);
    }

    #[test]
    fn an_unknown_field_is_told_with_its_place_and_what_is_meant() {
        for (text, part, help) in [
            ("a {statsu}", 2..10, "did you mean `{status}`?"),
            ("{remote_addr}", 0..13, "did you mean `{client}`?"),
            ("{header:X-A}", 0..12, "did you mean `{request_header.X-A}`?"),
            ("{claims.sub}", 0..12, "did you mean `{claim.sub}`?"),
        ] {
            let problem = parse_template(text).unwrap_err();
            assert_eq!(problem.part, Some(part), "{text}");
            assert_eq!(problem.help.as_deref(), Some(help), "{text}");
        }
        let problem = parse_template("{request_header.A B}").unwrap_err();
        assert_eq!(problem.part, Some(0..20));
    }

    #[test]
    fn a_format_is_one_line_with_a_field() {
        for text in
            ["", "all the same", "{{status}}", "{status}\n", "$status", "{status", "status}"]
        {
            assert!(parse_template(text).is_err(), "{text}");
        }
        assert!(parse_template("{status}\t{path}").is_ok());
    }
}
