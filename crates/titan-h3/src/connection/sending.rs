//! Messages to frames (RFC 9114 sections 4.1 and 7.2), as far as there is room for them.

use super::Connection;
use crate::code::Code;
use crate::control::Peer;
use crate::frame::{FrameHeader, Kind};
use crate::sections::{append_request, append_response, append_trailers};
use crate::stream::Stream;
use titan_http::section::{Destination, size_of_fields, size_of_response};
use titan_http::stream::{Half, Incoming, RequestKind, StreamId};
use titan_http::{Fields, RequestHead, ResponseHead};

/// Bytes below which a frame is no work that gets done where only the peer's window makes it so short.
const WORTH_A_FRAME: usize = 64;

impl Connection {
    /// Client role: begins a request on a stream that the transport has just opened. With `end` no body follows; `length` is what
    /// `content-length` is to say, for the fields' own is left out.
    pub fn send_request(
        &mut self,
        stream: StreamId,
        head: &RequestHead,
        to: Destination<'_>,
        length: Option<u64>,
        end: bool,
    ) {
        let incoming = Incoming::response(RequestKind::by(head.method));
        let mut request = Stream::new(Peer::Server, incoming, self.limits.longest_section());
        append_request(&mut request.out.next, head, &to, length);
        request.sending = if end { Half::Done } else { Half::Body };
        request.ends = end;
        self.next = self.next.max(stream.number() + 4);
        self.streams.insert(stream, request);
        self.floods.earn_asides(0);
        self.note_output(stream);
    }

    /// Sends a head of a response: an interim one if its status says so, else the final one, which with `end` has no body. `length` is what
    /// `content-length` is to say, also where the body stays away (HEAD, 304); the fields' own is left out. Nothing happens where the
    /// stream is over.
    ///
    /// A head that is longer than the peer takes is not sent (RFC 9114 section 4.2.2): an interim one is left out, and with a final one
    /// the stream is over, which no event tells of.
    ///
    /// Tells how many bytes of a field section go out.
    pub fn send_response(
        &mut self,
        stream: StreamId,
        head: &ResponseHead,
        length: Option<u64>,
        end: bool,
    ) -> usize {
        let is_taken = self.is_taken(|| size_of_response(head, length));
        let Some(response) = self.streams.get_mut(&stream) else { return 0 };
        debug_assert_eq!(response.sending, Half::Head, "one final head for each stream");
        let is_interim = head.status.is_informational();
        if !is_taken {
            if !is_interim {
                self.give_up(stream, Code::Internal);
            }
            return 0;
        }
        let section = append_response(&mut response.out.next, head, length);
        if !is_interim {
            response.sending = if end { Half::Done } else { Half::Body };
            response.ends = end;
        }
        self.note_output(stream);
        section
    }

    /// Sends of a body as much as there is room for, and returns how much that is. `end` counts when it is all of `data`. When it is less,
    /// [`Connection::next_unblocked`] tells when the stream can go on.
    ///
    /// On a stream that is over everything is taken and goes nowhere: an event has told of its end.
    pub fn send_data(&mut self, stream: StreamId, data: &[u8], end: bool) -> usize {
        let most = self.limits.output;
        let Some(message) = self.streams.get_mut(&stream) else { return data.len() };
        if message.sending == Half::Done {
            return data.len();
        }
        debug_assert_eq!(message.sending, Half::Body, "the head goes before the body");
        let count = data.len().min(most.saturating_sub(message.out.len()));
        message.is_waiting = count < data.len();
        if count > 0 {
            let out = &mut message.out.next;
            FrameHeader { kind: Kind::Data, length: count as u64 }.write(out);
            out.extend_from_slice(&data[..count]);
            if count == data.len() || count >= WORTH_A_FRAME {
                self.floods.earn_asides(count);
                self.floods.relieve(1);
            }
        }
        if end && count == data.len() {
            message.sending = Half::Done;
            message.ends = true;
        }
        self.note_output(stream);
        count
    }

    /// Ends a message with trailers, if there are any. Where they are longer than the peer takes, the stream is over, which no event tells
    /// of: without them the message would not be what it was. Tells how many bytes of a field section go out.
    pub fn send_trailers(&mut self, stream: StreamId, fields: &Fields) -> usize {
        let is_taken = self.is_taken(|| size_of_fields(fields));
        let Some(message) = self.streams.get_mut(&stream) else { return 0 };
        if message.sending == Half::Done {
            return 0;
        }
        debug_assert_eq!(message.sending, Half::Body, "the head goes before the trailers");
        if !is_taken {
            self.give_up(stream, Code::Internal);
            return 0;
        }
        let mut section = 0;
        if !fields.is_empty() {
            section = append_trailers(&mut message.out.next, fields);
        }
        message.sending = Half::Done;
        message.ends = true;
        self.note_output(stream);
        section
    }

    /// Whether the peer takes a list of fields of that size, as far as it has said.
    fn is_taken(&self, size: impl FnOnce() -> u64) -> bool {
        let most = self.settings.map_or(u64::MAX, |settings| settings.field_section);
        most == u64::MAX || size() <= most
    }

    /// A stream that [`Connection::send_data`] could not send all of, and that can go on. To be asked after each [`Connection::flush`],
    /// until there is none.
    pub fn next_unblocked(&mut self) -> Option<StreamId> {
        self.unblocked.pop_front()
    }
}
