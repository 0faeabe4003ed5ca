//! The response of an endpoint on its way to the client.

use super::Exchange;
use super::attempt::SendOptions;
use super::pending::{Pending, PendingResponse, Watch};
use super::tunnel::Switched;
use crate::grpc::web;
use crate::snapshot::Snapshot;
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;
use titan_config::{ByteSize, RouteTimeouts};
use titan_http::{FieldName, ResponseHead, Status, remove_hop_by_hop};
use titan_io::body::{BodySink, BodySource, Content, RequestBody, ResponseSink};
use titan_io::error::{Error, Kind, Side};
use titan_io::relay::{Pump, ReadAhead, ReadAheadBudget, Rest, StallLimits, Stop};
use titan_io::transform::{Transformed, Transforms};
use titan_policies::compress::Compressor;
use titan_upstream::attempts::Attempt;
use titan_upstream::call::{Channel, Upload};

/// The end of a response that was taken from its endpoint, on its way to the client.
pub(super) struct Delivery<'m> {
    pump: Pump,
    rest: Rest<'m>,
}

/// What is left to be done for a response that was passed on. Boxed: few have any of it, and every result would have room
/// for it.
pub(super) enum Remainder<'m> {
    /// Nothing.
    None,
    /// The client has not taken all of it yet.
    Response(Box<Delivery<'m>>),
    /// The connections go on as a tunnel.
    Tunnel(Box<Switched>),
}

/// What came of a response that was passed on.
enum Passed<'m> {
    /// All of it, except for what the client has not taken yet. Where both messages are complete its connection may be used
    /// for another call.
    Response { may_be_reused: bool, rest: Option<Box<Delivery<'m>>> },
    /// The endpoint's consent to a tunnel.
    Consent,
}

