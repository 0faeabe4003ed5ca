//! The form that a record has between the worker that makes it and those that read it: numbers of fixed size, the places of
//! all texts, lists of further places, and the arena in which all of these are. It is a handful of copies: a record has dozens
//! of texts.

use super::{
    AttemptKind, Attempted, CacheUse, Event, ExchangeRecord, Facts, HeadCut, Pair, Phases, Place,
    Text, TlsVersion,
};
use crate::trace::{Sampling, TraceContext};
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;
use titan_http::{Scheme, Status, Version};
use titan_io::error::Side;

/// The bytes of everything that is no text, of the places of texts and of the lengths of lists, the length of the whole first.
const FIXED: usize =
    4 + 10 + 2 + 4 * 8 + 3 * 4 + 2 * 17 + TRACE + 4 * 2 + PLACE * Text::COUNT + 6 * 2;
const TRACE: usize = 1 + 16 + 2 * 8;
const PLACE: usize = 4;
const PAIR: usize = size_of::<Pair>();
const ATTEMPT: usize = 3 + 3 * 2 + 5 * 4 + 4 * PLACE;
/// How long a phase is told to be that there was not.
const NONE: u32 = u32::MAX;

/// Reads what [`write`] has written. What is missing reads as zeros: there is nothing that a reader could do about it.
#[derive(Clone, Copy)]
pub(super) struct Reader<'r>(pub(super) &'r [u8]);

/// What a record has beside its facts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lists<'r> {
    pub(super) texts: [Place; Text::COUNT],
    pub(super) request_lines: &'r [u8],
    pub(super) response_lines: &'r [u8],
    pub(super) claims: &'r [u8],
    pub(super) passed: &'r [u8],
    pub(super) attempts: &'r [u8],
    pub(super) bodies: &'r [u8],
    pub(super) arena: &'r [u8],
}

/// Numbers of fixed size, one after the other.
struct Numbers<const SIZE: usize> {
    bytes: [u8; SIZE],
    filled: usize,
}

/// Appends a record.
pub(super) fn write(record: &ExchangeRecord, out: &mut Vec<u8>) {
    let ExchangeRecord { facts, arena, texts, lines, request_lines, claims, passed, .. } = record;
    let ExchangeRecord { attempts, bodies, .. } = record;
    let pairs = (lines.len() + claims.len()) * PAIR;
    let lists = pairs + passed.len() * PLACE + attempts.len() * ATTEMPT;
    let bodies_size = bodies.as_ref().map_or(0, |bodies| bodies.size());
    let length = FIXED + lists + bodies_size + arena.len();
    let mut numbers = Numbers::<FIXED> { bytes: [0; FIXED], filled: 0 };
    numbers.push(u32::try_from(length).expect("bounded by `MAX_TEXTS`").to_le_bytes());
    numbers.facts(facts);
    texts.iter().for_each(|place| numbers.push(place.bytes()));
    numbers.push(request_lines.to_le_bytes());
    numbers.count(lines.len());
    numbers.count(claims.len());
    numbers.count(passed.len());
    numbers.count(attempts.len());
    numbers.count(bodies_size);
    out.reserve(length);
    out.extend_from_slice(&numbers.bytes);
    out.extend_from_slice(lines.as_flattened());
    out.extend_from_slice(claims.as_flattened());
    passed.iter().for_each(|place| out.extend_from_slice(&place.bytes()));
    attempts.iter().for_each(|attempt| out.extend_from_slice(&attempt_bytes(attempt)));
    bodies.iter().for_each(|bodies| bodies.write(out));
    out.extend_from_slice(arena);
}

fn attempt_bytes(attempt: &Attempted<Place>) -> [u8; ATTEMPT] {
    let Attempted { status, caused_by, error, upstream, endpoint, balance, choices, .. } = *attempt;
    let Attempted { kind, number, is_reused, began, took, connect, tls, head, .. } = *attempt;
    let mut numbers = Numbers::<ATTEMPT> { bytes: [0; ATTEMPT], filled: 0 };
    numbers.push([kind as u8, u8::from(is_reused), side_byte(caused_by)]);
    numbers.push(number.to_le_bytes());
    numbers.push(status.map_or(0, Status::code).to_le_bytes());
    numbers.phase(Some(began));
    numbers.phase(took);
    numbers.phase(connect);
    numbers.phase(tls);
    numbers.phase(head);
    numbers.push(choices.to_le_bytes());
    numbers.push(error.bytes());
    numbers.push(upstream.bytes());
    numbers.push(endpoint.bytes());
    numbers.push(balance.bytes());
    numbers.bytes
}

