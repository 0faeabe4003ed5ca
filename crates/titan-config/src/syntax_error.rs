//! What the YAML parser complains about, in words that say what to do.

use crate::diagnostic::Diagnostic;
use crate::location::{Location, Span};
use crate::source::Source;

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
        help: "quote the text if the `:` belongs to it; else check the indentation of this line and the one before",
    },
    Complaint {
        contains: "illegal placement of ':'",
        message: "a `:` is not allowed here",
        help: "a key and its `:` stand on one line; quote the text if the `:` belongs to it",
    },
    Complaint {
        contains: "',' or ']'",
        message: "expected `,` or `]`",
        help: "close the list with `]`, put `,` between its items, and quote texts that contain any of `[ ] { } ,`",
    },
    Complaint {
        contains: "',' or '}'",
        message: "expected `,` or `}`",
        help: "close the mapping with `}`, put `,` between its entries, and quote texts that contain any of `[ ] { } ,`",
    },
    Complaint {
        contains: "unknown anchor",
        message: "no value before has that anchor",
        help: "`*name` repeats the value marked `&name`; quote a text that starts with `*`, such as \"*.example.com\"",
    },
    Complaint {
        contains: "anchor or alias",
        message: "`*` and `&` need a name after them",
        help: "quote a text that starts with `*` or `&`, such as \"*.example.com\"",
    },
    Complaint {
        contains: "did not find expected key",
        message: "expected a key of the mapping above, or less indentation",
        help: "keys of the same mapping start in the same column, each as `key: value`",
    },
    Complaint {
        contains: "did not find expected '-' indicator",
        message: "expected another `- item`, or less indentation",
        help: "items of the same list start in the same column, each with `- `",
    },
    Complaint {
        contains: "simple key expect",
        message: "expected `key: value`",
        help: "a `:` with a space behind it separates a key from its value",
    },
    Complaint {
        contains: "invalid indentation in quoted scalar",
        message: "the quoted text does not end on this line",
        help: "put the closing quote, or indent the lines that continue the text",
    },
    Complaint {
        contains: "invalid indentation in flow construct",
        message: "a `[` or `{` above is not closed",
        help: "close the list with `]` and the mapping with `}`, or indent the lines that continue it",
    },
    Complaint {
        contains: "unexpected end of stream",
        message: "the quoted text is not closed",
        help: "put the closing quote",
    },
    Complaint {
        contains: "unexpected document indicator",
        message: "the quoted text is not closed",
        help: "put the closing quote",
    },
    Complaint {
        contains: "unknown escape character",
        message: "this escape does not exist",
        help: "in \"double quotes\" a backslash is written `\\\\`; in 'single quotes' it stands for itself",
    },
    Complaint {
        contains: "invalid Unicode character escape",
        message: "this escape stands for no character",
        help: "write the character itself; JSON's pairs of escapes, such as `\\ud83d\\ude00`, are not YAML",
    },
    Complaint {
        contains: "unexpected character",
        message: "a value cannot start with this character",
        help: "quote the text",
    },
    Complaint {
        contains: "invalid indentation",
        message: "the indentation fits nothing above",
        help: "indent with spaces, the keys of one mapping and the items of one list alike",
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
        return error.help("YAML is indented with spaces");
    }
    let span = Span::at(at);
    let bracket = unclosed_bracket(source, at);
    if let Some((bracket, place)) = bracket.filter(|(_, place)| place.start.line < at.line) {
        let close = if bracket == '[' { ']' } else { '}' };
        let error = Diagnostic::error(span, format!("not valid YAML: a `{bracket}` is not closed"));
        let error = error.label("something else starts here").also(place, "opened here");
        return error
            .help(format!("close it with `{close}`, or indent the lines that continue it"));
    }
    let Some(complaint) = COMPLAINTS.iter().find(|it| info.contains(it.contains)) else {
        return Diagnostic::error(span, format!("not valid YAML: {info}"));
    };
    let Complaint { contains, message, help } = complaint;
    let error = Diagnostic::error(span, format!("not valid YAML: {message}")).help(*help);
    match bracket.filter(|_| contains.starts_with("','")) {
        Some((bracket, place)) => error.also(place, format!("in this `{bracket}`")),
        None => error,
    }
}

/// The last bracket that is open at `end`, as far as a look at the bytes tells.
fn unclosed_bracket(source: &Source, end: Location) -> Option<(char, Span)> {
    let mut open = Vec::new();
    let mut quote = None;
    for number in 1..=end.line {
        let mut before = ' ';
        for (column, c) in (1..).zip(source.line(number).chars()) {
            let place = Location { line: number, column };
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
