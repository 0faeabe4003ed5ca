//! Metrics of circuit breakers.

use super::text::{Family, Text};
use titan_proxy::{BreakerNow, BreakerState, UpstreamStatus};

/// In the order in which [`Text::breakers`] writes them.
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

impl Text {
    /// Those of upstreams, and with the label `endpoint` those of endpoints.
    pub(super) fn breakers(&mut self, upstreams: &[UpstreamStatus]) {
        let breakers: Vec<(Vec<(&str, &str)>, &BreakerNow)> = upstreams
            .iter()
            .flat_map(|upstream| {
                let name = ("upstream", upstream.name.as_str());
                let whole = upstream.breaker.iter().map(move |breaker| (vec![name], breaker));
                let own = upstream.endpoints.iter().filter_map(move |it| {
                    let address = ("endpoint", it.endpoint.address.as_str());
                    Some((vec![name, address], it.breaker.as_ref()?))
                });
                whole.chain(own)
            })
            .collect();
        let [state, transitions, seconds] = OF_BREAKER;
        self.begin(state);
        for (labels, breaker) in &breakers {
            for each in BreakerState::ALL {
                let labels = [&labels[..], &[("state", each.name())]].concat();
                self.sample(state.name, &labels, u8::from(breaker.status.state == each));
            }
        }
        self.begin(transitions);
        for (labels, breaker) in &breakers {
            for (from, to) in BreakerState::CHANGES {
                let labels = [&labels[..], &[("from", from.name()), ("to", to.name())]].concat();
                let count = breaker.figures.transitions[from.index()][to.index()];
                self.sample(transitions.name, &labels, count);
            }
        }
        self.begin(seconds);
        for (labels, breaker) in &breakers {
            for each in BreakerState::ALL {
                let labels = [&labels[..], &[("state", each.name())]].concat();
                let lasted = breaker.figures.lasted[each.index()].as_secs_f64();
                self.sample(seconds.name, &labels, lasted);
            }
        }
    }
}