impl<const SIZE: usize> Numbers<SIZE> {
    /// Inlined, so that each place is known when it is compiled.
    #[inline(always)]
    fn push<const N: usize>(&mut self, bytes: [u8; N]) {
        self.bytes[self.filled..self.filled + N].copy_from_slice(&bytes);
        self.filled += N;
    }

    #[inline(always)]
    fn count(&mut self, count: usize) {
        self.push(u16::try_from(count).expect("each list is bounded, and each body").to_le_bytes());
    }

    #[inline(always)]
    fn phase(&mut self, phase: Option<Duration>) {
        self.push(phase.map_or(NONE, short_micros).to_le_bytes());
    }

    #[inline(always)]
    fn address(&mut self, address: Option<IpAddr>) {
        let (family, bytes) = address.map_or((0, [0; 16]), address_bytes);
        self.push([family]);
        self.push(bytes);
    }

    #[inline(always)]
    fn facts(&mut self, facts: &Facts) {
        let Facts {
            event,
            started,
            took,
            phases: Phases { head, policies, queue },
            request_bytes,
            response_bytes,
            status,
            attempts,
            caused_by,
            token_cache,
            auth_cache,
            request_cut,
            response_cut,
            is_complete,
            version,
            tls,
            scheme,
            client,
            peer,
            trace,
        } = *facts;
        self.push([
            event as u8,
            version as u8,
            tls.map_or(0, |tls| 1 + tls as u8),
            u8::from(scheme == Scheme::Https),
            side_byte(caused_by),
            u8::from(is_complete),
            cache(token_cache),
            cache(auth_cache),
        ]);
        self.push(attempts.to_le_bytes());
        self.push(status.map_or(0, Status::code).to_le_bytes());
        self.push(started.to_le_bytes());
        self.push(micros(took).to_le_bytes());
        self.push(request_bytes.to_le_bytes());
        self.push(response_bytes.to_le_bytes());
        self.phase(head);
        self.phase(policies);
        self.phase(queue);
        self.address(client);
        self.address(peer);
        self.push([trace.map_or(0, |trace| 1 + trace.sampling as u8)]);
        self.push(trace.map_or(0, |trace| trace.trace_id).to_le_bytes());
        self.push(trace.map_or(0, |trace| trace.parent).to_le_bytes());
        self.push(trace.map_or(0, |trace| trace.span).to_le_bytes());
        for HeadCut { missing, shortened } in [request_cut, response_cut] {
            self.push(missing.to_le_bytes());
            self.push(shortened.to_le_bytes());
        }
    }
}

impl<'r> Reader<'r> {
    pub(super) fn facts(&mut self) -> Facts {
        let [event, version, tls, scheme, side, is_complete, token_cache, auth_cache] =
            self.array();
        let event = match event {
            1 => Event::TunnelOpened,
            2 => Event::TunnelClosed,
            _ => Event::Request,
        };
        let version = match version {
            0 => Version::Http10,
            2 => Version::Http2,
            3 => Version::Http3,
            _ => Version::Http11,
        };
        let attempts = u16::from_le_bytes(self.array());
        let status = self.status();
        let [started, took, request_bytes, response_bytes] = std::array::from_fn(|_| self.u64());
        let [head, policies, queue] = std::array::from_fn(|_| self.phase());
        let [client, peer] = std::array::from_fn(|_| self.address());
        let trace = self.trace();
        let [request_cut, response_cut] =
            std::array::from_fn(|_| HeadCut { missing: self.u16(), shortened: self.u16() });
        Facts {
            event,
            started,
            took: Duration::from_micros(took),
            phases: Phases { head, policies, queue },
            request_bytes,
            response_bytes,
            status,
            attempts,
            caused_by: SIDES[usize::from(side.min(3))],
            token_cache: CACHE_USES[usize::from(token_cache.min(2))],
            auth_cache: CACHE_USES[usize::from(auth_cache.min(2))],
            request_cut,
            response_cut,
            is_complete: is_complete != 0,
            version,
            tls: [None, Some(TlsVersion::Tls12), Some(TlsVersion::Tls13)][usize::from(tls.min(2))],
            scheme: if scheme == 0 { Scheme::Http } else { Scheme::Https },
            client,
            peer,
            trace,
        }
    }

    fn trace(&mut self) -> Option<TraceContext> {
        let [sampling] = self.array();
        let trace_id = u128::from_le_bytes(self.array());
        let [parent, span] = std::array::from_fn(|_| self.u64());
        let sampling = match sampling {
            0 => return None,
            2 => Sampling::Dropped,
            3 => Sampling::Sampled,
            _ => Sampling::Undecided,
        };
        Some(TraceContext { trace_id, parent, span, sampling })
    }

