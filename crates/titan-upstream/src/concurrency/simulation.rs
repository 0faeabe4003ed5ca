//! Overload in virtual time: clients, a gateway with one upstream, its endpoints. The same seed, the same course.
//!
//! The gateway is the real [`Gate`]; the rest is as simple as overload allows. An endpoint serves [`SERVERS`] requests
//! at the same moment, and queues others without a bound, those of clients that have gone among them. A request goes
//! to the endpoint with the fewest running, and once more to another one if that fails. Nothing else guards
//! the upstream: no endpoint is ejected.

use crate::concurrency::Sample;
use crate::concurrency::gate::{Entrant, Gate, GateSettings, Turn};
use crate::concurrency::limit::Bounds;
use crate::concurrency::waiting::{QueueLimits, WaitingPosition};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::Range;
use std::time::Duration;
use titan_config::Importance;
use titan_io::network::ClientNetwork;
use titan_io::shares::{ClientCounter, Shares};

const ENDPOINTS: usize = 3;
/// Requests that an endpoint serves at the same moment.
const SERVERS: u32 = 10;
/// How long it takes for one, on average.
const SERVICE: Duration = Duration::from_millis(50);
/// How many requests all endpoints serve in a second: C.
const CAPACITY: f64 = 600.0;
/// How long clients wait.
const PATIENCE: Duration = Duration::from_secs(1);
const CLIENTS: u32 = 20;
const INITIAL: u32 = 20;

/// How the times that requests take are distributed.
#[derive(Clone, Copy, Debug)]
enum Service {
    Constant,
    Exponential,
    /// One in ten takes ten times as long as the others.
    Mixed,
}

/// What is wrong with an endpoint.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    /// It takes so many times as long.
    Slow(u32),
    /// It fails at once.
    Fails,
    /// It takes requests, and says nothing.
    Silent,
}

/// What happens in a run. Seconds count from its beginning.
#[derive(Clone)]
struct Scenario {
    name: &'static str,
    service: Service,
    /// The offered load as a share of the capacity, each from a second on.
    offered: Vec<(u64, f64)>,
    /// What is wrong with the first so many endpoints, and in which seconds.
    fault: Option<(usize, Fault, Range<u64>)>,
    /// How often a client asks again, a second after a failure on average.
    retries: u32,
    seconds: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrives,
    AsksAgain { tries: u32 },
    Responds { endpoint: usize, request: usize },
    Fails { request: usize },
    GivesUp { request: usize },
    Recovers,
}

struct Request {
    entrant: Entrant,
    tries: u32,
    attempts: u32,
    endpoint: usize,
    arrived: Duration,
    sent: Duration,
    state: State,
}

#[derive(Clone, Copy)]
enum State {
    /// Where the gate has a place for it.
    Waits(Option<WaitingPosition>),
    Runs(ClientCounter),
    Over,
}

#[derive(Default)]
struct Endpoint {
    /// Requests that it serves now,
    serves: u32,
    /// and that wait in it.
    queue: VecDeque<usize>,
    /// Those that the gateway has there.
    running: u32,
}

/// What clients saw in one second.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
struct Second {
    good: u32,
    refused: u32,
    failed: u32,
    gave_up: u32,
    /// How long good responses took in sum.
    took: Duration,
    /// Requests and good responses, by importance.
    classes: [(u32, u32); 3],
    limit: u32,
}

struct Simulation<'s> {
    scenario: &'s Scenario,
    /// Without one, nothing limits what runs.
    gate: Option<&'s Gate<usize>>,
    settings: GateSettings,
    /// The number keeps those of one moment in order.
    events: BinaryHeap<Reverse<(Duration, u64, Event)>>,
    scheduled: u64,
    now: Duration,
    random: u64,
    requests: Vec<Request>,
    endpoints: [Endpoint; ENDPOINTS],
    seconds: Vec<Second>,
}

