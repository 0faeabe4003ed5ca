//! Errors of the YAML parser, reworded to say what to do.

use crate::diagnostic::Diagnostic;
use crate::location::{Location, Span};
use crate::source::{Source, offset};

/// A complaint of the parser: what its message contains, what is wrong, what to do about it.
struct Complaint {
    contains: &'static str,
    message: &'static str,
    help: &'static str,
}

/// The first that fits is taken.
const COMPLAINTS: &[Complaint] = &[
    Complaint {
        contains: "mapping values are not allowed",
        message: "a `:` is not allowed here",
        help: "if the `:` is part of a string, quote it; otherwise check the indentation of this \
            line and the previous one",
    },
    Complaint {
        contains: "illegal placement of ':'",
        message: "a `:` is not allowed here",
        help: "put a key and its `:` on one line; if the `:` is part of a string, quote it",
    },
    Complaint {
        contains: "',' or ']'",
        message: "expected `,` or `]`",
        help: "close the list with `]`, put `,` between its items, and quote strings that \
            contain any of `[ ] { } ,`",
    },
    Complaint {
        contains: "',' or '}'",
        message: "expected `,` or `}`",
        help: "close the mapping with `}`, put `,` between its entries, and quote strings that \
            contain any of `[ ] { } ,`",
    },
    Complaint {
        contains: "unknown anchor",
        message: "no earlier value has this anchor",
        help: "`*name` repeats the value marked `&name`; quote a string that starts with `*`, \
            such as \"*.example.com\"",
    },
    Complaint {
        contains: "anchor or alias",
        message: "`*` and `&` need a name after them",
        help: "quote a string that starts with `*` or `&`, such as \"*.example.com\"",
    },
    Complaint {
        contains: "did not find expected key",
        message: "expected a key of the mapping above, or less indentation",
        help: "start all keys of a mapping in the same column, each as `key: value`",
    },
    Complaint {
        contains: "did not find expected '-' indicator",
        message: "expected another `- item`, or less indentation",
        help: "start all items of a list in the same column, each with `- `",
    },
    Complaint {
        contains: "simple key expect",
        message: "expected `key: value`",
        help: "put a `:` and a space between a key and its value",
    },
    Complaint {
        contains: "invalid indentation in quoted scalar",
        message: "the quoted string does not end on this line",
        help: "add the closing quote, or indent the lines that continue the string",
    },
    Complaint {
        contains: "invalid indentation in flow construct",
        message: "a `[` or `{` above is not closed",
        help: "close the list with `]` and the mapping with `}`, or indent the lines that continue it",
    },
    Complaint {
        contains: "unexpected end of stream",
        message: "the quoted string is not closed",
        help: "add the closing quote",
    },
    Complaint {
        contains: "unexpected document indicator",
        message: "the quoted string is not closed",
        help: "add the closing quote",
    },
    Complaint {
        contains: "unknown escape character",
        message: "this escape sequence does not exist",
        help: "write a backslash in \"double quotes\" as `\\\\`; in 'single quotes' it is literal",
    },
    Complaint {
        contains: "invalid Unicode character escape",
        message: "this escape sequence is not a character",
        help: "write the character itself; JSON's surrogate pairs, such as `\\ud83d\\ude00`, are not YAML",
    },
    Complaint {
        contains: "unexpected character",
        message: "a value cannot start with this character",
        help: "quote the string",
    },
    Complaint {
        contains: "invalid indentation",
        message: "the indentation does not match any line above",
        help: "indent with spaces; give all keys of a mapping, or items of a list, the same indentation",
    },
];

/// A complaint of the parser, and where it stopped, as a diagnostic.
pub(crate) fn explain(source: &Source, at: Location, info: &str) -> Diagnostic {
    let line = source.line(at.line);
    if let Some(tab) = tab_in_indentation(line) {
        let column = u32::try_from(tab + 1).unwrap_or(u32::MAX);
        let tab =
            Span { start: Location { column, ..at }, end: Location { column: column + 1, ..at } };
        let error = Diagnostic::error(tab, "a tab is used as indentation").label("a tab");
        return error.help("YAML must be indented with spaces");
    }
    let span = Span::at(at);
    let bracket = unclosed_bracket(source, at);
    if let Some((bracket, place)) = bracket.filter(|(_, place)| place.start.line < at.line) {
        let close = if bracket == '[' { ']' } else { '}' };
        let error = Diagnostic::error(span, format!("not valid YAML: a `{bracket}` is not closed"));
        let error = error.label("something else begins here").also(place, "opened here");
        return error
            .help(format!("close it with `{close}`, or indent the lines that continue it"));
    }
    if is_variable(line, at) {
        let error = Diagnostic::error(span, "not valid YAML: a `{` inside of brackets");
        return error.help(
            "quote a value with `${` between `[` and `]`, or `{` and `}`: \"${NAME}\"; in quotes it \
                is a string: give a number or a switch a line of its own, as `key: ${NAME}`",
        );
    }
    if is_key_of_word(source, at, line) {
        let error = Diagnostic::error(span, "not valid YAML: a word has no keys");
        return error.help("write `- stdout: {}` above, and its other keys below it");
    }
    let Some(complaint) = COMPLAINTS.iter().find(|it| info.contains(it.contains)) else {
        return Diagnostic::error(span, format!("not valid YAML: {info}"));
    };
    let Complaint { contains, message, help } = complaint;
    let error = Diagnostic::error(span, format!("not valid YAML: {message}")).help(*help);
    match bracket.filter(|_| contains.starts_with("','")) {
        Some((bracket, place)) => error.also(place, format!("inside this `{bracket}`")),
        None => error,
    }
}

/// Whether a key is to belong to the word in the line above that stands for a whole access log.
fn is_key_of_word(source: &Source, at: Location, line: &str) -> bool {
    let before = source.line(at.line.saturating_sub(1));
    let indentation = |line: &str| line.len() - line.trim_start().len();
    before.trim() == "- stdout" && indentation(line) > indentation(before) && line.contains(':')
}

/// Whether that is the brace of a `${`.
fn is_variable(line: &str, at: Location) -> bool {
    let column = (at.column as usize).saturating_sub(1);
    let before = &line[..offset(line, column)];
    before.ends_with('$') && line[before.len()..].starts_with('{')
}

/// The last bracket that is open at `end`, as far as a look at the bytes tells.
fn unclosed_bracket(source: &Source, end: Location) -> Option<(char, Span)> {
    let mut open = Vec::new();
    let mut quote = None;
    for number in 1..=end.line {
        let mut before = ' ';
        for (column, c) in (1..).zip(source.line(number).chars()) {
            let place = Location { line: number, column, ..end };
            if place >= end {
                break;
            }
            match (quote, c) {
                (Some(open), c) if c == open && before != '\\' => quote = None,
                (Some(_), _) => {}
                (None, '#') if before.is_whitespace() => break,
                (None, '"' | '\'') if " [{,:".contains(before) => quote = Some(c),
                (None, '[' | '{') => open.push((c, place)),
                (None, ']' | '}') => drop(open.pop()),
                (None, _) => {}
            }
            before = c;
        }
    }
    let (bracket, start) = open.pop()?;
    Some((bracket, Span { start, end: Location { column: start.column + 1, ..start } }))
}

/// The place of the first tab in front of the line's text.
fn tab_in_indentation(line: &str) -> Option<usize> {
    let indentation = line.len() - line.trim_start_matches([' ', '\t']).len();
    line[..indentation].find('\t')
}
