//! Messages to frames, as far as the windows and the output allow.

use super::Connection;
use crate::code::Code;
use crate::frame::{self, MAX_31, MAX_PAYLOAD};
use crate::settings::Role;
use crate::stream::{Turn, number, stream_id};
use titan_http::section::{Destination, size_of_fields, size_of_response};
use titan_http::stream::{Half, Incoming, RequestKind, StreamId};
use titan_http::{Fields, RequestHead, ResponseHead};

/// Bytes that may wait to be written before no further request is begun: a server that reads nothing is
/// no place for more.
const MOST_UNSENT: usize = 1 << 20;

/// Bytes below which a frame is no work that gets done where only the peer's window makes it so short: else
/// one byte of window would pay for whatever else a peer sends.
const WORTH_A_FRAME: usize = 64;

impl Connection {
    /// Client role: whether [`Connection::send_request`] would get a stream now.
    pub fn can_open(&self) -> bool {
        self.role == Role::Client
            && !self.is_leaving()
            && self.streams.len() < self.peer.streams as usize
            && self.output.len() < MOST_UNSENT
            && self.last < MAX_31 - 1
    }

    /// Client role: opens a stream with a request. With `end` no body follows; `length` is what
    /// `content-length` is to say, for the fields' own is left out. `None` when the peer takes no more streams
    /// now, or none any more ([`Connection::is_leaving`]).
    pub fn send_request(
        &mut self,
        head: &RequestHead,
        to: Destination<'_>,
        length: Option<u64>,
        end: bool,
    ) -> Option<StreamId> {
        if !self.can_open() {
            return None;
        }
        let id = if self.last == 0 { 1 } else { self.last + 2 };
        self.last = id;
        let mut stream = self.stream(id, Incoming::response(RequestKind::by(head.method)));
        stream.sending = if end { Half::Done } else { Half::Body };
        self.streams.insert(stream);
        self.floods.earn_asides(0);
        let at = self.begin_block(id, end);
        self.writer.write_request(self.output.buf(), head, &to, length);
        self.output.end_block(at, id, &mut self.block);
        Some(stream_id(id))
    }

    /// Sends a head of a response: an interim one if its status says so, else the final one, which with
    /// `end` has no body. `length` is what `content-length` is to say, also where the body stays away (HEAD,
    /// 304); the fields' own is left out. Nothing happens where the stream is over. Tells how many bytes the block has.
    ///
    /// A head that is longer than the peer takes (RFC 9113 section 6.5.2) is not sent, as the peer may end the connection over it: an
    /// interim one is left out, and with a final one the stream is over, which no event tells of.
    pub fn send_response(
        &mut self,
        stream: StreamId,
        head: &ResponseHead,
        length: Option<u64>,
        end: bool,
    ) -> usize {
        let id = number(stream);
        let is_taken = self.is_taken(|| size_of_response(head, length));
        let Some(response) = self.streams.get_mut(id) else { return 0 };
        debug_assert_eq!(response.sending, Half::Head, "one final head for each stream");
        let is_interim = head.status.is_informational();
        debug_assert!(!(is_interim && end), "an interim head is not the end");
        if !is_taken {
            if !is_interim {
                self.reset(stream, Code::InternalError);
            }
            return 0;
        }
        if !is_interim {
            response.sending = Half::Body;
        }
        let at = self.begin_block(id, end);
        self.writer.write_response(self.output.buf(), head, length);
        let block = self.output.end_block(at, id, &mut self.block);
        if end {
            self.end_sending(id);
        }
        block
    }

    /// Sends of a body as much as the windows and the output take now, and responses how much that is. `end`
    /// counts when it is all of `data`. When it is less, [`Connection::next_unblocked`] tells when the
    /// stream can go on.
    ///
    /// On a stream that is over everything is taken and goes nowhere: an event has told of its end.
    pub fn send_data(&mut self, stream: StreamId, data: &[u8], end: bool) -> usize {
        let id = number(stream);
        let Some(stream) = self.streams.get_mut(id) else { return data.len() };
        if stream.sending == Half::Done {
            return data.len();
        }
        debug_assert_eq!(stream.sending, Half::Body, "the head goes before the body");
        let turn = std::mem::take(&mut stream.turn);
        if turn == Turn::Granted {
            self.granted -= 1;
        }
        let taken = if self.must_wait(turn) { 0 } else { self.write_data(id, data, end) };
        match taken == data.len() {
            true if end => {
                self.forget_turn(id, turn);
                self.finish_data(id, data.is_empty());
            }
            true => self.forget_turn(id, turn),
            false => self.await_turn(id, turn, taken),
        }
        taken
    }

