//! Values with placeholders for parts of a request.

use crate::bounds::{MAX_RESPONSE_BODY, MAX_VALUE};
use crate::diagnostic::Diagnostic;
use crate::habits;
use crate::policy::claim::{Claim, parse_claim};
use crate::problem::Problem;
use crate::read::Read;
use crate::readers::text;
use crate::shape::TextShape;
use crate::token::{HeaderName, parse_header_name, parse_header_value};
use std::ops::Range;

/// A value with places for what a request brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueTemplate {
    /// In order, as written.
    pub pieces: Vec<ValuePiece>,
}

/// A part of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ValuePiece {
    /// Itself.
    Text(String),
    /// The method of the request.
    Method,
    /// `http` or `https`: how the client is connected.
    Scheme,
    /// The host of the request, with its port if it has one.
    Host,
    /// The path of the request.
    Path,
    /// The query of the request with its `?`, or nothing.
    Query,
    /// The address of the client behind all trusted proxies; nothing over a Unix socket.
    Client,
    /// The id of the request; nothing where requests have none.
    RequestId,
    /// The name of the route.
    Route,
    /// The first value of that header field, or nothing.
    Header(HeaderName),
    /// The first value of that parameter of the query as the URL has it, or nothing.
    QueryParam(String),
    /// What the request's token says there, where that is a text, a number or a list of such; else nothing.
    Claim(Claim),
    /// What the route's path captured under that name.
    Param(String),
}

impl ValueTemplate {
    /// The parameters of the path that it names.
    pub(crate) fn params(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|piece| match piece {
            ValuePiece::Param(name) => Some(name.as_str()),
            _ => None,
        })
    }

    /// The fields that it names.
    pub(crate) fn headers(&self) -> impl Iterator<Item = &HeaderName> {
        self.pieces.iter().filter_map(|piece| match piece {
            ValuePiece::Header(name) => Some(name),
            _ => None,
        })
    }

    /// Whether it uses claims of tokens.
    pub(crate) fn needs_token(&self) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, ValuePiece::Claim(_)))
    }
}

const VALUE: TextShape = TextShape {
    what: "a value template",
    examples: "`\"{client}\"` or `gateway`",
    pattern: Some("^[^\\u0000-\\u0008\\u000A-\\u001F\\u007F]*$"),
    max: MAX_VALUE,
};

/// A value for a header field or a parameter of the query.
pub(super) fn value() -> impl Read<Value = ValueTemplate> {
    text(VALUE, |text| {
        parse_header_value(text)?;
        if text.is_empty() {
            return Err(
                Problem::new("it is empty").help("to remove a header or parameter, use `remove`")
            );
        }
        let pieces = split(text)?.into_iter().map(piece).collect::<Result<_, _>>()?;
        Ok(ValueTemplate { pieces })
    })
    .then(|value, node, to| {
        let foreign = node.as_text().and_then(habits::variable_in_value);
        if let Some((theirs, ours)) = foreign {
            let warning = Diagnostic::warning(node.span, format!("`{theirs}` is sent literally"));
            to.add(warning.label("this is not a variable").help(format!("did you mean `{ours}`?")));
        }
        Some(value)
    })
}

/// A body with places for values.
pub(crate) fn body_template() -> impl Read<Value = ValueTemplate> {
    let shape = TextShape {
        what: "a body template",
        examples: "`\"Hello {client}\"`",
        pattern: None,
        max: MAX_RESPONSE_BODY,
    };
    text(shape, |text| {
        let pieces = split(text)?.into_iter().map(piece).collect::<Result<_, _>>()?;
        Ok(ValueTemplate { pieces })
    })
}

fn piece(part: Part<'_>) -> Result<ValuePiece, Problem> {
    let (name, at) = match part {
        Part::Text(text) => return Ok(ValuePiece::Text(text)),
        Part::Variable { name, at } => (name, at),
    };
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    Ok(match (name, name.split_once(':')) {
        ("method", _) => ValuePiece::Method,
        ("scheme", _) => ValuePiece::Scheme,
        ("host", _) => ValuePiece::Host,
        ("path", _) => ValuePiece::Path,
        ("query", _) => ValuePiece::Query,
        ("client", _) => ValuePiece::Client,
        ("request_id", _) => ValuePiece::RequestId,
        ("route", _) => ValuePiece::Route,
        (_, Some(("header", field))) => {
            let field =
                parse_header_name(field).map_err(|problem| Problem { part: Some(at), ..problem });
            ValuePiece::Header(field?)
        }
        (_, Some(("claim", claim))) => ValuePiece::Claim(
            parse_claim(claim).map_err(|problem| Problem { part: Some(at), ..problem })?,
        ),
        (_, Some(("param", parameter))) if !parameter.is_empty() => {
            ValuePiece::QueryParam(parameter.to_owned())
        }
        (param, None) if !param.is_empty() && param.chars().all(is_name) => {
            ValuePiece::Param(param.to_owned())
        }
        _ => {
            let problem = Problem::new(format!("there is no variable `{{{name}}}`")).part(at);
            return Err(problem.help(
                "the variables are `{method}`, `{scheme}`, `{host}`, `{path}`, `{query}`, \
                    `{client}`, `{request_id}`, `{route}`, `{header:NAME}`, `{param:NAME}`, \
                    `{claim:NAME}`, and the parameters of the route's path",
            ));
        }
    })
}

/// A part of a text with variables.
pub(crate) enum Part<'t> {
    /// Without the doubling of braces.
    Text(String),
    /// Its name, and where it stands with its braces.
    Variable { name: &'t str, at: Range<usize> },
}

/// Texts and variables in order; `{{` and `}}` are braces.
pub(crate) fn split(text: &str) -> Result<Vec<Part<'_>>, Problem> {
    let mut parts = Vec::new();
    let mut plain = String::new();
    let mut at = 0;
    while let Some(brace) = text[at..].find(['{', '}']).map(|found| at + found) {
        plain.push_str(&text[at..brace]);
        let rest = &text[brace..];
        if rest.starts_with("{{") || rest.starts_with("}}") {
            plain.push_str(&rest[..1]);
            at = brace + 2;
            continue;
        }
        if rest.starts_with('}') {
            let problem = Problem::new("this `}` has no matching `{`").part(brace..brace + 1);
            return Err(problem.help("write literal braces as `{{` and `}}`"));
        }
        let open = || Problem::new("this `{` is not closed").part(brace..brace + 1);
        let end = rest.find('}').map(|found| brace + found + 1).ok_or_else(open)?;
        if !plain.is_empty() {
            parts.push(Part::Text(std::mem::take(&mut plain)));
        }
        parts.push(Part::Variable { name: &text[brace + 1..end - 1], at: brace..end });
        at = end;
    }
    plain.push_str(&text[at..]);
    if !plain.is_empty() {
        parts.push(Part::Text(plain));
    }
    Ok(parts)
}