impl Simulation<'_> {
    fn run(scenario: &Scenario, gate: Option<&Gate<usize>>) -> Vec<Second> {
        let queue = QueueLimits { length: 200, target: Duration::from_millis(20) };
        let mut simulation = Simulation {
            scenario,
            gate,
            settings: GateSettings { bounds: Bounds { min: 4, max: 1000 }, queue },
            events: BinaryHeap::new(),
            scheduled: 0,
            now: Duration::ZERO,
            random: 1,
            requests: Vec::new(),
            endpoints: Default::default(),
            seconds: Vec::new(),
        };
        simulation.schedule(Duration::ZERO, Event::Arrives);
        if let Some((_, _, seconds)) = &scenario.fault {
            simulation.schedule(Duration::from_secs(seconds.end), Event::Recovers);
        }
        while let Some(Reverse((now, _, event))) = simulation.events.pop()
            && now < Duration::from_secs(scenario.seconds)
        {
            simulation.now = now;
            simulation.happens(event);
        }
        simulation.seconds
    }

    fn schedule(&mut self, after: Duration, event: Event) {
        self.scheduled += 1;
        self.events.push(Reverse((self.now + after, self.scheduled, event)));
    }

    fn happens(&mut self, event: Event) {
        match event {
            Event::Arrives => {
                let second = self.now.as_secs();
                let offered = self.scenario.offered.iter().rev().find(|it| it.0 <= second);
                let (_, load) = offered.expect("loads are given from second 0 on");
                let pause = self.exponential(1.0 / (load * CAPACITY));
                self.schedule(pause, Event::Arrives);
                self.arrives(0);
            }
            Event::AsksAgain { tries } => self.arrives(tries),
            Event::Responds { endpoint, request } => {
                self.endpoints[endpoint].serves -= 1;
                self.work(endpoint);
                self.responded(request);
            }
            Event::Fails { request } => self.failed(request),
            Event::GivesUp { request } => self.gave_up(request),
            Event::Recovers => (0..ENDPOINTS).for_each(|endpoint| self.work(endpoint)),
        }
    }

    fn arrives(&mut self, tries: u32) {
        let importance = match self.draw() {
            ..0.1 => Importance::Critical,
            ..0.7 => Importance::Default,
            _ => Importance::Sheddable,
        };
        let client = client(self.whole(CLIENTS.into()));
        let limit = self.gate.map_or(0, Gate::limit);
        let second = self.second();
        second.classes[importance as usize].0 += 1;
        second.limit = limit;
        let (request, entrant) = (self.requests.len(), Entrant { importance, client });
        self.requests.push(Request {
            entrant,
            tries,
            attempts: 0,
            endpoint: 0,
            arrived: self.now,
            sent: self.now,
            state: State::Waits(None),
        });
        self.schedule(PATIENCE, Event::GivesUp { request });
        self.enters(request, entrant);
    }

    fn enters(&mut self, request: usize, entrant: Entrant) {
        let Some(gate) = self.gate else {
            self.requests[request].state = State::Runs(ClientCounter::default());
            return self.send(request);
        };
        let mut told = Vec::new();
        match gate.try_enter(entrant.client) {
            Some(counter) => told.push((request, Turn::Enter(counter))),
            None => {
                let at = (self.now, &self.settings);
                let tell = |request, turn| told.push((request, turn));
                match gate.wait(entrant, request, at, tell) {
                    Ok(place) => self.requests[request].state = State::Waits(Some(place)),
                    Err(request) => told.push((request, Turn::Refused)),
                }
            }
        }
        self.tell(told);
    }

    fn tell(&mut self, told: Vec<(usize, Turn)>) {
        for (request, turn) in told {
            match turn {
                Turn::Enter(counter) => {
                    self.requests[request].state = State::Runs(counter);
                    self.send(request);
                }
                Turn::Refused => {
                    self.second().refused += 1;
                    self.ends_badly(request);
                }
            }
        }
    }

    fn send(&mut self, id: usize) {
        let (now, request) = (self.now, &mut self.requests[id]);
        let before = (request.attempts > 0).then_some(request.endpoint);
        let others = (0..ENDPOINTS).filter(|endpoint| Some(*endpoint) != before);
        let endpoint = others.min_by_key(|&it| self.endpoints[it].running);
        let endpoint = endpoint.expect("there are more than two");
        (request.endpoint, request.sent) = (endpoint, now);
        request.attempts += 1;
        self.endpoints[endpoint].running += 1;
        match self.fault_of(endpoint) {
            Some(Fault::Fails) => {
                self.schedule(Duration::from_millis(1), Event::Fails { request: id });
            }
            Some(Fault::Silent) => {}
            Some(Fault::Slow(_)) | None => {
                self.endpoints[endpoint].queue.push_back(id);
                self.work(endpoint);
            }
        }
    }

    fn fault_of(&self, endpoint: usize) -> Option<Fault> {
        let (endpoints, fault, seconds) = self.scenario.fault.as_ref()?;
        let suffers = endpoint < *endpoints && seconds.contains(&self.now.as_secs());
        suffers.then_some(*fault)
    }

    fn work(&mut self, index: usize) {
        while self.endpoints[index].serves < SERVERS {
            let Some(request) = self.endpoints[index].queue.pop_front() else { return };
            self.endpoints[index].serves += 1;
            let took = match self.scenario.service {
                Service::Constant => SERVICE,
                Service::Exponential => self.exponential(SERVICE.as_secs_f64()),
                Service::Mixed => match self.draw() < 0.1 {
                    true => SERVICE.mul_f64(10.0 / 1.9),
                    false => SERVICE.div_f64(1.9),
                },
            };
            let times = match self.fault_of(index) {
                Some(Fault::Slow(times)) => times,
                _ => 1,
            };
            self.schedule(took * times, Event::Responds { endpoint: index, request });
        }
    }

    fn responded(&mut self, id: usize) {
        let Request { state: State::Runs(counter), arrived, sent, entrant, endpoint, .. } =
            self.requests[id]
        else {
            return;
        };
        self.requests[id].state = State::Over;
        self.endpoints[endpoint].running -= 1;
        let now = self.now;
        let second = self.second();
        second.good += 1;
        second.took += now - arrived;
        second.classes[entrant.importance as usize].1 += 1;
        self.note(Sample::Responded(now - sent));
        self.leave(counter);
    }

    fn failed(&mut self, id: usize) {
        let Request { state: State::Runs(counter), attempts, endpoint, .. } = self.requests[id]
        else {
            return;
        };
        self.endpoints[endpoint].running -= 1;
        self.note(Sample::Dropped);
        if attempts < 2 {
            return self.send(id);
        }
        self.second().failed += 1;
        self.ends_badly(id);
        self.leave(counter);
    }

    fn gave_up(&mut self, id: usize) {
        let Request { state, endpoint, .. } = self.requests[id];
        if !matches!(state, State::Over) {
            self.second().gave_up += 1;
            self.ends_badly(id);
        }
        match (state, self.gate) {
            (State::Waits(Some(place)), Some(gate)) => gate.forget(place),
            (State::Runs(counter), _) => {
                self.endpoints[endpoint].running -= 1;
                self.leave(counter);
            }
            _ => {}
        }
    }

    fn note(&mut self, sample: Sample) {
        let mut told = Vec::new();
        let at = (self.now, &self.settings);
        if let Some(gate) = self.gate
            && gate.note(sample, at.0, at.1)
        {
            gate.serve(at, |request, turn| told.push((request, turn)));
        }
        self.tell(told);
    }

    fn leave(&mut self, counter: ClientCounter) {
        let mut told = Vec::new();
        if let Some(gate) = self.gate {
            let at = (self.now, &self.settings);
            gate.leave(counter, at, |request, turn| told.push((request, turn)));
        }
        self.tell(told);
    }

    fn ends_badly(&mut self, id: usize) {
        self.requests[id].state = State::Over;
        let tries = self.requests[id].tries + 1;
        if tries <= self.scenario.retries {
            let pause = self.exponential(1.0);
            self.schedule(pause, Event::AsksAgain { tries });
        }
    }

    fn second(&mut self) -> &mut Second {
        let second = usize::try_from(self.now.as_secs()).unwrap();
        if self.seconds.len() <= second {
            self.seconds.resize(second + 1, Second::default());
        }
        &mut self.seconds[second]
    }

    fn exponential(&mut self, mean: f64) -> Duration {
        Duration::from_secs_f64(-(1.0 - self.draw()).ln() * mean)
    }

    /// A whole number below `bound`.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is small")]
    fn whole(&mut self, bound: f64) -> u32 {
        (self.draw() * bound) as u32
    }

    /// A number from 0 to 1, without 1 (splitmix64).
    fn draw(&mut self) -> f64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let upper = u32::try_from((mixed ^ (mixed >> 31)) >> 32).unwrap();
        f64::from(upper) / (f64::from(u32::MAX) + 1.0)
    }
}

