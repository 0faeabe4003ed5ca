//! How many requests run at an upstream and which of them wait, over all workers. Time is an argument, and whom to tell
//! is its caller's: a simulation drives it as workers do.
//!
//! Where there is room and nothing waits, a request enters by a compare-and-swap. The lock is taken only while
//! requests wait.

use crate::concurrency::Sample;
use crate::concurrency::limit::{AdaptiveLimit, Bounds, Window};
use crate::concurrency::waiting::{QueueLimits, Waiting, WaitingPosition};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use titan_config::Importance;
use titan_io::network::ClientNetwork;
use titan_io::shares::{ClientCounter, Shares};

/// The requests at an upstream: `W` stands for one that waits.
pub(super) struct Gate<W> {
    /// How many may run.
    limit: AtomicU32,
    running: AtomicU32,
    /// How many run for each client.
    used: Shares,
    /// How many wait: what is looked at without the lock.
    waiting: AtomicU32,
    queue: Mutex<Waiting<W>>,
    open: OpenWindow,
    /// Never waited for: who finds it taken leaves the window to the other.
    adaptive: Mutex<AdaptiveLimit>,
}

/// The settings of a gate.
#[derive(Clone, Copy, Debug)]
pub(super) struct GateSettings {
    pub(super) bounds: Bounds,
    pub(super) queue: QueueLimits,
}

/// Who wants to enter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entrant {
    pub(super) importance: Importance,
    pub(super) client: Option<ClientNetwork>,
}

/// What becomes of a request that has waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It runs, and counts for that client.
    Enter(ClientCounter),
    /// It has waited too long, or another one matters more.
    Refused,
}

/// The window that is open.
#[derive(Default)]
struct OpenWindow {
    /// Since when, in microseconds.
    since: AtomicU64,
    /// The number of responses in the upper bits, the sum of their latencies in microseconds below: one word, so that
    /// both are of the same responses.
    responses: AtomicU64,
    drops: AtomicU32,
    peak: AtomicU32,
}

/// The bits for the sum: with a latency of at most [`LONGEST`], it has room for all that can be counted above it.
const SUM_BITS: u32 = 44;
/// A latency counts as at most that.
const LONGEST: u64 = 1 << 24;

/// A window is open at least that long,
const SHORTEST_WINDOW: Duration = Duration::from_millis(100);
/// and until there are so many samples.
const ENOUGH_SAMPLES: u64 = 50;
/// After that time fewer will do.
const LONG_WINDOW: Duration = Duration::from_secs(1);
const FEWEST_SAMPLES: u64 = 10;

impl<W> Gate<W> {
    pub(super) fn new(initial: u32, used: Shares) -> Gate<W> {
        Gate {
            limit: AtomicU32::new(initial),
            running: AtomicU32::new(0),
            used,
            waiting: AtomicU32::new(0),
            queue: Mutex::default(),
            open: OpenWindow::default(),
            adaptive: Mutex::new(AdaptiveLimit::new(initial)),
        }
    }

    /// How many may run now.
    pub(super) fn limit(&self) -> u32 {
        self.limit.load(Ordering::SeqCst)
    }

    /// How many run.
    pub(super) fn running(&self) -> u32 {
        self.running.load(Ordering::SeqCst)
    }

    /// How many wait.
    pub(super) fn waiting(&self) -> u32 {
        self.waiting.load(Ordering::SeqCst)
    }

    /// Whether the newest are served first.
    pub(super) fn is_overloaded(&self) -> bool {
        self.waiting() > 0 && self.lock().is_overloaded()
    }

    /// The latency that counts as that without load.
    pub(super) fn unloaded(&self) -> Option<Duration> {
        self.adaptive.lock().unwrap_or_else(PoisonError::into_inner).unloaded()
    }

    /// Moves the limit into its bounds.
    pub(super) fn keep_within(&self, bounds: Bounds) {
        let within = |limit: u32| Some(limit.clamp(bounds.min, bounds.max));
        let _ = self.limit.fetch_update(Ordering::SeqCst, Ordering::SeqCst, within);
    }

