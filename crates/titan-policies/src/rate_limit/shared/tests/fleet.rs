//! Several gateways that take permits ahead, over the scripts in Redis: together they let pass what one would, and what they hold.

use super::*;

const GATEWAYS: u64 = 3;
/// For how many steps of a millisecond there are more requests than can pass.
const SATURATED: usize = 300;
/// The nanoseconds of a burst that lasts for longer than the store is not asked.
const LASTING: u64 = 20_000_000;
/// When the store's time begins, in microseconds since 1970; that of gateways begins with 0.
const BEGIN: u64 = 1_700_000_000_000_000;
/// The hash of the only key.
const HASH: u64 = 0x1234_5678_9ABC_DEF0;

/// Requests of one gateway: which, how many microseconds later, how many, what each counts, and after how many steps the store's
/// replies for permits come, and permits are back.
type Step = (usize, u64, usize, u64, usize);

/// A gateway.
struct Member {
    leases: Leases,
    /// What the store has said that has not come yet.
    replies: Vec<(usize, Renewal, Grant)>,
    /// The key of the batches that have come.
    lease: Option<LeaseKey>,
    /// What is on its way back: how many permits, and what they take off.
    returning: Vec<(usize, LeaseKey, u64, Vec<u64>)>,
    /// The permits that are charged and not used.
    outstanding: u64,
}

/// All of them, and their store.
struct Fleet<'r> {
    redis: &'r mut Redis,
    key: String,
    rates: Scaled,
    members: Vec<Member>,
    /// In microseconds.
    now: u64,
    passed: Passed,
    /// How many have passed without a call.
    leased: u64,
}

/// What has passed: never more than a rate with a burst that is larger by what all gateways may hold.
struct Passed {
    arrivals: Vec<u64>,
    held: u64,
    count: u64,
}

impl Passed {
    fn add(&mut self, rates: &Scaled, cost: u64, now: u64) {
        self.count += cost;
        for (rate, arrival) in rates.iter().zip(&mut self.arrivals) {
            *arrival = (*arrival).max(now) + cost * rate.interval;
            let most = now + rate.tolerance + self.held * rate.interval;
            assert!(*arrival <= most, "{} ns too many", *arrival - most);
        }
    }
}

impl Fleet<'_> {
    fn of(redis: &mut Redis, key: String, rates: Scaled) -> Fleet<'_> {
        let member = || Member {
            leases: Leases::new([rates.clone()].into(), 64),
            replies: Vec::new(),
            lease: None,
            returning: Vec::new(),
            outstanding: 0,
        };
        let members: Vec<_> = std::iter::repeat_with(member).take(3).collect();
        let held = GATEWAYS * members[0].leases.most(0, GATEWAYS);
        let passed = Passed { arrivals: vec![0; rates.len()], held, count: 0 };
        Fleet { redis, key, rates, members, now: BEGIN, passed, leased: 0 }
    }

    fn step(&mut self, (gateway, gap, count, cost, lag): Step) {
        self.now += gap;
        self.deliver();
        self.take_back();
        self.reclaim(lag);
        for _ in 0..count {
            self.request(gateway, cost, lag);
        }
    }

    /// One request.
    fn request(&mut self, gateway: usize, cost: u64, lag: usize) {
        if self.is_served(gateway, (cost, false), lag) {
            return;
        }
        let charge = Charge { cost, ..Charge::ONE };
        let mut arguments = vec![cost.to_string(), "0".to_owned()];
        arguments.extend(arguments_of(&self.rates, 0));
        let reply = self.ask(CHARGE, &arguments);
        let outcome = outcome_in(&reply, &self.rates, charge).unwrap();
        let Verdict::Exceeded { wait } = outcome.verdict else {
            return self.passed.add(&self.rates, cost, self.local());
        };
        let grant = Grant { permits: 0, wait, owed: outcome.counts.map(|it| it.reset) };
        let leases = &self.members[gateway].leases;
        leases.note_refused(HASH, &grant, WriterId::new(0), self.local());
        self.is_served(gateway, (cost, true), lag);
    }

    /// Whether the gateway decides about it by itself.
    fn is_served(&mut self, gateway: usize, (cost, is_again): (u64, bool), lag: usize) -> bool {
        let (now, charge) = (self.local(), Charge { cost, ..Charge::ONE });
        let member = &mut self.members[gateway];
        let served = member.leases.serve((HASH, is_again), charge, GATEWAYS, WriterId::new(0), now);
        let passes = matches!(served.outcome.map(|it| it.verdict), Some(Verdict::Passed { .. }));
        if passes {
            member.outstanding -= cost;
            self.passed.add(&self.rates, cost, now);
            self.leased += 1;
        }
        if let Some(renewal) = served.renewal {
            self.renew(gateway, renewal, lag);
        }
        served.outcome.is_some()
    }

    fn renew(&mut self, gateway: usize, renewal: Renewal, lag: usize) {
        let mut arguments = vec![renewal.asked.to_string(), "0".to_owned()];
        arguments.extend(arguments_of(&self.rates, 0));
        let reply = self.ask(TAKE, &arguments);
        let grant = grant_in(&reply, &self.rates, renewal.asked).unwrap();
        let member = &mut self.members[gateway];
        member.outstanding += grant.permits;
        assert!(GATEWAYS * member.outstanding <= self.passed.held, "it holds too many");
        member.replies.push((lag, renewal, grant));
    }

    /// Replies come that are due.
    fn deliver(&mut self) {
        let now = self.local();
        for member in &mut self.members {
            for (lag, renewal, grant) in std::mem::take(&mut member.replies) {
                if lag > 0 {
                    member.replies.push((lag - 1, renewal, grant));
                    continue;
                }
                member.leases.granted(renewal, &grant, now);
                member.lease = Some(renewal.key);
            }
        }
    }

    /// Gives back what is held for too long; the store has it after so many steps.
    fn reclaim(&mut self, lag: usize) {
        let now = self.local();
        for member in &mut self.members {
            let Some(key) = member.lease else { continue };
            let Some(permits) = member.leases.reclaim(key, false, now) else { continue };
            if permits > 0 {
                let charged = member.leases.charged(key);
                let amounts = to_give_back(permits, &charged, &self.rates, now);
                member.returning.push((lag, key, permits, amounts));
            }
        }
    }

    /// The store has what was given back long enough ago.
    fn take_back(&mut self) {
        for gateway in 0..self.members.len() {
            for (lag, key, permits, amounts) in std::mem::take(&mut self.members[gateway].returning)
            {
                if lag > 0 {
                    self.members[gateway].returning.push((lag - 1, key, permits, amounts));
                    continue;
                }
                let amounts: Vec<_> = amounts.iter().map(u64::to_string).collect();
                self.ask(GIVE_BACK, &amounts);
                let member = &mut self.members[gateway];
                member.outstanding -= permits;
                member.leases.given_back(key);
            }
        }
    }

    /// As many requests as can pass for a time: what must pass at least, and has.
    fn saturate(&mut self) -> (u64, u64) {
        let before = self.passed.count;
        for step in 0..SATURATED {
            self.step((step % 3, 1_000, 30, 1, step % 2));
        }
        let slowest = self.rates.iter().map(|rate| rate.interval).max().unwrap();
        let fits = SATURATED as u64 * 1_000_000 / slowest;
        // A rate that gives more in a step than there are requests lets all of them pass.
        let fits = fits.min(SATURATED as u64 * 30);
        (fits / 2, self.passed.count - before)
    }

    /// The time of gateways, in nanoseconds.
    fn local(&self) -> u64 {
        (self.now - BEGIN) * 1000
    }

    fn ask(&mut self, body: &str, arguments: &[String]) -> Numbers {
        let (script, now) = (timed(body), self.now.to_string());
        let mut call = vec!["EVAL", &script, "2", &self.key, &now];
        call.extend(arguments.iter().map(String::as_str));
        self.redis.ask(&call)
    }
}

