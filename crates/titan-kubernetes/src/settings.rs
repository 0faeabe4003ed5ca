//! What the command line says.

use std::net::IpAddr;
use std::path::PathBuf;

/// How gateways are made.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The name by which classes name this controller.
    pub controller: String,
    /// Where gateways listen.
    pub addressing: Addressing,
    /// The absolute path of the folder that certificates and keys are written to.
    pub folder: PathBuf,
}

/// Where gateways listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Addressing {
    /// All of them on all addresses of this machine: those of one port are told apart by their hosts. What clients reach them by is
    /// told in their statuses: addresses, or names.
    Shared(Vec<String>),
    /// Each on an address of its own, out of a network of this machine.
    Own(Network),
}

/// A network of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    first: u32,
    size: u32,
}

impl Network {
    /// Reads `127.64.0.0/16`. At least two addresses, at most 2^16.
    pub fn parse(text: &str) -> Option<Network> {
        let (address, length) = text.split_once('/')?;
        let length: u32 = length.parse().ok().filter(|length| (16..=31).contains(length))?;
        let size = 1 << (32 - length);
        let address = u32::from(address.parse::<std::net::Ipv4Addr>().ok()?);
        Some(Network { first: address & !(size - 1), size })
    }

    /// Whether an address is one of it.
    pub fn contains(&self, address: IpAddr) -> bool {
        let IpAddr::V4(address) = address else { return false };
        u32::from(address).wrapping_sub(self.first) < self.size
    }

    /// Its addresses from the one of this number on, all of them once. The first address of a network names the network itself.
    pub fn from(&self, number: u32) -> impl Iterator<Item = IpAddr> {
        let Network { first, size } = *self;
        let offsets = (0..size - 1).map(move |step| 1 + (number % (size - 1) + step) % (size - 1));
        offsets.map(move |offset| IpAddr::V4((first + offset).into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_its_addresses() {
        let network = Network::parse("10.0.0.4/30").unwrap();
        let all = |number| network.from(number).map(|it| it.to_string()).collect::<Vec<_>>();
        assert_eq!(all(0), ["10.0.0.5", "10.0.0.6", "10.0.0.7"]);
        assert_eq!(all(u32::MAX), ["10.0.0.5", "10.0.0.6", "10.0.0.7"]);
        assert_eq!(all(2), ["10.0.0.7", "10.0.0.5", "10.0.0.6"]);
        for (address, expected) in [
            ("10.0.0.4", true),
            ("10.0.0.7", true),
            ("10.0.0.8", false),
            ("10.0.0.3", false),
            ("::1", false),
        ] {
            assert_eq!(network.contains(address.parse().unwrap()), expected, "{address}");
        }
        for bad in ["", "10.0.0.0", "10.0.0.0/8", "10.0.0.0/32", "::/64", "x/24"] {
            assert_eq!(Network::parse(bad), None, "{bad}");
        }
    }
}
