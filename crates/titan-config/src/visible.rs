//! What of the lines of a file a report may show. Whatever is not known to be harmless becomes stars: in a file with a
//! mistake, a secret may be anywhere.

use crate::location::{Location, Span};
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// What of a file may be shown.
#[derive(Clone, Debug)]
pub(crate) enum Visible {
    /// Where the structure is known: these parts, and what separates parts. Comments are left out.
    Parts {
        /// Keys and values.
        shown: Vec<Span>,
        /// Values of which nothing is shown, not even their punctuation.
        hidden: Vec<Span>,
    },
    /// Where it is not: of these words, which tell nothing, those in front of a colon.
    Keys(HashSet<&'static str>),
}

/// Nothing of it.
impl Default for Visible {
    fn default() -> Visible {
        Visible::Keys(HashSet::new())
    }
}

/// Parts of lines, in characters.
type OnLines = HashMap<u32, Vec<Range<usize>>>;

impl Visible {
    /// Lines by their numbers, as they may be shown. What is shown stays in its column.
    pub(crate) fn lines<'t>(
        &self,
        numbers: &HashSet<u32>,
        line: impl Fn(u32) -> &'t str,
    ) -> HashMap<u32, String> {
        match self {
            Visible::Parts { shown, hidden } => {
                let (shown, hidden) = (on_lines(shown, numbers), on_lines(hidden, numbers));
                let of =
                    |number: u32| only_parts(line(number), of(&shown, number), of(&hidden, number));
                numbers.iter().map(|number| (*number, of(*number))).collect()
            }
            Visible::Keys(keys) => {
                numbers.iter().map(|number| (*number, only_keys(line(*number), keys))).collect()
            }
        }
    }
}

impl Visible {
    /// The column in which the comment of a line begins, for those of the lines up to `last` that have one.
    pub(crate) fn comments<'t>(
        &self,
        last: u32,
        line: impl Fn(u32) -> &'t str,
    ) -> HashMap<u32, usize> {
        let Visible::Parts { shown, hidden } = self else { return HashMap::new() };
        let lines: HashMap<u32, Vec<char>> = (1..=last)
            .filter(|number| line(*number).contains('#'))
            .map(|number| (number, line(number).chars().collect()))
            .collect();
        let numbers: HashSet<u32> = lines.keys().copied().collect();
        let settled = |span: &Span| match lines.get(&span.end.line) {
            Some(last) => within_quotes(*span, last, &line),
            None => *span,
        };
        let parts: Vec<Span> = shown.iter().chain(hidden).map(settled).collect();
        let parts = on_lines(&parts, &numbers);
        let comment = |(number, characters): (&u32, &Vec<char>)| {
            let marks = marks(characters, of(&parts, *number), &[]);
            let at = (0..characters.len()).find(|at| begins_comment(characters, &marks, *at))?;
            Some((*number, at))
        };
        lines.iter().filter_map(comment).collect()
    }
}

/// The span to its closing quote, where it is in quotes: the parser takes what follows on that line for a part of it.
fn within_quotes<'t>(span: Span, last: &[char], line: &impl Fn(u32) -> &'t str) -> Span {
    let first = (span.start.column as usize).saturating_sub(1);
    let is_one_line = span.start.line == span.end.line;
    let quote = match is_one_line {
        true => last.get(first).copied(),
        false => line(span.start.line).chars().nth(first),
    };
    let Some(quote @ ('\'' | '"')) = quote else { return span };
    if is_block(span, line) {
        return span;
    }
    let mut at = if is_one_line { first + 1 } else { 0 };
    while let Some(c) = last.get(at) {
        let is_escape = *c == '\\' && quote == '"';
        let is_doubled = *c == '\'' && quote == '\'' && last.get(at + 1) == Some(&'\'');
        if is_escape || is_doubled {
            at += 2;
        } else if *c == quote {
            let column = u32::try_from(at + 2).unwrap_or(u32::MAX);
            return Span { end: Location { column, ..span.end }, ..span };
        } else {
            at += 1;
        }
    }
    span
}

/// Whether it is the content of a block scalar, where quotes mean nothing: it begins below the line that says so.
fn is_block<'t>(span: Span, line: &impl Fn(u32) -> &'t str) -> bool {
    let indent = (span.start.column as usize).saturating_sub(1);
    if !line(span.start.line).chars().take(indent).all(|c| c == ' ') {
        return false;
    }
    let above = (1..span.start.line).rev().map(line).find(|text| !text.trim().is_empty());
    let above = above.unwrap_or_default();
    let header = above.split(" #").next().unwrap_or_default().trim_end();
    let header = header.trim_end_matches(|c: char| c.is_ascii_digit() || c == '+' || c == '-');
    !above.trim_start().starts_with('#') && header.ends_with(['|', '>'])
}

fn of(parts: &OnLines, number: u32) -> &[Range<usize>] {
    parts.get(&number).map_or(&[], Vec::as_slice)
}

