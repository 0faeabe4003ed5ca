//! Passwords that a worker has found right or wrong, so that each is checked slowly only once in a while.
//!
//! To cache a wrong one does not help an attacker: it is only refused sooner when the same one is sent again. Wrong
//! ones have their own slots, so that they do not push out right ones.

use crate::authorise::PASSWORD;
use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use std::cell::{OnceCell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::time::Duration;
use titan_io::clock::{Clock, CoarseInstant};
use titan_io::error::Kind;

/// What is remembered: digests under a random key that never leaves the worker.
#[derive(Default)]
pub(crate) struct Remembered {
    key: OnceCell<Option<hmac::Key>>,
    right: RefCell<CheckedDigests>,
    wrong: RefCell<CheckedDigests>,
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Right,
    Wrong,
}

/// A digest of what a request has shown and which users it was compared with.
pub(super) type Digest = [u8; 32];

#[derive(Default)]
struct CheckedDigests {
    until: HashMap<Digest, CoarseInstant>,
    /// Each of them, the oldest first: all last equally long.
    order: VecDeque<Digest>,
}

/// For how long a password is remembered.
const LASTS: Duration = Duration::from_secs(60);
/// How many are of each kind: 100 bytes each.
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

    /// What was found not long ago.
    pub(super) fn verdict(&self, digest: &Digest, clock: &Clock) -> Option<Verdict> {
        let is_in = |known: &RefCell<CheckedDigests>| known.borrow().has(digest, clock);
        if is_in(&self.right) {
            return Some(Verdict::Right);
        }
        is_in(&self.wrong).then_some(Verdict::Wrong)
    }

    /// Notes what was found.
    pub(super) fn insert(&self, digest: Digest, verdict: Verdict, clock: &Clock) {
        let known = match verdict {
            Verdict::Right => &self.right,
            Verdict::Wrong => &self.wrong,
        };
        known.borrow_mut().insert(digest, clock);
    }
}

impl From<Verdict> for Result<(), Kind> {
    fn from(verdict: Verdict) -> Result<(), Kind> {
        match verdict {
            Verdict::Right => Ok(()),
            Verdict::Wrong => Err(PASSWORD),
        }
    }
}

impl CheckedDigests {
    fn has(&self, digest: &Digest, clock: &Clock) -> bool {
        self.until.get(digest).is_some_and(|until| !clock.is_past(*until))
    }

    fn insert(&mut self, digest: Digest, clock: &Clock) {
        self.make_room(clock);
        if self.until.insert(digest, clock.deadline(LASTS)).is_none() {
            self.order.push_back(digest);
        }
    }

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
        let verdict = |digest| remembered.verdict(&digest, &clock);
        remembered.insert(digest(1, "eve:a"), Verdict::Right, &clock);
        remembered.insert(digest(1, "eve:c"), Verdict::Wrong, &clock);
        assert_eq!(verdict(digest(1, "eve:a")), Some(Verdict::Right));
        assert_eq!(verdict(digest(1, "eve:c")), Some(Verdict::Wrong));
        assert_eq!(verdict(digest(1, "eve:b")), None);
        assert_eq!(verdict(digest(2, "eve:a")), None, "somebody's password has changed");
        assert_eq!(verdict(digest(2, "eve:c")), None, "it may be right now");
        assert_ne!(Remembered::default().digest(1, b"eve:a"), Some(digest(1, "eve:a")));
        tokio::time::advance(LASTS - Duration::from_secs(1)).await;
        clock.tick();
        assert_eq!(verdict(digest(1, "eve:a")), Some(Verdict::Right));
        tokio::time::advance(Duration::from_secs(2)).await;
        clock.tick();
        assert_eq!((verdict(digest(1, "eve:a")), verdict(digest(1, "eve:c"))), (None, None));
        remembered.insert(digest(1, "bob:a"), Verdict::Right, &clock);
        assert_eq!(remembered.right.borrow().until.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn there_are_no_more_than_allowed() {
        let (remembered, clock) = (Remembered::default(), Clock::new());
        let digest = |number: usize| {
            let mut digest = [0; 32];
            digest[..8].copy_from_slice(&number.to_be_bytes());
            digest
        };
        let right = |number| remembered.insert(digest(number), Verdict::Right, &clock);
        (0..=MAX_REMEMBERED).for_each(right);
        // Two may have been checked at the same time.
        right(MAX_REMEMBERED);
        let wrong = |number| remembered.insert(digest(number), Verdict::Wrong, &clock);
        (0..2 * MAX_REMEMBERED).for_each(wrong);
        assert_eq!(remembered.wrong.borrow().until.len(), MAX_REMEMBERED);
        let known = remembered.right.borrow();
        assert!(known.until.len() == known.order.len() && known.order.len() <= MAX_REMEMBERED);
        assert!(!known.until.contains_key(&digest(0)));
        assert!(known.until.contains_key(&digest(MAX_REMEMBERED)));
    }
}
