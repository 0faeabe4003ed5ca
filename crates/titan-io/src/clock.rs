//! One coarse clock for each worker, and the timers of its connections.
//!
//! Setting a timer is a store: no system call, no heap, no queue. One task checks all timers every [`TICK`], and once more when
//! the first of those that it has seen is due, and wakes their owners. A timeout is therefore never early, and late by a tick at
//! most, or two where it is shorter than that: little beside the seconds that timeouts are made of.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::time::Instant;

/// How often timers are looked at.
pub const TICK: Duration = Duration::from_millis(100);

/// An instant in milliseconds since the worker's clock started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CoarseInstant(u64);

/// The clock of one worker.
pub struct Clock {
    started: Instant,
    now: Cell<CoarseInstant>,
    slots: RefCell<Slots>,
}

/// A connection's place among the timers; gives it back when dropped.
pub struct Timer {
    clock: Rc<Clock>,
    slot: usize,
}

#[derive(Default)]
struct Slots {
    all: Vec<Slot>,
    free: Vec<usize>,
}

struct Slot {
    due: CoarseInstant,
    owner: Waker,
}

impl CoarseInstant {
    /// Later than every deadline: nothing is waited for.
    pub const NEVER: CoarseInstant = CoarseInstant(u64::MAX);

    /// The moment `wait` from now, rounded so that it is never early.
    fn after(self, wait: Duration) -> CoarseInstant {
        let wait = wait.saturating_add(TICK).as_millis();
        CoarseInstant(self.0.saturating_add(u64::try_from(wait).unwrap_or(u64::MAX)))
    }

    /// How long after `earlier` this is.
    pub fn since(self, earlier: CoarseInstant) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl Clock {
    /// A clock that starts now.
    pub fn new() -> Rc<Clock> {
        let (now, slots) = (Cell::new(CoarseInstant(0)), RefCell::default());
        Rc::new(Clock { started: Instant::now(), now, slots })
    }

    /// The time of the last tick.
    pub fn now(&self) -> CoarseInstant {
        self.now.get()
    }

    /// The deadline of something that may take `wait`.
    pub fn deadline(&self, wait: Duration) -> CoarseInstant {
        self.now().after(wait)
    }

    /// The deadline of something that may take `wait` from this very moment. It costs a reading of the system's clock: for what is
    /// not set often, or is late by a tick to somebody's cost.
    pub fn exact_deadline(&self, wait: Duration) -> CoarseInstant {
        // What is left of a millisecond has not passed yet.
        let end = self.started.elapsed().saturating_add(wait).as_millis().saturating_add(1);
        CoarseInstant(u64::try_from(end).unwrap_or(u64::MAX))
    }

    /// How long something may take from now on that is to end at `deadline`.
    pub fn left_until(&self, deadline: CoarseInstant) -> Duration {
        deadline.since(self.now()).saturating_sub(TICK)
    }

    /// Whether `deadline` has passed.
    pub fn is_past(&self, deadline: CoarseInstant) -> bool {
        self.now() >= deadline
    }

    /// A timer for a new connection.
    pub fn timer(self: &Rc<Self>) -> Timer {
        let mut slots = self.slots.borrow_mut();
        let unset = Slot { due: CoarseInstant::NEVER, owner: Waker::noop().clone() };
        let slot = match slots.free.pop() {
            Some(slot) => slot,
            None => {
                slots.all.push(unset);
                slots.all.len() - 1
            }
        };
        Timer { clock: Rc::clone(self), slot }
    }

    /// Moves time on and wakes the owners of timers that are due. Returns when the first of the others is.
    pub fn tick(&self) -> Option<Instant> {
        let elapsed = self.started.elapsed().as_millis();
        self.now.set(CoarseInstant(u64::try_from(elapsed).unwrap_or(u64::MAX)));
        let (now, mut first) = (self.now(), CoarseInstant::NEVER);
        for slot in &mut self.slots.borrow_mut().all {
            if slot.due <= now {
                // Once: an owner that still waits sets it again.
                slot.due = CoarseInstant::NEVER;
                slot.owner.wake_by_ref();
            } else {
                first = first.min(slot.due);
            }
        }
        let until = || self.started.checked_add(Duration::from_millis(first.0));
        (first != CoarseInstant::NEVER).then(until).flatten()
    }

    /// Wakes the owners of all timers, so that they see that the worker drains.
    pub fn wake_all(&self) {
        self.slots.borrow().all.iter().for_each(|slot| slot.owner.wake_by_ref());
    }
}

impl Timer {
    /// Wakes the task of `cx` when `deadline` passes; ready at once if it has passed.
    pub fn poll(&self, cx: &Context<'_>, deadline: CoarseInstant) -> Poll<()> {
        if self.clock.is_past(deadline) {
            return Poll::Ready(());
        }
        self.wake_at(cx, deadline);
        Poll::Pending
    }

