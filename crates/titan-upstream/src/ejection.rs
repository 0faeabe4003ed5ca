//! When endpoints are ejected because their requests fare badly, and when they return. Pure: time is an argument.

use crate::health::Counts;
use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;
use titan_config::{Ejection, Percent};

/// What is remembered of an endpoint.
#[derive(Default)]
pub struct Record {
    /// The counts at the ends of past parts of the window, and when they were taken, the oldest first.
    past: VecDeque<(Duration, Counts)>,
    ejected: Option<Ejected>,
    /// How often it was ejected of late.
    times: u32,
    /// Since when it has not been.
    since: Duration,
}

/// An endpoint that gets no requests for a while.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ejected {
    /// Why.
    pub why: Why,
    /// Since when.
    pub since: Duration,
    /// Until when.
    pub until: Duration,
}

/// Why an endpoint is ejected.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Why {
    /// So many of its requests failed in a row.
    Failures(u32),
    /// So many of its responses in a row were errors.
    Errors(u32),
    /// Of so many requests too many failed.
    Share {
        /// How many there were.
        requests: u64,
        /// How many failed.
        failures: u64,
    },
    /// Its responses take longer than those of the others, in microseconds.
    Slow {
        /// The mean of its responses.
        mean: u64,
        /// That of the others.
        others: u64,
    },
}

/// An endpoint at the time of a judgement.
pub struct Observed<'r> {
    /// What is remembered of it.
    pub record: &'r mut Record,
    /// What was counted.
    pub counts: Counts,
    /// How many of its requests have failed in a row, and how many have got an error.
    pub in_a_row: (u32, u32),
    /// Whether it could take requests, if it is not ejected.
    pub is_usable: bool,
    /// Whether its breaker is open, so that it gets none however usable it is.
    pub rests: bool,
}

/// What has changed for an endpoint.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    /// It is ejected.
    Ejects(Ejected),
    /// It gets requests again.
    Returns,
    /// It does so before its time, because the last one that got any fails.
    ReturnsEarly,
}

/// The parts that the window moves by.
const PARTS: u32 = 10;
/// The part of its time for which an endpoint is ejected in any case.
const EARLIEST: u32 = 10;
/// How much more than those of the others the failures of one endpoint have to be.
const FACTOR: u64 = 2;

