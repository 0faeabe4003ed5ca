//! The connection of one worker to a store: when it is used, given up, and tried again.
//!
//! ```text
//!             connected                    a call fails, or too many in a row get no reply
//! Starting ---------------> Up ----------------------------------------------> Down
//!     |                     ^                                                   |
//!     | an attempt fails    | an attempt succeeds, one at a time, ever later    |
//!     +---------> Down <----+---------------------------------------------------+
//! ```
//!
//! Requests never connect: a tick of their worker does. One that comes while the first attempt runs waits for that, within its
//! time; otherwise it learns at once that there is no connection.

use crate::script::{Call, Numbers, Unavailable};
use arc_swap::ArcSwapOption;
use redis::RedisError;
use redis::aio::MultiplexedConnection;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use titan_io::random::Random;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::Instant;

/// The connection of one worker. Only that worker uses it; others look at it.
#[derive(Default)]
pub(crate) struct Link {
    connection: ArcSwapOption<Connected>,
    /// Tells connections apart.
    generation: AtomicU64,
    /// Whether the first attempt is over.
    has_begun: AtomicBool,
    /// Whether there is no connection although one was tried.
    is_down: AtomicBool,
    /// Calls that wait.
    waiting: AtomicU32,
    /// Whether a call has got a reply over this connection.
    is_proven: AtomicBool,
    /// Calls in a row without a reply.
    failures: AtomicU32,
    attempts: Mutex<Attempts>,
    /// The first attempt is over.
    begun: Notify,
}

/// A connection, and the task that moves its bytes. Left to itself that would go on for as long as the other side does not take what
/// was asked before.
struct Connected {
    connection: MultiplexedConnection,
    driver: AbortHandle,
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// When a connection is tried next.
struct Attempts {
    is_running: bool,
    not_before: Option<Instant>,
    pause: Duration,
}

/// A call that waits, until this is dropped.
pub(crate) struct Waits<'l>(&'l Link);

/// The calls of a worker that may wait at a time.
const MAX_WAITING: u32 = 1024;
/// After so many calls in a row without a reply the connection is given up.
const MAX_FAILURES: u32 = 8;
/// How long to wait after a connection is lost before another is tried, at first.
const MIN_PAUSE: Duration = Duration::from_millis(100);
/// And at most: it doubles until a call gets a reply.
const MAX_PAUSE: Duration = Duration::from_secs(5);

impl Default for Attempts {
    fn default() -> Attempts {
        Attempts { is_running: false, not_before: None, pause: MIN_PAUSE }
    }
}

impl Link {
    /// Whether it is time for an attempt, which the caller then makes: there is one at a time.
    pub(crate) fn begin_attempt(&self) -> bool {
        if self.connection.load().is_some() {
            return false;
        }
        let mut attempts = self.attempts();
        let is_due = attempts.not_before.is_none_or(|at| Instant::now() >= at);
        let begins = is_due && !attempts.is_running;
        attempts.is_running |= begins;
        begins
    }

    /// The attempt has succeeded. `follow` begins the task that moves the bytes of the connection, and gets what [`Link::lose`] takes.
    pub(crate) fn connected(
        &self,
        connection: MultiplexedConnection,
        follow: impl FnOnce(u64) -> AbortHandle,
    ) {
        let generation = self.generation.fetch_add(1, Ordering::Relaxed) + 1;
        self.failures.store(0, Ordering::Relaxed);
        self.is_proven.store(false, Ordering::Relaxed);
        let connected = Connected { connection, driver: follow(generation) };
        self.connection.store(Some(Arc::new(connected)));
        self.is_down.store(false, Ordering::Relaxed);
        self.attempts().is_running = false;
        self.begin();
    }

    /// The attempt has failed.
    pub(crate) fn not_connected(&self) {
        self.attempts().is_running = false;
        self.wait_for_next();
        self.is_down.store(true, Ordering::Relaxed);
        self.begin();
    }

    /// That connection is not used any more. Tells whether it was until now.
    pub(crate) fn lose(&self, generation: u64) -> bool {
        if self.generation.load(Ordering::Relaxed) != generation || self.connection.load().is_none()
        {
            return false;
        }
        self.connection.store(None);
        self.is_down.store(true, Ordering::Relaxed);
        self.wait_for_next();
        true
    }

