//! The wait for a request's turn at an upstream that is limited.

use super::Exchange;
use super::presence::Presence;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};
use titan_config::Importance;
use titan_io::body::{RequestBody, ResponseSink};
use titan_io::clock::CoarseInstant;
use titan_io::error::{Error, Kind};
use titan_upstream::attempts::Attempts;
use titan_upstream::cells::UpstreamCells;
use titan_upstream::concurrency::{Concurrency, Permit};

/// After that time a client may try again: a burst is over, and others that wait now have had their turns.
const RETRY_AFTER: Duration = Duration::from_secs(1);

impl<B: RequestBody + ?Sized, S: ResponseSink + ?Sized> Exchange<'_, B, S> {
    /// Counts the request as running at its upstream, until the head of its response has come. Where as many run as may, it
    /// waits for its turn. A copy does not: whatever its route is worth, it would take the turn of a request.
    pub(super) async fn enter(
        &mut self,
        index: usize,
        attempts: &mut Attempts,
        cells: &UpstreamCells,
    ) -> Result<(), Error> {
        let Some(concurrency) = attempts.concurrency() else { return Ok(()) };
        let permit = match concurrency.try_enter(attempts.client()) {
            Some(permit) => Ok(permit),
            None if self.record.is_copy => Err(Kind::Overloaded.into()),
            None => {
                let permit = Box::pin(self.await_turn(Arc::clone(concurrency), attempts)).await;
                self.renew(index, attempts);
                permit
            }
        };
        match permit {
            Ok(permit) => self.record.running = Some(permit),
            Err(error) => {
                match error.kind {
                    Kind::Overloaded => {
                        cells.shed.add(1);
                        self.record.retry_after = Some(RETRY_AFTER);
                        self.log_failure(index, None, error);
                    }
                    Kind::CircuitOpen => {
                        cells.rejected.add(1);
                        self.record.retry_after = attempts.retry_after();
                    }
                    _ => {}
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Chooses among the members that the upstream at that place has now.
    pub(super) fn renew(&self, index: usize, attempts: &mut Attempts) {
        let upstream = &self.snapshot.upstreams[index];
        attempts.renew(self.worker.members.get(index, upstream, Instant::now()));
    }

    /// Refuses a request that matters least while the gateway itself is near its limits.
    pub(super) fn shed(&mut self, route: usize) -> Result<(), Error> {
        if !self.worker.sheds() || self.snapshot.importance(Some(route)) != Importance::Sheddable {
            return Ok(());
        }
        self.worker.cells().pressure_shed.add(1);
        self.record.retry_after = Some(RETRY_AFTER);
        Err(Kind::Overloaded.into())
    }

    /// Waits for the turn of the request, unless its client cancels it meanwhile, or a breaker would reject it when it comes.
    async fn await_turn(
        &mut self,
        concurrency: Arc<Concurrency>,
        attempts: &mut Attempts,
    ) -> Result<Permit, Error> {
        attempts.check_breakers()?;
        let began = Instant::now();
        let importance = self.snapshot.importance(self.record.route);
        let Exchange { timer, body, .. } = self;
        let mut turn = pin!(concurrency.wait(importance, attempts.client()));
        let mut presence = Presence::unknown(timer.clock());
        let permit = poll_fn(|cx| {
            let turn = turn.as_mut().poll(cx);
            if let Poll::Ready(Ok(permit)) = turn {
                return Poll::Ready(Ok(permit));
            }
            // One may have opened meanwhile. Then that is why the request is refused, also where its time in the queue is over.
            attempts.check_breakers()?;
            if let Poll::Ready(Err(kind)) = turn {
                return Poll::Ready(Err(kind.into()));
            }
            let is_read = body.is_done();
            presence.watch(cx, timer.clock(), *body, is_read)?;
            if body.poll_lost(cx).is_ready() {
                return Poll::Ready(Err(Kind::ClientGone.into()));
            }
            let look = match attempts.meets_breakers() {
                true => timer.clock().deadline(Duration::ZERO),
                false => CoarseInstant::NEVER,
            };
            timer.wake_at(cx, presence.next_look().min(look));
            Poll::Pending
        })
        .await;
        self.record.tell_turn(began.elapsed());
        permit
    }
}
