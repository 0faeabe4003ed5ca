//! The end of streams and of connections, in order or not (RFC 9113 sections 5.4, 6.4 and 6.8).

use super::Connection;
use super::reading::{Frame, Outcome, nothing_for};
use crate::code::{Code, Fatal, Violation};
use crate::event::Event;
use crate::frame::{self, MAX_31};
use crate::settings::Role;
use crate::stream::{End, Stream, Turn, number, stream_id};
use titan_http::section::Fault;
use titan_http::stream::{Half, StreamId};

/// How far this side has stopped accepting streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shutdown {
    No,
    /// The client was told that this side will leave; what it opens before it knows is served, up to the last of
    /// as many streams as it could have opened at once.
    Announced {
        last: u32,
    },
    /// The client was told which stream is the last.
    Final,
}

impl Connection {
    /// Abandons a stream; there is no event for it. Nothing happens if it is over.
    ///
    /// A server that has responded completely while the request goes on says so with [`Code::NoError`].
    pub fn reset(&mut self, stream: StreamId, code: Code) {
        if let Some(stream) = self.streams.remove(number(stream)) {
            self.give_up(&stream);
            frame::write_reset(self.output.buf(), stream.id, code);
        }
    }

    /// Takes back what a client was charged for a reset: it had a reason that only the driver knows.
    pub fn forgive_reset(&mut self) {
        self.floods.responded();
    }

    /// Ends the connection in good order: what has begun is finished. A client is told in two steps, so that
    /// no request is lost that it sends before it knows.
    pub fn drain(&mut self) {
        if self.leaving != Shutdown::No {
            return;
        }
        match self.role {
            Role::Client => self.leave(),
            Role::Server => {
                let more = self.limits.streams.saturating_mul(2);
                self.leaving = Shutdown::Announced { last: self.last.saturating_add(more) };
                frame::write_go_away(self.output.buf(), MAX_31, Code::NoError);
                self.ping_leaving();
            }
        }
    }

    /// Serves no further stream. What has begun goes on until the driver closes.
    pub fn go_away(&mut self, code: Code) {
        if self.leaving != Shutdown::Final || code != Code::NoError {
            self.leaving = Shutdown::Final;
            let last = self.last_served();
            frame::write_go_away(self.output.buf(), last, code);
        }
    }

    /// Whether one side has said that it leaves: no stream should be opened any more.
    pub fn is_leaving(&self) -> bool {
        self.failed.is_some() || self.leaving != Shutdown::No || self.peer_serves.is_some()
    }

    /// Whether nothing more can come: one side has left, and no stream is open.
    pub fn is_over(&self) -> bool {
        let is_leaving = self.leaving == Shutdown::Final || self.peer_serves.is_some();
        self.failed.is_some() || is_leaving && self.streams.is_empty()
    }

    pub(super) fn leave(&mut self) {
        self.go_away(Code::NoError);
    }

    /// The connection ends here.
    pub(super) fn fail(&mut self, violation: Violation) -> Fatal {
        let fatal = Fatal::of(violation);
        if self.failed.is_none() {
            self.failed = Some(fatal);
            self.go_away(fatal.code);
        }
        fatal
    }

    /// A stream on which the peer has broken a rule ends here.
    pub(super) fn fail_stream(&mut self, id: u32, fault: Fault) -> Outcome {
        self.charge_fault(fault)?;
        let code = Code::of(fault);
        match self.streams.remove(id) {
            Some(stream) => self.give_up(&stream),
            None => self.gone.push(id, End::ByUs),
        }
        self.reply(|out| frame::write_reset(out, id, code))?;
        Ok(Some(Event::Reset { stream: stream_id(id), code, fault: Some(fault) }))
    }

    /// A server can be made to reset streams for nothing; a client has opened each of them itself.
    fn charge_fault(&mut self, fault: Fault) -> Result<(), Violation> {
        match (self.role, fault) {
            (Role::Client, _) => Ok(()),
            (Role::Server, Fault::TooManyStreams) => self.floods.charge(1),
            (Role::Server, _) => self.floods.charge(2),
        }?;
        Ok(())
    }

    pub(super) fn on_reset(&mut self, frame: Frame<'_>) -> Outcome {
        frame.head.must_be_on_stream()?;
        frame.head.must_be(4)?;
        let id = frame.head.stream;
        let Some(stream) = self.streams.remove(id) else {
            self.on_stray(id)?;
            if self.gone.is_first_reset(id) {
                return Ok(None);
            }
            return nothing_for(self.floods.stray());
        };
        self.discard(&stream, End::ByPeer);
        if self.role == Role::Server && stream.sending != Half::Done {
            self.floods.reset()?;
        }
        let code = Code::from_number(frame::whole_number(frame.payload));
        Ok(Some(Event::Reset { stream: stream_id(id), code, fault: None }))
    }

    pub(super) fn on_go_away(&mut self, frame: Frame<'_>) -> Outcome {
        frame.head.must_be_on_connection()?;
        if frame.payload.len() < 8 {
            return Err(Violation::FrameLength);
        }
        self.floods.charge(1)?;
        let last = frame::number(frame.payload).min(self.peer_serves.unwrap_or(MAX_31));
        let code = Code::from_number(frame::whole_number(&frame.payload[4..]));
        self.peer_serves = Some(last);
        if self.role == Role::Client {
            while let Some(stream) = self.streams.remove_above(last) {
                self.discard(&stream, End::ByUs);
            }
        }
        Ok(Some(Event::GoAway { last: stream_id(last), code }))
    }

    /// The peer has sent all of a message that is of no interest.
    pub(super) fn end_refused(&mut self, id: u32) {
        let Some(stream) = self.streams.get_mut(id) else { return };
        stream.incoming.begin_refused(true);
        self.end_if_complete(id);
    }

    /// This side has sent all of its message.
    pub(super) fn end_sending(&mut self, id: u32) {
        let Some(stream) = self.streams.get_mut(id) else { return };
        stream.sending = Half::Done;
        let turn = std::mem::take(&mut stream.turn);
        let is_refused = stream.is_refused && stream.incoming.half() != Half::Done;
        self.clear_turn(id, turn);
        if is_refused {
            return self.reset(stream_id(id), Code::NoError);
        }
        self.end_if_complete(id);
    }

    /// The stream is over if both sides have sent all of their messages.
    pub(super) fn end_if_complete(&mut self, id: u32) {
        let is_complete = self
            .streams
            .get(id)
            .is_some_and(|it| it.incoming.half() == Half::Done && it.sending == Half::Done);
        if is_complete {
            self.streams.remove(id);
            self.gone.push(id, End::Complete);
            self.floods.responded();
        }
    }

    /// This side ends a stream. The peer has to expect that some of the response is on its way.
    fn give_up(&mut self, stream: &Stream) {
        if self.role == Role::Client {
            self.floods.excuse(stream.inflow.available());
        }
        self.discard(stream, End::ByUs);
    }

    /// A stream that was taken out leaves nothing behind.
    fn discard(&mut self, stream: &Stream, end: End) {
        self.gone.push(stream.id, end);
        self.clear_turn(stream.id, stream.turn);
    }

    fn clear_turn(&mut self, id: u32, turn: Turn) {
        if turn == Turn::Granted {
            self.granted -= 1;
        }
        self.forget_turn(id, turn);
    }

    /// What GOAWAY names: the last stream of the peer's that was or may be served.
    fn last_served(&self) -> u32 {
        if self.role == Role::Server { self.last } else { 0 }
    }
}
