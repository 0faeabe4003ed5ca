//! Hedging: a request that takes long is sent to a second endpoint as well, and the response that begins first is delivered.
//!
//! A hedge is a retry that begins before the first try has failed. So it goes where a retry would go, to an endpoint that was
//! not tried, the same budget pays for it, and if one of both fails, the other is the retry. `docs/decisions/0046` says
//! who counts how.

use super::Exchange;
use super::attempt::{TryTime, note_connection};
use super::pending::Pending;
use super::presence::Presence;
use super::retry::Tries;
use crate::worker::Worker;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use titan_http::Status;
use titan_io::body::{RequestBody, ResponseSink};
use titan_io::clock::{Clock, CoarseInstant};
use titan_io::error::{Error, Kind, Side};
use titan_upstream::attempts::{AdmittedAttempt, RunningAttempt};
use titan_upstream::concurrency::Permit;
use titan_upstream::hedging::Hedging;
use titan_upstream::pool::{AcquireOptions, PooledConnection};
use tokio::time::Sleep;

/// The time that a try takes which may be hedged. Counted at its end.
pub(super) struct HedgeTimer<'t> {
    hedging: &'t Hedging,
    began: Instant,
    /// When it takes long; `None` while that is not known, and once it was decided what to do about it.
    due: Option<Pin<Box<Sleep>>>,
    has_responded: bool,
}

/// A second try for which everything is there: its endpoint, its place at the upstream, and the means to pay for it.
pub(super) struct SecondTry {
    attempt: AdmittedAttempt,
    /// Counts it as running at the upstream, where that is limited.
    permit: Option<Permit>,
}

/// One of two tries that go on at the same time.
pub(super) struct Runner<'r, 'x> {
    attempt: &'r AdmittedAttempt,
    /// Until it has a connection.
    connecting: Option<(ConnectionFuture<'r>, RunningAttempt)>,
    /// What it waits for then.
    pending: &'r mut Option<Pending<'x>>,
    time: TryTime,
    /// How it has come to its end.
    end: Option<End>,
    /// Whether its endpoint's health knows how it has fared.
    is_noted: bool,
}

/// A connection that is waited for.
pub(super) type ConnectionFuture<'r> =
    Pin<&'r mut (dyn Future<Output = Result<PooledConnection, Error>> + 'r)>;

/// What a response says of its endpoint, or why there is none.
type End = Result<Option<(Status, Option<Duration>)>, Error>;

/// The places of both tries.
const FIRST: usize = 0;
const SECOND: usize = 1;

