//! Exemplars: for each bucket of a histogram one exchange that fell into it, by its trace. Nothing here is for workers: who
//! tells of exchanges notes them, and who writes metrics reads them.

use crate::counter::{BUCKETS, Scale};
use crate::registry::Registry;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::SystemTime;

/// Those of a histogram of that scale. They take no memory until there is one.
#[derive(Default)]
pub struct Exemplars<S> {
    buckets: OnceLock<Box<Buckets>>,
    scale: PhantomData<S>,
}

type Buckets = Mutex<[Option<Exemplar>; BUCKETS]>;

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

/// What makes them those of the same thing.
#[derive(PartialEq, Eq, Hash)]
struct ExemplarsKey(String);

impl<S: Scale + Default + Send + Sync + 'static> Exemplars<S> {
    /// Those of the thing with that name.
    pub fn of(registry: &Registry, name: &str) -> Arc<Exemplars<S>> {
        registry.shared(ExemplarsKey(name.to_owned()), Exemplars::default)
    }

    /// Notes one, in place of the one before in its bucket. It takes a lock: it is not for a worker.
    pub fn note(&self, exemplar: Exemplar) {
        let bucket = S::BOUNDS.iter().position(|&bound| exemplar.value <= bound);
        let buckets = self.buckets.get_or_init(Box::default);
        let mut buckets = buckets.lock().unwrap_or_else(PoisonError::into_inner);
        buckets[bucket.unwrap_or(BUCKETS - 1)] = Some(exemplar);
    }

    /// The one of each bucket that has one.
    pub fn all(&self) -> [Option<Exemplar>; BUCKETS] {
        let Some(buckets) = self.buckets.get() else { return Default::default() };
        *buckets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counter::Durations;

    #[test]
    fn each_bucket_has_the_last_one_that_fell_into_it() {
        let registry = Registry::default();
        let exemplars = Exemplars::<Durations>::of(&registry, "a");
        assert_eq!(exemplars.all(), [None; BUCKETS]);
        let exemplar = |value| Exemplar { trace: [1; 16], value, at: SystemTime::UNIX_EPOCH };
        for value in [251, 300, 20_000_000] {
            exemplars.note(exemplar(value));
        }
        let all = Exemplars::<Durations>::of(&registry, "a").all();
        assert_eq!((all[0], all[1]), (None, Some(exemplar(300))));
        assert_eq!(all[BUCKETS - 1], Some(exemplar(20_000_000)));
        assert_eq!(Exemplars::<Durations>::of(&registry, "b").all(), [None; BUCKETS]);
    }
}
