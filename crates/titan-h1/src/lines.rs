//! Field lines (RFC 9112 section 5), of heads and of trailer sections.

use crate::error::Error;
use crate::scan::{token_end, value_end};
use titan_http::{FieldName, Fields, Span};

/// Where reading stands in a section of field lines; the section ends with an empty line.
///
/// `line <= at <= text.len()`: what lies before `line` is done, what lies before `at` is checked.
#[derive(Debug, Default)]
pub(crate) struct Section {
    /// Where the unfinished line begins.
    line: usize,
    /// Where the colon of the unfinished line stands, once it is found.
    colon: Option<usize>,
    at: usize,
}

enum Next {
    Line { name: (usize, usize), value: (usize, usize) },
    End,
    Unfinished,
}

impl Section {
    /// A section whose first line begins at `start`.
    pub(crate) fn at(start: usize) -> Section {
        Section { line: start, colon: None, at: start }
    }

    /// Reads the lines that are complete in `text`, which has grown since the last call.
    ///
    /// They become lines of `fields`, as offsets into `text`, after `inspect` has seen them. Returns
    /// where the section ends, once it does.
    #[inline]
    pub(crate) fn read(
        &mut self,
        text: &[u8],
        max_fields: usize,
        fields: &mut Fields,
        mut inspect: impl FnMut(FieldName, &[u8], &[u8]) -> Result<(), Error>,
    ) -> Result<Option<usize>, Error> {
        loop {
            let (name, value) = match self.next(text)? {
                Next::Line { name, value } => (name, value),
                Next::End => return Ok(Some(self.at)),
                Next::Unfinished => return Ok(None),
            };
            if fields.len() == max_fields {
                return Err(Error::TooManyFields);
            }
            let id = FieldName::of(&text[name.0..name.1]);
            inspect(id, &text[name.0..name.1], &text[value.0..value.1])?;
            fields.push_line(id, Span::new(name.0, name.1), Span::new(value.0, value.1));
        }
    }

    #[inline]
    fn next(&mut self, text: &[u8]) -> Result<Next, Error> {
        let colon = match self.colon {
            Some(colon) => colon,
            None => {
                if self.at == self.line && text.get(self.at) == Some(&b'\r') {
                    return self.end(text);
                }
                self.at = token_end(text, self.at);
                match text.get(self.at) {
                    None => return Ok(Next::Unfinished),
                    Some(b':') if self.at > self.line => self.at,
                    Some(&byte) => return Err(name_fault(byte, self.at == self.line)),
                }
            }
        };
        self.colon = Some(colon);
        self.at = value_end(text, self.at.max(colon + 1));
        if !line_ends(text, self.at, Error::ValueByte)? {
            return Ok(Next::Unfinished);
        }
        let name = (self.line, colon);
        let value = trimmed(text, colon + 1, self.at);
        *self = Section::at(self.at + 2);
        Ok(Next::Line { name, value })
    }

    fn end(&mut self, text: &[u8]) -> Result<Next, Error> {
        if !line_ends(text, self.at, Error::ValueByte)? {
            return Ok(Next::Unfinished);
        }
        self.at += 2;
        Ok(Next::End)
    }
}

/// Whether CRLF stands at `at`; `false` when that cannot be told yet. Any other byte is a fault, and
/// `otherwise` names it when it is no half of a line end.
#[inline]
pub(crate) fn line_ends(text: &[u8], at: usize, otherwise: Error) -> Result<bool, Error> {
    let rest = &text[at..];
    if rest.first_chunk() == Some(b"\r\n") {
        return Ok(true);
    }
    line_end_fault(rest, otherwise)
}

#[cold]
fn line_end_fault(rest: &[u8], otherwise: Error) -> Result<bool, Error> {
    match rest {
        [] | [b'\r'] => Ok(false),
        [b'\r', ..] => Err(Error::BareCr),
        [b'\n', ..] => Err(Error::BareLf),
        _ => Err(otherwise),
    }
}

#[cold]
fn name_fault(byte: u8, at_start: bool) -> Error {
    match byte {
        b' ' | b'\t' if at_start => Error::ObsFold,
        b' ' | b'\t' => Error::SpaceBeforeColon,
        b':' => Error::EmptyFieldName,
        b'\n' => Error::BareLf,
        _ => Error::FieldNameByte,
    }
}

/// `start..end` without the optional white space at both sides: mostly one SP in front.
#[inline]
fn trimmed(text: &[u8], mut start: usize, mut end: usize) -> (usize, usize) {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t');
    start += usize::from(text.get(start) == Some(&b' '));
    while text[..end].get(start).is_some_and(is_space) {
        start += 1;
    }
    while text[start..end].last().is_some_and(is_space) {
        end -= 1;
    }
    (start, end)
}
