//! Which endpoint of an upstream takes a request. Pure: randomness and time are arguments.
//!
//! What a balance policy counts is one number over all workers: turns and loads are shared atomics. Every policy
//! respects weights, and none returns an endpoint that the exchange has already tried.

mod load;
mod maglev;
mod rotation;
#[cfg(test)]
mod tests;

pub use load::{EndpointState, InFlight};
pub use rotation::{Rotation, Turn};

use maglev::Maglev;
use std::net::IpAddr;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;
use titan_config::{Balance, HashKey, SameSite, StickyCookie};
use titan_http::{Fields, cookie, query};
use xxhash_rust::xxh3::xxh3_64;

/// How often a key is hashed again when its endpoint cannot be taken, before any other is.
const MAX_REHASHES: usize = 16;

/// Chooses among the endpoints of one upstream. Built anew when the endpoints change; their states
/// live on.
pub struct Balancer {
    members: Box<[Member]>,
    rotation: Rotation,
    algorithm: Algorithm,
}

/// An endpoint with its weight.
struct Member {
    /// What it is called outside.
    place: usize,
    state: Arc<EndpointState>,
    weight: u32,
}

/// What an endpoint may be sent at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Everything.
    Open,
    /// What is tied to it.
    Draining,
    /// Nothing.
    Closed,
}

enum Algorithm {
    RoundRobin,
    LeastRequests,
    Latency,
    Random,
    ConsistentHash(HashKey, Maglev),
    StickyCookie(StickyCookie),
}

/// What the choice of an endpoint depends on.
#[derive(Clone, Copy, Debug)]
pub struct PickContext<'a> {
    /// From [`Balancer::key`].
    pub key: Option<u64>,
    /// A fresh random number.
    pub random: u64,
    /// The time since a moment that is the same for all workers.
    pub now: Duration,
    /// The endpoints that must not be chosen, such as those this exchange has tried.
    pub excluded: &'a [usize],
    /// What each endpoint may be sent, by its place; `None` where that is everything.
    pub standings: Option<&'a [Standing]>,
}

/// What a key can be made from.
#[derive(Clone, Copy)]
pub struct KeySource<'a> {
    /// The header fields of the request.
    pub fields: &'a Fields,
    /// What follows the `?` in its target.
    pub query: Option<&'a [u8]>,
    /// The client's address, if that is known.
    pub client: Option<IpAddr>,
}

impl Balancer {
    /// A balancer over these endpoints, each with the place by which [`Balancer::choose`] names it. Its turns go on at
    /// `turn`.
    pub fn new(
        balance: &Balance,
        turn: Turn,
        endpoints: impl IntoIterator<Item = (usize, Arc<EndpointState>, NonZeroU16)>,
    ) -> Balancer {
        let members: Box<[Member]> = endpoints
            .into_iter()
            .map(|(place, state, weight)| Member { place, state, weight: weight.get().into() })
            .collect();
        let weights: Vec<u32> = members.iter().map(|member| member.weight).collect();
        let algorithm = match balance {
            Balance::RoundRobin => Algorithm::RoundRobin,
            Balance::LeastRequests => Algorithm::LeastRequests,
            Balance::P2cEwma => Algorithm::Latency,
            Balance::Random => Algorithm::Random,
            Balance::ConsistentHash(key) => {
                let ids: Vec<u64> = members.iter().map(|member| member.state.id()).collect();
                Algorithm::ConsistentHash(key.clone(), Maglev::new(&ids, &weights))
            }
            Balance::StickyCookie(cookie) => Algorithm::StickyCookie(cookie.clone()),
        };
        Balancer { members, rotation: Rotation::at(turn, &weights), algorithm }
    }

    /// What of a request the choice depends on, for the policies that want the same endpoint again.
    pub fn key(&self, source: &KeySource<'_>) -> Option<u64> {
        match &self.algorithm {
            Algorithm::ConsistentHash(key, _) => hash_of(key, source),
            Algorithm::StickyCookie(sticky) => {
                endpoint_id(cookie::first(source.fields, sticky.name.as_str())?)
            }
            Algorithm::RoundRobin
            | Algorithm::LeastRequests
            | Algorithm::Latency
            | Algorithm::Random => None,
        }
    }

