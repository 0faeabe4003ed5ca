//! Positions in the files of a configuration.

use std::fmt;

/// One of the files of a configuration: the first is the one that was asked for, the others are included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(u16);

impl FileId {
    /// The file that was asked for.
    pub const MAIN: FileId = FileId(0);

    /// The file with that index; there are never more than [`crate::bounds::MAX_INCLUDED`] others.
    pub(crate) fn of_index(index: usize) -> FileId {
        FileId(u16::try_from(index).unwrap_or(u16::MAX))
    }

    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// A place in a file of the configuration, for messages about what was read there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location {
    /// In which file.
    pub file: FileId,
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

/// A part of a file. It may be empty, and it may go over several lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// Its first character.
    pub start: Location,
    /// The character after its last.
    pub end: Location,
}

impl Span {
    /// The place of what no file says: the default of a field.
    pub(crate) const NOWHERE: Span = Span::at(Location { file: FileId::MAIN, line: 0, column: 0 });
    /// The beginning of the file that was asked for.
    pub(crate) const START: Span = Span::start_of(FileId::MAIN);

    pub(crate) const fn at(location: Location) -> Span {
        Span { start: location, end: location }
    }

    /// The beginning of that file.
    pub(crate) const fn start_of(file: FileId) -> Span {
        Span::at(Location { file, line: 1, column: 1 })
    }

    /// Where it starts, unless nothing in the file says it.
    pub(crate) fn location(self) -> Option<Location> {
        (self != Span::NOWHERE).then_some(self.start)
    }

    /// Whether all of `inner` is in it.
    pub(crate) fn contains(self, inner: Span) -> bool {
        self.start <= inner.start && inner.end <= self.end
    }
}
