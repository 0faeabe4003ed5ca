//! The texts of the files of a configuration, for showing their lines.

use crate::location::{FileId, Location, Span};
use crate::visible::Visible;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The files of a configuration, the one that was asked for first.
#[derive(Clone, Debug)]
pub(crate) struct Sources(Vec<Arc<Source>>);

impl Sources {
    pub(crate) fn of(main: Source) -> Sources {
        Sources(vec![Arc::new(main)])
    }

    /// The file that was asked for.
    pub(crate) fn main(&self) -> &Source {
        &self.0[0]
    }

    /// Takes another one, with the next number.
    pub(crate) fn push(&mut self, source: impl FnOnce(FileId) -> Source) -> FileId {
        let file = FileId::of_index(self.0.len());
        self.0.push(Arc::new(source(file)));
        file
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn shared(&self, file: FileId) -> Arc<Source> {
        Arc::clone(self.0.get(file.index()).unwrap_or(&self.0[0]))
    }

    /// The file in which something is.
    pub(crate) fn with(&self, span: Span) -> &Source {
        self.get(span.start.file)
    }

    pub(crate) fn get(&self, file: FileId) -> &Source {
        self.0.get(file.index()).unwrap_or(&self.0[0])
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Source> {
        self.0.iter().map(Arc::as_ref)
    }

    /// The same with stars in these places.
    pub(crate) fn without(&self, hidden: &[Span]) -> Sources {
        let without = |source: &Arc<Source>| {
            let is_here = |span: &&Span| span.start.file == source.file;
            let hidden: Vec<Span> = hidden.iter().filter(is_here).copied().collect();
            match hidden.is_empty() {
                true => Arc::clone(source),
                false => Arc::new(source.without(&hidden)),
            }
        };
        Sources(self.0.iter().map(without).collect())
    }

    /// Only these lines, with what may be shown of them. All other lines are empty.
    pub(crate) fn showing(
        &self,
        visible: &HashMap<FileId, Visible>,
        lines: &HashMap<FileId, HashSet<u32>>,
    ) -> Sources {
        let nothing = (Visible::default(), HashSet::new());
        let showing = |source: &Arc<Source>| {
            let visible = visible.get(&source.file).unwrap_or(&nothing.0);
            let lines = lines.get(&source.file).unwrap_or(&nothing.1);
            Arc::new(source.showing(visible, lines))
        };
        Sources(self.0.iter().map(showing).collect())
    }

    pub(crate) fn names(&self) -> FileNames {
        FileNames(self.0.iter().map(|source| source.name.clone()).collect())
    }
}

/// What messages call the files of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileNames(Arc<[String]>);

impl FileNames {
    /// What they call the file with that place.
    pub fn of(&self, place: Location) -> &str {
        self.0.get(place.file.index()).map_or("", String::as_str)
    }
}

/// The text of a file, for showing its lines.
pub(crate) struct Source {
    pub(crate) file: FileId,
    pub(crate) name: String,
    /// Its directory, from that of the file that was asked for.
    directory: PathBuf,
    /// Whether it may name nothing of this machine.
    is_confined: bool,
    /// Whether a source has delivered it.
    is_delivered: bool,
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
    /// The file that was asked for.
    pub(crate) fn main(name: &str, text: &str) -> Source {
        Source::new(FileId::MAIN, name, PathBuf::new(), text)
    }

    pub(crate) fn new(file: FileId, name: &str, directory: PathBuf, text: &str) -> Source {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let starts = std::iter::once(0).chain(line_starts(text)).collect();
        let (name, text) = (name.to_owned(), text.to_owned());
        let (is_confined, is_delivered) = (false, false);
        Source { file, name, directory, is_confined, is_delivered, text, starts }
    }

    /// The same, which may name nothing of this machine where that is so.
    pub(crate) fn confined(self, is_confined: bool) -> Source {
        Source { is_confined, ..self }
    }

    /// The same, as a source has delivered it.
    pub(crate) fn delivered(self) -> Source {
        Source { is_delivered: true, ..self }
    }

    /// Whether a source has delivered it.
    pub(crate) fn is_delivered(&self) -> bool {
        self.is_delivered
    }

    /// Whether it may name nothing of this machine: no files, no variables.
    pub(crate) fn is_confined(&self) -> bool {
        self.is_confined
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
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
    pub(crate) fn settled(&self, span: Span) -> Span {
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
    pub(crate) fn without(&self, hidden: &[Span]) -> Source {
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
        Source::new(self.file, &self.name, self.directory.clone(), &text)
    }

    /// The text with something else in place of these parts; blanks at the end of a part stay.
    pub(crate) fn replacing(&self, parts: impl Iterator<Item = Span>, with: &str) -> String {
        let place = |at: Location| {
            let index = (at.line as usize).saturating_sub(1);
            let start = self.starts.get(index).copied().unwrap_or(self.text.len());
            let end = self.starts.get(index + 1).copied().unwrap_or(self.text.len());
            start + offset(&self.text[start..end], at.column.saturating_sub(1) as usize)
        };
        let mut parts: Vec<_> = parts.map(|it| place(it.start)..place(it.end)).collect();
        parts.sort_unstable_by_key(|part| (part.start, part.end));
        let (mut text, mut done) = (String::with_capacity(self.text.len()), 0);
        for Range { start, end } in parts {
            let end = start + self.text.get(start..end).unwrap_or_default().trim_end().len();
            // What is within another part is replaced with it.
            if start >= done && end > start {
                text.push_str(&self.text[done..start]);
                text.push_str(with);
            }
            done = done.max(end);
        }
        text.push_str(&self.text[done..]);
        text
    }

    /// The same without what comments say.
    pub(crate) fn without_comments(&self, visible: &Visible) -> Source {
        let last = u32::try_from(self.starts.len()).unwrap_or(u32::MAX);
        let comments = visible.comments(last, |number| self.line(number));
        let mut text = String::with_capacity(self.text.len());
        for (index, start) in self.starts.iter().enumerate() {
            let end = self.starts.get(index + 1).copied().unwrap_or(self.text.len());
            let line = &self.text[*start..end];
            match u32::try_from(index + 1).ok().and_then(|number| comments.get(&number)) {
                None => text.push_str(line),
                // The mark stays: an empty line could become a part of the text before it.
                Some(column) => {
                    text.push_str(&line[..offset(line, *column)]);
                    text.push('#');
                    text.push_str(&line[line.trim_end_matches(['\r', '\n']).len()..]);
                }
            }
        }
        Source::new(self.file, &self.name, self.directory.clone(), &text)
    }

    fn showing(&self, visible: &Visible, numbers: &HashSet<u32>) -> Source {
        let lines = visible.lines(numbers, |number| self.line(number));
        let last = numbers.iter().copied().max().unwrap_or_default();
        let mut text = String::new();
        for number in 1..=last {
            text.push_str(lines.get(&number).map_or("", String::as_str));
            text.push('\n');
        }
        Source::new(self.file, &self.name, self.directory.clone(), &text)
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

    /// The place of a part of a text that stands at `span`; nothing when escapes or line breaks stand between it and the
    /// text of the file.
    pub(crate) fn part(&self, text: &str, span: Span, part: Range<usize>) -> Option<Span> {
        let written = self.slice(span).trim_end_matches([' ', '\t']);
        let quotes = match written.len() - written.trim_start_matches(['"', '\'']).len() {
            0 if written == text => 0,
            1 if written.get(1..written.len() - 1) == Some(text) => 1,
            _ => return None,
        };
        let column = |byte: usize| -> Option<u32> {
            let characters = text.get(..byte)?.chars().count() + quotes;
            Some(span.start.column + u32::try_from(characters).ok()?)
        };
        let (start, end) = (column(part.start)?, column(part.end)?);
        let on = |column| Location { column, ..span.start };
        Some(Span { start: on(start), end: on(end) })
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