impl<'x, B: RequestBody + ?Sized, S: ResponseSink + ?Sized> Exchange<'x, B, S> {
    /// The time of a try that begins now, if it may be hedged.
    pub(super) fn time_for_hedge<'t>(
        &self,
        tries: &Tries<'t>,
        attempt: &AdmittedAttempt,
    ) -> Option<Box<HedgeTimer<'t>>> {
        let hedging = tries.upstream.hedging.as_ref()?;
        self.may_hedge(hedging, tries, attempt).then(|| {
            let delay = hedging.delay().filter(|_| tries.attempts.has_others());
            let due = delay.map(|delay| Box::pin(tokio::time::sleep(delay)));
            // Boxed: most requests have no use for the room.
            Box::new(HedgeTimer { hedging, began: Instant::now(), due, has_responded: false })
        })
    }

    /// Whether a second try of the request could do no harm, and has not been made yet. A half-open breaker is to learn how the try
    /// fares that it let through.
    fn may_hedge(&self, hedging: &Hedging, tries: &Tries<'_>, attempt: &AdmittedAttempt) -> bool {
        let Tries { how, attempts, .. } = tries;
        !attempts.has_had_two()
            && attempts.count() <= how.retries.attempts.into()
            && hedging.applies_to(self.request.method)
            && self.is_idempotent(how.retries)
            && (self.length.is_empty() || self.body.is_repeatable())
            && !self.expects_continue
            && self.upgrade.is_none()
            && !attempt.is_trial()
    }

    /// A second try, if there may be one now: the first one does not need the body any more, another endpoint is there, the
    /// upstream has room without a wait, and its budget pays.
    pub(super) fn second_try(
        &mut self,
        tries: &mut Tries<'_>,
        pending: Option<&Pending<'x>>,
    ) -> Option<SecondTry> {
        let Tries { how, upstream, cells, attempts, .. } = tries;
        let is_body_free = self.length.is_empty() || pending.is_some_and(Pending::has_sent_all);
        if !is_body_free || !self.may_repeat(how.retries, false) || self.time_left().is_err() {
            return None;
        }
        let permit = match attempts.concurrency() {
            Some(concurrency) => Some(concurrency.try_enter(attempts.client())?),
            None => None,
        };
        let pay = || {
            let is_paid = upstream.withdraw_retry();
            cells.hedges_refused.add(u64::from(!is_paid));
            is_paid
        };
        let attempt = attempts.next_beside(self.worker.io.random(), self.record.started, pay)?;
        self.start_body_over();
        cells.hedges.add(1);
        Some(SecondTry { attempt, permit })
    }

    /// Makes the second try while the first one goes on, until one of them has the response that the client is to have, or both have
    /// failed. What has come of it is where that of the first one belongs; if it is that of the second one, that attempt is in `tries`.
    pub(super) async fn race(
        &mut self,
        tries: &mut Tries<'_>,
        mut first: Runner<'_, 'x>,
        second: SecondTry,
    ) -> Result<(), Error> {
        let SecondTry { attempt, permit: _permit } = second;
        let mut pending = None;
        let (place, end) = self.run_both(tries, &mut first, (&attempt, &mut pending)).await?;
        if place == SECOND {
            tries.cells.hedges_won.add(u64::from(end.is_ok()));
            *first.pending = pending;
            tries.second = Some(Box::new(attempt));
        }
        self.record.responded = end?;
        Ok(())
    }

    /// Runs both until it is clear which one decides what follows; its place, and what has come of it.
    async fn run_both(
        &mut self,
        tries: &mut Tries<'_>,
        first: &mut Runner<'_, 'x>,
        (attempt, pending): (&AdmittedAttempt, &mut Option<Pending<'x>>),
    ) -> Result<(usize, End), Error> {
        let worker: &'x Rc<Worker> = self.worker;
        let options = self.acquire_options(*tries.how, attempt, false);
        // It is not sent again over another connection, so a dead one is of no use.
        let options = AcquireOptions { surely_alive: true, ..options };
        let connecting = pin!(worker.pools.get(attempt.endpoint(), options));
        let connecting = (connecting as ConnectionFuture<'_>, attempt.begin());
        tries.cells.attempts.add(1);
        self.record.tell_second_attempt(tries.upstream.config(), attempt);
        let second = Runner::new(attempt, Some(connecting), pending, self.time_of_try(*tries.how));
        let mut runners = [first.reborrow(), second];
        let (place, end) = self.first_wanted(tries, &mut runners).await?;
        runners.iter_mut().for_each(|runner| self.note_sent(runner));
        if place == SECOND && end.is_ok() && runners[FIRST].end.is_none() {
            runners[FIRST].attempt.note_outrun();
        }
        self.record.tell_decisive(runners[place].attempt);
        self.note_loser(tries, &mut runners[FIRST + SECOND - place]);
        Ok((place, end))
    }

    /// Waits until one has the response that the client is to have, or both have come to their end.
    async fn first_wanted(
        &mut self,
        tries: &mut Tries<'_>,
        runners: &mut [Runner<'_, 'x>; 2],
    ) -> Result<(usize, End), Error> {
        let mut presence = Presence::unknown(self.timer.clock());
        poll_fn(|cx| {
            for place in [FIRST, SECOND] {
                let other = runners[FIRST + SECOND - place].end;
                let runner = &mut runners[place];
                let Poll::Ready(end) = runner.poll(cx, tries, self) else { continue };
                runner.end = Some(end);
                match (end, other) {
                    (Err(error), _) if error.side == Side::Downstream => {
                        return Poll::Ready(Err(error));
                    }
                    (Ok(_), None) if !self.is_wanted(tries, place, runner) => {}
                    (Err(_), None) => self.note_loser(tries, runner),
                    (Err(_), Some(Ok(responded))) => {
                        return Poll::Ready(Ok((FIRST + SECOND - place, Ok(responded))));
                    }
                    (Ok(_), _) | (Err(_), Some(Err(_))) => return Poll::Ready(Ok((place, end))),
                }
            }
            let (clock, is_read) = (self.timer.clock(), self.body.is_done());
            presence.watch(cx, clock, self.body, is_read)?;
            if self.body.poll_lost(cx).is_ready() {
                return Poll::Ready(Err(Kind::ClientGone.into()));
            }
            let deadlines = runners.iter().map(Runner::deadline);
            self.timer.wake_at(cx, deadlines.fold(presence.next_look(), CoarseInstant::min));
            Poll::Pending
        })
        .await
    }

    /// Whether the client is to have the response of that one, although the other may still respond. What is to be retried it is not
    /// to have, because the other one is the retry. A server error of the second one must not come before what the first one may still
    /// respond: without a hedge it would not have happened.
    fn is_wanted(&self, tries: &Tries<'_>, place: usize, runner: &Runner<'_, 'x>) -> bool {
        let is_error = || self.record.responded.is_none_or(|(status, _)| is_server_error(status));
        !self.is_to_be_retried(tries, runner.pending.as_ref()) && (place == FIRST || !is_error())
    }

    /// Notes how the one has fared whose end is not what comes of the request, and gives up what it holds if it has failed. One that was
    /// not waited for has done nothing wrong.
    fn note_loser(&mut self, tries: &mut Tries<'_>, loser: &mut Runner<'_, 'x>) {
        if std::mem::replace(&mut loser.is_noted, true) {
            return;
        }
        self.note_sent(loser);
        self.record.tell_attempt_over(loser.attempt, loser.end.and_then(Result::err));
        match loser.end {
            None => loser.pending.iter().for_each(Pending::note_given_up),
            Some(Ok(responded)) => {
                self.record.responded = responded;
                self.note_end(loser.attempt, None);
            }
            Some(Err(error)) => {
                self.note_end(loser.attempt, Some(&error));
                self.note_failed(tries, loser.attempt, error);
                (loser.connecting, *loser.pending) = (None, None);
            }
        }
    }

    fn note_sent(&mut self, runner: &mut Runner<'_, 'x>) {
        let Some(pending) = &mut *runner.pending else { return };
        self.record.is_sent |= pending.is_sent();
        self.record.is_body_used |= pending.has_taken_body();
    }
}

impl HedgeTimer<'_> {
    /// Whether the try takes long. Says so once.
    pub(super) fn is_due(&mut self, cx: &mut Context<'_>) -> bool {
        let is_due = self.due.as_mut().is_some_and(|due| due.as_mut().poll(cx).is_ready());
        if is_due {
            self.due = None;
        }
        is_due
    }

    /// Notes the response that the try has ended with.
    pub(super) fn stop(mut self, responded: Option<(Status, Option<Duration>)>) {
        self.has_responded = responded.is_some_and(|(status, _)| !is_server_error(status));
    }
}