/// Poisson arrivals at that load.
fn steady(name: &'static str, load: f64, service: Service) -> Scenario {
    Scenario { name, service, offered: vec![(0, load)], fault: None, retries: 0, seconds: 40 }
}

/// A fault of the first endpoints from second 20 to 40.
fn fault(name: &'static str, endpoints: usize, fault: Fault, load: f64) -> Scenario {
    let fault = Some((endpoints, fault, FAULT));
    Scenario { fault, seconds: 60, ..steady(name, load, Service::Exponential) }
}

const FAULT: Range<u64> = 20..40;

fn steady_ones() -> [Scenario; 8] {
    use Service::{Constant, Exponential, Mixed};
    [
        steady("0.5 C", 0.5, Exponential),
        steady("0.9 C", 0.9, Exponential),
        steady("0.9 C, mixed", 0.9, Mixed),
        steady("2 C", 2.0, Exponential),
        steady("5 C", 5.0, Exponential),
        steady("5 C, constant", 5.0, Constant),
        steady("5 C, mixed", 5.0, Mixed),
        steady("10 C", 10.0, Exponential),
    ]
}

fn faults() -> [Scenario; 12] {
    use Fault::{Fails, Silent, Slow};
    let retried = |scenario| Scenario { retries: 3, ..scenario };
    [
        fault("one of three slow, 0.6 C", 1, Slow(10), 0.6),
        fault("one of three slow, 5 C", 1, Slow(10), 5.0),
        fault("one of three fails, 0.6 C", 1, Fails, 0.6),
        fault("one of three fails, 5 C", 1, Fails, 5.0),
        fault("one of three silent, 0.6 C", 1, Silent, 0.6),
        fault("one of three silent, 5 C", 1, Silent, 5.0),
        retried(fault("all slow, 0.8 C, retries", 3, Slow(10), 0.8)),
        retried(fault("all fail, 0.8 C, retries", 3, Fails, 0.8)),
        fault("all fail, 5 C", 3, Fails, 5.0),
        retried(fault("all silent, 0.8 C, retries", 3, Silent, 0.8)),
        retried(Scenario {
            offered: vec![(0, 0.8), (40, 10.0), (42, 0.8)],
            ..fault("a herd after all were silent, 0.8 C, retries", 3, Silent, 0.8)
        }),
        Scenario {
            offered: vec![(0, 0.8), (20, 5.0), (40, 0.8)],
            ..fault("5 C for 20 s, 0.8 C", 0, Fails, 0.8)
        },
    ]
}

