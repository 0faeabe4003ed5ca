//! The streams between the connection and its peer: what quinn-proto is to titan-io.

use super::peer::Listener;
use bytes::Bytes;
use std::collections::BTreeMap;
use titan_h3::{Code, Peer, StreamId, Transport};

/// A transport, and the peer at its other end.
pub(super) struct Wire {
    pub(super) is_server: bool,
    pub(super) listener: Listener,
    incoming: BTreeMap<u64, Incoming>,
    outgoing: BTreeMap<u64, Outgoing>,
    /// How many streams in one direction the connection may open, and has opened.
    pub(super) granted: u64,
    opened: u64,
    /// What the peer takes on them at first.
    own_room: usize,
    /// How many streams of requests may be open.
    streams: u64,
    /// How many of them are over in both directions.
    over: u64,
    /// Streams that take more, which the connection is to be told of.
    pub(super) writable: Vec<u64>,
}

/// What the peer sends on a stream.
#[derive(Default)]
struct Incoming {
    bytes: Vec<u8>,
    has_ended: bool,
    reset: Option<Code>,
    /// The connection was told of its end, or wants no more.
    is_over: bool,
}

/// What the connection sends on one.
#[derive(Default)]
struct Outgoing {
    room: usize,
    is_full: bool,
    is_stopped: bool,
    is_over: bool,
}

/// What can be read of a stream.
pub(super) enum Next {
    /// Bytes, and whether they are the last.
    Bytes(Vec<u8>, bool),
    Nothing,
    End,
    Reset(Code),
    /// It was over before.
    Gone,
}

/// Streams in one direction that the peer may have open: as many as titan-io grants.
pub(super) const UNI_STREAMS: u64 = 8;

impl Wire {
    pub(super) fn new(is_server: bool, streams: u32, own_room: usize) -> Wire {
        Wire {
            is_server,
            own_room,
            listener: Listener::new(if is_server { Peer::Server } else { Peer::Client }),
            incoming: BTreeMap::new(),
            outgoing: BTreeMap::new(),
            granted: 0,
            opened: 0,
            streams: streams.into(),
            over: 0,
            writable: Vec::new(),
        }
    }

    /// The stream of a request with that number, if it may be there. `fresh` are those that had to be opened for it.
    pub(super) fn request(&mut self, number: u64, fresh: &mut Vec<u64>) -> Option<u64> {
        let begun = self.outgoing.keys().filter(|id| *id % 4 == 0).count() as u64;
        if number >= begun {
            if !self.is_server || number >= self.over + self.streams {
                return None;
            }
            (begun..=number).for_each(|number| {
                self.begin(number * 4);
                fresh.push(number * 4);
            });
        }
        Some(number * 4)
    }

    /// A client opens a stream.
    pub(super) fn ask(&mut self) -> Option<u64> {
        let begun = self.outgoing.len() as u64 - self.opened;
        (begun < self.over + self.streams).then(|| {
            self.begin(begun * 4);
            begun * 4
        })
    }

    fn begin(&mut self, id: u64) {
        self.incoming.insert(id, Incoming::default());
        self.outgoing.insert(id, Outgoing::default());
    }

    /// The stream in one direction of the peer with that number, if it may be there.
    pub(super) fn uni(&mut self, number: u64) -> Option<u64> {
        let id = number * 4 + if self.is_server { 2 } else { 3 };
        if !self.incoming.contains_key(&id) {
            let open = self.incoming.iter().filter(|(id, it)| *id % 4 > 1 && !it.is_over);
            if open.count() as u64 >= UNI_STREAMS {
                return None;
            }
            self.incoming.insert(id, Incoming::default());
        }
        Some(id)
    }

    /// The streams of the peer's in one direction that are not over.
    pub(super) fn open_unis(&self) -> usize {
        self.incoming.iter().filter(|(id, it)| *id % 4 > 1 && !it.is_over).count()
    }

    /// The streams of requests that have begun.
    pub(super) fn requests(&self) -> Vec<u64> {
        self.incoming.keys().copied().filter(|id| id % 4 == 0).collect()
    }

    /// The stream of the connection's in one direction with that number.
    pub(super) fn own(&self, number: u64) -> u64 {
        number * 4 + if self.is_server { 3 } else { 2 }
    }

    /// The peer sends something. Whether there is something to read now.
    pub(super) fn say(&mut self, id: u64, bytes: &[u8], ends: bool) -> bool {
        let Some(stream) = self.incoming.get_mut(&id) else { return false };
        if stream.is_over || stream.has_ended || stream.reset.is_some() {
            return false;
        }
        stream.bytes.extend_from_slice(bytes);
        stream.has_ended = ends;
        true
    }

