//! What a breaker does, example by example.

mod model;

use super::window::{GENERATION_BITS, Generation, Row};
use super::*;
use std::cell::RefCell;
use std::num::{NonZeroU16, NonZeroU32};

const QUICK: Duration = Duration::from_millis(1);
const SLOW: Duration = Duration::from_secs(2);
const WELL: Outcome = Outcome::Success { took: QUICK };
const BADLY: Outcome = Outcome::Failure { took: QUICK };
const SLOWLY: Outcome = Outcome::Success { took: SLOW };

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// Opens with half of four requests or three in a row, and tries two.
fn thresholds() -> Thresholds {
    Thresholds {
        consecutive_failures: NonZeroU32::new(3),
        failure_share: Some(5_000),
        slow_share: Some(7_500),
        slow_after: seconds(1),
        window: seconds(5),
        min_requests: NonZeroU32::new(4).unwrap(),
        open_time: seconds(1),
        max_open_time: seconds(6),
        half_open_requests: NonZeroU16::new(2).unwrap(),
        close_after: NonZeroU16::new(2).unwrap(),
    }
}

/// A breaker with its clock, and the sentences that it has said.
struct Trial {
    breaker: Breaker,
    thresholds: Thresholds,
    now: Duration,
    told: RefCell<Vec<String>>,
}

impl Trial {
    fn of(thresholds: Thresholds) -> Trial {
        let now = seconds(100);
        Trial { breaker: Breaker::default(), thresholds, now, told: RefCell::default() }
    }

    fn tell(&self, transition: Transition) {
        let Transition { from, to, cause, .. } = transition;
        self.told.borrow_mut().push(format!("{from} -> {to}: {cause}"));
    }

    fn try_pass(&self) -> Result<Ticket, Rejected> {
        self.breaker.try_pass(&self.thresholds, self.now, |it| self.tell(it))
    }

    fn end(&self, ticket: Ticket, outcome: Outcome) {
        let Trial { breaker, thresholds, now, .. } = self;
        breaker.complete(thresholds, (ticket, outcome), *now, |it| self.tell(it));
    }

