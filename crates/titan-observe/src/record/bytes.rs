//! The form that a record has between the worker that makes it and those that read it: numbers of fixed size, the lengths
//! of all texts, the texts, and the captured values until the end.

use super::{CacheUse, CaptureKind, Event, Facts, Phases, Text, TlsVersion};
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;
use titan_http::{Scheme, Status, Version};
use titan_io::error::Side;

/// The bytes of everything that is no text, the length of the whole first.
pub(super) const FACTS: usize = 4 + 10 + 4 + 4 * 8 + 6 * 4 + 2 * 17;
/// How long a phase is told to be that there was not.
const NONE: u32 = u32::MAX;

/// Appends one record.
pub(super) struct Writer<'w> {
    out: &'w mut Vec<u8>,
    start: usize,
}

/// Reads what a [`Writer`] has written. What is missing reads as zeros: there is nothing that a reader could do about it.
pub(super) struct Reader<'r>(pub(super) &'r [u8]);

/// Numbers of fixed size, one after the other.
struct Numbers {
    bytes: [u8; FACTS],
    filled: usize,
}

impl<'w> Writer<'w> {
    pub(super) fn begin(out: &'w mut Vec<u8>) -> Writer<'w> {
        let start = out.len();
        Writer { out, start }
    }

    pub(super) fn facts(&mut self, facts: &Facts) {
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
        let mut numbers = Numbers { bytes: [0; FACTS], filled: 4 };
        numbers.push([
            event as u8,
            version as u8,
            tls.map_or(0, |tls| 1 + tls as u8),
            u8::from(scheme == Scheme::Https),
            caused_by.map_or(0, |side| 1 + side as u8),
            u8::from(is_complete),
            cache(token_cache),
            cache(auth_cache),
        ]);
        numbers.push(attempts.to_le_bytes());
        numbers.push(status.map_or(0, Status::code).to_le_bytes());
        numbers.push(upstream_status.map_or(0, Status::code).to_le_bytes());
        numbers.push(started.to_le_bytes());
        numbers.push(micros(took).to_le_bytes());
        numbers.push(request_bytes.to_le_bytes());
        numbers.push(response_bytes.to_le_bytes());
        for phase in [head, policies, queue, connect, handshake, upstream_head] {
            numbers.push(phase.map_or(NONE, short_micros).to_le_bytes());
        }
        for address in [client, peer] {
            let (family, bytes) = address.map_or((0, [0; 16]), address_bytes);
            numbers.push([family]);
            numbers.push(bytes);
        }
        self.out.extend_from_slice(&numbers.bytes);
    }

    pub(super) fn length(&mut self, length: u16) {
        self.bytes(&length.to_le_bytes());
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    pub(super) fn captured(&mut self, kind: CaptureKind, name: &[u8], value: &[u8]) {
        self.out.push(kind as u8);
        for text in [name, value] {
            self.length(u16::try_from(text.len()).expect("bounded by `MAX_TEXT`"));
        }
        self.bytes(name);
        self.bytes(value);
    }

    /// Notes how long the whole is.
    pub(super) fn end(self) {
        let Writer { out, start } = self;
        let length = u32::try_from(out.len() - start).expect("bounded by `MAX_TEXTS`");
        out[start..start + 4].copy_from_slice(&length.to_le_bytes());
    }
}

impl Numbers {
    fn push<const N: usize>(&mut self, bytes: [u8; N]) {
        self.bytes[self.filled..self.filled + N].copy_from_slice(&bytes);
        self.filled += N;
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

    pub(super) fn texts(&mut self) -> [&'r [u8]; Text::COUNT] {
        let lengths: [usize; Text::COUNT] = std::array::from_fn(|_| self.u16().into());
        lengths.map(|length| self.bytes(length))
    }

    pub(super) fn captured(&mut self) -> Option<(CaptureKind, &'r [u8], &'r [u8])> {
        let kind = match self.0.first()? {
            0 => CaptureKind::RequestHeader,
            1 => CaptureKind::ResponseHeader,
            _ => CaptureKind::Claim,
        };
        self.0 = &self.0[1..];
        let (name, value) = (self.u16(), self.u16());
        Some((kind, self.bytes(name.into()), self.bytes(value.into())))
    }

    pub(super) fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    pub(super) fn bytes(&mut self, length: usize) -> &'r [u8] {
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
