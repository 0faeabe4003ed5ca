//! One attempt of an exchange: a request is sent to an endpoint.

use super::idle::Idle;
use super::pending::{Pending, PendingResponse};
use super::presence::Presence;
use super::{Exchange, Record};
use crate::grpc;
use crate::worker::Worker;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use titan_config::{RouteTimeouts, SendHost};
use titan_h1::Body;
use titan_h2::Destination;
use titan_http::BodyLength;
use titan_http::{FieldName, Method, RequestHead, ResponseHead, Status};
use titan_io::body::{RequestBody, ResponseSink};
use titan_io::error::{Error, Kind, Side};
use titan_io::relay::{Pump, StallLimits};
use titan_upstream::attempts::{Attempt, RunningAttempt};
use titan_upstream::call::Call;
use titan_upstream::cells::UpstreamCells;
use titan_upstream::connection::Connection;
use titan_upstream::endpoint::Endpoint;
use titan_upstream::failure_log::{Cause, FailureDetail};
use titan_upstream::h1::H1Channel;
use titan_upstream::h2::{H2Channel, Seat};
use titan_upstream::pool::{AcquireOptions, PooledConnection};

/// How many connections in a row an endpoint may leave before it has served a request.
const MOST_DEPARTURES: u32 = 4;

/// How a request is sent, whichever endpoint it goes to.
#[derive(Clone, Copy)]
pub(super) struct SendOptions<'s> {
    pub(super) timeouts: &'s RouteTimeouts,
    /// How many further endpoints to try if one does not respond.
    pub(super) retries: u8,
    pub(super) send_host: &'s SendHost,
    /// Whether clients of gRPC-Web get its responses as such.
    pub(super) grpc_web: bool,
}

impl<'s> From<&'s titan_config::Proxy> for SendOptions<'s> {
    fn from(proxy: &'s titan_config::Proxy) -> SendOptions<'s> {
        let titan_config::Proxy { timeouts, retries, send_host, grpc_web, .. } = proxy;
        SendOptions { timeouts, retries: *retries, send_host, grpc_web: *grpc_web }
    }
}

impl<'x, B: RequestBody + ?Sized, S: ResponseSink + ?Sized> Exchange<'x, B, S> {
    /// Sends the request to one endpoint and waits for the head of its response, which `pending` has then. A kept
    /// connection that has died costs nothing: the request goes out again over a new one.
    pub(super) async fn start(
        &mut self,
        how: SendOptions<'_>,
        attempt: &Attempt,
        cells: &UpstreamCells,
        pending: &mut Option<Pending<'x>>,
    ) -> Result<(), Error> {
        let (mut new, mut departures) = (false, 0);
        loop {
            self.record.is_sent = false;
            cells.attempts.add(1);
            // A request that waits for a connection counts already.
            let running = attempt.begin();
            let connection = self.acquire(how, attempt, new).await?;
            let (was_waited_for, shared, is_reused) = match &connection {
                PooledConnection::Exclusive(it) => (it.was_waited_for, None, it.is_reused),
                PooledConnection::Shared { seat, was_waited_for } => {
                    (*was_waited_for, Some(Rc::clone(&seat.shared)), false)
                }
            };
            if was_waited_for && self.body.is_broken() {
                self.give_back(connection);
                return Err(Kind::ClientGone.into());
            }
            if shared.is_none() {
                if is_reused { &cells.reuses } else { &cells.connects }.add(1);
            }
            let awaited = match self.send_request(how, running, connection, pending) {
                Ok(sent) => self.await_head(sent).await,
                Err(error) => Err(error),
            };
            let Err(error) = awaited else { return Ok(()) };
            *pending = None;
            // One that leaves a connection says nothing about the next.
            let has_left =
                shared.as_ref().is_some_and(|shared| shared.mux.connection().is_leaving());
            departures += u32::from(has_left);
            let is_free = match shared {
                Some(_) => !new || has_left && departures < MOST_DEPARTURES,
                None => is_reused,
            };
            if !is_free || !self.may_retry(error) {
                return Err(error);
            }
            new = true;
        }
    }

    /// Whether another endpoint may be asked. Not once the response is on its way; not when the request may have had its
    /// effect, unless that does no harm; and not when the request body is gone. One that is held begins anew.
    pub(super) fn may_retry(&mut self, error: Error) -> bool {
        let Record { is_sent, is_body_used, .. } = self.record;
        let may_have_effect = is_sent && !error.nothing_was_done();
        let may_repeat = error.is_worth_a_retry()
            && !self.sink.is_started()
            && (!may_have_effect || self.request.method.is_idempotent());
        if !may_repeat || is_body_used && !self.body.rewind() {
            return false;
        }
        self.record.is_body_used = false;
        true
    }

