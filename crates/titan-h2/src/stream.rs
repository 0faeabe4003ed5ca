//! Streams (RFC 9113 section 5.1): the open ones by their numbers, and how the last ones ended.
//!
//! ```text
//!              HEADERS           END_STREAM              END_STREAM
//! idle ------> Head / Body ----> one half is Done -----> both are: out of `Streams`, into `ClosedStreams`
//!                    \_________________\___ RST_STREAM ____________/
//! ```

use crate::flow::{Inflow, Outflow};
use titan_http::stream::{Half, Incoming, StreamId};

/// One open stream.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    /// Its number; 0 where there is no stream.
    pub(crate) id: u32,
    pub(crate) incoming: Incoming,
    pub(crate) sending: Half,
    pub(crate) turn: Turn,
    /// The head was refused: what still comes is dropped.
    pub(crate) is_refused: bool,
    pub(crate) inflow: Inflow,
    pub(crate) outflow: Outflow,
}

/// Where a stream stands that has more to send than it may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It has nothing that waits.
    #[default]
    None,
    /// It waits for its own window.
    Window,
    /// It waits in the queue for the connection's window, or for room in the output.
    Queued,
    /// It was told to go on, and has not yet.
    Granted,
}

/// The number of a stream as frames of HTTP/2 have it; 0, which no stream has, for one that they cannot have.
#[inline]
pub(crate) fn number(stream: StreamId) -> u32 {
    u32::try_from(stream.number()).unwrap_or(0)
}

/// The stream with that number.
#[inline]
pub(crate) fn stream_id(number: u32) -> StreamId {
    StreamId::new(number.into())
}

/// The open streams.
///
/// A table with open addressing: numbers are given out in order, so a number's lower bits are as good as a
/// hash. At most half of it is used.
///
/// Neighbours stand in the order of their homes (Robin Hood hashing). Streams that follow one another fill places that
/// do as well: without an order, one could only be found missing, or taken out, by walking past all behind it.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    slots: Vec<Stream>,
    count: usize,
}

impl Streams {
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    #[inline]
    pub(crate) fn get(&self, id: u32) -> Option<&Stream> {
        self.find(id).map(|at| &self.slots[at])
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: u32) -> Option<&mut Stream> {
        self.find(id).map(|at| &mut self.slots[at])
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Stream> {
        self.slots.iter_mut().filter(|stream| stream.id != 0)
    }

    /// Adds a stream whose number is not there yet.
    pub(crate) fn insert(&mut self, stream: Stream) {
        debug_assert!(stream.id != 0 && self.find(stream.id).is_none());
        self.count += 1;
        if self.count * 2 > self.slots.len() {
            self.grow();
        }
        self.put(stream);
    }

    /// Takes a stream out.
    pub(crate) fn remove(&mut self, id: u32) -> Option<Stream> {
        let mut hole = self.find(id)?;
        let stream = std::mem::take(&mut self.slots[hole]);
        self.count -= 1;
        let mask = self.slots.len() - 1;
        // Those that are away from home move up. Behind one that is at home none can be nearer to its own.
        loop {
            let next = (hole + 1) & mask;
            if self.slots[next].id == 0 || self.distance(next) == 0 {
                return Some(stream);
            }
            self.slots.swap(hole, next);
            hole = next;
        }
    }

    /// Takes out the first stream that is found with a number above `last`.
    pub(crate) fn remove_above(&mut self, last: u32) -> Option<Stream> {
        let id = self.slots.iter().map(|stream| stream.id).find(|&id| id > last)?;
        self.remove(id)
    }

    /// Gives the memory back while no stream is open.
    pub(crate) fn shrink(&mut self) {
        if self.is_empty() {
            self.slots = Vec::new();
        }
    }

    fn grow(&mut self) {
        let size = (self.slots.len() * 2).max(8);
        let slots = std::mem::take(&mut self.slots);
        self.slots.resize_with(size, Stream::default);
        for stream in slots.into_iter().filter(|stream| stream.id != 0) {
            self.put(stream);
        }
    }

    fn put(&mut self, mut stream: Stream) {
        let mask = self.slots.len() - 1;
        let (mut at, mut distance) = (self.home(stream.id), 0);
        while self.slots[at].id != 0 {
            let other = self.distance(at);
            if other < distance {
                std::mem::swap(&mut self.slots[at], &mut stream);
                distance = other;
            }
            (at, distance) = ((at + 1) & mask, distance + 1);
        }
        self.slots[at] = stream;
    }

    #[inline]
    fn find(&self, id: u32) -> Option<usize> {
        let mask = self.slots.len().checked_sub(1)?;
        let (mut at, mut distance) = (self.home(id), 0);
        loop {
            match self.slots[at].id {
                found if found == id => return Some(at).filter(|_| id != 0),
                0 => return None,
                _ if self.distance(at) < distance => return None,
                _ => (at, distance) = ((at + 1) & mask, distance + 1),
            }
        }
    }

    /// How far the stream at that place is from home.
    #[inline]
    fn distance(&self, at: usize) -> usize {
        at.wrapping_sub(self.home(self.slots[at].id)) & (self.slots.len() - 1)
    }

    /// Streams of one connection are all odd: only the client opens any.
    #[inline]
    fn home(&self, id: u32) -> usize {
        (id >> 1) as usize & (self.slots.len() - 1)
    }
}

/// How a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Both messages are complete.
    Complete,
    /// The peer has reset it.
    ByPeer,
    /// This side has reset it: what is still on its way was sent in good faith.
    ByUs,
}