fn fast_limits() -> impl Strategy<Value = Vec<(u64, u64)>> {
    let interval = prop_oneof![100_000..2_000_000_u64, 2_000_000..50_000_000_u64];
    proptest::collection::vec((interval, 20..400_u64), 1..=2)
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let gap = prop_oneof![0..500_u64, 0..20_000_u64, 0..300_000_u64];
    proptest::collection::vec((0..3_usize, gap, 1..30_usize, 1..3_u64, 0..4_usize), 1..60)
}

#[test]
fn gateways_let_no_more_pass_than_the_limit_and_what_they_hold() {
    let redis = RefCell::new(Redis::start("leases"));
    let (number, leased, saturated) = (Cell::new(0), Cell::new(0), Cell::new(0));
    let config =
        ProptestConfig { failure_persistence: None, cases: 64, ..ProptestConfig::default() };
    proptest!(config, |(limits in fast_limits(), steps in steps())| {
        number.set(number.get() + 1);
        let rates: Scaled = limits
            .iter()
            .map(|(interval, burst)| CellRate { interval: *interval, tolerance: interval * burst })
            .collect();
        let mut redis = redis.borrow_mut();
        let mut fleet = Fleet::of(&mut redis, format!("key-{}", number.get()), rates);
        steps.into_iter().for_each(|step| fleet.step(step));
        // A burst that is over within a pause of those that the store has refused passes later than it might.
        if fleet.rates.iter().all(|rate| rate.tolerance >= LASTING) {
            let (least, passed) = fleet.saturate();
            prop_assert!(passed >= least, "{passed} of {least} have passed");
            saturated.set(saturated.get() + 1);
        }
        // Then all is given back, also what comes and goes as late as anything does.
        (0..10).for_each(|_| {
            fleet.now += LEASE_MICROS;
            fleet.deliver();
            fleet.take_back();
            fleet.reclaim(0);
        });
        prop_assert!(fleet.members.iter().all(|it| it.outstanding == 0));
        leased.set(leased.get() + fleet.leased);
    });
    assert!(leased.get() > 1_000, "only {} have passed by permits", leased.get());
    assert!(saturated.get() > 10, "only {} were saturated", saturated.get());
}

/// In microseconds, and a little more.
const LEASE_MICROS: u64 = crate::rate_limit::lease::LEASE / 1000 + 1000;

#[test]
fn what_is_given_back_is_what_has_not_come_back_by_itself() {
    let (rates, charged) = (rates(), [1_000, 5_000, 0, 0]);
    assert_eq!(to_give_back(3, &charged, &rates, 0), [300, 3_000]);
    assert_eq!(to_give_back(3, &charged, &rates, 900), [100, 3_000]);
    assert_eq!(to_give_back(3, &charged, &rates, 6_000), [0, 0]);
}

#[test]
fn permits_that_the_script_cannot_have_given_are_no_reply() {
    let grant = |numbers: &[i64]| grant_in(&numbers.to_vec(), &rates(), 5);
    assert_eq!(grant(&[5, 0, 7, 8]).map(|it| (it.permits, it.owed)), Some((5, [7, 8, 0, 0])));
    assert_eq!(grant(&[0, 9, 7, 8]).map(|it| (it.permits, it.wait)), Some((0, 9)));
    let replies: [&[i64]; 6] =
        [&[], &[5, 0, 7], &[6, 0, 7, 8], &[5, 1, 7, 8], &[0, 0, 7, 8], &[-1, 9, 7, 8]];
    for reply in replies {
        assert_eq!(grant(reply), None, "{reply:?}");
    }
}
