//! What the first bytes of the data choose.

/// Bytes that choose, before those that are sent.
pub const CHOICES: usize = 4;
