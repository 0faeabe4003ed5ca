//! What all connections of one worker use for input and output.

use crate::buffer::Buffers;
use crate::clock::{Clock, CoarseInstant};
use crate::random::Random;
use crate::splice::Pipes;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// Time, memory and chance for the connections of one thread, and whether it is to end.
pub struct Io {
    /// Time and timers.
    pub clock: Rc<Clock>,
    /// Receive buffers.
    pub buffers: Rc<Buffers>,
    /// Pipes for large bodies.
    pub pipes: Rc<Pipes>,
    random: Random,
    is_draining: Cell<bool>,
    /// When connections without a request are closed, once the worker drains.
    idle_until: Cell<CoarseInstant>,
}

/// How long a drain waits for a last request on a connection that has none: clients that keep connections may have sent it
/// already, and a client that has just connected is about to.
const LAST_REQUEST: Duration = Duration::from_secs(1);

/// What the main thread requires of the workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Accept and serve.
    Serve,
    /// Accept and serve, but say that clients had better go elsewhere: a drain is about to begin.
    Leave,
    /// Accept nothing more, finish what runs.
    Drain,
}

impl Io {
    /// For a worker that serves.
    pub fn new() -> Rc<Io> {
        Rc::new(Io {
            clock: Clock::new(),
            buffers: Rc::default(),
            pipes: Rc::default(),
            random: Random::default(),
            is_draining: Cell::new(false),
            idle_until: Cell::new(CoarseInstant::NEVER),
        })
    }

    /// Ends connections as soon as possible, those without a request after a moment.
    pub fn drain(&self) {
        self.is_draining.set(true);
        self.idle_until.set(self.grace());
        self.clock.wake_all();
    }

    /// Until when a drain waits for what a client sends first, if it can send that from now on.
    pub fn grace(&self) -> CoarseInstant {
        self.clock.deadline(LAST_REQUEST)
    }

    /// Whether connections are to end as soon as they can.
    pub fn is_draining(&self) -> bool {
        self.is_draining.get()
    }

    /// When a connection without a request is closed for the drain, which leaves it that `grace` at least; never before the drain.
    pub fn idle_until(&self, grace: CoarseInstant) -> CoarseInstant {
        self.idle_until.get().max(grace)
    }

    /// A random number. Suitable for choosing endpoints, not for secrets.
    pub fn random(&self) -> u64 {
        self.random.next()
    }

    /// Enough randomness to name a request by.
    pub fn random_id(&self) -> u128 {
        u128::from(self.random()) << 64 | u128::from(self.random())
    }
}