impl Scenario {
    /// What can be served of the load at the end.
    fn possible(&self) -> f64 {
        self.offered.last().unwrap().1.min(1.0)
    }
}

/// Good responses as a share of the capacity.
fn goodput(seconds: &[Second]) -> f64 {
    let good: u32 = seconds.iter().map(|second| second.good).sum();
    f64::from(good) / u32::try_from(seconds.len()).map_or(1.0, f64::from) / CAPACITY
}

fn latency(seconds: &[Second]) -> Duration {
    let good: u32 = seconds.iter().map(|second| second.good).sum();
    seconds.iter().map(|second| second.took).sum::<Duration>() / good.max(1)
}

/// Clients that each have a counter of their own: whether two share one is a matter of chance.
fn shares() -> Shares {
    let clients: Vec<_> = (0..CLIENTS).map(client).collect();
    Shares::apart(&clients)
}

fn client(number: u32) -> Option<ClientNetwork> {
    Some(ClientNetwork::of(std::net::Ipv4Addr::from_bits(number).into()))
}

fn run(scenario: &Scenario) -> Vec<Second> {
    Simulation::run(scenario, Some(&Gate::new(INITIAL, shares())))
}

/// From the tenth second on, or the tenth after the fault.
fn settled<'s>(scenario: &Scenario, seconds: &'s [Second]) -> &'s [Second] {
    &seconds[if scenario.fault.is_some() { 50 } else { 10 }..]
}

