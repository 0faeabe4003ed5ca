//! A request of the gateway's own, made for a client whose request waits: its response is read as a whole.
//!
//! It goes the way of all requests from the choice of an endpoint on, with a body that is empty and a client that is
//! memory.

use super::attempt::SendOptions;
use super::forward::key_source;
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
use std::time::Duration;
use titan_config::Retries;
use titan_http::BodyLength;
use titan_http::{Fields, RequestHead, ResponseHead};
use titan_io::body::{BodySink, BodySource, Text};
use titan_io::body::{ClientState, Content, RequestBody, ResponseSink};
use titan_io::clock::TICK;
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

/// A request for which no client waits at a connection: its body is in memory.
pub(super) struct OwnRequest<'r> {
    pub(super) worker: &'r Rc<Worker>,
    pub(super) snapshot: &'r Arc<Snapshot>,
    pub(super) origin: &'r Origin,
    pub(super) request: &'r mut RequestHead,
    /// A text that is being put together.
    pub(super) text: &'r mut Vec<u8>,
    pub(super) body: &'r [u8],
    pub(super) length: BodyLength,
    /// The place of the upstream that it goes to.
    pub(super) upstream: usize,
    pub(super) how: SendOptions<'r>,
    /// How long it may take in all.
    pub(super) timeout: Duration,
    pub(super) record: Record,
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
    /// Sends the request and reads the response.
    async fn send(
        &self,
        subrequest: Subrequest<'_>,
        request: &mut RequestHead,
        text: &mut Vec<u8>,
    ) -> Result<BufferedResponse, Error> {
        let SubrequestClient { worker, snapshot, origin, route } = *self;
        let Subrequest { upstream, send_host, timeouts, timeout, retries, body_limit, request: _ } =
            subrequest;
        let retries = &Retries::plain(retries).within(timeout);
        let mut sink = ResponseBuffer::new(body_limit);
        let own = OwnRequest {
            worker,
            snapshot,
            origin,
            request,
            text,
            body: &[],
            length: BodyLength::None,
            upstream: upstream.index(),
            how: SendOptions { timeouts, retries, send_host, grpc_web: false },
            timeout,
            record: Record { route, is_subrequest: true, ..Record::default() },
        };
        let result = own.send(&mut sink).await;
        sink.into_reply(result)
    }
}

impl OwnRequest<'_> {
    /// Sends it, and the response to `sink`. What it holds is given back where this is dropped.
    pub(super) async fn send(self, sink: &mut dyn ResponseSink) -> Result<(), Error> {
        let OwnRequest { worker, snapshot, origin, request, text, body, length, .. } = self;
        let OwnRequest { upstream: index, how, timeout, record, .. } = self;
        let (timer, limit) = (worker.io.clock.timer(), worker.io.clock.timer());
        // An attempt that takes all of the time is to fail on its own before: then it counts as one of its endpoint.
        let deadline = worker.io.clock.deadline(timeout.saturating_add(2 * TICK));
        // Rare beside requests of clients, they share the code of bodies that pass through something.
        let body: &mut dyn RequestBody = &mut OwnBody::new(body);
        let mut exchange = Exchange {
            worker,
            snapshot,
            timer: &timer,
            origin,
            request,
            length,
            sent_as: length,
            expects_continue: false,
            body,
            sink,
            text,
            upgrade: None,
            record,
        };
        let upstream = &snapshot.upstreams[index];
        let members = worker.members.get(index, upstream, exchange.record.started);
        let client = snapshot.forwarding.client(origin, &exchange.request.fields);
        let mut attempts = Attempts::new(upstream, members, &key_source(exchange.request, client));
        // No fallback where a breaker is open: whoever decides about a request would take it for a decision.
        let mut asked = pin!(exchange.try_endpoints(how, index, &mut attempts));
        poll_fn(|cx| match asked.as_mut().poll(cx) {
            Poll::Pending => limit.poll(cx, deadline).map(|()| Err(Kind::ResponseTimeout.into())),
            result => result,
        })
        .await
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

/// A body in memory, of a client that stays: whether a real one does is watched by the exchange that waits.
pub(super) struct OwnBody<'t> {
    rest: Text<'t>,
    whole: &'t [u8],
}

impl<'t> OwnBody<'t> {
    pub(super) fn new(whole: &'t [u8]) -> OwnBody<'t> {
        OwnBody { rest: Text::new(whole), whole }
    }
}

impl BodySource for OwnBody<'_> {
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.rest.poll_data(cx)
    }

    fn data(&self) -> &[u8] {
        self.rest.data()
    }

    fn consume(&mut self, count: usize) {
        self.rest.consume(count);
    }

    fn is_done(&self) -> bool {
        self.rest.is_done()
    }

    fn is_last(&self) -> bool {
        self.rest.is_last()
    }

    fn trailers(&self) -> &Fields {
        self.rest.trailers()
    }
}

impl RequestBody for OwnBody<'_> {
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

    fn is_repeatable(&self) -> bool {
        true
    }

    fn rewind(&mut self) -> bool {
        self.rest = Text::new(self.whole);
        true
    }
}
