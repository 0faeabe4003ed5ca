//! Rules that rewrite paths, and values of headers.

use crate::bounds::{MAX_PATH, MAX_VALUE};
use crate::diagnostic::Diagnostic;
use crate::node::Node;
use crate::policy::transform::value::{Part, split};
use crate::problem::Problem;
use crate::read::{Read, Reading, required};
use crate::readers::{revealed, text};
use crate::section::{section, section_of};
use crate::shape::TextShape;
use crate::token::{Pattern, pattern};

section! {
    "path_rule", "a path rule", Any;
    /// Changes a path that an expression matches. Takes time linear in the length of the path.
    pub(crate) struct PathRuleFields {
        /// The part of the path to replace (syntax of the Rust `regex` crate); with `^` and `$`, the whole path.
        pub(crate) regex: Pattern = required(pattern()),
        /// What replaces it. `{1}` or `{name}` is what a group of the expression has captured.
        pub(crate) replace: String = required(replacement()),
    }
}

/// A rule that makes another path of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathRule {
    /// What it matches gives way.
    pub regex: Pattern,
    /// What takes its place.
    pub replace: Vec<PathPiece>,
}

section! {
    "value_rule", "a value rule", Any;
    /// Changes a value that an expression matches. Takes time linear in the length of the value. A value that comes out
    /// empty, or with more than 16 KiB, is removed.
    pub(crate) struct ValueRuleFields {
        /// The part of the value to replace, its first match (syntax of the Rust `regex` crate); with `^` and `$`, the
        /// whole value.
        pub(crate) regex: Pattern = required(revealed(pattern())),
        /// What replaces it. `{1}` or `{name}` is what a group of the expression has captured; `{{` and `}}` are
        /// braces.
        pub(crate) replace: String = required(value_replacement()),
    }
}

/// A rule that makes another value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueRule {
    /// What it matches gives way.
    pub regex: Pattern,
    /// What takes its place.
    pub replace: Vec<PathPiece>,
}

/// A part of what takes the place of a path, or of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathPiece {
    /// Itself.
    Text(String),
    /// What that group of the expression has captured.
    Group(usize),
}

pub(super) fn path_rule() -> impl Read<Value = PathRule> {
    section_of::<PathRuleFields>().then(|PathRuleFields { regex, replace }, node, to| {
        let replace = resolve(&regex, &replace, node, to)?;
        Some(PathRule { regex, replace })
    })
}

pub(super) fn value_rule() -> impl Read<Value = ValueRule> {
    section_of::<ValueRuleFields>().then(|ValueRuleFields { regex, replace }, node, to| {
        let replace = resolve(&regex, &replace, node, to)?;
        Some(ValueRule { regex, replace })
    })
}

fn value_replacement() -> impl Read<Value = String> {
    let shape = TextShape {
        what: "a replacement",
        examples: "`https://{1}`",
        pattern: None,
        max: MAX_VALUE,
    };
    text(shape, |text| match text.chars().find(|c| !c.is_ascii_graphic() && *c != ' ') {
        None => split(text).map(|_| text.to_owned()),
        Some(c) => Err(Problem::new(format!("a value cannot contain {c:?}"))),
    })
}

fn replacement() -> impl Read<Value = String> {
    let shape = TextShape {
        what: "a path replacement",
        examples: "`/v2/{1}`",
        pattern: None,
        max: MAX_PATH,
    };
    text(shape, |text| {
        let is_path = |c: char| c.is_ascii_graphic() && !"?#\\\"<>^`|".contains(c);
        match text.chars().find(|c| !is_path(*c)) {
            None => split(text).map(|_| text.to_owned()),
            Some(c) => Err(Problem::new(format!("a path cannot contain {c:?}"))),
        }
    })
}

/// The pieces of a replacement, with the groups of the expression that it names.
fn resolve(
    regex: &Pattern,
    replace: &str,
    node: &Node,
    to: &mut Reading<'_>,
) -> Option<Vec<PathPiece>> {
    let mut pieces = Vec::new();
    for part in split(replace).ok()? {
        pieces.push(match part {
            Part::Text(text) => PathPiece::Text(text),
            Part::Variable { name, .. } => match regex.group(name) {
                Some(group) => PathPiece::Group(group),
                None => {
                    let place = node.entry("replace").map_or(node.span, |entry| entry.value.span);
                    let message = format!("there is no group `{{{name}}}`");
                    let error = Diagnostic::error(place, message);
                    let error = error.label("the regular expression does not capture it");
                    return to.fail(
                        error.also(node.key_span("regex"), "the regular expression is here"),
                    );
                }
            },
        });
    }
    let texts = pieces.iter().filter_map(|piece| match piece {
        PathPiece::Text(text) => Some(text),
        PathPiece::Group(_) => None,
    });
    let number = |rest: &str| rest.chars().take_while(char::is_ascii_digit).collect::<String>();
    let mut numbers = texts.flat_map(|text| text.split('$').skip(1).map(number));
    if let Some(number) = numbers.find(|number| regex.group(number).is_some()) {
        let place = node.entry("replace").map_or(node.span, |entry| entry.value.span);
        let warning = Diagnostic::warning(place, format!("`${number}` is literal text here"));
        to.add(warning.help(format!("to insert what the group captured, write `{{{number}}}`")));
    }
    Some(pieces)
}
