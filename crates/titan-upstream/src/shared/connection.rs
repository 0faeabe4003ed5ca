//! A connection that exchanges share: whether it has room for one more, and whether its endpoint still responds.

use crate::endpoint::Endpoint;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use titan_h2::Connection as H2;
use titan_io::clock::{Clock, CoarseInstant};
use titan_io::mux::{ClientProtocol, Mux};
use titan_io::quic::Link;
use titan_io::shares::{ClientCounter, Shares};

/// The streams of a connection, in the protocol that it speaks.
pub enum SharedMux {
    /// HTTP/2.
    H2(Rc<Mux<H2>>),
    /// HTTP/3.
    H3(Rc<Mux<Link>>),
}

/// A connection that exchanges share.
pub struct SharedConnection {
    /// Its streams.
    pub mux: SharedMux,
    pub(super) endpoint: Arc<Endpoint>,
    pub(super) opened: CoarseInstant,
    /// Whether it takes no more exchanges, because something is wrong with it.
    pub(super) is_retired: Cell<bool>,
    /// Whether the endpoint has begun a response on it.
    pub(super) has_responded: Cell<bool>,
    /// When the endpoint last sent something.
    pub(super) heard: Cell<CoarseInstant>,
    liveness: Cell<Liveness>,
}

/// How many streams a connection has in use, and may have.
pub(super) struct StreamCapacity {
    taken: u32,
    most: u32,
}

/// Whether the endpoint still responds, as far as pings have shown.
#[derive(Clone, Copy)]
enum Liveness {
    /// It does; no ping before that time.
    None { until: CoarseInstant },
    /// It was pinged, and must respond by then.
    Asked { until: CoarseInstant },
}

/// An exchange that waits for its endpoint. If it ends before anything has come, for example because its client gives
/// up, the connection may be dead unnoticed: it is pinged then.
pub(super) struct LivenessGuard<'t> {
    pub(super) shared: Rc<SharedConnection>,
    clock: &'t Clock,
    began: CoarseInstant,
}

/// How long the response to a ping may take.
const PONG: Duration = Duration::from_secs(2);
/// How long an endpoint that has responded to a ping gets no other: servers disconnect clients that ping often.
const BELIEF: Duration = Duration::from_secs(60);

impl SharedMux {
    /// Asks the connection, whatever it speaks.
    pub(super) fn with<T>(&self, ask: impl FnOnce(&mut dyn ClientProtocol) -> T) -> T {
        match self {
            SharedMux::H2(mux) => ask(&mut *mux.connection()),
            SharedMux::H3(mux) => ask(&mut *mux.connection()),
        }
    }

    /// How many exchanges are on streams.
    pub(super) fn handles(&self) -> usize {
        match self {
            SharedMux::H2(mux) => mux.handles(),
            SharedMux::H3(mux) => mux.handles(),
        }
    }

    /// Wakes the driver, which then checks the connection.
    pub(super) fn wake_driver(&self) {
        match self {
            SharedMux::H2(mux) => mux.wake_driver(),
            SharedMux::H3(mux) => mux.wake_driver(),
        }
    }
}

impl SharedConnection {
    pub(super) fn new(
        mux: SharedMux,
        endpoint: Arc<Endpoint>,
        now: CoarseInstant,
    ) -> Rc<SharedConnection> {
        Rc::new(SharedConnection {
            mux,
            endpoint,
            opened: now,
            is_retired: Cell::new(false),
            has_responded: Cell::new(false),
            heard: Cell::new(now),
            liveness: Cell::new(Liveness::None { until: now }),
        })
    }

    /// What it has left for one more exchange.
    pub(super) fn room(&self) -> Option<StreamCapacity> {
        if self.is_retired.get() {
            return None;
        }
        self.mux.with(|connection| {
            let taken = u32::try_from(connection.open_streams()).unwrap_or(u32::MAX);
            let most = connection.most_streams();
            connection.can_open().then_some(StreamCapacity { taken, most })
        })
    }

    /// An exchange begins on it.
    pub(super) fn liveness<'t>(self: &Rc<Self>, clock: &'t Clock) -> LivenessGuard<'t> {
        LivenessGuard { shared: Rc::clone(self), clock, began: clock.now() }
    }

    /// Pings the endpoint, unless it was pinged not long ago.
    fn ask(&self, clock: &Clock) {
        if matches!(self.liveness.get(), Liveness::None { until } if clock.is_past(until)) {
            self.mux.with(|connection| connection.ping());
            self.liveness.set(Liveness::Asked { until: clock.deadline(PONG) });
            self.mux.wake_driver();
        }
    }

    /// The endpoint has responded to a ping.
    pub(super) fn note_alive(&self, clock: &Clock) {
        self.liveness.set(Liveness::None { until: clock.deadline(BELIEF) });
    }

    /// Something has come from the endpoint, which is as good as the response to a ping where there was one.
    pub(super) fn note_heard(&self, clock: &Clock) {
        self.heard.set(clock.now());
        if matches!(self.liveness.get(), Liveness::Asked { .. }) {
            self.note_alive(clock);
        }
    }

    /// Takes it out of use when the endpoint has not responded in time; until when it may.
    pub(super) fn judge(&self, clock: &Clock) -> CoarseInstant {
        match self.liveness.get() {
            Liveness::Asked { until } if !self.is_retired.get() => {
                if clock.is_past(until) {
                    self.retire();
                }
                until
            }
            Liveness::Asked { .. } | Liveness::None { .. } => CoarseInstant::NEVER,
        }
    }

    /// Whether it has worked: the endpoint has begun a response on it.
    pub fn has_responded(&self) -> bool {
        self.has_responded.get()
    }

    /// Whether the endpoint takes no more exchanges on it, and has said so.
    pub fn is_left(&self) -> bool {
        self.mux.with(|connection| connection.is_leaving())
    }

    /// Stops it from taking new exchanges.
    pub fn retire(&self) {
        self.is_retired.set(true);
        self.mux.wake_driver();
    }
}

impl StreamCapacity {
    /// Whether a client that has that many streams may have one more, where that counts.
    pub(super) fn is_for(&self, share: Option<(&Rc<Shares>, ClientCounter)>) -> bool {
        share.is_none_or(|(used, counter)| used.admits_to(counter, self.taken, self.most))
    }
}

impl Drop for LivenessGuard<'_> {
    fn drop(&mut self) {
        if self.shared.heard.get() < self.began {
            self.shared.ask(self.clock);
        }
    }
}
