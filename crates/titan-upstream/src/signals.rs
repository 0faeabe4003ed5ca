//! How whoever judges endpoints learns where something has happened, so that many of which nothing is heard cost nothing.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use titan_config::Name;
use titan_io::registry::Registry;
use tokio::sync::Notify;

/// Tells of what becomes of an upstream and its endpoints. Clones are the same, and so are those of one name.
#[derive(Clone, Default)]
pub struct Signals(Arc<Shared>);

#[derive(Default)]
struct Shared {
    upstream: Box<str>,
    /// Grows with each change of what the endpoints may be sent.
    version: AtomicU64,
    /// Whether it is looked at again and again.
    is_awake: AtomicBool,
    /// Whether it is in the queue.
    is_queued: AtomicBool,
    alarm: Arc<Alarm>,
}

/// Tells whoever judges the endpoints of a process which upstreams to look at.
#[derive(Default)]
pub struct Alarm {
    rings: Notify,
    /// Each once.
    queue: Mutex<Vec<Weak<Shared>>>,
}

/// By what it is known who judges endpoints.
#[derive(PartialEq, Eq, Hash)]
struct AlarmKey;

/// By what it is known what was told of an upstream, whatever of it changes.
#[derive(PartialEq, Eq, Hash)]
struct SignalsKey(Name);

impl Signals {
    /// Those of the upstream of that name.
    pub fn of(registry: &Registry, upstream: &Name) -> Signals {
        let new = || Shared {
            upstream: upstream.as_str().into(),
            alarm: Alarm::of(registry),
            ..Shared::default()
        };
        Signals(registry.shared(SignalsKey(upstream.clone()), new))
    }

    /// Grows with each change of what the endpoints may be sent.
    pub fn version(&self) -> u64 {
        self.0.version.load(Ordering::Acquire)
    }

    /// What the endpoints may be sent has changed.
    pub fn change(&self) {
        self.0.version.fetch_add(1, Ordering::AcqRel);
    }

    /// Something was counted that has to be judged in its time. A load, for an upstream that is in use.
    pub fn stir(&self) {
        if !self.0.is_awake.load(Ordering::Relaxed) {
            self.queue();
        }
    }

    /// Something has happened that has to be looked at now.
    pub fn ring(&self) {
        self.queue();
        self.0.alarm.rings.notify_one();
    }

    fn queue(&self) {
        if !self.0.is_queued.swap(true, Ordering::AcqRel) {
            self.0.alarm.queue().push(Arc::downgrade(&self.0));
        }
    }

    /// Where it rings.
    pub fn alarm(&self) -> &Alarm {
        &self.0.alarm
    }

    /// It is looked at again and again from now on.
    pub(crate) fn wake(&self) {
        self.0.is_awake.swap(true, Ordering::AcqRel);
    }

    /// It is not, until it tells of something. What is counted at that moment may be missed: the caller looks once more, a while later.
    pub(crate) fn rest(&self) {
        self.0.is_awake.swap(false, Ordering::AcqRel);
    }
}

impl Alarm {
    /// That of a process with that registry.
    pub fn of(registry: &Registry) -> Arc<Alarm> {
        registry.shared(AlarmKey, Alarm::default)
    }

    /// Rings.
    pub fn ring(&self) {
        self.rings.notify_one();
    }

    /// Waits until it rings, or returns at once where it has.
    pub async fn rang(&self) {
        self.rings.notified().await;
    }

    /// The names of the upstreams that have told of something, each of which is awake by that.
    pub(crate) fn take(&self) -> Vec<String> {
        let queue = std::mem::take(&mut *self.queue());
        let told = queue.iter().filter_map(Weak::upgrade).map(|shared| {
            // Before anybody looks at it: what comes from here on is told again.
            shared.is_queued.swap(false, Ordering::AcqRel);
            shared.is_awake.swap(true, Ordering::AcqRel);
            shared.upstream.to_string()
        });
        told.collect()
    }

    fn queue(&self) -> MutexGuard<'_, Vec<Weak<Shared>>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
