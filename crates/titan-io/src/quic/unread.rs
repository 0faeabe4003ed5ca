//! What was read of a stream and not used: a head of which a part has come, say.

use bytes::{Bytes, BytesMut};
use std::ops::Deref;
use titan_h3::Code;

/// What was read of a stream and not used.
#[derive(Default)]
pub(super) struct Unread {
    pub(super) bytes: Row,
    /// What comes behind it: it was read to see whether the stream ends.
    pub(super) ahead: Option<Bytes>,
    pub(super) end: End,
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
