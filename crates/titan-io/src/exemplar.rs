//! Exemplars: for each bucket of a histogram one exchange that fell into it, by its trace. Nothing here is for workers: who
//! tells of exchanges notes them, and who writes metrics reads them.

use crate::counter::{BUCKETS, Scale};
use crate::registry::Registry;
use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// Those of histograms of that scale, by the names of what they are of. Only what has some takes memory.
#[derive(Default)]
pub struct Exemplars<S> {
    by_name: Mutex<HashMap<Box<[u8]>, Box<Buckets>>>,
    scale: PhantomData<S>,
}

/// The one of each bucket that has one.
pub type Buckets = [Option<Exemplar>; BUCKETS];

/// What one exchange has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exemplar {
    /// The id of its trace (W3C Trace Context).
    pub trace: [u8; 16],
    /// What was noted of it, in the unit of the scale.
    pub value: u64,
    /// When that was.
    pub at: SystemTime,
}

impl<S: Scale + Default + Send + Sync + 'static> Exemplars<S> {
    /// Those of all things that are known there.
    pub fn of(registry: &Registry) -> Arc<Exemplars<S>> {
        registry.shared((), Exemplars::default)
    }

    /// Notes one of the thing with that name, in place of the one before in its bucket. It takes a lock: it is not for a worker.
    pub fn note(&self, name: &[u8], exemplar: Exemplar) {
        let bucket = S::BOUNDS.iter().position(|&bound| exemplar.value <= bound);
        let mut by_name = self.lock();
        if !by_name.contains_key(name) {
            by_name.insert(name.into(), Box::default());
        }
        if let Some(buckets) = by_name.get_mut(name) {
            buckets[bucket.unwrap_or(BUCKETS - 1)] = Some(exemplar);
        }
    }

    /// Those of everything that has any, by its name.
    pub fn all(&self) -> HashMap<String, Buckets> {
        let by_name = self.lock();
        let all = by_name.iter();
        all.map(|(name, it)| (String::from_utf8_lossy(name).into_owned(), **it)).collect()
    }

    /// Forgets those of what has none of these names.
    pub fn keep<'n>(&self, names: impl Iterator<Item = &'n str>) {
        let mut by_name = self.lock();
        let mut before = std::mem::take(&mut *by_name);
        let known = names.filter_map(|name| before.remove_entry(name.as_bytes()));
        *by_name = known.collect();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Box<[u8]>, Box<Buckets>>> {
        self.by_name.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counter::Durations;

    #[test]
    fn each_bucket_has_the_last_one_that_fell_into_it() {
        let registry = Registry::default();
        let exemplars = Exemplars::<Durations>::of(&registry);
        assert!(exemplars.all().is_empty());
        let exemplar = |value| Exemplar { trace: [1; 16], value, at: SystemTime::UNIX_EPOCH };
        for value in [251, 300, 20_000_000] {
            exemplars.note(b"a", exemplar(value));
        }
        exemplars.note(b"b", exemplar(1));
        let all = Exemplars::<Durations>::of(&registry).all();
        assert_eq!((all["a"][0], all["a"][1]), (None, Some(exemplar(300))));
        assert_eq!(all["a"][BUCKETS - 1], Some(exemplar(20_000_000)));
        assert_eq!(all["b"][0], Some(exemplar(1)));
        exemplars.keep(["b", "c"].into_iter());
        let all = exemplars.all();
        assert_eq!((all.len(), all["b"][0]), (1, Some(exemplar(1))));
    }
}