    /// The connection of now, for [`Link::lose`].
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }

    /// Whether calls fail for want of a connection, as far as is known.
    pub(crate) fn is_down(&self) -> bool {
        self.is_down.load(Ordering::Relaxed)
    }

    /// A place among the calls that wait, if there is one.
    pub(crate) fn enter(&self) -> Option<Waits<'_>> {
        let waiting = self.waiting.fetch_add(1, Ordering::Relaxed);
        let place = Waits(self);
        (waiting < MAX_WAITING).then_some(place)
    }

    /// Makes a call; the caller bounds the time.
    pub(crate) async fn ask(
        &self,
        call: &Call<'_>,
        is_asking: bool,
    ) -> Result<Numbers, (Unavailable, Option<RedisError>)> {
        let connected = self.connection().await.ok_or((Unavailable::Down, None))?;
        call.make(&mut connected.connection.clone(), is_asking).await
    }

    /// A call has got its reply: attempts may come quickly again.
    pub(crate) fn replied(&self) {
        self.failures.store(0, Ordering::Relaxed);
        if !self.is_proven.swap(true, Ordering::Relaxed) {
            self.attempts().pause = MIN_PAUSE;
        }
    }

    /// A call has got none in time, or was refused. Tells whether there were too many of these in a row.
    pub(crate) fn missed(&self) -> bool {
        self.failures.fetch_add(1, Ordering::Relaxed) + 1 >= MAX_FAILURES
    }

    async fn connection(&self) -> Option<Arc<Connected>> {
        if let Some(connection) = self.connection.load_full() {
            return Some(connection);
        }
        let begun = self.begun.notified();
        if !self.has_begun.load(Ordering::Relaxed) {
            begun.await;
        }
        self.connection.load_full()
    }

    fn begin(&self) {
        if !self.has_begun.swap(true, Ordering::Relaxed) {
            self.begun.notify_waiters();
        }
    }

    /// Somewhere between half of the pause and all of it, so that workers and gateways do not all come at once.
    fn wait_for_next(&self) {
        let mut attempts = self.attempts();
        let half = attempts.pause / 2;
        let share = Random::default().next() % 1000;
        let more = half.mul_f64(f64::from(u32::try_from(share).unwrap_or(0)) / 1000.0);
        attempts.not_before = Some(Instant::now() + half + more);
        attempts.pause = (2 * attempts.pause).min(MAX_PAUSE);
    }

    fn attempts(&self) -> MutexGuard<'_, Attempts> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    #[tokio::test(start_paused = true)]
    async fn attempts_come_one_at_a_time_and_ever_later() {
        let link = Link::default();
        assert!(link.begin_attempt());
        assert!(!link.begin_attempt(), "one runs");
        link.not_connected();
        let mut pauses = Vec::new();
        for _ in 0..8 {
            let failed = Instant::now();
            assert!(!link.begin_attempt(), "too soon");
            while !link.begin_attempt() {
                advance(Duration::from_millis(1)).await;
            }
            pauses.push(failed.elapsed());
            link.not_connected();
        }
        let longest = [100, 200, 400, 800, 1600, 3200, 5000, 5000].map(Duration::from_millis);
        for (pause, most) in pauses.iter().zip(longest) {
            assert!(*pause >= most / 2 && *pause <= most + Duration::from_millis(1), "{pauses:?}");
        }
    }

    #[test]
    fn so_many_calls_wait_and_no_more() {
        let link = Link::default();
        let waiting: Vec<_> = (0..MAX_WAITING + 3).filter_map(|_| link.enter()).collect();
        assert_eq!(waiting.len(), MAX_WAITING as usize);
        drop(waiting);
        assert!(link.enter().is_some());
    }

    #[test]
    fn calls_without_a_reply_count_in_a_row() {
        let link = Link::default();
        for _ in 0..3 {
            let too_many = (1..MAX_FAILURES).filter(|_| link.missed()).count();
            assert_eq!(too_many, 0);
            link.replied();
        }
        let missed: Vec<_> = (0..MAX_FAILURES).map(|_| link.missed()).collect();
        assert_eq!(missed.iter().position(|it| *it), Some(MAX_FAILURES as usize - 1));
    }
}