    /// What follows the facts.
    pub(super) fn lists(&mut self) -> Lists<'r> {
        let texts = std::array::from_fn(|_| self.place());
        let request_lines = usize::from(self.u16());
        let [lines, claims, passed, attempts, bodies] =
            std::array::from_fn(|_| usize::from(self.u16()));
        Lists {
            texts,
            request_lines: self.bytes(request_lines * PAIR),
            response_lines: self.bytes(lines.saturating_sub(request_lines) * PAIR),
            claims: self.bytes(claims * PAIR),
            passed: self.bytes(passed * PLACE),
            attempts: self.bytes(attempts * ATTEMPT),
            bodies: self.bytes(bodies),
            arena: self.0,
        }
    }

    /// The next name and its value.
    pub(super) fn pair(&mut self) -> Option<(Place, Place)> {
        self.0.first()?;
        Some((self.place(), self.place()))
    }

    /// The next place of a list of them.
    pub(super) fn listed_place(&mut self) -> Option<Place> {
        self.0.first()?;
        Some(self.place())
    }

    /// The next attempt.
    pub(super) fn attempt(&mut self) -> Option<Attempted<Place>> {
        self.0.first()?;
        let [kind, is_reused, side] = self.array();
        let number = self.u16();
        let status = self.status();
        let [began, took, connect, tls, head] = std::array::from_fn(|_| self.phase());
        let choices = self.u16();
        let [error, upstream, endpoint, balance] = std::array::from_fn(|_| self.place());
        Some(Attempted {
            kind: match kind {
                1 => AttemptKind::Retry,
                2 => AttemptKind::Hedge,
                _ => AttemptKind::First,
            },
            number,
            is_reused: is_reused != 0,
            began: began.unwrap_or_default(),
            took,
            connect,
            tls,
            head,
            status,
            caused_by: SIDES[usize::from(side.min(3))],
            error,
            upstream,
            endpoint,
            balance,
            choices,
        })
    }

    /// The last attempt of a list of them.
    pub(super) fn last_attempt(self) -> Option<Attempted<Place>> {
        let last = self.0.len().checked_sub(ATTEMPT)?;
        Reader(&self.0[last..]).attempt()
    }

    fn status(&mut self) -> Option<Status> {
        Status::from_code(self.u16())
    }

    fn place(&mut self) -> Place {
        Place { start: self.u16(), length: self.u16() }
    }

    pub(super) fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    pub(super) fn bytes(&mut self, length: usize) -> &'r [u8] {
        let (bytes, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        bytes
    }

    pub(super) fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    pub(super) fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }

    fn phase(&mut self) -> Option<Duration> {
        let micros = self.u32();
        (micros != NONE).then(|| Duration::from_micros(micros.into()))
    }

    fn address(&mut self) -> Option<IpAddr> {
        let [family] = self.array();
        let bytes = Ipv6Addr::from(self.array::<16>());
        match family {
            4 => bytes.to_ipv4_mapped().map(IpAddr::V4),
            6 => Some(IpAddr::V6(bytes)),
            _ => None,
        }
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        match self.0.split_first_chunk() {
            Some((array, rest)) => {
                self.0 = rest;
                *array
            }
            None => [0; N],
        }
    }
}

const SIDES: [Option<Side>; 4] =
    [None, Some(Side::Downstream), Some(Side::Upstream), Some(Side::Gateway)];

fn side_byte(side: Option<Side>) -> u8 {
    side.map_or(0, |side| 1 + side as u8)
}

const CACHE_USES: [Option<CacheUse>; 3] = [None, Some(CacheUse::Hit), Some(CacheUse::Miss)];

fn cache(used: Option<CacheUse>) -> u8 {
    used.map_or(0, |used| 1 + used as u8)
}

fn micros(duration: Duration) -> u64 {
    duration.as_secs().saturating_mul(1_000_000).saturating_add(duration.subsec_micros().into())
}

/// Over an hour is told as 71 minutes.
fn short_micros(duration: Duration) -> u32 {
    u32::try_from(micros(duration)).map_or(NONE - 1, |micros| micros.min(NONE - 1))
}

fn address_bytes(address: IpAddr) -> (u8, [u8; 16]) {
    match address {
        IpAddr::V4(address) => (4, address.to_ipv6_mapped().octets()),
        IpAddr::V6(address) => (6, address.octets()),
    }
}
