//! Passwords that a worker has found right, so that the slow check of each is made once in a while.

use crate::clock::{Clock, Moment};
use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use std::cell::{OnceCell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// What is remembered: digests under a key that the worker has made for itself and that nobody sees.
#[derive(Default)]
pub(crate) struct Remembered {
    key: OnceCell<Option<hmac::Key>>,
    known: RefCell<Known>,
}

/// A digest of what a request has shown and which users it was compared with.
pub(super) type Digest = [u8; 32];

#[derive(Default)]
struct Known {
    until: HashMap<Digest, Moment>,
    /// Each of them, the oldest first: all last equally long.
    order: VecDeque<Digest>,
}

/// For how long a password is remembered.
const LASTS: Duration = Duration::from_secs(60);
/// How many are: 100 octets each.
const MAX_REMEMBERED: usize = 4096;

impl Remembered {
    /// The digest of what was shown to users of that generation; none where the system has no randomness to give.
    pub(super) fn digest(&self, generation: u64, shown: &[u8]) -> Option<Digest> {
        let new = || hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new()).ok();
        let key = self.key.get_or_init(new).as_ref()?;
        let mut context = hmac::Context::with_key(key);
        context.update(&generation.to_be_bytes());
        context.update(shown);
        context.sign().as_ref().try_into().ok()
    }

    /// Whether it was found right not long ago.
    pub(super) fn has(&self, digest: &Digest, clock: &Clock) -> bool {
        let known = self.known.borrow();
        known.until.get(digest).is_some_and(|until| !clock.is_past(*until))
    }

    /// Notes that it is right.
    pub(super) fn insert(&self, digest: Digest, clock: &Clock) {
        let mut known = self.known.borrow_mut();
        known.make_room(clock);
        if known.until.insert(digest, clock.deadline(LASTS)).is_none() {
            known.order.push_back(digest);
        }
    }
}

impl Known {
    /// Forgets what is over, and the oldest where there are too many.
    fn make_room(&mut self, clock: &Clock) {
        while let Some(oldest) = self.order.front() {
            let is_over = self.until.get(oldest).is_none_or(|until| clock.is_past(*until));
            if !is_over && self.order.len() < MAX_REMEMBERED {
                return;
            }
            self.until.remove(oldest);
            self.order.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_was_right_is_known_for_a_while() {
        let (remembered, clock) = (Remembered::default(), Clock::new());
        let digest = |generation, shown: &str| {
            remembered.digest(generation, shown.as_bytes()).expect("there is randomness")
        };
        remembered.insert(digest(1, "eve:a"), &clock);
        assert!(remembered.has(&digest(1, "eve:a"), &clock));
        assert!(!remembered.has(&digest(1, "eve:b"), &clock));
        assert!(!remembered.has(&digest(2, "eve:a"), &clock), "somebody's password has changed");
        assert_ne!(Remembered::default().digest(1, b"eve:a"), Some(digest(1, "eve:a")));
        tokio::time::advance(LASTS - Duration::from_secs(1)).await;
        clock.tick();
        assert!(remembered.has(&digest(1, "eve:a"), &clock));
        tokio::time::advance(Duration::from_secs(2)).await;
        clock.tick();
        assert!(!remembered.has(&digest(1, "eve:a"), &clock));
        remembered.insert(digest(1, "bob:a"), &clock);
        assert_eq!(remembered.known.borrow().until.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn there_are_no_more_than_allowed() {
        let (remembered, clock) = (Remembered::default(), Clock::new());
        let digest = |number: usize| {
            let mut digest = [0; 32];
            digest[..8].copy_from_slice(&number.to_be_bytes());
            digest
        };
        (0..=MAX_REMEMBERED).for_each(|number| remembered.insert(digest(number), &clock));
        // Two may have been checked at the same time.
        remembered.insert(digest(MAX_REMEMBERED), &clock);
        let known = remembered.known.borrow();
        assert!(known.until.len() == known.order.len() && known.order.len() <= MAX_REMEMBERED);
        assert!(!known.until.contains_key(&digest(0)));
        assert!(known.until.contains_key(&digest(MAX_REMEMBERED)));
    }
}
