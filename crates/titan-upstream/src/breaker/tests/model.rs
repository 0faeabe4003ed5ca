//! A breaker beside a plain model of it, which keeps each request and has no words with bits.

use super::*;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

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
