//! Names of endpoints: resolved outside of the workers, again whenever their answers expire.

use crate::endpoint::{Address, ResolvedEndpoint};
use crate::failure_log::{Cause, FailureDetail};
use crate::members::Upstream;
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{
    ConnectionConfig, LookupIpStrategy, NameServerConfig, ResolverConfig,
};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::{Duration, Instant};
use titan_config::{Endpoint, EndpointAddress};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// Keeps the endpoints of upstreams up to date.
pub struct NameResolver {
    config: titan_config::Resolver,
    /// One for IPv4 and one for IPv6: a query for one family that gets no answer, as happens with some name
    /// servers, must not fail the other.
    resolvers: [TokioResolver; 2],
    /// Enforces [`MAX_QUESTIONS`].
    turns: Semaphore,
}

/// The addresses of a name in one family, and when they expire; or why there are none.
type Lookup = Result<(Vec<IpAddr>, Instant), String>;

/// How soon a name that did not resolve is queried again.
const RETRY: Duration = Duration::from_secs(1);
/// The most addresses that are used of one name.
const MAX_ADDRESSES: usize = 256;
/// The most queries in flight at once; others wait.
const MAX_QUESTIONS: usize = 64;

/// Whether `upstream` has names to resolve. One that has none is complete from the start.
pub fn has_names(upstream: &Upstream) -> bool {
    let is_name = |endpoint: &Endpoint| matches!(endpoint.address, EndpointAddress::Dns { .. });
    upstream.config().endpoints.iter().any(is_name)
}

impl NameResolver {
    /// Reads the system's configuration, unless nameservers are given.
    pub fn new(config: &titan_config::Resolver) -> Result<NameResolver, NetError> {
        let resolvers = [
            resolver(config, LookupIpStrategy::Ipv4Only)?,
            resolver(config, LookupIpStrategy::Ipv6Only)?,
        ];
        Ok(NameResolver { config: config.clone(), resolvers, turns: Semaphore::new(MAX_QUESTIONS) })
    }

    /// Resolves all names of `upstream` once. Tells when to do so again.
    ///
    /// Names that do not resolve keep the addresses that they had: a nameserver that is down must not
    /// take down what works.
    pub async fn refresh(self: &Arc<Self>, upstream: &Upstream) -> Instant {
        // Answers are kept here, for as long as the configuration says; the resolver's own cache counts
        // in whole seconds.
        self.resolvers.iter().for_each(TokioResolver::clear_cache);
        let before = upstream.members();
        let mut places: Vec<ResolvedEndpoint> = Vec::new();
        let mut again = Instant::now() + self.config.max_ttl;
        let endpoints = &upstream.config().endpoints;
        // All queries are sent before the first answer is awaited.
        let asked: Vec<_> = endpoints.iter().map(|endpoint| self.query(endpoint)).collect();
        for (endpoint, asked) in endpoints.iter().zip(asked) {
            let (EndpointAddress::Dns { host, port }, Some(asked)) = (&endpoint.address, asked)
            else {
                places.extend(ResolvedEndpoint::fixed(endpoint));
                continue;
            };
            let name: Box<str> = format!("{host}:{port}").into();
            let known: Vec<_> = before.addresses_of(&name).collect();
            let answers = asked.await.unwrap_or_else(|_| [not_queried(), not_queried()]);
            if let Some(reason) = why_none(&answers) {
                upstream.failure_log.note(Cause::Name, || FailureDetail::of_name(host, &reason));
            }
            let (addresses, expires) = addresses(answers, *port, &known);
            again = again.min(expires.unwrap_or_else(|| Instant::now() + RETRY));
            places.extend(addresses.into_iter().map(|address| ResolvedEndpoint {
                address: Address::Ip(address),
                host: name.clone(),
                weight: endpoint.weight,
            }));
        }
        upstream.set_places(places);
        again
    }

    /// Refreshes an upstream for as long as it is in use elsewhere.
    pub async fn keep_fresh(self: Arc<Self>, upstream: Arc<Upstream>, mut again: Instant) {
        let (known, mut life) = (Arc::downgrade(&upstream), upstream.life());
        drop(upstream);
        loop {
            let soonest = Instant::now() + self.config.min_ttl;
            tokio::select! {
                () = tokio::time::sleep_until(again.max(soonest).into()) => {}
                _ = life.changed() => {}
            }
            let Some(upstream) = known.upgrade() else { return };
            again = self.refresh(&upstream).await;
        }
    }

    /// Queries the addresses of an endpoint, if it has a name.
    fn query(self: &Arc<Self>, endpoint: &Endpoint) -> Option<JoinHandle<[Lookup; 2]>> {
        let EndpointAddress::Dns { host, .. } = &endpoint.address else { return None };
        let (names, host) = (Arc::clone(self), host.to_string());
        Some(tokio::spawn(async move {
            let [v4, v6] = &names.resolvers;
            tokio::join!(names.ask(v4, &host), names.ask(v6, &host)).into()
        }))
    }