#[test]
fn goodput_stays_near_what_is_possible_at_any_load() {
    for scenario in steady_ones() {
        let seconds = run(&scenario);
        let (settled, name) = (settled(&scenario, &seconds), scenario.name);
        assert!(goodput(settled) >= 0.9 * scenario.possible(), "{name}: {settled:#?}");
        assert!(latency(settled) < 3 * SERVICE, "{name}: {:?}", latency(settled));
    }
}

#[test]
fn nothing_is_refused_where_all_can_be_served() {
    for scenario in steady_ones().into_iter().filter(|it| it.possible() < 1.0) {
        let seconds = run(&scenario);
        let refused: u32 = settled(&scenario, &seconds).iter().map(|it| it.refused).sum();
        assert_eq!(refused, 0, "{}", scenario.name);
    }
}

#[test]
fn ten_seconds_after_a_fault_all_is_as_before() {
    for scenario in faults() {
        let seconds = run(&scenario);
        let settled = settled(&scenario, &seconds);
        let share = goodput(settled) / scenario.possible();
        assert!(share >= 0.9, "{}: {share} {settled:#?}", scenario.name);
    }
}

#[test]
fn without_a_limit_an_upstream_does_not_recover() {
    let scenario = fault("all slow, 0.8 C", 3, Fault::Slow(10), 0.8);
    let seconds = Simulation::run(&scenario, None);
    assert!(goodput(settled(&scenario, &seconds)) < 0.01, "{seconds:#?}");
}

#[test]
fn what_matters_least_is_refused_first() {
    let scenario = steady("2 C", 2.0, Service::Exponential);
    let seconds = run(&scenario);
    let share = |class: usize| {
        let classes = settled(&scenario, &seconds).iter().map(|it| it.classes[class]);
        let (all, good) = classes.fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
        f64::from(good) / f64::from(all)
    };
    let [critical, default, sheddable] = [0, 1, 2].map(share);
    // 0.2 C are critical and 1.2 C default.
    assert!(critical > 0.99, "{critical}");
    assert!((0.55..0.75).contains(&default), "{default}");
    assert!(sheddable < 0.05, "{sheddable}");
}

#[test]
fn the_same_seed_gives_the_same_course() {
    let scenario = &faults()[0];
    assert_eq!(run(scenario), run(scenario));
}

/// A row of the table in decision 47 for each scenario: without a limit, and with one.
#[test]
#[ignore = "prints a table, and takes a while"]
fn table() {
    let long = Scenario { seconds: 300, ..steady("2 C, 5 min", 2.0, Service::Exponential) };
    for scenario in steady_ones().into_iter().chain([long]).chain(faults()) {
        print!("| {} | {} ", scenario.name, scenario.possible());
        for seconds in [Simulation::run(&scenario, None), run(&scenario)] {
            let settled = settled(&scenario, &seconds);
            let last = latency(&settled[settled.len() - 10..]).as_millis();
            print!("| {:.2}, {last} ms ", goodput(settled));
        }
        println!("|");
    }
}
