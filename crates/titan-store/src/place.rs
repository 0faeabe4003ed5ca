//! Where a store is now: its names are resolved and its sentinels asked on the thread of its keeper, for all workers.

use crate::connect::{Greeting, Place, told};
use crate::script::ask as command;
use redis::{Value, cmd};
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::time::Duration;
use titan_config::{SentinelName, StoreAddress};
use tokio::time::timeout;

/// How long a sentinel may take to say where the store is.
const SENTINEL: Duration = Duration::from_secs(1);
/// The most addresses that are tried of one name.
const MAX_ADDRESSES: usize = 8;

/// Finds the places at which the store may be, in the order in which they are tried. Waits for name servers, and so belongs on a
/// thread that has nothing else to do.
pub(crate) async fn find(
    config: &titan_config::Store,
    sentinels: &Greeting<'_>,
) -> Result<Vec<Place>, String> {
    let Some(name) = &config.sentinel else { return places_of(&config.addresses[0]) };
    let mut reason = "no sentinel".to_owned();
    for address in &config.addresses {
        match ask(address, name, sentinels).await {
            Ok(place) => return Ok(vec![place]),
            Err(error) => reason = format!("sentinel {address}: {error}"),
        }
    }
    Err(reason)
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
        match timeout(SENTINEL, ask_at(&place, name, greeting)).await {
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
    let (mut connection, mut driver) = greeting.connect(place).await?;
    let mut question = cmd("SENTINEL");
    question.arg("get-master-addr-by-name").arg(name.as_str());
    let reply = tokio::select! {
        reply = command(&mut connection, &question) => reply.map_err(|error| told(&error))?,
        () = &mut driver => return Err("it closes the connection".to_owned()),
    };
    primary_in(&reply).ok_or_else(|| format!("it knows no store `{}`", name.as_str()))
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
