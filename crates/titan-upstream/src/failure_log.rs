//! Failures of an upstream: recorded where they happen, for the lines that tell the operator.
//!
//! The log is bounded by the number of causes. Of each cause the first failure is described, and the others are
//! counted until both are taken: under a flood of failures, recording one costs a load and an addition.

use arc_swap::ArcSwapOption;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;
use titan_io::error::Kind;

/// The failures since the log was last taken, by cause.
pub struct FailureLog(Box<[FailureCount]>);

/// The failures of one cause.
#[derive(Default)]
struct FailureCount {
    first: ArcSwapOption<(SystemTime, FailureDetail)>,
    count: AtomicU64,
}

/// Why something went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// An attempt has failed, or there was none.
    Failed(Kind),
    /// A name has not resolved.
    Name,
    /// A failed attempt was not repeated because the budget for retries is used up.
    RetryBudget,
    /// An endpoint has responded, with an error.
    ErrorResponse,
    /// QUIC does not get through to an endpoint, for which HTTP/2 will do.
    WithoutQuic,
}

/// The description of one failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailureDetail {
    /// The reason, with the endpoint or the name where there is one.
    pub what: String,
    /// The route of the request that failed.
    pub route: Option<String>,
    /// The id of that request.
    pub request: Option<String>,
}

/// The codes of the causes that are no kinds, after those of kinds.
const OTHERS: [&str; 4] = ["name", "retry-budget", "error-response", "without-quic"];

impl FailureLog {
    /// Counts a failure; `describe` describes it if it is the first.
    pub fn note(&self, cause: Cause, describe: impl FnOnce() -> FailureDetail) {
        let Some(counted) = self.of(cause) else { return };
        counted.count.fetch_add(1, Ordering::Relaxed);
        if self.is_wanted(cause) {
            counted.first.store(Some(Arc::new((SystemTime::now(), describe()))));
        }
    }

    /// Whether the next one with this cause is described.
    pub fn is_wanted(&self, cause: Cause) -> bool {
        self.of(cause).is_some_and(|counted| counted.first.load().is_none())
    }

    /// The count of a cause; none for refusals of policies, which are not failures of an upstream.
    fn of(&self, cause: Cause) -> Option<&FailureCount> {
        match cause {
            Cause::Failed(kind) => Some(&self.0[kind.index()?]),
            Cause::Name => self.0.get(Kind::CODES.len()),
            Cause::RetryBudget => self.0.get(Kind::CODES.len() + 1),
            Cause::ErrorResponse => self.0.get(Kind::CODES.len() + 2),
            Cause::WithoutQuic => self.0.get(Kind::CODES.len() + 3),
        }
    }

    /// Takes the code of each cause, its first failure and when that was, and their number; counting starts over.
    pub fn take(
        &self,
    ) -> impl Iterator<Item = (&'static str, Arc<(SystemTime, FailureDetail)>, u64)> {
        let codes = Kind::CODES.iter().copied().chain(OTHERS);
        codes.zip(&self.0).filter_map(|(code, counted)| {
            // Far cheaper than to take nothing, and this is asked of each upstream, each second.
            if counted.count.load(Ordering::Relaxed) == 0 {
                return None;
            }
            let first = counted.first.swap(None)?;
            Some((code, first, counted.count.swap(0, Ordering::Relaxed)))
        })
    }
}

impl FailureDetail {
    /// That endpoint is spoken to over HTTP/2, for so many seconds.
    pub fn of_quic(address: &impl fmt::Display, seconds: u64) -> FailureDetail {
        let what = format!(
            "{address}: HTTP/3 does not get through over UDP; new connections speak HTTP/2 for {seconds} s"
        );
        FailureDetail { what, route: None, request: None }
    }

    /// A probe of the endpoint at that address which could not be made.
    pub fn of_probe(address: &impl fmt::Display, why: &str) -> FailureDetail {
        let what = format!("{address}: {why}; it was not probed");
        FailureDetail { what, route: None, request: None }
    }

    /// A name that stands for so many addresses, of which so many are used.
    pub fn of_surplus(name: &str, (count, used): (usize, usize), most: usize) -> FailureDetail {
        let what = format!(
            "{name} stands for {count} addresses, of which {used} are used: an upstream has at most {most} endpoints"
        );
        FailureDetail { what, route: None, request: None }
    }

    /// A name that has no address.
    pub fn of_name(name: &str, reason: &str) -> FailureDetail {
        let what = format!("{name} does not resolve: {reason}");
        FailureDetail { what, route: None, request: None }
    }
}

impl Default for FailureLog {
    fn default() -> FailureLog {
        let causes = Kind::CODES.len() + OTHERS.len();
        FailureLog(std::iter::repeat_with(FailureCount::default).take(causes).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detail(what: &str) -> FailureDetail {
        FailureDetail { what: what.to_owned(), route: None, request: None }
    }

    fn taken(failure_log: &FailureLog) -> Vec<(&'static str, String, u64)> {
        failure_log.take().map(|(code, first, count)| (code, first.1.what.clone(), count)).collect()
    }

    #[test]
    fn the_first_of_each_cause_is_described_and_the_others_are_counted() {
        let failure_log = FailureLog::default();
        assert_eq!(taken(&failure_log), []);
        failure_log.note(Cause::Failed(Kind::Connect), || detail("first"));
        for _ in 0..2 {
            let never = || panic!("it is described already");
            failure_log.note(Cause::Failed(Kind::Connect), never);
        }
        failure_log.note(Cause::Name, || detail("a.test"));
        failure_log.note(Cause::RetryBudget, || detail("no retry"));
        failure_log.note(Cause::ErrorResponse, || detail("status 500"));
        failure_log.note(Cause::WithoutQuic, || detail("over HTTP/2"));
        let told = [
            ("connect", "first".to_owned(), 3),
            ("name", "a.test".to_owned(), 1),
            ("retry-budget", "no retry".to_owned(), 1),
            ("error-response", "status 500".to_owned(), 1),
            ("without-quic", "over HTTP/2".to_owned(), 1),
        ];
        assert_eq!(taken(&failure_log), told);
        assert_eq!(taken(&failure_log), []);
        failure_log.note(Cause::Failed(Kind::Connect), || detail("later"));
        assert_eq!(taken(&failure_log), [("connect", "later".to_owned(), 1)]);
    }
}
