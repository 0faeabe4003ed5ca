//! Tokens that a worker has found valid, so that each signature is checked once.

use super::Verified;
use super::generation::Generation;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The tokens of a worker, by their policy.
#[derive(Default)]
pub struct Caches(RefCell<BTreeMap<u64, OfPolicy>>);

/// The tokens of a policy, for as long as it lives.
struct OfPolicy {
    policy: Weak<Generation>,
    tokens: Cache,
}

/// The tokens of one policy: a bounded table of sets. A token may be in one of two, so that most of the table is
/// in use before one has to go: then the one of both that was used least lately.
pub(super) struct Cache {
    sets: Vec<Set>,
    /// No client can make tokens that collide in one set.
    seed: u64,
    /// Counts uses.
    uses: u64,
}

type Set = [Option<Entry>; WAYS];

struct Entry {
    hash: u64,
    /// When it was used last.
    used: u64,
    /// The keys that it was checked with.
    generation: u64,
    /// All of it: that two tokens have the same hash must not make one good.
    token: Box<[u8]>,
    verified: Rc<Verified>,
}

/// Where a token may be.
struct Places {
    sets: [usize; 2],
    hash: u64,
}

/// The tokens of a set.
const WAYS: usize = 4;
/// Bytes of a token that is remembered: larger ones are rare, and would make the bound on memory a large one.
const MAX_KEPT: usize = 4096;

impl Caches {
    /// The tokens of a policy, of which as many as `size` are kept.
    pub(super) fn with<T>(
        &self,
        policy: &Arc<Generation>,
        size: usize,
        look: impl FnOnce(&mut Cache) -> T,
    ) -> T {
        let mut caches = self.0.borrow_mut();
        let of_policy = caches.entry(policy.first()).or_insert_with(|| OfPolicy {
            policy: Arc::downgrade(policy),
            tokens: Cache::new(size),
        });
        look(&mut of_policy.tokens)
    }

    /// Forgets the tokens of policies that are gone.
    pub(super) fn sweep(&self) {
        self.0.borrow_mut().retain(|_, it| it.policy.strong_count() > 0);
    }
}

impl Cache {
    pub(super) fn new(size: usize) -> Cache {
        let mut sets = Vec::new();
        sets.resize_with(size.div_ceil(WAYS), Set::default);
        Cache { sets, seed: RandomState::new().build_hasher().finish(), uses: 0 }
    }

    /// What was found in the token, if that was with these keys and still holds.
    pub(super) fn get(
        &mut self,
        token: &[u8],
        generation: u64,
        now: Duration,
    ) -> Option<Rc<Verified>> {
        let Places { sets, hash } = self.places_of(token)?;
        self.uses += 1;
        let holds = |entry: &Entry| entry.hash == hash && *entry.token == *token;
        let is_in = |set: &usize| self.sets[*set].iter().flatten().any(holds);
        let set = sets.into_iter().find(is_in)?;
        let entry = self.sets[set].iter_mut().flatten().find(|entry| holds(entry))?;
        entry.used = self.uses;
        let is_good = entry.generation == generation && entry.verified.holds_at(now);
        is_good.then(|| Rc::clone(&entry.verified))
    }

    pub(super) fn put(&mut self, token: &[u8], generation: u64, verified: &Rc<Verified>) {
        if token.len() > MAX_KEPT {
            return;
        }
        let Some(Places { sets, hash }) = self.places_of(token) else { return };
        self.uses += 1;
        let is_same = |entry: &Entry| entry.hash == hash && *entry.token == *token;
        // What is there already comes first, then what is free, in the emptier set, then what was used least lately.
        let rank = |set: usize, way: usize| match &self.sets[set][way] {
            Some(entry) if is_same(entry) => (0, 0),
            None => (1, self.sets[set].iter().flatten().count() as u64),
            Some(entry) => (2, entry.used),
        };
        let slots = sets.into_iter().flat_map(|set| (0..WAYS).map(move |way| (set, way)));
        let Some((set, way)) = slots.min_by_key(|&(set, way)| rank(set, way)) else {
            return;
        };
        let (token, verified) = (token.into(), Rc::clone(verified));
        self.sets[set][way] = Some(Entry { hash, used: self.uses, generation, token, verified });
    }

