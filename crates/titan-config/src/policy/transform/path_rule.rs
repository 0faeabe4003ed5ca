//! Rules that make another path of one.

use crate::bounds::MAX_PATH;
use crate::node::Node;
use crate::policy::transform::value::{Part, split};
use crate::read::{Read, Reading, required};
use crate::readers::{Problem, text};
use crate::report::Diagnostic;
use crate::section::{section, section_of};
use crate::shape::TextShape;
use crate::token::{Pattern, pattern};

section! {
    "path_rule", "a path rule", Any;
    /// Makes another path of those that an expression matches. Takes time in proportion to the length of the path.
    pub(crate) struct PathRuleFields {
        /// What it matches gives way (syntax of the Rust `regex` crate); `^` and `$` make that the whole path.
        pub(crate) regex: Pattern = required(pattern()),
        /// What takes its place. `{1}` or `{name}` is what a group of the expression has captured.
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

/// A part of what takes the place of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathPiece {
    /// Itself.
    Text(String),
    /// What that group of the expression has captured.
    Group(usize),
}

pub(super) fn path_rule() -> impl Read<Value = PathRule> {
    section_of::<PathRuleFields>().then(resolve)
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
            Some(c) => Err(Problem::new(format!("a path has no {c:?}"))),
        }
    })
}

fn resolve(fields: PathRuleFields, node: &Node, to: &mut Reading<'_>) -> Option<PathRule> {
    let PathRuleFields { regex, replace } = fields;
    let mut pieces = Vec::new();
    for part in split(&replace).ok()? {
        pieces.push(match part {
            Part::Text(text) => PathPiece::Text(text),
            Part::Variable { name, .. } => match regex.group(name) {
                Some(group) => PathPiece::Group(group),
                None => {
                    let place = node.entry("replace").map_or(node.span, |entry| entry.value.span);
                    let message = format!("there is no group `{{{name}}}`");
                    let error = Diagnostic::error(place, message);
                    let error = error.label("not captured by the expression");
                    return to.fail(error.also(node.key_span("regex"), "the expression is here"));
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
        let warning = Diagnostic::warning(place, format!("`${number}` stands for itself"));
        to.add(warning.help(format!("what the group has captured is `{{{number}}}`")));
    }
    Some(PathRule { regex, replace: pieces })
}
