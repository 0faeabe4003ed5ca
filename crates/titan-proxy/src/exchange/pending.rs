//! A response that is waited for: what an attempt owns of it, apart from the exchange that it is made for.

use super::Exchange;
use super::idle::Idle;
use super::presence::Presence;
use super::tunnel::Switched;
use crate::scratch::Lease;
use std::task::{Context, Poll};
use titan_http::{ResponseHead, Status, remove_hop_by_hop};
use titan_io::body::{RequestBody, ResponseSink};
use titan_io::clock::{Clock, CoarseInstant};
use titan_io::error::{Error, Kind};
use titan_io::quic::Link;
use titan_upstream::attempts::{Latency, RunningAttempt};
use titan_upstream::call::{Call, CallMemory, Channel, ReceivedHead};
use titan_upstream::connection::Connection;
use titan_upstream::h1::H1Channel;
use titan_upstream::shared::StreamChannel;

/// How many interim responses an endpoint may send before the final one.
const MAX_INTERIM: u32 = 16;

/// A request that was sent to an endpoint, and its response as far as it has come. It owns its connection or stream and
/// its memory: several can be waited for at the same time, and one that is dropped is closed, or reset. It is large,
/// so it stays in its place: a function that takes or returns it copies it, and needs room for a second one.
pub(super) struct PendingResponse<'x, C> {
    pub(super) attempt: RunningAttempt,
    pub(super) memory: Lease<CallMemory>,
    pub(super) call: Call<C>,
    /// The head of the final response, once it has come.
    head: Option<ReceivedHead>,
    pub(super) watch: Watch<'x>,
    latency: Option<Latency>,
    /// Whether the client waits for 100 (Continue).
    wants_continue: bool,
    /// Interim responses so far.
    interim: u32,
}

/// The same over a connection of its own, or over one that is shared.
pub(super) enum Pending<'x> {
    /// HTTP/1.1.
    H1(PendingResponse<'x, H1Channel<'x>>),
    /// HTTP/2.
    H2(PendingResponse<'x, StreamChannel<'x, titan_h2::Connection>>),
    /// HTTP/3.
    H3(PendingResponse<'x, StreamChannel<'x, Link>>),
}

/// Does the same with what is pending, whatever it goes over.
macro_rules! of {
    ($pending:expr, $it:ident => $do:expr) => {
        match $pending {
            Pending::H1($it) => $do,
            Pending::H2($it) => $do,
            Pending::H3($it) => $do,
        }
    };
}

/// What is watched while bodies move: whether the client is still there, and whether anything moves at all.
pub(super) struct Watch<'x> {
    clock: &'x Clock,
    presence: Presence,
    /// For a gRPC call: a direction may pause for as long as it likes, both together not.
    pub(super) idle: Option<Idle>,
}

impl<'x, C: Channel> PendingResponse<'x, C> {
    /// The response to a call that has been made for `exchange`.
    pub(super) fn new<B: RequestBody + ?Sized, S: ResponseSink + ?Sized>(
        attempt: RunningAttempt,
        memory: Lease<CallMemory>,
        call: Call<C>,
        exchange: &Exchange<'x, B, S>,
    ) -> PendingResponse<'x, C> {
        let clock = &exchange.worker.io.clock;
        PendingResponse {
            latency: attempt.measures_latency().then(Latency::default),
            attempt,
            memory,
            call,
            head: None,
            watch: Watch { clock, presence: Presence::unknown(clock), idle: None },
            wants_continue: exchange.expects_continue,
            interim: 0,
        }
    }

    /// The head of the final response; an error where it was not waited for.
    pub(super) fn head(&self) -> Result<ReceivedHead, Error> {
        self.head.ok_or(Kind::Internal.into())
    }

    /// Sends the request of the exchange on and waits for the head of the final response.
    fn poll_head<B: RequestBody + ?Sized, S: ResponseSink + ?Sized>(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &mut Exchange<'_, B, S>,
    ) -> Poll<Result<(), Error>> {
        loop {
            let clock = self.watch.clock;
            let polled = self.call.poll_head(cx, clock, exchange.body, &mut self.memory);
            let upload = &self.call.upload;
            if let Some(latency) = self.latency.as_mut().filter(|_| upload.is_over()) {
                latency.start();
            }
            match polled {
                Poll::Ready(Ok(head)) if head.interim => self.pass_interim(exchange)?,
                Poll::Ready(Ok(head)) => {
                    let response = &self.memory.response;
                    self.attempt.note_response(response.version, self.latency);
                    let took = self.latency.and_then(Latency::so_far);
                    exchange.record.responded = Some((response.status, took));
                    exchange.record.tell_head(&self.attempt, response.status);
                    exchange.record.note_status_of_call(&response.fields);
                    self.attempt.note_load(response, self.latency);
                    exchange.check_upgrade(response)?;
                    self.head = Some(head);
                    return Poll::Ready(Ok(()));
                }
                Poll::Ready(Err(error)) => {
                    self.call.channel().note_failure(error);
                    return Poll::Ready(Err(error));
                }
                Poll::Pending => {
                    if let Poll::Ready(result) = exchange.sink.poll_flush(cx) {
                        result?;
                    }
                    self.watch.look(cx, exchange.body, upload.is_done())?;
                    if !upload.is_over() && self.watch.is_idle(upload.taken()) {
                        return Poll::Ready(Err(Kind::BodyTimeout.into()));
                    }
                    return Poll::Pending;
                }
            }
        }
    }

    /// Passes an interim response on, where the client can use it.
    fn pass_interim<B: RequestBody + ?Sized, S: ResponseSink + ?Sized>(
        &mut self,
        exchange: &mut Exchange<'_, B, S>,
    ) -> Result<(), Error> {
        let head = &mut self.memory.response;
        self.interim += 1;
        if self.interim > MAX_INTERIM {
            return Err(Kind::TooManyInterim.into());
        }
        if head.status == Status::CONTINUE && !std::mem::take(&mut self.wants_continue) {
            return Ok(());
        }
        if remove_hop_by_hop(&mut head.fields) {
            exchange.snapshot.forwarding.name_server(head).map_err(|_| Kind::Internal)?;
            exchange.sink.interim(head);
        }
        Ok(())
    }

    /// Its connection, where another call may go over it now that both messages are complete.
    fn into_connection(self) -> Option<Connection> {
        let PendingResponse { call, memory, .. } = self;
        call.into_channel().into_connection(&memory)
    }

    fn deadline(&self) -> CoarseInstant {
        self.call.deadline().min(self.watch.next_look())
    }

    fn is_sent(&mut self) -> bool {
        self.call.is_sent(&mut self.memory)
    }
}

