//! Whether another attempt follows one that has failed, and when.

use super::attempt::SendOptions;
use super::pending::Pending;
use super::presence::Presence;
use super::{Exchange, Record};
use crate::grpc;
use crate::route::Match;
use crate::snapshot::Proxy;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::{Duration, SystemTime};
use titan_config::{Backoff, Retries, RetryConditions};
use titan_http::{FieldName, Fields, ResponseHead};
use titan_io::body::{RequestBody, ResponseSink};
use titan_io::clock::CoarseInstant;
use titan_io::error::{Error, Kind, Side};
use titan_upstream::attempts::{AdmittedAttempt, Attempts};
use titan_upstream::cells::{RetryReason, UpstreamCells};
use titan_upstream::members::Upstream;

/// The upstream that a request of a route is sent to at the moment.
pub(super) struct TriedUpstream<'r> {
    pub(super) proxy: &'r Proxy,
    pub(super) found: &'r Match,
    /// Its place.
    pub(super) index: usize,
    pub(super) attempts: Attempts,
}

/// The attempts of a request at one upstream, and what they have come to.
pub(super) struct Tries<'t> {
    pub(super) how: &'t SendOptions<'t>,
    /// The place of the upstream in the configuration.
    pub(super) index: usize,
    pub(super) upstream: &'t Upstream,
    pub(super) cells: &'t UpstreamCells,
    pub(super) attempts: &'t mut Attempts,
    /// That of a second try beside another one, if what has come of both is its doing.
    pub(super) second: Option<Box<AdmittedAttempt>>,
    /// What the client is told if no attempt does better.
    pub(super) failed: Option<Error>,
}

/// What is wrong with an attempt that is worth another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Failure {
    reason: RetryReason,
    /// Whether the request has had no effect, or the route says that another one does no harm.
    is_harmless: bool,
    /// How long the endpoint asks to be left alone.
    retry_after: Duration,
}

impl<'x, B: RequestBody + ?Sized, S: ResponseSink + ?Sized> Exchange<'x, B, S> {
    /// The pause before the attempt that takes the place of one which has failed.
    pub(super) fn retry_failed(&mut self, tries: &mut Tries<'_>, error: Error) -> Option<Duration> {
        let failure = Failure::of_error(error, tries.how.retries.on)?;
        let pause = self.may_retry(tries, failure)?;
        self.begin_retry(tries, failure.reason).then_some(pause)
    }

    /// The pause before the attempt that takes the place of a response which the client is not to have.
    pub(super) fn retry_response(
        &mut self,
        tries: &mut Tries<'_>,
        attempt: &AdmittedAttempt,
        pending: Option<&Pending<'x>>,
    ) -> Option<Duration> {
        let failure = self.failure_of(tries, pending)?;
        let pause = self.may_retry(tries, failure)?;
        // A breaker may open by it. Then there is no other attempt, and the client gets this response.
        self.note_end(attempt, None);
        self.begin_retry(tries, failure.reason).then_some(pause)
    }

    /// Whether the client is not to have a response, as far as its route goes.
    pub(super) fn is_to_be_retried(
        &self,
        tries: &Tries<'_>,
        pending: Option<&Pending<'x>>,
    ) -> bool {
        self.failure_of(tries, pending).is_some()
    }

    fn failure_of(&self, tries: &Tries<'_>, pending: Option<&Pending<'x>>) -> Option<Failure> {
        let retries = tries.how.retries;
        if !retries.look_at_responses() {
            return None;
        }
        let is_call = self.record.dialect.is_some();
        Failure::of_response(pending?.response(), retries, is_call)
    }

    /// The pause before another attempt, if the request may have one.
    fn may_retry(&mut self, tries: &Tries<'_>, failure: Failure) -> Option<Duration> {
        let Tries { how, upstream, attempts, .. } = tries;
        if attempts.count() > 1 {
            upstream.retry_budget.forfeit();
        }
        let is_last = attempts.count() > how.retries.attempts.into();
        if is_last || !self.may_repeat(how.retries, failure.is_harmless) {
            return None;
        }
        let random = self.worker.io.random();
        let pause = failure.pause(how.retries, attempts, random)?;
        let has_time = self.time_left().ok()?.is_none_or(|left| left > pause);
        has_time.then_some(pause)
    }

