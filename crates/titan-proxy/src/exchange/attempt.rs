//! One attempt of an exchange: the request to an endpoint, its response to the client.

use super::idle::Idle;
use super::presence::Presence;
use super::{Exchange, Record};
use crate::grpc::{self, web};
use crate::metrics::Cells;
use crate::origin::Origin;
use crate::scratch::Work;
use crate::snapshot::Snapshot;
use crate::upgrade::Upgrade;
use crate::worker::Worker;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;
use titan_config::{ByteSize, RouteTimeouts, SendHost};
use titan_h1::Body;
use titan_h2::Destination;
use titan_http::BodyLength;
use titan_http::{FieldName, Method, RequestHead, ResponseHead, Status, remove_hop_by_hop};
use titan_io::body::{BodySink, BodySource};
use titan_io::body::{Content, RequestBody, ResponseSink};
use titan_io::clock::{Moment, Timer};
use titan_io::error::{Error, Kind, Side};
use titan_io::relay::{Lender, Pump, ReadAhead, Rest, StallLimits, Stop};
use titan_io::splice::Pipes;
use titan_io::stream::Inbox;
use titan_io::transform::{Transformed, Transforms};
use titan_policies::compress::Compressor;
use titan_upstream::attempts::{Attempts, Latency};
use titan_upstream::call::{Call, ReceivedHead, ResponseSource, Upload};
use titan_upstream::cells::UpstreamCells;
use titan_upstream::connection::Connection;
use titan_upstream::endpoint::Endpoint;
use titan_upstream::h1::H1Io;
use titan_upstream::h2::{self, H2Connection};
use titan_upstream::pool::{AcquireOptions, PooledConnection};

/// How many connections in a row an endpoint may leave before it has served a request.
const MOST_DEPARTURES: u32 = 4;
/// How many interim responses an endpoint may send before the final one.
const MAX_INTERIM: u32 = 16;

/// How a request is sent, whichever endpoint it goes to.
#[derive(Clone, Copy)]
pub(super) struct SendOptions<'s> {
    pub(super) timeouts: &'s RouteTimeouts,
    /// Further endpoints that are asked where one does not answer.
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

/// The client's side of a call: everything of the exchange but what the call itself is made with.
macro_rules! upstream_call {
    ($exchange:ident, $how:ident, $attempts:ident, $response:ident, $text:ident) => {
        UpstreamCall {
            how: $how,
            attempts: $attempts,
            snapshot: $exchange.snapshot,
            origin: $exchange.origin,
            timer: $exchange.timer,
            pipes: &$exchange.worker.io.pipes,
            worker: $exchange.worker,
            cells: $exchange.worker.cells(),
            body: &mut *$exchange.body,
            answer: &mut *$exchange.answer,
            record: &mut $exchange.record,
            response: $response,
            text: $text,
            upgrade: $exchange.upgrade.as_ref(),
            wants_continue: $exchange.expects_continue,
            interim: 0,
            presence: Presence::unknown($exchange.timer.clock()),
            idle: None,
        }
    };
}

