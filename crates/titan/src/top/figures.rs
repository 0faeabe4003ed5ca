//! What follows from two readings of a gateway: rates, shares, percentiles. Pure.
//!
//! A figure that cannot be told is `None`: at the first reading, where a count is missing, and where it has become smaller,
//! because the gateway was started again or another process has taken over.

mod durations;
#[cfg(test)]
mod tests;

pub(super) use titan_admin::Quantile;

use super::reading::{Breaker, Counts, Endpoint, Group, Reading, Upstream};
use durations::Durations;
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// All that is shown of a gateway.
#[derive(Clone, Debug, Default)]
pub(super) struct Figures {
    pub(super) version: Option<String>,
    pub(super) uptime: Option<Duration>,
    /// Whether another process has responded than before: there are no rates then.
    pub(super) is_restarted: bool,
    /// Whether the gateway has told how its upstreams are doing.
    pub(super) has_states: bool,
    pub(super) all: Traffic,
    pub(super) clients: Clients,
    /// Rates of failures by problem code, the most frequent first.
    pub(super) failures: Vec<(String, f64)>,
    pub(super) routes: Vec<(String, Traffic)>,
    pub(super) attempts: Attempts,
    pub(super) upstreams: Vec<UpstreamFigures>,
    pub(super) workers: Vec<(String, Load)>,
    pub(super) pressure: Pressure,
    pub(super) configuration: Configuration,
}

/// Requests and their responses; rates a second.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Traffic {
    pub(super) requests: Option<f64>,
    /// In the order of [`CLASSES`].
    pub(super) classes: [Option<f64>; CLASSES.len()],
    /// The share of 5xx and of those without a complete response, from 0 to 1.
    pub(super) errors: Option<f64>,
    pub(super) durations: Durations,
    /// Bytes.
    pub(super) received: Option<f64>,
    pub(super) sent: Option<f64>,
}

/// The classes of responses; `none` is for requests that ended without a complete one.
pub(super) const CLASSES: [&str; 6] = ["2xx", "3xx", "4xx", "5xx", "none", "1xx"];
/// Those of them that are errors of the gateway or of what is behind it.
const ERRORS: [usize; 2] = [3, 4];

/// The connections of clients: what is open, and rates a second.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Clients {
    pub(super) connections: Option<f64>,
    pub(super) streams: Option<f64>,
    pub(super) tunnels: Option<f64>,
    pub(super) accepted: Option<f64>,
    pub(super) refused: Option<f64>,
    pub(super) handshakes_failed: Option<f64>,
}

/// What is sent to an upstream; rates a second.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Attempts {
    pub(super) requests: Option<f64>,
    pub(super) attempts: Option<f64>,
    pub(super) failures: Option<f64>,
    /// The share of attempts that fail, from 0 to 1.
    pub(super) errors: Option<f64>,
    pub(super) retries: Option<f64>,
    pub(super) retries_refused: Option<f64>,
    pub(super) hedges: Option<f64>,
    pub(super) hedges_won: Option<f64>,
    pub(super) shed: Option<f64>,
    pub(super) rejected: Option<f64>,
    pub(super) ejections: Option<f64>,
    pub(super) durations: Durations,
}

/// An upstream with its endpoints.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct UpstreamFigures {
    pub(super) name: String,
    /// Whether requests go to all endpoints because too few are healthy.
    pub(super) panics: bool,
    pub(super) breaker: Option<State>,
    pub(super) attempts: Attempts,
    pub(super) endpoints: Vec<EndpointFigures>,
}

/// An endpoint.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct EndpointFigures {
    pub(super) address: String,
    pub(super) state: State,
    pub(super) requests: Option<f64>,
    pub(super) errors: Option<f64>,
    /// Seconds until its responses begin, as balancing sees it.
    pub(super) latency: Option<f64>,
    pub(super) active: Option<f64>,
    pub(super) waiting: Option<f64>,
    pub(super) connections: Option<f64>,
    pub(super) ejections: Option<f64>,
}

