//! Frames as they come in (RFC 9113 sections 3.4, 4.1 and 6).

use super::Connection;
use crate::code::{Fatal, Violation};
use crate::event::Event;
use crate::frame::{self, FrameHead, HEAD, MAX_PAYLOAD, PREFACE};
use crate::settings::Role;
use std::ops::Range;
use titan_http::stream::Flood;

/// What may come next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The preface of a client.
    Preface,
    /// The first frame, which is SETTINGS.
    Settings,
    /// Any frame.
    Frames,
}

/// One frame of the input.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame<'i> {
    pub(super) head: FrameHead,
    pub(super) payload: &'i [u8],
    /// Where the payload begins in the input.
    pub(super) at: usize,
}

/// What a frame leads to.
pub(super) type Outcome = Result<Option<Event>, Violation>;

/// Nothing, where the peer can pay for it.
pub(super) fn nothing_for(charged: Result<(), Flood>) -> Outcome {
    charged?;
    Ok(None)
}

impl Connection {
    /// Reads on. `input` is everything that was received and not consumed. Returns how many bytes are
    /// consumed now, and at most one event; to be called until that is `(0, None)`, which means that more
    /// bytes are needed.
    ///
    /// Frames are read whole, so that up to 16,393 bytes may be waited for. After an error nothing more is
    /// read; what is in the output, with GOAWAY at its end, is still to be written.
    #[inline]
    pub fn read(&mut self, input: &[u8]) -> Result<(usize, Option<Event>), Fatal> {
        if let Some(fatal) = self.failed {
            return Err(fatal);
        }
        let (consumed, event) =
            self.read_frames(input).map_err(|violation| self.fail(violation))?;
        self.read += consumed as u64;
        Ok((consumed, event))
    }

    /// Where in all that was read that begins which has come in part, and ought to be whole soon: the preface with its
    /// SETTINGS, a field block, or a frame that is none of a body, for which its stream has a timeout. `unread` is
    /// what [`Connection::read`] has left. As long as the response is the same, it is the same beginning.
    pub fn unfinished(&self, unread: &[u8]) -> Option<u64> {
        const KIND_AT: usize = 3;
        let is_body = unread.get(KIND_AT) == Some(&frame::DATA);
        let has_begun = self.stage != Stage::Frames || self.begun.is_some();
        (has_begun || !unread.is_empty() && !is_body).then_some(self.whole)
    }

    fn read_frames(&mut self, input: &[u8]) -> Result<(usize, Option<Event>), Violation> {
        let mut at = 0;
        if self.stage == Stage::Preface {
            at = preface(input)?;
            if at == 0 {
                return Ok((0, None));
            }
            self.stage = Stage::Settings;
        }
        while let Some(frame) = self.next_frame(input, at)? {
            at = frame.at + frame.payload.len();
            let event = self.read_frame(frame)?;
            if self.begun.is_none() {
                self.whole = self.read + at as u64;
            }
            if event.is_some() {
                return Ok((at, event));
            }
        }
        Ok((at, None))
    }

    /// The frame that begins at `at`, once it is there as a whole.
    #[inline]
    fn next_frame<'i>(&self, input: &'i [u8], at: usize) -> Result<Option<Frame<'i>>, Violation> {
        if self.stage == Stage::Settings && self.is_http1(&input[at..]) {
            return Err(Violation::NotHttp2);
        }
        let Some(head) = FrameHead::parse(&input[at..]) else { return Ok(None) };
        if head.length > MAX_PAYLOAD {
            return Err(Violation::FrameTooLong);
        }
        let at = at + HEAD;
        let payload = input.get(at..at + head.length);
        Ok(payload.map(|payload| Frame { head, payload, at }))
    }

    fn read_frame(&mut self, frame: Frame<'_>) -> Outcome {
        let head = frame.head;
        if self.stage == Stage::Settings {
            if head.kind != frame::SETTINGS || head.has(frame::ACK) {
                return Err(Violation::NoSettings);
            }
            self.stage = Stage::Frames;
        }
        if self.begun.is_some() && head.kind != frame::CONTINUATION {
            return Err(Violation::Continuation);
        }
        match head.kind {
            frame::DATA => self.on_data(frame),
            frame::HEADERS => self.on_headers(frame),
            frame::PRIORITY => self.on_priority(frame),
            frame::RST_STREAM => self.on_reset(frame),
            frame::SETTINGS => self.on_settings(frame),
            frame::PUSH_PROMISE => Err(Violation::Push),
            frame::PING => self.on_ping(frame),
            frame::GOAWAY => self.on_go_away(frame),
            frame::WINDOW_UPDATE => self.on_window_update(frame),
            frame::CONTINUATION => self.on_continuation(frame),
            _ => nothing_for(self.floods.aside()),
        }
    }

    /// Whether a server responds as one of HTTP/1 does.
    fn is_http1(&self, input: &[u8]) -> bool {
        self.role == Role::Client && input.starts_with(b"HTTP/1")
    }
}

impl Frame<'_> {
    /// Where a part of the payload lies in the input.
    pub(super) fn range(&self, skipped: usize, length: usize) -> Range<usize> {
        let start = self.at + skipped;
        start..start + length
    }
}

/// Reads the preface: its length, or 0 while it is incomplete.
fn preface(input: &[u8]) -> Result<usize, Violation> {
    let length = input.len().min(PREFACE.len());
    match (input[..length] == PREFACE[..length], length == PREFACE.len()) {
        (false, _) => Err(Violation::Preface),
        (true, is_complete) => Ok(if is_complete { length } else { 0 }),
    }
}
