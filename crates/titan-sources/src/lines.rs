//! Lines of a response that does not end, out of the pieces in which it comes.

/// The beginning of a line whose end has not come yet.
pub(crate) struct Lines {
    begun: Vec<u8>,
    /// Bytes that a line may have.
    most: usize,
}

/// A line is longer than it may be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

impl Lines {
    pub(crate) fn new(most: usize) -> Lines {
        Lines { begun: Vec::new(), most }
    }

    /// Shows `take` each line that ends in this piece, without its end, up to the first that it fails on.
    pub(crate) fn take<E: From<TooLong>>(
        &mut self,
        mut piece: &[u8],
        mut take: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        while let Some(end) = piece.iter().position(|byte| *byte == b'\n') {
            self.begin(&piece[..end])?;
            let line = std::mem::take(&mut self.begun);
            take(line.strip_suffix(b"\r").unwrap_or(&line))?;
            piece = &piece[end + 1..];
        }
        Ok(self.begin(piece)?)
    }

    fn begin(&mut self, piece: &[u8]) -> Result<(), TooLong> {
        if self.begun.len() + piece.len() > self.most {
            return Err(TooLong);
        }
        self.begun.extend_from_slice(piece);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines_of(pieces: &[&[u8]], most: usize) -> Result<Vec<String>, TooLong> {
        let (mut lines, mut found) = (Lines::new(most), Vec::new());
        for piece in pieces {
            lines.take(piece, |line| {
                found.push(String::from_utf8_lossy(line).into_owned());
                Ok::<(), TooLong>(())
            })?;
        }
        Ok(found)
    }

    #[test]
    fn lines_are_the_same_however_they_come() {
        let text = b"one\n\ntwo\r\nthree\nrest";
        for split in 0..=text.len() {
            let (first, second) = text.split_at(split);
            let found = lines_of(&[first, second], 5).unwrap();
            assert_eq!(found, ["one", "", "two", "three"], "{split}");
        }
    }

    #[test]
    fn a_line_is_bounded_whether_it_ends_or_not() {
        assert_eq!(lines_of(&[b"123456\n"], 5), Err(TooLong));
        assert_eq!(lines_of(&[b"123", b"456"], 5), Err(TooLong));
        assert_eq!(lines_of(&[b"12345\n", b"12345"], 5).unwrap(), ["12345"]);
    }
}
