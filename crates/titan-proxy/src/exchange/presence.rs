//! Whether the client of an exchange is still there.

use std::task::{Context, Poll};
use std::time::Duration;
use titan_io::body::{ClientState, RequestBody};
use titan_io::clock::{Clock, CoarseInstant};
use titan_io::error::{Error, Kind};

/// How long a response may still take when the client has closed its sending side: long enough for
/// clients that do so on purpose, short enough not to work for those that have left.
const HALF_CLOSED: Duration = Duration::from_secs(1);

/// Whether the client is still there, as far as it was checked.
#[derive(Clone, Copy)]
pub(super) enum Presence {
    /// Not checked: most responses arrive before that is worth it.
    Assumed { until: CoarseInstant },
    /// It is watched.
    Watched,
    /// Its next request has arrived. Behind that a closed connection does not show, only a broken one.
    Certain { until: CoarseInstant },
    /// It has closed its sending side, and is disconnected after a while.
    Leaving { until: CoarseInstant },
}

impl Presence {
    /// Not checked yet.
    pub(super) fn unknown(clock: &Clock) -> Presence {
        Presence::Assumed { until: clock.deadline(Duration::ZERO) }
    }

    /// When to look again although nothing happens.
    pub(super) fn next_look(&self) -> CoarseInstant {
        match *self {
            Presence::Assumed { until }
            | Presence::Certain { until }
            | Presence::Leaving { until } => until,
            Presence::Watched => CoarseInstant::NEVER,
        }
    }

    /// Notices that the client has left. `is_read` says whether the whole request has been read: until then the
    /// request itself shows an end.
    pub(super) fn watch(
        &mut self,
        cx: &mut Context<'_>,
        clock: &Clock,
        body: &mut (impl RequestBody + ?Sized),
        is_read: bool,
    ) -> Result<(), Error> {
        match *self {
            Presence::Watched => self.look(cx, clock, body),
            Presence::Leaving { until } if clock.is_past(until) => Err(Kind::ClientGone.into()),
            Presence::Assumed { until } if clock.is_past(until) && is_read => {
                self.look(cx, clock, body)
            }
            Presence::Assumed { until } | Presence::Certain { until } if clock.is_past(until) => {
                let until = clock.deadline(Duration::ZERO);
                *self = match self {
                    Presence::Certain { .. } => Presence::Certain { until },
                    _ => Presence::Assumed { until },
                };
                if body.is_broken() { Err(Kind::ClientGone.into()) } else { Ok(()) }
            }
            Presence::Assumed { .. } | Presence::Certain { .. } | Presence::Leaving { .. } => {
                Ok(())
            }
        }
    }

    fn look(
        &mut self,
        cx: &mut Context<'_>,
        clock: &Clock,
        body: &mut (impl RequestBody + ?Sized),
    ) -> Result<(), Error> {
        *self = match body.poll_gone(cx) {
            Poll::Ready(ClientState::Broken) => return Err(Kind::ClientGone.into()),
            Poll::Ready(ClientState::HalfClosed) => {
                Presence::Leaving { until: clock.deadline(HALF_CLOSED) }
            }
            Poll::Ready(ClientState::Present) => {
                Presence::Certain { until: clock.deadline(Duration::ZERO) }
            }
            Poll::Pending => Presence::Watched,
        };
        Ok(())
    }
}
