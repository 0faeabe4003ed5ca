//! Containers, as the engine lists them, and where they are reached.

use super::labels::{ENABLE, OURS, is_enabled};
use serde::{Deserialize, Deserializer};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroU16;

/// A container of `GET /containers/json`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct Container {
    pub(crate) id: String,
    #[serde(deserialize_with = "or_default")]
    names: Vec<String>,
    /// When it was made, in seconds since 1970.
    pub(crate) created: i64,
    #[serde(deserialize_with = "or_default")]
    ports: Vec<Port>,
    #[serde(deserialize_with = "or_default")]
    pub(crate) labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "or_default")]
    network_settings: NetworkSettings,
}

/// A port that it exposes, or has published.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Port {
    private_port: u16,
    r#type: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct NetworkSettings {
    #[serde(deserialize_with = "or_default")]
    networks: BTreeMap<String, Network>,
}

/// Its place in a network.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Network {
    #[serde(rename = "IPAddress")]
    v4: String,
    #[serde(rename = "GlobalIPv6Address")]
    v6: String,
}

/// How containers are reached.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reach<'r> {
    /// The network of those that are in several and say nothing.
    pub(crate) network: Option<&'r str>,
    /// Whether the engine is on this machine, so that the host's network is that of the gateway.
    pub(crate) is_local: bool,
}

/// The network of containers that have none of their own.
const HOST: &str = "host";
/// What the labels of Compose begin with.
const COMPOSE: &str = "com.docker.compose.";
/// Bytes of the labels that are read, names and values.
const MAX_LABELS: usize = 16 << 10;
/// Ports of a container, with the addresses at which they are published, and its networks; as many names as those, for each link
/// is one.
const MAX_PORTS: usize = 512;
const MAX_NETWORKS: usize = 64;
/// Networks that a message names.
const MAX_TOLD: usize = 8;

impl Container {
    /// What people call it.
    pub(crate) fn name(&self) -> &str {
        // Those of links have more slashes.
        let names = self.names.iter().filter_map(|it| it.strip_prefix('/'));
        let mut own = names.filter(|it| !it.contains('/'));
        own.next().unwrap_or_else(|| self.id.get(..12).unwrap_or(&self.id))
    }

    /// The service that it belongs to where no label says another: that of Compose, or itself.
    pub(crate) fn own_service(&self) -> String {
        let compose = |key: &str| self.labels.get(&format!("{COMPOSE}{key}"));
        match compose("project").zip(compose("service")) {
            Some((project, service)) => format!("{project}-{service}"),
            None => self.name().to_owned(),
        }
    }

    /// Whether its labels say that something of it is served. A single run of a service of Compose has the labels of that, and nobody
    /// listens in it.
    pub(crate) fn is_to_be_served(&self) -> bool {
        self.labels.get(ENABLE).is_some_and(|it| is_enabled(it)) && !self.is_single_run()
    }

    /// Keeps of its labels those that are read.
    pub(crate) fn forget_other_labels(&mut self) {
        self.labels.retain(|key, _| key.starts_with(OURS) || key.starts_with(COMPOSE));
    }

    /// Whether what is kept of it is within its bounds; otherwise why it is refused.
    pub(crate) fn check_bounds(&self) -> Result<(), String> {
        let (ports, networks) = (self.ports.len(), self.network_settings.networks.len());
        if ports > MAX_PORTS || networks > MAX_NETWORKS || self.names.len() > MAX_NETWORKS {
            return Err(format!(
                "it has {ports} ports, {networks} networks and {} names: at most {MAX_PORTS}, {MAX_NETWORKS} and {MAX_NETWORKS} are read",
                self.names.len()
            ));
        }
        let size: usize = self.labels.iter().map(|(key, value)| key.len() + value.len()).sum();
        match size > MAX_LABELS {
            true => Err(format!(
                "its labels that begin with `{OURS}` have more than {MAX_LABELS} bytes"
            )),
            false => Ok(()),
        }
    }

    /// Whether it is a single run of a service of Compose, with the labels of that: nobody listens in it.
    fn is_single_run(&self) -> bool {
        let one_off = self.labels.get("com.docker.compose.oneoff");
        one_off.is_some_and(|it| it.eq_ignore_ascii_case("true"))
    }

