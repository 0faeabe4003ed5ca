//! Templates: text with placeholders for parts of a request.

use crate::bounds::MAX_PATH;
use crate::diagnostic::Diagnostic;
use crate::habits;
use crate::location::Span;
use crate::node::Node;
use crate::path::check_made_path;
use crate::problem::Problem;
use crate::read::{Read, Reading};
use crate::readers::{part_of, text};
use crate::shape::{Shape, TextShape};
use crate::token::unexpected;
use std::ops::Range;

/// Text with places for what a request brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// In order, as written.
    pub pieces: Vec<Piece>,
}

/// A part of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Itself.
    Text(String),
    /// The host of the request, with its port if it has one.
    Host,
    /// The same without the port.
    Hostname,
    /// The path of the request.
    Path,
    /// What follows so many segments of it: nothing, or from a slash on.
    Rest(usize),
    /// The query of the request with its `?`, or nothing.
    Query,
    /// What the route's path captured: its parameters count from 0 in their order.
    Param(usize),
}

/// A template whose variables are not looked up yet: the path of the route says which there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TemplateText {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Variable { name: String, span: Span },
}

/// Which variables there are beside the parameters of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Variables {
    None,
    /// Those of the request; with the number of the segments of the route's prefix, if it has one.
    OfRequest(Option<usize>),
}

impl TemplateText {
    /// Looks up the variables. A parameter comes before the variable of the request with that name.
    pub(crate) fn resolve(
        &self,
        params: &[&str],
        variables: Variables,
        to: &mut Reading<'_>,
    ) -> Option<Template> {
        let resolve = |part: &Part| match part {
            Part::Text(text) => Some(Piece::Text(text.clone())),
            Part::Variable { name, span } => {
                let param = params.iter().position(|it| it == name).map(Piece::Param);
                let piece = param.or_else(|| of_request(name, variables));
                piece.or_else(|| unknown(name, *span, params, variables, to))
            }
        };
        // Every part is looked at, for all errors are wanted.
        let pieces: Vec<Option<Piece>> = self.parts.iter().map(resolve).collect();
        Some(Template { pieces: pieces.into_iter().collect::<Option<_>>()? })
    }
}

fn of_request(name: &str, variables: Variables) -> Option<Piece> {
    match (variables, name) {
        (Variables::OfRequest(_), "host") => Some(Piece::Host),
        (Variables::OfRequest(_), "hostname") => Some(Piece::Hostname),
        (Variables::OfRequest(_), "path") => Some(Piece::Path),
        (Variables::OfRequest(_), "query") => Some(Piece::Query),
        (Variables::OfRequest(Some(segments)), "rest") => Some(Piece::Rest(segments)),
        _ => None,
    }
}

fn unknown<T>(
    name: &str,
    span: Span,
    params: &[&str],
    variables: Variables,
    to: &mut Reading<'_>,
) -> Option<T> {
    let of_request: &[&str] = match variables {
        Variables::None => &[],
        Variables::OfRequest(None) => &["host", "hostname", "path", "query"],
        Variables::OfRequest(Some(_)) => &["host", "hostname", "path", "query", "rest"],
    };
    let names: Vec<&str> = params.iter().chain(of_request).copied().collect();
    let error = Diagnostic::error(span, format!("there is no variable `{{{name}}}`"));
    let help = to.did_you_mean(name, names.iter().copied()).unwrap_or_else(|| match names.len() {
        0 => "the path of this route has no parameters".to_owned(),
        _ => {
            let names: Vec<_> = names.iter().map(|name| format!("`{{{name}}}`")).collect();
            format!("the variables are {}", names.join(", "))
        }
    });
    to.fail(error.label("unknown here").help(help))
}

/// Where a redirect goes.
pub(crate) fn location_template() -> impl Read<Value = TemplateText> {
    let shape = TextShape {
        what: "a redirect target",
        examples: "`\"https://{host}{path}{query}\"` or `/elsewhere`",
        pattern: Some("^(/|\\{path\\}|[A-Za-z][A-Za-z0-9+.-]*://)"),
        max: MAX_PATH,
    };
    TemplateReader { shape, check: check_location }
}

/// A path that is put together.
pub(crate) fn path_template() -> impl Read<Value = TemplateText> {
    let shape = TextShape {
        what: "a path template",
        examples: "`/items/{id}`",
        pattern: Some("^/"),
        max: MAX_PATH,
    };
    TemplateReader { shape, check: check_path }
}

