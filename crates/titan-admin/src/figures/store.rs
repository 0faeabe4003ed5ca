//! What is kept of the figures: the points of each route, and the last seconds of everything else. Bounded by the number of routes
//! that have points of their own, whatever a configuration has.

use super::problems::{self, About, Draft, Problem};
use super::series::{Recent, Series, Timeline};
use super::tally::{Count, Tally, UpstreamTally};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use titan_proxy::{Counted, RouteCells, UpstreamCells};

/// How many routes have points of their own, in the order of the file; the others are added up. As many upstreams have figures.
pub(super) const MOST: usize = 500;

/// The name of all routes beyond that together, which no route can have.
pub(super) const OTHER: &str = "(other)";

/// What is kept.
pub(super) struct Store {
    pub(super) timeline: Timeline,
    /// When the last sample was taken.
    pub(super) at: SystemTime,
    /// The samples so far.
    pub(super) samples: u64,
    /// Requests of all routes together.
    pub(super) all: Series,
    /// In the order of the file, and behind them those that share a name, and what no route took.
    pub(super) routes: Vec<(String, Series)>,
    pub(super) upstreams: Vec<(String, Recent<UpstreamTally>)>,
    /// Where the requests of each route go, as far as these have points of their own.
    pub(super) upstreams_of_routes: Vec<Vec<String>>,
    pub(super) workers: Recent<Vec<u64>>,
    pub(super) drops: Recent<[u64; 2]>,
    /// What is wrong, of what does not know itself since when.
    pub(super) dated: Vec<Problem>,
    since: HashMap<About, SystemTime>,
    counted: CountedRoutes,
}

/// The routes of the last sample.
#[derive(Default)]
struct CountedRoutes {
    routes: Vec<Arc<Counted<RouteCells>>>,
    /// What each had counted.
    tallies: Vec<Tally>,
    /// What all have counted since the first sample, and those that share a name, whatever came and went.
    all: Tally,
    other: Tally,
}

/// What is read at one moment.
pub(super) struct Sample {
    /// In the order of the file, and behind them what no route took.
    pub(super) routes: Vec<Arc<Counted<RouteCells>>>,
    pub(super) upstreams: Vec<Arc<Counted<UpstreamCells>>>,
    /// Microseconds of processor time of each worker.
    pub(super) workers: Vec<u64>,
    /// Records and events that were dropped.
    pub(super) drops: [u64; 2],
}

impl Store {
    pub(super) fn new(now: SystemTime) -> Store {
        Store {
            timeline: Timeline::default(),
            at: now,
            samples: 0,
            all: Series::new(&Tally::default()),
            routes: Vec::new(),
            upstreams: Vec::new(),
            upstreams_of_routes: Vec::new(),
            workers: Recent::default(),
            drops: Recent::default(),
            dated: Vec::new(),
            since: HashMap::new(),
            counted: CountedRoutes::default(),
        }
    }

    /// Takes a sample, so long behind the first one. `upstreams_of` is asked where the routes are others than before.
    pub(super) fn note(
        &mut self,
        sample: Sample,
        (behind, now): (Duration, SystemTime),
        upstreams_of: impl FnOnce() -> Vec<Vec<String>>,
    ) {
        let Sample { routes, upstreams, workers, drops } = sample;
        let step = self.timeline.advance(behind);
        self.at = now;
        self.samples += 1;
        if !self.counted.are(&routes) {
            self.upstreams_of_routes = upstreams_of();
        }
        self.counted.note(routes);
        self.all.note(step, self.counted.all.clone());
        let named = self.counted.named();
        align(&mut self.routes, named, Series::new, |series, tally| series.note(step, tally));
        let upstreams = upstreams.iter().take(MOST);
        let upstreams = upstreams.map(|it| (it.name(), UpstreamTally::of(it))).collect();
        let begin = |tally: &UpstreamTally| {
            let mut recent = Recent::default();
            recent.note(tally.clone());
            recent
        };
        align(&mut self.upstreams, upstreams, begin, Recent::note);
        self.workers.note(workers);
        self.drops.note(drops);
    }

    /// Notes what is wrong of what does not know itself since when.
    pub(super) fn date(&mut self, drafts: Vec<Draft>) {
        self.dated = problems::dated(drafts.into_iter(), &mut self.since, self.at);
    }

    /// The points of a route; those of all without a name.
    pub(super) fn series(&self, route: Option<&str>) -> Option<&Series> {
        let Some(route) = route else { return Some(&self.all) };
        self.routes.iter().find(|(name, _)| name == route).map(|(_, series)| series)
    }
}

impl CountedRoutes {
    fn are(&self, routes: &[Arc<Counted<RouteCells>>]) -> bool {
        self.routes.len() == routes.len()
            && self.routes.iter().zip(routes).all(|(one, other)| Arc::ptr_eq(one, other))
    }

    /// Reads what they count now, those among them that are gone a last time. What came with another configuration adds nothing at
    /// first: its counts are from another time.
    fn note(&mut self, routes: Vec<Arc<Counted<RouteCells>>>) {
        self.read();
        if !self.are(&routes) {
            let tallies = self.tallies.drain(..);
            let mut before: HashMap<_, _> =
                self.routes.iter().map(Arc::as_ptr).zip(tallies).collect();
            let tally =
                |route| before.remove(&Arc::as_ptr(route)).unwrap_or_else(|| Tally::of(route));
            self.tallies = routes.iter().map(tally).collect();
            self.routes = routes;
        }
    }

    fn read(&mut self) {
        let count = self.routes.len();
        for (place, (route, tally)) in self.routes.iter().zip(&mut self.tallies).enumerate() {
            // Of many routes most rest: nothing runs, and nothing has begun. What no route took is not counted when it begins.
            let is_route = place + 1 < count;
            if is_route && route.sum(|cells| cells.begun.get()) == tally.requests {
                continue;
            }
            let now = Tally::of(route);
            let grown = now.since(tally).unwrap_or_default();
            self.all.add(&grown);
            if !has_own(place, count) {
                self.other.add(&grown);
            }
            *tally = now;
        }
    }

    /// Names and counts, those that share a name last but one.
    fn named(&self) -> Vec<(&str, Tally)> {
        let count = self.routes.len();
        let all = self.routes.iter().map(|route| route.name()).zip(self.tallies.iter().cloned());
        let own = all.enumerate().filter(|(place, _)| has_own(*place, count));
        let mut named: Vec<_> = own.map(|(_, named)| named).collect();
        if count > MOST + 1 {
            named.insert(MOST, (OTHER, self.other.clone()));
        }
        named
    }
}

/// Whether the route at that place has points of its own; the last one has, for what no route took.
fn has_own(place: usize, count: usize) -> bool {
    place < MOST || place + 1 == count
}

/// Brings things into the order of `now`, begins with those that are new, and goes on with the others. Those that are gone are
/// forgotten.
fn align<T, C>(
    things: &mut Vec<(String, T)>,
    now: Vec<(&str, C)>,
    begin: impl Fn(&C) -> T,
    go_on: impl Fn(&mut T, C),
) {
    let is_same = things.len() == now.len()
        && things.iter().zip(&now).all(|((name, _), (other, _))| name == other);
    if is_same {
        things.iter_mut().zip(now).for_each(|((_, thing), (_, count))| go_on(thing, count));
        return;
    }
    let mut before: HashMap<String, T> = things.drain(..).collect();
    things.extend(now.into_iter().map(|(name, count)| match before.remove_entry(name) {
        Some((name, mut thing)) => {
            go_on(&mut thing, count);
            (name, thing)
        }
        None => (name.to_owned(), begin(&count)),
    }));
}
