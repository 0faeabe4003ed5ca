//! The end of streams and of connections, in order or not (RFC 9114 sections 4.1.1, 5 and 8).

use super::flushing::Closing;
use super::{Connection, Outcome};
use crate::code::Code;
use crate::control::Peer;
use crate::event::Event;
use crate::fatal::Fatal;
use crate::frame::{FrameHeader, Kind};
use crate::stream::Stream;
use crate::varint;
use titan_http::section::Fault;
use titan_http::stream::{Half, StreamId};

/// How far this side has stopped accepting requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shutdown {
    No,
    /// The client was told that this side will leave; what it sends before it knows is served.
    Announced,
    /// The client was told which request is the first that is not served.
    Final {
        first: u64,
    },
}

/// The greatest number of a request.
const LAST_REQUEST: u64 = varint::MAX & !3;

impl Connection {
    /// Abandons a stream; there is no event for it. What was sent to its end still goes out; the request of which nothing is wanted any
    /// more is stopped. Nothing happens if it is over.
    ///
    /// A server that has responded completely while the request goes on says so with [`Code::NoError`].
    pub fn reset(&mut self, stream: StreamId, code: Code) {
        let Some(message) = self.streams.get(&stream) else { return };
        if message.sending != Half::Done {
            return self.give_up(stream, code);
        }
        if self.abandon(stream) {
            self.close(stream, false, true, code);
        }
        self.end_if_over(stream);
    }

    /// The peer has reset a stream: nothing more comes on it.
    ///
    /// # Errors
    ///
    /// When that was too much: the connection is to be closed.
    pub fn peer_reset(&mut self, stream: StreamId, code: Code) -> Result<Option<Event>, Fatal> {
        self.attempt(|it| it.on_given_up(stream, code))
    }

    /// The peer wants nothing more of what this side sends on a stream.
    ///
    /// # Errors
    ///
    /// When that was too much, or the stream is one that the connection needs: it is to be closed.
    pub fn peer_stopped(&mut self, stream: StreamId, code: Code) -> Result<Option<Event>, Fatal> {
        let is_own = self.control.is(stream) || self.feedback.is(stream);
        self.attempt(|it| match is_own {
            true => Err(Code::ClosedCriticalStream.into()),
            false => it.on_stopped(stream, code),
        })
    }

    fn on_given_up(&mut self, id: StreamId, code: Code) -> Outcome {
        let Some(stream) = self.streams.get(&id) else { return Ok(None) };
        if stream.incoming.half() == Half::Done {
            // It has sent all of it before, and what was lost of that is not missed.
            return Ok(None);
        }
        if stream.sending == Half::Done {
            // What was sent to its end does not need the rest of what was to come.
            let was_heard = self.abandon(id);
            self.end_if_over(id);
            return Ok(was_heard.then_some(Event::Reset { stream: id, code, fault: None }));
        }
        self.on_cancelled(id, code)
    }

    fn on_stopped(&mut self, id: StreamId, code: Code) -> Outcome {
        let Some(stream) = self.streams.get_mut(&id) else { return Ok(None) };
        match (self.peer, stream.sending) {
            // A server that has responded does not need the rest of the request (section 4.1).
            (Peer::Server, Half::Done) if code == Code::NoError && stream.out.is_empty() => {
                Ok(None)
            }
            (Peer::Server, _) if code == Code::NoError => {
                stream.sending = Half::Done;
                stream.ends = false;
                stream.out = Default::default();
                if std::mem::take(&mut stream.is_waiting) {
                    self.unblocked.push_back(id);
                }
                self.close(id, true, false, Code::NoError);
                self.end_if_over(id);
                Ok(None)
            }
            (_, Half::Done) => {
                // What was sent to its end is on its way, and of no interest any more.
                let was_heard = stream.is_heard && stream.incoming.half() != Half::Done;
                self.give_up(id, Code::RequestCancelled);
                Ok(was_heard.then_some(Event::Reset { stream: id, code, fault: None }))
            }
            _ => self.on_cancelled(id, code),
        }
    }

