//! A connection that a TLS route takes: bytes between a client and an endpoint, whatever they mean.

use super::Client;
use crate::observed::Telling;
use crate::scratch::Lease;
use crate::tls_route::{TlsFailure, TlsRoute, TlsRouteStatus};
use crate::worker::{CurrentSnapshot, Worker};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};
use titan_config::TlsMode;
use titan_h1::{BodyReader, Framing};
use titan_http::{Fields, Scheme, Status};
use titan_io::body::{BodySink, BodySource};
use titan_io::clock::{Clock, CoarseInstant};
use titan_io::counter::Counted;
use titan_io::error::{Error, Kind, Side};
use titan_io::message::{Incoming, Outbox, Outgoing};
use titan_io::relay::TwoWay;
use titan_io::stream::Peek;
use titan_io::transport::Transport;
use titan_observe::record::{Event, Text, TlsVersion};
use titan_upstream::attempts::{AdmittedAttempt, Attempts};
use titan_upstream::balance::{InFlight, KeySource};
use titan_upstream::call::CallMemory;
use titan_upstream::cells::{RetryReason, UpstreamCells};
use titan_upstream::connection::Opening;
use titan_upstream::failure_log::{Cause, FailureDetail};
use titan_upstream::h1::SwitchedConnection;
use titan_upstream::members::Upstream;

/// Endpoints that are tried after one that has accepted no connection, as far as the budget for retries goes.
const RETRIES: usize = 2;
/// How long an endpoint is still waited for when the client has closed its sending side, as some do on purpose.
const HALF_CLOSED: Duration = Duration::from_secs(1);
/// How long a connection may say something of its endpoint. One on which only the client speaks says nothing, and must not keep the
/// place of a trial, nor what is known of the upstream, for days.
const JUDGED: Duration = Duration::from_secs(10);

/// The endpoint's side of a connection, and what counts it.
struct Reached {
    endpoint: SwitchedConnection,
    memory: Lease<CallMemory>,
    verdict: Verdict,
    _running: InFlight,
    upstream: Arc<Counted<UpstreamCells>>,
    /// How long nothing may move.
    timeout: Duration,
}

/// What a connection says of its endpoint, whose health is told once. To accept it is no success: the kernel does that for a process
/// that hangs, or that resets all of them.
struct Verdict {
    /// None once it is known, or not of interest any more.
    attempt: Option<AdmittedAttempt>,
    /// Until when it may say something.
    until: CoarseInstant,
    /// How long a failure counts to have taken.
    penalty: Duration,
    /// Whether the client had spoken before there was an endpoint.
    has_spoken: bool,
    has_failed: bool,
}

/// The turns that a connection may have at the endpoints of an upstream.
struct Connecting<'c> {
    worker: &'c Worker,
    upstream: &'c Upstream,
    cells: &'c UpstreamCells,
    /// The name of the route.
    route: &'c str,
    timeout: Duration,
    /// Until when it may wait for a connection, all turns together.
    until: CoarseInstant,
}

/// Sends the connection to an endpoint of the route, which `snapshot` has, and serves it until both sides have ended. Its client has
/// asked for that name.
pub(crate) async fn serve(
    client: &mut Client,
    snapshot: CurrentSnapshot,
    route: Arc<TlsRoute>,
    name: Option<&str>,
) {
    let told = route.status();
    let index = client.worker.index();
    told.counted.cells(index).opened.add(1);
    let mut telling = begin_telling(client, &snapshot, &route, name);
    let reached = reach(client, &snapshot, &route, &mut telling).await;
    // A connection that lasts for days must not keep a configuration, or the memory of long records.
    drop((snapshot, route));
    telling.iter_mut().for_each(|telling| telling.record.settle());
    let ended = match reached {
        Ok(reached) => relay(client, reached, &told, &mut telling).await,
        Err(error) => {
            let is_alone = error.has_no_client();
            let failure = if is_alone { TlsFailure::Client } else { TlsFailure::Connect };
            told.counted.cells(index).note_failure(failure);
            // A reset: an end would say that this is all there is.
            client.is_responding = true;
            Err(error)
        }
    };
    told.counted.cells(index).closed.add(1);
    tell(telling, ended);
}