    /// Records a failure of that upstream for the operator, if it is one.
    pub(super) fn log_failure(&self, index: usize, endpoint: Option<&Arc<Endpoint>>, error: Error) {
        let is_scarce =
            matches!(error.kind, Kind::NoEndpoint | Kind::QueueFull | Kind::QueueTimeout);
        if error.side != Side::Upstream && !is_scarce {
            return;
        }
        let describe = || {
            let route = self.record.route;
            let reason = endpoint.and_then(|endpoint| endpoint.take_reason(error.kind));
            let reason = reason.unwrap_or_else(|| error.to_string());
            let what = endpoint.map(|endpoint| format!("{}: {reason}", endpoint.address));
            let id = self.snapshot.forwarding.request_id(&self.request.fields);
            FailureDetail {
                what: what.unwrap_or(reason),
                route: route.map(|it| self.snapshot.counted(Some(it)).name().to_owned()),
                request: id.map(|id| String::from_utf8_lossy(id).into_owned()),
            }
        };
        self.snapshot.upstreams[index].failure_log.note(Cause::Failed(error.kind), describe);
    }

    /// Gets a connection, unless the client cancels the request meanwhile.
    pub(super) async fn acquire(
        &mut self,
        how: SendOptions<'_>,
        attempt: &Attempt,
        new: bool,
    ) -> Result<PooledConnection, Error> {
        let Exchange { timer, body, worker, snapshot, request, length, upgrade, .. } = self;
        // What could not be sent again, because it has an effect or a body, goes over no connection
        // that the kernel knows to be dead.
        let surely_alive = !request.method.is_idempotent() || !length.is_empty();
        let (h1_only, connect) = (upgrade.is_some(), how.timeouts.connect);
        let (client, sharing) = (attempt.client(), &snapshot.sharing);
        let options = AcquireOptions { surely_alive, new, h1_only, connect, client, sharing };
        let mut acquired = pin!(worker.pools.get(attempt.endpoint(), options));
        let mut presence = None;
        poll_fn(|cx| {
            let clock = timer.clock();
            if let Poll::Ready(acquired) = acquired.as_mut().poll(cx) {
                return Poll::Ready(acquired);
            }
            let presence = presence.get_or_insert_with(|| Presence::unknown(clock));
            let is_read = body.is_done();
            presence.watch(cx, clock, *body, is_read)?;
            if body.poll_lost(cx).is_ready() {
                return Poll::Ready(Err(Kind::ClientGone.into()));
            }
            timer.wake_at(cx, presence.next_look());
            Poll::Pending
        })
        .await
    }

    /// Gives back a connection over which nothing was sent.
    fn give_back(&self, connection: PooledConnection) {
        if let PooledConnection::Exclusive(connection) = connection {
            self.worker.pools.keep(connection, &self.worker.io.clock);
        }
    }

    async fn await_head(&mut self, pending: &mut Pending<'x>) -> Result<(), Error> {
        let received = poll_fn(|cx| {
            let polled = pending.poll_head(cx, self);
            if polled.is_pending() {
                self.timer.wake_at(cx, pending.deadline());
            }
            polled
        })
        .await;
        self.record.is_sent = pending.is_sent();
        self.record.is_body_used |= pending.has_taken_body();
        received
    }

