//! References in values: `${NAME}` and `${NAME:-default}` to the environment, `${file:PATH}` to the content of a file.
//!
//! | in a value | |
//! |---|---|
//! | `${NAME}` | the variable, which has to be set |
//! | `${NAME:-default}` | the variable, or the default if it is not set or empty |
//! | `${file:PATH}` | the content of the file, without the line break at its end |
//! | `$${` | `${` itself: of the `$` in front of a `{`, two stand for one |
//!
//! What a reference brings is text: no structure, and no further reference.

use crate::bounds::{MAX_SECRET_FILES, MAX_TEXT_TOTAL};
use crate::diagnostic::Diagnostic;
use crate::location::Span;
use crate::node::{Made, Text, quote};
use crate::report::Findings;
use crate::secrets::MASK;
use crate::source::Source;
use crate::surroundings::Surroundings;
use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;

/// What begins a reference.
const OPEN: &str = "${";

/// Replaces the references of one configuration.
pub(crate) struct Variables<'s> {
    pub(crate) surroundings: &'s mut dyn Surroundings,
    /// The files that were asked for, with what they contain.
    files: HashMap<PathBuf, Result<String, String>>,
}

/// A part of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part<'t> {
    Text(&'t str),
    Variable { name: &'t str, default: Option<&'t str> },
    File(&'t str),
}

impl Part<'_> {
    /// What of the value stands in the file: also a default that is not needed now.
    fn written(&self) -> Option<&str> {
        match self {
            Part::Text(text) => Some(text),
            Part::Variable { name: _, default } => default.filter(|it| !it.is_empty()),
            Part::File(_) => None,
        }
    }
}

/// What is no reference, with what to write.
#[derive(Clone, Debug, PartialEq, Eq)]
struct NoReference {
    message: &'static str,
    help: &'static str,
}

/// Why a reference has no value.
struct Missing {
    message: String,
    label: String,
    help: String,
}

/// What a part of a value stands for, by whether that can be shown where it is no secret.
enum Found {
    Plain(String),
    File(String),
}

/// A value as far as it is put together.
#[derive(Default)]
struct Value {
    text: String,
    /// With `***` in place of what files contain.
    shown: String,
    from_files: Vec<String>,
    /// With `{}` in place of what does not stand in the file.
    written: String,
    is_elsewhere: bool,
    is_known: bool,
}

impl Value {
    fn take(&mut self, found: Found) {
        match found {
            Found::Plain(text) => self.add(&text, &text),
            Found::File(text) => {
                self.add(&text, MASK);
                self.from_files.push(text);
            }
        }
    }

    fn add(&mut self, text: &str, shown: &str) {
        self.text.push_str(text);
        self.shown.push_str(shown);
    }

    fn finish(self, quoted: bool) -> Text {
        let Value { text, shown, from_files, written, is_elsewhere, is_known: _ } = self;
        let shown = (!from_files.is_empty()).then_some(shown);
        Text { text, quoted, made: Some(Box::new(Made { shown, written, is_elsewhere })) }
    }
}

impl Missing {
    fn variable(name: &str, label: String) -> Missing {
        Missing {
            message: format!("the variable `{name}` has no value"),
            label,
            help: format!(
                "set it in the environment, or give a default: `${{{name}:-default}}`; `$${{` stands \
                    for `${{` itself"
            ),
        }
    }

    fn confined(what: &str) -> Missing {
        Missing {
            message: format!("a document of a source cannot use {what}"),
            label: "it was delivered over a network".to_owned(),
            help: "put what needs it into a file of this machine, or set `local_files: true` for its source: whoever can change its \
                   documents can then read what the gateway can read"
                .to_owned(),
        }
    }

    fn at(self, place: Span) -> Diagnostic {
        let Missing { message, label, help } = self;
        Diagnostic::error(place, message).label(label).help(help)
    }
}

impl From<NoReference> for Missing {
    fn from(NoReference { message, help }: NoReference) -> Missing {
        Missing { message: message.to_owned(), label: String::new(), help: help.to_owned() }
    }
}

/// That a document which may name nothing of this machine does, at that place.
pub(crate) fn confined(place: Span, what: &str) -> Diagnostic {
    Missing::confined(what).at(place)
}

/// A value without quotes of which nothing is left is none.
fn nothing_left(span: Span) -> Diagnostic {
    let error = Diagnostic::error(span, "nothing is left of this value");
    error
        .label("all of its variables are empty")
        .help("set them, or give a default: `${NAME:-default}`; in quotes, it is an empty string")
}