/// Notes what is known of the connection, where anybody is to hear of it.
fn begin_telling(
    client: &Client,
    snapshot: &CurrentSnapshot,
    route: &TlsRoute,
    name: Option<&str>,
) -> Option<Telling> {
    let Client { worker, transport, origin, .. } = client;
    let telling = || worker.observed.begin(snapshot, Instant::now());
    let mut telling = snapshot.is_recorded.then(telling)?;
    let record = &mut telling.record;
    record.facts.set_event(Event::Connection);
    let is_tls = route.mode != TlsMode::Tcp;
    record.facts.set_scheme(if is_tls { Scheme::Https } else { Scheme::Http });
    record.facts.set_peer(origin.address);
    record.facts.set_client(origin.address);
    if let Some(agreed) = transport.stream.agreed() {
        let version = if agreed.is_tls13 { TlsVersion::Tls13 } else { TlsVersion::Tls12 };
        record.facts.set_tls(Some(version));
    }
    record.set(Text::Listener, route.id.listener.as_bytes());
    record.set(Text::Route, route.id.route.as_bytes());
    record.set(Text::Sni, name.unwrap_or_default().as_bytes());
    Some(telling)
}

/// Tells how the connection has ended: whether both sides have, or why not.
fn tell(telling: Option<Telling>, ended: Result<bool, Error>) {
    let Some(mut telling) = telling else { return };
    let took = telling.started.elapsed();
    let record = &mut telling.record;
    record.facts.set_took(took);
    record.facts.set_complete(ended.unwrap_or(false));
    if let Err(error) = ended {
        record.fail(error);
    }
    telling.tell();
}

/// Connects to an endpoint, to another one if that accepts no connection, unless the client leaves meanwhile.
async fn reach(
    client: &mut Client,
    snapshot: &CurrentSnapshot,
    route: &TlsRoute,
    telling: &mut Option<Telling>,
) -> Result<Reached, Error> {
    let Client { worker, transport, origin, .. } = client;
    let (started, index) = (Instant::now(), route.split.pick());
    let upstream = &snapshot.upstreams[index];
    let members = worker.members.get(index, upstream, started);
    let source = KeySource { fields: &Fields::default(), query: None, client: origin.address };
    let mut attempts = Attempts::new(upstream, members, &source);
    let cells = upstream.counted.cells(worker.index());
    cells.requests.add(1);
    let (timeout, until) =
        (snapshot.timeouts.connect, worker.io.clock.deadline(snapshot.timeouts.handshake));
    let connecting = Connecting { worker, upstream, cells, route: &route.id.route, timeout, until };
    let mut memory = worker.call_memory(snapshot);
    loop {
        let chosen = attempts.next(worker.io.random(), started);
        let attempt = chosen.map_err(|kind| connecting.note_nobody(kind))?;
        let running = attempt.begin();
        if let Some(telling) = telling {
            telling.begin_attempt(false, upstream.config(), &attempt);
        }
        match connecting.open(transport, &attempt, &mut memory).await {
            Ok((endpoint, opening)) => {
                note_opening(telling, opening);
                let has_spoken = !transport.inbox.is_empty();
                let verdict = Verdict::new(attempt, timeout, has_spoken, &worker.io.clock);
                let (timeout, upstream) = (snapshot.timeouts.tunnel, Arc::clone(&upstream.counted));
                let _running = running.into_count();
                return Ok(Reached { endpoint, memory, verdict, _running, upstream, timeout });
            }
            Err(error) if !connecting.may_retry(&attempts, error) => return Err(error),
            Err(error) => {
                if let Some(telling) = telling {
                    let at = telling.started.elapsed();
                    telling.record.end_attempt(&attempt.endpoint().text, at, Some(error));
                }
            }
        }
    }
}

/// Notes the connection that the last attempt has got.
fn note_opening(telling: &mut Option<Telling>, opening: Opening) {
    let attempt = telling.as_mut().and_then(|telling| telling.record.last_attempt());
    if let Some(attempt) = attempt {
        attempt.set_reused(false);
        attempt.set_connect(Some(opening.connect()));
        attempt.set_tls(opening.tls());
    }
}

