//! A connection that goes on in another protocol: bytes both ways until both sides have ended.
//!
//! The exchange is over when it begins, so that it keeps nothing of the configuration but what it counts in.

use super::{Exchange, Verdict};
use crate::metrics::RouteCells;
use crate::observed::Telling;
use crate::scratch::Lease;
use crate::upgrade::TunnelPermit;
use crate::worker::Worker;
use std::sync::Arc;
use std::time::Duration;
use titan_io::body::{BodySource, RequestBody, ResponseSink};
use titan_io::clock::{CoarseInstant, Timer};
use titan_io::counter::Counted;
use titan_io::error::{Error, Side};
use titan_io::relay::TwoWay;
use titan_policies::state::PolicyState;
use titan_upstream::attempts::RunningAttempt;
use titan_upstream::balance::InFlight;
use titan_upstream::call::CallMemory;
use titan_upstream::cells::UpstreamCells;
use titan_upstream::failure_log::{Cause, FailureDetail};
use titan_upstream::h1::SwitchedConnection;

/// The endpoint's side of a tunnel, and what it holds a place in while it lasts.
pub(crate) struct Tunnel {
    endpoint: SwitchedConnection,
    memory: Lease<CallMemory>,
    /// How long nothing may move.
    timeout: Duration,
    context: FailureContext,
    _permit: Option<TunnelPermit>,
    _running: InFlight,
    /// What is told of it when it ends.
    pub(super) told: Option<Telling>,
    /// What policies have noted of the request: their limits count it as one that runs.
    policies: PolicyState,
}

/// The connection of a call whose endpoint has switched it.
pub(super) struct Switched {
    pub(super) endpoint: SwitchedConnection,
    pub(super) memory: Lease<CallMemory>,
    pub(super) attempt: RunningAttempt,
}

/// Whose failure it is when a tunnel breaks.
struct FailureContext {
    upstream: Arc<Counted<UpstreamCells>>,
    route: Option<Arc<Counted<RouteCells>>>,
    request: Option<Box<[u8]>>,
}

impl<B: RequestBody + ?Sized, S: ResponseSink + ?Sized> Exchange<'_, B, S> {
    /// The tunnel to an endpoint of the upstream at that position, which has agreed to it.
    pub(super) fn tunnel(&mut self, index: usize, timeout: Duration, switched: Switched) -> Tunnel {
        let Exchange { snapshot, request, record, .. } = self;
        let Switched { endpoint, memory, attempt } = switched;
        let context = FailureContext {
            upstream: Arc::clone(&snapshot.upstreams[index].counted),
            route: record.route.map(|route| Arc::clone(&snapshot.all_counted()[route])),
            request: snapshot.forwarding.request_id(&request.fields).map(Box::from),
        };
        Tunnel {
            endpoint,
            memory,
            timeout,
            context,
            _permit: record.permit.take(),
            _running: attempt.into_count(),
            told: None,
            policies: PolicyState::default(),
        }
    }
}

impl Tunnel {
    /// Keeps what policies have noted of the request, once they need it no more.
    pub(super) fn keep(&mut self, policies: PolicyState) {
        self.policies = policies;
    }

    /// Moves bytes both ways until both sides have ended, or nothing has moved for too long.
    pub(crate) async fn run(
        mut self: Box<Self>,
        worker: &Worker,
        timer: &Timer,
        source: &mut impl BodySource,
        sink: &mut impl ResponseSink,
    ) -> Verdict {
        let cells = worker.cells();
        cells.tunnels_opened.add(1);
        let sent = sink.sent();
        let mut directions = TwoWay::new(timer.clock(), self.timeout);
        let result = self.relay(&mut directions, worker, timer, source, sink).await;
        let (taken, _) = directions.taken();
        cells.received.add(taken);
        cells.sent.add(sink.sent() - sent);
        self.tell(result, (taken, sink.sent()));
        let verdict = result.map_or_else(|error| self.fail(error, worker), |()| Verdict::Responded);
        // Its places are free before it counts as closed.
        drop(self);
        cells.tunnels_closed.add(1);
        verdict
    }

    async fn relay(
        &mut self,
        directions: &mut TwoWay,
        worker: &Worker,
        timer: &Timer,
        source: &mut impl BodySource,
        sink: &mut impl ResponseSink,
    ) -> Result<(), Error> {
        let (mut request, mut incoming) = self.endpoint.open(&mut self.memory, &worker.io.buffers);
        source.open_tunnel();
        let (up, down) = ((source, &mut request), (&mut incoming, sink));
        directions.run(timer, up, down, |_| CoarseInstant::NEVER).await
    }

    /// Tells how it has ended, with the bytes that its client has sent since it opened, and all that were sent to it.
    fn tell(&mut self, result: Result<(), Error>, (received, sent): (u64, u64)) {
        let Some(mut telling) = self.told.take() else { return };
        let took = telling.started.elapsed();
        let record = &mut telling.record;
        record.facts.set_took(took);
        record.facts.set_request_bytes(record.facts.request_bytes() + received);
        record.facts.set_response_bytes(sent);
        record.facts.set_complete(result.is_ok());
        if let Err(error) = result {
            record.fail(error);
        }
        telling.tell();
    }

    fn fail(&self, error: Error, worker: &Worker) -> Verdict {
        worker.cells().count_failure(error);
        if error.side == Side::Upstream {
            self.note_failure(error, worker);
        }
        match error.has_no_client() {
            true => Verdict::Left { is_overdue: false },
            false => Verdict::Broken,
        }
    }

    /// Notes a failure of the endpoint.
    fn note_failure(&self, error: Error, worker: &Worker) {
        let FailureContext { upstream, route, request } = &self.context;
        upstream.cells(worker.index()).failures.add(1);
        let endpoint = self.endpoint.endpoint();
        endpoint.failure_log().note(Cause::Failed(error.kind), || FailureDetail {
            what: format!("{}: {error}", endpoint.address),
            route: route.as_ref().map(|route| route.name().to_owned()),
            request: request.as_ref().map(|id| String::from_utf8_lossy(id).into_owned()),
        });
    }
}
