//! The form that a record has between the worker that makes it and those that read it: numbers of fixed size, the places of
//! all texts, the captured values, and the arena in which all of these are. It is four copies: a record has two dozen texts.

use super::{
    CacheUse, CaptureKind, Captured, Event, ExchangeRecord, Facts, Phases, Place, Text, TlsVersion,
};
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;
use titan_http::{Scheme, Status, Version};
use titan_io::error::Side;

/// The bytes of everything that is no text and of the places of texts, the length of the whole first.
const FIXED: usize = 4 + 10 + 4 + 4 * 8 + 6 * 4 + 2 * 17 + 4 * Text::COUNT + 2;
/// Those of a captured value.
const CAPTURED: usize = 9;
/// How long a phase is told to be that there was not.
const NONE: u32 = u32::MAX;

/// Reads what [`write`] has written. What is missing reads as zeros: there is nothing that a reader could do about it.
pub(super) struct Reader<'r>(pub(super) &'r [u8]);

/// Numbers of fixed size, one after the other.
struct Numbers {
    bytes: [u8; FIXED],
    filled: usize,
}

/// Appends a record.
pub(super) fn write(record: &ExchangeRecord, out: &mut Vec<u8>) {
    let ExchangeRecord { facts, arena, texts, captured } = record;
    let length = FIXED + captured.len() * CAPTURED + arena.len();
    let mut numbers = Numbers { bytes: [0; FIXED], filled: 0 };
    numbers.push(u32::try_from(length).expect("bounded by `MAX_TEXTS`").to_le_bytes());
    numbers.facts(facts);
    texts.iter().for_each(|place| numbers.push(place_bytes(*place)));
    let count = u16::try_from(captured.len()).expect("bounded by `MAX_CAPTURED`");
    numbers.push(count.to_le_bytes());
    out.reserve(length);
    out.extend_from_slice(&numbers.bytes);
    for Captured { kind, name, value } in captured {
        let [name, value] = [place_bytes(*name), place_bytes(*value)];
        out.push(*kind as u8);
        out.extend_from_slice(&name);
        out.extend_from_slice(&value);
    }
    out.extend_from_slice(arena);
}

fn place_bytes(Place { start, length }: Place) -> [u8; 4] {
    let ([a, b], [c, d]) = (start.to_le_bytes(), length.to_le_bytes());
    [a, b, c, d]
}

impl Numbers {
    fn push<const N: usize>(&mut self, bytes: [u8; N]) {
        self.bytes[self.filled..self.filled + N].copy_from_slice(&bytes);
        self.filled += N;
    }

    fn facts(&mut self, facts: &Facts) {
        let Facts {
            event,
            started,
            took,
            phases: Phases { head, policies, queue, connect, tls: handshake, upstream_head },
            request_bytes,
            response_bytes,
            status,
            upstream_status,
            attempts,
            caused_by,
            token_cache,
            auth_cache,
            is_complete,
            version,
            tls,
            scheme,
            client,
            peer,
        } = *facts;
        self.push([
            event as u8,
            version as u8,
            tls.map_or(0, |tls| 1 + tls as u8),
            u8::from(scheme == Scheme::Https),
            caused_by.map_or(0, |side| 1 + side as u8),
            u8::from(is_complete),
            cache(token_cache),
            cache(auth_cache),
        ]);
        self.push(attempts.to_le_bytes());
        self.push(status.map_or(0, Status::code).to_le_bytes());
        self.push(upstream_status.map_or(0, Status::code).to_le_bytes());
        self.push(started.to_le_bytes());
        self.push(micros(took).to_le_bytes());
        self.push(request_bytes.to_le_bytes());
        self.push(response_bytes.to_le_bytes());
        for phase in [head, policies, queue, connect, handshake, upstream_head] {
            self.push(phase.map_or(NONE, short_micros).to_le_bytes());
        }
        for address in [client, peer] {
            let (family, bytes) = address.map_or((0, [0; 16]), address_bytes);
            self.push([family]);
            self.push(bytes);
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
        let [status, upstream_status] =
            std::array::from_fn(|_| Status::from_code(u16::from_le_bytes(self.array())));
        let [started, took, request_bytes, response_bytes] = std::array::from_fn(|_| self.u64());
        let [head, policies, queue, connect, handshake, upstream_head] =
            std::array::from_fn(|_| self.phase());
        let [client, peer] = std::array::from_fn(|_| self.address());
        Facts {
            event,
            started,
            took: Duration::from_micros(took),
            phases: Phases { head, policies, queue, connect, tls: handshake, upstream_head },
            request_bytes,
            response_bytes,
            status,
            upstream_status,
            attempts,
            caused_by: [None, Some(Side::Downstream), Some(Side::Upstream), Some(Side::Gateway)]
                [usize::from(side.min(3))],
            token_cache: CACHE_USES[usize::from(token_cache.min(2))],
            auth_cache: CACHE_USES[usize::from(auth_cache.min(2))],
            is_complete: is_complete != 0,
            version,
            tls: [None, Some(TlsVersion::Tls12), Some(TlsVersion::Tls13)][usize::from(tls.min(2))],
            scheme: if scheme == 0 { Scheme::Http } else { Scheme::Https },
            client,
            peer,
        }
    }

    /// The texts, the captured values, and the arena of both.
    pub(super) fn texts(&mut self) -> ([Place; Text::COUNT], &'r [u8], &'r [u8]) {
        let texts = std::array::from_fn(|_| self.place());
        let count = usize::from(self.u16());
        let captured = self.bytes(count * CAPTURED);
        (texts, captured, self.0)
    }

    pub(super) fn captured(&mut self) -> Option<Captured> {
        let kind = match self.0.first()? {
            0 => CaptureKind::RequestHeader,
            1 => CaptureKind::ResponseHeader,
            _ => CaptureKind::Claim,
        };
        self.0 = &self.0[1..];
        Some(Captured { kind, name: self.place(), value: self.place() })
    }

    fn place(&mut self) -> Place {
        Place { start: self.u16(), length: self.u16() }
    }

    pub(super) fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    fn bytes(&mut self, length: usize) -> &'r [u8] {
        let (bytes, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        bytes
    }

    fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    fn u64(&mut self) -> u64 {
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

const CACHE_USES: [Option<CacheUse>; 3] = [None, Some(CacheUse::Hit), Some(CacheUse::Miss)];

fn cache(used: Option<CacheUse>) -> u8 {
    used.map_or(0, |used| 1 + used as u8)
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Over an hour is told as 71 minutes.
fn short_micros(duration: Duration) -> u32 {
    u32::try_from(duration.as_micros()).map_or(NONE - 1, |micros| micros.min(NONE - 1))
}

fn address_bytes(address: IpAddr) -> (u8, [u8; 16]) {
    match address {
        IpAddr::V4(address) => (4, address.to_ipv6_mapped().octets()),
        IpAddr::V6(address) => (6, address.octets()),
    }
}