impl<'x, B: RequestBody + ?Sized, A: ResponseSink + ?Sized> Exchange<'x, B, A> {
    /// Sends the request to one endpoint. A kept connection that has died costs nothing: the request
    /// goes out again over a new one.
    pub(super) async fn attempt(
        &mut self,
        how: SendOptions<'_>,
        attempts: &Attempts,
        cells: &UpstreamCells,
    ) -> Result<Option<Delivery<'x>>, Error> {
        let endpoint = attempts.endpoint();
        let _running = endpoint.load.begin();
        let (mut new, mut departures) = (false, 0);
        loop {
            self.record.is_sent = false;
            // What could not be sent again, because it has an effect or a body, goes over no connection
            // that the kernel knows to be dead.
            let surely_alive = !self.request.method.is_idempotent() || !self.length.is_empty();
            let (h1_only, connect) = (self.upgrade.is_some(), how.timeouts.connect);
            let client = attempts.client();
            let sharing = &self.snapshot.sharing;
            let options = AcquireOptions { surely_alive, new, h1_only, connect, client, sharing };
            cells.attempts.add(1);
            let (is_free, result) = match self.way(endpoint, options).await? {
                PooledConnection::Own(connection) => {
                    if connection.was_waited_for && self.body.is_broken() {
                        self.worker.pools.keep(connection, &self.worker.io.clock);
                        return Err(Kind::ClientGone.into());
                    }
                    let is_reused = connection.is_reused;
                    if is_reused { &cells.reuses } else { &cells.connects }.add(1);
                    (is_reused, self.call(how, connection, attempts).await)
                }
                PooledConnection::Shared { seat, was_waited_for } => {
                    if was_waited_for && self.body.is_broken() {
                        return Err(Kind::ClientGone.into());
                    }
                    let result = self.call_shared(how, &seat.shared, attempts).await;
                    // One that leaves a connection says nothing about the next.
                    let has_left = seat.shared.mux.connection().is_leaving();
                    departures += u32::from(has_left);
                    (!new || has_left && departures < MOST_DEPARTURES, result)
                }
            };
            match result {
                Err(error) if is_free && self.may_retry(error) => new = true,
                result => return result,
            }
        }
    }

    /// Comes by a connection, unless the client gives the request up meanwhile: then nobody is to do it.
    async fn way(
        &mut self,
        endpoint: &Arc<Endpoint>,
        options: AcquireOptions<'_>,
    ) -> Result<PooledConnection, Error> {
        let mut way = pin!(self.worker.pools.get(endpoint, options));
        let mut presence = None;
        let Exchange { timer, body, .. } = self;
        poll_fn(|cx| {
            let clock = timer.clock();
            if let Poll::Ready(way) = way.as_mut().poll(cx) {
                return Poll::Ready(way);
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

    /// One request and its response over one connection.
    async fn call(
        &mut self,
        how: SendOptions<'_>,
        mut connection: Connection,
        attempts: &Attempts,
    ) -> Result<Option<Delivery<'x>>, Error> {
        self.answer_expectation(attempts.endpoint());
        self.pass_on_timeout()?;
        let (method, length) = (self.request.method, self.length);
        let pump = self.upload_pump(how.timeouts);
        let host = host_upstream(how.send_host, self.request, attempts.endpoint());
        let lender = self.lender(attempts);
        let mut inbox = Inbox::default();
        let buffers = &self.worker.io.buffers;
        let h1_io = H1Io { stream: &mut connection.stream, inbox: &mut inbox, buffers };
        let Work { codec, response, text } = &mut *self.work;
        let (mut request, reply) = codec.call(h1_io, method);
        request.start(body_upstream(method, length), |out, body| {
            let connection = match self.upgrade {
                Some(_) => titan_h1::Connection::Upgrade,
                None => titan_h1::Connection::KeepAlive,
            };
            titan_h1::write_request(out, self.request, host, body, connection);
        });
        let call = Call::new(request, reply, pump, how.timeouts.response);
        let mut upstream_call = upstream_call!(self, how, attempts, response, text);
        let Outcome { may_be_reused, delivery } = upstream_call.hold(call, lender).await?;
        if may_be_reused && inbox.is_empty() && !codec.is_cut() {
            self.worker.pools.keep(connection, &self.worker.io.clock);
        }
        Ok(delivery)
    }

    /// One request and its response over a connection that others use at the same time.
    async fn call_shared(
        &mut self,
        how: SendOptions<'_>,
        shared: &H2Connection,
        attempts: &Attempts,
    ) -> Result<Option<Delivery<'x>>, Error> {
        let endpoint = attempts.endpoint();
        self.pass_on_timeout()?;
        let is_call = self.record.dialect.is_some();
        if is_call {
            self.request.fields.set(FieldName::Te, b"trailers").map_err(|_| Kind::Internal)?;
        }
        let method = self.request.method;
        let pump = if is_call {
            Pump::new(StallLimits::UNLIMITED)
        } else {
            self.upload_pump(how.timeouts)
        };
        let authority = host_upstream(how.send_host, self.request, endpoint);
        let destination =
            Destination { authority, is_https: endpoint.tls.is_some(), protocol: None };
        let length = match body_upstream(method, self.length) {
            Body::None => Some(0),
            Body::Length(length) => Some(length),
            Body::Chunked | Body::UntilClose => None,
        };
        let declared = length.filter(|_| !matches!(body_upstream(method, self.length), Body::None));
        let handle = shared.mux.open(self.request, destination, declared, length == Some(0));
        // The next endpoint may speak HTTP/1.1, where it would be a hop-by-hop field.
        self.request.fields.remove(FieldName::Te);
        let handle = handle.ok_or(Kind::Unprocessed)?;
        let (receiver, mut sender) = handle.split();
        sender.begin(length, length == Some(0));
        let reply = h2::H2Response { receiver, method };
        let call = Call::new(sender, reply, pump, how.timeouts.response);
        let lender = self.lender(attempts);
        let Work { response, text, .. } = &mut *self.work;
        let mut upstream_call = upstream_call!(self, how, attempts, response, text);
        let timeout = how.timeouts.response_body;
        upstream_call.idle = is_call.then(|| Idle::new(upstream_call.timer.clock(), timeout));
        let _trial = shared.trial(upstream_call.timer.clock());
        let result = upstream_call.hold(call, lender).await;
        if result.as_ref().is_err_and(|error| error.kind == Kind::ResponseTimeout) {
            // Whether the endpoint is slow or the connection dead cannot be told: nobody else is to find out.
            shared.retire();
        }
        result.map(|outcome| outcome.delivery)
    }

    /// Where memory is had from for a response that its client takes slowly.
    fn lender(&self, attempts: &Attempts) -> Lender<'x> {
        let snapshot: &'x Snapshot = self.snapshot;
        let most = snapshot.limits.response_buffer.map_or(0, ByteSize::as_usize);
        Lender { memory: &snapshot.response_memory, client: attempts.client(), most }
    }

    /// Sends the client what is in memory of its response.
    pub(super) async fn deliver(&mut self, delivery: Delivery<'_>) -> Result<(), Error> {
        let Delivery { pump, mut rest } = delivery;
        self.send_through(pump, &mut rest).await
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
    fn answer_expectation(&mut self, endpoint: &Endpoint) {
        if self.expects_continue && endpoint.is_http10.load(Ordering::Relaxed) {
            self.answer.interim(&ResponseHead::with_status(Status::CONTINUE));
            self.request.fields.remove(FieldName::Expect);
            self.expects_continue = false;
        }
    }
}

/// The end of a response that was taken from its endpoint, on its way to the client.
pub(super) struct Delivery<'m> {
    pump: Pump,
    rest: Rest<'m>,
}