/// Waits for `what`, unless the client leaves meanwhile. `None` if that takes too long.
async fn while_present<T>(
    transport: &mut Transport,
    what: impl Future<Output = T>,
    until: CoarseInstant,
) -> Result<Option<T>, Error> {
    let Transport { stream, timer, .. } = transport;
    let (reader, _) = stream.split();
    let (mut what, mut leaves) = (pin!(what), None);
    poll_fn(|cx| {
        let clock = timer.clock();
        if let Poll::Ready(done) = what.as_mut().poll(cx) {
            return Poll::Ready(Ok(Some(done)));
        }
        if clock.is_past(until) {
            return Poll::Ready(Ok(None));
        }
        let (is_gone, look) = match reader.poll_peek(cx) {
            Poll::Ready(Peek::Broken) => (true, until),
            Poll::Ready(Peek::End) => {
                let leaves = *leaves.get_or_insert_with(|| clock.deadline(HALF_CLOSED));
                (clock.is_past(leaves), leaves)
            }
            // Behind bytes an end does not show.
            Poll::Ready(_) => (reader.is_broken(), clock.deadline(Duration::ZERO)),
            Poll::Pending => (false, until),
        };
        if is_gone {
            return Poll::Ready(Err(Kind::ClientGone.into()));
        }
        timer.wake_at(cx, look.min(until));
        Poll::Pending
    })
    .await
}

impl Connecting<'_> {
    /// Opens a connection to one endpoint, whose health is told if that fails.
    async fn open(
        &self,
        client: &mut Transport,
        attempt: &AdmittedAttempt,
        memory: &mut CallMemory,
    ) -> Result<(SwitchedConnection, Opening), Error> {
        let Connecting { worker, cells, timeout, until, .. } = *self;
        cells.attempts.add(1);
        let opening = worker.pools.open_raw(attempt.endpoint(), attempt.client(), timeout);
        // While it is there it shows whether it waits for its turn.
        let mut opening = Box::pin(opening);
        let opened = while_present(client, opening.as_mut(), until).await?;
        match opened.unwrap_or_else(|| Err(attempt.why_unconnected().into())) {
            Ok(connection) => {
                cells.connects.add(1);
                cells.connect.record(connection.opening.whole());
                let opening = connection.opening;
                Ok((SwitchedConnection::new(connection, memory), opening))
            }
            Err(error) => {
                self.note_failed(attempt, error);
                Err(error)
            }
        }
    }

    fn note_failed(&self, attempt: &AdmittedAttempt, error: Error) {
        let endpoint = attempt.endpoint();
        let describe = || {
            let reason = endpoint.take_reason(error.kind).unwrap_or_else(|| error.to_string());
            self.detail(format!("{}: {reason}", endpoint.address))
        };
        self.upstream.failure_log.note(Cause::Failed(error.kind), describe);
        if error.side == Side::Upstream {
            self.cells.failures.add(1);
            attempt.note_failure(self.timeout, attempt.began());
            attempt.note_end(Err(error.kind));
        }
    }

    /// There is no endpoint to try.
    fn note_nobody(&self, kind: Kind) -> Error {
        let error = Error::from(kind);
        self.cells.rejected.add(u64::from(kind == Kind::CircuitOpen));
        let describe = || self.detail(error.to_string());
        self.upstream.failure_log.note(Cause::Failed(kind), describe);
        error
    }

    fn detail(&self, what: String) -> FailureDetail {
        FailureDetail { what, route: Some(self.route.to_owned()), request: None }
    }

    /// Whether another endpoint is tried. Nothing was sent to the last one.
    fn may_retry(&self, attempts: &Attempts, error: Error) -> bool {
        let is_over = error.has_no_client() || self.worker.io.clock.is_past(self.until);
        if is_over || attempts.count() > RETRIES || !attempts.has_others() {
            return false;
        }
        let is_paid = self.upstream.withdraw_retry();
        match is_paid {
            true => self.cells.note_retry(RetryReason::Connect),
            false => self.cells.retries_refused.add(1),
        }
        is_paid
    }
}

impl Verdict {
    fn new(
        attempt: AdmittedAttempt,
        penalty: Duration,
        has_spoken: bool,
        clock: &Clock,
    ) -> Verdict {
        let until = clock.deadline(JUDGED);
        Verdict { attempt: Some(attempt), until, penalty, has_spoken, has_failed: false }
    }

