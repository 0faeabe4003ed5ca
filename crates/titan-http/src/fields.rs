//! The fields of a head (RFC 9110 section 5): lines of name and value in one text buffer, in order.

use crate::field_name::{FieldName, FieldSet};
use crate::text::{MAX_TEXT, Span, is_field_byte, is_token, list_members};
use std::fmt;

/// The fields of one message, in the order received.
///
/// Names keep the case they came in and compare without it. Removing a line leaves its bytes in the
/// text until [`Fields::clear`]; nothing is ever moved, so spans stay valid. Lines that are added stand in the
/// text as HTTP/1.1 writes them, as received ones of it do: most of a head can be written in one piece.
#[derive(Clone, Default)]
pub struct Fields {
    /// Every byte that a span refers to: the head as received, then what was added.
    text: Vec<u8>,
    lines: Vec<Line>,
    /// The names that lines have; perhaps a few more, whose lines were removed. Most questions are for
    /// names that a message does not have, and are handled here.
    names: FieldSet,
}

/// One field line.
#[derive(Clone, Copy, Debug)]
pub struct Field<'a> {
    /// Which of the known names it has.
    pub id: FieldName,
    /// The name as received.
    pub name: &'a [u8],
    /// The value without the white space around it.
    pub value: &'a [u8],
}

/// Why a field cannot be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadField {
    /// The name is no token.
    Name,
    /// The value has a byte that no field value may have, such as CR, LF or NUL.
    Value,
    /// The head would exceed [`Fields::MAX_TEXT`].
    TooLong,
}

#[derive(Clone, Copy)]
struct Line {
    name: Span,
    value: Span,
    id: FieldName,
}

impl Fields {
    /// What a head's text may grow to, whatever the limits on received heads say.
    pub const MAX_TEXT: usize = MAX_TEXT;
    /// The room that the first field makes, enough for most heads: growing to it field by field takes four allocations.
    const FIRST_TEXT: usize = 256;

    /// Forgets all fields and keeps the memory.
    pub fn clear(&mut self) {
        self.text.clear();
        self.lines.clear();
        self.names = FieldSet::default();
    }

    /// The bytes that spans refer to.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// The memory that they take, used or not.
    pub fn capacity(&self) -> usize {
        self.text.capacity() + self.lines.capacity() * size_of::<Line>()
    }

    /// How many lines there are.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Whether there is no line.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The names that the lines have: certainly each of these, and perhaps some that were removed.
    #[inline]
    pub fn names(&self) -> FieldSet {
        self.names
    }