    /// Requests that fare so one after the other.
    fn run(&self, outcomes: &[Outcome]) {
        for outcome in outcomes {
            self.end(self.try_pass().unwrap_or_else(|_| panic!("it is open")), *outcome);
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        self.try_pass().err().map(|rejected| rejected.retry_after)
    }

    fn told(&self) -> Vec<String> {
        self.told.take()
    }
}

#[test]
fn failures_in_a_row_open_it() {
    let trial = Trial::of(Thresholds { failure_share: None, ..thresholds() });
    trial.run(&[BADLY, BADLY, WELL, BADLY, BADLY, Outcome::Neutral]);
    assert_eq!((trial.told(), trial.retry_after()), (Vec::new(), None));
    trial.run(&[BADLY]);
    assert_eq!(trial.told(), ["closed -> open: 3 requests in a row failed"]);
    assert_eq!(trial.retry_after(), Some(seconds(1)));
}

#[test]
fn a_share_of_failures_opens_it_once_there_are_enough_requests() {
    let trial = Trial::of(Thresholds { consecutive_failures: None, ..thresholds() });
    trial.run(&[BADLY, BADLY, BADLY]);
    trial.run(&[WELL; 4]);
    assert_eq!(trial.told(), Vec::<String>::new());
    trial.run(&[BADLY]);
    assert_eq!(trial.told(), ["closed -> open: 4 of the last 8 requests failed"]);
}

#[test]
fn what_is_neither_success_nor_failure_changes_no_share() {
    let trial = Trial::of(Thresholds { consecutive_failures: None, ..thresholds() });
    trial.run(&[WELL, BADLY, WELL]);
    trial.run(&[Outcome::Neutral; 50]);
    trial.run(&[BADLY]);
    assert_eq!(trial.told(), ["closed -> open: 2 of the last 4 requests failed"]);
}

#[test]
fn a_share_of_slow_requests_opens_it() {
    let trial = Trial::of(thresholds());
    trial.run(&[WELL, SLOWLY, SLOWLY]);
    assert_eq!(trial.told(), Vec::<String>::new());
    trial.run(&[SLOWLY]);
    assert_eq!(trial.told(), ["closed -> open: 3 of the last 4 requests were slow"]);
}

#[test]
fn what_was_long_ago_counts_no_more() {
    let mut trial = Trial::of(Thresholds { consecutive_failures: None, ..thresholds() });
    trial.run(&[BADLY, BADLY, BADLY]);
    trial.now += seconds(5);
    trial.run(&[WELL, WELL, WELL, BADLY]);
    assert_eq!(trial.told(), Vec::<String>::new());
    assert_eq!(trial.breaker.status(&trial.thresholds, trial.now).counts.requests, 4);
}

/// Each trial that fails is two changes: what was counted before lies any number of them back.
#[test]
fn after_an_outage_of_any_length_a_share_of_failures_opens_it() {
    for trials in (1..4_200).step_by(100) {
        let mut trial = Trial::of(Thresholds { consecutive_failures: None, ..thresholds() });
        trial.run(&[BADLY; 4]);
        for outcome in std::iter::repeat_n(BADLY, trials).chain([WELL; 2]) {
            trial.now += seconds(6);
            trial.run(&[outcome]);
        }
        trial.told();
        trial.run(&[BADLY; 4]);
        assert_eq!(trial.told(), ["closed -> open: 4 of the last 4 requests failed"], "{trials}");
    }
}

#[test]
fn a_row_of_any_time_ago_is_none_of_now() {
    for before in (0..1 << GENERATION_BITS).step_by(9_973) {
        let row = Row::default();
        row.add(Generation::of(before), || true);
        let now = Generation::default().next();
        assert_eq!((row.add(now, || true), row.add(now, || true)), (1, 2), "{before}");
        assert_eq!(row.add(Generation::of(before), || false), 0, "{before}");
        assert_eq!(row.get(now), 2);
    }
}

#[test]
fn half_open_it_lets_so_many_through_and_closes_by_their_success() {
    let mut trial = Trial::of(thresholds());
    trial.run(&[BADLY; 3]);
    trial.now += seconds(1);
    let (first, second) = (trial.try_pass().ok().unwrap(), trial.try_pass().ok().unwrap());
    assert_eq!(trial.retry_after(), Some(Duration::ZERO));
    trial.breaker.give_back(first);
    let third = trial.try_pass().ok().unwrap();
    assert_eq!(trial.retry_after(), Some(Duration::ZERO));
    trial.end(second, WELL);
    trial.end(third, WELL);
    trial.run(&[WELL; 10]);
    let told = trial.told();
    assert_eq!(told[1], "open -> half-open: its time is over");
    assert_eq!(told[2..], ["half-open -> closed: 2 trial requests succeeded"]);
}

/// As slow uploads are, to which no response can be late yet.
#[test]
fn trials_that_do_not_end_make_room_for_others() {
    let mut trial = Trial::of(thresholds());
    trial.run(&[BADLY; 3]);
    trial.now += seconds(1);
    let early = trial.try_pass().unwrap();
    trial.now += Duration::from_millis(600);
    let late = trial.try_pass().unwrap();
    trial.now += Duration::from_millis(990);
    assert_eq!(trial.retry_after(), Some(Duration::ZERO), "the later one has not had its time");
    trial.told();
    trial.now += Duration::from_millis(10);
    assert_eq!(trial.breaker.check(&trial.thresholds, trial.now), Ok(()));
    let others = [(); 2].map(|()| trial.try_pass().unwrap());
    assert_eq!(trial.retry_after(), Some(Duration::ZERO));
    trial.end(early, BADLY);
    trial.breaker.give_back(late);
    assert_eq!(trial.retry_after(), Some(Duration::ZERO), "they hold no place any more");
    others.into_iter().for_each(|it| trial.end(it, WELL));
    let told = [
        "half-open -> half-open: its trial requests take too long, and others follow",
        "half-open -> closed: 2 trial requests succeeded",
    ];
    assert_eq!(trial.told(), told);
}

#[test]
fn a_request_of_an_earlier_time_changes_nothing() {
    let mut trial = Trial::of(thresholds());
    let old: Vec<_> =
        (0..9).map(|_| trial.breaker.try_pass(&trial.thresholds, trial.now, drop)).collect();
    let old: Vec<_> = old.into_iter().map(|it| it.ok().unwrap()).collect();
    trial.run(&[BADLY; 3]);
    let (now, later) = (trial.now, trial.now + seconds(1));
    let trials = trial.breaker.try_pass(&trial.thresholds, later, drop).ok().unwrap();
    for (outcome, pass) in [WELL, BADLY, SLOWLY].into_iter().cycle().zip(old) {
        let told = |it| panic!("{it:?}");
        trial.breaker.complete(&trial.thresholds, (pass, outcome), later, told);
    }
    let status = trial.breaker.status(&trial.thresholds, later);
    assert_eq!((status.state, status.trials, status.successes), (State::HalfOpen, 1, 0));
    trial.breaker.give_back(trials);
    trial.now = now;
}

#[test]
fn it_is_open_for_twice_as_long_each_time_up_to_a_bound_and_starts_anew() {
    let mut trial = Trial::of(thresholds());
    trial.run(&[BADLY; 3]);
    for expected in [2, 4, 6, 6] {
        trial.now += trial.retry_after().unwrap();
        trial.run(&[BADLY]);
        assert_eq!(trial.retry_after(), Some(seconds(expected)));
    }
    trial.now += seconds(6);
    trial.run(&[WELL, WELL]);
    trial.now += seconds(5);
    trial.run(&[BADLY; 3]);
    assert_eq!(trial.retry_after(), Some(seconds(6)), "it was closed for a short time");
    trial.now += seconds(6);
    trial.run(&[WELL, WELL]);
    trial.now += seconds(6);
    trial.run(&[BADLY; 3]);
    assert_eq!(trial.retry_after(), Some(seconds(1)));
}

#[test]
fn a_hand_holds_it_for_a_time() {
    let mut trial = Trial::of(thresholds());
    let force = |trial: &Trial, forced| {
        let until = trial.now + seconds(60);
        trial.breaker.force(forced, (trial.now, until), |it| trial.tell(it));
    };
    force(&trial, Forced::Closed);
    trial.run(&[BADLY; 20]);
    trial.now += seconds(60);
    trial.run(&[BADLY; 2]);
    force(&trial, Forced::Open);
    trial.now += seconds(59);
    assert_eq!(trial.retry_after(), Some(seconds(1)));
    assert!(trial.breaker.status(&trial.thresholds, trial.now).is_forced);
    assert!(trial.breaker.release(trial.now, |it| trial.tell(it)));
    assert!(!trial.breaker.release(trial.now, |it| trial.tell(it)));
    trial.run(&[WELL, WELL, WELL]);
    let told = [
        "closed -> closed: forced by hand",
        "closed -> closed: its time is over",
        "closed -> open: forced by hand",
        "open -> half-open: released by hand",
        "half-open -> closed: 2 trial requests succeeded",
    ];
    assert_eq!(trial.told(), told);
}

#[test]
fn it_is_known_how_long_each_state_has_lasted() {
    let mut trial = Trial::of(thresholds());
    trial.run(&[BADLY; 3]);
    assert!(trial.retry_after().is_some());
    trial.now += seconds(3);
    trial.run(&[WELL]);
    trial.now += seconds(2);
    trial.run(&[WELL]);
    trial.now += seconds(7);
    let figures = trial.breaker.figures(trial.now);
    assert_eq!(figures.lasted, [seconds(107), seconds(3), seconds(2)]);
    assert_eq!(figures.transitions, [[0, 1, 0], [0, 0, 1], [1, 0, 0]]);
    assert_eq!((figures.rejected, figures.since), (1, seconds(105)));
}
