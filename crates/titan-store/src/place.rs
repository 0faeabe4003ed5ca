//! Where a store is now: its names are resolved, and its sentinels or the nodes of its cluster asked, on the thread of its keeper, for
//! all workers.

use crate::connect::{Driver, Greeting, Place, name_of, told};
use crate::script::ask as command;
use crate::slots::{Node, Slots};
use redis::{Cmd, RedisError, Value, cmd};
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::time::Duration;
use titan_config::{SentinelName, StoreAddress};
use tokio::time::{Instant, timeout};

/// What was found.
pub(crate) enum Found {
    /// The places at which the only server may be, in the order in which they are tried.
    Server(Vec<Place>),
    /// Which node has which slots, and for each node such places.
    Cluster(Slots, Vec<Vec<Place>>),
}

/// How long a sentinel, or a node of a cluster, may take to say where the store is.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long finding the nodes of a cluster may take in all, but for name servers: meanwhile the gateway is not announced. And how many are
/// asked for it at most.
const SEARCH: Duration = Duration::from_secs(3);
const MAX_ASKED: usize = 16;
/// The most addresses that are tried of one name.
const MAX_ADDRESSES: usize = 8;

/// Finds the store. Waits for name servers, and so belongs on a thread that has nothing else to do. `known` are the places of those
/// nodes of a cluster that are known, and `turn` says which of all is asked first.
pub(crate) async fn find(
    config: &titan_config::Store,
    (known, turn): (Vec<Place>, usize),
    others: &Greeting<'_>,
) -> Result<Found, String> {
    if config.is_cluster {
        return find_cluster(config, known, turn, others).await;
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

/// Asks one node after another for those of the cluster: those that it had, and those of the configuration. What one says that sees a
/// cluster which works is believed, or else what the first one says: a node that has lost the others knows what was.
async fn find_cluster(
    config: &titan_config::Store,
    known: Vec<Place>,
    turn: usize,
    greeting: &Greeting<'_>,
) -> Result<Found, String> {
    let mut reason = "none of its nodes responds".to_owned();
    let mut nodes = known;
    for address in &config.addresses {
        match places_of(address) {
            Ok(places) => nodes.extend(places),
            Err(error) => reason = error,
        }
    }
    // Not always the same one first: it may be one that knows nothing of the others any more, or belong to others by now.
    let first = turn % nodes.len().max(1);
    nodes.rotate_left(first);
    let until = Instant::now() + SEARCH;
    let mut found = None;
    for place in nodes.into_iter().take(MAX_ASKED) {
        let left = until.saturating_duration_since(Instant::now()).min(PATIENCE);
        match timeout(left, slots_at(&place, greeting)).await {
            Ok(Ok((slots, true))) => return Ok(slots),
            Ok(Ok((slots, false))) => drop(found.get_or_insert(slots)),
            Ok(Err(error)) => reason = error,
            Err(_) => reason = format!("{}: it does not respond", name_of(&place)),
        }
    }
    found.ok_or(reason)
}

/// What a node says of its cluster, and whether that works as far as it sees.
async fn slots_at(place: &Place, greeting: &Greeting<'_>) -> Result<(Found, bool), String> {
    let named = |what: &str| format!("{}: {what}", name_of(place));
    let Place::Tcp(_, asked) = place else { return Err(named("it is no node of a cluster")) };
    let (mut connection, driver) = greeting.connect(place).await?;
    let _driver = Driver::spawn(driver);
    let failed = |error: RedisError| named(&told(&error));
    let reply = command(&mut connection, cmd("CLUSTER").arg("SLOTS")).await.map_err(failed)?;
    let slots =
        Slots::told(&reply, asked).ok_or_else(|| named("it sends what is no list of slots"))?;
    if slots.nodes.is_empty() {
        return Err(named("no node of its cluster has slots"));
    }
    let reply = command(&mut connection, cmd("CLUSTER").arg("INFO")).await.map_err(failed)?;
    let places = slots.nodes.iter().map(places_of_node).collect();
    Ok((Found::Cluster(slots, places), works(&reply)))
}

/// Whether a node says that its cluster works.
fn works(reply: &Value) -> bool {
    let text = match reply {
        Value::BulkString(text) => str::from_utf8(text).unwrap_or_default(),
        Value::VerbatimString { text, .. } => text,
        _ => return false,
    };
    text.lines().any(|line| line.trim() == "cluster_state:ok")
}

/// Nowhere, if its name does not resolve: others are where they are nevertheless.
fn places_of_node(node: &Node) -> Vec<Place> {
    let Node { host, port } = node;
    if let Ok(ip) = host.parse::<IpAddr>() {
        return vec![Place::Tcp(SocketAddr::new(ip, *port), host.clone())];
    }
    let found = resolve(host, *port).into_iter().flatten().take(MAX_ADDRESSES);
    found.map(|it| Place::Tcp(it, host.clone())).collect()
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