/// What an endpoint or a breaker is in.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct State {
    /// `healthy`, `ejected`, `open` and so on, as the gateway says it.
    pub(super) name: String,
    pub(super) why: Option<String>,
    /// For how long so far.
    pub(super) lasted: Option<Duration>,
    /// For how long at least from now.
    pub(super) left: Option<Duration>,
}

/// What a worker does.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Load {
    /// The share of a core, from 0 to 1.
    pub(super) busy: Option<f64>,
    /// Seconds by which its last tick was late.
    pub(super) lag: Option<f64>,
    pub(super) requests: Option<f64>,
    pub(super) connections: Option<f64>,
    pub(super) streams: Option<f64>,
    pub(super) tunnels: Option<f64>,
    pub(super) received: Option<f64>,
    pub(super) sent: Option<f64>,
}

/// How near the gateway is to its limits.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Pressure {
    pub(super) level: Option<f64>,
    /// Shares of what there may be, from 0 to 1.
    pub(super) descriptors: Option<f64>,
    pub(super) memory: Option<f64>,
}

/// How the last reload went.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Configuration {
    /// How long it is ago; nothing where there was none.
    pub(super) reloaded: Option<Duration>,
    pub(super) is_successful: Option<bool>,
    pub(super) is_on_trial: bool,
    pub(super) in_use: Option<f64>,
}

/// The time between two readings.
#[derive(Clone, Copy)]
struct Span {
    seconds: f64,
}

impl Figures {
    /// What `now` shows, beside the reading before it.
    pub(super) fn of(now: &Reading, before: Option<&Reading>) -> Figures {
        let nothing = Counts::default();
        let start = |counts: &Counts| single(counts, "titan_process_start_time_seconds");
        let is_restarted = before.is_some_and(|it| start(&it.counts) != start(&now.counts));
        let known = before.filter(|_| !is_restarted);
        let seconds = known.map_or(0.0, |it| now.at.duration_since(it.at).as_secs_f64());
        let (span, old) = (Span { seconds }, known.map_or(&nothing, |it| &it.counts));
        let counts = &now.counts;
        let workers = span.workers(&counts.workers, &old.workers);
        let routes = span.routes(&counts.routes, &old.routes);
        let upstreams = span.upstreams(now, old, known.and_then(|it| it.upstreams.as_deref()));
        let since = |at: f64| Some(now.time.duration_since(moment(at)?).unwrap_or_default());
        Figures {
            version: counts.version.clone(),
            uptime: start(counts).and_then(since),
            is_restarted,
            has_states: now.upstreams.is_some(),
            all: Traffic::sum(&routes, &workers),
            clients: span.clients(counts, old, &workers),
            failures: span.failures(&counts.failures, &old.failures),
            attempts: Attempts::sum(&upstreams),
            routes,
            upstreams,
            workers,
            pressure: Pressure {
                level: single(counts, "titan_pressure_level"),
                descriptors: single(counts, "titan_pressure_ratio descriptors"),
                memory: single(counts, "titan_pressure_ratio memory"),
            },
            configuration: Configuration {
                reloaded: single(counts, "titan_config_last_reload_timestamp_seconds")
                    .filter(|at| *at > 0.0)
                    .and_then(since),
                is_successful: single(counts, "titan_config_last_reload_successful")
                    .map(|it| it > 0.0),
                is_on_trial: single(counts, "titan_config_on_trial").is_some_and(|it| it > 0.0),
                in_use: single(counts, "titan_config_in_use"),
            },
        }
    }
}

impl Span {
    /// How fast a count grows.
    fn rate(self, now: Option<f64>, before: Option<f64>) -> Option<f64> {
        let grown = now? - before?;
        (grown >= 0.0 && self.seconds > 0.0).then(|| grown / self.seconds)
    }

    /// How fast a count of a group grows.
    fn rate_of(self, now: &Group, before: Option<&Group>, name: &str) -> Option<f64> {
        self.rate(now.count(name), before?.count(name))
    }