/// Judges the endpoints of an upstream; what has changed, by their places.
pub fn judge(
    settings: Option<&Ejection>,
    observed: &mut [Observed<'_>],
    now: Duration,
) -> Vec<(usize, Change)> {
    let mut changes = Vec::new();
    for (place, one) in observed.iter_mut().enumerate() {
        if one.record.returns(now) {
            // What was in a row before led there, and says nothing of what is now.
            one.in_a_row = (0, 0);
            changes.push((place, Change::Returns));
        }
    }
    // Without settings nobody ejects but an operator.
    let Some(settings) = settings else { return changes };
    observed.iter_mut().for_each(|one| one.record.observe(settings, one.counts, now));
    let suspects = suspects(settings, observed);
    let grows = one_fares_well(observed, &suspects);
    for &(place, why) in &suspects {
        if observed[place].record.ejected.is_some() {
            continue;
        }
        if !leaves_another(observed, place) {
            // All of them fail, or have failed: what was found first may be over by now. If this one still fails then, it is ejected by the
            // next judgement.
            if let Some(first) = may_return(observed, place, now) {
                observed[first].record.release(now);
                changes.push((first, Change::ReturnsEarly));
            }
        } else if is_below(settings.max_share, observed) {
            let ejected = observed[place].record.eject(settings, why, grows, now);
            changes.push((place, Change::Ejects(ejected)));
        }
    }
    changes
}

/// The endpoints that fare badly, and why. Those that do so in a row come first: an endpoint that responds must not be ejected for its
/// share or its speed, and one that does not be left for that as the last one. Each is suspected once: a second reason must not eject
/// what the first one has brought another back for.
fn suspects(settings: &Ejection, observed: &[Observed<'_>]) -> Vec<(usize, Why)> {
    let windows: Vec<Counts> = observed.iter().map(|one| one.record.window(one.counts)).collect();
    let all = windows.iter().fold(Counts::default(), |sum, one| sum + *one);
    let judged = |(_, one): &(usize, &Observed<'_>)| one.is_usable && one.record.ejected.is_none();
    let judged = || observed.iter().enumerate().filter(judged);
    let of_row = |one: &Observed<'_>| in_a_row(settings, one.in_a_row);
    let of_window = |place: usize| by_window(settings, windows[place], all - windows[place]);
    let rows = judged().filter_map(|(place, one)| Some((place, of_row(one)?)));
    let others = judged().filter(|(_, one)| of_row(one).is_none());
    rows.chain(others.filter_map(|(place, _)| Some((place, of_window(place)?)))).collect()
}

/// Whether another one gets requests if that one does not.
fn leaves_another(observed: &[Observed<'_>], place: usize) -> bool {
    observed.iter().enumerate().any(|(other, one)| other != place && one.takes_requests())
}

/// Whether one gets requests and fares well with them. One that was ejected of late has to show it first.
fn one_fares_well(observed: &[Observed<'_>], suspects: &[(usize, Why)]) -> bool {
    let shows_it = |one: &Observed<'_>| {
        let Counts { requests, failures, .. } = one.record.window(one.counts);
        one.record.times == 0 || requests > failures
    };
    let fares_well = |one| Observed::takes_requests(one) && shows_it(one);
    let mut fares_well: Vec<bool> = observed.iter().map(fares_well).collect();
    suspects.iter().for_each(|(place, _)| fares_well[*place] = false);
    fares_well.contains(&true)
}

/// The one of the others that was ejected first, if it has been for long enough.
fn may_return(observed: &[Observed<'_>], place: usize, now: Duration) -> Option<usize> {
    let others = observed.iter().enumerate().filter(|(other, _)| *other != place);
    let usable = others.filter(|(_, one)| one.is_usable && !one.rests);
    let ejected = usable.filter_map(|(other, one)| Some((other, one.record.ejected?)));
    let is_due = |it: &Ejected| now >= it.since + it.until.saturating_sub(it.since) / EARLIEST;
    let due = ejected.filter(|(_, ejected)| is_due(ejected));
    due.min_by_key(|(_, ejected)| ejected.since).map(|(other, _)| other)
}

/// Whether so few are ejected that one more may be; one always.
fn is_below(max_share: Percent, observed: &[Observed<'_>]) -> bool {
    let ejected = observed.iter().filter(|one| one.record.ejected.is_some()).count();
    (ejected as u64) < max_share.of(observed.len() as u64).max(1)
}

fn in_a_row(settings: &Ejection, (failures, errors): (u32, u32)) -> Option<Why> {
    let reached = |count: u32, limit: Option<std::num::NonZeroU32>| {
        limit.is_some_and(|limit| count >= limit.get())
    };
    match () {
        () if reached(failures, settings.consecutive_failures) => Some(Why::Failures(failures)),
        () if reached(errors, settings.consecutive_errors) => Some(Why::Errors(errors)),
        () => None,
    }
}

fn by_window(settings: &Ejection, own: Counts, others: Counts) -> Option<Why> {
    let Counts { requests, failures, .. } = own;
    let least = u64::from(settings.min_requests.get());
    let fails = settings.failure_share.is_some_and(|share| {
        let is_enough = u128::from(failures) * 10_000
            >= u128::from(share.as_hundredths()) * u128::from(requests);
        // Compared without division: failures / requests >= FACTOR * others' failures / others' requests.
        let of_others = u128::from(FACTOR * others.failures) * u128::from(requests);
        is_enough && u128::from(failures) * u128::from(others.requests) >= of_others
    });
    if fails && requests >= least {
        return Some(Why::Share { requests, failures });
    }
    let factor = settings.slower_than_others?;
    let [mean, of_others] = [own.mean(least)?, others.mean(least)?];
    (mean > of_others.saturating_mul(factor.get().into()))
        .then_some(Why::Slow { mean, others: of_others })
}

impl Observed<'_> {
    fn takes_requests(&self) -> bool {
        self.is_usable && !self.rests && self.record.ejected.is_none()
    }
}

impl Record {
    /// Why it gets no requests, and until when.
    pub fn ejected(&self) -> Option<Ejected> {
        self.ejected
    }

    /// Lets it return.
    pub fn release(&mut self, now: Duration) {
        (self.ejected, self.since) = (None, now);
        self.forget_counts();
    }

    /// Begins the first window of an endpoint: all that it has had by now counts, however late it is looked at.
    pub fn begin(&mut self, now: Duration) {
        self.past = VecDeque::from([(now, Counts::default())]);
    }

    /// Begins a new window: what comes is counted anew.
    pub fn forget_counts(&mut self) {
        self.past.clear();
    }

    /// Whether nothing of it changes as time passes, if nothing was counted since.
    pub fn is_still(&self, counts: Counts) -> bool {
        self.ejected.is_none() && self.window(counts) == Counts::default()
    }

    /// Counts from now on what came after the last look, however long ago that was: nothing did until now.
    pub fn resume(&mut self, now: Duration) {
        if let Some((_, counts)) = self.past.pop_back() {
            self.past = VecDeque::from([(now, counts)]);
        }
    }

    /// Whether it gets requests again from now on.
    fn returns(&mut self, now: Duration) -> bool {
        let returns = self.ejected.is_some_and(|ejected| now >= ejected.until);
        if returns {
            self.release(now);
        }
        returns
    }

    /// Moves the window on to `now`.
    fn observe(&mut self, settings: &Ejection, counts: Counts, now: Duration) {
        let is_due = |(taken, _): &(Duration, Counts)| now >= *taken + settings.window / PARTS;
        if self.past.back().is_none_or(is_due) {
            self.past.push_back((now, counts));
        }
        // By time, not by number: judgements may come less often than parts end.
        while self.past.front().is_some_and(|(taken, _)| *taken + settings.window <= now) {
            self.past.pop_front();
        }
        if self.ejected.is_none() && self.times > 0 && now >= self.since + settings.max_time {
            self.times = 0;
        }
    }

    /// What was counted in the window.
    fn window(&self, counts: Counts) -> Counts {
        counts - self.past.front().map_or(counts, |(_, counts)| *counts)
    }

    /// Ejects it, for longer than the last time if its time `grows`: not where all of them fail. Such an outage would be over long before
    /// ejections that it had made ever longer, and until they are, one endpoint would take the requests of all.
    fn eject(&mut self, settings: &Ejection, why: Why, grows: bool, now: Duration) -> Ejected {
        self.times = self.times.saturating_add(grows.into()).max(1);
        let time = settings.time.saturating_mul(self.times).min(settings.max_time);
        let ejected = Ejected { why, since: now, until: now + time };
        self.ejected = Some(ejected);
        ejected
    }
}

impl Counts {
    /// What those took on average that went well, in microseconds; `None` for fewer than so many.
    fn mean(self, least: u64) -> Option<u64> {
        (self.timed >= least).then(|| self.micros.checked_div(self.timed)).flatten()
    }
}

impl std::ops::Add for Counts {
    type Output = Counts;

    fn add(self, other: Counts) -> Counts {
        Counts {
            requests: self.requests + other.requests,
            failures: self.failures + other.failures,
            timed: self.timed + other.timed,
            micros: self.micros + other.micros,
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Failures(count) => write!(f, "{count} requests in a row failed"),
            Why::Errors(count) => write!(f, "{count} responses in a row were errors"),
            Why::Share { requests, failures } => {
                write!(f, "{failures} of {requests} requests failed")
            }
            Why::Slow { mean, others } => {
                let [mean, others] = [*mean, *others].map(Duration::from_micros);
                write!(f, "its responses take {mean:.1?}, those of the others {others:.1?}")
            }
        }
    }
}

#[cfg(test)]
mod tests;
