//! Chance, for choices that anybody may guess.

use std::cell::Cell;
use std::hash::{BuildHasher, Hasher, RandomState};

/// A source of random numbers (xorshift64*) for one thread. Suitable for choosing endpoints, not for secrets.
pub struct Random(Cell<u64>);

/// One that differs from the others, and from start to start.
impl Default for Random {
    fn default() -> Random {
        // Nothing but 0 would follow a 0.
        Random(Cell::new(RandomState::new().build_hasher().finish() | 1))
    }
}

impl Random {
    /// The next number.
    pub fn next(&self) -> u64 {
        let mut state = self.0.get();
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        self.0.set(state);
        state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}