    /// The only port that it exposes.
    pub(crate) fn only_port(&self) -> Result<NonZeroU16, String> {
        let tcp = self.ports.iter().filter(|it| it.r#type == "tcp" || it.r#type.is_empty());
        let ports: BTreeSet<_> = tcp.filter_map(|it| NonZeroU16::new(it.private_port)).collect();
        let set = "set the label `titan.http.services.NAME.loadbalancer.server.port`";
        match (ports.len(), ports.first()) {
            (1, Some(port)) => Ok(*port),
            (0, _) => Err(format!("it exposes no port: {set}")),
            (count, _) => Err(format!("it exposes {count} ports: {set}")),
        }
    }

    /// Where it is reached; `named` is the network that its label says.
    pub(crate) fn address(&self, named: Option<&str>, reach: Reach<'_>) -> Result<IpAddr, String> {
        let networks = &self.network_settings.networks;
        let (name, network) = match (named, reach.network, networks.len()) {
            (Some(name), _, _) => {
                let found = networks.get_key_value(name);
                found.ok_or_else(|| {
                    format!("it is not in the network `{name}`, but in {}", self.told())
                })?
            }
            (None, _, 0) => return Err("it is in no network of its own".to_owned()),
            (None, None, 2..) => {
                return Err(format!(
                    "it is in several networks ({}): set the label `titan.docker.network`, or `network` of the source",
                    self.told()
                ));
            }
            (None, Some(name), 2..) => {
                let found = networks.get_key_value(name);
                found.ok_or_else(|| {
                    format!(
                        "it is not in the network `{name}` of the source, but in {}",
                        self.told()
                    )
                })?
            }
            (None, _, 1) => networks.first_key_value().ok_or("it is in no network")?,
        };
        match (name.as_str(), reach.is_local) {
            (HOST, true) => Ok(Ipv4Addr::LOCALHOST.into()),
            (HOST, false) => {
                Err("it has the network of its host, whose address is not known".to_owned())
            }
            _ => network
                .address()
                .ok_or_else(|| format!("it has no address in the network `{name}`")),
        }
    }

    /// The networks that it is in.
    fn told(&self) -> String {
        let names = self.network_settings.networks.keys().take(MAX_TOLD).map(String::as_str);
        let names: Vec<_> = names.collect();
        if names.is_empty() { "none".to_owned() } else { names.join(", ") }
    }
}

impl Network {
    fn address(&self) -> Option<IpAddr> {
        let addresses = [&self.v4, &self.v6].into_iter().filter_map(|it| it.parse().ok());
        addresses.into_iter().find(|it: &IpAddr| !it.is_unspecified())
    }
}

/// An address with a port.
pub(crate) fn socket(address: IpAddr, port: NonZeroU16) -> SocketAddr {
    SocketAddr::new(address, port.get())
}

/// Go writes what is empty as `null`.
fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCAL: Reach<'_> = Reach { network: None, is_local: true };

    fn container(networks: &str, ports: &str) -> Container {
        let text = format!(
            r#"{{"Id":"0123456789abcdef","Names":["/other/web","/web"],"Created":7,"Ports":{ports},"Labels":null,
                "NetworkSettings":{{"Networks":{networks}}}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    fn address(networks: &str, named: Option<&str>, reach: Reach<'_>) -> Result<String, String> {
        let address = container(networks, "null").address(named, reach);
        address.map(|it| it.to_string())
    }

    const TWO: &str = r#"{"a":{"IPAddress":"10.0.0.1","GlobalIPv6Address":""},"b":{"IPAddress":"","GlobalIPv6Address":"fd00::1"}}"#;

    #[test]
    fn containers_are_reached_in_a_network() {
        let one = r#"{"a":{"IPAddress":"10.0.0.1"}}"#;
        let ok = |text: &str| Ok(text.to_owned());
        assert_eq!(address(one, None, LOCAL), ok("10.0.0.1"));
        assert_eq!(address(one, None, Reach { network: Some("x"), ..LOCAL }), ok("10.0.0.1"));
        assert_eq!(address(TWO, Some("b"), LOCAL), ok("fd00::1"));
        assert_eq!(address(TWO, None, Reach { network: Some("a"), ..LOCAL }), ok("10.0.0.1"));
        let host = r#"{"host":{"IPAddress":""}}"#;
        assert_eq!(address(host, None, LOCAL), ok("127.0.0.1"));
        for (networks, named, network, is_local, wanted) in [
            (TWO, None, None, true, "several networks (a, b): set the label"),
            (TWO, Some("c"), None, true, "not in the network `c`, but in a, b"),
            (TWO, None, Some("c"), true, "not in the network `c` of the source"),
            ("{}", None, None, true, "in no network"),
            ("{}", Some("c"), None, true, "but in none"),
            ("null", None, None, true, "in no network"),
            (host, None, None, false, "network of its host"),
            (r#"{"a":{"IPAddress":"invalid IP"}}"#, None, None, true, "no address in the network"),
        ] {
            let why = address(networks, named, Reach { network, is_local }).unwrap_err();
            assert!(why.contains(wanted), "{why}");
        }
    }

    #[test]
    fn the_only_port_is_taken() {
        let port = |ports: &str| container("{}", ports).only_port();
        let published = r#"[{"IP":"0.0.0.0","PrivatePort":80,"PublicPort":8080,"Type":"tcp"},
            {"IP":"::","PrivatePort":80,"PublicPort":8080,"Type":"tcp"},{"PrivatePort":53,"Type":"udp"}]"#;
        assert_eq!(port(published), Ok(NonZeroU16::new(80).unwrap()));
        assert!(port("null").unwrap_err().contains("exposes no port: set the label"));
        let two = r#"[{"PrivatePort":80,"Type":"tcp"},{"PrivatePort":81,"Type":"tcp"}]"#;
        assert!(port(two).unwrap_err().contains("exposes 2 ports"));
    }

    #[test]
    fn a_container_has_a_name_and_a_service() {
        let mut container = container("{}", "[]");
        assert_eq!((container.name(), container.own_service()), ("web", "web".to_owned()));
        for (key, value) in [("project", "shop"), ("service", "front"), ("oneoff", "False")] {
            container.labels.insert(format!("com.docker.compose.{key}"), value.to_owned());
        }
        assert_eq!(
            (container.own_service().as_str(), container.is_single_run()),
            ("shop-front", false)
        );
        container.labels.insert("com.docker.compose.oneoff".to_owned(), "True".to_owned());
        assert!(container.is_single_run());
        container.names.clear();
        assert_eq!(container.name(), "0123456789ab");
    }
}