/// What of the spans is on the lines with those numbers.
fn on_lines(spans: &[Span], numbers: &HashSet<u32>) -> OnLines {
    let mut on_lines = OnLines::new();
    // Aliases repeat spans.
    let spans: HashSet<&Span> = spans.iter().collect();
    for Span { start, end } in spans {
        for line in (start.line..=end.line).filter(|line| numbers.contains(line)) {
            let column = |place: &Location| place.column.saturating_sub(1) as usize;
            let from = if start.line == line { column(start) } else { 0 };
            let to = if end.line == line { column(end) } else { usize::MAX };
            on_lines.entry(line).or_default().push(from..to);
        }
    }
    on_lines
}

/// A line with stars in place of what is not shown.
fn only_parts(line: &str, shown: &[Range<usize>], hidden: &[Range<usize>]) -> String {
    let characters: Vec<char> = line.chars().collect();
    let marks = marks(&characters, shown, hidden);
    let mut visible = String::with_capacity(line.len());
    for (index, (c, mark)) in characters.iter().zip(&marks).enumerate() {
        let is_blank = |at: Option<&char>| at.is_none_or(|c| c.is_whitespace());
        if begins_comment(&characters, &marks, index) {
            break;
        }
        let is_seen = match (mark, c) {
            (Mark::Shown, _) => true,
            (_, c) if c.is_whitespace() => true,
            (Mark::Hidden, _) => false,
            (Mark::Between, '-') => is_blank(characters.get(index + 1)),
            (Mark::Between, c) => ":,[]{}\"'|>?&!".contains(*c),
        };
        visible.push(if is_seen { *c } else { '*' });
    }
    visible
}

fn marks(characters: &[char], shown: &[Range<usize>], hidden: &[Range<usize>]) -> Vec<Mark> {
    let mut marks = vec![Mark::Between; characters.len()];
    for (parts, mark) in [(shown, Mark::Shown), (hidden, Mark::Hidden)] {
        for Range { start, end } in parts {
            let end = *end.min(&marks.len());
            marks.get_mut(*start..end).into_iter().for_each(|part| part.fill(mark));
        }
    }
    marks
}

fn begins_comment(characters: &[char], marks: &[Mark], at: usize) -> bool {
    let is_first = at.checked_sub(1).is_none_or(|before| characters[before].is_whitespace());
    is_first && characters[at] == '#' && marks[at] == Mark::Between
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    Shown,
    Hidden,
    Between,
}

/// A line with stars in place of all but the words that stand in front of a colon, and the dashes at its beginning.
fn only_keys(line: &str, keys: &HashSet<&'static str>) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let mut visible = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(dash) = rest.trim_start().strip_prefix("- ") {
        let (lead, after) = rest.split_at(rest.len() - dash.len());
        visible.push_str(lead);
        rest = after;
    }
    let mut before = None;
    while let Some(first) = rest.chars().next() {
        let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(length.max(first.len_utf8()));
        match keys.contains(word).then(|| colon_after(after)).flatten() {
            Some(length) => {
                if let Some(quote @ ('"' | '\'')) = before {
                    visible.pop();
                    visible.push(quote);
                }
                visible.push_str(word);
                visible.push_str(&after[..length]);
                rest = &after[length..];
            }
            None => {
                visible.extend(word.chars().map(|c| if c.is_whitespace() { c } else { '*' }));
                rest = after;
            }
        }
        before = word.chars().next_back();
    }
    visible
}

/// Where the colon behind a key ends, which may be in quotes.
fn colon_after(text: &str) -> Option<usize> {
    let rest = text.strip_prefix(['"', '\'']).unwrap_or(text);
    let rest = rest.trim_start_matches([' ', '\t']).strip_prefix(':')?;
    Some(text.len() - rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::location::FileId;

    #[test]
    fn of_lines_without_structure_words_of_the_language_are_seen() {
        let keys = HashSet::from(["secret", "keys"]);
        for (line, seen) in [
            ("", ""),
            ("  - keys: { secret: \"abc", "  - keys: * secret: ****"),
            ("\t- - secret : - a", "\t- - secret : * *"),
            ("{\"keys\":{\"secret\":\"keys", "*\"keys\":*\"secret\":*****"),
            ("secret keys", "****** ****"),
            ("secrets: secret.a: é: x-keys: 1", "******** ********* ** ******* *"),
        ] {
            assert_eq!(only_keys(line, &keys), seen, "{line}");
        }
    }

    #[test]
    fn of_other_lines_parts_and_what_is_between_them_are_seen() {
        let span = |start, end| {
            let at = |column| Location { file: FileId::MAIN, line: 1, column };
            Span { start: at(start), end: at(end) }
        };
        let visible =
            Visible::Parts { shown: vec![span(3, 4), span(3, 4)], hidden: vec![span(6, 9)] };
        let lines = |line: &'static str| visible.lines(&HashSet::from([1]), |_| line)[&1].clone();
        for (line, seen) in [
            ("- a: b:c # d", "- a: ***"),
            ("- a: b c, &d -e", "- a: * *, &* **"),
            ("- #", "- #"),
            ("é", "*"),
        ] {
            assert_eq!(lines(line).trim_end(), seen, "{line}");
        }
    }
}
