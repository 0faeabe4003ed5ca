//! The calls that change something: an event for each, and how many there were.

use crate::access::Caller;
use crate::calls::{CALLS, Call, Entry};
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use titan_config::{LogArea, LogLevel};
use titan_http::{RequestHead, Status};
use titan_observe::events::{Event, Field, Log};

/// Where calls are noted.
pub(crate) struct Audit {
    log: Log,
    /// By call, in the order of [`CALLS`], and by outcome.
    counts: [[AtomicU64; OUTCOMES.len()]; CALLS.len()],
    denied: Mutex<Denied>,
}

/// Lines about calls that were denied.
#[derive(Default)]
struct Denied {
    /// Anybody can cause these.
    of_anybody: DeniedLines,
    /// These only who has a token: what is done with one is not to drown in the rest.
    of_tokens: DeniedLines,
}

/// How many lines there were.
#[derive(Default)]
struct DeniedLines {
    since: Option<Instant>,
    shown: u32,
    unshown: u64,
}

/// What came of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    Refused,
    Denied,
    Failed,
}

/// In the order of [`Outcome`].
const OUTCOMES: [&str; 4] = ["done", "refused", "denied", "failed"];
/// Lines of either kind about denied calls in each [`QUIET`].
const MOST_DENIED: u32 = 10;
const QUIET: Duration = Duration::from_secs(60);
/// Characters of a target that a line shows.
const MAX_TARGET: usize = 200;

impl Audit {
    pub(crate) fn new(log: Log) -> Audit {
        let counts = [const { [const { AtomicU64::new(0) }; OUTCOMES.len()] }; CALLS.len()];
        Audit { log, counts, denied: Mutex::default() }
    }

    /// Notes what came of a call that changes something. `more` is what else there is to say of it.
    pub(crate) fn note(
        &self,
        (entry, head): (&Entry, &RequestHead),
        who: &Caller,
        (outcome, status): (Outcome, Status),
        more: &str,
    ) {
        if let Some(place) = CALLS.iter().position(|it| it.call == entry.call) {
            self.counts[place][outcome as usize].fetch_add(1, Ordering::Relaxed);
        }
        let unshown = match outcome {
            Outcome::Denied => self.lock().lines(who).next(Instant::now()),
            Outcome::Done | Outcome::Refused | Outcome::Failed => Some(0),
        };
        let Some(unshown) = unshown else { return };
        let level = match outcome {
            Outcome::Done => LogLevel::Info,
            Outcome::Refused | Outcome::Denied | Outcome::Failed => LogLevel::Warn,
        };
        let mut line = format!("{} {}", entry.method.as_str(), target(head));
        let outcome = OUTCOMES[outcome as usize];
        let _ = write!(line, ": {outcome} ({})", status.code());
        if !more.is_empty() {
            let _ = write!(line, ": {more}");
        }
        if unshown > 0 {
            let _ = write!(line, "; {unshown} more denied calls were not shown");
        }
        // What a caller has sent is in there, and in its name.
        let event = Event::new((LogArea::Admin, level), "call", line).with(Field::Caller, who);
        match entry.call {
            // Whoever has the log leave out calls is not to do that unseen.
            Call::PutLog => self.log.tell_anyway(event),
            _ => self.log.tell(event),
        }
    }

    /// How many calls there were, by name and outcome.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        let writing = CALLS.iter().zip(&self.counts).filter(|(entry, _)| entry.writes());
        writing.flat_map(|(entry, counts)| {
            let counts = OUTCOMES.into_iter().zip(counts);
            counts.map(|(outcome, count)| (entry.name, outcome, count.load(Ordering::Relaxed)))
        })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Denied> {
        self.denied.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Denied {
    fn lines(&mut self, who: &Caller) -> &mut DeniedLines {
        match who {
            Caller::Token { .. } | Caller::Session { .. } => &mut self.of_tokens,
            Caller::Process { .. } | Caller::Anybody(_) => &mut self.of_anybody,
        }
    }
}

impl DeniedLines {
    /// How many lines were left out before the next one; none if that is to be left out as well.
    fn next(&mut self, now: Instant) -> Option<u64> {
        if self.since.is_none_or(|since| now.duration_since(since) >= QUIET) {
            (self.since, self.shown) = (Some(now), 0);
        }
        if self.shown == MOST_DENIED {
            self.unshown += 1;
            return None;
        }
        self.shown += 1;
        Some(std::mem::take(&mut self.unshown))
    }
}

impl Outcome {
    /// What a response with that status says.
    pub(crate) fn of(status: Status) -> Outcome {
        match status.code() {
            ..400 => Outcome::Done,
            401 | 403 | 415 => Outcome::Denied,
            400..500 => Outcome::Refused,
            500.. => Outcome::Failed,
        }
    }
}

/// The target of a request, cut where it is long.
fn target(head: &RequestHead) -> String {
    let path = String::from_utf8_lossy(head.path());
    let query = head.query().map(|query| format!("?{}", String::from_utf8_lossy(query)));
    let mut shown: String = path.chars().chain(query.iter().flat_map(|it| it.chars())).collect();
    if let Some((cut, _)) = shown.char_indices().nth(MAX_TARGET) {
        shown.truncate(cut);
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn denied_calls_do_not_fill_the_log() {
        let (mut lines, start) = (DeniedLines::default(), Instant::now());
        for _ in 0..MOST_DENIED {
            assert_eq!(lines.next(start), Some(0));
        }
        assert_eq!(lines.next(start), None);
        assert_eq!(lines.next(start + QUIET - Duration::from_secs(1)), None);
        assert_eq!(lines.next(start + QUIET), Some(2));
        assert_eq!(lines.next(start + QUIET), Some(0));
    }
}