    /// Wakes the task of `cx` at the first tick after `deadline`, also where that has passed: a
    /// task that waits for several things is then polled once a tick and can never spin.
    pub fn wake_at(&self, cx: &Context<'_>, deadline: CoarseInstant) {
        let slot = &mut self.clock.slots.borrow_mut().all[self.slot];
        slot.due = deadline;
        if !slot.owner.will_wake(cx.waker()) {
            slot.owner.clone_from(cx.waker());
        }
    }

    /// The clock that the timer belongs to.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        let mut slots = self.clock.slots.borrow_mut();
        slots.all[self.slot] = Slot { due: CoarseInstant::NEVER, owner: Waker::noop().clone() };
        slots.free.push(self.slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Wake;

    #[tokio::test(start_paused = true)]
    async fn a_timer_is_never_early_and_little_late() {
        let clock = Clock::new();
        let timer = clock.timer();
        let deadline = clock.deadline(Duration::from_secs(1));
        let started = Instant::now();
        let ticking = async {
            loop {
                tokio::time::sleep(TICK).await;
                clock.tick();
            }
        };
        tokio::select! {
            () = poll_fn(|cx| timer.poll(cx, deadline)) => {}
            () = ticking => {}
        }
        let took = started.elapsed();
        assert!(
            took >= Duration::from_secs(1) && took <= Duration::from_secs(1) + 2 * TICK,
            "{took:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_tick_tells_when_the_next_timer_is_due() {
        let clock = Clock::new();
        let timers = [clock.timer(), clock.timer()];
        assert!(clock.tick().is_none());
        for (timer, wait) in timers.iter().zip([250, 430].map(Duration::from_millis)) {
            timer.wake_at(&Context::from_waker(Waker::noop()), clock.deadline(wait));
        }
        for wait in [250, 430].map(Duration::from_millis) {
            let first = clock.tick();
            assert_eq!(first, Some(clock.started + wait + TICK));
            tokio::time::sleep_until(first.unwrap()).await;
        }
        assert!(clock.tick().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn an_exact_deadline_does_not_wait_for_ticks() {
        let clock = Clock::new();
        let timer = clock.timer();
        let wait = Duration::from_millis(250);
        for since_tick in [0, 1, 60, 99] {
            clock.tick();
            tokio::time::advance(Duration::from_millis(since_tick)).await;
            let deadline = clock.exact_deadline(wait);
            timer.wake_at(&Context::from_waker(Waker::noop()), deadline);
            let now = Instant::now();
            let first = clock.tick().unwrap();
            assert_eq!(first, now + wait + Duration::from_millis(1));
            assert!(!clock.is_past(deadline));
            tokio::time::sleep_until(first).await;
            clock.tick();
            assert!(clock.is_past(deadline));
        }
        assert_eq!(clock.exact_deadline(Duration::MAX), CoarseInstant::NEVER);
    }

    #[tokio::test(start_paused = true)]
    async fn an_owner_that_does_not_come_is_woken_once() {
        let clock = Clock::new();
        let timer = clock.timer();
        let woken = Arc::new(CountWakes(AtomicU32::new(0)));
        let waker = Waker::from(Arc::clone(&woken));
        let due = clock.deadline(Duration::ZERO);
        assert!(timer.poll(&Context::from_waker(&waker), due).is_pending());
        for _ in 0..5 {
            tokio::time::advance(TICK).await;
            clock.tick();
        }
        assert_eq!(woken.0.load(Ordering::Relaxed), 1);
    }

    struct CountWakes(AtomicU32);

    impl Wake for CountWakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn places_are_used_again() {
        let clock = Clock::new();
        let first = clock.timer().slot;
        let second = clock.timer();
        assert_eq!(second.slot, first);
        assert_ne!(clock.timer().slot, first);
    }
}