    /// Whether another attempt begins: a breaker that is not open lets it, the budget has paid for it, and the body starts over.
    fn begin_retry(&mut self, tries: &mut Tries<'_>, reason: RetryReason) -> bool {
        let Tries { upstream, cells, attempts, .. } = tries;
        if attempts.check_breakers().is_err() {
            cells.rejected.add(1);
            return false;
        }
        if !upstream.withdraw_retry() {
            cells.retries_refused.add(1);
            self.log_refused_retry(upstream, reason);
            return false;
        }
        cells.note_retry(reason);
        self.start_body_over()
    }

    /// Whether the request may be sent once more. Not once the response is on its way; not when the request may have had
    /// its effect, unless that does no harm; and not when the request body is gone. One that is held begins anew.
    pub(super) fn may_repeat(&self, retries: &Retries, is_harmless: bool) -> bool {
        let Record { is_sent, is_body_used, .. } = self.record;
        !self.sink.is_started()
            && (!is_body_used || self.body.is_repeatable())
            && (is_harmless || !is_sent || self.is_idempotent(retries))
    }

    /// Has the body sent from its beginning; false when it is gone.
    pub(super) fn start_body_over(&mut self) -> bool {
        let is_there = !std::mem::take(&mut self.record.is_body_used) || self.body.rewind();
        debug_assert!(is_there, "`may_repeat` was asked");
        is_there
    }

    /// Whether sending the request twice does no harm: its method says so, its route, or its key.
    pub(super) fn is_idempotent(&self, retries: &Retries) -> bool {
        let Retries { methods, idempotency_key, .. } = retries;
        let method = self.request.method;
        let by_method = || match methods {
            Some(methods) => methods.contains(&method),
            None => method.is_idempotent(),
        };
        let has_key = || {
            let name = idempotency_key.as_ref().map(|name| name.as_str().as_bytes());
            let key = name.and_then(|name| self.request.fields.named(name).next());
            key.is_some_and(|key| !key.is_empty())
        };
        by_method() || has_key()
    }

    /// Waits before the next attempt. Meanwhile the request does not run, and takes no place from another one: it waits for its
    /// turn again.
    pub(super) async fn pause(
        &mut self,
        tries: &mut Tries<'_>,
        pause: Duration,
    ) -> Result<(), Error> {
        if pause.is_zero() {
            return Ok(());
        }
        self.record.running = None;
        // Boxed: most requests have no use for the room.
        let wait = Box::pin(async { tokio::time::sleep(pause).await });
        self.while_present(wait, CoarseInstant::NEVER).await?;
        self.renew(tries.index, tries.attempts);
        let entered = self.enter(tries.index, tries.attempts, tries.cells).await;
        entered.map_err(|error| match (error.kind, tries.failed) {
            (Kind::Overloaded | Kind::CircuitOpen, Some(failed)) => {
                self.record.retry_after = None;
                failed
            }
            _ => error,
        })
    }

    /// Waits for `what`, unless the client cancels the request meanwhile; `None` if that takes too long.
    pub(super) async fn while_present<T>(
        &mut self,
        mut what: impl Future<Output = T> + Unpin,
        until: CoarseInstant,
    ) -> Result<Option<T>, Error> {
        let Exchange { timer, body, .. } = self;
        let mut presence = None;
        poll_fn(|cx| {
            let clock = timer.clock();
            if let Poll::Ready(done) = Pin::new(&mut what).poll(cx) {
                return Poll::Ready(Ok(Some(done)));
            }
            if clock.is_past(until) {
                return Poll::Ready(Ok(None));
            }
            let presence = presence.get_or_insert_with(|| Presence::unknown(clock));
            let is_read = body.is_done();
            presence.watch(cx, clock, *body, is_read)?;
            if body.poll_lost(cx).is_ready() {
                return Poll::Ready(Err(Kind::ClientGone.into()));
            }
            timer.wake_at(cx, presence.next_look().min(until));
            Poll::Pending
        })
        .await
    }
}

