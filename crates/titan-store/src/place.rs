//! Where a store is now: its names are resolved, and its sentinels or the nodes of its cluster asked, on the thread of its keeper, for
//! all workers.

use crate::connect::{Greeting, Place, told};
use crate::script::ask as command;
use crate::slots::{Node, Slots};
use redis::{Cmd, Value, cmd};
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::time::Duration;
use titan_config::{SentinelName, StoreAddress};
use tokio::time::timeout;

/// What was found.
pub(crate) enum Found {
    /// The places at which the only server may be, in the order in which they are tried.
    Server(Vec<Place>),
    /// Which node has which slots, and for each node such places.
    Cluster(Slots, Vec<Vec<Place>>),
}

/// How long a sentinel, or a node of a cluster, may take to say where the store is.
const PATIENCE: Duration = Duration::from_secs(1);
/// The most addresses that are tried of one name.
const MAX_ADDRESSES: usize = 8;

/// Finds the store. Waits for name servers, and so belongs on a thread that has nothing else to do. `known` are the places of those
/// nodes of a cluster that are known.
pub(crate) async fn find(
    config: &titan_config::Store,
    known: Vec<Place>,
    others: &Greeting<'_>,
) -> Result<Found, String> {
    if config.is_cluster {
        return find_cluster(config, known, others).await;
    }
    let Some(name) = &config.sentinel else {
        return places_of(&config.addresses[0]).map(Found::Server);
    };
    let mut reason = "no sentinel".to_owned();
    for address in &config.addresses {
        match ask(address, name, others).await {
            Ok(place) => return Ok(Found::Server(vec![place])),
            Err(error) => reason = format!("sentinel {address}: {error}"),
        }
    }
    Err(reason)
}

/// Asks one node after another for those of the cluster: first those that it had, then those of the configuration.
async fn find_cluster(
    config: &titan_config::Store,
    known: Vec<Place>,
    greeting: &Greeting<'_>,
) -> Result<Found, String> {
    let mut reason = String::new();
    for place in known {
        match timeout(PATIENCE, slots_at(&place, greeting)).await {
            Ok(Ok(found)) => return Ok(found),
            Ok(Err(error)) => reason = error,
            Err(_) => reason = "a node does not respond".to_owned(),
        }
    }
    for address in &config.addresses {
        let places = match places_of(address) {
            Ok(places) => places,
            Err(error) => {
                reason = error;
                continue;
            }
        };
        for place in places {
            match timeout(PATIENCE, slots_at(&place, greeting)).await {
                Ok(Ok(found)) => return Ok(found),
                Ok(Err(error)) => reason = format!("node {address}: {error}"),
                Err(_) => reason = format!("node {address}: it does not respond"),
            }
        }
    }
    Err(reason)
}

/// What a node says of its cluster.
async fn slots_at(place: &Place, greeting: &Greeting<'_>) -> Result<Found, String> {
    let Place::Tcp(_, asked) = place else { return Err("it is no node of a cluster".to_owned()) };
    let mut question = cmd("CLUSTER");
    let reply = reply_at(place, question.arg("SLOTS"), greeting).await?;
    let slots = Slots::told(&reply, asked).ok_or("it sends what is no list of slots")?;
    if slots.nodes.is_empty() {
        return Err("no node of its cluster has slots".to_owned());
    }
    let mut places = Vec::with_capacity(slots.nodes.len());
    for node in &slots.nodes {
        places.push(places_of_node(node)?);
    }
    Ok(Found::Cluster(slots, places))
}

fn places_of_node(node: &Node) -> Result<Vec<Place>, String> {
    let Node { host, port } = node;
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(vec![Place::Tcp(SocketAddr::new(ip, *port), host.clone())]);
    }
    let found = resolve(host, *port);
    let found = found.map_err(|error| format!("the name {host} does not resolve: {error}"))?;
    Ok(found.take(MAX_ADDRESSES).map(|it| Place::Tcp(it, host.clone())).collect())
}