impl<'x, B: RequestBody + ?Sized, S: ResponseSink + ?Sized> Exchange<'x, B, S> {
    /// Sends the client a response whose head has come, and leaves nothing of it in `pending`. What is left to be sent
    /// when all of it is in memory needs the endpoint no more.
    pub(super) async fn deliver(
        &mut self,
        how: SendOptions<'_>,
        pending: &mut Option<Pending<'x>>,
    ) -> Result<Remainder<'x>, Error> {
        let passed = match pending {
            Some(Pending::H1(pending)) => self.pass_on(how, pending).await,
            Some(Pending::H2(pending)) => self.pass_on(how, pending).await,
            Some(Pending::H3(pending)) => self.pass_on(how, pending).await,
            None => Err(Kind::Internal.into()),
        };
        let remainder = self.finish(pending, passed);
        *pending = None;
        remainder
    }

    /// Keeps the connection for another call, where it can serve one; one of HTTP/2 serves others all the time.
    fn finish(
        &self,
        pending: &mut Option<Pending<'x>>,
        passed: Result<Passed<'x>, Error>,
    ) -> Result<Remainder<'x>, Error> {
        match passed {
            Ok(Passed::Response { may_be_reused, rest }) => {
                if may_be_reused && matches!(pending, Some(Pending::H1(_))) {
                    let connection = pending.take().and_then(Pending::into_connection);
                    let keep = |connection| {
                        self.worker.pools.keep(connection, &self.worker.io.clock);
                    };
                    connection.into_iter().for_each(keep);
                }
                Ok(rest.map_or(Remainder::None, Remainder::Response))
            }
            Ok(Passed::Consent) => {
                let switched = pending.take().and_then(Pending::into_switched);
                switched.map(Remainder::Tunnel).ok_or(Kind::Internal.into())
            }
            Err(error) => {
                pending.iter().for_each(|left| left.note_failure(error));
                Err(error)
            }
        }
    }

    async fn pass_on<C: Channel>(
        &mut self,
        how: SendOptions<'_>,
        pending: &mut PendingResponse<'x, C>,
    ) -> Result<Passed<'x>, Error> {
        let head = pending.head()?;
        // A request that has a response is not retried.
        self.body.settle();
        self.record.running = None;
        let mut content = head.content;
        let response = &mut pending.memory.response;
        let transforms = self.prepare_response(how, &pending.attempt, response, &mut content)?;
        if response.status == Status::SWITCHING_PROTOCOLS {
            self.consent(response)?;
            return Ok(Passed::Consent);
        }
        if !pending.call.upload.is_done() {
            // The end of the request will never be known to be its end.
            self.sink.close_after();
        }
        self.record.status = Some(response.status);
        self.record.tell_response(&response.fields);
        self.sink.start(response, content);
        let budget = self.read_ahead_budget(&pending.attempt).for_body_of(content.length);
        let PendingResponse { call, memory, watch, .. } = pending;
        let (upload, mut request, mut incoming) = call.split(memory);
        let sides = (&mut *upload, &mut request);
        let mut pump = self.download_pump(how.timeouts, watch);
        let rest = match transforms.is_empty() {
            true => {
                let mut body = ReadAhead::new(&mut incoming, budget);
                let is_over = self.relay(watch, sides, &mut pump, &mut body).await?;
                (!is_over).then(|| Box::new(Delivery { pump, rest: body.into_rest() }))
            }
            false => {
                let source: &mut dyn BodySource = &mut incoming;
                let mut body = ReadAhead::new(Transformed::new(source, transforms), budget);
                let is_over = Box::pin(self.relay(watch, sides, &mut pump, &mut body)).await?;
                (!is_over).then(|| Box::new(Delivery { pump, rest: body.into_rest() }))
            }
        };
        // All of it was read, whether its client has it by now or not.
        self.record.note_status_of_call(incoming.trailers());
        Ok(Passed::Response { may_be_reused: head.keep_alive && upload.is_done(), rest })
    }

    /// Sends the client what is in memory of its response.
    pub(super) async fn deliver_rest(&mut self, delivery: Box<Delivery<'_>>) -> Result<(), Error> {
        let Delivery { pump, mut rest } = *delivery;
        self.send_through(pump, &mut rest).await
    }

    /// Passes on the endpoint's consent to a tunnel.
    fn consent(&mut self, response: &mut ResponseHead) -> Result<(), Error> {
        let granted = self.upgrade.as_ref().map(|upgrade| upgrade.grant(response));
        granted.transpose().map_err(|_| Kind::Internal)?;
        self.record.status = Some(response.status);
        self.record.tell_response(&response.fields);
        self.sink.start_tunnel(response);
        Ok(())
    }

    /// Turns the head of the response into what the client gets. Its body has to pass through what it returns.
    fn prepare_response(
        &mut self,
        how: SendOptions<'_>,
        attempt: &Attempt,
        response: &mut ResponseHead,
        content: &mut Content,
    ) -> Result<Transforms<'static>, Error> {
        if !remove_hop_by_hop(&mut response.fields) {
            return Err(Error { side: Side::Upstream, kind: Kind::ConnectionList });
        }
        let mut transforms = Transforms::default();
        if let Some(capture) = self.record.mirroring.as_mut().and_then(|it| it.capture.take()) {
            capture.begin(response, content.length, &mut transforms);
        }
        let (forwarding, request) = (&self.snapshot.forwarding, &self.request.fields);
        let told = forwarding.set_response_fields(self.origin, request, response);
        told.map_err(|_| Kind::Internal)?;
        self.worker.date(&mut response.fields).map_err(|_| Kind::Internal)?;
        if attempt.set_cookie(self.text) {
            let set = response.fields.append(FieldName::SetCookie, self.text);
            set.map_err(|_| Kind::Internal)?;
        }
        let (snapshot, worker) = (self.snapshot, self.worker);
        let upgrade = self.upgrade.as_ref();
        let met = self.record.apply_to_response(snapshot, upgrade, response, content, worker);
        let encoding = met?;
        self.record.note_response(&mut transforms);
        if let Some(encoding) = encoding {
            transforms.push(Compressor::new(encoding, worker.policies.encoders()));
        }
        if let Some(dialect) = self.record.dialect.filter(|_| how.grpc_web) {
            web::from_native(dialect, response, content, &mut transforms)
                .map_err(|_| Kind::Internal)?;
        }
        if let Some(truncation) = self.record.policies.truncation() {
            transforms.push(truncation);
        }
        Ok(transforms)
    }

    /// Where memory is had from for a response that its client takes slowly.
    fn read_ahead_budget(&self, attempt: &Attempt) -> ReadAheadBudget<'x> {
        let snapshot: &'x Snapshot = self.snapshot;
        let most = snapshot.limits.response_buffer.map_or(0, ByteSize::as_usize);
        ReadAheadBudget { memory: &snapshot.response_memory, client: attempt.client(), most }
    }

    fn download_pump(&self, timeouts: &RouteTimeouts, watch: &Watch<'_>) -> Pump {
        let RouteTimeouts { response_body, write, .. } = *timeouts;
        // A client that reads nothing may not hold a response in memory by sending a little now and then.
        let source = if watch.idle.is_some() { Duration::MAX } else { response_body };
        let sink_rate = self.snapshot.response_rate();
        let timeout = StallLimits { source, sink: write, source_rate: 0, sink_rate };
        Pump::new(timeout).with_pipes(&self.worker.io.pipes)
    }

    /// Sends the response on, and the rest of the request while it lasts. False when all that is left of the response is
    /// in memory: that needs the endpoint no more.
    async fn relay(
        &mut self,
        watch: &mut Watch<'_>,
        (upload, request): (&mut Upload, &mut impl BodySink),
        download: &mut Pump,
        incoming: &mut ReadAhead<'_, impl BodySource>,
    ) -> Result<bool, Error> {
        watch.renew();
        let Exchange { timer, body, sink, .. } = self;
        let clock = timer.clock();
        poll_fn(|cx| {
            match upload.poll(cx, clock, *body, request) {
                // A client may stop sending once it sees the response (RFC 9110 section 9.1.1): that must
                // not take the response from it.
                Err(error) if error.is_slow_client() => upload.give_up(),
                result => result?,
            }
            if let Poll::Ready(result) = download.poll(cx, clock, incoming, *sink) {
                return Poll::Ready(result.map_err(Stop::of_response).map(|()| true));
            }
            if download.awaits_sink() {
                incoming.read(cx);
                if incoming.is_read() && upload.is_over() {
                    return Poll::Ready(Ok(false));
                }
            }
            watch.look(cx, *body, upload.is_done())?;
            if watch.is_idle(upload.taken() + download.taken()) {
                return Poll::Ready(Err(Kind::ResponseStalled.into()));
            }
            let deadline = upload.deadline().min(download.deadline());
            timer.wake_at(cx, deadline.min(watch.next_look()));
            Poll::Pending
        })
        .await
    }
}
