//! A request of the gateway's own, made for a client whose request waits: its response is read as a whole.
//!
//! It goes the way of all requests from the choice of an endpoint on, with a body that is empty and a client that is
//! memory.

use super::attempt::SendOptions;
use super::key_source;
use super::{Exchange, Record};
use crate::forwarding::Refused;
use crate::origin::Origin;
use crate::scratch::Scratch;
use crate::snapshot::Snapshot;
use crate::worker::Worker;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use titan_http::BodyLength;
use titan_http::{Fields, RequestHead, ResponseHead};
use titan_io::body::{BodySink, BodySource, Text};
use titan_io::body::{ClientState, Content, RequestBody, ResponseSink};
use titan_io::error::{Error, Kind};
use titan_policies::buffered_response::BufferedResponse;
use titan_policies::context::{Subrequest, SubrequestOutcome, Subrequests, Write};
use titan_upstream::attempts::Attempts;

/// Makes requests of the gateway's own for the client of an exchange.
pub(super) struct SubrequestClient<'x> {
    pub(super) worker: &'x Rc<Worker>,
    pub(super) snapshot: &'x Arc<Snapshot>,
    /// Where the client comes from.
    pub(super) origin: &'x Origin,
    /// The route of the client's request.
    pub(super) route: Option<usize>,
}

/// What of a body of 2xx is read so that its connection can be used again. A larger one costs a connection.
const MOST_SKIPPED: usize = 64 << 10;

impl Subrequests for SubrequestClient<'_> {
    fn describe(&self, question: &mut RequestHead, text: &mut Vec<u8>) -> Result<(), Error> {
        let told = self.snapshot.forwarding.add_upstream_fields(self.origin, question, text);
        told.map_err(|refused| match refused {
            Refused::Loop => Kind::Loop.into(),
            Refused::Field(_) => Kind::Internal.into(),
        })
    }

    fn ask<'a>(
        &'a self,
        subrequest: Subrequest<'a>,
        write: Write<'_>,
    ) -> Result<SubrequestOutcome<'a>, Error> {
        let mut loan = self.worker.scratch(self.snapshot);
        let Scratch { request, text, .. } = &mut *loan;
        if let Some(known) = write(request, text)? {
            return Ok(SubrequestOutcome::Known(known));
        }
        let id = &subrequest.request.fields;
        let told = self.snapshot.forwarding.pass_id(id, &mut request.fields);
        told.map_err(|_| Kind::Internal)?;
        // Boxed here alone: an exchange is large, and what is known needs none.
        Ok(SubrequestOutcome::Sent(Box::pin(async move {
            let Scratch { request, text, .. } = &mut *loan;
            self.send(subrequest, request, text).await
        })))
    }
}

impl SubrequestClient<'_> {
    /// Sends the request and reads the response. What it holds is given back where this is dropped.
    async fn send(
        &self,
        subrequest: Subrequest<'_>,
        request: &mut RequestHead,
        text: &mut Vec<u8>,
    ) -> Result<BufferedResponse, Error> {
        let SubrequestClient { worker, snapshot, origin, route } = *self;
        let Subrequest { upstream, send_host, timeouts, timeout, retries, body_limit, request: _ } =
            subrequest;
        let how = SendOptions { timeouts, retries, send_host, grpc_web: false };
        let (timer, limit) = (worker.io.clock.timer(), worker.io.clock.timer());
        let deadline = worker.io.clock.deadline(timeout);
        let mut sink = ResponseBuffer::new(body_limit);
        // Rare beside requests of clients, they share the code of bodies that pass through something.
        let body: &mut dyn RequestBody = &mut Nothing(Text::new(&[]));
        let mut exchange = Exchange {
            worker,
            snapshot,
            timer: &timer,
            origin,
            request,
            length: BodyLength::None,
            sent_as: BodyLength::None,
            expects_continue: false,
            body,
            sink: &mut sink as &mut dyn ResponseSink,
            text,
            upgrade: None,
            record: Record { route, is_subrequest: true, ..Record::default() },
        };
        let index = upstream.index();
        let upstream = &snapshot.upstreams[index];
        let members = worker.members.get(index, upstream);
        let client = snapshot.forwarding.client(origin, &exchange.request.fields);
        let attempts = Attempts::new(upstream, members, &key_source(exchange.request, client));
        let result = {
            let mut asked = pin!(exchange.try_endpoints(how, index, attempts));
            poll_fn(|cx| match asked.as_mut().poll(cx) {
                Poll::Pending => {
                    limit.poll(cx, deadline).map(|()| Err(Kind::ResponseTimeout.into()))
                }
                result => result,
            })
            .await
        };
        sink.into_reply(result)
    }
}

