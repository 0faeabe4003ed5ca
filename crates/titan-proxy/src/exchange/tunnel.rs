//! A connection that goes on in another protocol: bytes both ways until both sides have ended.

use super::Exchange;
use super::pending::PendingResponse;
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;
use titan_io::body::{BodySink, BodySource, RequestBody, ResponseSink};
use titan_io::clock::{Clock, CoarseInstant};
use titan_io::error::Error;
use titan_io::relay::{Pump, StallLimits, Stop};
use titan_upstream::call::Channel;

/// How long the rest may pause once one side has ended.
const HALF_CLOSED: Duration = Duration::from_secs(60);

/// Both directions of a tunnel.
struct Tunnel {
    up: Pump,
    down: Pump,
    /// How long nothing may move.
    timeout: Duration,
    /// Bytes that have moved when last looked at, in both directions.
    moved: u64,
    deadline: CoarseInstant,
}

impl<B: RequestBody + ?Sized, S: ResponseSink + ?Sized> Exchange<'_, B, S> {
    /// Moves bytes both ways until both sides have ended, or nothing has moved for that long.
    pub(super) async fn tunnel<C: Channel>(
        &mut self,
        timeout: Duration,
        pending: &mut PendingResponse<'_, C>,
    ) -> Result<(), Error> {
        let (_, mut request, mut incoming) = pending.call.split(&mut pending.memory);
        incoming.open_tunnel();
        request.open_tunnel();
        self.body.open_tunnel();
        let Exchange { timer, body, sink, .. } = self;
        let clock = timer.clock();
        let mut tunnel = Tunnel {
            // It is the tunnel as a whole that is idle or not.
            up: Pump::new(StallLimits::UNLIMITED),
            down: Pump::new(StallLimits::UNLIMITED),
            timeout,
            moved: 0,
            deadline: clock.deadline(timeout),
        };
        poll_fn(|cx| {
            let Tunnel { up, down, .. } = &mut tunnel;
            let sent = up.poll(cx, clock, *body, &mut request);
            let came = down.poll(cx, clock, &mut incoming, *sink);
            ready_error(sent)?;
            ready_error(came)?;
            let end = tunnel.poll_end(clock);
            timer.wake_at(cx, tunnel.deadline);
            end.map(Ok)
        })
        .await
    }
}

impl Tunnel {
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
