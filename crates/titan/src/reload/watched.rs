//! A file that is watched: whether it has changed, and has been written whole.

use crate::config_file::FileState;

/// What a file is like that is watched.
pub(super) struct Watched {
    /// When it was read last, or was to be.
    read: Option<FileState>,
    /// At the last look.
    seen: Option<FileState>,
}

impl Watched {
    /// A file that was like that when it was read.
    pub(super) fn new(read: Option<FileState>) -> Watched {
        Watched { seen: read.clone(), read }
    }

    /// Whether there is something to read that was not read yet. A file that was another one at the last look may still be
    /// written; one that is not there will come back.
    pub(super) fn has_changed(&mut self, now: Option<FileState>) -> bool {
        let is_settled = now == self.seen;
        self.seen.clone_from(&now);
        let has_changed = is_settled && now.is_some() && now != self.read;
        if has_changed {
            self.read = now;
        }
        has_changed
    }
}