impl Drop for HedgeTimer<'_> {
    fn drop(&mut self) {
        self.hedging.note(self.began.elapsed(), self.has_responded);
    }
}

impl<'r, 'x> Runner<'r, 'x> {
    /// A try that waits for its connection, or else for the head of its response.
    pub(super) fn new(
        attempt: &'r AdmittedAttempt,
        connecting: Option<(ConnectionFuture<'r>, RunningAttempt)>,
        pending: &'r mut Option<Pending<'x>>,
        time: TryTime,
    ) -> Runner<'r, 'x> {
        Runner { attempt, connecting, pending, time, end: None, is_noted: false }
    }

    fn reborrow(&mut self) -> Runner<'_, 'x> {
        let connecting = self.connecting.take();
        let connecting = connecting.map(|(it, running)| (it as ConnectionFuture<'_>, running));
        Runner::new(self.attempt, connecting, self.pending, self.time)
    }

    /// Goes on until the head of a response has come, if it has not come to its end.
    fn poll<B: RequestBody + ?Sized, S: ResponseSink + ?Sized>(
        &mut self,
        cx: &mut Context<'_>,
        tries: &Tries<'_>,
        exchange: &mut Exchange<'x, B, S>,
    ) -> Poll<End> {
        if self.end.is_some() {
            return Poll::Pending;
        }
        let polled = self.step(cx, tries, exchange);
        if polled.is_pending()
            && let Some(error) = self.late(exchange.timer.clock())
        {
            self.pending.iter().for_each(|pending| pending.note_failure(error));
            return Poll::Ready(Err(error));
        }
        polled.map_ok(|()| exchange.record.responded)
    }

    /// What it has failed with, if its time is over.
    fn late(&self, clock: &Clock) -> Option<Error> {
        match &*self.pending {
            Some(pending) => self.time.end(pending, clock),
            None => {
                let is_late = clock.is_past(self.time.to_connect());
                is_late.then(|| self.attempt.why_unconnected().into())
            }
        }
    }

    fn step<B: RequestBody + ?Sized, S: ResponseSink + ?Sized>(
        &mut self,
        cx: &mut Context<'_>,
        tries: &Tries<'_>,
        exchange: &mut Exchange<'x, B, S>,
    ) -> Poll<Result<(), Error>> {
        if let Some((connecting, _)) = &mut self.connecting {
            let connection = ready!(connecting.as_mut().poll(cx))?;
            let (_, running) = self.connecting.take().ok_or(Kind::Internal)?;
            note_connection(&connection, tries.cells);
            exchange.record.tell_raced_connection(self.attempt, &connection);
            exchange.send_request((*tries.how, self.time), running, connection, self.pending)?;
        }
        match self.pending {
            Some(pending) => pending.poll_head(cx, exchange),
            None => Poll::Ready(Err(Kind::Internal.into())),
        }
    }

    /// When to poll it again although nothing happens.
    fn deadline(&self) -> CoarseInstant {
        match self.end {
            None => match &*self.pending {
                Some(pending) => pending.deadline().min(self.time.to_end()),
                None => self.time.to_connect(),
            },
            Some(_) => CoarseInstant::NEVER,
        }
    }
}

/// Whether a response says that the server is at fault: what is fast about it says nothing about other responses.
fn is_server_error(status: Status) -> bool {
    status.code() >= 500
}
