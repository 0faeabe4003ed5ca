//! Where clients reach gateways.

use crate::names::hash;
use crate::objects::{Gateway, GatewayAddress, Key};
use crate::settings::Addressing;
use std::collections::BTreeSet;
use std::net::IpAddr;

/// Which addresses of gateways are used.
pub(super) struct Addresses<'a> {
    addressing: &'a Addressing,
    used: BTreeSet<IpAddr>,
}

impl<'a> Addresses<'a> {
    /// Those that gateways ask for are not given to others.
    pub(super) fn claimed(
        gateways: &[(&Key, &Gateway)],
        addressing: &'a Addressing,
    ) -> Addresses<'a> {
        let wanted = gateways.iter().flat_map(|(_, gateway)| &gateway.spec.addresses);
        let used = wanted.filter_map(|it| it.value.parse().ok()).collect();
        Addresses { addressing, used }
    }

    /// Those of a gateway.
    pub(super) fn of(&mut self, key: &Key, gateway: &Gateway) -> Result<Vec<String>, BadAddress> {
        let wanted = gateway.spec.addresses.iter().map(|it| self.check(it));
        let wanted: Vec<_> = wanted.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect();
        match self.addressing {
            Addressing::Shared(addresses) if wanted.is_empty() => Ok(addresses.clone()),
            // A socket is on one address.
            Addressing::Own(network) if wanted.is_empty() => {
                let before = gateway.status["addresses"][0]["value"].as_str();
                let before = before.and_then(|it| it.parse().ok());
                let before = before.filter(|it| network.contains(*it) && !self.used.contains(it));
                let first = &hash(key.to_string().as_bytes())[..8];
                let first = u32::from_str_radix(first, 16).unwrap_or_default();
                let free = || network.from(first).find(|it| !self.used.contains(it));
                let address = before.or_else(free).ok_or(BadAddress::NoneLeft)?;
                self.used.insert(address);
                Ok(vec![address.to_string()])
            }
            _ => Ok(wanted),
        }
    }

    fn check(&self, wanted: &GatewayAddress) -> Result<Option<String>, BadAddress> {
        let GatewayAddress { of_type, value } = wanted;
        let of_type = of_type.as_deref().unwrap_or("IPAddress");
        if !matches!(of_type, "IPAddress" | "Hostname") {
            return Err(BadAddress::Unsupported(format!(
                "addresses of the type {of_type} are not supported"
            )));
        }
        if value.is_empty() {
            return Ok(None);
        }
        let is_there = match self.addressing {
            Addressing::Shared(addresses) => addresses.contains(value),
            Addressing::Own(network) => value.parse().is_ok_and(|it| network.contains(it)),
        };
        match is_there {
            true => Ok(Some(value.clone())),
            false => Err(BadAddress::NotUsable(format!("{value} is no address of this gateway"))),
        }
    }
}

/// Why a gateway has no address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BadAddress {
    /// It asks for a type that there is not.
    Unsupported(String),
    /// It asks for one that is not there.
    NotUsable(String),
    /// None is left.
    NoneLeft,
}
