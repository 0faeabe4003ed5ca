//! A breaker beside a plain model of it, which keeps each request and has no words with bits.

use super::window::{GENERATION_BITS, Generation, Row};
use super::*;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
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

/// What a breaker is, without regard to threads and memory.
struct Model {
    state: ModelState,
    /// How often it has changed.
    changes: u64,
    times_opened: u32,
    in_a_row: u32,
    /// When each request of this closed time has ended, whether it failed and whether it was slow.
    ended: Vec<(Duration, bool, bool)>,
}

#[derive(Clone, Copy)]
enum ModelState {
    Closed { since: Duration },
    Open { until: Duration },
    HalfOpen { out: u16, successes: u16, until: Duration },
    Forced { is_open: bool, until: Duration },
}

impl Model {
    fn enter(&mut self, state: ModelState) {
        (self.state, self.in_a_row) = (state, 0);
        self.changes += 1;
        self.ended.clear();
    }

    fn open(&mut self, thresholds: &Thresholds, now: Duration) {
        if let ModelState::Closed { since } = self.state
            && now - since >= thresholds.max_open_time
        {
            self.times_opened = 0;
        }
        self.times_opened = 31.min(self.times_opened + 1);
        self.enter(ModelState::Open { until: now + self.open_for(thresholds) });
    }

    fn open_for(&self, thresholds: &Thresholds) -> Duration {
        (1..self.times_opened)
            .fold(thresholds.open_time, |time, _| (2 * time).min(thresholds.max_open_time))
    }

    fn try_anew(&mut self, successes: u16) {
        self.enter(ModelState::HalfOpen { out: 0, successes, until: Duration::ZERO });
    }

    /// The generation of a request that passes, or when to come again.
    fn try_pass(&mut self, thresholds: &Thresholds, now: Duration) -> Result<u64, Duration> {
        self.expire(thresholds, now);
        if let ModelState::Open { until } | ModelState::Forced { is_open: true, until } = self.state
        {
            return Err(until - now);
        }
        let patience = self.open_for(thresholds);
        if let ModelState::HalfOpen { out, until, .. } = &mut self.state {
            if *out >= thresholds.half_open_requests.get() {
                return Err(Duration::ZERO);
            }
            *out += 1;
            let end = (now + patience).as_millis().next_multiple_of(200);
            *until = Duration::from_millis(end.try_into().unwrap());
        }
        Ok(self.changes)
    }

    fn end(
        &mut self,
        thresholds: &Thresholds,
        (generation, outcome): (u64, Option<Outcome>),
        now: Duration,
    ) {
        if generation != self.changes {
            return;
        }
        let (failed, took) = match outcome {
            Some(Outcome::Success { took }) => (Some(false), took),
            Some(Outcome::Failure { took }) => (Some(true), took),
            Some(Outcome::Neutral) | None => (None, QUICK),
        };
        let slow = took > thresholds.slow_after && thresholds.slow_share.is_some();
        if let ModelState::HalfOpen { out, successes, .. } = &mut self.state {
            *out -= 1;
            match failed {
                Some(failed) if failed || slow => self.open(thresholds, now),
                Some(_) => {
                    *successes += 1;
                    if *successes >= thresholds.close_after.get() {
                        self.enter(ModelState::Closed { since: now });
                    }
                }
                None => {}
            }
            return;
        }
        let (ModelState::Closed { .. }, Some(failed)) = (self.state, failed) else { return };
        self.ended.push((now, failed, slow));
        self.in_a_row = if failed { self.in_a_row + 1 } else { 0 };
        if self.reaches(thresholds, (failed, slow), now) {
            self.open(thresholds, now);
        }
    }

