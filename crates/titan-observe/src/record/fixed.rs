//! Parts of a record that are of fixed size: what is noted in them is at once the bytes that readers get.

use super::{CacheUse, Event, HeadCut, Place, TlsVersion};
use crate::trace::Sampling;
use std::net::IpAddr;
use std::time::Duration;
use titan_http::{Scheme, Status, Version};
use titan_io::error::Side;

/// What takes `N` bytes. Zeros are what there is unless something else was noted.
pub(super) trait Fixed<const N: usize> {
    fn to_bytes(self) -> [u8; N];
    fn of_bytes(bytes: [u8; N]) -> Self;
}

/// Declares a part: its fields one behind the other, each with the bytes that it takes.
macro_rules! fixed {
    ($(#[$doc:meta])* $vis:vis $part:ident; $($get:ident $set:ident: $type:ty = $size:literal, $says:literal;)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        $vis struct $part([u8; $part::SIZE]);

        impl $part {
            pub(super) const SIZE: usize = 0 $(+ $size)*;

            pub(super) const EMPTY: $part = $part([0; $part::SIZE]);

            pub(super) fn bytes(&self) -> &[u8; $part::SIZE] {
                &self.0
            }

            /// What the bytes begin with, and the rest.
            pub(super) fn first_of(bytes: &[u8]) -> Option<($part, &[u8])> {
                bytes.split_first_chunk().map(|(part, rest)| ($part(*part), rest))
            }

            fixed!(@fields $vis, 0; $($get $set: $type = $size, $says;)*);
        }
    };
    (@fields $vis:vis, $at:expr; $get:ident $set:ident: $type:ty = $size:literal, $says:literal; $($rest:tt)*) => {
        #[doc = $says]
        #[inline]
        $vis fn $get(&self) -> $type {
            let bytes = self.0[$at..].first_chunk().expect("it is within");
            Fixed::<$size>::of_bytes(*bytes)
        }

        #[doc = concat!("Notes: ", $says)]
        #[inline]
        $vis fn $set(&mut self, value: $type) {
            self.0[$at..$at + $size].copy_from_slice(&Fixed::<$size>::to_bytes(value));
        }

        fixed!(@fields $vis, $at + $size; $($rest)*);
    };
    (@fields $vis:vis, $at:expr;) => {};
}

pub(super) use fixed;

/// Numbers as they are.
macro_rules! numbers {
    ($($number:ident = $size:literal,)*) => {
        $(impl Fixed<$size> for $number {
            #[inline]
            fn to_bytes(self) -> [u8; $size] {
                self.to_le_bytes()
            }

            #[inline]
            fn of_bytes(bytes: [u8; $size]) -> $number {
                $number::from_le_bytes(bytes)
            }
        })*
    };
}

numbers! { u16 = 2, u32 = 4, u64 = 8, u128 = 16, }

/// Words as numbers, and what may be missing as one more. The first is what a number says that no word has.
macro_rules! words {
    ($($word:ident: $first:ident = 0, $($other:ident = $number:literal,)*;)*) => {
        $(impl Fixed<1> for $word {
            #[inline]
            fn to_bytes(self) -> [u8; 1] {
                [match self {
                    $word::$first => 0,
                    $($word::$other => $number,)*
                }]
            }

            #[inline]
            fn of_bytes(bytes: [u8; 1]) -> $word {
                match bytes {
                    $([$number] => $word::$other,)*
                    _ => $word::$first,
                }
            }
        }

        impl Fixed<1> for Option<$word> {
            #[inline]
            fn to_bytes(self) -> [u8; 1] {
                self.map_or([0], |word| [1 + word.to_bytes()[0]])
            }

            #[inline]
            fn of_bytes([byte]: [u8; 1]) -> Option<$word> {
                byte.checked_sub(1).map(|byte| $word::of_bytes([byte]))
            }
        })*
    };
}

pub(super) use words;

words! {
    Event: Request = 0, TunnelOpened = 1, TunnelClosed = 2, Connection = 3,;
    Version: Http11 = 0, Http10 = 1, Http2 = 2, Http3 = 3,;
    TlsVersion: Tls12 = 0, Tls13 = 1,;
    Scheme: Http = 0, Https = 1,;
    Side: Downstream = 0, Upstream = 1, Gateway = 2,;
    CacheUse: Hit = 0, Miss = 1,;
    Sampling: Undecided = 0, Dropped = 1, Sampled = 2,;
}

impl Fixed<1> for bool {
    #[inline]
    fn to_bytes(self) -> [u8; 1] {
        [u8::from(self)]
    }

    #[inline]
    fn of_bytes([byte]: [u8; 1]) -> bool {
        byte != 0
    }
}

impl Fixed<2> for Option<Status> {
    #[inline]
    fn to_bytes(self) -> [u8; 2] {
        self.map_or(0, Status::code).to_le_bytes()
    }

    #[inline]
    fn of_bytes(bytes: [u8; 2]) -> Option<Status> {
        Status::from_code(u16::from_le_bytes(bytes))
    }
}

/// One more than the microseconds; more than 71 minutes are told as that.
impl Fixed<4> for Option<Duration> {
    #[inline]
    fn to_bytes(self) -> [u8; 4] {
        self.map_or(0, |time| 1 + short_micros(time)).to_le_bytes()
    }

    #[inline]
    fn of_bytes(bytes: [u8; 4]) -> Option<Duration> {
        let micros = u32::from_le_bytes(bytes).checked_sub(1);
        micros.map(|micros| Duration::from_micros(micros.into()))
    }
}

/// Microseconds.
impl Fixed<8> for Duration {
    #[inline]
    fn to_bytes(self) -> [u8; 8] {
        micros(self).to_le_bytes()
    }

    #[inline]
    fn of_bytes(bytes: [u8; 8]) -> Duration {
        Duration::from_micros(u64::from_le_bytes(bytes))
    }
}

/// The family, and the address; that of IPv4 is shorter.
impl Fixed<17> for Option<IpAddr> {
    #[inline]
    fn to_bytes(self) -> [u8; 17] {
        let mut bytes = [0; 17];
        match self {
            None => {}
            Some(IpAddr::V4(address)) => {
                bytes[0] = 4;
                bytes[1..5].copy_from_slice(&address.octets());
            }
            Some(IpAddr::V6(address)) => {
                bytes[0] = 6;
                bytes[1..].copy_from_slice(&address.octets());
            }
        }
        bytes
    }

    #[inline]
    fn of_bytes([family, address @ ..]: [u8; 17]) -> Option<IpAddr> {
        let [a, b, c, d, ..] = address;
        match family {
            4 => Some(IpAddr::from([a, b, c, d])),
            6 => Some(IpAddr::from(address)),
            _ => None,
        }
    }
}

impl Fixed<4> for HeadCut {
    #[inline]
    fn to_bytes(self) -> [u8; 4] {
        Place { start: self.missing, length: self.shortened }.to_bytes()
    }

    #[inline]
    fn of_bytes(bytes: [u8; 4]) -> HeadCut {
        let Place { start, length } = Place::of_bytes(bytes);
        HeadCut { missing: start, shortened: length }
    }
}

impl Fixed<4> for Place {
    #[inline]
    fn to_bytes(self) -> [u8; 4] {
        (u32::from(self.start) | u32::from(self.length) << 16).to_le_bytes()
    }

    #[inline]
    fn of_bytes([a, b, c, d]: [u8; 4]) -> Place {
        Place { start: u16::from_le_bytes([a, b]), length: u16::from_le_bytes([c, d]) }
    }
}

fn micros(time: Duration) -> u64 {
    time.as_secs().saturating_mul(1_000_000).saturating_add(time.subsec_micros().into())
}

fn short_micros(time: Duration) -> u32 {
    u32::try_from(micros(time)).map_or(MOST_MICROS, |micros| micros.min(MOST_MICROS))
}

/// The longest time of four bytes, of which one says that there was none.
const MOST_MICROS: u32 = u32::MAX - 1;