    async fn ask(&self, resolver: &TokioResolver, host: &str) -> Lookup {
        let _turn = self.turns.acquire().await;
        let asked = tokio::time::timeout(self.config.timeout, resolver.lookup_ip(host)).await;
        match asked.map_err(|_| "no name server answered in time".to_owned())? {
            Ok(answer) => Ok((some_of(answer.iter().collect()), answer.valid_until())),
            // An answer too: there are none.
            Err(error) if error.is_no_records_found() => {
                Ok((Vec::new(), Instant::now() + self.config.max_ttl))
            }
            Err(error) => Err(error.to_string()),
        }
    }
}

/// At most [`MAX_ADDRESSES`]. Servers rotate their answers: these are the same ones whatever comes first.
fn some_of(mut addresses: Vec<IpAddr>) -> Vec<IpAddr> {
    addresses.sort_unstable();
    addresses.truncate(MAX_ADDRESSES);
    addresses
}

/// Why a name has no address, if it has none.
fn why_none(answers: &[Lookup; 2]) -> Option<String> {
    let has_some = answers.iter().flatten().any(|(addresses, _)| !addresses.is_empty());
    let reason = || answers.iter().find_map(|answer| answer.clone().err());
    let none = || "the name does not exist or has no address".to_owned();
    (!has_some).then(|| reason().unwrap_or_else(none))
}

/// In place of an answer where the question was not asked.
fn not_queried() -> Lookup {
    Err("no query was sent".to_owned())
}

/// The result of the answers for both families; `None` when one is to be queried again soon. Where there is no answer,
/// what is `known` stays, and so it does when there is no address at all.
fn addresses(
    [v4, v6]: [Lookup; 2],
    port: NonZeroU16,
    known: &[SocketAddr],
) -> (Vec<SocketAddr>, Option<Instant>) {
    let (v4, v6) = (v4.ok(), v6.ok());
    let expires = v4.as_ref().zip(v6.as_ref()).map(|((_, v4), (_, v6))| *v4.min(v6));
    let found = |answer: Option<(Vec<IpAddr>, Instant)>| {
        let addresses = answer.map(|(addresses, _)| addresses);
        addresses.map(|ips| ips.into_iter().map(|ip| (ip, port.get()).into()).collect::<Vec<_>>())
    };
    let known_of = |is_v4: bool| {
        let known = known.iter().copied();
        known.filter(|address| address.is_ipv4() == is_v4).collect::<Vec<_>>()
    };
    let v4 = found(v4).unwrap_or_else(|| known_of(true));
    let v6 = found(v6).unwrap_or_else(|| known_of(false));
    let mut addresses = [v4, v6].concat();
    if addresses.is_empty() {
        return (known.to_vec(), None);
    }
    // Servers rotate their answers; the order of endpoints must not change with them.
    addresses.sort_unstable();
    (addresses, expires)
}

fn resolver(
    config: &titan_config::Resolver,
    family: LookupIpStrategy,
) -> Result<TokioResolver, NetError> {
    let mut builder = match &config.nameservers {
        None => TokioResolver::builder_tokio()?,
        Some(servers) => TokioResolver::builder_with_config(
            ResolverConfig::from_name_servers(servers.iter().map(nameserver).collect()),
            TokioRuntimeProvider::default(),
        ),
    };
    let options = builder.options_mut();
    options.timeout = config.timeout;
    options.ip_strategy = family;
    builder.build()
}

fn nameserver(address: &SocketAddr) -> NameServerConfig {
    let mut udp = ConnectionConfig::udp();
    let mut tcp = ConnectionConfig::tcp();
    (udp.port, tcp.port) = (address.port(), address.port());
    NameServerConfig::new(address.ip(), true, vec![udp, tcp])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_too_many_addresses_the_same_are_taken_whatever_comes_first() {
        let mut addresses: Vec<IpAddr> = (0..300_u16)
            .map(|number| [10, 0, number.to_be_bytes()[0], number.to_be_bytes()[1]].into())
            .collect();
        let first = some_of(addresses.clone());
        assert_eq!(first.len(), MAX_ADDRESSES);
        addresses.rotate_left(100);
        assert_eq!(some_of(addresses), first);
    }

    #[tokio::test(start_paused = true)]
    async fn an_upstream_is_resolved_as_long_as_it_is_in_use() {
        let text = "{ listeners: [':0'], routes: [{ upstream: u }], upstreams: { u: 'a.test:80' }, \
                    resolver: { nameservers: ['127.0.0.1:1'] } }";
        let config = titan_config::Config::parse("test", text).unwrap();
        let registry = titan_io::registry::Registry::default();
        let upstream = Upstream::of(&config.upstreams[0], &config.resolver, None, (&registry, 1));
        assert!(has_names(&upstream) && upstream.begin_to_follow() && !upstream.begin_to_follow());
        let names = Arc::new(NameResolver::new(&config.resolver).unwrap());
        let (hour, moment) = (Duration::from_secs(3600), Duration::from_secs(10));
        let again = Instant::now() + hour;
        let mut follows = tokio::spawn(names.keep_fresh(Arc::clone(&upstream), again));
        assert!(tokio::time::timeout(moment, &mut follows).await.is_err());
        drop(upstream);
        assert!(tokio::time::timeout(moment, follows).await.is_ok());
    }
}
