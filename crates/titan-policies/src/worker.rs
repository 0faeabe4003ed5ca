//! What policies keep for the requests of one worker.

use crate::authorise::{Decisions, Remembered};
use crate::compress::Encoders;
use crate::jwt::Caches;
use std::rc::Rc;

/// What the policies of one worker keep.
pub struct PerWorker {
    /// The worker's place among the others.
    pub index: usize,
    /// Tokens that were found valid.
    pub tokens: Caches,
    /// Passwords that were found right, and wrong ones.
    pub passwords: Remembered,
    /// Decisions of services that are asked about requests.
    pub decisions: Decisions,
    /// Memory for compression.
    pub encoders: Rc<Encoders>,
}

impl PerWorker {
    /// Of the worker at that place, which has served nothing yet.
    pub fn new(index: usize) -> PerWorker {
        PerWorker {
            index,
            tokens: Caches::default(),
            passwords: Remembered::default(),
            decisions: Decisions::default(),
            encoders: Rc::default(),
        }
    }
}