    fn places_of(&self, token: &[u8]) -> Option<Places> {
        let hash = xxh3_64_with_seed(token, self.seed);
        let count = u64::try_from(self.sets.len()).ok().filter(|count| *count > 0)?;
        let set_of = |hash: u64| usize::try_from(hash % count).ok();
        Some(Places { sets: [set_of(hash)?, set_of(hash.rotate_left(32))?], hash })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(1_000);

    fn verified() -> Rc<Verified> {
        Rc::new(Verified::for_tests(Duration::from_secs(900), Duration::from_secs(1_100)))
    }

    #[test]
    fn a_token_is_known_again_with_the_same_keys_while_it_holds() {
        let mut cache = Cache::new(8);
        cache.put(b"a.b.c", 1, &verified());
        assert!(cache.get(b"a.b.c", 1, NOW).is_some());
        assert!(cache.get(b"a.b.d", 1, NOW).is_none());
        assert!(cache.get(b"a.b.c", 2, NOW).is_none(), "the keys have changed");
        assert!(cache.get(b"a.b.c", 1, Duration::from_secs(1_100)).is_none(), "it has ended");
        assert!(cache.get(b"a.b.c", 1, Duration::from_secs(899)).is_none(), "the clock went back");
    }

    #[test]
    fn there_are_no_more_tokens_than_allowed() {
        let mut cache = Cache::new(8);
        let token = |number: usize| format!("a.{number}.c").into_bytes();
        (0..1_000).for_each(|number| cache.put(&token(number), 1, &verified()));
        let kept = (0..1_000).filter(|&it| cache.get(&token(it), 1, NOW).is_some()).count();
        assert!((1..=8).contains(&kept), "{kept}");
        let mut none = Cache::new(0);
        none.put(b"a.b.c", 1, &verified());
        assert!(none.get(b"a.b.c", 1, NOW).is_none());
    }

    #[test]
    fn tokens_stay_while_much_of_the_table_is_free() {
        let mut cache = Cache::new(4096);
        let token = |number: usize| format!("a.{number}.c").into_bytes();
        (0..2560).for_each(|number| cache.put(&token(number), 1, &verified()));
        let kept = (0..2560).filter(|&it| cache.get(&token(it), 1, NOW).is_some()).count();
        assert!(kept > 2540, "{kept}");
    }

    #[test]
    fn the_one_used_least_lately_makes_room() {
        let mut cache = Cache::new(WAYS);
        let token = |number: usize| format!("a.{number}.c").into_bytes();
        (0..WAYS).for_each(|number| cache.put(&token(number), 1, &verified()));
        (1..WAYS).for_each(|number| assert!(cache.get(&token(number), 1, NOW).is_some()));
        cache.put(&token(WAYS), 1, &verified());
        assert!(cache.get(&token(0), 1, NOW).is_none());
        assert!((1..=WAYS).all(|number| cache.get(&token(number), 1, NOW).is_some()));
    }

    #[test]
    fn a_token_of_any_size_is_not_kept() {
        let mut cache = Cache::new(8);
        let long = vec![b'a'; MAX_KEPT + 1];
        cache.put(&long, 1, &verified());
        assert!(cache.get(&long, 1, NOW).is_none());
    }

    #[test]
    fn tokens_are_kept_as_long_as_their_policy() {
        let (caches, policies) = (Caches::default(), [(); 2].map(|()| Generation::new()));
        for policy in &policies {
            caches.with(policy, 8, |cache| cache.put(b"a.b.c", policy.now(), &verified()));
        }
        let [first, second] = policies;
        caches.sweep();
        let is_known = |policy: &Arc<Generation>| {
            caches.with(policy, 8, |cache| cache.get(b"a.b.c", policy.now(), NOW).is_some())
        };
        assert!(is_known(&first) && is_known(&second));
        first.change();
        assert!(!is_known(&first) && is_known(&second));
        drop(first);
        caches.sweep();
        assert!(is_known(&second) && caches.0.borrow().len() == 1);
    }
}
