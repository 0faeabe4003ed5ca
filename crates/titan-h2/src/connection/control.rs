//! Frames that move no message: PRIORITY, SETTINGS, PING, WINDOW_UPDATE (RFC 9113 sections 6.3 to 6.9).

use super::Connection;
use super::ending::Shutdown;
use super::reading::{Frame, Outcome, nothing_for};
use crate::code::Violation;
use crate::event::Event;
use crate::frame;
use crate::settings::PeerSettings;
use crate::stream::Turn;
use titan_http::section::Fault;

/// What the ping says that asks whether the client has seen GOAWAY.
const LEAVING: &[u8; 8] = b"leaving.";

/// What the ping says that asks whether the peer is there.
const THERE: &[u8; 8] = b"there?..";

impl Connection {
    /// Pings the peer: [`Event::Pong`].
    pub fn ping(&mut self) {
        self.pinged = true;
        frame::write_ping(self.output.buf(), 0, THERE);
    }

    /// Asks the client to say when it has seen all that was sent so far.
    pub(super) fn ping_leaving(&mut self) {
        frame::write_ping(self.output.buf(), 0, LEAVING);
    }

    pub(super) fn on_priority(&mut self, frame: Frame<'_>) -> Outcome {
        frame.head.must_be_on_stream()?;
        let id = frame.head.stream;
        let fault = match frame.payload.len() {
            5 if frame::number(frame.payload) == id => Fault::DependsOnItself,
            5 => return nothing_for(self.floods.aside()),
            _ => Fault::PriorityLength,
        };
        match self.streams.get(id) {
            Some(_) => self.fail_stream(id, fault),
            None if fault == Fault::PriorityLength => Err(Violation::FrameLength),
            None => Err(Violation::IdleStream),
        }
    }

    pub(super) fn on_settings(&mut self, frame: Frame<'_>) -> Outcome {
        frame.head.must_be_on_connection()?;
        if frame.head.has(frame::ACK) {
            frame.head.must_be(0)?;
            return self.on_settings_ack();
        }
        if !frame.payload.len().is_multiple_of(6) {
            return Err(Violation::FrameLength);
        }
        let count = u32::try_from(frame.payload.len() / 6).unwrap_or(u32::MAX);
        self.floods.charge(2 + count / 8)?;
        let before = self.peer;
        self.peer.read(frame.payload, self.role)?;
        self.adopt(before)?;
        self.reply(|out| frame::write_head(out, 0, frame::SETTINGS, frame::ACK, 0))?;
        Ok(Some(Event::Settings))
    }

    /// The initial window holds for streams that are open already (section 6.9.2).
    fn adopt(&mut self, before: PeerSettings) -> Result<(), Violation> {
        let by = self.peer.window - before.window;
        if by == 0 {
            return Ok(());
        }
        for stream in self.streams.iter_mut() {
            if !stream.outflow.shift(by) {
                return Err(Violation::SettingWindow);
            }
            if stream.turn == Turn::Window && stream.outflow.available() > 0 {
                stream.turn = Turn::Queued;
                self.turns.push_back(stream.id);
            }
        }
        Ok(())
    }

    /// From here on the peer goes by what this side has announced.
    fn on_settings_ack(&mut self) -> Outcome {
        if !self.unacknowledged {
            return nothing_for(self.floods.charge(1));
        }
        self.unacknowledged = false;
        let before = std::mem::replace(&mut self.window, i64::from(self.limits.stream_window));
        for stream in self.streams.iter_mut() {
            stream.inflow.shift(self.window - before);
        }
        Ok(None)
    }

    pub(super) fn on_ping(&mut self, frame: Frame<'_>) -> Outcome {
        frame.head.must_be_on_connection()?;
        frame.head.must_be(8)?;
        if !frame.head.has(frame::ACK) {
            self.floods.charge(1)?;
            return self
                .reply(|out| frame::write_ping(out, frame::ACK, frame.payload))
                .map(|()| None);
        }
        if frame.payload == LEAVING && matches!(self.leaving, Shutdown::Announced { .. }) {
            self.leave();
            return Ok(None);
        }
        if frame.payload == THERE && self.pinged {
            self.pinged = false;
            return Ok(Some(Event::Pong));
        }
        nothing_for(self.floods.charge(1))
    }

    pub(super) fn on_window_update(&mut self, frame: Frame<'_>) -> Outcome {
        frame.head.must_be(4)?;
        let increment = frame::number(frame.payload);
        self.floods.aside()?;
        match frame.head.stream {
            0 => self.widen(increment).map(|()| None),
            id => self.widen_stream(id, increment),
        }
    }

    fn widen(&mut self, increment: u32) -> Result<(), Violation> {
        match increment {
            0 => Err(Violation::WindowIncrement),
            _ if self.outflow.shift(i64::from(increment)) => Ok(()),
            _ => Err(Violation::WindowOverflow),
        }
    }

    fn widen_stream(&mut self, id: u32, increment: u32) -> Outcome {
        let Some(stream) = self.streams.get_mut(id) else {
            self.on_stray(id)?;
            return nothing_for(self.floods.stray());
        };
        if increment == 0 {
            return self.fail_stream(id, Fault::WindowIncrement);
        }
        if !stream.outflow.shift(i64::from(increment)) {
            return self.fail_stream(id, Fault::WindowOverflow);
        }
        if stream.turn == Turn::Window && stream.outflow.available() > 0 {
            stream.turn = Turn::Queued;
            self.turns.push_back(id);
        }
        Ok(None)
    }

    /// Answers a frame of the peer's, as long as the peer reads what it is sent.
    pub(super) fn reply(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), Violation> {
        if self.output.reply(write) { Ok(()) } else { Err(Violation::Unread) }
    }
}