    /// Ends a message with trailers; without any, with an empty frame. Where they are longer than the peer takes, the stream is over, which
    /// no event tells of: without them the message would not be what it was. Tells how many bytes their block has.
    pub fn send_trailers(&mut self, stream: StreamId, fields: &Fields) -> usize {
        let id = number(stream);
        let Some(message) = self.streams.get(id) else { return 0 };
        if message.sending == Half::Done {
            return 0;
        }
        debug_assert_eq!(message.sending, Half::Body, "the head goes before the trailers");
        if !self.is_taken(|| size_of_fields(fields)) {
            self.reset(stream, Code::InternalError);
            return 0;
        }
        let mut block = 0;
        if fields.is_empty() {
            frame::write_head(self.output.buf(), 0, frame::DATA, frame::END_STREAM, id);
        } else {
            let at = self.begin_block(id, true);
            self.writer.write_trailers(self.output.buf(), fields);
            block = self.output.end_block(at, id, &mut self.block);
        }
        self.end_sending(id);
        block
    }

    /// A stream that [`Connection::send_data`] could not send all of, and that can go on: first come, first
    /// served. To be asked after each round of reading, sending and writing, until it has none; only as many
    /// are named as there is room for a frame of each.
    pub fn next_unblocked(&mut self) -> Option<StreamId> {
        while self.has_room(self.granted) {
            let id = self.turns.pop_front()?;
            let Some(stream) = self.streams.get_mut(id) else { continue };
            if stream.outflow.available() == 0 {
                stream.turn = Turn::Window;
                continue;
            }
            stream.turn = Turn::Granted;
            self.granted += 1;
            return Some(stream_id(id));
        }
        None
    }

    /// Whether the peer takes a list of fields of that size, as far as it has said.
    fn is_taken(&self, size: impl FnOnce() -> u64) -> bool {
        self.peer.list == u64::MAX || size() <= self.peer.list
    }

    /// Whether the connection can send anything beyond that many frames.
    fn has_room(&self, frames: usize) -> bool {
        let kept = frames * MAX_PAYLOAD;
        self.output.len() + kept < self.limits.output && self.outflow.available() > kept
    }

    /// A stream whose turn it is not waits behind those that wait already.
    fn must_wait(&self, turn: Turn) -> bool {
        turn != Turn::Granted && !self.turns.is_empty()
    }

    /// Writes frames as long as there is room, but for the last bytes' sake never a short one that is not
    /// the last.
    fn write_data(&mut self, id: u32, data: &[u8], end: bool) -> usize {
        let Some(stream) = self.streams.get_mut(id) else { return 0 };
        let mut taken = 0;
        while taken < data.len() && self.output.len() < self.limits.output {
            let rest = &data[taken..];
            let windows = stream.outflow.available().min(self.outflow.available());
            let length = rest.len().min(windows).min(MAX_PAYLOAD);
            if length == 0 {
                break;
            }
            taken += length;
            let is_last = end && taken == data.len();
            let flags = if is_last { frame::END_STREAM } else { 0 };
            let out = self.output.buf();
            frame::write_head(out, length, frame::DATA, flags, id);
            out.extend_from_slice(&rest[..length]);
            stream.outflow.take(length);
            self.outflow.take(length);
            if length == rest.len() || length >= WORTH_A_FRAME {
                self.floods.earn_asides(length);
                self.floods.relieve(1);
            }
        }
        taken
    }

    /// All data has gone, and it was the last.
    fn finish_data(&mut self, id: u32, is_empty: bool) {
        if is_empty {
            frame::write_head(self.output.buf(), 0, frame::DATA, frame::END_STREAM, id);
        }
        self.end_sending(id);
    }

    /// The stream is to go on later: at the front of the queue if it was its turn and nothing was left for it.
    fn await_turn(&mut self, id: u32, before: Turn, taken: usize) {
        let Some(stream) = self.streams.get_mut(id) else { return };
        if before == Turn::Queued {
            stream.turn = Turn::Queued;
            return;
        }
        if stream.outflow.available() == 0 {
            stream.turn = Turn::Window;
            return;
        }
        stream.turn = Turn::Queued;
        match before == Turn::Granted && taken == 0 {
            true => self.turns.push_front(id),
            false => self.turns.push_back(id),
        }
    }

    /// The stream has nothing more that waits.
    pub(super) fn forget_turn(&mut self, id: u32, turn: Turn) {
        if turn == Turn::Queued {
            self.turns.retain(|&queued| queued != id);
        }
    }

    /// Begins a HEADERS frame, whose length comes later; returns where.
    fn begin_block(&mut self, id: u32, end: bool) -> usize {
        let out = self.output.buf();
        let at = out.len();
        let flags = if end { frame::END_STREAM } else { 0 };
        frame::write_head(out, 0, frame::HEADERS, flags, id);
        at
    }
}
