//! An exchange on a stream of a connection that others use too.

use super::Seat;
use super::connection::LivenessGuard;
use crate::call::{CallMemory, Channel, ReceivedHead};
use crate::connection::Connection;
use std::rc::Rc;
use std::task::{Context, Poll};
use titan_http::stream::ResponseStart;
use titan_http::{BodyLength, Method, Status};
use titan_io::body::Content;
use titan_io::clock::Clock;
use titan_io::error::{Error, Kind};
use titan_io::mux::{ClientProtocol, Mux, Receiver, Sender, StreamHandle};

/// A stream with one request and its response on it.
pub struct StreamChannel<'w, P: ClientProtocol> {
    sender: Sender<P>,
    receiver: Receiver<P>,
    /// Of the request.
    method: Method,
    liveness: LivenessGuard<'w>,
    _seat: Seat,
}

impl<'w, P: ClientProtocol> StreamChannel<'w, P> {
    /// Opens the stream that the seat is for, of `mux`; `open` sends the head of the request. Its body has that many bytes, where
    /// that is known. None where the connection takes no more streams.
    pub fn start(
        (seat, mux): (Seat, &Rc<Mux<P>>),
        clock: &'w Clock,
        method: Method,
        length: Option<u64>,
        open: impl FnOnce(&Rc<Mux<P>>) -> Option<Rc<StreamHandle<P>>>,
    ) -> Option<StreamChannel<'w, P>> {
        let (receiver, mut sender) = open(mux)?.split();
        sender.begin(length, length == Some(0));
        let liveness = seat.shared.liveness(clock);
        Some(StreamChannel { sender, receiver, method, liveness, _seat: seat })
    }
}

impl<P: ClientProtocol> Channel for StreamChannel<'_, P> {
    type Request<'c>
        = &'c mut Sender<P>
    where
        Self: 'c;
    type Response<'c>
        = &'c mut Receiver<P>
    where
        Self: 'c;

    fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        memory: &mut CallMemory,
    ) -> Poll<Result<ReceivedHead, Error>> {
        let head = &mut memory.response;
        self.receiver.poll_head(cx, head).map_ok(|start| {
            self.liveness.shared.has_responded.set(true);
            let ResponseStart { interim, .. } = start;
            let content = content(start, self.method, head.status);
            ReceivedHead { interim, content, keep_alive: true }
        })
    }

    fn request<'c>(&'c mut self, _: &'c mut CallMemory) -> &'c mut Sender<P> {
        &mut self.sender
    }

    fn is_sent(&mut self, _: &mut CallMemory) -> bool {
        self.sender.is_started()
    }

    fn split<'c>(&'c mut self, _: &'c mut CallMemory) -> (&'c mut Sender<P>, &'c mut Receiver<P>) {
        (&mut self.sender, &mut self.receiver)
    }

    fn note_failure(&self, error: Error) {
        if error.kind == Kind::ResponseTimeout {
            // Whether the endpoint is slow or the connection dead is not known: no other request should have to find
            // out.
            self.liveness.shared.retire();
        }
    }

    fn into_connection(self, _: &CallMemory) -> Option<Connection> {
        // The others go on over it.
        None
    }
}

fn content(start: ResponseStart, method: Method, status: Status) -> Content {
    let ResponseStart { end, length, .. } = start;
    let can_have_body =
        method != Method::HEAD && !matches!(status, Status::NO_CONTENT | Status::NOT_MODIFIED);
    let sent = match length {
        _ if !can_have_body => BodyLength::None,
        _ if end => BodyLength::Known(0),
        Some(length) => BodyLength::Known(length),
        None => BodyLength::Unknown,
    };
    Content { length: sent, declared: length }
}
