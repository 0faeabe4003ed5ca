//! One endpoint's turn: the request is sent to it, and the head of its response is waited for.

use super::Exchange;
use super::attempt::{TryTime, note_connection};
use super::hedge::{ConnectionFuture, HedgeTimer, Runner};
use super::pending::Pending;
use super::retry::Tries;
use crate::worker::Worker;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use titan_io::body::{RequestBody, ResponseSink};
use titan_io::clock::CoarseInstant;
use titan_io::error::{Error, Kind};
use titan_upstream::attempts::AdmittedAttempt;
use titan_upstream::pool::PooledConnection;

/// A connection, or none yet where that takes long.
type Acquired = Result<Option<PooledConnection>, Error>;

/// How many connections in a row an endpoint may leave before it has served a request.
const MOST_DEPARTURES: u32 = 4;

impl<'x, B: RequestBody + ?Sized, S: ResponseSink + ?Sized> Exchange<'x, B, S> {
    /// Sends the request to one endpoint and waits for the head of its response, which `pending` has then. A kept
    /// connection that has died costs nothing: the request goes out again over a new one. If that takes long, another endpoint may
    /// respond first: then its attempt is in `tries`.
    pub(super) async fn start(
        &mut self,
        tries: &mut Tries<'_>,
        attempt: &AdmittedAttempt,
        pending: &mut Option<Pending<'x>>,
    ) -> Result<(), Error> {
        let (mut new, mut departures) = (false, 0);
        let time = self.time_of_try(*tries.how);
        let mut hedge = self.time_for_hedge(tries, attempt);
        loop {
            self.record.is_sent = false;
            tries.cells.attempts.add(1);
            self.record.tell_attempt(tries.upstream.config(), attempt);
            // A request that waits for a connection counts already.
            let running = attempt.begin();
            let connection = {
                let worker: &'x Rc<Worker> = self.worker;
                let options = self.acquire_options(*tries.how, attempt, new);
                let mut connecting = pin!(worker.pools.get(attempt.endpoint(), options));
                loop {
                    let until = time.to_connect();
                    let acquired = self.acquire(connecting.as_mut(), until, &mut hedge).await?;
                    let acquired = acquired.ok_or_else(|| attempt.why_unconnected())?;
                    let acquired =
                        acquired.inspect_err(|error| self.record.tell_unconnected(*error));
                    if let Some(connection) = acquired? {
                        break connection;
                    }
                    if let Some(second) = self.second_try(tries, None) {
                        let connecting = Some((connecting as ConnectionFuture<'_>, running));
                        let first = Runner::new(attempt, connecting, pending, time);
                        return Box::pin(self.race(tries, first, second)).await;
                    }
                }
            };
            let (was_waited_for, shared, is_reused) = match &connection {
                PooledConnection::Exclusive(it) => (it.was_waited_for, None, it.is_reused),
                PooledConnection::Shared { seat, was_waited_for, .. } => {
                    (*was_waited_for, Some(Rc::clone(&seat.shared)), false)
                }
            };
            if was_waited_for && self.body.is_broken() {
                self.give_back(connection);
                return Err(Kind::ClientGone.into());
            }
            note_connection(&connection, tries.cells);
            self.record.tell_connection(&connection);
            let sent = self.send_request((*tries.how, time), running, connection, pending);
            let mut awaited = match sent {
                Ok(sent) => self.await_head(sent, &time, &mut hedge).await,
                Err(error) => Err(error),
            };
            while let (Ok(false), Some(sent)) = (&awaited, &mut *pending) {
                if let Some(second) = self.second_try(tries, Some(sent)) {
                    let first = Runner::new(attempt, None, pending, time);
                    return Box::pin(self.race(tries, first, second)).await;
                }
                awaited = self.await_head(sent, &time, &mut hedge).await;
            }
            let Err(error) = awaited else {
                hedge.into_iter().for_each(|timer| timer.stop(self.record.responded));
                return Ok(());
            };
            *pending = None;
            // Only a connection that has worked before may end without a reason. What an endpoint refuses costs it work.
            let is_free = match shared {
                Some(shared) if shared.is_left() => {
                    departures += 1;
                    shared.has_responded() && departures < MOST_DEPARTURES
                }
                Some(shared) => !new && shared.has_responded() && error.kind == Kind::Closed,
                None => is_reused,
            };
            let is_free = is_free && error.is_worth_a_retry();
            if !is_free || !self.may_repeat(tries.how.retries, error.nothing_was_done()) {
                return Err(error);
            }
            self.record.tell_attempt_over(attempt, Some(error));
            self.start_body_over();
            new = true;
        }
    }

    /// Waits for a connection, unless the client cancels the request meanwhile, but not for longer than the attempt may take. `Some(None)`
    /// once that takes long.
    fn acquire<'a>(
        &'a mut self,
        mut connecting: Pin<&'a mut impl Future<Output = Result<PooledConnection, Error>>>,
        until: CoarseInstant,
        hedge: &'a mut Option<Box<HedgeTimer<'_>>>,
    ) -> impl Future<Output = Result<Option<Acquired>, Error>> {
        let acquired = poll_fn(move |cx| match connecting.as_mut().poll(cx) {
            Poll::Pending if is_due(hedge, cx) => Poll::Ready(Ok(None)),
            acquired => acquired.map_ok(Some),
        });
        self.while_present(acquired, until)
    }

    /// Gives back a connection over which nothing was sent.
    fn give_back(&self, connection: PooledConnection) {
        if let PooledConnection::Exclusive(connection) = connection {
            self.worker.pools.keep(connection, &self.worker.io.clock);
        }
    }

    /// Waits for the head of the final response, but not for longer than this attempt may take. False once that takes long.
    async fn await_head(
        &mut self,
        pending: &mut Pending<'x>,
        time: &TryTime,
        hedge: &mut Option<Box<HedgeTimer<'_>>>,
    ) -> Result<bool, Error> {
        let received = poll_fn(|cx| {
            let polled = pending.poll_head(cx, self);
            if polled.is_pending() {
                if is_due(hedge, cx) {
                    return Poll::Ready(Ok(false));
                }
                if let Some(error) = time.end(pending, self.timer.clock()) {
                    pending.note_failure(error);
                    return Poll::Ready(Err(error));
                }
                self.timer.wake_at(cx, pending.deadline().min(time.to_end()));
            }
            polled.map_ok(|()| true)
        })
        .await;
        self.record.is_sent = pending.is_sent();
        self.record.is_body_used |= pending.has_taken_body();
        received
    }
}

/// Whether an attempt takes long that may be hedged.
fn is_due(hedge: &mut Option<Box<HedgeTimer<'_>>>, cx: &mut Context<'_>) -> bool {
    hedge.as_mut().is_some_and(|timer| timer.is_due(cx))
}