/// The response on its way into memory.
pub(super) struct ResponseBuffer {
    response: BufferedResponse,
    is_started: bool,
    /// Bytes of the body so far.
    taken: usize,
    body_limit: usize,
    /// Whether the rest of a body that does not matter is left where it is.
    is_cut: bool,
}

impl ResponseBuffer {
    pub(super) fn new(body_limit: usize) -> ResponseBuffer {
        ResponseBuffer {
            response: BufferedResponse::default(),
            is_started: false,
            taken: 0,
            body_limit,
            is_cut: false,
        }
    }

    fn is_body_wanted(&self) -> bool {
        !self.response.head.status.is_success()
    }

    pub(super) fn into_reply(self, result: Result<(), Error>) -> Result<BufferedResponse, Error> {
        match result {
            Err(error) if !self.is_cut => Err(error),
            _ => Ok(self.response),
        }
    }
}

impl BodySink for ResponseBuffer {
    fn poll_send(
        &mut self,
        _: &mut Context<'_>,
        data: &[u8],
        _: bool,
    ) -> Poll<Result<usize, Error>> {
        self.taken = self.taken.saturating_add(data.len());
        let most = if self.is_body_wanted() { self.body_limit } else { MOST_SKIPPED };
        if self.taken > most {
            self.is_cut = !self.is_body_wanted();
            return Poll::Ready(Err(Kind::Truncated.into()));
        }
        if self.is_body_wanted() {
            self.response.body.extend_from_slice(data);
        }
        Poll::Ready(Ok(data.len()))
    }

    fn poll_flush(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn poll_end(&mut self, _: &mut Context<'_>, _: &Fields) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn written(&self) -> u64 {
        self.taken as u64
    }

    fn insist(&mut self) {}
}

impl ResponseSink for ResponseBuffer {
    fn interim(&mut self, _: &ResponseHead) {}

    fn start(&mut self, head: &ResponseHead, _: Content) {
        self.is_started = true;
        self.response.head = head.clone();
    }

    fn start_tunnel(&mut self, head: &ResponseHead) {
        // A subrequest never asks for one.
        self.start(head, Content { length: BodyLength::None, declared: None });
    }

    fn is_started(&self) -> bool {
        self.is_started
    }

    fn close_after(&mut self) {}

    fn sent(&self) -> u64 {
        0
    }
}

/// The body of a request that has none, of a client that stays: whether the real one does is watched by the exchange
/// that waits.
pub(super) struct Nothing(pub(super) Text<'static>);

impl BodySource for Nothing {
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.0.poll_data(cx)
    }

    fn data(&self) -> &[u8] {
        self.0.data()
    }

    fn consume(&mut self, count: usize) {
        self.0.consume(count);
    }

    fn is_done(&self) -> bool {
        self.0.is_done()
    }

    fn is_last(&self) -> bool {
        self.0.is_last()
    }

    fn trailers(&self) -> &Fields {
        self.0.trailers()
    }
}

impl RequestBody for Nothing {
    fn poll_ahead(&mut self, _: &mut Context<'_>, _: usize) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn ahead(&self) -> usize {
        0
    }

    fn poll_gone(&mut self, _: &mut Context<'_>) -> Poll<ClientState> {
        Poll::Pending
    }

    fn poll_lost(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    fn is_broken(&self) -> bool {
        false
    }

    fn is_abandoned(&self) -> bool {
        false
    }

    fn set_limit(&mut self, _: u64) -> Result<(), Error> {
        Ok(())
    }

    fn received(&self) -> u64 {
        0
    }
}