    /// The place of the endpoint to take; `None` when each is excluded, or there is none.
    pub fn choose(&self, draw: &PickContext<'_>) -> Option<usize> {
        let chosen = match &self.algorithm {
            Algorithm::RoundRobin => self.in_turn(draw),
            Algorithm::LeastRequests => self.least_requests(draw),
            Algorithm::Latency => self.better_of_two(draw),
            Algorithm::Random => self.at_random(draw.random, |it| self.allows(draw, it)),
            Algorithm::ConsistentHash(_, table) => self.hashed(table, draw),
            Algorithm::StickyCookie(_) => self.named(draw).or_else(|| self.in_turn(draw)),
        };
        chosen.map(|chosen| self.members[chosen].place)
    }

    /// The place of the endpoint that the request is tied to, if that is one of these and may be taken.
    pub fn tied(&self, draw: &PickContext<'_>) -> Option<usize> {
        let is_tied = matches!(self.algorithm, Algorithm::StickyCookie(_));
        is_tied.then(|| self.named(draw)).flatten().map(|named| self.members[named].place)
    }

    /// Whether the endpoint may be taken that a request's key stands for while all are open; `None` where no key decides.
    pub fn takes_at_home(&self, draw: &PickContext<'_>) -> Option<bool> {
        let Algorithm::ConsistentHash(_, table) = &self.algorithm else { return None };
        let home = table.find(mix(draw.key?))?;
        Some(self.allows(draw, home))
    }

    /// Writes the value of the `Set-Cookie` field that is due after `chosen` was taken for a request
    /// with that key. Nothing is due when the request's cookie named it.
    pub fn set_cookie(&self, key: Option<u64>, chosen: usize, out: &mut Vec<u8>) -> bool {
        let Algorithm::StickyCookie(sticky) = &self.algorithm else { return false };
        let Some(member) = self.members.iter().find(|it| it.place == chosen) else { return false };
        let id = member.state.id();
        let is_due = key != Some(id);
        if is_due {
            write_cookie(sticky, id, out);
        }
        is_due
    }

    /// Whether any request may go to a member.
    fn allows(&self, draw: &PickContext<'_>, index: usize) -> bool {
        let place = self.members[index].place;
        draw.standing(place) == Standing::Open && !draw.excluded.contains(&place)
    }

    /// The next in turn. Where that one is excluded its place goes to the others by their weights, not
    /// to its neighbour alone.
    fn in_turn(&self, draw: &PickContext<'_>) -> Option<usize> {
        let next = self.rotation.take().filter(|&index| self.allows(draw, index));
        next.or_else(|| self.at_random(draw.random, |index| self.allows(draw, index)))
    }

    /// The smallest load for its weight. Equal ones take turns: an idle upstream is shared out too.
    fn least_requests(&self, draw: &PickContext<'_>) -> Option<usize> {
        let load = |index: usize| {
            let Member { state, weight, .. } = &self.members[index];
            Ratio { count: state.active().into(), weight: u64::from(*weight) }
        };
        let open = |index: &usize| self.allows(draw, *index);
        let least = (0..self.members.len()).filter(open).map(load).min()?;
        let is_least = |index| self.allows(draw, index) && load(index) <= least;
        // Loads change while they are compared: no endpoint may have the least one any more.
        self.at_random(self.rotation.spread(), is_least).or_else(|| self.in_turn(draw))
    }

    /// Two by weight, the better of them by latency times load. Two are enough: the best of all would
    /// draw every worker to the same endpoint at the same moment.
    fn better_of_two(&self, draw: &PickContext<'_>) -> Option<usize> {
        let first = self.at_random(draw.random, |index| self.allows(draw, index))?;
        let others = |index| index != first && self.allows(draw, index);
        let Some(second) = self.at_random(mix(draw.random), others) else { return Some(first) };
        let is_better = self.cost(second, draw.now) < self.cost(first, draw.now);
        Some(if is_better { second } else { first })
    }

    /// Latency times running requests, the latter for an endpoint of mean weight. An idle endpoint's
    /// cost is its latency whatever its weight, which has counted in the drawing already.
    fn cost(&self, index: usize, now: Duration) -> f64 {
        let Member { state, weight, .. } = &self.members[index];
        let total: u64 = self.members.iter().map(|member| u64::from(member.weight)).sum();
        #[expect(clippy::cast_precision_loss, reason = "a sum of weights is far below 2^52")]
        let relative = f64::from(*weight) * self.members.len() as f64 / total as f64;
        state.expected_latency(now) * (1.0 + f64::from(state.active()) / relative)
    }

