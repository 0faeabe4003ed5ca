//! State that outlives what is built from one configuration.
//!
//! What is built from a configuration is replaced as a whole. State that accumulated while it served (counts, loads,
//! connections, caches) belongs to things that the next configuration may have too. The builder looks such a thing up
//! here by what identifies it: its key. It gets the existing one, or creates a new one.
//!
//! The registry owns nothing: a thing lives as long as something that was built uses it.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::convert::Infallible;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Things that several configurations have in common, by type and key. Clones are the same registry. There is a lock in
/// it: it is for building snapshots, never for a request.
#[derive(Clone, Default)]
pub struct Registry(Arc<Mutex<Kinds>>);

/// The entries of each type of key and thing.
type Kinds = HashMap<TypeId, Box<dyn Entries>>;

/// Entries of one type, whichever that is.
trait Entries: Any + Send {
    /// Forgets the unused ones.
    fn sweep(&mut self);
    fn len(&self) -> usize;
}

/// Those of things that are a `T`.
struct EntriesOf<K, T> {
    things: HashMap<K, Weak<T>>,
    /// With how many entries it is time to forget the unused ones: some things come and go while one configuration
    /// serves, as the endpoints of a name do.
    most: usize,
}

/// How many entries of a type there may be before the unused ones are looked for.
const FEW: usize = 64;

impl Registry {
    /// The living thing with that key, or the one that `make` makes. Keys are compared as values: name and definition
    /// of a thing together, of a type that is used for no other thing.
    pub fn shared<K, T>(&self, key: K, make: impl FnOnce() -> T) -> Arc<T>
    where
        K: Eq + Hash + Send + 'static,
        T: Send + Sync + 'static,
    {
        let made: Result<_, Infallible> = self.try_shared(key, || Ok(make()));
        match made {
            Ok(shared) => shared,
        }
    }

    /// The same for what may fail to be made.
    pub fn try_shared<K, T, E>(
        &self,
        key: K,
        make: impl FnOnce() -> Result<T, E>,
    ) -> Result<Arc<T>, E>
    where
        K: Eq + Hash + Send + 'static,
        T: Send + Sync + 'static,
    {
        let known = self.with(|entries: &mut EntriesOf<K, T>| entries.living(&key));
        if let Some(living) = known {
            return Ok(living);
        }
        // Outside of the lock: what is made may be made of other things that are asked for here.
        let made = Arc::new(make()?);
        Ok(self.with(|entries: &mut EntriesOf<K, T>| entries.keep(key, &made)))
    }

    /// Forgets what is not in use. Of each type that happens by itself as well, once its entries have doubled.
    pub fn sweep(&self) {
        let mut kinds = self.lock();
        kinds.values_mut().for_each(|entries| entries.sweep());
        kinds.retain(|_, entries| entries.len() > 0);
    }