    fn routes(
        self,
        now: &BTreeMap<String, Group>,
        before: &BTreeMap<String, Group>,
    ) -> Vec<(String, Traffic)> {
        let traffic = |(name, group)| (String::clone(name), self.traffic(group, before.get(name)));
        now.iter().map(traffic).collect()
    }

    fn traffic(self, now: &Group, before: Option<&Group>) -> Traffic {
        let rate = |name| self.rate_of(now, before, name);
        let traffic = Traffic {
            durations: before.map_or_else(Durations::default, |before| {
                Durations::between(&before.durations, &now.durations)
            }),
            received: rate("titan_request_size_bytes_sum"),
            sent: rate("titan_response_size_bytes_sum"),
            ..Traffic::default()
        };
        traffic.with_classes(CLASSES.map(rate))
    }

    fn clients(self, now: &Counts, before: &Counts, workers: &[(String, Load)]) -> Clients {
        let rate = |name: &str| {
            let of = |(worker, group): (&String, &Group)| {
                self.rate_of(group, before.workers.get(worker), name)
            };
            sum(now.workers.iter().map(of))
        };
        Clients {
            connections: sum(workers.iter().map(|(_, it)| it.connections)),
            streams: sum(workers.iter().map(|(_, it)| it.streams)),
            tunnels: sum(workers.iter().map(|(_, it)| it.tunnels)),
            accepted: rate("titan_connections_accepted_total"),
            refused: rate("titan_connections_refused_total"),
            handshakes_failed: rate("titan_tls_handshakes_failed_total"),
        }
    }

    fn failures(
        self,
        now: &BTreeMap<String, f64>,
        before: &BTreeMap<String, f64>,
    ) -> Vec<(String, f64)> {
        let rate = |(code, count): (&String, &f64)| {
            let rate = self.rate(Some(*count), before.get(code).copied())?;
            (rate > 0.0).then(|| (code.clone(), rate))
        };
        let mut rates: Vec<_> = now.iter().filter_map(rate).collect();
        rates.sort_by(|(_, one), (_, other)| other.total_cmp(one));
        rates
    }

    fn workers(
        self,
        now: &BTreeMap<String, Group>,
        before: &BTreeMap<String, Group>,
    ) -> Vec<(String, Load)> {
        let load = |(name, group): (&String, &Group)| {
            let rate = |metric| self.rate_of(group, before.get(name), metric);
            let load = Load {
                busy: rate("titan_worker_busy_seconds_total"),
                lag: group.count("titan_worker_lag_seconds"),
                requests: rate("titan_requests_begun_total"),
                connections: group.count("titan_connections_open"),
                streams: group.count("titan_http2_streams_open"),
                tunnels: group.count("titan_tunnels_open"),
                received: rate("titan_received_bytes_total"),
                sent: rate("titan_sent_bytes_total"),
            };
            (name.clone(), load)
        };
        now.iter().map(load).collect()
    }

    /// Those that the metrics or the listing name: the listing may be refused, and metrics may be added up under one name.
    fn upstreams(
        self,
        now: &Reading,
        before: &Counts,
        states_before: Option<&[Upstream]>,
    ) -> Vec<UpstreamFigures> {
        let counts = &now.counts;
        let states: BTreeMap<&str, &Upstream> = by_name(now.upstreams.as_deref());
        let states_before = by_name(states_before);
        let mut names: Vec<&str> = counts.upstreams.keys().map(String::as_str).collect();
        names.extend(states.keys());
        names.sort_unstable();
        names.dedup();
        let one = |name: &str| {
            let mut figures = match states.get(name) {
                Some(state) => self.with_states(state, states_before.get(name).copied(), now.time),
                None => without_states(name, counts),
            };
            let attempts = counts.upstreams.get(name);
            figures.attempts = attempts.map_or_else(Attempts::default, |group| {
                self.attempts(group, before.upstreams.get(name))
            });
            figures.attempts.ejections = sum(figures.endpoints.iter().map(|it| it.ejections));
            figures
        };
        names.into_iter().map(one).collect()
    }