    /// Sends the head of the request over a connection, which the response in `pending` owns then. The body goes out
    /// while the head of the response is waited for: of several at once, one alone may take it.
    pub(super) fn send_request<'p>(
        &mut self,
        how: SendOptions<'_>,
        attempt: RunningAttempt,
        connection: PooledConnection,
        pending: &'p mut Option<Pending<'x>>,
    ) -> Result<&'p mut Pending<'x>, Error> {
        self.pass_on_timeout()?;
        let sent = match connection {
            PooledConnection::Exclusive(connection) => {
                pending.insert(Pending::H1(self.send_h1(how, attempt, connection)))
            }
            PooledConnection::Shared { seat, .. } => {
                pending.insert(Pending::H2(self.send_h2(how, attempt, seat)?))
            }
        };
        Ok(sent)
    }

    fn send_h1(
        &mut self,
        how: SendOptions<'_>,
        attempt: RunningAttempt,
        connection: Connection,
    ) -> PendingResponse<'x, H1Channel<'x>> {
        self.respond_to_expectation(attempt.endpoint());
        let worker: &'x Rc<Worker> = self.worker;
        let (method, mut memory) = (self.request.method, worker.call_memory(self.snapshot));
        let host = host_upstream(how.send_host, self.request, attempt.endpoint());
        let body = body_upstream(method, self.length);
        let head = |out: &mut Vec<u8>, body| {
            let connection = match self.upgrade {
                Some(_) => titan_h1::Connection::Upgrade,
                None => titan_h1::Connection::KeepAlive,
            };
            titan_h1::write_request(out, self.request, host, body, connection);
        };
        let buffers = &worker.io.buffers;
        let channel = H1Channel::start(connection, buffers, &mut memory, method, body, head);
        let call = Call::new(channel, self.upload_pump(how.timeouts), how.timeouts.response);
        PendingResponse::new(attempt, memory, call, self)
    }

    fn send_h2(
        &mut self,
        how: SendOptions<'_>,
        attempt: RunningAttempt,
        seat: Seat,
    ) -> Result<PendingResponse<'x, H2Channel<'x>>, Error> {
        let (worker, endpoint): (&'x Rc<Worker>, _) = (self.worker, attempt.endpoint());
        let is_call = self.record.dialect.is_some();
        if is_call {
            self.request.fields.set(FieldName::Te, b"trailers").map_err(|_| Kind::Internal)?;
        }
        let method = self.request.method;
        let body = body_upstream(method, self.length);
        let length = match body {
            Body::None => Some(0),
            Body::Length(length) => Some(length),
            Body::Chunked | Body::UntilClose => None,
        };
        let declared = length.filter(|_| !matches!(body, Body::None));
        let channel = H2Channel::start(seat, &worker.io.clock, method, length, |mux| {
            let authority = host_upstream(how.send_host, self.request, endpoint);
            let destination =
                Destination { authority, is_https: endpoint.tls.is_some(), protocol: None };
            mux.open(self.request, destination, declared, length == Some(0))
        });
        // The next endpoint may speak HTTP/1.1, where it would be a hop-by-hop field.
        self.request.fields.remove(FieldName::Te);
        let channel = channel.ok_or(Kind::Unprocessed)?;
        let timeouts = how.timeouts;
        let pump = match is_call {
            true => Pump::new(StallLimits::UNLIMITED),
            false => self.upload_pump(timeouts),
        };
        let call = Call::new(channel, pump, timeouts.response);
        let mut pending =
            PendingResponse::new(attempt, worker.call_memory(self.snapshot), call, self);
        let idle = || Idle::new(self.timer.clock(), timeouts.response_body);
        pending.watch.idle = is_call.then(idle);
        Ok(pending)
    }

    /// An endpoint gets what is left of the time that the client gives its call.
    fn pass_on_timeout(&mut self) -> Result<(), Error> {
        let Some(left) = self.time_left()? else { return Ok(()) };
        grpc::set_timeout(&mut self.request.fields, left).map_err(|_| Kind::Internal.into())
    }

    pub(super) fn upload_pump(&self, timeouts: &RouteTimeouts) -> Pump {
        let RouteTimeouts { body, response, .. } = *timeouts;
        let source_rate = self.snapshot.body_rate();
        let timeout = StallLimits { source: body, sink: response, source_rate, sink_rate: 0 };
        Pump::new(timeout).with_pipes(&self.worker.io.pipes)
    }

    /// A server of HTTP/1.0 would leave the client waiting: the gateway tells it to go on.
    fn respond_to_expectation(&mut self, endpoint: &Endpoint) {
        if self.expects_continue && endpoint.is_http10.load(Ordering::Relaxed) {
            self.sink.interim(&ResponseHead::with_status(Status::CONTINUE));
            self.request.fields.remove(FieldName::Expect);
            self.expects_continue = false;
        }
    }

    /// An endpoint may switch to what the client has asked for, and to nothing else. A client that can only have
    /// meant a tunnel must not take another successful response for one.
    pub(super) fn check_upgrade(&self, response: &ResponseHead) -> Result<(), Error> {
        let is_switching = response.status == Status::SWITCHING_PROTOCOLS;
        match &self.upgrade {
            Some(upgrade) if is_switching && upgrade.is_granted_by(response) => Ok(()),
            _ if is_switching => Err(Kind::UnexpectedUpgrade.into()),
            Some(upgrade) if upgrade.is_binding() && response.status.is_success() => {
                Err(Kind::UpgradeIgnored.into())
            }
            _ => Ok(()),
        }
    }
}

/// How the request body is framed for the upstream. A method that usually has a body says that there
/// is none (RFC 9110 section 8.6).
fn body_upstream(method: Method, length: BodyLength) -> Body {
    match length {
        BodyLength::Known(length) => Body::Length(length),
        BodyLength::Unknown => Body::Chunked,
        BodyLength::None => match method {
            Method::POST | Method::PUT | Method::PATCH => Body::Length(0),
            _ => Body::None,
        },
    }
}

fn host_upstream<'h>(
    send: &'h SendHost,
    request: &'h RequestHead,
    endpoint: &'h Endpoint,
) -> &'h [u8] {
    match send {
        SendHost::Preserve => request.authority().unwrap_or(endpoint.host.as_bytes()),
        SendHost::Endpoint => endpoint.host.as_bytes(),
        SendHost::Fixed(host) => host.as_str().as_bytes(),
    }
}
