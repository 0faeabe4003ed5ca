//! How long a test waits, and how it waits for something that has no event.

use std::thread;
use std::time::{Duration, Instant};

/// How long a test waits for anything.
pub const DEADLINE: Duration = Duration::from_secs(10);

/// Waits until something has become so that no event tells of: a figure, say.
#[track_caller]
pub fn waits_until(what: &str, mut is_so: impl FnMut() -> bool) {
    const MOMENT: Duration = Duration::from_millis(1);
    let until = Instant::now() + DEADLINE;
    while !is_so() {
        assert!(Instant::now() < until, "waited in vain: {what}");
        thread::park_timeout(MOMENT);
    }
}
