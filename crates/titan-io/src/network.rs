//! What counts as one client where clients share something.

use std::net::{IpAddr, Ipv6Addr};

/// An IPv4 address, or the /64 network of an IPv6 one: that is what a single client is given, with more addresses than
/// a table could hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientNetwork(IpAddr);

impl ClientNetwork {
    /// The network that `address` belongs to.
    pub fn of(address: IpAddr) -> ClientNetwork {
        match address.to_canonical() {
            IpAddr::V6(address) => {
                let network = address.to_bits() >> 64 << 64;
                ClientNetwork(Ipv6Addr::from_bits(network).into())
            }
            v4 @ IpAddr::V4(_) => ClientNetwork(v4),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_of_version_6_is_one_client() {
        let is_one = |one: &str, other: &str| {
            let network = |address: &str| ClientNetwork::of(address.parse().unwrap());
            network(one) == network(other)
        };
        assert!(is_one("2001:db8:0:1::1", "2001:db8:0:1:ffff:ffff:ffff:ffff"));
        assert!(!is_one("2001:db8:0:1::1", "2001:db8:0:2::1"));
        assert!(!is_one("192.0.2.1", "192.0.2.2"));
        // Written in version 6 they are addresses of version 4 all the same.
        assert!(is_one("192.0.2.1", "::ffff:192.0.2.1"));
        assert!(!is_one("::ffff:192.0.2.1", "::ffff:192.0.2.2"));
    }
}
