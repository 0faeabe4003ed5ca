//! Address blocks, for example for lists of trusted peers.

use crate::problem::Problem;
use crate::read::Read;
use crate::readers::text;
use crate::shape::{Shape, TextShape};
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// A block of addresses: all that share the first `bits` with `address`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cidr {
    address: IpAddr,
    bits: u8,
}

impl Cidr {
    /// Whether the block holds `address`. An IPv4 address mapped into IPv6 counts as the IPv4 address.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(ours), IpAddr::V4(theirs)) => {
                agree(ours.to_bits().into(), theirs.to_bits().into(), 32 - self.bits)
            }
            (IpAddr::V6(ours), IpAddr::V6(theirs)) => {
                agree(ours.to_bits(), theirs.to_bits(), 128 - self.bits)
            }
            _ => false,
        }
    }

    /// Whether it holds every address of the other block.
    pub(crate) fn holds(&self, other: &Cidr) -> bool {
        self.bits <= other.bits && self.contains(other.address)
    }

    /// Whether it holds every address of its family.
    pub(crate) fn is_everybody(&self) -> bool {
        self.bits == 0
    }

    /// Whether gateways can have addresses of their own in it: IPv4, and neither one address alone nor more than 2^16.
    pub(crate) fn has_addresses_for_gateways(&self) -> bool {
        self.address.is_ipv4() && (16..=31).contains(&self.bits)
    }

    /// The block that `address` and everything like it in the first `bits` belong to.
    fn around(address: IpAddr, bits: u8) -> Cidr {
        let address = match address {
            IpAddr::V4(it) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
                IpAddr::V4((it.to_bits() & mask).into())
            }
            IpAddr::V6(it) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
                IpAddr::V6((it.to_bits() & mask).into())
            }
        };
        Cidr { address, bits }
    }
}

/// As a file has it; what is wrong is said as files are told.
impl FromStr for Cidr {
    type Err = String;

    fn from_str(text: &str) -> Result<Cidr, String> {
        parse_cidr(text).map_err(|problem| problem.told())
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

/// Whether two addresses differ in nothing but their last `ignored` bits.
fn agree(ours: u128, theirs: u128, ignored: u8) -> bool {
    (ours ^ theirs).checked_shr(ignored.into()).unwrap_or(0) == 0
}

pub(crate) fn cidr() -> impl Read<Value = Cidr> {
    let shape = TextShape {
        what: "a network",
        examples: "`10.0.0.0/8`, `fd00::/8` or a single address",
        pattern: Some("^[0-9A-Fa-f:.]+(/[0-9]{1,3})?$"),
        max: 64,
    };
    text(shape, parse_cidr).shaped(Shape::Network)
}

pub(crate) fn parse_cidr(text: &str) -> Result<Cidr, Problem> {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits)),
        None => (text, None),
    };
    let end = address.len();
    let bad_address = || Problem::new("this is not an IP address").part(0..end);
    let address: IpAddr = address.parse().map_err(|_| bad_address())?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = match bits {
        None => most,
        Some(bits) => prefix_length(bits, most).ok_or_else(|| {
            Problem::new(format!("the prefix length must be from 0 to {most}"))
                .part(end + 1..text.len())
        })?,
    };
    let block = Cidr::around(address, bits);
    if block.address != address {
        let problem = Problem::new(format!("the address has bits after the first {bits}"));
        return Err(problem.help(format!("did you mean `{block}` or `{address}`?")));
    }
    Ok(block)
}

fn prefix_length(text: &str, most: u8) -> Option<u8> {
    let is_plain = text.len() <= 3 && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|bits| is_plain && *bits <= most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_holds_what_shares_its_bits() {
        for (block, address, is_in) in [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.0", false),
            ("10.0.0.0/8", "::ffff:10.1.2.3", true),
            ("0.0.0.0/0", "203.0.113.9", true),
            ("0.0.0.0/0", "::1", false),
            ("192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
            ("2001:db8::/33", "2001:db8:7fff::1", true),
            ("2001:db8::/33", "2001:db8:8000::1", false),
            ("::/0", "2001:db8::1", true),
        ] {
            let block = parse_cidr(block).unwrap();
            assert_eq!(block.contains(address.parse().unwrap()), is_in, "{address} in {block}");
        }
    }

    #[test]
    fn what_is_no_block_is_refused() {
        for text in ["", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/+8", "10.0.0.1/8", "a/8", "::1/129"]
        {
            assert!(parse_cidr(text).is_err(), "{text}");
        }
    }
}