    /// How many things are known, including those that have become unused since the last sweep.
    pub fn len(&self) -> usize {
        self.lock().values().map(|entries| entries.len()).sum()
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn with<K, T, R>(&self, act: impl FnOnce(&mut EntriesOf<K, T>) -> R) -> R
    where
        K: Eq + Hash + Send + 'static,
        T: Send + Sync + 'static,
    {
        let mut kinds = self.lock();
        let entries = kinds
            .entry(TypeId::of::<EntriesOf<K, T>>())
            .or_insert_with(|| Box::new(EntriesOf::<K, T>::new()));
        let entries: &mut dyn Any = entries.as_mut();
        act(entries.downcast_mut().expect("they are kept by their type"))
    }

    fn lock(&self) -> MutexGuard<'_, Kinds> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq + Hash, T> EntriesOf<K, T> {
    fn new() -> EntriesOf<K, T> {
        EntriesOf { things: HashMap::new(), most: FEW }
    }

    fn living(&self, key: &K) -> Option<Arc<T>> {
        self.things.get(key).and_then(Weak::upgrade)
    }

    /// Keeps what was made, unless another thread was faster.
    fn keep(&mut self, key: K, made: &Arc<T>) -> Arc<T> {
        if let Some(living) = self.living(&key) {
            return living;
        }
        if self.things.len() >= self.most {
            self.forget_unused();
        }
        self.things.insert(key, Arc::downgrade(made));
        Arc::clone(made)
    }

    fn forget_unused(&mut self) {
        self.things.retain(|_, thing| thing.strong_count() > 0);
        self.most = FEW.max(2 * self.things.len());
    }
}

impl<K, T> Entries for EntriesOf<K, T>
where
    K: Eq + Hash + Send + 'static,
    T: Send + Sync + 'static,
{
    fn sweep(&mut self) {
        self.forget_unused();
    }

    fn len(&self) -> usize {
        self.things.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// A key of a type of its own.
    #[derive(PartialEq, Eq, Hash)]
    struct Upstream(&'static str, u16);

    #[test]
    fn things_that_come_and_go_leave_no_entries_behind() {
        let registry = Registry::default();
        let kept: Vec<_> =
            (0..100).map(|id| registry.shared(Upstream("kept", id), || ())).collect();
        for id in 0..10_000 {
            drop(registry.shared(Upstream("gone", id), || ()));
            assert!(registry.len() <= 2 * kept.len() + FEW, "{}", registry.len());
        }
        for (id, thing) in (0..).zip(&kept) {
            let again = registry.shared(Upstream("kept", id), || ());
            assert!(Arc::ptr_eq(thing, &again));
        }
    }

    #[test]
    fn the_living_thing_is_the_one_that_others_get() {
        let registry = Registry::default();
        let first = registry.shared(Upstream("a", 80), || AtomicU32::new(1));
        let second: Arc<AtomicU32> = registry.shared(Upstream("a", 80), || panic!("there is one"));
        second.store(2, Ordering::Relaxed);
        assert!(Arc::ptr_eq(&first, &second));
        let clone = registry.clone().shared(Upstream("a", 80), || AtomicU32::new(3));
        assert_eq!(clone.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn another_key_or_type_is_another_thing() {
        let registry = Registry::default();
        let one = registry.shared(Upstream("a", 80), || 1);
        assert_eq!(*registry.shared(Upstream("a", 81), || 2), 2, "another definition");
        assert_eq!(*registry.shared(Upstream("b", 80), || 3), 3, "another name");
        assert_eq!(*registry.shared(("a", 80_u16), || 4), 4, "another type of key");
        assert_eq!(*registry.shared(Upstream("a", 80), || "5"), "5", "another type of thing");
        assert_eq!((*one, *registry.shared(Upstream("a", 80), || 6)), (1, 1));
    }

    #[test]
    fn nothing_outlives_its_users() {
        let registry = Registry::default();
        let used = registry.shared(Upstream("a", 80), || 1);
        drop(registry.shared(Upstream("b", 80), || 2));
        assert_eq!(*registry.shared(Upstream("b", 80), || 3), 3, "the first one is gone");
        assert_eq!(registry.len(), 2);
        registry.sweep();
        assert_eq!(registry.len(), 1);
        drop(used);
        registry.sweep();
        assert!(registry.is_empty());
    }

    #[test]
    fn what_cannot_be_made_is_not_kept() {
        let registry = Registry::default();
        let failed = registry.try_shared(Upstream("a", 80), || Err::<u8, _>("no"));
        assert_eq!(failed, Err("no"));
        assert_eq!(*registry.shared(Upstream("a", 80), || 1_u8), 1);
    }

    #[test]
    fn things_are_made_of_other_things() {
        let registry = Registry::default();
        let outer = registry.shared("outer", || registry.shared("inner", || 1));
        assert!(Arc::ptr_eq(&*outer, &registry.shared("inner", || 2)));
    }

    #[test]
    fn threads_that_build_it_at_once_all_get_the_same() {
        let registry = Registry::default();
        let mut faster = None;
        let slower = registry.shared("a", || {
            faster = Some(registry.shared("a", || 1));
            2
        });
        assert!(faster.is_some_and(|faster| Arc::ptr_eq(&faster, &slower)));
    }
}
