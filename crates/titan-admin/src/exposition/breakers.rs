//! Metrics of circuit breakers.

use super::family::Family;
use super::folding::{Now, Other, fold};
use super::page::Page;
use std::time::Duration;
use titan_proxy::{BreakerNow, BreakerState, UpstreamStatus};

/// In the order in which [`Page::breakers`] writes them.
const OF_BREAKER: [Family; 3] = [
    Family::gauge(
        "titan_circuit_breaker_state",
        "1 for the state that the circuit breaker is in, 0 for the others.",
    ),
    Family::counter("titan_circuit_breaker_transitions_total", "Changes of the state."),
    Family::counter(
        "titan_circuit_breaker_state_seconds_total",
        "How long the circuit breaker has been in each state.",
    ),
];

const STATES: usize = BreakerState::ALL.len();
const CHANGES: usize = BreakerState::CHANGES.len();

/// How many series a breaker has.
pub(super) const OF_EACH: usize = 2 * STATES + CHANGES;

/// How many breakers are in each state and how often they have changed, and how long they were in each.
pub(super) type BreakerSum = ((Now<STATES>, [u64; CHANGES]), [Duration; STATES]);

/// What was counted of upstreams, and of endpoints, that have no series of their own.
pub(super) type OtherBreakers = (Other<1, BreakerSum>, Other<2, BreakerSum>);

/// The labels of a breaker, and its figures.
type Row<'s> = (Vec<(&'static str, &'s str)>, BreakerSum);

impl Page {
    /// Those of upstreams, and with the label `endpoint` those of endpoints, so many of each with series of their own.
    pub(super) fn breakers(
        &mut self,
        upstreams: &[UpstreamStatus],
        (own, others): ((usize, usize), &mut OtherBreakers),
    ) {
        let whole = upstreams.iter().filter_map(|upstream| {
            Some(([upstream.name.as_str()], of_breaker(upstream.breaker.as_ref()?)))
        });
        let members = upstreams.iter().flat_map(|upstream| {
            upstream.endpoints.iter().filter_map(|it| {
                let names = [upstream.name.as_str(), it.endpoint.address.as_str()];
                Some((names, of_breaker(it.breaker.as_ref()?)))
            })
        });
        let whole = fold(whole, own.0, &mut others.0).into_iter();
        let whole = whole.map(|([upstream], sum)| (vec![("upstream", upstream)], sum));
        let members = fold(members, own.1, &mut others.1).into_iter();
        let members = members.map(|([upstream, endpoint], sum)| {
            (vec![("upstream", upstream), ("endpoint", endpoint)], sum)
        });
        self.breaker_rows(&whole.chain(members).collect::<Vec<_>>());
    }

    fn breaker_rows(&mut self, rows: &[Row<'_>]) {
        let [state, transitions, seconds] = OF_BREAKER;
        self.begin(state);
        for (labels, ((Now(counts), _), _)) in rows {
            for (each, count) in BreakerState::ALL.into_iter().zip(counts) {
                let labels = [&labels[..], &[("state", each.name())]].concat();
                self.sample(state.name, &labels, count);
            }
        }
        self.begin(transitions);
        for (labels, ((_, changes), _)) in rows {
            for ((from, to), count) in BreakerState::CHANGES.into_iter().zip(changes) {
                let labels = [&labels[..], &[("from", from.name()), ("to", to.name())]].concat();
                self.sample(transitions.name, &labels, count);
            }
        }
        self.begin(seconds);
        for (labels, (_, lasted)) in rows {
            for (each, lasted) in BreakerState::ALL.into_iter().zip(lasted) {
                let labels = [&labels[..], &[("state", each.name())]].concat();
                self.sample(seconds.name, &labels, lasted.as_secs_f64());
            }
        }
    }
}

fn of_breaker(breaker: &BreakerNow) -> BreakerSum {
    let BreakerNow { status, figures, .. } = breaker;
    let states = BreakerState::ALL.map(|each| u64::from(status.state == each));
    let changes =
        BreakerState::CHANGES.map(|(from, to)| figures.transitions[from.index()][to.index()]);
    ((Now(states), changes), BreakerState::ALL.map(|each| figures.lasted[each.index()]))
}
