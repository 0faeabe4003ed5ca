//! A configuration on trial: it is taken back unless it is confirmed in time, or its guard is content.

use super::attempts::{Before, Former};
use super::figures::Baseline;
use crate::failure::Failure;
use std::time::{Duration, SystemTime};
use titan_admin::Cause;
use titan_admin::orders::{Findings, Guard, NotApplied, Safeguards};
use titan_proxy::Status;
use tokio::time::Instant;

/// What is to happen to the configuration in force.
pub(super) struct Trial {
    pub(super) before: Former,
    confirm: Option<Deadline>,
    watch: Option<Watch>,
    /// Set once taking it back has failed.
    pub(super) retry: Option<Retry>,
}

/// When taking a configuration back is tried again.
pub(super) struct Retry {
    pub(super) at: Instant,
    cause: Cause,
    why: String,
    /// What was said of the last failure.
    pub(super) complaint: String,
}

/// Until when it has to be confirmed.
#[derive(Clone, Copy)]
struct Deadline {
    at: Instant,
    /// The same for people.
    told: SystemTime,
}

/// What the guard compares, and until when.
struct Watch {
    guard: Guard,
    baseline: Baseline,
    until: Instant,
}

/// What came of a trial, or of a part of it.
pub(super) enum Verdict {
    /// It is time to try again to take it back.
    TakeBack(Cause, String),
    /// The time to confirm it is over.
    Unconfirmed,
    /// Requests fare worse, as this says.
    Worse(String),
    /// The guard has seen nothing that is worse, as this says, and nobody else has to be asked.
    Good(String),
}

/// Longer than this nothing is on trial.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);
/// After how long taking back is tried again: what keeps it from that, such as a name server, may pass.
const RETRY: Duration = Duration::from_secs(10);

impl Trial {
    /// That of a configuration which has come into force `now`, if there is to be one. `baseline` is what a guard compares with.
    pub(super) fn new(
        safeguards: Safeguards,
        before: Former,
        baseline: Option<Baseline>,
        now: (Instant, SystemTime),
    ) -> Option<Trial> {
        let Safeguards { confirm, guard } = safeguards;
        let deadline = |time: Duration| Deadline { at: now.0 + time, told: now.1 + time };
        let watch = |(guard, baseline): (Guard, _)| {
            let until = now.0 + guard.window;
            Watch { guard, baseline, until }
        };
        let watch = guard.zip(baseline).map(watch);
        (confirm.is_some() || watch.is_some()).then(|| Trial {
            before,
            confirm: confirm.map(deadline),
            watch,
            retry: None,
        })
    }

    /// That of a configuration which could not be taken back `now`, for a reason that `complaint` tells: it is tried again.
    pub(super) fn again(before: Before, complaint: String, now: Instant) -> Trial {
        let Before { former, cause, why, .. } = before;
        let retry = Retry { at: now + RETRY, cause, why, complaint };
        Trial { before: former, confirm: None, watch: None, retry: Some(retry) }
    }

    /// Whether its figures are watched.
    pub(super) fn is_guarded(&self) -> bool {
        self.watch.is_some()
    }

    /// Until when it has to be confirmed, where it has to.
    pub(super) fn confirm_until(&self) -> Option<SystemTime> {
        self.confirm.map(|deadline| deadline.told)
    }

    /// When there is something to decide next.
    pub(super) fn next(&self) -> Option<Instant> {
        let deadline = self.confirm.map(|deadline| deadline.at);
        let watch = self.watch.as_ref().map(|watch| watch.until);
        let retry = self.retry.as_ref().map(|retry| retry.at);
        deadline.into_iter().chain(watch).chain(retry).min()
    }

    /// What is to be done now, if anything.
    pub(super) fn judge(&mut self, status: &Status, now: Instant) -> Option<Verdict> {
        if let Some(Retry { at, cause, why, .. }) = &self.retry {
            return (now >= *at).then(|| Verdict::TakeBack(*cause, why.clone()));
        }
        let mut seen = None;
        if let Some(Watch { guard, baseline, until }) = &mut self.watch {
            if let Some(worse) = baseline.compare(status, *guard, now) {
                return Some(Verdict::Worse(worse.to_string()));
            }
            if now >= *until {
                if let Some(silence) = baseline.silence(status) {
                    return Some(Verdict::Worse(silence.to_string()));
                }
                seen = Some(baseline.seen(status));
                self.watch = None;
            }
        }
        match self.confirm {
            Some(deadline) if now >= deadline.at => Some(Verdict::Unconfirmed),
            Some(_) => None,
            None => seen.map(|seen| Verdict::Good(seen.to_string())),
        }
    }
}

/// Whether that can be a trial.
pub(super) fn check(safeguards: Safeguards) -> Result<(), NotApplied> {
    let Safeguards { confirm, guard } = safeguards;
    let times = confirm.into_iter().chain(guard.map(|guard| guard.window));
    let fault = if times.into_iter().any(|time| time.is_zero() || time > LONGEST) {
        "a trial takes from a moment to 24 hours"
    } else if guard.is_some_and(|Guard { factor, .. }| !factor.is_finite() || factor <= 1.0) {
        "the factor of the guard has to be greater than 1"
    } else {
        return Ok(());
    };
    let failure = Failure::BadInput(fault.to_owned());
    let json = crate::check::failed("the request", &failure);
    Err(NotApplied::Refused(Findings { text: failure.text(false), json }))
}