impl Failure {
    /// What an attempt without a response has failed with, if that is to be retried.
    fn of_error(error: Error, on: RetryConditions) -> Option<Failure> {
        let (reason, is_wanted) = match error.kind {
            Kind::Unprocessed => (RetryReason::RefusedStream, on.refused_stream),
            Kind::Closed | Kind::Reset => (RetryReason::Reset, on.reset_before_response),
            // Whatever that was, it was no response. One that breaks the rules of HTTP is one, and would come again.
            Kind::Malformed(titan_h1::Error::Version) if error.side == Side::Upstream => {
                (RetryReason::Reset, on.reset_before_response)
            }
            Kind::ResponseTimeout => (RetryReason::Timeout, on.timeout),
            _ => (RetryReason::Connect, on.connect && error.nothing_was_done()),
        };
        let is_harmless = error.nothing_was_done();
        is_wanted.then_some(Failure { reason, is_harmless, retry_after: Duration::ZERO })
    }

    /// What is wrong with a response, if that is to be retried.
    fn of_response(response: &ResponseHead, retries: &Retries, is_call: bool) -> Option<Failure> {
        let ResponseHead { status, fields, .. } = response;
        let Retries { statuses, grpc, header, .. } = retries;
        let is_named = |number: u8| grpc.iter().any(|status| status.number() == number);
        let has_field = |name: &[u8]| fields.named(name).next().is_some();
        let reason = if statuses.contains(*status) {
            RetryReason::Status
        } else if is_call && grpc::status(fields).is_some_and(is_named) {
            RetryReason::Grpc
        } else if header.as_ref().is_some_and(|name| has_field(name.as_str().as_bytes())) {
            RetryReason::Header
        } else {
            return None;
        };
        let retry_after = retry_after(fields, SystemTime::now);
        Some(Failure { reason, is_harmless: reason == RetryReason::Grpc, retry_after })
    }

    /// How long to wait before the next attempt; `None` if the endpoint wants to be left alone for longer.
    fn pause(self, retries: &Retries, attempts: &Attempts, random: u64) -> Option<Duration> {
        let Retries { backoff, max_retry_after, .. } = retries;
        if self.retry_after > *max_retry_after {
            return None;
        }
        let is_first = attempts.count() == 1;
        let backoff = match is_first && attempts.has_others() {
            true => Duration::ZERO,
            false => jittered(backoff, attempts.count(), random),
        };
        Some(backoff.max(self.retry_after))
    }
}

/// The pause before retry number `count`: full jitter, so that requests which failed together do not come back together.
fn jittered(backoff: &Backoff, count: usize, random: u64) -> Duration {
    let Backoff { base, max } = *backoff;
    let doublings = u32::try_from(count.saturating_sub(1)).unwrap_or(u32::MAX);
    let most = base.saturating_mul(2u32.saturating_pow(doublings)).min(max);
    let micros = (most.as_micros() * u128::from(random)) >> 64;
    Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
}