    fn reaches(
        &self,
        thresholds: &Thresholds,
        (failed, slow): (bool, bool),
        now: Duration,
    ) -> bool {
        if failed && thresholds.consecutive_failures.is_some_and(|it| self.in_a_row >= it.get()) {
            return true;
        }
        // The window moves on by tenths.
        let tenth = thresholds.window.as_millis() / 10;
        let part = |time: Duration| time.as_millis() / tenth;
        let recent = self.ended.iter().filter(|(ended, ..)| part(*ended) + 10 > part(now));
        let recent: Vec<_> = recent.collect();
        let reaches = |count: usize, share: Option<u32>| {
            share.is_some_and(|share| count * 10_000 >= share as usize * recent.len())
        };
        let failures = recent.iter().filter(|(_, failed, _)| *failed).count();
        let slows = recent.iter().filter(|(.., slow)| *slow).count();
        recent.len() >= thresholds.min_requests.get() as usize
            && (failed && reaches(failures, thresholds.failure_share)
                || slow && reaches(slows, thresholds.slow_share))
    }

    fn expire(&mut self, thresholds: &Thresholds, now: Duration) {
        let most = thresholds.half_open_requests.get();
        match self.state {
            ModelState::Open { until } if until <= now => self.try_anew(0),
            ModelState::HalfOpen { out, successes, until } if out >= most && until <= now => {
                self.try_anew(successes);
            }
            ModelState::Forced { until, .. } if until <= now => self.release(now),
            _ => {}
        }
    }

    fn force(&mut self, is_open: bool, until: Duration) {
        self.enter(ModelState::Forced { is_open, until });
    }

    fn release(&mut self, now: Duration) {
        match self.state {
            ModelState::Forced { is_open: true, .. } => self.try_anew(0),
            ModelState::Forced { is_open: false, .. } => {
                self.enter(ModelState::Closed { since: now });
            }
            _ => {}
        }
    }

    fn state(&self) -> State {
        match self.state {
            ModelState::Closed { .. } | ModelState::Forced { is_open: false, .. } => State::Closed,
            ModelState::Open { .. } | ModelState::Forced { .. } => State::Open,
            ModelState::HalfOpen { .. } => State::HalfOpen,
        }
    }
}

/// What happens to a breaker.
#[derive(Clone, Debug)]
enum Step {
    Wait(Duration),
    Begin,
    End { place: usize, outcome: Option<Outcome> },
    Force(Forced, Duration),
    Release,
    Expire,
    Reload,
    Outage { trials: u32 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let time = |most: u64| (0..most).prop_map(|count| Duration::from_millis(10 * count));
    let outcome = prop_oneof![
        4 => Just(Some(WELL)),
        5 => Just(Some(BADLY)),
        2 => Just(Some(SLOWLY)),
        1 => Just(Some(Outcome::Failure { took: SLOW })),
        1 => Just(Some(Outcome::Neutral)),
        1 => Just(None),
    ];
    let forced = prop_oneof![Just(Forced::Open), Just(Forced::Closed)];
    let step = prop_oneof![
        20 => Just(Step::Begin),
        20 => (any::<usize>(), outcome).prop_map(|(place, outcome)| Step::End { place, outcome }),
        6 => time(60).prop_map(Step::Wait),
        3 => time(800).prop_map(Step::Wait),
        1 => (forced, time(300)).prop_map(|(forced, time)| Step::Force(forced, time)),
        1 => Just(Step::Release),
        2 => Just(Step::Expire),
        1 => Just(Step::Reload),
    ];
    prop::collection::vec(step, 0..400)
}

/// A breaker and the model of it, to which the same happens.
struct Pair {
    breaker: Breaker,
    model: Model,
    /// Of one window, as they follow each other in configurations.
    all: [Thresholds; 4],
    which: usize,
    now: Duration,
    told: RefCell<u64>,
    out: Vec<(Ticket, u64, usize)>,
}

impl Pair {
    fn new() -> Pair {
        let one = |count| NonZeroU16::new(count).unwrap();
        let all = [
            thresholds(),
            Thresholds { failure_share: None, close_after: one(1), ..thresholds() },
            Thresholds { consecutive_failures: None, half_open_requests: one(3), ..thresholds() },
            Thresholds { min_requests: NonZeroU32::MIN, slow_share: None, ..thresholds() },
        ];
        let model = Model {
            state: ModelState::Closed { since: Duration::ZERO },
            changes: 0,
            times_opened: 0,
            in_a_row: 0,
            ended: Vec::new(),
        };
        let (now, told, breaker) = (seconds(50), RefCell::new(0), Breaker::default());
        Pair { breaker, model, all, which: 0, now, told, out: Vec::new() }
    }

