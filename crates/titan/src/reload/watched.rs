//! The files of a configuration are watched: whether one has changed, and has been written whole.

use crate::documents::Origins;
use tokio::time::Instant;

/// What the files are like that are watched.
pub(super) struct Watched {
    /// When they were read last, or were to be.
    read: Origins,
    /// At the last look.
    seen: Origins,
    /// When it is to be read again although it has not changed: what was to be read could not be.
    again_at: Option<Instant>,
}

impl Watched {
    /// Files that were like that when they were read.
    pub(super) fn new(read: Origins) -> Watched {
        Watched { seen: read.clone(), read, again_at: None }
    }

    /// What was to be read could not be: it is to be read then.
    pub(super) fn again_at(&mut self, at: Instant) {
        self.again_at = Some(at);
    }

    /// What to look at.
    pub(super) fn files(&self) -> &Origins {
        &self.read
    }

    /// Whether there is something to read that was not read yet, where the files are like that `now`. What was different at the
    /// last look may still be written; a configuration that is not there will come back.
    pub(super) fn has_changed(&mut self, now: Origins, time: Instant) -> bool {
        let is_settled = now == self.seen;
        self.seen.clone_from(&now);
        let is_again = self.again_at.is_some_and(|at| time >= at);
        let has_changed = is_settled && now.has_main() && (now != self.read || is_again);
        if has_changed {
            (self.read, self.again_at) = (now, None);
        }
        has_changed
    }
}
