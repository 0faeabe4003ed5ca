//! Several gateways that take permits ahead, over the scripts in Redis: together they let pass what one would, and what they hold.

use super::*;

const GATEWAYS: u64 = 3;
/// When the store's time begins, in microseconds since 1970; that of gateways begins with 0.
const BEGIN: u64 = 1_700_000_000_000_000;
/// The hash of the only key.
const HASH: u64 = 0x1234_5678_9ABC_DEF0;

/// Requests of one gateway: which, how many microseconds later, how many, what each counts, and after how many steps the store's
/// replies for permits come.
type Step = (usize, u64, usize, u64, usize);

/// A gateway.
struct Member {
    leases: Leases,
    /// What the store has said that has not come yet.
    replies: Vec<(usize, Renewal, Grant)>,
    /// The batches that have come, and until when each rate has what was charged for the last one.
    charged: Option<(LeaseKey, [u64; MAX_RATES])>,
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
}

impl Passed {
    fn add(&mut self, rates: &Scaled, cost: u64, now: u64) {
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
            charged: None,
            outstanding: 0,
        };
        let members: Vec<_> = std::iter::repeat_with(member).take(3).collect();
        let held = GATEWAYS * members[0].leases.most(0, GATEWAYS);
        let passed = Passed { arrivals: vec![0; rates.len()], held };
        Fleet { redis, key, rates, members, now: BEGIN, passed, leased: 0 }
    }

    fn step(&mut self, (gateway, gap, count, cost, lag): Step) {
        self.now += gap;
        self.deliver();
        self.reclaim();
        for _ in 0..count {
            self.request(gateway, cost, lag);
        }
    }

    /// One request.
    fn request(&mut self, gateway: usize, cost: u64, lag: usize) {
        if self.is_served(gateway, cost, lag) {
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
        self.is_served(gateway, cost, lag);
    }

    /// Whether the gateway decides about it by itself.
    fn is_served(&mut self, gateway: usize, cost: u64, lag: usize) -> bool {
        let (now, charge) = (self.local(), Charge { cost, ..Charge::ONE });
        let member = &mut self.members[gateway];
        let served = member.leases.serve(HASH, charge, GATEWAYS, WriterId::new(0), now);
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
                member.charged = Some((renewal.key, grant.owed.map(|owed| now + owed)));
            }
        }
    }

    /// Gives back what is held for too long.
    fn reclaim(&mut self) {
        let now = self.local();
        for gateway in 0..self.members.len() {
            let member = &mut self.members[gateway];
            let Some((key, charged)) = member.charged else { continue };
            let Some(permits) = member.leases.reclaim(key, false, now) else { continue };
            member.outstanding -= permits;
            let amounts = to_give_back(permits, &charged, &self.rates, now);
            let amounts: Vec<_> = amounts.iter().map(u64::to_string).collect();
            if permits > 0 {
                self.ask(GIVE_BACK, &amounts);
            }
        }
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
    let (number, leased) = (Cell::new(0), Cell::new(0));
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
        // Then all is given back.
        (0..5).for_each(|_| {
            fleet.now += LEASE_MICROS;
            fleet.deliver();
            fleet.reclaim();
        });
        prop_assert!(fleet.members.iter().all(|it| it.outstanding == 0));
        leased.set(leased.get() + fleet.leased);
    });
    assert!(leased.get() > 1_000, "only {} have passed by permits", leased.get());
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
