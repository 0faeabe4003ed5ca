//! What is wrong with a configuration, all of it, each with its place in the file.

use crate::Location;
use crate::bounds::MAX_DIAGNOSTICS;
use crate::render;
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Everything found in one file, in the order of the file. `Display` shows it as plain text.
#[derive(Clone, Debug)]
pub struct Report {
    source: Arc<Source>,
    diagnostics: Vec<Diagnostic>,
    omitted: usize,
}

impl Report {
    pub(crate) fn new(source: Arc<Source>, findings: Findings) -> Report {
        let Findings { errors: mut diagnostics, warnings, omitted, hidden } = findings;
        diagnostics.extend(warnings);
        for diagnostic in &mut diagnostics {
            let labels = std::iter::once(&mut diagnostic.at).chain(&mut diagnostic.also);
            labels.for_each(|label| label.span = source.settled(label.span));
        }
        diagnostics.sort_by_key(|diagnostic| (diagnostic.severity, diagnostic.at.span));
        let is_shown = !diagnostics.is_empty() && !hidden.is_empty();
        let source = if is_shown { Arc::new(source.without(&hidden)) } else { source };
        Report { source, diagnostics, omitted }
    }

    /// The report on a file in which nothing was found; it does not keep the file.
    pub(crate) fn nothing(name: &str) -> Report {
        Report::new(Arc::new(Source::new(name, "")), Findings::default())
    }

    /// The same text with the colours of a terminal.
    pub fn colored(&self) -> impl fmt::Display + use<'_> {
        Colored(self)
    }

    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.diagnostics.is_empty()
    }

    /// What was found: errors first, then warnings, each in the order of the file.
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }
}

struct Colored<'a>(&'a Report);

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        render::report(f, render::PLAIN, &self.source, &self.diagnostics, self.omitted)
    }
}

impl fmt::Display for Colored<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { source, diagnostics, omitted } = self.0;
        render::report(f, render::ANSI, source, diagnostics, *omitted)
    }
}

impl std::error::Error for Report {}

/// What has been found so far. Beyond [`MAX_DIAGNOSTICS`] of a kind it only counts.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    errors: Vec<Diagnostic>,
    warnings: Vec<Diagnostic>,
    omitted: usize,
    /// Where secrets stand.
    hidden: Vec<Span>,
}

impl Findings {
    /// Has what stands there not shown.
    pub(crate) fn hide(&mut self, span: Span) {
        self.hidden.push(span);
    }

    pub(crate) fn add(&mut self, diagnostic: Diagnostic) {
        let found = match diagnostic.severity {
            Severity::Error => &mut self.errors,
            Severity::Warning => &mut self.warnings,
        };
        if found.len() < MAX_DIAGNOSTICS {
            found.push(diagnostic);
        } else {
            self.omitted += 1;
        }
    }

    /// Whether a further error would only be counted, so that nobody needs to think about its help.
    pub(crate) fn is_full(&self) -> bool {
        self.errors.len() >= MAX_DIAGNOSTICS
    }

    /// How many errors there are, and the last of them.
    pub(crate) fn last_error(&mut self) -> (usize, Option<&mut Diagnostic>) {
        (self.errors.len(), self.errors.last_mut())
    }

    pub(crate) fn has_errors(&self) -> bool {
        !self.errors.is_empty()
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Whether the file can be served all the same.
    pub severity: Severity,
    /// What is wrong, in one line.
    pub message: String,
    /// Where, and what was expected there.
    pub at: Label,
    /// The other places that have to do with it.
    pub also: Vec<Label>,
    /// The value concerned, as in `routes[2].timeouts`; empty for the file as a whole.
    pub path: String,
    /// What can be done about it.
    pub help: Vec<String>,
}

/// Whether the file can be served all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It cannot.
    Error,
    /// It can, but is probably not what was meant.
    Warning,
}

/// A place with a remark; the remark may be empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The place.
    pub span: Span,
    /// The remark.
    pub text: String,
}

/// A part of the file. It may be empty, and it may go over several lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// Its first character.
    pub start: Location,
    /// The character after its last.
    pub end: Location,
}

impl Span {
    /// The place of what no file says: the default of a field.
    pub(crate) const NOWHERE: Span = Span::at(Location { line: 0, column: 0 });
    /// The beginning of the file.
    pub(crate) const START: Span = Span::at(Location { line: 1, column: 1 });

    pub(crate) const fn at(location: Location) -> Span {
        Span { start: location, end: location }
    }

    /// Where it starts, unless nothing in the file says it.
    pub(crate) fn location(self) -> Option<Location> {
        (self != Span::NOWHERE).then_some(self.start)
    }
}