/// How long the response asks to wait (RFC 9110 section 10.2.3); for ever, where that is not to be understood. A date is compared
/// with that of the response, which has it from the same clock.
fn retry_after(fields: &Fields, now: impl FnOnce() -> SystemTime) -> Duration {
    let Some(value) = fields.named(b"retry-after").next() else { return Duration::ZERO };
    let text = |value| std::str::from_utf8(value).unwrap_or_default();
    let date = |value| httpdate::parse_http_date(text(value)).ok();
    if let Ok(seconds) = text(value).parse::<u32>() {
        return Duration::from_secs(seconds.into());
    }
    let Some(until) = date(value) else { return Duration::MAX };
    let sent = fields.get(FieldName::Date).and_then(date).unwrap_or_else(now);
    until.duration_since(sent).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use titan_config::{Action, Config};
    use titan_http::Status;

    /// The retries of a route.
    fn retries(settings: &str) -> Retries {
        let text = format!(
            "listeners: [\":80\"]\nroutes: [{{ upstream: u, retries: {{ {settings} }} }}]\nupstreams: {{ u: a:1 }}"
        );
        let config = Config::parse("test.yaml", &text).unwrap();
        match &config.routes[0].action {
            Action::Proxy(proxy) => Retries::clone(&proxy.retries),
            _ => unreachable!("it has an upstream"),
        }
    }

    #[test]
    fn the_short_form_is_that_of_the_defaults() {
        assert_eq!(retries("attempts: 1"), Retries::plain(1));
    }

    #[test]
    fn a_pause_grows_and_is_drawn_from_all_that_are_shorter() {
        let millis = Duration::from_millis;
        let backoff = Backoff { base: millis(25), max: millis(150) };
        let longest = |count| jittered(&backoff, count, u64::MAX);
        let nearly = |millis: u64| Duration::from_micros(millis * 1_000 - 1);
        assert_eq!([1, 2, 3, 4, 70].map(longest), [25, 50, 100, 150, 150].map(nearly));
        assert_eq!(jittered(&backoff, 3, 0), Duration::ZERO);
        assert_eq!(jittered(&backoff, 3, u64::MAX / 2), Duration::from_micros(49_999));
    }

    #[test]
    fn failures_are_told_apart() {
        let reason = |kind: Kind, on| Failure::of_error(kind.into(), on).map(|it| it.reason);
        let by_default = Retries::plain(1).on;
        let all = RetryConditions { timeout: true, ..by_default };
        for (kind, expected) in [
            (Kind::Connect, Some(RetryReason::Connect)),
            (Kind::ConnectTimeout, Some(RetryReason::Connect)),
            (Kind::Tls, Some(RetryReason::Connect)),
            (Kind::QueueFull, Some(RetryReason::Connect)),
            (Kind::Unprocessed, Some(RetryReason::RefusedStream)),
            (Kind::Closed, Some(RetryReason::Reset)),
            (Kind::Reset, Some(RetryReason::Reset)),
            (Kind::Truncated, None),
            (Kind::ResponseTimeout, Some(RetryReason::Timeout)),
            (Kind::ResponseStalled, None),
            (Kind::ClientGone, None),
            (Kind::Deadline, None),
            (Kind::Internal, None),
        ] {
            assert_eq!(reason(kind, all), expected, "{kind:?}");
            assert_eq!(reason(kind, RetryConditions::default()), None, "{kind:?}");
        }
        assert_eq!(reason(Kind::ResponseTimeout, by_default), None);
        let malformed = Error::bad_response(titan_h1::Error::Version);
        let reason = |error| Failure::of_error(error, all).map(|it| it.reason);
        assert_eq!(reason(malformed), Some(RetryReason::Reset));
        assert_eq!(reason(Error { side: Side::Downstream, ..malformed }), None);
    }

    #[test]
    fn an_endpoint_may_ask_to_be_left_alone() {
        let now = || httpdate::parse_http_date("Fri, 31 Dec 1999 23:59:59 GMT").unwrap();
        let asks = |value: &str, date: &str| {
            let mut fields = Fields::default();
            for (name, value) in [("Retry-After", value), ("Date", date)] {
                fields.append_named(name.as_bytes(), value.as_bytes()).unwrap();
            }
            retry_after(&fields, now)
        };
        let seconds = Duration::from_secs;
        assert_eq!(retry_after(&Fields::default(), now), Duration::ZERO);
        assert_eq!([asks("0", ""), asks("120", "")], [0, 120].map(seconds));
        for never in ["-1", "", "99999999999", "1.5", "Fri, 31 Dec 1999", "tomorrow"] {
            assert_eq!(asks(never, ""), Duration::MAX, "{never}");
        }
        for (until, after) in [
            ("Sat, 01 Jan 2000 00:00:01 GMT", 2),
            ("Saturday, 01-Jan-00 00:01:59 GMT", 120),
            ("Sat Jan  1 00:00:00 2000", 1),
            ("Fri, 31 Dec 1999 23:59:58 GMT", 0),
        ] {
            assert_eq!(asks(until, ""), seconds(after), "{until}");
        }
        // Its clock is ten minutes ahead.
        let ahead = "Sat, 01 Jan 2000 00:09:59 GMT";
        assert_eq!(asks("Sat, 01 Jan 2000 00:10:02 GMT", ahead), seconds(3));
        let mut response = ResponseHead::with_status(Status::SERVICE_UNAVAILABLE);
        assert_eq!(Failure::of_response(&response, &Retries::plain(1), false), None);
        response.fields.append_named(b"Retry-After", b"3").unwrap();
        response.fields.append_named(b"X-Again", b"").unwrap();
        let retries = retries("header: x-again");
        let failure = Failure::of_response(&response, &retries, false).unwrap();
        assert_eq!(failure.retry_after, Duration::from_secs(3));
        assert!(!failure.is_harmless);
    }
}