    fn run(&mut self, steps: &[Step]) -> Result<(), TestCaseError> {
        steps.iter().try_for_each(|step| self.step(step))
    }

    fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match *step {
            Step::Wait(time) => self.now += time,
            Step::Begin => self.begin()?,
            Step::End { .. } if self.out.is_empty() => {}
            Step::End { place, outcome } => self.end(place % self.out.len(), outcome),
            Step::Force(forced, time) => self.force(forced, time),
            Step::Release => {
                self.breaker.release(self.now, |_| *self.told.borrow_mut() += 1);
                self.model.release(self.now);
            }
            Step::Expire => {
                let (thresholds, now) = (&self.all[self.which], self.now);
                self.breaker.expire(thresholds, now, |_| *self.told.borrow_mut() += 1);
                self.model.expire(thresholds, now);
            }
            Step::Reload => self.which = (self.which + 1) % self.all.len(),
            Step::Outage { trials } => self.fail_trials(trials)?,
        }
        let status = self.breaker.status(&self.all[self.which], self.now);
        let expected = (self.model.state(), self.model.changes);
        prop_assert_eq!((status.state, *self.told.borrow()), expected);
        prop_assert_eq!(status.failures_in_a_row, self.model.in_a_row);
        Ok(())
    }

    fn begin(&mut self) -> Result<(), TestCaseError> {
        let (thresholds, now) = (&self.all[self.which], self.now);
        let checked = self.breaker.check(thresholds, now);
        let passed = self.breaker.try_pass(thresholds, now, |_| *self.told.borrow_mut() += 1);
        let expected = self.model.try_pass(thresholds, now);
        prop_assert_eq!(checked, passed.map(drop));
        match (passed, expected) {
            (Ok(pass), Ok(generation)) => self.out.push((pass, generation, self.which)),
            (Err(rejected), Err(wait)) => prop_assert_eq!(rejected.retry_after, wait),
            (Ok(_), Err(wait)) => prop_assert!(false, "passes before {:?}", wait),
            (Err(rejected), Ok(_)) => prop_assert!(false, "{:?}", rejected),
        }
        Ok(())
    }

    fn end(&mut self, place: usize, outcome: Option<Outcome>) {
        let (ticket, generation, which) = self.out.swap_remove(place);
        let (thresholds, now) = (&self.all[which], self.now);
        self.model.end(thresholds, (generation, outcome), now);
        let tell = |_| *self.told.borrow_mut() += 1;
        match outcome {
            Some(outcome) => self.breaker.complete(thresholds, (ticket, outcome), now, tell),
            None => self.breaker.give_back(ticket),
        }
    }

    fn force(&mut self, forced: Forced, time: Duration) {
        let until = self.now + time;
        self.breaker.force(forced, (self.now, until), |_| *self.told.borrow_mut() += 1);
        self.model.force(forced == Forced::Open, until);
    }

    /// It opens, and every trial fails.
    fn fail_trials(&mut self, trials: u32) -> Result<(), TestCaseError> {
        self.force(Forced::Open, Duration::ZERO);
        for _ in 0..trials {
            self.begin()?;
            self.end(self.out.len() - 1, Some(BADLY));
            self.now += self.all[self.which].max_open_time;
        }
        Ok(())
    }
}

proptest! {
    #[test]
    fn it_does_what_the_model_does(steps in steps()) {
        Pair::new().run(&steps)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn it_does_so_after_an_outage_of_any_length(
        (before, after) in (steps(), steps()),
        trials in 0_u32..5_000,
    ) {
        let mut pair = Pair::new();
        pair.run(&before)?;
        pair.step(&Step::Outage { trials })?;
        pair.run(&after)?;
    }
}