    /// Looks at what has come of the connection, and says when to look again at the latest.
    fn look(&mut self, clock: &Clock, two_way: &TwoWay) -> CoarseInstant {
        let ((sent, came), ended) = (two_way.taken(), two_way.ended());
        self.has_spoken |= sent > 0;
        if came > 0 {
            self.succeed();
        } else if self.has_spoken && ended == (false, true) {
            self.fail();
        } else if clock.is_past(self.until) {
            self.attempt = None;
        }
        if self.attempt.is_some() { self.until } else { CoarseInstant::NEVER }
    }

    /// The endpoint has said something.
    fn succeed(&mut self) {
        if let Some(attempt) = self.attempt.take() {
            attempt.note_end(Ok((Status::OK, None)));
        }
    }

    /// The endpoint has left without a word to what the client has sent.
    fn fail(&mut self) {
        let Some(attempt) = self.attempt.take() else { return };
        self.has_failed = true;
        attempt.note_failure(self.penalty, attempt.began());
        attempt.note_end(Err(Kind::Closed));
    }
}

/// Moves bytes both ways. An end is passed on as an end, a loss as a loss. Whether both sides have ended.
async fn relay(
    client: &mut Client,
    mut reached: Reached,
    route: &TlsRouteStatus,
    telling: &mut Option<Telling>,
) -> Result<bool, Error> {
    let worker = client.worker.clone();
    let cells = route.counted.cells(worker.index());
    let result = {
        let Transport { io, stream, inbox, timer, .. } = &mut client.transport;
        let (reader, writer) = stream.split();
        let limits = titan_h1::Limits::default();
        let (mut body, mut outbox) = (BodyReader::new(Framing::None, &limits), Outbox::default());
        let side = Side::Downstream;
        let mut source = Incoming::new(side, reader, inbox, &mut body, &io.buffers);
        source.open_tunnel();
        let mut sink = Outgoing::new(side, writer, &mut outbox);
        sink.open_tunnel();
        let Reached { endpoint, memory, verdict, timeout, .. } = &mut reached;
        let (mut request, mut response) = endpoint.open(memory, &io.buffers);
        let mut two_way = TwoWay::new(timer.clock(), *timeout);
        let mut told = (0, 0);
        let note = |two_way: &TwoWay| {
            let (received, sent) = two_way.taken();
            cells.received.add(received - told.0);
            cells.sent.add(sent - told.1);
            told = (received, sent);
            if let Some(telling) = telling {
                telling.record.facts.set_request_bytes(received);
                telling.record.facts.set_response_bytes(sent);
            }
            verdict.look(timer.clock(), two_way)
        };
        let up = (&mut source, &mut request);
        let result = two_way.run(timer, up, (&mut response, &mut sink), note).await;
        let is_lost = result.is_err_and(|error| error.side == Side::Upstream);
        if is_lost && verdict.has_spoken {
            verdict.fail();
        }
        result.map(|()| two_way.ended() == (true, true))
    };
    match (result, reached.verdict.has_failed) {
        (Ok(true), false) => Ok(true),
        (Ok(false), false) => {
            cells.note_failure(TlsFailure::Idle);
            Ok(false)
        }
        (Ok(_), true) => {
            let error = Error::from(Kind::Closed);
            note_broken(&reached, route, error, &worker);
            Err(error)
        }
        (Err(error), has_failed) => {
            reached.endpoint.reset();
            // Whatever the client makes of an endpoint that has left without a word.
            let cause = if has_failed { Kind::Closed.into() } else { error };
            note_broken(&reached, route, cause, &worker);
            drop(reached);
            if !error.has_no_client() {
                client.is_responding = true;
                client.break_off(false).await;
            }
            Err(cause)
        }
    }
}

/// Notes who has broken a connection off.
fn note_broken(reached: &Reached, route: &TlsRouteStatus, error: Error, worker: &Worker) {
    let cells = route.counted.cells(worker.index());
    if error.side != Side::Upstream {
        return cells.note_failure(TlsFailure::Client);
    }
    cells.note_failure(TlsFailure::Endpoint);
    reached.upstream.cells(worker.index()).failures.add(1);
    let endpoint = reached.endpoint.endpoint();
    endpoint.failure_log().note(Cause::Failed(error.kind), || FailureDetail {
        what: format!("{}: {error}", endpoint.address),
        route: Some(route.name.route.clone()),
        request: None,
    });
}
