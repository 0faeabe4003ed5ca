//! In which order an exchange tries the endpoints of an upstream.

use crate::balance::{InFlight, KeySource, PickContext};
use crate::endpoint::Endpoint;
use crate::members::{CurrentMembers, Upstream};
use std::ops::Deref;
use std::rc::Rc;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};
use titan_config::Balance;
use titan_http::Version;
use titan_io::error::Kind;
use titan_io::network::ClientNetwork;

/// How an exchange goes through the endpoints of an upstream: none twice, and a bounded number.
pub struct Attempts {
    members: CurrentMembers,
    measures_latency: bool,
    key: Option<u64>,
    /// Whom the request is for.
    client: Option<ClientNetwork>,
    tried: [usize; MAX_ATTEMPTS],
    count: usize,
}

/// One of them: a request to an endpoint. It knows no other, so that several can run at the same time.
#[derive(Clone)]
pub struct Attempt {
    members: CurrentMembers,
    /// The place of the endpoint among the members.
    chosen: usize,
    measures_latency: bool,
    key: Option<u64>,
    client: Option<ClientNetwork>,
}

/// An attempt that counts as a request that runs at its endpoint, while it lives.
pub struct RunningAttempt {
    attempt: Attempt,
    counted: InFlight,
}

/// One attempt more than the retries that a route can ask for.
const MAX_ATTEMPTS: usize = 6;

impl Attempts {
    /// No attempt yet for this request.
    pub fn new(upstream: &Upstream, members: CurrentMembers, source: &KeySource<'_>) -> Attempts {
        let key = members.balancer.key(source);
        let measures_latency = matches!(upstream.config().balance, Balance::P2cEwma);
        let client = source.client.map(ClientNetwork::of);
        Attempts { members, measures_latency, key, client, tried: [0; MAX_ATTEMPTS], count: 0 }
    }

    /// How many endpoints were chosen.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Chooses the next endpoint to try.
    pub fn next(&mut self, random: u64, at: Instant) -> Result<Attempt, Kind> {
        let excluded = &self.tried[..self.count];
        let draw = PickContext { key: self.key, random, now: since_start(at), excluded };
        let chosen = match self.count < MAX_ATTEMPTS {
            true => self.members.balancer.choose(&draw).ok_or(Kind::NoEndpoint)?,
            false => return Err(Kind::NoEndpoint),
        };
        self.tried[self.count] = chosen;
        self.count += 1;
        let Attempts { measures_latency, key, client, .. } = *self;
        Ok(Attempt { members: Rc::clone(&self.members), chosen, measures_latency, key, client })
    }
}

impl Attempt {
    /// Whom the request is for, where that is known.
    pub fn client(&self) -> Option<ClientNetwork> {
        self.client
    }

    /// Whether the choice depends on how fast endpoints have responded.
    pub fn measures_latency(&self) -> bool {
        self.measures_latency
    }

    /// The endpoint.
    pub fn endpoint(&self) -> &Arc<Endpoint> {
        &self.members.endpoints[self.chosen]
    }

    /// Counts it from now on.
    pub fn begin(&self) -> RunningAttempt {
        RunningAttempt { attempt: self.clone(), counted: self.endpoint().load.begin() }
    }

    /// Notes how the endpoint has responded.
    pub fn note_response(&self, version: Version, latency: Option<Latency>) {
        self.endpoint().note_version(version);
        if let Some(latency) = latency {
            self.endpoint().load.record(latency.so_far(), since_start(Instant::now()));
        }
    }

    /// Notes that the endpoint has failed. One that fails at once must not look fast, so it counts as if it had kept
    /// the request waiting for `penalty`.
    pub fn note_failure(&self, penalty: Duration, at: Instant) {
        if self.measures_latency {
            self.endpoint().load.record(penalty, since_start(at));
        }
    }

    /// Writes the cookie that ties the client to the endpoint, where one is due.
    pub fn set_cookie(&self, out: &mut Vec<u8>) -> bool {
        self.members.balancer.set_cookie(self.key, self.chosen, out)
    }
}

impl RunningAttempt {
    /// What counts it, where no more than that is needed of it.
    pub fn into_count(self) -> InFlight {
        self.counted
    }
}

impl Deref for RunningAttempt {
    type Target = Attempt;

    fn deref(&self) -> &Attempt {
        &self.attempt
    }
}

/// How long an endpoint has taken to respond, from the moment when it had the request.
#[derive(Clone, Copy, Default)]
pub struct Latency {
    since: Option<Instant>,
}

impl Latency {
    /// Starts the time, where it does not run yet.
    pub fn start(&mut self) {
        self.since.get_or_insert_with(Instant::now);
    }

    /// The time until now; nothing for a response that came before the request was out.
    pub fn so_far(self) -> Duration {
        self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

/// The time from a moment that is the same for all workers, and for every configuration of the process, to `at`.
fn since_start(at: Instant) -> Duration {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    at.duration_since(*START)
}