    fn attempts(self, now: &Group, before: Option<&Group>) -> Attempts {
        let rate = |name| self.rate_of(now, before, name);
        let attempts = rate("titan_upstream_attempts_total");
        let failures = rate("titan_upstream_failures_total");
        Attempts {
            requests: rate("titan_upstream_requests_total"),
            attempts,
            failures,
            errors: share(failures, attempts),
            retries: rate("titan_upstream_retries_total"),
            retries_refused: rate("titan_upstream_retries_refused_total"),
            hedges: rate("titan_upstream_hedges_total"),
            hedges_won: rate("titan_upstream_hedges_won_total"),
            shed: rate("titan_upstream_shed_total"),
            rejected: rate("titan_circuit_breaker_rejected_total"),
            ejections: None,
            durations: before.map_or_else(Durations::default, |before| {
                Durations::between(&before.durations, &now.durations)
            }),
        }
    }

    fn with_states(
        self,
        state: &Upstream,
        before: Option<&Upstream>,
        now: SystemTime,
    ) -> UpstreamFigures {
        let before: BTreeMap<&str, &Endpoint> = before
            .map(|it| it.endpoints.iter().map(|it| (it.address.as_str(), it)).collect())
            .unwrap_or_default();
        let endpoint =
            |it: &Endpoint| self.endpoint(it, before.get(it.address.as_str()).copied(), now);
        UpstreamFigures {
            name: state.name.clone(),
            panics: state.panic,
            breaker: state.breaker.as_ref().map(|breaker| State::of_breaker(breaker, now)),
            attempts: Attempts::default(),
            endpoints: state.endpoints.iter().map(endpoint).collect(),
        }
    }

    fn endpoint(
        self,
        now: &Endpoint,
        before: Option<&Endpoint>,
        time: SystemTime,
    ) -> EndpointFigures {
        let rate = |of: fn(&Endpoint) -> u64| {
            let count = |endpoint| Some(as_figure(of(endpoint)));
            self.rate(count(now), before.and_then(count))
        };
        let (requests, failures) = (rate(|it| it.requests), rate(|it| it.failures));
        EndpointFigures {
            address: now.address.clone(),
            state: State::of_endpoint(now, time),
            requests,
            errors: share(failures, requests),
            latency: now.latency_seconds,
            active: Some(now.requests_active.into()),
            waiting: Some(now.requests_waiting.into()),
            connections: Some(now.connections_open.into()),
            ejections: rate(|it| it.ejections),
        }
    }
}

impl Traffic {
    fn with_classes(self, classes: [Option<f64>; CLASSES.len()]) -> Traffic {
        let requests = sum(classes);
        let errors = share(sum(ERRORS.map(|place| classes[place])), requests);
        Traffic { requests, classes, errors, ..self }
    }

    /// The traffic of all routes together.
    fn sum(routes: &[(String, Traffic)], workers: &[(String, Load)]) -> Traffic {
        let of_class = |place: usize| sum(routes.iter().map(|(_, it)| it.classes[place]));
        let traffic = Traffic {
            durations: Durations::sum(routes.iter().map(|(_, it)| &it.durations)),
            received: sum(workers.iter().map(|(_, it)| it.received)),
            sent: sum(workers.iter().map(|(_, it)| it.sent)),
            ..Traffic::default()
        };
        traffic.with_classes(std::array::from_fn(of_class))
    }
}

impl Attempts {
    fn sum(upstreams: &[UpstreamFigures]) -> Attempts {
        let of = |figure: fn(&Attempts) -> Option<f64>| {
            sum(upstreams.iter().map(|upstream| figure(&upstream.attempts)))
        };
        let (attempts, failures) = (of(|it| it.attempts), of(|it| it.failures));
        Attempts {
            requests: of(|it| it.requests),
            attempts,
            failures,
            errors: share(failures, attempts),
            retries: of(|it| it.retries),
            retries_refused: of(|it| it.retries_refused),
            hedges: of(|it| it.hedges),
            hedges_won: of(|it| it.hedges_won),
            shed: of(|it| it.shed),
            rejected: of(|it| it.rejected),
            ejections: of(|it| it.ejections),
            durations: Durations::sum(upstreams.iter().map(|it| &it.attempts.durations)),
        }
    }
}

