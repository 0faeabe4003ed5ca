//! What waits to be written.

use crate::frame;

/// Bytes that wait to be written.
#[derive(Debug, Default)]
pub(crate) struct Output {
    buf: Vec<u8>,
    /// Bytes of `buf` that were written already.
    start: usize,
    /// Bytes at most that response control frames: those a peer can ask for without limit.
    replies: usize,
}

impl Output {
    /// What a peer may have waiting of responses to its control frames. More means that it does not read.
    const MOST_REPLIES: usize = 64 << 10;

    #[inline]
    pub(crate) fn waiting(&self) -> &[u8] {
        &self.buf[self.start..]
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.buf.len() - self.start
    }

    /// Where frames are appended.
    #[inline]
    pub(crate) fn buf(&mut self) -> &mut Vec<u8> {
        &mut self.buf
    }

    /// Appends responses to control frames. `false` when too many of them wait.
    pub(crate) fn reply(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> bool {
        let before = self.buf.len();
        write(&mut self.buf);
        self.replies += self.buf.len() - before;
        self.replies <= Output::MOST_REPLIES
    }

    /// Forgets the first bytes. What is left moves to the front once it is the smaller part, so that an
    /// byte is moved at most once for each that was written.
    pub(crate) fn written(&mut self, count: usize) {
        debug_assert!(count <= self.len());
        self.start = (self.start + count).min(self.buf.len());
        let left = self.buf.len() - self.start;
        if left <= self.start {
            self.buf.copy_within(self.start.., 0);
            self.buf.truncate(left);
            self.start = 0;
        }
        self.replies = self.replies.min(left);
    }

    /// Gives the memory back while nothing waits.
    pub(crate) fn shrink(&mut self) {
        if self.buf.is_empty() {
            self.buf = Vec::new();
        }
    }

    /// Appends a field block behind `at`, where its HEADERS frame was begun, as frames of a length that
    /// every peer takes, and tells how long it is. `spare` is used where one frame does not do.
    pub(crate) fn end_block(&mut self, at: usize, stream: u32, spare: &mut Vec<u8>) -> usize {
        let length = self.buf.len() - at - frame::HEAD;
        if length <= frame::MAX_PAYLOAD {
            frame::set_length(&mut self.buf, at, length);
            self.buf[at + 4] |= frame::END_HEADERS;
            return length;
        }
        let first_end = at + frame::HEAD + frame::MAX_PAYLOAD;
        frame::set_length(&mut self.buf, at, frame::MAX_PAYLOAD);
        spare.clear();
        spare.extend_from_slice(&self.buf[first_end..]);
        self.buf.truncate(first_end);
        let mut parts = spare.chunks(frame::MAX_PAYLOAD).peekable();
        while let Some(part) = parts.next() {
            let flags = if parts.peek().is_none() { frame::END_HEADERS } else { 0 };
            frame::write_head(&mut self.buf, part.len(), frame::CONTINUATION, flags, stream);
            self.buf.extend_from_slice(part);
        }
        length
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{CONTINUATION, END_HEADERS, FrameHead, HEAD, HEADERS, MAX_PAYLOAD};

    #[test]
    fn what_is_left_stays_in_order() {
        let mut output = Output::default();
        output.buf().extend_from_slice(b"abcdefgh");
        output.written(3);
        assert_eq!(output.waiting(), b"defgh");
        output.written(2);
        output.buf().extend_from_slice(b"ij");
        assert_eq!((output.waiting(), output.start), (b"fghij".as_slice(), 0));
        output.written(5);
        assert_eq!((output.len(), output.buf.len()), (0, 0));
    }

    #[test]
    fn unread_responses_are_bounded() {
        let mut output = Output::default();
        let ping = |buf: &mut Vec<u8>| frame::write_ping(buf, frame::ACK, &[0; 8]);
        let count = (0..).take_while(|_| output.reply(ping)).count();
        assert_eq!(count, Output::MOST_REPLIES / 17);
        output.written(output.len());
        assert!(output.reply(ping));
    }

    #[test]
    fn a_long_block_goes_on_in_other_frames() {
        let mut output = Output::default();
        frame::write_head(output.buf(), 0, HEADERS, 0, 1);
        output.buf().extend_from_slice(&vec![7; 2 * MAX_PAYLOAD + 5]);
        let block = output.end_block(0, 1, &mut Vec::new());
        assert_eq!(block, 2 * MAX_PAYLOAD + 5);
        let mut at = 0;
        for (length, kind, flags) in [
            (MAX_PAYLOAD, HEADERS, 0),
            (MAX_PAYLOAD, CONTINUATION, 0),
            (5, CONTINUATION, END_HEADERS),
        ] {
            let head = FrameHead::parse(&output.waiting()[at..]).unwrap();
            assert_eq!((head.length, head.kind, head.flags), (length, kind, flags));
            at += HEAD + length;
        }
        assert_eq!(at, output.len());
    }
}