struct TemplateReader {
    shape: TextShape,
    check: fn(&str, &[RawPart<'_>]) -> Result<(), Problem>,
}

impl Read for TemplateReader {
    type Value = TemplateText;

    fn read(&self, node: &Node, to: &mut Reading<'_>) -> Option<TemplateText> {
        let parse = |text: &str| {
            let parts = split(text)?;
            (self.check)(text, &parts)?;
            Ok(parts.iter().map(RawPart::own).collect::<Vec<_>>())
        };
        let parts = text(self.shape, parse).read(node, to)?;
        let place = |part: OwnPart| match part {
            OwnPart::Text(text) => Part::Text(text),
            OwnPart::Variable { name, at } => {
                let span = node.as_text().and_then(|text| part_of(text, node.span, at, to));
                Part::Variable { name, span: span.unwrap_or(node.span) }
            }
        };
        Some(TemplateText { parts: parts.into_iter().map(place).collect() })
    }

    fn shape(&self) -> Shape {
        Shape::Text(self.shape)
    }
}

enum RawPart<'a> {
    Text(&'a str),
    Variable { name: &'a str, at: Range<usize> },
}

enum OwnPart {
    Text(String),
    Variable { name: String, at: Range<usize> },
}

impl RawPart<'_> {
    fn own(&self) -> OwnPart {
        match self {
            RawPart::Text(text) => OwnPart::Text((*text).to_owned()),
            RawPart::Variable { name, at } => {
                OwnPart::Variable { name: (*name).to_owned(), at: at.clone() }
            }
        }
    }
}

/// Texts and variables in order.
fn split(text: &str) -> Result<Vec<RawPart<'_>>, Problem> {
    let mut parts = Vec::new();
    let mut at = 0;
    while let Some(brace) = text[at..].find(['{', '}']).map(|found| at + found) {
        if text[brace..].starts_with('}') {
            return Err(Problem::new("this `}` has no matching `{`").part(brace..brace + 1));
        }
        if at < brace {
            parts.push(RawPart::Text(&text[at..brace]));
        }
        let open = || Problem::new("this `{` is not closed").part(brace..brace + 1);
        let end = text[brace..].find('}').map(|found| brace + found + 1).ok_or_else(open)?;
        let name = &text[brace + 1..end - 1];
        // `{*rest}` is how the path writes it, and means the same here.
        let name = name.strip_prefix('*').unwrap_or(name);
        parts.push(RawPart::Variable { name, at: brace..end });
        at = end;
    }
    if at < text.len() {
        parts.push(RawPart::Text(&text[at..]));
    }
    Ok(parts)
}

fn check_location(text: &str, parts: &[RawPart<'_>]) -> Result<(), Problem> {
    habits::check_variables(text)?;
    let is_uri = |c: char| c.is_ascii_graphic() && !"\"<>\\^`|".contains(c);
    if let Some((at, c)) = text.char_indices().find(|(_, c)| !is_uri(*c)) {
        return Err(unexpected(at, c));
    }
    let starts_with_path = matches!(parts.first(), Some(RawPart::Variable { name: "path", .. }));
    let is_absolute = text.split_once("://").is_some_and(|(scheme, _)| is_scheme(scheme));
    match text.starts_with('/') || starts_with_path || is_absolute {
        true => check_authority(text),
        false => Err(Problem::new("it starts with neither `/` nor a scheme such as `https://`")),
    }
}

/// No user before the host (RFC 9110 section 4.2.4): what a request brings as part of a name would be one, and stand
/// in front of a host that it has nothing to do with. `{path}` may be a parameter of the route and thus a label: it ends no authority.
fn check_authority(text: &str) -> Result<(), Problem> {
    let scheme = text.find(':').filter(|&at| is_scheme(&text[..at])).map_or(0, |at| at + 1);
    let Some(authority) = text[scheme..].strip_prefix("//") else { return Ok(()) };
    let Some(end) = authority.find(['@', '/', '?', '#']) else { return Ok(()) };
    let at = text.len() - authority.len() + end;
    // Texts that may have a password are shown without help: the reason says all.
    let reason = "what precedes this `@` would be a user name and not the host: take out both; in a path write `%40`";
    match text.as_bytes()[at] {
        b'@' => Err(Problem::new(reason).part(at..at + 1)),
        _ => Ok(()),
    }
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
}

/// A variable stands for at least one byte of a segment, and so does the letter put in its place.
fn check_path(text: &str, parts: &[RawPart<'_>]) -> Result<(), Problem> {
    habits::check_made_path(text)?;
    let sample: String = parts
        .iter()
        .map(|part| match part {
            RawPart::Text(text) => *text,
            RawPart::Variable { .. } => "x",
        })
        .collect();
    check_made_path(&sample).map_err(|problem| Problem { part: None, ..problem })
}
