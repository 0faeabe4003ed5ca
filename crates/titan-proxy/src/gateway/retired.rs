//! What was in force before.

use super::lock;
use crate::snapshot::Snapshot;
use std::sync::{Arc, Mutex};

/// Snapshots that were in force before, as long as what began with them still runs. They are held here too, so that no
/// worker has to drop one.
#[derive(Default)]
pub(super) struct Retired(Mutex<Vec<Arc<Snapshot>>>);

impl Retired {
    pub(super) fn add(&self, snapshot: Arc<Snapshot>) {
        lock(&self.0).push(snapshot);
    }

    /// Drops those that nothing uses any more.
    pub(super) fn sweep(&self) {
        // A large one takes a while to drop: whoever counts them need not wait for it.
        let unused: Vec<_> = lock(&self.0).extract_if(.., |it| !is_used(it)).collect();
        drop(unused);
    }

    /// How many are in use.
    pub(super) fn in_use(&self) -> usize {
        lock(&self.0).iter().filter(|it| is_used(it)).count()
    }
}

fn is_used(snapshot: &Arc<Snapshot>) -> bool {
    Arc::strong_count(snapshot) > 1
}