impl<'x> Pending<'x> {
    /// Sends the request of the exchange on and waits for the head of the final response.
    pub(super) fn poll_head<B: RequestBody + ?Sized, S: ResponseSink + ?Sized>(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &mut Exchange<'x, B, S>,
    ) -> Poll<Result<(), Error>> {
        of!(self, pending => pending.poll_head(cx, exchange))
    }

    /// The head of the response that came last.
    pub(super) fn response(&self) -> &ResponseHead {
        of!(self, pending => &pending.memory.response)
    }

    /// When it wants to be polled again although nothing happened.
    pub(super) fn deadline(&self) -> CoarseInstant {
        of!(self, pending => pending.deadline())
    }

    /// Whether the endpoint has been sent any of the request.
    pub(super) fn is_sent(&mut self) -> bool {
        of!(self, pending => pending.is_sent())
    }

    /// Whether any of the request's body was taken for it, and cannot be had again.
    pub(super) fn has_taken_body(&self) -> bool {
        let taken = of!(self, pending => pending.call.upload.taken());
        taken > 0
    }

    /// Whether the endpoint has been sent all of the request that it will be sent.
    pub(super) fn has_sent_all(&self) -> bool {
        of!(self, pending => pending.call.upload.is_over())
    }

    /// Whether the rest of the request has not come, and the endpoint would take it.
    pub(super) fn awaits_client(&self) -> bool {
        of!(self, pending => pending.call.upload.awaits_source())
    }

    /// Notes that it is not waited for any longer, because another one has come first.
    pub(super) fn note_given_up(&self) {
        of!(self, pending => pending.attempt.note_given_up(pending.latency));
    }

    /// Notes how it has failed, where that says something of the connection.
    pub(super) fn note_failure(&self, error: Error) {
        of!(self, pending => pending.call.channel().note_failure(error));
    }

    /// Its connection, where another call may go over it now that both messages are complete.
    pub(super) fn into_connection(self) -> Option<Connection> {
        of!(self, pending => pending.into_connection())
    }

    /// Its connection, where the endpoint has switched it to another protocol.
    pub(super) fn into_switched(self) -> Option<Box<Switched>> {
        let Pending::H1(PendingResponse { attempt, memory, call, .. }) = self else { return None };
        let endpoint = call.into_channel().into_switched();
        Some(Box::new(Switched { endpoint, memory, attempt }))
    }
}

impl Watch<'_> {
    /// Whether nothing has moved in either direction for too long, where that is what matters.
    pub(super) fn is_idle(&mut self, moved: u64) -> bool {
        self.idle.as_mut().is_some_and(|idle| idle.is_over(self.clock, moved))
    }

    /// Begins to wait anew for something to move.
    pub(super) fn renew(&mut self) {
        if let Some(idle) = &mut self.idle {
            idle.renew(self.clock);
        }
    }

    /// When to look again although nothing happens.
    pub(super) fn next_look(&self) -> CoarseInstant {
        let idle = self.idle.as_ref().map_or(CoarseInstant::NEVER, Idle::deadline);
        idle.min(self.presence.next_look())
    }

    /// Notices that the client has left.
    pub(super) fn look(
        &mut self,
        cx: &mut Context<'_>,
        body: &mut (impl RequestBody + ?Sized),
        is_sent: bool,
    ) -> Result<(), Error> {
        self.presence.watch(cx, self.clock, body, is_sent)
    }
}

#[cfg(test)]
mod tests;
