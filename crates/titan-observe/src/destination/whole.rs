//! Lines into a stream of bytes that may fail in the middle of one: none is ever glued to the next.

use super::figures::DestinationFigures;
use super::lines::Lines;
use std::io::{self, ErrorKind};
use std::ops::Range;

/// What the end of a stream still needs before a line can follow: the rest of a line of which a part was written.
#[derive(Debug, Default)]
pub(super) struct Rest {
    bytes: Vec<u8>,
    /// 1 if that is a line of ours, 0 if it only ends one that another process left.
    lines: usize,
}

impl Rest {
    /// The end of a line that somebody has left without.
    pub(super) fn line_feed() -> Rest {
        Rest { bytes: vec![b'\n'], lines: 0 }
    }

    /// Whether a line was begun and has not ended.
    pub(super) fn is_within_line(&self) -> bool {
        !self.bytes.is_empty()
    }

    /// Writes it, if there is any.
    pub(super) fn write(
        &mut self,
        write: &mut impl FnMut(&[u8]) -> io::Result<usize>,
        figures: &DestinationFigures,
    ) -> io::Result<()> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        let (count, result) = write_all(&self.bytes, write);
        figures.add_bytes(count);
        self.bytes.drain(..count);
        if self.bytes.is_empty() {
            figures.add_written(std::mem::take(&mut self.lines));
        }
        result
    }

    /// Forgets it: the stream is at its end.
    pub(super) fn abandon(&mut self, figures: &DestinationFigures) {
        self.bytes.clear();
        figures.add_dropped(std::mem::take(&mut self.lines));
    }

    /// Writes some lines, after which or within which a stream may fail. How many of them need nothing more here: those that
    /// are written, and one of which a part is.
    pub(super) fn append(
        &mut self,
        lines: &Lines,
        range: Range<usize>,
        write: &mut impl FnMut(&[u8]) -> io::Result<usize>,
        figures: &DestinationFigures,
    ) -> (usize, io::Result<()>) {
        debug_assert!(self.bytes.is_empty(), "the rest was written before");
        let (count, result) = write_all(lines.bytes(range.clone()), write);
        figures.add_bytes(count);
        let whole = lines.fitting(range.start, count as u64).min(range.len());
        figures.add_written(whole);
        let begun = range.start + whole;
        let torn = lines.start(range.start) + count;
        if torn == lines.start(begun) {
            return (whole, result);
        }
        *self = Rest { bytes: lines.text[torn..lines.start(begun + 1)].to_vec(), lines: 1 };
        (whole + 1, result)
    }
}

/// Writes bytes until one attempt fails. How many were written.
fn write_all(
    bytes: &[u8],
    write: &mut impl FnMut(&[u8]) -> io::Result<usize>,
) -> (usize, io::Result<()>) {
    let mut count = 0;
    while count < bytes.len() {
        match write(&bytes[count..]) {
            Ok(0) => return (count, Err(ErrorKind::WriteZero.into())),
            Ok(more) => count += more,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return (count, Err(error)),
        }
    }
    (count, Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use titan_config::LogTarget;

    #[test]
    fn a_line_goes_on_where_it_stopped() {
        let lines = Lines::of(&["first", "second", "third"]);
        for most in 0..=lines.text.len() {
            let figures = DestinationFigures::new(&LogTarget::Stdout);
            let (mut written, mut rest) = (Vec::new(), Rest::default());
            let mut full = |bytes: &[u8]| {
                let count = bytes.len().min(most - written.len()).min(2);
                written.extend_from_slice(&bytes[..count]);
                if count == 0 { Err(ErrorKind::StorageFull.into()) } else { Ok(count) }
            };
            let (done, result) = rest.append(&lines, 0..3, &mut full, &figures);
            assert_eq!(result.is_ok(), most == lines.text.len());
            assert_eq!(written.len(), most);
            let mut all = |bytes: &[u8]| {
                written.extend_from_slice(bytes);
                Ok(bytes.len())
            };
            rest.write(&mut all, &figures).unwrap();
            assert_eq!(rest.append(&lines, done..3, &mut all, &figures).0, 3 - done);
            assert_eq!(written, lines.text, "after {most} bytes");
            assert_eq!((figures.written(), figures.dropped()), (3, 0));
            assert_eq!(figures.bytes(), lines.text.len() as u64);
        }
    }
}
