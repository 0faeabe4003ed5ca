//! Positions in the configuration file.

use std::fmt;

/// A place in the configuration file, for messages about what was read there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location {
    /// From 1.
    pub line: u32,
    /// From 1, in characters.
    pub column: u32,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
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