    /// The peer resets a stream: what was not read of it is lost. Whether there is something to read now.
    pub(super) fn give_up(&mut self, id: u64, code: Code) -> bool {
        let Some(stream) = self.incoming.get_mut(&id) else { return false };
        let is_news = !stream.is_over && stream.reset.is_none();
        if is_news {
            stream.bytes.clear();
            stream.reset = Some(code);
        }
        is_news
    }

    /// The peer stops a stream. Whether that is something new.
    pub(super) fn stopped(&mut self, id: u64) -> bool {
        let Some(stream) = self.outgoing.get_mut(&id) else { return false };
        let is_news = !stream.is_over && !std::mem::replace(&mut stream.is_stopped, true);
        if is_news {
            self.writable.push(id);
        }
        is_news
    }

    /// The peer takes more on a stream.
    pub(super) fn take(&mut self, id: u64, count: usize) {
        let Some(stream) = self.outgoing.get_mut(&id) else { return };
        stream.room = stream.room.saturating_add(count);
        if std::mem::take(&mut stream.is_full) {
            self.writable.push(id);
        }
    }

    /// The peer takes everything.
    pub(super) fn take_all(&mut self) {
        (self.granted, self.own_room) = (2, usize::MAX);
        let ids: Vec<_> = self.outgoing.keys().copied().collect();
        ids.into_iter().for_each(|id| self.take(id, usize::MAX));
    }

    /// What comes next of a stream, so many bytes at most.
    pub(super) fn next(&mut self, id: u64, most: usize) -> Next {
        let Some(stream) = self.incoming.get_mut(&id).filter(|it| !it.is_over) else {
            return Next::Gone;
        };
        if let Some(code) = stream.reset {
            self.end_incoming(id);
            return Next::Reset(code);
        }
        if !stream.bytes.is_empty() {
            let count = stream.bytes.len().min(most);
            let bytes = stream.bytes.drain(..count).collect();
            let is_last = stream.has_ended && stream.bytes.is_empty();
            if is_last {
                self.end_incoming(id);
            }
            return Next::Bytes(bytes, is_last);
        }
        if stream.has_ended {
            self.end_incoming(id);
            return Next::End;
        }
        Next::Nothing
    }

    /// Whether the peer has reset a stream of which the connection was not told so.
    pub(super) fn take_reset(&mut self, id: u64) -> Option<Code> {
        let stream = self.incoming.get(&id).filter(|it| !it.is_over);
        let code = stream.and_then(|stream| stream.reset)?;
        self.end_incoming(id);
        Some(code)
    }

    fn end_incoming(&mut self, id: u64) {
        let stream = self.incoming.get_mut(&id).filter(|it| !it.is_over);
        let Some(stream) = stream else { return };
        stream.is_over = true;
        stream.bytes = Vec::new();
        let is_over = self.outgoing.get(&id).is_some_and(|it| it.is_over);
        self.over += u64::from(is_over);
    }

    fn end_outgoing(&mut self, id: u64) -> bool {
        let stream = self.outgoing.get_mut(&id).expect("it was opened");
        if std::mem::replace(&mut stream.is_over, true) {
            return false;
        }
        self.over += u64::from(self.incoming.get(&id).is_some_and(|it| it.is_over));
        !stream.is_stopped
    }
}

impl Transport for Wire {
    fn open(&mut self) -> Option<StreamId> {
        if self.opened == self.granted {
            return None;
        }
        let id = self.own(self.opened);
        self.outgoing.insert(id, Outgoing { room: self.own_room, ..Outgoing::default() });
        self.opened += 1;
        Some(StreamId::new(id))
    }

    fn write(&mut self, stream: StreamId, data: &mut Bytes) {
        let id = stream.number();
        let outgoing = self.outgoing.get_mut(&id).expect("it was opened");
        assert!(!outgoing.is_over, "something is sent behind the end of {id}");
        if outgoing.is_stopped {
            return data.clear();
        }
        let count = data.len().min(outgoing.room);
        outgoing.room -= count;
        let taken = data.split_to(count);
        outgoing.is_full = !data.is_empty();
        self.listener.hear(id, &taken);
    }

    fn finish(&mut self, stream: StreamId) {
        let id = stream.number();
        if self.end_outgoing(id) {
            self.listener.end(id);
        }
    }

    fn reset(&mut self, stream: StreamId, _: Code) {
        self.end_outgoing(stream.number());
    }

    fn stop(&mut self, stream: StreamId, _: Code) {
        assert!(self.incoming.contains_key(&stream.number()), "nothing comes on {stream:?}");
        self.end_incoming(stream.number());
    }

    fn prioritize(&mut self, stream: StreamId, _: i32) {
        assert!(self.is_server && self.outgoing.contains_key(&stream.number()));
    }
}
