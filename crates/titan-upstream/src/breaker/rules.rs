//! What a configuration says of breakers, ready to be used.

use super::thresholds::{Outcome, Thresholds};
use std::time::Duration;
use titan_config::{BreakerFailures, BreakerScope, CircuitBreaker, Percent, Statuses};
use titan_http::Status;
use titan_io::error::Kind;

/// When breakers open and close, and what counts.
pub struct Rules {
    /// When they open and close.
    pub thresholds: Thresholds,
    /// What has one.
    pub scope: BreakerScope,
    failures: BreakerFailures,
    statuses: Statuses,
}

impl Rules {
    /// Those of a configuration.
    pub fn new(config: &CircuitBreaker) -> Rules {
        let hundredths = |share: Option<Percent>| share.map(|it| it.as_hundredths().into());
        let thresholds = Thresholds {
            consecutive_failures: config.consecutive_failures,
            failure_share: hundredths(config.failure_share),
            slow_share: hundredths(config.slow_share),
            slow_after: config.slow_after,
            window: config.window,
            min_requests: config.min_requests,
            open_time: config.open_time,
            max_open_time: config.max_open_time,
            half_open_requests: config.half_open_requests,
            close_after: config.close_after,
        };
        let CircuitBreaker { per, failures, statuses, .. } = config;
        Rules { thresholds, scope: *per, failures: *failures, statuses: statuses.clone() }
    }

    /// How a request has fared that got this response, which took so long to begin.
    pub fn responded(&self, status: Status, took: Duration) -> Outcome {
        match self.statuses.contains(status) {
            true => Outcome::Failure { took },
            false if status.code() < 400 => Outcome::Success { took },
            false => Outcome::Neutral,
        }
    }

    /// How one has fared that the endpoint let fail in this way, after so long.
    pub fn failed(&self, kind: Kind, took: Duration) -> Outcome {
        let BreakerFailures { connect, timeout, reset } = self.failures;
        let counts = match kind {
            Kind::Connect | Kind::ConnectTimeout | Kind::Tls => connect,
            Kind::ResponseTimeout | Kind::ResponseStalled => timeout,
            _ => reset,
        };
        if counts { Outcome::Failure { took } } else { Outcome::Neutral }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::breaker::{Breaker, State};
    use titan_config::Config;

    fn rules(settings: &str) -> Rules {
        let text = format!(
            "listeners: [':0']\nroutes: [{{ upstream: a }}]\n\
             upstreams: {{ a: {{ endpoints: '127.0.0.1:1', circuit_breaker: {{ {settings} }} }} }}"
        );
        let config = Config::parse("test", &text).unwrap_or_else(|report| panic!("{report}"));
        Rules::new(config.upstreams[0].circuit_breaker.as_ref().unwrap())
    }

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    /// A request that fares so; the state then.
    fn run(breaker: &Breaker, rules: &Rules, outcome: Outcome, now: Duration) -> State {
        let Rules { thresholds, .. } = rules;
        let ticket = breaker.try_pass(thresholds, now, drop).unwrap();
        breaker.complete(thresholds, (ticket, outcome), now, drop);
        breaker.status(thresholds, now).state
    }

    // field: circuit_breaker.window
    #[test]
    fn shares_are_of_the_window() {
        for (window, then) in [("30s", State::Open), ("7s", State::Closed)] {
            let rules = rules(&format!("min_requests: 2, window: {window}"));
            let (breaker, badly) = (Breaker::default(), rules.failed(Kind::Reset, seconds(0)));
            assert_eq!(run(&breaker, &rules, badly, seconds(100)), State::Closed);
            assert_eq!(run(&breaker, &rules, badly, seconds(110)), then, "{window}");
        }
    }

    // field: circuit_breaker.open_time, circuit_breaker.max_open_time
    #[test]
    fn it_is_open_for_as_long_as_it_should_be() {
        let rules = rules("consecutive_failures: 1, open_time: 7s, max_open_time: 11s");
        let (breaker, badly) = (Breaker::default(), rules.failed(Kind::Reset, seconds(0)));
        assert_eq!(run(&breaker, &rules, badly, seconds(100)), State::Open);
        assert_eq!(breaker.open_until(), Some(seconds(107)));
        assert_eq!(run(&breaker, &rules, badly, seconds(107)), State::Open);
        assert_eq!(breaker.open_until(), Some(seconds(118)));
    }

    #[test]
    fn what_counts_is_what_was_configured() {
        let took = seconds(1);
        let (well, badly) = (Outcome::Success { took }, Outcome::Failure { took });
        let every = [Kind::Connect, Kind::Tls, Kind::ResponseStalled, Kind::Truncated, Kind::Reset];
        let by_default = rules("");
        assert!(every.iter().all(|kind| by_default.failed(*kind, took) == badly));
        let responds = |code| by_default.responded(Status::from_code(code).unwrap(), took);
        assert_eq!([200, 304, 101].map(responds), [well; 3]);
        assert_eq!([500, 503, 599].map(responds), [badly; 3]);
        assert_eq!([404, 429, 501].map(responds), [Outcome::Neutral; 3]);
        let few = rules("failures: timeout, statuses: 429");
        let counts = every.map(|kind| few.failed(kind, took) == badly);
        assert_eq!(counts, [false, false, true, false, false]);
        let responds = |code| few.responded(Status::from_code(code).unwrap(), took);
        assert_eq!([429, 500].map(responds), [badly, Outcome::Neutral]);
    }
}