    fn on_cancelled(&mut self, id: StreamId, code: Code) -> Outcome {
        self.give_up(id, Code::RequestCancelled);
        if self.peer == Peer::Client {
            self.floods.reset()?;
        }
        Ok(Some(Event::Reset { stream: id, code, fault: None }))
    }

    /// Ends the connection in good order: what has begun is finished. A client is told in two steps, of which [`Connection::leave`] is the
    /// second, so that no request is lost that it sends before it knows.
    pub fn drain(&mut self) {
        match (self.leaving, self.peer) {
            (Shutdown::No, Peer::Client) => {
                self.leaving = Shutdown::Announced;
                self.write_go_away(LAST_REQUEST);
            }
            (Shutdown::No, Peer::Server) => self.leave(),
            _ => {}
        }
    }

    /// Serves no further request. What has begun goes on until the driver closes.
    pub fn leave(&mut self) {
        if matches!(self.leaving, Shutdown::Final { .. }) {
            return;
        }
        self.leaving = Shutdown::Final { first: self.next };
        // A client's names the first push that it does not take, and it takes none.
        let first = if self.peer == Peer::Client { self.next } else { 0 };
        self.write_go_away(first);
    }

    /// Whether one side has said that it leaves: no request should be begun any more.
    pub fn is_leaving(&self) -> bool {
        self.failed.is_some() || self.leaving != Shutdown::No || self.peer_serves.is_some()
    }

    /// Whether nothing more can come: one side has left, and no stream is open.
    pub fn is_over(&self) -> bool {
        let is_final = matches!(self.leaving, Shutdown::Final { .. });
        let is_leaving = is_final || self.peer_serves.is_some();
        self.failed.is_some() || is_leaving && self.streams.is_empty()
    }

    fn write_go_away(&mut self, number: u64) {
        let (mut payload, out) = (Vec::new(), self.control.buf());
        varint::write(&mut payload, number);
        FrameHeader { kind: Kind::GoAway, length: payload.len() as u64 }.write(out);
        out.append(&mut payload);
    }

    /// A stream on which the peer has broken a rule ends here.
    pub(super) fn fail_stream(&mut self, id: StreamId, fault: Fault) -> Outcome {
        if self.peer == Peer::Client {
            // A server can be made to reset streams for nothing; a client has opened each of them itself.
            self.floods.charge(2)?;
        }
        self.give_up(id, Code::Message);
        Ok(Some(Event::Reset { stream: id, code: Code::Message, fault: Some(fault) }))
    }

    /// Ends a stream at once, in both directions.
    pub(super) fn give_up(&mut self, id: StreamId, code: Code) {
        let was_heard = self.abandon(id);
        if self.streams.remove(&id).is_some() {
            self.close(id, true, was_heard, code);
        }
    }

    /// Requests from that one on were not processed.
    pub(super) fn drop_from(&mut self, first: u64) {
        let dropped = |(id, _): &(&StreamId, &Stream)| id.number() >= first;
        let ids: Vec<_> = self.streams.iter().filter(dropped).map(|(id, _)| *id).collect();
        ids.into_iter().for_each(|id| self.give_up(id, Code::RequestCancelled));
    }

    pub(super) fn end_if_over(&mut self, id: StreamId) {
        if self.streams.get(&id).is_some_and(Stream::is_over) {
            self.streams.remove(&id);
            self.floods.responded();
        }
    }

    pub(super) fn close(&mut self, stream: StreamId, reset: bool, stop: bool, code: Code) {
        self.closings.push(Closing { stream, reset, stop, code });
    }

    /// What comes on a stream is not read to its end: the peer's encoder must not count on sections of it (RFC 9204 section 4.4.2).
    /// Whether it was read until now, and had not ended.
    pub(super) fn abandon(&mut self, id: StreamId) -> bool {
        let Some(stream) = self.streams.get_mut(&id) else { return false };
        let was_heard = stream.is_heard && stream.incoming.half() != Half::Done;
        if was_heard {
            stream.is_heard = false;
            (stream.section, stream.trailers) = (None, None);
            self.blocked.retain(|blocked| *blocked != id);
            self.reader.decoder.cancel(id.number());
        }
        was_heard
    }
}
