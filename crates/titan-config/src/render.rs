//! How diagnostics look: message, place, the lines concerned with marks under them, help.

use crate::diagnostic::{Diagnostic, Label, Severity};
use crate::location::FileId;
use crate::source::{Sources, offset};
use std::fmt::{self, Write};

/// The escape sequences around each kind of text.
#[derive(Clone, Copy)]
pub(crate) struct Style {
    error: &'static str,
    warning: &'static str,
    frame: &'static str,
    strong: &'static str,
    reset: &'static str,
}

pub(crate) const PLAIN: Style = Style { error: "", warning: "", frame: "", strong: "", reset: "" };

pub(crate) const ANSI: Style = Style {
    error: "\x1b[1;31m",
    warning: "\x1b[1;33m",
    frame: "\x1b[1;34m",
    strong: "\x1b[1m",
    reset: "\x1b[0m",
};

/// Characters of a line that are shown; a longer one (a whole JSON file may be one line) is cut around the mark.
const LINE_WIDTH: usize = 120;
/// Characters kept in front of a mark when its line is cut.
const LEAD: usize = 40;
const TAB: usize = 4;

pub(crate) fn report(
    f: &mut fmt::Formatter<'_>,
    style: Style,
    sources: &Sources,
    diagnostics: &[Diagnostic],
    omitted: usize,
) -> fmt::Result {
    for diagnostic in diagnostics {
        self::diagnostic(f, style, sources, diagnostic)?;
        f.write_char('\n')?;
    }
    if diagnostics.is_empty() { Ok(()) } else { summary(f, sources, diagnostics, omitted) }
}

/// The last line: how many of each.
fn summary(
    f: &mut fmt::Formatter<'_>,
    sources: &Sources,
    diagnostics: &[Diagnostic],
    omitted: usize,
) -> fmt::Result {
    let errors = diagnostics.iter().filter(|it| it.severity == Severity::Error).count();
    let count = |n: usize, what| match n {
        0 => None,
        1 => Some(format!("1 {what}")),
        _ => Some(format!("{n} {what}s")),
    };
    let counts = [count(errors, "error"), count(diagnostics.len() - errors, "warning")];
    let counts: Vec<_> = counts.into_iter().flatten().collect();
    write!(f, "{}: {}", visible(&sources.main().name), counts.join(", "))?;
    match omitted {
        0 => writeln!(f),
        more => writeln!(f, ", and {more} more that are not shown"),
    }
}

fn diagnostic(
    f: &mut fmt::Formatter<'_>,
    style: Style,
    sources: &Sources,
    diagnostic: &Diagnostic,
) -> fmt::Result {
    let Diagnostic { severity, message, at, also, path, help } = diagnostic;
    let Style { frame, strong, reset, .. } = style;
    let (word, color) = match severity {
        Severity::Error => ("error", style.error),
        Severity::Warning => ("warning", style.warning),
    };
    let message = visible(message);
    writeln!(f, "{color}{word}{reset}{strong}: {message}{reset}")?;

    let last = also.iter().map(|label| label.span.start.line).fold(at.span.start.line, u32::max);
    let gutter = last.to_string().len();
    let name = visible(&sources.with(at.span).name);
    write!(f, "{:gutter$}{frame}-->{reset} {name}", "")?;
    if let Some(place) = at.span.location() {
        write!(f, ":{place}")?;
    }
    match path.as_str() {
        "" => writeln!(f)?,
        path => writeln!(f, " in {}", visible(path))?,
    }
    excerpts(f, style, sources, at, also, gutter, color)?;
    for help in help {
        writeln!(f, "{:gutter$} {frame}={reset} {strong}help{reset}: {}", "", visible(help))?;
    }
    Ok(())
}

/// The lines concerned, those of the file where the fault is first.
fn excerpts(
    f: &mut fmt::Formatter<'_>,
    style: Style,
    sources: &Sources,
    at: &Label,
    also: &[Label],
    gutter: usize,
    color: &str,
) -> fmt::Result {
    let Style { frame, reset, .. } = style;
    let mut marks: Vec<Mark<'_>> = vec![(at, '^', color)];
    marks.extend(also.iter().map(|label| (label, '-', frame)));
    // No line has what only a default says.
    marks.retain(|(label, ..)| label.span.location().is_some());
    let file = |(label, ..): &Mark<'_>| label.span.start.file;
    // The place of the fault is named above its lines already.
    marks.sort_by_key(|mark| {
        let place = mark.0.span.start;
        (place.file != at.span.start.file, place.file, place.line)
    });
    for of_file in marks.chunk_by(|one, other| file(one) == file(other)) {
        let first = of_file[0].0.span.start;
        if first.file != at.span.start.file {
            let name = visible(&sources.get(first.file).name);
            writeln!(f, "{:gutter$}{frame}:::{reset} {name}:{first}", "")?;
        }
        excerpt(f, style, sources, first.file, of_file, gutter)?;
    }
    Ok(())
}