    /// Lets a request of that client in, if there is room and nothing waits.
    pub(super) fn try_enter(&self, client: Option<ClientNetwork>) -> Option<ClientCounter> {
        let is_free = self.waiting() == 0 && self.count_one();
        is_free.then(|| self.take(self.used.counter(client)))
    }

    /// Lets a request wait, or returns it where it cannot.
    pub(super) fn wait(
        &self,
        entrant: Entrant,
        who: W,
        (now, settings): (Duration, &GateSettings),
        mut tell: impl FnMut(W, Turn),
    ) -> Result<WaitingPosition, W> {
        while let Some(late) = self.changed(|queue| queue.shed(now, settings.queue)) {
            tell(late, Turn::Refused);
        }
        let counter = self.used.counter(entrant.client);
        let pushed = self.changed(|queue| {
            queue.push((entrant.importance, entrant.client, counter), (now, who), settings.queue)
        });
        let (position, displaced) = pushed?;
        if let Some(displaced) = displaced {
            tell(displaced, Turn::Refused);
        }
        // One may have left since this one looked.
        self.serve((now, settings), tell);
        Ok(position)
    }

    /// Notes that a request waits no more.
    pub(super) fn forget(&self, position: WaitingPosition) {
        self.changed(|queue| queue.remove(position));
    }

    /// Notes that a request of that client runs no more.
    pub(super) fn leave(
        &self,
        counter: ClientCounter,
        at: (Duration, &GateSettings),
        tell: impl FnMut(W, Turn),
    ) {
        self.used.give_back(counter);
        self.running.fetch_sub(1, Ordering::SeqCst);
        self.serve(at, tell);
    }

    /// Lets waiting requests in as far as there is room.
    pub(super) fn serve(
        &self,
        (now, settings): (Duration, &GateSettings),
        mut tell: impl FnMut(W, Turn),
    ) {
        while self.waiting() > 0 && self.count_one() {
            let used = |counter| self.used.of(counter);
            match self.changed(|queue| queue.pop(now, settings.queue, used)) {
                Some((counter, who)) => tell(who, Turn::Enter(self.take(counter))),
                // It has left in this moment; who came in this moment looks again.
                None => drop(self.running.fetch_sub(1, Ordering::SeqCst)),
            }
        }
    }

    /// Takes in how an attempt has fared. At the end of a window the limit changes: `true` where it has grown.
    pub(super) fn note(&self, sample: Sample, now: Duration, settings: &GateSettings) -> bool {
        self.open.note(sample, self.running());
        if !self.open.is_over(now) {
            return false;
        }
        let Ok(mut adaptive) = self.adaptive.try_lock() else { return false };
        // Another worker may have closed it in this moment.
        if !self.open.is_over(now) {
            return false;
        }
        let limit = adaptive.update(&self.open.close(now), settings.bounds);
        self.limit.swap(limit, Ordering::SeqCst) < limit
    }