const FORMS: &str =
    "write `${NAME}`, `${NAME:-default}` or `${file:PATH}`, or `$${` for `${` itself";
const CAPTURED: &str =
    "what the `path` of a route captures is `{name}`; write `$${` for `${` itself";
const NO_KEYS: &str = "variables are replaced in values only; write `$${` for `${` itself";

impl<'s> Variables<'s> {
    pub(crate) fn new(surroundings: &'s mut dyn Surroundings) -> Variables<'s> {
        Variables { surroundings, files: HashMap::new() }
    }

    /// The value that a text stands for which is written at `span`.
    pub(crate) fn value(
        &mut self,
        written: String,
        quoted: bool,
        (source, span): (&Source, Span),
        findings: &mut Findings,
    ) -> Text {
        if !written.contains(OPEN) {
            return Text::written(written, quoted);
        }
        let mut value = Value { is_elsewhere: true, is_known: true, ..Value::default() };
        for (part, at) in parts(&written) {
            let is_here = part.as_ref().map(Part::written);
            value.is_elsewhere &= is_here == Ok(None);
            value.written.push_str(is_here.ok().flatten().unwrap_or("{}"));
            let place = source.part(&written, span, at).unwrap_or(span);
            match part.map_err(Missing::from).and_then(|part| self.look_up(source, &part)) {
                Ok(found) => value.take(found),
                Err(missing) => {
                    findings.add(missing.at(place));
                    value.is_known = false;
                }
            }
            // The caller says that this is too much.
            if value.text.len() > MAX_TEXT_TOTAL {
                break;
            }
        }
        value.from_files.iter().for_each(|content| findings.hide_file(span, content));
        if value.is_known && !quoted && value.text.is_empty() {
            findings.add(nothing_left(span));
            value.is_known = false;
        }
        if !value.is_known {
            findings.note_unknown(span);
        }
        value.finish(quoted)
    }

    /// What a part stands for.
    fn look_up(&mut self, source: &Source, part: &Part<'_>) -> Result<Found, Missing> {
        let of_machine = match part {
            Part::Text(_) => None,
            Part::Variable { .. } => Some("a variable of this machine"),
            Part::File(_) => Some("a file of this machine"),
        };
        if let Some(what) = of_machine.filter(|_| source.is_confined()) {
            return Err(Missing::confined(what));
        }
        Ok(match part {
            Part::Text(text) => Found::Plain((*text).to_owned()),
            Part::Variable { name, default } => match self.variable(name)? {
                Some(value) if !value.is_empty() || default.is_none() => Found::Plain(value),
                Some(_) => Found::Plain(default.unwrap_or_default().to_owned()),
                None => match default {
                    Some(default) => Found::Plain((*default).to_owned()),
                    None => return Err(Missing::variable(name, "it is not set".to_owned())),
                },
            },
            Part::File(path) => Found::File(self.file(source, path)?),
        })
    }

    fn variable(&mut self, name: &str) -> Result<Option<String>, Missing> {
        let value = self.surroundings.variable(name);
        value.map_err(|reason| Missing::variable(name, reason))
    }

    /// The content of a file without the line break at its end.
    fn file(&mut self, source: &Source, path: &str) -> Result<String, Missing> {
        let file = source.directory().join(path);
        let read = self.files.len();
        let content = self.files.entry(file).or_insert_with_key(|file| {
            if read >= MAX_SECRET_FILES {
                return Err(format!("more than {MAX_SECRET_FILES} files are values"));
            }
            let mut content = self.surroundings.secret(file)?;
            let line = content.strip_suffix('\n').unwrap_or(&content);
            content.truncate(line.strip_suffix('\r').unwrap_or(line).len());
            Ok(content)
        });
        content.clone().map_err(|reason| Missing {
            message: format!("the file {} cannot be used as a value", quote(path)),
            label: reason,
            help: format!("a relative path starts at the directory of {}", source.name),
        })
    }
}

/// A key as it is meant: no reference can be part of it.
pub(crate) fn key(written: String, span: Span, findings: &mut Findings) -> String {
    if !written.contains(OPEN) {
        return written;
    }
    let mut text = String::new();
    for (part, _) in parts(&written) {
        let Ok(Part::Text(part)) = part else {
            let error = Diagnostic::error(span, "a key cannot contain a variable");
            findings.add(error.label("a key").help(NO_KEYS));
            findings.note_unknown(span);
            return written;
        };
        text.push_str(part);
    }
    text
}

/// A text as it is written so that nothing in it is a reference.
pub(crate) fn literal(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    for (index, part) in text.split(OPEN).enumerate() {
        if index > 0 {
            let run = written.len() - written.trim_end_matches('$').len() + 1;
            written.extend(std::iter::repeat_n('$', run + 1));
            written.push('{');
        }
        written.push_str(part);
    }
    written
}

/// The parts of a value in their order, each with its place.
fn parts(text: &str) -> Vec<(Result<Part<'_>, NoReference>, Range<usize>)> {
    let mut parts = Vec::new();
    let mut at = 0;
    while let Some(open) = text[at..].find(OPEN).map(|found| at + found) {
        let before = text[at..=open].trim_end_matches('$').len();
        // Two `$` in front of the `{` stand for one.
        let run = open + 1 - at - before;
        let literal = at..at + before + run / 2;
        if !literal.is_empty() {
            parts.push((Ok(Part::Text(&text[literal.clone()])), literal));
        }
        if run.is_multiple_of(2) {
            parts.push((Ok(Part::Text("{")), open + 1..open + 2));
            at = open + 2;
            continue;
        }
        let end = text[open..].find('}').map_or(text.len(), |found| open + found + 1);
        let inside = text[open + OPEN.len()..end].strip_suffix('}');
        parts.push((inside.map_or_else(|| Err(unclosed()), reference), open..end));
        at = end;
    }
    if at < text.len() {
        parts.push((Ok(Part::Text(&text[at..])), at..text.len()));
    }
    parts
}

fn unclosed() -> NoReference {
    NoReference { message: "this `${` is not closed", help: FORMS }
}

/// What stands between the braces.
fn reference(inside: &str) -> Result<Part<'_>, NoReference> {
    let no_reference = |message, help| Err(NoReference { message, help });
    if inside.contains('{') {
        let help = "a variable is not replaced within another; write `$${` for `${` itself";
        return no_reference("a `{` inside of `${...}`", help);
    }
    if let Some(path) = inside.strip_prefix("file:") {
        return match path.is_empty() || path.contains('\0') {
            true => no_reference("`${file:}` needs the path to a file", FORMS),
            false => Ok(Part::File(path)),
        };
    }
    let end = inside.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let (name, rest) = inside.split_at(end.unwrap_or(inside.len()));
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let default = rest.strip_prefix(":-");
    // Nothing of it is repeated: in a secret, it is a part of the secret.
    if name.starts_with(|c: char| c.is_ascii_digit()) {
        return no_reference("the name of a variable cannot start with a digit", CAPTURED);
    }
    match (is_name, rest.is_empty() || default.is_some()) {
        (true, true) => Ok(Part::Variable { name, default }),
        (true, false) => no_reference("what follows the name of a variable means nothing", FORMS),
        (false, _) => no_reference("the name of a variable is missing", FORMS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parts, with references in brackets.
    fn shown(text: &str) -> String {
        let part = |(part, _): (Result<Part<'_>, NoReference>, _)| match part {
            Ok(Part::Text(text)) => text.to_owned(),
            Ok(Part::Variable { name, default: None }) => format!("[{name}]"),
            Ok(Part::Variable { name, default: Some(default) }) => format!("[{name}|{default}]"),
            Ok(Part::File(path)) => format!("<{path}>"),
            Err(NoReference { message, .. }) => format!("({message})"),
        };
        parts(text).into_iter().map(part).collect()
    }

    #[test]
    fn a_literal_is_itself() {
        for text in ["a", "${A}", "$${A}", "x$$$${${{$", "${${", "$${$$${"] {
            assert_eq!(shown(&literal(text)), text);
        }
    }

    #[test]
    fn references_are_told_from_text() {
        for (text, wanted) in [
            ("a ${B} c", "a [B] c"),
            ("${A}${B:-x y}${file:/run/a b}", "[A][B|x y]</run/a b>"),
            ("${_a1:-}", "[_a1|]"),
            ("$A $ {A} $$ ${A}", "$A $ {A} $$ [A]"),
            ("$${A}", "${A}"),
            ("a$$${A}", "a$[A]"),
            ("$$$${A}}", "$${A}}"),
            ("é${A}é", "é[A]é"),
            ("${A", "(this `${` is not closed)"),
            ("${1}", "(the name of a variable cannot start with a digit)"),
            ("${}", "(the name of a variable is missing)"),
            ("${A-b}", "(what follows the name of a variable means nothing)"),
            ("${A:-{b}}", "(a `{` inside of `${...}`)}"),
            ("${file:}", "(`${file:}` needs the path to a file)"),
        ] {
            assert_eq!(shown(text), wanted, "{text}");
        }
    }
}
