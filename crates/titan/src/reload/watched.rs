//! The files of a configuration are watched: whether one has changed, and has been written whole.

use crate::documents::Origins;

/// What the files are like that are watched.
pub(super) struct Watched {
    /// When they were read last, or were to be.
    read: Origins,
    /// At the last look.
    seen: Origins,
    /// Whether what was to be read could not be.
    again: bool,
}

impl Watched {
    /// Files that were like that when they were read.
    pub(super) fn new(read: Origins) -> Watched {
        Watched { seen: read.clone(), read, again: false }
    }

    /// What was to be read could not be: it is to be read later.
    pub(super) fn again(&mut self) {
        self.again = true;
    }

    /// What to look at.
    pub(super) fn files(&self) -> &Origins {
        &self.read
    }

    /// Whether there is something to read that was not read yet, where the files are like that `now`. What was different at the
    /// last look may still be written; a configuration that is not there will come back.
    pub(super) fn has_changed(&mut self, now: Origins) -> bool {
        let is_settled = now == self.seen;
        self.seen.clone_from(&now);
        let has_changed = is_settled && now.has_main() && (now != self.read || self.again);
        if has_changed {
            (self.read, self.again) = (now, false);
        }
        has_changed
    }
}
