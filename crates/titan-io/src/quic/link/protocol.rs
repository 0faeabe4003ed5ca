//! What the streams of a connection need of it, in either role.

use super::{Link, number};
use crate::mux::{ClientProtocol, Farewell, Protocol};
use quinn_proto::Dir;
use titan_h3::Code;
use titan_http::section::Destination;
use titan_http::stream::StreamId;
use titan_http::{Fields, RequestHead, ResponseHead};

impl Protocol for Link {
    fn send_response(
        &mut self,
        stream: StreamId,
        head: &ResponseHead,
        length: Option<u64>,
        end: bool,
    ) -> usize {
        self.h3.send_response(stream, head, length, end)
    }

    fn send_data(&mut self, stream: StreamId, data: &[u8], end: bool) -> usize {
        self.h3.send_data(stream, data, end)
    }

    fn send_trailers(&mut self, stream: StreamId, fields: &Fields) -> usize {
        self.h3.send_trailers(stream, fields)
    }

    fn is_sending(&self, stream: StreamId) -> bool {
        self.h3.is_sending(stream)
    }

    fn release(&mut self, stream: StreamId, count: usize) {
        self.h3.release(stream, count);
        self.let_go();
    }

    fn set_aside(&mut self, stream: StreamId, count: usize) {
        self.release(stream, count);
    }

    fn reset(&mut self, stream: StreamId, farewell: Farewell) {
        let code = match farewell {
            Farewell::Responded => Code::NoError,
            Farewell::Failed => Code::Internal,
            Farewell::Cancelled => Code::RequestCancelled,
        };
        self.h3.reset(stream, code);
    }

    fn forgive_reset(&mut self) {
        self.h3.forgive_reset();
    }

    fn charge_for_stall(&mut self, stalls: u32) {
        let _ = self.h3.charge(self.h3.limits().flood_budget / stalls + 1);
    }

    fn next_unblocked(&mut self) -> Option<StreamId> {
        self.h3.next_unblocked()
    }
}

impl ClientProtocol for Link {
    fn can_open(&mut self) -> bool {
        if self.h3.is_leaving() || self.lost.is_some() {
            return false;
        }
        // The only way to learn it is to open one; nothing of that is sent before something is sent on it.
        self.spare = self.spare.or_else(|| self.quic.streams().open(Dir::Bi).map(number));
        self.spare.is_some()
    }

    fn send_request(
        &mut self,
        head: &RequestHead,
        to: Destination<'_>,
        length: Option<u64>,
        end: bool,
    ) -> Option<StreamId> {
        let stream = self.can_open().then(|| self.spare.take()).flatten()?;
        self.h3.send_request(stream, head, to, length, end);
        Some(stream)
    }

    fn open_streams(&self) -> usize {
        self.h3.open_streams()
    }

    fn most_streams(&self) -> u32 {
        self.h3.limits().streams
    }

    fn ping(&mut self) {
        // It is sent when the connection moves next.
        self.quic.ping();
    }

    fn is_leaving(&self) -> bool {
        self.h3.is_leaving()
    }

    fn is_over(&self) -> bool {
        self.h3.is_over()
    }
}
