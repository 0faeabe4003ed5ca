//! In which order an exchange tries the endpoints of an upstream.

use crate::balance::{KeySource, PickContext};
use crate::endpoint::Endpoint;
use crate::members::{CurrentMembers, Upstream};
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

    /// Whom the request is for, where that is known.
    pub fn client(&self) -> Option<ClientNetwork> {
        self.client
    }

    /// Whether the choice depends on how fast endpoints have answered.
    pub fn measures_latency(&self) -> bool {
        self.measures_latency
    }

    /// How many endpoints were chosen.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The endpoint chosen last.
    pub fn endpoint(&self) -> &Arc<Endpoint> {
        &self.members.endpoints[self.tried[self.count - 1]]
    }

    /// Chooses the next endpoint to try.
    pub fn next(&mut self, random: u64, at: Instant) -> Result<(), Kind> {
        let excluded = &self.tried[..self.count];
        let draw = PickContext { key: self.key, random, now: since_start(at), excluded };
        let chosen = match self.count < MAX_ATTEMPTS {
            true => self.members.balancer.choose(&draw).ok_or(Kind::NoEndpoint)?,
            false => return Err(Kind::NoEndpoint),
        };
        self.tried[self.count] = chosen;
        self.count += 1;
        Ok(())
    }

    /// Notes how the endpoint chosen last has answered.
    pub fn note_answer(&self, version: Version, latency: Option<Latency>) {
        self.endpoint().note_version(version);
        if let Some(latency) = latency {
            self.endpoint().load.record(latency.so_far(), since_start(Instant::now()));
        }
    }

    /// Notes that the endpoint chosen last has failed. One that fails at once must not look fast, so
    /// it counts as if it had kept the request waiting for `penalty`.
    pub fn note_failure(&self, penalty: Duration, at: Instant) {
        if self.measures_latency {
            self.endpoint().load.record(penalty, since_start(at));
        }
    }

    /// Writes the cookie that ties the client to the endpoint chosen last, where one is due.
    pub fn set_cookie(&self, out: &mut Vec<u8>) -> bool {
        let chosen = self.tried[self.count - 1];
        self.members.balancer.set_cookie(self.key, chosen, out)
    }
}

/// How long an endpoint has taken to answer, from the moment when it had the request.
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