/// The places of a store that need not be found: none where there is a name, or sentinels.
pub(crate) fn fixed(config: &titan_config::Store) -> Vec<Place> {
    match (&config.sentinel, &config.addresses[0]) {
        (None, address @ (StoreAddress::Ip(_) | StoreAddress::Unix(_))) => {
            places_of(address).unwrap_or_default()
        }
        _ => Vec::new(),
    }
}

fn places_of(address: &StoreAddress) -> Result<Vec<Place>, String> {
    match address {
        StoreAddress::Unix(path) => Ok(vec![Place::Unix(path.clone())]),
        StoreAddress::Ip(address) => Ok(vec![Place::Tcp(*address, address.ip().to_string())]),
        StoreAddress::Dns { host, port } => {
            let found = resolve(host, port.get());
            let found =
                found.map_err(|error| format!("the name {host} does not resolve: {error}"))?;
            Ok(found.take(MAX_ADDRESSES).map(|it| Place::Tcp(it, host.clone())).collect())
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "on the thread of the keeper, which has nothing else to do"
)]
fn resolve(host: &str, port: u16) -> io::Result<impl Iterator<Item = SocketAddr>> {
    (host, port).to_socket_addrs()
}

/// Where a sentinel says that the primary is.
async fn ask(
    address: &StoreAddress,
    name: &SentinelName,
    greeting: &Greeting<'_>,
) -> Result<Place, String> {
    let mut reason = "its name has no address".to_owned();
    for place in places_of(address)? {
        match timeout(PATIENCE, ask_at(&place, name, greeting)).await {
            Ok(Ok(found)) => return Ok(found),
            Ok(Err(error)) => reason = error,
            Err(_) => reason = "it does not respond".to_owned(),
        }
    }
    Err(reason)
}

async fn ask_at(
    place: &Place,
    name: &SentinelName,
    greeting: &Greeting<'_>,
) -> Result<Place, String> {
    let mut question = cmd("SENTINEL");
    question.arg("get-master-addr-by-name").arg(name.as_str());
    let reply = reply_at(place, &question, greeting).await?;
    primary_in(&reply).ok_or_else(|| format!("it knows no store `{}`", name.as_str()))
}

/// What is there replies to one question.
async fn reply_at(place: &Place, question: &Cmd, greeting: &Greeting<'_>) -> Result<Value, String> {
    let (mut connection, mut driver) = greeting.connect(place).await?;
    tokio::select! {
        reply = command(&mut connection, question) => reply.map_err(|error| told(&error)),
        () = &mut driver => Err("it closes the connection".to_owned()),
    }
}

/// The address in the reply of a sentinel. One that announces names has them resolved here.
fn primary_in(reply: &Value) -> Option<Place> {
    let Value::Array(parts) = reply else { return None };
    let [Value::BulkString(host), Value::BulkString(port)] = parts.as_slice() else { return None };
    let (host, port) = (str::from_utf8(host).ok()?, str::from_utf8(port).ok()?.parse().ok()?);
    let address = match host.parse::<IpAddr>() {
        Ok(ip) => SocketAddr::new(ip, port),
        Err(_) => resolve(host, port).ok()?.next()?,
    };
    Some(Place::Tcp(address, host.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_of_sentinels_that_name_no_address_are_no_place() {
        let text = |text: &str| Value::BulkString(text.into());
        let of = |parts: Vec<Value>| primary_in(&Value::Array(parts));
        let place = Place::Tcp("10.0.0.1:6379".parse().unwrap(), "10.0.0.1".to_owned());
        assert_eq!(of(vec![text("10.0.0.1"), text("6379")]), Some(place));
        assert_eq!(of(vec![text("10.0.0.1")]), None);
        assert_eq!(of(vec![text("10.0.0.1"), text("65536")]), None);
        assert_eq!(of(vec![text("10.0.0.1"), Value::Int(1)]), None);
        assert_eq!(primary_in(&Value::Nil), None);
    }
}
