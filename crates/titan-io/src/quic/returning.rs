//! Tokens of clients that come back (RFC 9000 section 8.1.3), with which they need not validate their addresses: each is good once.

use quinn_proto::{TokenLog, TokenReuseError, ValidationTokenConfig};
use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long a token is good.
const LIFETIME: Duration = Duration::from_secs(24 * 3600);
/// Tokens for each connection whose client has validated its address.
const SENT: u32 = 1;
/// Tokens whose use is remembered: 3 MiB or so. Where more are used within their lifetime, those that were issued first are good no more.
const REMEMBERED: usize = 65_536;

/// What clients that come back are given, and what is taken from them: on all workers the same.
pub(super) fn validation_tokens() -> ValidationTokenConfig {
    static USED: LazyLock<Arc<UsedTokens>> =
        LazyLock::new(|| Arc::new(UsedTokens::new(REMEMBERED)));
    let mut config = ValidationTokenConfig::default();
    config.lifetime(LIFETIME).sent(SENT).log(Arc::clone(&*USED) as _);
    config
}

/// The tokens that were used, as far as they are remembered. Whether one has expired is asked before.
struct UsedTokens {
    newest: Mutex<Newest>,
    most: usize,
}

/// Those that were issued last.
#[derive(Default)]
struct Newest {
    /// Each by the second in which it was issued, counted from the beginning of 1970, and its nonce.
    used: BTreeSet<(u64, u128)>,
    /// Of tokens that were issued up to that second it is not known any more whether they were used.
    forgotten: Option<u64>,
}

impl UsedTokens {
    fn new(most: usize) -> UsedTokens {
        UsedTokens { newest: Mutex::default(), most }
    }
}

impl TokenLog for UsedTokens {
    fn check_and_insert(
        &self,
        nonce: u128,
        issued: SystemTime,
        _: Duration,
    ) -> Result<(), TokenReuseError> {
        let issued = issued.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        if newest.forgotten.is_some_and(|until| issued <= until) {
            return Err(TokenReuseError);
        }
        let is_first = newest.used.insert((issued, nonce));
        if newest.used.len() > self.most {
            newest.forgotten = newest.used.pop_first().map(|(issued, _)| issued);
        }
        if is_first { Ok(()) } else { Err(TokenReuseError) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::collections::HashSet;

    /// Whether a token that was issued in that second is taken.
    fn takes(used: &UsedTokens, nonce: u128, issued: u64) -> bool {
        let issued = UNIX_EPOCH + Duration::from_secs(issued);
        used.check_and_insert(nonce, issued, LIFETIME).is_ok()
    }

    #[test]
    fn a_token_is_good_once() {
        let used = UsedTokens::new(REMEMBERED);
        assert!(takes(&used, 7, 5000));
        assert!(!takes(&used, 7, 5000));
        assert!(takes(&used, 8, 5000) && takes(&used, 9, 4000) && takes(&used, 10, 90_000));
        assert!(!takes(&used, 7, 5000) && !takes(&used, 9, 4000));
    }

    #[test]
    fn new_tokens_are_good_however_many_were_used() {
        let used = UsedTokens::new(10);
        for second in 0..1000 {
            assert!(takes(&used, 1, second) && takes(&used, 2, second), "{second}");
        }
        assert!(!takes(&used, 3, 900), "whether it was used is not known");
        assert!(takes(&used, 3, 999));
        assert_eq!(used.newest.lock().unwrap().used.len(), 10);
    }

    proptest! {
        /// The naive twin remembers everything.
        #[test]
        fn no_token_is_good_twice(tokens in vec((0..4u128, 0..32u64), 0..256), most in 1..16_usize) {
            let (used, mut all) = (UsedTokens::new(most), HashSet::new());
            for (nonce, issued) in tokens {
                let is_first = all.insert((nonce, issued));
                let is_taken = takes(&used, nonce, issued);
                prop_assert!(is_first || !is_taken);
                let is_enough = all.len() <= most;
                prop_assert!(!is_enough || is_first == is_taken);
            }
        }
    }
}
