//! Numbers that wander, the same everywhere.

/// xorshift64*: good enough to wander.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
    }

    pub(crate) fn choose<'a>(&mut self, from: &'a [impl AsRef<[u8]>]) -> &'a [u8] {
        from[self.next() as usize % from.len()].as_ref()
    }
}
