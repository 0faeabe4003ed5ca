//! Memory that all bodies share, over all workers. Clients decide how many bodies there are, how large they are, and
//! how slowly they move; so each client gets only a share of it.

use crate::network::ClientNetwork;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Memory of which each client may have a share.
pub struct ClientMemory {
    most: usize,
    used: Arc<UsedMemory>,
}

/// What bodies have of such memory, whichever limit each of them began under.
pub struct UsedMemory {
    all: AtomicUsize,
    /// What clients have of it, each at the place that a hash of its network chooses. No client can foresee with which
    /// others it shares its place.
    shares: Box<[AtomicUsize]>,
    hasher: RandomState,
}

/// The memory that one body has reserved; released when dropped.
pub struct Reservation<'m> {
    all: Budget<'m>,
    share: Budget<'m>,
    bytes: usize,
}

/// A part of the memory, and how much of it may be used.
struct Budget<'m> {
    most: usize,
    used: &'m AtomicUsize,
}

/// In how many places clients are counted.
const SHARES: usize = 1024;
/// Which part of the memory one client may have, if that is not less than `LEAST_SHARE`.
const SHARE: usize = 4;
/// What one client may have in any case: the largest window that can be configured fits in.
const LEAST_SHARE: usize = 32 << 20;
/// Which part is kept for bodies that are being decoded already: they may grow where no further one begins.
const RESERVE: usize = 8;

impl ClientMemory {
    /// That many bytes, some of which may be used already.
    pub fn new(most: usize, used: Arc<UsedMemory>) -> ClientMemory {
        ClientMemory { most, used }
    }

    /// How many bytes are used, and how many there may be.
    pub fn figures(&self) -> (usize, usize) {
        (self.used.all.load(Ordering::Relaxed), self.most)
    }

    /// For a body of that client, which has no memory yet.
    pub fn of(&self, client: Option<ClientNetwork>) -> Reservation<'_> {
        let ClientMemory { most, used } = self;
        let UsedMemory { all, shares, hasher } = &**used;
        let hash = usize::try_from(hasher.hash_one(client) % SHARES as u64);
        let of_one = (most / SHARE).max(LEAST_SHARE).min(*most);
        Reservation {
            all: Budget { most: *most, used: all },
            share: Budget { most: of_one, used: &shares[hash.unwrap_or_default()] },
            bytes: 0,
        }
    }
}

impl Default for UsedMemory {
    fn default() -> UsedMemory {
        let shares = std::iter::repeat_with(AtomicUsize::default).take(SHARES).collect();
        UsedMemory { all: AtomicUsize::default(), shares, hasher: RandomState::new() }
    }
}

impl Reservation<'_> {
    /// Takes the bytes that are missing to that many. If there is no room for them it takes nothing.
    pub fn grow(&mut self, bytes: usize) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        let is_first = self.bytes == 0;
        let fits = self.share.take(more, is_first)
            && (self.all.take(more, is_first) || {
                self.share.give_back(more);
                false
            });
        self.bytes += if fits { more } else { 0 };
        fits
    }

    /// Gives back what exceeds that many bytes.
    pub fn shrink(&mut self, bytes: usize) {
        let less = self.bytes.saturating_sub(bytes);
        self.share.give_back(less);
        self.all.give_back(less);
        self.bytes -= less;
    }
}

impl Reservation<'_> {
    /// How much it has.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.shrink(0);
    }
}

impl Budget<'_> {
    fn take(&self, bytes: usize, is_first: bool) -> bool {
        let most = if is_first { self.most - self.most / RESERVE } else { self.most };
        let add = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= most);
        bytes == 0 || self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn client(number: u8) -> Option<ClientNetwork> {
        Some(ClientNetwork::of([192, 0, 2, number].into()))
    }

    /// Two clients that are counted apart.
    fn strangers(memory: &ClientMemory) -> [Option<ClientNetwork>; 2] {
        let place = |client| std::ptr::from_ref(memory.of(client).share.used);
        let other = (1..=255).map(client).find(|it| place(*it) != place(client(0)));
        [client(0), other.unwrap()]
    }

    #[test]
    fn one_client_gets_its_share_and_others_get_theirs() {
        let memory = ClientMemory::new(256 * MIB, Arc::default());
        let [one, other] = strangers(&memory);
        let mut bodies: Vec<_> = (0..100).map(|_| memory.of(one)).collect();
        let begun = bodies.iter_mut().filter_map(|body| body.grow(4 * MIB).then_some(()));
        assert_eq!(begun.count(), 14, "seven eighths of a quarter");
        assert!(bodies[0].grow(12 * MIB), "what runs may grow");
        assert!(!bodies[0].grow(12 * MIB + 1));
        assert!(memory.of(other).grow(4 * MIB));
        bodies.clear();
        assert_eq!(memory.used.all.load(Ordering::Relaxed), 0);
        assert!(memory.of(one).grow(56 * MIB));
    }

    #[test]
    fn all_together_get_no_more_than_there_is() {
        let memory = ClientMemory::new(64 * MIB, Arc::default());
        let mut bodies: Vec<_> = (0..=255).map(|number| memory.of(client(number))).collect();
        let begun = bodies.iter_mut().filter_map(|body| body.grow(MIB).then_some(()));
        assert_eq!(begun.count(), 56);
        assert!(bodies[0].grow(9 * MIB) && !bodies[1].grow(2 * MIB));
        bodies[0].shrink(0);
        assert!(bodies[1].grow(2 * MIB));
    }

    #[test]
    fn what_is_used_counts_whatever_the_limit_was() {
        let used = Arc::<UsedMemory>::default();
        let before = ClientMemory::new(4 * MIB, Arc::clone(&used));
        let mut old = before.of(client(0));
        assert!(old.grow(3 * MIB));
        let after = ClientMemory::new(2 * MIB, used);
        assert!(!after.of(client(1)).grow(1), "there is more in use than there may be");
        old.shrink(MIB);
        assert!(!after.of(client(1)).grow(MIB) && after.of(client(1)).grow(MIB / 2));
    }
}
