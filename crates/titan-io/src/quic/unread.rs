//! What was read of streams and not used: a head of which a part has come, say.

use bytes::{Bytes, BytesMut};
use std::collections::VecDeque;
use std::ops::Deref;
use titan_h3::Code;
use titan_http::stream::{StreamId, StreamMap};

/// What the streams of a connection have left. Of one that is given up, everything has to go: see [`Backlog::forget`].
#[derive(Default)]
pub(super) struct Backlog {
    unread: StreamMap<Unread>,
    /// Bytes of all parts: see [`Unread::is_part`].
    parts: usize,
    /// Streams that are not read from until something of what they have told is used, or entries of the table have come.
    held_back: Vec<StreamId>,
}

/// What was read of a stream and not used.
#[derive(Default)]
pub(super) struct Unread {
    pub(super) bytes: Row,
    /// What comes behind it: it was read to see whether the stream ends.
    pub(super) ahead: Option<Bytes>,
    pub(super) end: End,
    /// Whether it is a part of what is read whole: a head, or trailers. It was read out of the transport, whose windows let the peer send
    /// on, and may be as long as the longest field section.
    is_part: bool,
}

/// What follows on a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum End {
    #[default]
    Unknown,
    /// Nothing.
    Last,
    /// Nothing, and the peer had more to say.
    Reset(Code),
    /// It was over before.
    Gone,
}

/// Bytes in a row.
pub(super) enum Row {
    /// As they have come.
    Chunk(Bytes),
    /// In memory that grows with what follows them: each is copied a few times at most, however small the pieces are that come.
    Joined(BytesMut),
}

impl Backlog {
    /// What was read of that stream and not used.
    pub(super) fn take(&mut self, stream: StreamId) -> Unread {
        let mut unread = self.unread.remove(&stream).unwrap_or_default();
        if std::mem::take(&mut unread.is_part) {
            self.parts -= unread.bytes.len();
        }
        unread
    }

    /// Keeps it until the stream is read from again.
    pub(super) fn keep(&mut self, stream: StreamId, unread: Unread) {
        self.unread.insert(stream, unread);
    }

    /// The same where it is a part of what is read whole.
    pub(super) fn keep_part(&mut self, stream: StreamId, unread: Unread) {
        self.parts += unread.bytes.len();
        self.unread.insert(stream, Unread { is_part: true, ..unread });
    }

    /// The stream whose part is the longest, where all parts are beyond `most` bytes: without it they are not.
    pub(super) fn longest_beyond(&self, most: usize) -> Option<StreamId> {
        if self.parts <= most {
            return None;
        }
        let parts = self.unread.iter().filter(|(_, unread)| unread.is_part);
        parts.max_by_key(|(_, unread)| unread.bytes.len()).map(|(stream, _)| *stream)
    }

    /// Does not read from that stream for now.
    pub(super) fn hold_back(&mut self, stream: StreamId) {
        if !self.held_back.contains(&stream) {
            self.held_back.push(stream);
        }
    }

    /// Moves the streams to `readable` that are not blocked any more.
    pub(super) fn let_go(
        &mut self,
        readable: &mut VecDeque<StreamId>,
        is_blocked: impl Fn(StreamId) -> bool,
    ) {
        self.held_back.retain(|stream| {
            let stays = is_blocked(*stream);
            if !stays {
                readable.push_back(*stream);
            }
            stays
        });
    }

    /// Nothing more is read of that stream.
    pub(super) fn forget(&mut self, stream: StreamId) {
        drop(self.take(stream));
        self.held_back.retain(|held_back| *held_back != stream);
    }

    /// Bytes that were read and not used, and streams that are held back. Tests hold it to its bounds.
    #[cfg(test)]
    pub(super) fn kept(&self) -> (usize, usize) {
        let bytes =
            |unread: &Unread| unread.bytes.len() + unread.ahead.as_ref().map_or(0, Bytes::len);
        (self.unread.values().map(bytes).sum(), self.held_back.len())
    }
}

impl Row {
    /// Puts what follows behind it.
    pub(super) fn append(&mut self, more: Bytes) {
        match self {
            _ if self.is_empty() => *self = Row::Chunk(more),
            Row::Chunk(bytes) => {
                let mut joined = BytesMut::with_capacity(2 * (bytes.len() + more.len()));
                joined.extend_from_slice(bytes);
                joined.extend_from_slice(&more);
                *self = Row::Joined(joined);
            }
            Row::Joined(joined) => joined.extend_from_slice(&more),
        }
    }

    /// Takes so many of the first.
    pub(super) fn split_to(&mut self, count: usize) -> Bytes {
        match self {
            Row::Chunk(bytes) => bytes.split_to(count),
            Row::Joined(joined) => joined.split_to(count).freeze(),
        }
    }
}

impl Default for Row {
    fn default() -> Row {
        Row::Chunk(Bytes::new())
    }
}

impl Deref for Row {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Row::Chunk(bytes) => bytes,
            Row::Joined(joined) => joined,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_stay_in_a_row() {
        let mut row = Row::default();
        for piece in ["ab", "c", "", "def"] {
            row.append(Bytes::from(piece));
        }
        assert_eq!((&*row.split_to(4), &*row), (&b"abcd"[..], &b"ef"[..]));
        row.append(Bytes::from_static(b"g"));
        assert_eq!((&*row.split_to(3), row.is_empty()), (&b"efg"[..], true));
        let chunk = Bytes::from_static(b"next");
        row.append(chunk.clone());
        assert_eq!(row.as_ptr(), chunk.as_ptr(), "what comes alone is not copied");
    }

    #[test]
    fn a_long_head_in_single_bytes_is_copied_a_few_times() {
        const LENGTH: usize = 64 << 10;
        let (mut row, mut copied, mut room) = (Row::default(), 0, 0);
        for _ in 0..LENGTH {
            row.append(Bytes::from_static(b"x"));
            let now = match &row {
                Row::Chunk(_) => 0,
                Row::Joined(joined) => joined.capacity(),
            };
            if now != room {
                (room, copied) = (now, copied + row.len());
            }
        }
        assert!(row.len() == LENGTH && copied <= 3 * LENGTH, "{copied} bytes were copied");
    }
}
