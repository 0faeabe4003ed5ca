//! One attempt of an exchange: a request is sent to an endpoint.

use super::Exchange;
use super::idle::Idle;
use super::pending::{Pending, PendingResponse};
use crate::snapshot::Snapshot;
use crate::worker::Worker;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use titan_config::{Retries, RetryBudget, RouteTimeouts, SendHost};
use titan_h1::Body;
use titan_http::BodyLength;
use titan_http::section::Destination;
use titan_http::{FieldName, Method, RequestHead, ResponseHead, Status};
use titan_io::body::{RequestBody, ResponseSink};
use titan_io::clock::{Clock, CoarseInstant};
use titan_io::error::{Error, Kind, Side};
use titan_io::mux::{ClientProtocol, Mux};
use titan_io::relay::{Pump, StallLimits};
use titan_upstream::attempts::{Attempt, RunningAttempt};
use titan_upstream::call::Call;
use titan_upstream::cells::{RetryReason, UpstreamCells};
use titan_upstream::connection::Connection;
use titan_upstream::endpoint::Endpoint;
use titan_upstream::failure_log::{Cause, FailureDetail};
use titan_upstream::h1::H1Channel;
use titan_upstream::members::Upstream;
use titan_upstream::pool::{AcquireOptions, PooledConnection};
use titan_upstream::shared::{Seat, SharedMux, StreamChannel};

/// How a request is sent, whichever endpoint it goes to.
#[derive(Clone, Copy)]
pub(super) struct SendOptions<'s> {
    pub(super) timeouts: &'s RouteTimeouts,
    pub(super) retries: &'s Retries,
    pub(super) send_host: &'s SendHost,
    /// Whether clients of gRPC-Web get its responses as such.
    pub(super) grpc_web: bool,
}

/// How long one attempt may go on.
#[derive(Clone, Copy)]
pub(super) struct TryTime {
    /// Until when it may, from its start. It stands still while the client has the endpoint wait for the rest of the request.
    of_try: CoarseInstant,
    /// Until when the whole request may.
    of_route: CoarseInstant,
}

impl TryTime {
    /// Until when it may wait for a connection.
    pub(super) fn to_connect(self) -> CoarseInstant {
        self.of_try.min(self.of_route)
    }

    /// How long an endpoint that has got the whole request may take to respond.
    fn to_respond(self, how: SendOptions<'_>, clock: &Clock) -> Duration {
        how.timeouts.response.min(clock.left_until(self.of_try))
    }

    /// What an attempt has failed with that still waits for a response, if its time is over. One whose request is not complete
    /// has not failed because of its endpoint: clients could have any endpoint ejected.
    pub(super) fn end(self, pending: &Pending<'_>, clock: &Clock) -> Option<Error> {
        let kind = match pending.awaits_client() {
            true => Kind::Deadline,
            false => Kind::ResponseTimeout,
        };
        clock.is_past(self.of_route).then(|| kind.into())
    }

    /// When to look at [`TryTime::end`] again.
    pub(super) fn to_end(self) -> CoarseInstant {
        self.of_route
    }
}

impl<'s> From<&'s titan_config::Proxy> for SendOptions<'s> {
    fn from(proxy: &'s titan_config::Proxy) -> SendOptions<'s> {
        let titan_config::Proxy { timeouts, retries, send_host, grpc_web, .. } = proxy;
        SendOptions { timeouts, retries, send_host, grpc_web: *grpc_web }
    }
}

impl<'x, B: RequestBody + ?Sized, S: ResponseSink + ?Sized> Exchange<'x, B, S> {
    /// Records a failure of that upstream for the operator, if it is one.
    pub(super) fn log_failure(&self, index: usize, endpoint: Option<&Arc<Endpoint>>, error: Error) {
        let is_scarce = matches!(
            error.kind,
            Kind::NoEndpoint
                | Kind::NoSocket
                | Kind::QueueFull
                | Kind::QueueTimeout
                | Kind::Overloaded
        );
        if error.side != Side::Upstream && !is_scarce {
            return;
        }
        let describe = || {
            let reason = endpoint.and_then(|endpoint| endpoint.take_reason(error.kind));
            let reason = reason.unwrap_or_else(|| error.to_string());
            let what = endpoint.map(|endpoint| format!("{}: {reason}", endpoint.address));
            self.detail(what.unwrap_or(reason))
        };
        self.snapshot.upstreams[index].failure_log.note(Cause::Failed(error.kind), describe);
    }

    /// Records that an endpoint has responded with an error.
    pub(super) fn log_error_response(&self, endpoint: &Endpoint, status: Status) {
        let means = if self.record.dialect.is_some() { "an error of the call, like " } else { "" };
        let describe = || self.detail(format!("{}: {means}status {status}", endpoint.address));
        endpoint.failure_log().note(Cause::ErrorResponse, describe);
    }

