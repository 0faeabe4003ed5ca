//! TLS handshakes that a listener has refused, or that have failed: the first of each cause, and how many there were.

use arc_swap::ArcSwapOption;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;
use titan_io::tls::Refused;

/// Handshakes of one cause, since somebody asked last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedHandshakes {
    /// The name of the listener.
    pub listener: String,
    /// The cause: `no-certificate`, `certificate`, `handshake`, `plain` or `gone`.
    pub code: &'static str,
    /// Why the first one did not succeed. Parts of it come from the network.
    pub what: String,
    /// How many there were.
    pub count: u64,
    /// When the first one was.
    pub at: SystemTime,
}

/// Those of a listener, by cause. Noting one costs a load and an addition once the first one is described.
#[derive(Default)]
pub(crate) struct RefusalLog([OfCause; CODES.len()]);

/// Those of one cause.
#[derive(Default)]
struct OfCause {
    first: ArcSwapOption<(SystemTime, String)>,
    count: AtomicU64,
}

const CODES: [&str; 5] = ["no-certificate", "certificate", "handshake", "plain", "gone"];

impl RefusalLog {
    /// Notes a handshake that has not succeeded. A connection on which nothing comes is none.
    pub(crate) fn note(&self, refused: &Refused) {
        let (place, what): (usize, &str) = match refused {
            Refused::NoCertificate => (0, "the client has presented no certificate"),
            Refused::Certificate(why) => (1, why),
            Refused::Failed(why) => (2, why),
            Refused::Plain => (3, "the client speaks HTTP without TLS"),
            Refused::Gone => (4, "the client has ended it, or has not completed it in time"),
            Refused::Silent => return,
        };
        let OfCause { first, count } = &self.0[place];
        count.fetch_add(1, Ordering::Relaxed);
        if first.load().is_none() {
            let what = match refused {
                Refused::Certificate(_) => {
                    format!("a client's certificate is not accepted: {what}")
                }
                _ => format!("handshakes fail: {what}"),
            };
            first.store(Some(Arc::new((SystemTime::now(), what))));
        }
    }

    /// Takes what was noted; counting starts over.
    pub(crate) fn take(&self, listener: &str) -> Vec<RefusedHandshakes> {
        let told = CODES.into_iter().zip(&self.0).filter_map(|(code, of)| {
            let first = of.first.swap(None)?;
            let (at, what) = (first.0, first.1.clone());
            let count = of.count.swap(0, Ordering::Relaxed);
            Some(RefusedHandshakes { listener: listener.to_owned(), code, what, count, at })
        });
        told.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_each_cause_is_described_and_the_others_are_counted() {
        let log = RefusalLog::default();
        let failed = |why: &str| Refused::Failed(why.to_owned());
        [failed("a"), failed("b"), Refused::Plain, Refused::Silent]
            .iter()
            .for_each(|it| log.note(it));
        let told = log.take("web");
        let told: Vec<_> = told.iter().map(|it| (it.code, &*it.what, it.count)).collect();
        let plain = "handshakes fail: the client speaks HTTP without TLS";
        assert_eq!(told, [("handshake", "handshakes fail: a", 2), ("plain", plain, 1)]);
        assert_eq!(log.take("web"), []);
    }
}