/// A remark, and how its place is marked.
type Mark<'a> = (&'a Label, char, &'a str);

/// The lines of one file in their order, each with its marks.
fn excerpt(
    f: &mut fmt::Formatter<'_>,
    style: Style,
    sources: &Sources,
    file: FileId,
    marks: &[Mark<'_>],
    gutter: usize,
) -> fmt::Result {
    let Style { frame, reset, .. } = style;
    let source = sources.get(file);
    writeln!(f, "{:gutter$} {frame}|{reset}", "")?;
    let mut shown = None;
    for (label, mark, color) in marks {
        let number = label.span.start.line;
        let line = source.line(number);
        let from = cut(line, label);
        if shown != Some((number, from)) {
            if shown.is_some_and(|(before, _)| before + 1 < number) {
                writeln!(f, "{frame}...{reset}")?;
            }
            let text = window(line, from);
            writeln!(f, "{frame}{number:gutter$} |{reset} {text}")?;
            shown = Some((number, from));
        }
        let (lead, length) = extent(line, label, from);
        let marks = mark.to_string().repeat(length);
        let text = visible(&label.text);
        let row = format!("{:lead$}{color}{marks} {text}", "");
        writeln!(f, "{:gutter$} {frame}|{reset} {}{reset}", "", row.trim_end())?;
    }
    writeln!(f, "{:gutter$} {frame}|{reset}", "")
}

/// The character of the line from which it is shown, so that the mark is in view.
fn cut(line: &str, label: &Label) -> usize {
    let column = label.span.start.column as usize - 1;
    let is_short = line.len() <= LINE_WIDTH || line.chars().nth(LINE_WIDTH).is_none();
    if is_short { 0 } else { column.saturating_sub(LEAD) }
}

/// The visible part of a line.
fn window(line: &str, from: usize) -> String {
    let mut text = String::from(if from > 0 { "…" } else { "" });
    let mut rest = line[offset(line, from)..].chars();
    rest.by_ref().take(LINE_WIDTH).for_each(|c| show(&mut text, c));
    if rest.next().is_some() {
        text.push('…');
    }
    text
}

/// How many cells lie before the mark, and how many it covers.
fn extent(line: &str, label: &Label, from: usize) -> (usize, usize) {
    let start = label.span.start.column as usize - 1;
    let end = match label.span.end.line == label.span.start.line {
        true => label.span.end.column as usize - 1,
        false => usize::MAX,
    };
    let shown = line.trim_end().get(offset(line, from)..).unwrap_or("");
    let width = |from: usize, to: usize| -> usize {
        shown.chars().skip(from).take(to.saturating_sub(from)).map(cells).sum()
    };
    let (start, end) = (start - from, end.saturating_sub(from).min(LINE_WIDTH));
    let lead = width(0, start) + usize::from(from > 0);
    (lead, width(start, end).max(1))
}

/// Text from the file or about it, with nothing in it that a terminal would obey.
fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    text.chars().for_each(|c| show(&mut shown, c));
    shown
}

fn show(to: &mut String, c: char) {
    match c {
        '\t' => to.extend([' '; TAB]),
        '\0'..='\x1f' => to.push(char::from_u32(0x2400 + u32::from(c)).unwrap_or('\u{fffd}')),
        c if is_hidden(c) => to.push('\u{fffd}'),
        c => to.push(c),
    }
}

/// Control characters, and those that reorder or hide text around them.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// Cells that a character takes in a terminal.
fn cells(c: char) -> usize {
    match c {
        '\t' => TAB,
        '\u{300}'..='\u{36f}' => 0,
        '\u{1100}'..='\u{115f}'
        | '\u{2e80}'..='\u{a4cf}'
        | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}'
        | '\u{fe30}'..='\u{fe6f}'
        | '\u{ff00}'..='\u{ff60}'
        | '\u{1f300}'..='\u{1faff}'
        | '\u{20000}'..='\u{3fffd}' => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::location::{Location, Span};
    use crate::source::Source;

    struct Shown(Diagnostic);

    impl fmt::Display for Shown {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            let sources = Sources::of(Source::main("titan.yaml", "a: 1\nb: 2\n"));
            diagnostic(f, PLAIN, &sources, &self.0)
        }
    }

    #[test]
    fn what_only_a_default_says_has_no_line() {
        let place = Span::at(Location { file: FileId::MAIN, line: 2, column: 1 });
        let error = |span| Diagnostic::error(span, "they clash").label("it is here");
        let shown = Shown(error(Span::NOWHERE)).to_string();
        assert_eq!(shown, "error: they clash\n --> titan.yaml\n");
        let shown = Shown(error(Span::NOWHERE).also(place, "first here")).to_string();
        assert!(shown.contains(" --> titan.yaml\n  |\n2 | b: 2\n  | - first here\n"), "{shown}");
        let shown = Shown(error(place)).to_string();
        assert!(
            shown.contains(" --> titan.yaml:2:1\n  |\n2 | b: 2\n  | ^ it is here\n"),
            "{shown}"
        );
    }
}