    /// All lines in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Field<'_>> {
        self.lines.iter().map(|line| Field {
            id: line.id,
            name: line.name.of(&self.text),
            value: line.value.of(&self.text),
        })
    }

    /// Where in the text the name and the value of each line are, in order.
    pub fn spans(&self) -> impl Iterator<Item = (Span, Span)> {
        self.lines.iter().map(|line| (line.name, line.value))
    }

    /// The lines in order: which of the known names each has, and where its name and value are.
    pub fn lines(&self) -> impl Iterator<Item = (FieldName, Span, Span)> {
        self.lines.iter().map(|line| (line.id, line.name, line.value))
    }

    /// The first value of a known field.
    pub fn get(&self, id: FieldName) -> Option<&[u8]> {
        self.all(id).next()
    }

    /// Every value of a known field, in order.
    pub fn all(&self, id: FieldName) -> impl DoubleEndedIterator<Item = &[u8]> {
        debug_assert_ne!(id, FieldName::Other, "an unknown name is looked up with `named`");
        let lines = if self.names.has(id) { self.lines.as_slice() } else { &[] };
        lines.iter().filter(move |line| line.id == id).map(|line| line.value.of(&self.text))
    }

    /// Every value of the field with that name, in any case, in order.
    pub fn named<'a>(&'a self, name: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        self.iter()
            .filter(move |field| field.name.eq_ignore_ascii_case(name))
            .map(|field| field.value)
    }

    /// Every member of a field that is a comma-separated list, over all its lines, empty ones too.
    pub fn members(&self, id: FieldName) -> impl Iterator<Item = &[u8]> {
        self.all(id).flat_map(list_members)
    }

    /// Adds a line behind the others.
    pub fn append(&mut self, name: FieldName, value: &[u8]) -> Result<(), BadField> {
        let (name_span, value_span) = self.store(name.as_str().as_bytes(), value)?;
        self.push_line(name, name_span, value_span);
        Ok(())
    }

    /// Adds a line with any name behind the others.
    pub fn append_named(&mut self, name: &[u8], value: &[u8]) -> Result<(), BadField> {
        if !is_token(name) {
            return Err(BadField::Name);
        }
        let (name_span, value_span) = self.store(name, value)?;
        self.push_line(FieldName::of(name), name_span, value_span);
        Ok(())
    }

    /// Makes `value` the only value of a known field.
    pub fn set(&mut self, name: FieldName, value: &[u8]) -> Result<(), BadField> {
        let stored = self.store(name.as_str().as_bytes(), value)?;
        self.remove(name);
        self.push_line(name, stored.0, stored.1);
        Ok(())
    }

    /// Makes `value` the only value of the field with that name.
    pub fn set_named(&mut self, name: &[u8], value: &[u8]) -> Result<(), BadField> {
        if !is_token(name) {
            return Err(BadField::Name);
        }
        let stored = self.store(name, value)?;
        self.remove_named(name);
        self.push_line(FieldName::of(name), stored.0, stored.1);
        Ok(())
    }

    /// Removes every line of a known field.
    pub fn remove(&mut self, id: FieldName) {
        if self.names.has(id) {
            self.lines.retain(|line| line.id != id);
            self.names.remove(id);
        }
    }

    /// Removes every line with that name.
    pub fn remove_named(&mut self, name: &[u8]) {
        let text = &self.text;
        self.lines.retain(|line| !line.name.of(text).eq_ignore_ascii_case(name));
    }

    /// Gives every line with the name `from` the name `to`. Where there is such a line, those that had the name
    /// `to` before are removed.
    pub fn rename(&mut self, from: &[u8], to: &[u8]) -> Result<(), BadField> {
        if !is_token(to) {
            return Err(BadField::Name);
        }
        if self.named(from).next().is_none() || from.eq_ignore_ascii_case(to) {
            return Ok(());
        }
        self.remove_named(to);
        let (id, (name, _)) = (FieldName::of(to), self.push_pair(to, b"")?);
        self.names.insert(id);
        for line in &mut self.lines {
            if line.name.of(&self.text).eq_ignore_ascii_case(from) {
                (line.name, line.id) = (name, id);
            }
        }
        Ok(())
    }

    /// Keeps only the lines for which `keep` holds.
    pub fn retain(&mut self, mut keep: impl FnMut(Field<'_>) -> bool) {
        let text = &self.text;
        self.lines.retain(|line| {
            keep(Field { id: line.id, name: line.name.of(text), value: line.value.of(text) })
        });
    }

    /// Puts bytes into the text without making a line of them; spans are offsets from its start.
    pub fn push_text(&mut self, bytes: &[u8]) -> Result<Span, BadField> {
        let start = self.text.len();
        if bytes.len() > Fields::MAX_TEXT - start {
            return Err(BadField::TooLong);
        }
        self.text.extend_from_slice(bytes);
        Ok(Span::new(start, self.text.len()))
    }

    /// Adds a line whose bytes are, or will be, in the text. For parsers, which have checked them.
    #[inline]
    pub fn push_line(&mut self, id: FieldName, name: Span, value: Span) {
        self.names.insert(id);
        self.lines.push(Line { name, value, id });
    }

    /// Adds a line behind the others. For parsers, which have checked its bytes and know which name it is.
    #[inline]
    pub fn push_checked(
        &mut self,
        id: FieldName,
        name: &[u8],
        value: &[u8],
    ) -> Result<(), BadField> {
        let (name, value) = self.push_pair(name, value)?;
        self.push_line(id, name, value);
        Ok(())
    }

    /// Gives the line at that place a value that is in the text already. For parsers: a value may come in
    /// pieces, of which the last is known long after the first.
    pub fn replace_value(&mut self, place: usize, value: Span) {
        if let Some(line) = self.lines.get_mut(place) {
            line.value = value;
        }
    }

    fn store(&mut self, name: &[u8], value: &[u8]) -> Result<(Span, Span), BadField> {
        // Without a branch for each byte: the compiler makes vectors of it.
        if !value.iter().fold(true, |fine, &byte| fine & is_field_byte(byte)) {
            return Err(BadField::Value);
        }
        self.push_pair(name, value)
    }

    #[inline]
    fn push_pair(&mut self, name: &[u8], value: &[u8]) -> Result<(Span, Span), BadField> {
        let start = self.text.len();
        let (middle, end) = (start + name.len(), start + name.len() + value.len() + b": ".len());
        if end > Fields::MAX_TEXT - b"\r\n".len() {
            return Err(BadField::TooLong);
        }
        let room = end - start + b"\r\n".len();
        self.text.reserve(if start == 0 { room.max(Fields::FIRST_TEXT) } else { room });
        for part in [name, b": ", value, b"\r\n"] {
            self.text.extend_from_slice(part);
        }
        Ok((Span::new(start, middle), Span::new(middle + b": ".len(), end)))
    }
}

