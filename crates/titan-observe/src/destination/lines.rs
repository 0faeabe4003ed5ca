//! Lines that are ready to be written.

use std::ops::Range;

/// Lines that are ready to be written. Each ends with a line feed; none contains another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// One after another.
    pub text: Vec<u8>,
    /// Where each ends in `text`, and when what it tells began: microseconds since 1970.
    pub ends: Vec<(usize, u64)>,
}

impl Lines {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Forgets all of them.
    pub fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
    }

    /// Ends the line that stands last in `text`, of what began then, in microseconds since 1970.
    pub fn end(&mut self, began: u64) {
        self.ends.push((self.text.len(), began));
    }

    /// Where in `text` the line of that index begins; for the number of lines, where they end.
    pub(super) fn start(&self, index: usize) -> usize {
        index.checked_sub(1).map_or(0, |before| self.ends[before].0)
    }

    /// The bytes of some of them, by index.
    pub fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.text[self.start(range.start)..self.start(range.end)]
    }

    /// How many from that index on fit into so many bytes.
    pub fn fitting(&self, from: usize, room: u64) -> usize {
        let start = self.start(from);
        self.ends[from..].partition_point(|(end, _)| (end - start) as u64 <= room)
    }
}

#[cfg(test)]
impl Lines {
    /// Those, which lack their line feeds here.
    pub(super) fn of(texts: &[impl AsRef<[u8]>]) -> Lines {
        let mut lines = Lines::default();
        for text in texts {
            lines.text.extend_from_slice(text.as_ref());
            lines.text.push(b'\n');
            lines.ends.push((lines.text.len(), 0));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_fit_that_end_within_the_room() {
        let lines = Lines::of(&["a", "bcd", "e"]);
        let counts = [0, 1, 2, 5, 6, 7, 8, 100].map(|room| lines.fitting(0, room));
        assert_eq!(counts, [0, 0, 1, 1, 2, 2, 3, 3]);
        assert_eq!(lines.fitting(1, 4), 1);
        assert_eq!(lines.bytes(1..3), b"bcd\ne\n");
    }
}