    /// Records that the budget of that upstream has kept an attempt from being repeated for that reason.
    pub(super) fn log_refused_retry(&self, upstream: &Upstream, reason: RetryReason) {
        let describe = || {
            let RetryBudget { share, floor } = upstream.config().retry_budget;
            let reason = reason.name();
            self.detail(format!(
                "no retry ({reason}): retries are limited to {share} of its requests and {floor} a second"
            ))
        };
        upstream.failure_log.note(Cause::RetryBudget, describe);
    }

    /// A failure of this request.
    fn detail(&self, what: String) -> FailureDetail {
        let id = self.snapshot.forwarding.request_id(&self.request.fields);
        // Its client has noticed nothing.
        let whose = if self.record.is_copy { " (a copy)" } else { "" };
        FailureDetail {
            what,
            route: self.record.route.map(|it| self.snapshot.counted(Some(it)).name().to_owned()),
            request: id.map(|id| format!("{}{whose}", String::from_utf8_lossy(id))),
        }
    }

    /// How long an attempt that begins now may go on, as far as its route limits that.
    pub(super) fn time_of_try(&self, how: SendOptions<'_>) -> TryTime {
        let clock = self.timer.clock();
        let end =
            |time: Option<Duration>| time.map_or(CoarseInstant::NEVER, |time| clock.deadline(time));
        TryTime { of_try: end(how.retries.per_try_timeout), of_route: end(self.time_of_route(how)) }
    }

    /// What the request requires of a connection. `new` says that the last one turned out to be dead.
    pub(super) fn acquire_options(
        &self,
        how: SendOptions<'_>,
        attempt: &Attempt,
        new: bool,
    ) -> AcquireOptions<'x> {
        let Exchange { request, length, upgrade, .. } = self;
        let snapshot: &'x Snapshot = self.snapshot;
        // What could not be sent again, because it has an effect or a body, goes over no connection
        // that the kernel knows to be dead.
        let surely_alive = !request.method.is_idempotent() || !length.is_empty();
        let (h1_only, connect) = (upgrade.is_some(), how.timeouts.connect);
        let (client, sharing) = (attempt.client(), &snapshot.sharing);
        AcquireOptions { surely_alive, new, h1_only, connect, client, sharing }
    }

    /// Sends the head of the request over a connection, which the response in `pending` owns then. The body goes out
    /// while the head of the response is waited for: of several at once, one alone may take it.
    pub(super) fn send_request<'p>(
        &mut self,
        (how, time): (SendOptions<'_>, TryTime),
        attempt: RunningAttempt,
        connection: PooledConnection,
        pending: &'p mut Option<Pending<'x>>,
    ) -> Result<&'p mut Pending<'x>, Error> {
        self.pass_on_deadline(how)?;
        self.pass_on_trace(&attempt)?;
        let time = time.to_respond(how, self.timer.clock());
        let sent = match connection {
            PooledConnection::Exclusive(connection) => {
                pending.insert(Pending::H1(self.send_h1((how, time), attempt, connection)))
            }
            PooledConnection::Shared { seat, .. } => {
                let shared = Rc::clone(&seat.shared);
                let sent = match &shared.mux {
                    SharedMux::H2(mux) => {
                        Pending::H2(self.send_shared((how, time), attempt, (seat, mux))?)
                    }
                    SharedMux::H3(mux) => {
                        Pending::H3(self.send_shared((how, time), attempt, (seat, mux))?)
                    }
                };
                pending.insert(sent)
            }
        };
        self.record.mirroring.iter_mut().for_each(|it| it.send_copies());
        Ok(sent)
    }

    fn send_h1(
        &mut self,
        (how, time): (SendOptions<'_>, Duration),
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
        let call = Call::new(channel, self.upload_pump(how.timeouts), time);
        PendingResponse::new(attempt, memory, call, self)
    }

    fn send_shared<P: ClientProtocol>(
        &mut self,
        (how, time): (SendOptions<'_>, Duration),
        attempt: RunningAttempt,
        on: (Seat, &Rc<Mux<P>>),
    ) -> Result<PendingResponse<'x, StreamChannel<'x, P>>, Error> {
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
        let channel = StreamChannel::start(on, &worker.io.clock, method, length, |mux| {
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
        let call = Call::new(channel, pump, time);
        let mut pending =
            PendingResponse::new(attempt, worker.call_memory(self.snapshot), call, self);
        let idle = || Idle::new(self.timer.clock(), timeouts.response_body);
        pending.watch.idle = is_call.then(idle);
        Ok(pending)
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

/// Counts the connection that an attempt has got.
pub(super) fn note_connection(connection: &PooledConnection, cells: &UpstreamCells) {
    match connection.opening() {
        Some(opening) => {
            cells.connects.add(1);
            cells.connect.record(opening.whole());
        }
        None => cells.reuses.add(1),
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