/// What came of a call.
#[derive(Default)]
struct Outcome<'m> {
    /// Whether its connection may be used for another one.
    may_be_reused: bool,
    /// What its client has not taken yet.
    delivery: Option<Delivery<'m>>,
}

/// A call to an endpoint and the client it is made for.
pub(super) struct UpstreamCall<'c, B: ?Sized, A: ?Sized> {
    pub(super) how: SendOptions<'c>,
    attempts: &'c Attempts,
    snapshot: &'c Snapshot,
    origin: &'c Origin,
    pub(super) timer: &'c Timer,
    pipes: &'c Rc<Pipes>,
    worker: &'c Worker,
    cells: &'c Cells,
    pub(super) body: &'c mut B,
    pub(super) answer: &'c mut A,
    record: &'c mut Record,
    response: &'c mut ResponseHead,
    text: &'c mut Vec<u8>,
    upgrade: Option<&'c Upgrade>,
    /// Whether the client waits for 100 (Continue).
    wants_continue: bool,
    /// Interim responses so far.
    interim: u32,
    presence: Presence,
    /// For a gRPC call: a direction may pause for as long as it likes, both together not.
    idle: Option<Idle>,
}

impl<B: RequestBody + ?Sized, A: ResponseSink + ?Sized> UpstreamCall<'_, B, A> {
    /// The request out, the response in.
    async fn hold<'m, S: BodySink, R: ResponseSource>(
        &mut self,
        mut call: Call<S, R>,
        lender: Lender<'m>,
    ) -> Result<Outcome<'m>, Error> {
        let mut latency = self.attempts.measures_latency().then(Latency::default);
        let head = self.await_head(&mut call, &mut latency).await;
        self.record.is_sent = call.upload.request.written() > 0;
        self.record.is_body_used |= call.upload.taken() > 0;
        let start = head?;
        self.attempts.note_answer(self.response.version, latency);
        let mut content = start.content;
        let transforms = self.tell_client(&mut content)?;
        if self.response.status == Status::SWITCHING_PROTOCOLS {
            return self.switch(call).await.map(|()| Outcome::default());
        }
        if !call.upload.is_done() {
            // The end of the request will never be known to be its end.
            self.answer.close_after();
        }
        self.record.status = Some(self.response.status);
        self.answer.start(self.response, content);
        let lender = lender.for_body_of(content.length);
        let (mut upload, mut incoming) = call.into_answer();
        let delivery = match transforms.is_empty() {
            true => self.relay(&mut upload, ReadAhead::new(incoming, lender)).await?,
            false => {
                let incoming: &mut dyn BodySource = &mut incoming;
                let body = Transformed::new(incoming, transforms);
                Box::pin(self.relay(&mut upload, ReadAhead::new(body, lender))).await?
            }
        };
        Ok(Outcome { may_be_reused: start.keep_alive && upload.is_done(), delivery })
    }

    /// Tells the client that the endpoint consents, and goes on as a tunnel.
    async fn switch<S: BodySink, R: ResponseSource>(
        &mut self,
        call: Call<S, R>,
    ) -> Result<(), Error> {
        let granted = self.upgrade.map(|upgrade| upgrade.grant(self.response));
        granted.transpose().map_err(|_| Kind::Internal)?;
        self.record.status = Some(self.response.status);
        self.answer.start_tunnel(self.response);
        self.cells.tunnels_opened.add(1);
        let result = self.tunnel(call).await;
        self.cells.tunnels_closed.add(1);
        result
    }

    /// Makes of the head of the response what the client is to see. Its body has to pass through what it returns.
    fn tell_client(&mut self, content: &mut Content) -> Result<Transforms<'static>, Error> {
        let UpstreamCall { response, text, origin, .. } = self;
        if !remove_hop_by_hop(&mut response.fields) {
            return Err(Error { side: Side::Upstream, kind: Kind::ConnectionList });
        }
        self.snapshot.forwarding.tell_client(origin, response).map_err(|_| Kind::Internal)?;
        self.worker.date(&mut response.fields).map_err(|_| Kind::Internal)?;
        if self.attempts.set_cookie(text) {
            response.fields.append(FieldName::SetCookie, text).map_err(|_| Kind::Internal)?;
        }
        let (snapshot, upgrade, worker) = (self.snapshot, self.upgrade, self.worker);
        let encoding = self.record.meet_response(snapshot, upgrade, response, content, worker)?;
        let mut transforms = Transforms::default();
        if let Some(encoding) = encoding {
            transforms.push(Compressor::new(encoding, worker.policies.encoders()));
        }
        if let Some(dialect) = self.record.dialect.filter(|_| self.how.grpc_web) {
            web::from_native(dialect, self.response, content, &mut transforms)
                .map_err(|_| Kind::Internal)?;
        }
        Ok(transforms)
    }

    /// Sends the request on and waits for the head of the final response.
    async fn await_head<S: BodySink, R: ResponseSource>(
        &mut self,
        call: &mut Call<S, R>,
        latency: &mut Option<Latency>,
    ) -> Result<ReceivedHead, Error> {
        poll_fn(|cx| {
            loop {
                let answer = call.poll_head(cx, self.timer.clock(), self.body, self.response);
                if let Some(latency) = latency.as_mut().filter(|_| call.upload.is_over()) {
                    latency.start();
                }
                match answer {
                    Poll::Ready(Ok(start)) if start.interim => self.pass_interim()?,
                    Poll::Ready(Ok(start)) => {
                        return Poll::Ready(self.check_upgrade().map(|()| start));
                    }
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Pending => {
                        if let Poll::Ready(result) = self.answer.poll_flush(cx) {
                            result?;
                        }
                        self.watch(cx, call.upload.is_done())?;
                        if !call.upload.is_over() && self.is_idle(call.upload.taken()) {
                            return Poll::Ready(Err(Kind::BodyTimeout.into()));
                        }
                        self.timer.wake_at(cx, call.deadline().min(self.next_look()));
                        return Poll::Pending;
                    }
                }
            }
        })
        .await
    }

    /// An endpoint may switch to what the client has asked for, and to nothing else. A client that can only have
    /// meant a tunnel must not take another good answer for one.
    fn check_upgrade(&self) -> Result<(), Error> {
        let is_switching = self.response.status == Status::SWITCHING_PROTOCOLS;
        match self.upgrade {
            Some(upgrade) if is_switching && upgrade.is_granted_by(self.response) => Ok(()),
            _ if is_switching => Err(Kind::UnaskedUpgrade.into()),
            Some(upgrade) if upgrade.is_binding() && self.response.status.is_success() => {
                Err(Kind::UpgradeIgnored.into())
            }
            _ => Ok(()),
        }
    }

    /// Sends the response on, and the rest of the request while it lasts. What is left when all of it is in memory
    /// has no more need of the endpoint.
    async fn relay<'m, S: BodySink>(
        &mut self,
        upload: &mut Upload<S>,
        mut incoming: ReadAhead<'m, impl BodySource>,
    ) -> Result<Option<Delivery<'m>>, Error> {
        let RouteTimeouts { response_body, write, .. } = *self.how.timeouts;
        // A client that reads nothing may not hold a response in memory by sending a little now and then.
        let source = if self.idle.is_some() { Duration::MAX } else { response_body };
        let sink_rate = self.snapshot.response_rate();
        let timeout = StallLimits { source, sink: write, source_rate: 0, sink_rate };
        let mut download = Pump::new(timeout).with_pipes(self.pipes);
        if let Some(idle) = &mut self.idle {
            idle.renew(self.timer.clock());
        }
        let is_over = poll_fn(|cx| {
            match upload.poll(cx, self.timer.clock(), self.body) {
                // A client may stop sending once it sees the response (RFC 9110 section 9.1.1): that must
                // not take the response from it.
                Err(error) if error.is_slow_client() => upload.give_up(),
                result => result?,
            }
            if let Poll::Ready(result) =
                download.poll(cx, self.timer.clock(), &mut incoming, self.answer)
            {
                return Poll::Ready(result.map_err(Stop::of_answer).map(|()| true));
            }
            if download.awaits_sink() {
                incoming.read(cx);
                if incoming.is_read() && upload.is_over() {
                    return Poll::Ready(Ok(false));
                }
            }
            self.watch(cx, upload.is_done())?;
            if self.is_idle(upload.taken() + download.taken()) {
                return Poll::Ready(Err(Kind::ResponseStalled.into()));
            }
            let deadline = upload.deadline().min(download.deadline());
            self.timer.wake_at(cx, deadline.min(self.next_look()));
            Poll::Pending
        })
        .await?;
        Ok((!is_over).then(|| Delivery { pump: download, rest: incoming.into_rest() }))
    }

    /// Passes an interim response on, where the client can use it.
    fn pass_interim(&mut self) -> Result<(), Error> {
        let head = &mut *self.response;
        self.interim += 1;
        if self.interim > MAX_INTERIM {
            return Err(Kind::TooManyInterim.into());
        }
        if head.status == Status::CONTINUE && !std::mem::take(&mut self.wants_continue) {
            return Ok(());
        }
        if remove_hop_by_hop(&mut head.fields) {
            self.snapshot.forwarding.name_server(head).map_err(|_| Kind::Internal)?;
            self.answer.interim(head);
        }
        Ok(())
    }

    /// Whether nothing has moved in either direction for too long, where that is what matters.
    fn is_idle(&mut self, moved: u64) -> bool {
        self.idle.as_mut().is_some_and(|idle| idle.is_over(self.timer.clock(), moved))
    }

    /// When to look again although nothing happens.
    fn next_look(&self) -> Moment {
        let idle = self.idle.as_ref().map_or(Moment::NEVER, Idle::deadline);
        idle.min(self.presence.next_look())
    }

    /// Notices that the client has left.
    fn watch(&mut self, cx: &mut Context<'_>, is_sent: bool) -> Result<(), Error> {
        self.presence.watch(cx, self.timer.clock(), self.body, is_sent)
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
