//! Waiting for what is bound to happen, and failing when it does not.

use std::thread;
use std::time::{Duration, Instant};

/// How long a thing may take that should take a moment: machines that run tests are busy.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);
/// Between two looks at what does not tell when it changes, such as another process.
const PAUSE: Duration = Duration::from_millis(5);

/// Looks until there is something to see, at most for [`TIMEOUT`].
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(Instant::now() < deadline, "not within {TIMEOUT:?}: {what}");
        pause();
    }
}

/// A moment between two looks, or two attempts.
pub(crate) fn pause() {
    thread::park_timeout(PAUSE);
}

/// Looks until `is_so`.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    eventually(what, || is_so().then_some(()));
}
