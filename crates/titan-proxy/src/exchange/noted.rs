//! The beginning of both bodies, where the route has the recorder keep it.
//!
//! A request's is noted as it is taken from its client, so that each byte is noted once, however often it is sent. A response's is
//! noted on its way to the client, before it is compressed: whoever reads it later wants to read it.

use super::{Exchange, Record};
use std::rc::Rc;
use std::task::{Context, Poll};
use titan_http::Fields;
use titan_io::body::{BodySource, ClientState, RequestBody, ResponseSink};
use titan_io::error::Error;
use titan_io::relay::Turn;
use titan_io::stream::ReadHalf;
use titan_io::transform::{BodyTransform, StepResult, Transforms};
use titan_observe::record::{Bodies, BodyOf};

/// The body of a request whose beginning is noted.
pub(super) struct NotedRequest<'b> {
    body: &'b mut dyn RequestBody,
    bodies: Rc<Bodies>,
}

/// Passes the body of a response on and notes its beginning.
struct NotedResponse(Rc<Bodies>);

impl Record {
    /// Where bodies are noted, if they are.
    pub(super) fn bodies(&self) -> Option<&Rc<Bodies>> {
        self.telling.as_ref()?.record.bodies.as_ref()
    }

    /// Has a response noted that passes through these from now on, in place of one that has failed.
    pub(super) fn note_response(&self, transforms: &mut Transforms<'_>) {
        if let Some(bodies) = self.bodies() {
            bodies.start_over(BodyOf::Response);
            transforms.push(NotedResponse(Rc::clone(bodies)));
        }
    }
}

impl<B: RequestBody + ?Sized, S: ResponseSink + ?Sized> Exchange<'_, B, S> {
    /// Whether its body is to be noted. What a client wants to say over a tunnel is no body.
    pub(super) fn has_noted_body(&self) -> bool {
        self.record.bodies().is_some() && self.upgrade.is_none() && !self.length.is_empty()
    }
}

impl<'b> NotedRequest<'b> {
    pub(super) fn new(body: &'b mut dyn RequestBody, bodies: &Rc<Bodies>) -> NotedRequest<'b> {
        NotedRequest { body, bodies: Rc::clone(bodies) }
    }
}

impl BodySource for NotedRequest<'_> {
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.body.poll_data(cx)
    }

    fn data(&self) -> &[u8] {
        self.body.data()
    }

    fn consume(&mut self, count: usize) {
        self.bodies.note(BodyOf::Request, &self.body.data()[..count]);
        self.body.consume(count);
    }

    fn set_ahead(&mut self, is_ahead: bool) {
        self.body.set_ahead(is_ahead);
    }

    fn is_done(&self) -> bool {
        self.body.is_done()
    }

    fn is_last(&self) -> bool {
        self.body.is_last()
    }

    fn trailers(&self) -> &Fields {
        self.body.trailers()
    }

    fn open_tunnel(&mut self) {
        self.body.open_tunnel();
    }

    fn arrived(&self, taken: u64) -> u64 {
        self.body.arrived(taken)
    }

    /// What is to be noted has to come through here.
    fn socket(&self) -> Option<(&ReadHalf<'_>, u64)> {
        if self.bodies.wants_more(BodyOf::Request) { None } else { self.body.socket() }
    }

    fn skip(&mut self, count: usize) -> Result<(), Error> {
        self.bodies.skip(BodyOf::Request, count);
        self.body.skip(count)
    }
}

impl RequestBody for NotedRequest<'_> {
    fn poll_ahead(&mut self, cx: &mut Context<'_>, wanted: usize) -> Poll<Result<(), Error>> {
        self.body.poll_ahead(cx, wanted)
    }

    fn ahead(&self) -> usize {
        self.body.ahead()
    }

    fn rest(&self) -> Option<usize> {
        self.body.rest()
    }

    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<ClientState> {
        self.body.poll_gone(cx)
    }

    fn poll_lost(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.body.poll_lost(cx)
    }

    fn is_broken(&self) -> bool {
        self.body.is_broken()
    }

    fn is_abandoned(&self) -> bool {
        self.body.is_abandoned()
    }

    fn set_limit(&mut self, bytes: u64) -> Result<(), Error> {
        self.body.set_limit(bytes)
    }

    fn received(&self) -> u64 {
        self.body.received()
    }

    fn settle(&mut self) {
        self.body.settle();
    }
}

impl BodyTransform for NotedResponse {
    fn take(
        &mut self,
        input: &[u8],
        turn: &mut Turn,
        out: &mut Vec<u8>,
    ) -> Result<StepResult, Error> {
        let bytes = input.len().min(turn.left().max(1));
        out.extend_from_slice(&input[..bytes]);
        turn.spend(bytes);
        self.0.note(BodyOf::Response, &input[..bytes]);
        Ok(StepResult { bytes, has_more: false })
    }

    fn end(&mut self, _: &Fields, _: &mut Vec<u8>) -> Result<Option<Fields>, Error> {
        Ok(None)
    }
}