    fn count_one(&self) -> bool {
        let limit = self.limit();
        let more = |running| (running < limit).then_some(running + 1);
        self.running.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).is_ok()
    }

    fn take(&self, counter: ClientCounter) -> ClientCounter {
        self.used.take(counter);
        counter
    }

    fn changed<R>(&self, change: impl FnOnce(&mut Waiting<W>) -> R) -> R {
        let mut queue = self.lock();
        let result = change(&mut queue);
        let waiting = u32::try_from(queue.len()).unwrap_or(u32::MAX);
        self.waiting.store(waiting, Ordering::SeqCst);
        result
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<W>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenWindow {
    fn note(&self, sample: Sample, running: u32) {
        // Most find it as high as it is, and write nothing.
        if self.peak.load(Ordering::Relaxed) < running {
            self.peak.fetch_max(running, Ordering::Relaxed);
        }
        match sample {
            Sample::Responded(latency) => {
                let one = (1 << SUM_BITS) | micros(latency).min(LONGEST);
                self.responses.fetch_add(one, Ordering::Relaxed);
            }
            Sample::Dropped => drop(self.drops.fetch_add(1, Ordering::Relaxed)),
        }
    }

    fn is_over(&self, now: Duration) -> bool {
        let responses = self.responses.load(Ordering::Relaxed) >> SUM_BITS;
        let samples = responses + u64::from(self.drops.load(Ordering::Relaxed));
        let open = now.saturating_sub(Duration::from_micros(self.since.load(Ordering::Relaxed)));
        match samples {
            ENOUGH_SAMPLES.. => open >= SHORTEST_WINDOW,
            FEWEST_SAMPLES.. => open >= LONG_WINDOW,
            _ => false,
        }
    }

    /// Opens the next one.
    fn close(&self, now: Duration) -> Window {
        self.since.store(micros(now), Ordering::Relaxed);
        let word = self.responses.swap(0, Ordering::Relaxed);
        let (responses, sum) = (word >> SUM_BITS, word & ((1 << SUM_BITS) - 1));
        Window {
            at: now,
            latency: sum.checked_div(responses).map(Duration::from_micros),
            responses: u32::try_from(responses).unwrap_or(u32::MAX),
            drops: self.drops.swap(0, Ordering::Relaxed),
            peak: self.peak.swap(0, Ordering::Relaxed),
        }
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: GateSettings = GateSettings {
        bounds: Bounds { min: 1, max: 100 },
        queue: QueueLimits { length: 8, target: Duration::from_secs(60) },
    };
    const ENTRANT: Entrant = Entrant { importance: Importance::Default, client: None };

    fn gate<W>(limit: u32) -> Gate<W> {
        Gate::new(limit, Shares::new())
    }

    #[test]
    fn as_many_run_as_may_and_others_wait_for_them() {
        let gate = gate(2);
        let at = (Duration::ZERO, &SETTINGS);
        let entered = [gate.try_enter(None), gate.try_enter(None)].map(Option::unwrap);
        assert_eq!(gate.try_enter(None), None);
        let mut told = Vec::new();
        for who in ["a", "b"] {
            gate.wait(ENTRANT, who, at, |who, turn| told.push((who, turn))).unwrap();
        }
        assert_eq!((gate.running(), gate.waiting()), (2, 2));
        gate.leave(entered[0], at, |who, turn| told.push((who, turn)));
        assert_eq!(told, [("a", Turn::Enter(entered[0]))]);
        assert_eq!(gate.try_enter(None), None, "another one waits");
    }

    #[test]
    fn counts_do_not_drift_over_threads() {
        let gate = gate::<std::sync::mpsc::SyncSender<Turn>>(3);
        let at = (Duration::ZERO, &SETTINGS);
        let tell = |who: std::sync::mpsc::SyncSender<Turn>, turn| who.send(turn).unwrap();
        let pass = || {
            let entered = gate.try_enter(None).or_else(|| {
                let (who, told) = std::sync::mpsc::sync_channel(1);
                gate.wait(ENTRANT, who, at, tell).ok()?;
                match told.recv().unwrap() {
                    Turn::Enter(counter) => Some(counter),
                    Turn::Refused => None,
                }
            });
            assert!(gate.running() <= 3);
            entered.inspect(|counter| gate.leave(*counter, at, tell)).is_some()
        };
        let passed: usize = std::thread::scope(|scope| {
            let threads: Vec<_> =
                (0..8).map(|_| scope.spawn(|| (0..2000).filter(|_| pass()).count())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!((gate.running(), gate.waiting(), passed), (0, 0, 16_000));
    }

    #[test]
    fn a_window_needs_time_and_samples() {
        let gate = gate::<()>(50);
        let note = |millis| {
            let sample = Sample::Responded(Duration::from_millis(10));
            gate.note(sample, Duration::from_millis(millis), &SETTINGS);
            gate.open.responses.load(Ordering::Relaxed) >> SUM_BITS
        };
        let counts: Vec<_> = (1..=60).map(|_| note(99)).collect();
        assert_eq!(counts.last(), Some(&60), "too early");
        assert_eq!((note(100), note(200), note(1100)), (0, 1, 2));
        let counts: Vec<_> = (3..=10).map(|_| note(1100)).collect();
        assert_eq!(counts.last(), Some(&0), "few will do after a second");
    }
}
