//! Which configuration is in force, and how the last attempt to put one in force went.

use crate::hex::hex;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

/// What metrics tell of the configuration.
#[derive(Debug)]
pub struct Reloads(Mutex<Attempts>);

/// The attempts to put another configuration in force, and what they came to.
#[derive(Clone, Debug)]
pub(crate) struct Attempts {
    /// The SHA-256 of the file in force, in hexadecimal digits.
    pub(crate) digest: String,
    pub(crate) applied: u64,
    pub(crate) refused: u64,
    /// When the last one was made; `None` if none was since the start.
    pub(crate) last: Option<SystemTime>,
    /// Whether the last one, or the start, has succeeded.
    pub(crate) is_last_applied: bool,
}

impl Reloads {
    /// What there is to tell after the start with a file of that SHA-256.
    pub fn new(digest: [u8; 32]) -> Reloads {
        Reloads(Mutex::new(Attempts {
            digest: hex(digest),
            applied: 0,
            refused: 0,
            last: None,
            is_last_applied: true,
        }))
    }

    /// Notes that a file of that SHA-256 is in force.
    pub fn note_applied(&self, digest: [u8; 32], now: SystemTime) {
        let mut attempts = self.lock();
        attempts.digest = hex(digest);
        attempts.applied += 1;
        attempts.last = Some(now);
        attempts.is_last_applied = true;
    }

    /// Notes that a configuration was refused: the one before it is still in force.
    pub fn note_refused(&self, now: SystemTime) {
        let mut attempts = self.lock();
        attempts.refused += 1;
        attempts.last = Some(now);
        attempts.is_last_applied = false;
    }

    /// What there is to tell.
    pub(crate) fn attempts(&self) -> Attempts {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Attempts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
