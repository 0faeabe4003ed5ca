//! The objects of a list in JSON, out of the pieces in which it comes, so that a long list needs no memory.
//!
//! Finds where each object ends, and judges nothing else of it: whoever reads it does.

/// A list of which a part has come.
pub(crate) struct Items {
    place: Place,
    nesting: Nesting,
    /// The beginning of the object that has not ended, of at most `most` bytes.
    begun: Vec<u8>,
    /// Bytes of that object so far.
    size: usize,
    /// Bytes that an object may have.
    most: usize,
    /// Bytes since the last object.
    between: usize,
}

/// An object of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Item<'i> {
    Whole(&'i [u8]),
    /// One with more bytes than it may have: those with which it begins.
    TooLarge(&'i [u8]),
}

/// This is no list of objects.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NoList;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Before the list.
    Before,
    /// Between its objects.
    Between,
    /// In one of them.
    Within,
    /// Behind the list.
    Behind,
}

/// How deep in an object the next byte is.
#[derive(Default)]
struct Nesting {
    depth: usize,
    text: Text,
}

#[derive(Clone, Copy, Default)]
enum Text {
    #[default]
    Outside,
    Inside,
    /// Behind a backslash.
    Escaped,
}

/// Commas and blanks between two objects, before the first or behind the last.
const MAX_BETWEEN: usize = 64;

impl Items {
    /// A list whose objects have at most so many bytes.
    pub(crate) fn new(most: usize) -> Items {
        Items {
            place: Place::Before,
            nesting: Nesting::default(),
            begun: Vec::new(),
            size: 0,
            most,
            between: 0,
        }
    }

    /// Shows `take` each object that ends in this piece, up to the first that it fails on.
    pub(crate) fn take<E: From<NoList>>(
        &mut self,
        mut piece: &[u8],
        mut take: impl FnMut(Item<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        while let Some(byte) = piece.first() {
            if self.place != Place::Within {
                self.step(*byte)?;
            }
            if self.place != Place::Within {
                piece = &piece[1..];
                continue;
            }
            let end = self.nesting.end(piece);
            let (part, rest) = piece.split_at(end.unwrap_or(piece.len()));
            self.keep(part);
            piece = rest;
            if end.is_some() {
                take(self.item())?;
                (self.place, self.size, self.between) = (Place::Between, 0, 0);
                self.begun.clear();
            }
        }
        Ok(())
    }

    /// Whether the list has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.place == Place::Behind
    }

    fn step(&mut self, byte: u8) -> Result<(), NoList> {
        self.between += 1;
        self.place = match (self.place, byte) {
            _ if self.between > MAX_BETWEEN => return Err(NoList),
            (place, b' ' | b'\n' | b'\r' | b'\t') => place,
            (Place::Before, b'[') | (Place::Between, b',') => Place::Between,
            (Place::Between, b'{') => Place::Within,
            (Place::Between, b']') => Place::Behind,
            _ => return Err(NoList),
        };
        Ok(())
    }

    fn keep(&mut self, part: &[u8]) {
        let room = self.most - self.begun.len();
        self.begun.extend_from_slice(&part[..part.len().min(room)]);
        self.size += part.len();
    }

    fn item(&self) -> Item<'_> {
        match self.size > self.most {
            true => Item::TooLarge(&self.begun),
            false => Item::Whole(&self.begun),
        }
    }
}

impl Nesting {
    /// Where in this piece the object ends, if it does.
    fn end(&mut self, piece: &[u8]) -> Option<usize> {
        for (at, byte) in piece.iter().enumerate() {
            self.text = match (self.text, byte) {
                (Text::Inside, b'\\') => Text::Escaped,
                (Text::Inside, b'"') => Text::Outside,
                (Text::Inside | Text::Escaped, _) | (Text::Outside, b'"') => Text::Inside,
                (Text::Outside, b'{' | b'[') => {
                    self.depth += 1;
                    Text::Outside
                }
                (Text::Outside, b'}' | b']') => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        return Some(at + 1);
                    }
                    Text::Outside
                }
                (Text::Outside, _) => Text::Outside,
            };
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What there is of such a list, and whether it has ended.
    fn found(pieces: &[&[u8]], most: usize) -> Result<(Vec<String>, bool), NoList> {
        let (mut items, mut found) = (Items::new(most), Vec::new());
        for piece in pieces {
            items.take(piece, |item| {
                found.push(match item {
                    Item::Whole(text) => String::from_utf8_lossy(text).into_owned(),
                    Item::TooLarge(text) => format!("{}...", String::from_utf8_lossy(text)),
                });
                Ok::<(), NoList>(())
            })?;
        }
        Ok((found, items.has_ended()))
    }

    #[test]
    fn objects_are_the_same_however_they_come() {
        let text =
            br#" [ {"a":"}]\"{\\"} ,{},{"b":[{"c":{}},[]]}, {"longest":[1,2,3,4,5,6,7,8,9]} ] "#;
        let wanted =
            [r#"{"a":"}]\"{\\"}"#, "{}", r#"{"b":[{"c":{}},[]]}"#, r#"{"longest":[1,2,3,4,..."#];
        for split in 0..=text.len() {
            let (first, second) = text.split_at(split);
            let (items, has_ended) = found(&[first, second], 20).unwrap();
            assert_eq!(items, wanted, "{split}");
            assert!(has_ended);
        }
        let bytes: Vec<&[u8]> = text.chunks(1).collect();
        assert_eq!(found(&bytes, 20).unwrap().0, wanted);
    }

    #[test]
    fn what_is_no_list_of_objects_is_none() {
        for text in ["{}", "null", "[1]", "[]x", "x[]", "[[]]", "[{}}"] {
            assert_eq!(found(&[text.as_bytes()], 9), Err(NoList), "{text}");
        }
        for text in ["", "[", "[{}", "[{}, "] {
            assert!(!found(&[text.as_bytes()], 9).unwrap().1, "{text}");
        }
        let blanks = " ".repeat(MAX_BETWEEN + 1);
        assert_eq!(found(&[b"[{},", blanks.as_bytes()], 9), Err(NoList));
    }
}