    fn hashed(&self, table: &Maglev, draw: &PickContext<'_>) -> Option<usize> {
        let Some(key) = draw.key else { return self.in_turn(draw) };
        let mut hash = mix(key);
        for _ in 0..=MAX_REHASHES {
            let index = table.find(hash)?;
            if self.allows(draw, index) {
                return Some(index);
            }
            hash = mix(hash);
        }
        self.at_random(hash, |index| self.allows(draw, index))
    }

    fn named(&self, draw: &PickContext<'_>) -> Option<usize> {
        let id = draw.key?;
        let index = self.members.iter().position(|member| member.state.id() == id)?;
        let place = self.members[index].place;
        let is_closed = draw.standing(place) == Standing::Closed;
        (!is_closed && !draw.excluded.contains(&place)).then_some(index)
    }

    /// One of the open endpoints by weight; `fraction` is a part of 2^64.
    fn at_random(&self, fraction: u64, is_open: impl Fn(usize) -> bool) -> Option<usize> {
        let open = || self.members.iter().enumerate().filter(|(index, _)| is_open(*index));
        let total = open().map(|(_, member)| u64::from(member.weight)).sum();
        let mut left = part_of(total, fraction);
        for (index, member) in open() {
            match left.checked_sub(member.weight.into()) {
                None => return Some(index),
                Some(rest) => left = rest,
            }
        }
        None
    }
}

impl PickContext<'_> {
    fn standing(&self, place: usize) -> Standing {
        self.standings.map_or(Standing::Open, |standings| standings[place])
    }
}

/// A count for a weight, compared without division.
#[derive(Clone, Copy)]
struct Ratio {
    count: u64,
    weight: u64,
}

impl Ord for Ratio {
    fn cmp(&self, other: &Ratio) -> std::cmp::Ordering {
        (self.count * other.weight).cmp(&(other.count * self.weight))
    }
}

impl PartialOrd for Ratio {
    fn partial_cmp(&self, other: &Ratio) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ratio {
    fn eq(&self, other: &Ratio) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ratio {}

/// `fraction` as a part of 2^64 of `total`: below `total` unless that is 0.
fn part_of(total: u64, fraction: u64) -> u64 {
    let product = u128::from(total) * u128::from(fraction);
    u64::try_from(product >> 64).expect("the upper half of 128 bits")
}

/// Spreads the bits of `number` over all of the result (the finaliser of SplitMix64).
pub(crate) fn mix(number: u64) -> u64 {
    let mut bits = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ bits >> 31
}

fn hash_of(key: &HashKey, source: &KeySource<'_>) -> Option<u64> {
    match key {
        HashKey::Header(name) => source.fields.named(name.as_str().as_bytes()).next().map(xxh3_64),
        HashKey::Cookie(name) => cookie::first(source.fields, name.as_str()).map(xxh3_64),
        HashKey::Query(name) => {
            query::values(source.query, name).next().map(|value| xxh3_64(&value))
        }
        HashKey::ClientAddress => source.client.map(|address| match address.to_canonical() {
            IpAddr::V4(address) => xxh3_64(&address.octets()),
            IpAddr::V6(address) => xxh3_64(&address.octets()),
        }),
    }
}

/// The endpoint that a sticky cookie names: as [`write_cookie`] writes it and not otherwise.
fn endpoint_id(value: &[u8]) -> Option<u64> {
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if value.len() != 16 || !value.iter().all(is_digit) {
        return None;
    }
    u64::from_str_radix(std::str::from_utf8(value).ok()?, 16).ok()
}

fn write_cookie(sticky: &StickyCookie, id: u64, out: &mut Vec<u8>) {
    use std::io::Write;
    let StickyCookie { name, max_age, secure, http_only, same_site } = sticky;
    let age = max_age.map(|age| age.as_secs());
    out.clear();
    let _ = write!(out, "{}={id:016x}; Path=/", name.as_str());
    let _ = age.map_or(Ok(()), |age| write!(out, "; Max-Age={age}"));
    out.extend_from_slice(if *secure { b"; Secure" } else { b"" });
    out.extend_from_slice(if *http_only { b"; HttpOnly" } else { b"" });
    out.extend_from_slice(match same_site {
        SameSite::Strict => b"; SameSite=Strict",
        SameSite::Lax => b"; SameSite=Lax",
        SameSite::None => b"; SameSite=None",
    });
}
