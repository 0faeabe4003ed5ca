//! Tokens of clients that come back (RFC 9000 section 8.1.3), with which they need not validate their addresses: each is good once.

use quinn_proto::{TokenLog, TokenReuseError, ValidationTokenConfig};
use std::collections::HashSet;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long a token is good.
const LIFETIME: Duration = Duration::from_secs(24 * 3600);
/// Tokens for each connection whose client has validated its address.
const SENT: u32 = 1;
/// Tokens of one period whose use is remembered: 2 MiB or so. Beyond that, clients validate their addresses again.
const REMEMBERED: usize = 65_536;

/// What clients that come back are given, and what is taken from them: on all workers the same.
pub(super) fn validation_tokens() -> ValidationTokenConfig {
    static USED: LazyLock<Arc<UsedTokens>> =
        LazyLock::new(|| Arc::new(UsedTokens::new(REMEMBERED)));
    let mut config = ValidationTokenConfig::default();
    config.lifetime(LIFETIME).sent(SENT).log(Arc::clone(&*USED) as _);
    config
}

/// The tokens that were used and have not expired.
struct UsedTokens {
    periods: Mutex<Periods>,
    /// Of one period.
    most: usize,
}

/// Used tokens by when they were issued, in periods as long as a token is good: what is older than the last two has expired.
#[derive(Default)]
struct Periods {
    /// The last period, counted from the beginning of 1970.
    last: u64,
    of_last: HashSet<u128>,
    of_last_but_one: HashSet<u128>,
}

impl UsedTokens {
    fn new(most: usize) -> UsedTokens {
        UsedTokens { periods: Mutex::default(), most }
    }
}

impl TokenLog for UsedTokens {
    fn check_and_insert(
        &self,
        nonce: u128,
        issued: SystemTime,
        lifetime: Duration,
    ) -> Result<(), TokenReuseError> {
        let issued = issued.duration_since(UNIX_EPOCH).unwrap_or_default();
        let period = issued.as_secs() / lifetime.as_secs().max(1);
        let mut periods = self.periods.lock().unwrap_or_else(PoisonError::into_inner);
        let used = periods.of(period).ok_or(TokenReuseError)?;
        if used.len() < self.most && used.insert(nonce) { Ok(()) } else { Err(TokenReuseError) }
    }
}

impl Periods {
    /// The used tokens of a period. None where they are forgotten.
    fn of(&mut self, period: u64) -> Option<&mut HashSet<u128>> {
        if period > self.last {
            let of_before = std::mem::take(&mut self.of_last);
            self.of_last_but_one = if period == self.last + 1 { of_before } else { HashSet::new() };
            self.last = period;
        }
        match self.last - period {
            0 => Some(&mut self.of_last),
            1 => Some(&mut self.of_last_but_one),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    const DAY: u64 = LIFETIME.as_secs();

    /// Whether a token that was issued in that second is taken.
    fn takes(used: &UsedTokens, nonce: u128, issued: u64) -> bool {
        let issued = UNIX_EPOCH + Duration::from_secs(issued);
        used.check_and_insert(nonce, issued, LIFETIME).is_ok()
    }

    #[test]
    fn a_token_is_good_once() {
        let used = UsedTokens::new(REMEMBERED);
        assert!(takes(&used, 7, 5 * DAY));
        assert!(!takes(&used, 7, 5 * DAY));
        assert!(takes(&used, 8, 5 * DAY));
        assert!(takes(&used, 9, 6 * DAY), "a day later");
        assert!(!takes(&used, 7, 5 * DAY), "that day is still remembered");
        assert!(takes(&used, 10, 7 * DAY));
        assert!(!takes(&used, 11, 5 * DAY), "that day is forgotten, and so are its tokens");
    }

    #[test]
    fn no_token_is_good_where_there_are_too_many() {
        let used = UsedTokens::new(2);
        assert!(takes(&used, 1, DAY) && takes(&used, 2, DAY));
        assert!(!takes(&used, 3, DAY));
        assert!(takes(&used, 4, 2 * DAY), "those of the next day count by themselves");
    }

    proptest! {
        /// The naive twin remembers everything.
        #[test]
        fn the_same_as_with_a_memory_of_everything(tokens in vec((0..8u128, 0..6u64, 0..DAY), 0..64)) {
            let (used, mut all, mut newest) = (UsedTokens::new(REMEMBERED), HashSet::new(), 0);
            for (number, day, second) in tokens {
                let issued = day * DAY + second;
                let nonce = (u128::from(issued) << 64) | number;
                newest = newest.max(day);
                let is_first = day + 1 >= newest && all.insert(nonce);
                prop_assert_eq!(takes(&used, nonce, issued), is_first);
            }
        }
    }
}