impl fmt::Debug for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        f.debug_map()
            .entries(self.iter().map(|field| (text(field.name), text(field.value))))
            .finish()
    }
}

impl fmt::Display for BadField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BadField::Name => "the field name is not a token",
            BadField::Value => "the field value contains a byte that is not allowed",
            BadField::TooLong => "the head is too long",
        })
    }
}

impl std::error::Error for BadField {}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Fields {
        let mut fields = Fields::default();
        fields.append_named(b"Host", b"a").unwrap();
        fields.append_named(b"x-one", b"1, 2").unwrap();
        fields.append_named(b"VIA", b"1.1 b").unwrap();
        fields.append_named(b"via", b"1.1 c,,").unwrap();
        fields
    }

    #[test]
    fn names_compare_without_case_and_keep_it() {
        let fields = sample();
        assert_eq!(fields.get(FieldName::Via), Some(b"1.1 b".as_slice()));
        assert_eq!(fields.named(b"X-ONE").next(), Some(b"1, 2".as_slice()));
        assert_eq!(fields.iter().nth(2).unwrap().name, b"VIA");
    }

    #[test]
    fn lists_run_over_all_lines() {
        let fields = sample();
        let members: Vec<_> = fields.members(FieldName::Via).collect();
        assert_eq!(members, [b"1.1 b".as_slice(), b"1.1 c", b"", b""]);
    }

    #[test]
    fn set_leaves_one_value() {
        let mut fields = sample();
        fields.set(FieldName::Via, b"1.1 d").unwrap();
        assert_eq!(fields.all(FieldName::Via).collect::<Vec<_>>(), [b"1.1 d"]);
        fields.set_named(b"X-One", b"3").unwrap();
        assert_eq!(fields.named(b"x-one").collect::<Vec<_>>(), [b"3"]);
        assert_eq!(fields.len(), 3);
    }

    #[test]
    fn a_field_gets_another_name_in_place_of_what_had_it() {
        let mut fields = sample();
        fields.rename(b"VIA", b"Host").unwrap();
        assert_eq!(
            fields.all(FieldName::Host).collect::<Vec<_>>(),
            [b"1.1 b".as_slice(), b"1.1 c,,"]
        );
        assert_eq!(fields.get(FieldName::Via), None);
        fields.rename(b"x-none", b"Host").unwrap();
        fields.rename(b"x-one", b"X-ONE").unwrap();
        assert_eq!(fields.len(), 3);
        assert_eq!(fields.rename(b"x-one", b"a b"), Err(BadField::Name));
    }

    #[test]
    fn no_line_end_can_be_put_into_a_field() {
        let mut fields = sample();
        for value in [b"a\r\nB: c".as_slice(), b"a\nb", b"a\0"] {
            assert_eq!(fields.append(FieldName::Via, value), Err(BadField::Value));
        }
        assert_eq!(fields.append_named(b"a b", b""), Err(BadField::Name));
        assert_eq!(fields.len(), 4);
    }

    #[test]
    fn a_value_may_be_completed_later() {
        let mut fields = sample();
        fields.push_checked(FieldName::Cookie, b"cookie", b"a=1").unwrap();
        fields.append_named(b"x-two", b"2").unwrap();
        let whole = fields.push_text(b"a=1; b=2").unwrap();
        fields.replace_value(4, whole);
        assert_eq!(fields.all(FieldName::Cookie).collect::<Vec<_>>(), [b"a=1; b=2"]);
        assert_eq!(fields.iter().next_back().unwrap().value, b"2");
    }

    #[test]
    fn text_is_bounded() {
        let mut fields = sample();
        let long = vec![b'a'; Fields::MAX_TEXT];
        assert_eq!(fields.append(FieldName::Via, &long), Err(BadField::TooLong));
    }
}