impl State {
    /// Whether requests go there as usual.
    pub(super) fn is_good(&self) -> bool {
        matches!(self.name.as_str(), "healthy" | "closed")
    }

    fn of_endpoint(endpoint: &Endpoint, now: SystemTime) -> State {
        let until = endpoint.reasons.first().and_then(|reason| reason.until.as_deref());
        let left = until.and_then(when).and_then(|until| until.duration_since(now).ok());
        let mut state = State {
            name: endpoint.state.clone(),
            why: endpoint.why.clone(),
            lasted: lasted(endpoint.since.as_deref(), now),
            left,
        };
        // One that lets requests through for a trial keeps none from the endpoint as a whole, but few of them.
        if state.is_good()
            && let Some(breaker) = endpoint.breaker.as_ref().filter(|it| it.state == "half-open")
        {
            state =
                State { name: "breaker-half-open".to_owned(), ..State::of_breaker(breaker, now) };
        }
        state
    }

    fn of_breaker(breaker: &Breaker, now: SystemTime) -> State {
        let left = breaker.ends_in_seconds.and_then(|it| Duration::try_from_secs_f64(it).ok());
        State {
            name: breaker.state.clone(),
            why: breaker.why.clone(),
            lasted: lasted(breaker.since.as_deref(), now),
            left,
        }
    }
}

/// An upstream of which only metrics are known.
fn without_states(name: &str, counts: &Counts) -> UpstreamFigures {
    let from = (name.to_owned(), String::new());
    let of_it = counts.endpoints.range(from..).take_while(|((upstream, _), _)| upstream == name);
    let endpoint = |((_, address), group): (&(String, String), &Group)| {
        let is_healthy = group.count("titan_endpoint_healthy").is_none_or(|it| it > 0.0);
        let state = if is_healthy { "healthy" } else { "not healthy" };
        EndpointFigures {
            address: address.clone(),
            state: State { name: state.to_owned(), ..State::default() },
            active: group.count("titan_endpoint_requests_active"),
            waiting: group.count("titan_endpoint_requests_waiting"),
            connections: group.count("titan_endpoint_connections_open"),
            ..EndpointFigures::default()
        }
    };
    let endpoints = of_it.map(endpoint).collect();
    UpstreamFigures { name: name.to_owned(), endpoints, ..UpstreamFigures::default() }
}

fn by_name(upstreams: Option<&[Upstream]>) -> BTreeMap<&str, &Upstream> {
    upstreams.into_iter().flatten().map(|it| (it.name.as_str(), it)).collect()
}

fn single(counts: &Counts, name: &str) -> Option<f64> {
    counts.single.get(name).copied()
}

/// The sum of what is known.
fn sum(figures: impl IntoIterator<Item = Option<f64>>) -> Option<f64> {
    let add = |all: Option<f64>, one| Some(all.unwrap_or(0.0) + one);
    figures.into_iter().flatten().fold(None, add)
}

fn share(part: Option<f64>, whole: Option<f64>) -> Option<f64> {
    let whole = whole.filter(|whole| *whole > 0.0)?;
    Some((part? / whole).clamp(0.0, 1.0))
}

/// That Unix time.
fn moment(seconds: f64) -> Option<SystemTime> {
    SystemTime::UNIX_EPOCH.checked_add(Duration::try_from_secs_f64(seconds).ok()?)
}

/// What RFC 3339 writes.
fn when(text: &str) -> Option<SystemTime> {
    OffsetDateTime::parse(text, &Rfc3339).ok().map(SystemTime::from)
}

/// The clocks of two machines may differ: nothing began later than now.
fn lasted(since: Option<&str>, now: SystemTime) -> Option<Duration> {
    Some(now.duration_since(when(since?)?).unwrap_or_default())
}

#[expect(clippy::cast_precision_loss, reason = "a count of 2^53 is one in a lifetime")]
fn as_figure(count: u64) -> f64 {
    count as f64
}