impl Diagnostic {
    pub(crate) fn error(span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            severity: Severity::Error,
            message: message.into(),
            at: Label { span, text: String::new() },
            also: Vec::new(),
            path: String::new(),
            help: Vec::new(),
        }
    }

    pub(crate) fn warning(span: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(span, message) }
    }

    /// The remark under the place.
    pub(crate) fn label(mut self, text: impl Into<String>) -> Diagnostic {
        self.at.text = text.into();
        self
    }

    /// A second place; one that only a default has is left out.
    pub(crate) fn also(mut self, span: Span, text: impl Into<String>) -> Diagnostic {
        if span != Span::NOWHERE {
            self.also.push(Label { span, text: text.into() });
        }
        self
    }

    pub(crate) fn help(mut self, text: impl Into<String>) -> Diagnostic {
        self.help.push(text.into());
        self
    }
}

/// The text of a file, for showing its lines.
pub(crate) struct Source {
    pub(crate) name: String,
    text: String,
    /// Where each line starts in `text`.
    starts: Vec<usize>,
}

/// The text is left out: a configuration that is shown would show its whole file too.
impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Source {
    pub(crate) fn new(name: &str, text: &str) -> Source {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let starts = std::iter::once(0).chain(line_starts(text)).collect();
        Source { name: name.to_owned(), text: text.to_owned(), starts }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// A line without its end; empty behind the last one.
    pub(crate) fn line(&self, number: u32) -> &str {
        let index = (number as usize).saturating_sub(1);
        let Some(&start) = self.starts.get(index) else { return "" };
        let end = self.starts.get(index + 1).copied().unwrap_or(self.text.len());
        self.text[start..end].trim_end_matches(['\r', '\n'])
    }

    /// The span within its lines: in directives the parser counts bytes, and behind quotes it takes the
    /// white space for a part of the text.
    fn settled(&self, span: Span) -> Span {
        let within = |place: Location| {
            let line = self.line(place.line);
            let last = u32::try_from(line.chars().count()).unwrap_or(u32::MAX).saturating_add(1);
            Location { column: place.column.min(last), ..place }
        };
        let span = Span { start: within(span.start), end: within(span.end) };
        let text = self.slice(span);
        let blank = text.len() - text.trim_end_matches([' ', '\t']).len();
        let column = span.end.column - u32::try_from(blank).unwrap_or(0);
        Span { end: Location { column, ..span.end }, ..span }
    }

    /// The same with stars in these places: as many as there are characters, so that all others stay where they are.
    fn without(&self, hidden: &[Span]) -> Source {
        let mut on_lines: HashMap<u32, Vec<Range<usize>>> = HashMap::new();
        for Span { start, end } in hidden {
            for line in start.line..=end.line {
                let is_in = |place: &Location| (place.line == line).then_some(place.column);
                let from = is_in(start).map_or(0, |column| column.saturating_sub(1) as usize);
                let to = is_in(end).map_or(usize::MAX, |column| column.saturating_sub(1) as usize);
                on_lines.entry(line).or_default().push(from..to);
            }
        }
        let mut text = String::with_capacity(self.text.len());
        for (index, start) in self.starts.iter().enumerate() {
            let end = self.starts.get(index + 1).copied().unwrap_or(self.text.len());
            let line = &self.text[*start..end];
            match u32::try_from(index + 1).ok().and_then(|number| on_lines.get(&number)) {
                None => text.push_str(line),
                Some(parts) => text.extend(with_stars(line, parts)),
            }
        }
        Source::new(&self.name, &text)
    }

    /// The text of a span that lies within one line; empty for a longer one.
    pub(crate) fn slice(&self, span: Span) -> &str {
        if span.start.line != span.end.line {
            return "";
        }
        let line = self.line(span.start.line);
        let offset = |column: u32| offset(line, (column as usize).saturating_sub(1));
        line.get(offset(span.start.column)..offset(span.end.column)).unwrap_or("")
    }
}

/// Where the character with that index starts; the end of the line when there is none.
///
/// A whole file may be one line, so plain text is not walked through.
pub(crate) fn offset(line: &str, index: usize) -> usize {
    match line.is_ascii() {
        true => index.min(line.len()),
        false => line.char_indices().nth(index).map_or(line.len(), |(at, _)| at),
    }
}

/// The characters of a line, with stars in place of these; blanks at the end of a part are none of it.
fn with_stars(line: &str, parts: &[Range<usize>]) -> Vec<char> {
    let mut characters: Vec<char> = line.chars().collect();
    for Range { start, end } in parts {
        let end = *end.min(&characters.len());
        let Some(part) = characters.get_mut(*start..end) else { continue };
        let blank = part.iter().rev().take_while(|letter| letter.is_whitespace()).count();
        let length = part.len() - blank;
        part[..length].fill('*');
    }
    characters
}

/// Where lines start after the first: after a line feed, and after a carriage return without one, as in YAML.
fn line_starts(text: &str) -> impl Iterator<Item = usize> {
    let bytes = text.as_bytes();
    let ends = move |at: &usize| match bytes[*at] {
        b'\n' => true,
        b'\r' => bytes.get(at + 1) != Some(&b'\n'),
        _ => false,
    };
    (0..bytes.len()).filter(ends).map(|at| at + 1)
}