/// How the streams that closed last ended.
#[derive(Debug)]
pub(crate) struct ClosedStreams {
    ends: [(u32, End); ClosedStreams::SIZE],
    next: usize,
}

impl ClosedStreams {
    const SIZE: usize = 128;

    pub(crate) fn push(&mut self, id: u32, end: End) {
        self.ends[self.next] = (id, end);
        self.next = (self.next + 1) % ClosedStreams::SIZE;
    }

    /// Notes that the peer has reset a stream that is over; whether that is the first time, and news to it.
    pub(crate) fn is_first_reset(&mut self, id: u32) -> bool {
        let known = self.ends.iter_mut().find(|(gone, end)| *gone == id && *end != End::ByPeer);
        known.map(|(_, end)| *end = End::ByPeer).is_some()
    }

    pub(crate) fn find(&self, id: u32) -> Option<End> {
        self.ends.iter().find(|(gone, _)| *gone == id).map(|(_, end)| *end)
    }
}

impl Default for ClosedStreams {
    fn default() -> ClosedStreams {
        ClosedStreams { ends: [(0, End::Complete); ClosedStreams::SIZE], next: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn stream(id: u32) -> Stream {
        Stream { id, ..Stream::default() }
    }

    #[test]
    fn an_empty_table_has_nothing() {
        let mut streams = Streams::default();
        assert!(streams.get(1).is_none() && streams.remove(1).is_none() && streams.is_empty());
        assert!(streams.get(0).is_none());
        streams.insert(stream(1));
        assert!(streams.get(0).is_none());
    }

    #[test]
    fn only_the_last_ends_are_known() {
        let mut gone = ClosedStreams::default();
        assert_eq!(gone.find(1), None);
        for id in 1..=200 {
            gone.push(id, End::ByUs);
        }
        assert_eq!((gone.find(1), gone.find(200)), (None, Some(End::ByUs)));
        assert_eq!([1, 200, 200].map(|id| gone.is_first_reset(id)), [false, true, false]);
    }

    proptest! {
        #[test]
        fn a_table_is_a_set(steps in proptest::collection::vec((0_u32..40, any::<bool>()), 0..300)) {
            let (mut streams, mut naive) = (Streams::default(), BTreeSet::new());
            for (number, insert) in steps {
                // Far apart, so that places collide.
                let id = number * 16 + 1;
                match insert && naive.insert(id) {
                    true => streams.insert(stream(id)),
                    false => assert_eq!(streams.remove(id).is_some(), naive.remove(&id)),
                }
                for id in (0..40).map(|number| number * 16 + 1) {
                    prop_assert_eq!(streams.get(id).is_some(), naive.contains(&id));
                }
                prop_assert_eq!(streams.len(), naive.len());
                let len = streams.slots.len();
                for at in (0..len).filter(|&at| streams.slots[at].id != 0) {
                    // No entry is more than one place farther from its home than its neighbour before it.
                    let before = (at + len - 1) % len;
                    let farthest = match streams.slots[before].id {
                        0 => 0,
                        _ => streams.distance(before) + 1,
                    };
                    prop_assert!(streams.distance(at) <= farthest);
                }
            }
        }
    }
}
