//! Moving bytes both ways, until both sides have ended.

use super::{Pump, StallLimits, Stop};
use crate::body::{BodySink, BodySource};
use crate::clock::{Clock, CoarseInstant, Timer};
use crate::error::Error;
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

/// Both directions between a client and an endpoint. Each ends by itself, and its end is passed on.
pub struct TwoWay {
    up: Pump,
    down: Pump,
    /// How long nothing may move.
    timeout: Duration,
    /// Bytes that have moved when last looked at, in both directions.
    moved: u64,
    deadline: CoarseInstant,
}

/// How long the rest may pause once one side has ended.
const HALF_CLOSED: Duration = Duration::from_secs(60);

impl TwoWay {
    /// Nothing has moved yet, and nothing may for `timeout`.
    pub fn new(clock: &Clock, timeout: Duration) -> TwoWay {
        // It is the whole that is idle or not.
        let pump = || Pump::new(StallLimits::UNLIMITED);
        let deadline = clock.deadline(timeout);
        TwoWay { up: pump(), down: pump(), timeout, moved: 0, deadline }
    }

    /// Bytes that have come from the client, and from the endpoint.
    pub fn taken(&self) -> (u64, u64) {
        (self.up.taken(), self.down.taken())
    }

    /// Whether the client has ended, and whether the endpoint has. One that is idle is over before both have.
    pub fn ended(&self) -> (bool, bool) {
        (self.up.is_done(), self.down.is_done())
    }

    /// Moves bytes from the client's source to the endpoint's sink and the other way, until both sides have ended, or nothing has
    /// moved for too long. `note` is told now and then how far it is, and says when it wants to be told at the latest.
    pub async fn run(
        &mut self,
        timer: &Timer,
        (source, request): (&mut impl BodySource, &mut impl BodySink),
        (response, sink): (&mut impl BodySource, &mut (impl BodySink + ?Sized)),
        mut note: impl FnMut(&TwoWay) -> CoarseInstant,
    ) -> Result<(), Error> {
        let clock = timer.clock();
        poll_fn(|cx| {
            let sent = self.up.poll(cx, clock, source, request);
            let came = self.down.poll(cx, clock, response, sink);
            let again = note(self);
            ready_error(sent)?;
            ready_error(came)?;
            let end = self.poll_end(clock);
            timer.wake_at(cx, self.deadline.min(again));
            end.map(Ok)
        })
        .await
    }

    /// Ready when both sides have ended, or nothing has moved for too long.
    fn poll_end(&mut self, clock: &Clock) -> Poll<()> {
        let ends = u64::from(self.up.is_done()) + u64::from(self.down.is_done());
        if ends == 2 {
            return Poll::Ready(());
        }
        let moved = self.up.taken() + self.down.taken() + ends;
        if moved != self.moved {
            self.moved = moved;
            let timeout = if ends == 0 { self.timeout } else { self.timeout.min(HALF_CLOSED) };
            self.deadline = clock.deadline(timeout);
        }
        if clock.is_past(self.deadline) { Poll::Ready(()) } else { Poll::Pending }
    }
}

fn ready_error(moved: Poll<Result<(), Stop>>) -> Result<(), Error> {
    match moved {
        Poll::Ready(Err(stop)) => Err(stop.of_response()),
        Poll::Ready(Ok(())) | Poll::Pending => Ok(()),
    }
}
