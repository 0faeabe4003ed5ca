//! How many requests run at an upstream at the same moment, over all workers: a limit that finds itself from how long
//! responses take, and a bounded queue in front of it.
//!
//! A request has a [`Permit`] until the head of its response has come. `docs/decisions/0047` says why this limit, and
//! why until then.
//!
//! | what | module |
//! |---|---|
//! | the limit | `limit` |
//! | who waits, and who is refused | `waiting` |
//! | both, and what is counted | `gate` |
//! | what comes of it under overload | `simulation` |

mod limit;

mod waiting;

mod gate;

#[cfg(test)]
mod simulation;

use crate::health::since_start;
use gate::{Entrant, Gate, GateSettings, Turn};
use limit::Bounds;
use std::hash::Hash;
use std::sync::Arc;
use std::time::{Duration, Instant};
use titan_config::Importance;
use titan_http::{ResponseHead, Status};
use titan_io::error::Kind;
use titan_io::network::ClientNetwork;
use titan_io::registry::Registry;
use titan_io::shares::{ClientCounter, Shares};
use tokio::sync::oneshot;
use waiting::{QueueLimits, WaitingPosition};

/// The requests that run at an upstream and those that wait, with the settings of one configuration. What it counts
/// belongs to the upstream's name.
pub struct Concurrency {
    gate: Arc<Gate<Waiter>>,
    settings: GateSettings,
}

/// A request that runs at the upstream: counts until this is dropped.
pub struct Permit {
    concurrency: Arc<Concurrency>,
    counter: ClientCounter,
}

/// How the requests of an upstream stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConcurrencyStatus {
    /// How many may run.
    pub limit: u32,
    /// How many run.
    pub running: u32,
    /// How many wait.
    pub waiting: u32,
    /// Whether the newest of them are served first, because more have come for a while than were served.
    pub is_overloaded: bool,
    /// How long responses take without load; `None` before it is known.
    pub unloaded_latency: Option<Duration>,
}

/// Who waits for a permit; refused where this is dropped.
type Waiter = oneshot::Sender<Permit>;

/// A place among those that wait; left when dropped.
struct Place<'c> {
    concurrency: &'c Concurrency,
    position: WaitingPosition,
}

/// What an attempt tells of the load of its upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sample {
    /// The head of a response came after that time.
    Responded(Duration),
    /// It failed, or was refused. However fast that was, it must not look fast.
    Dropped,
}

impl Sample {
    /// That response after that time. An error that is none of load tells nothing: it may be fast, and other requests are no
    /// worse for it. Nor does a response without a time, which has not waited for its request.
    pub(crate) fn of(response: &ResponseHead, took: Option<Duration>) -> Option<Sample> {
        // A gRPC call that fails at once has its status in the head.
        let call = response.fields.named(b"grpc-status").next();
        match (response.status, call.filter(|status| *status != b"0")) {
            (
                Status::TOO_MANY_REQUESTS | Status::SERVICE_UNAVAILABLE | Status::GATEWAY_TIMEOUT,
                _,
            )
            | (_, Some(RESOURCE_EXHAUSTED | UNAVAILABLE)) => Some(Sample::Dropped),
            (_, Some(_)) => None,
            (status, None) => took.filter(|_| status.code() < 500).map(Sample::Responded),
        }
    }
}

/// The statuses of gRPC calls that tell of load, as they are written.
const RESOURCE_EXHAUSTED: &[u8] = b"8";
const UNAVAILABLE: &[u8] = b"14";

impl Concurrency {
    /// The one of the upstream that `key` stands for: it goes on where an earlier configuration has left it.
    pub(crate) fn of<K>(
        registry: &Registry,
        key: K,
        config: &titan_config::Concurrency,
    ) -> Arc<Concurrency>
    where
        K: Hash + Eq + Send + Sync + 'static,
    {
        let titan_config::Concurrency { min, max, initial, queue, delay_target } = *config;
        let gate = registry.shared(key, || Gate::new(initial, Shares::new()));
        let queue = QueueLimits { length: queue as usize, target: delay_target };
        let settings = GateSettings { bounds: Bounds { min, max }, queue };
        Arc::new(Concurrency { gate, settings })
    }

    /// Moves a limit that an earlier configuration has left into the bounds of this one.
    pub(crate) fn take_effect(self: &Arc<Self>) {
        self.gate.keep_within(self.settings.bounds);
        self.gate.serve((now(), &self.settings), |who, turn| self.tell(who, turn));
    }

    /// Lets a request of that client run, if there is room and none waits.
    pub fn try_enter(self: &Arc<Self>, client: Option<ClientNetwork>) -> Option<Permit> {
        self.gate.try_enter(client).map(|counter| self.permit(counter))
    }

    /// Waits until a request of that client may run.
    pub async fn wait(
        self: &Arc<Self>,
        importance: Importance,
        client: Option<ClientNetwork>,
    ) -> Result<Permit, Kind> {
        let (who, told) = oneshot::channel();
        let entrant = Entrant { importance, client };
        let tell = |who, turn| self.tell(who, turn);
        let position = self.gate.wait(entrant, who, (now(), &self.settings), tell);
        let position = position.map_err(|_| Kind::Overloaded)?;
        let _place = Place { concurrency: self, position };
        match tokio::time::timeout(self.settings.queue.longest(), told).await {
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(Kind::Overloaded),
        }
    }

    /// How its requests stand now.
    pub fn status(&self) -> ConcurrencyStatus {
        ConcurrencyStatus {
            limit: self.gate.limit(),
            running: self.gate.running(),
            waiting: self.gate.waiting(),
            is_overloaded: self.gate.is_overloaded(),
            unloaded_latency: self.gate.unloaded(),
        }
    }

    /// Takes in how an attempt has fared.
    pub(crate) fn note(self: &Arc<Self>, sample: Sample) {
        let at = (now(), &self.settings);
        if self.gate.note(sample, at.0, at.1) {
            // There may be room for more.
            self.gate.serve(at, |who, turn| self.tell(who, turn));
        }
    }

    fn tell(self: &Arc<Self>, who: Waiter, turn: Turn) {
        match turn {
            // Where it has left in this moment, the permit goes to the next one as it is dropped.
            Turn::Enter(counter) => drop(who.send(self.permit(counter))),
            Turn::Refused => drop(who),
        }
    }

    fn permit(self: &Arc<Self>, counter: ClientCounter) -> Permit {
        Permit { concurrency: Arc::clone(self), counter }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let Permit { concurrency, counter } = self;
        let tell = |who, turn| concurrency.tell(who, turn);
        concurrency.gate.leave(*counter, (now(), &concurrency.settings), tell);
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.concurrency.gate.forget(self.position);
    }
}

fn now() -> Duration {
    since_start(Instant::now())
}

#[cfg(test)]
mod tests;
