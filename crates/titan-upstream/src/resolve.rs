//! Names of endpoints: resolved outside of the workers, again whenever their answers expire.

use crate::endpoint::{Address, ResolvedEndpoint};
use crate::failure_log::{Cause, FailureDetail};
use crate::groups::{Placement, Record};
use crate::members::{Members, Upstream};
use crate::places::{tell_change, within_bound};
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{
    ConnectionConfig, LookupIpStrategy, NameServerConfig, ResolverConfig,
};
use hickory_resolver::net::NetError;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::proto::rr::RData;
use hickory_resolver::proto::rr::rdata::SRV;
use std::collections::HashSet;
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

/// What the address of an endpoint stands for.
struct Found {
    places: Vec<ResolvedEndpoint>,
    /// When that expires; `None` when it is to be queried again soon.
    expires: Option<Instant>,
    /// Why there is nothing new, where that is so.
    failed: Option<String>,
}

/// A server of a service (RFC 2782).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Target {
    priority: u16,
    name: String,
    port: NonZeroU16,
    weight: u16,
}

/// How soon a name that did not resolve is queried again.
const RETRY: Duration = Duration::from_secs(1);
/// The most addresses that are used of one name, of both families together.
const MAX_ADDRESSES: usize = 256;
/// The most servers that are used of one service.
const MAX_TARGETS: usize = 64;
/// The most queries in flight at once; others wait.
const MAX_QUESTIONS: usize = 64;

/// Whether `upstream` has names to resolve. One that has none is complete from the start.
pub fn has_names(upstream: &Upstream) -> bool {
    upstream.config().endpoints.iter().any(|endpoint| endpoint.address.is_name())
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
        let mut all: Vec<Vec<ResolvedEndpoint>> = Vec::new();
        let mut again = Instant::now() + self.config.max_ttl;
        let endpoints = &upstream.config().endpoints;
        // All queries are sent before the first answer is awaited.
        let asked: Vec<_> =
            endpoints.iter().map(|endpoint| self.query(endpoint, &before)).collect();
        for (endpoint, asked) in endpoints.iter().zip(asked) {
            let Some(asked) = asked else {
                all.push(ResolvedEndpoint::fixed(endpoint).into_iter().collect());
                continue;
            };
            // A task that ended in a panic, which it cannot.
            let Found { places, expires, failed } =
                asked.await.unwrap_or_else(|_| Found::nothing());
            if let Some(reason) = failed {
                let name = endpoint.address.name();
                upstream.failure_log.note(Cause::Name, || FailureDetail::of_name(name, &reason));
            }
            again = again.min(expires.unwrap_or_else(|| Instant::now() + RETRY));
            all.push(places);
        }
        upstream.set_places(within_bound(upstream, all));
        tell_change(upstream, &before);
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

    /// Finds out what the address of an endpoint stands for, if it is a name.
    fn query(self: &Arc<Self>, endpoint: &Endpoint, before: &Members) -> Option<JoinHandle<Found>> {
        if !endpoint.address.is_name() {
            return None;
        }
        let known = before.found_for(&endpoint.address.to_string());
        let (names, endpoint) = (Arc::clone(self), endpoint.clone());
        Some(tokio::spawn(async move {
            match &endpoint.address {
                EndpointAddress::Srv(name) => names.service(name, &endpoint, known).await,
                EndpointAddress::Dns { host, port } => {
                    names.addresses((host, *port), (&endpoint, None), &known).await
                }
                EndpointAddress::Ip(_) | EndpointAddress::Unix(_) | EndpointAddress::Feed(_) => {
                    Found::nothing()
                }
            }
        }))
    }

    /// The servers of a service. Where nobody says which there are, those that are known stay.
    async fn service(
        self: &Arc<Self>,
        name: &str,
        endpoint: &Endpoint,
        known: Vec<ResolvedEndpoint>,
    ) -> Found {
        let answer = self.ask_service(name).await;
        let none = || "the service does not exist or has no server".to_owned();
        let (targets, mut expires) = match answer {
            Ok((targets, expires)) if !targets.is_empty() => (targets, Some(expires)),
            other => {
                let failed = Some(other.err().unwrap_or_else(none));
                return Found { places: known, expires: None, failed };
            }
        };
        let known: Arc<[ResolvedEndpoint]> = known.into();
        let asked = records(targets).into_iter().map(|(record, name, port)| {
            let (names, endpoint, known) = (Arc::clone(self), endpoint.clone(), Arc::clone(&known));
            tokio::spawn(async move {
                names.addresses((&name, port), (&endpoint, Some(record)), &known).await
            })
        });
        let asked: Vec<_> = asked.collect();
        let (mut places, mut failed) = (Vec::new(), None);
        for found in asked {
            let Ok(found) = found.await else { continue };
            places.extend(found.places);
            expires = expires.zip(found.expires).map(|(one, other)| one.min(other));
            failed = failed.or(found.failed);
        }
        Found { places, expires, failed }
    }

    /// The addresses of a host.
    async fn addresses(
        &self,
        (host, port): (&str, NonZeroU16),
        (endpoint, record): (&Endpoint, Option<Record>),
        known: &[ResolvedEndpoint],
    ) -> Found {
        let [v4, v6] = &self.resolvers;
        let answers: [Lookup; 2] = tokio::join!(self.ask(v4, host), self.ask(v6, host)).into();
        let failed = why_none(&answers);
        let name: Box<str> = format!("{host}:{port}").into();
        let known = known.iter().filter(|place| place.host == name);
        let known: Vec<_> = known.filter_map(|place| place.address.on_network()).collect();
        let (addresses, expires) = addresses(answers, port, &known);
        let fixed = Placement::of(endpoint);
        let placement = record.map_or(fixed, |record| fixed.of_record(record));
        let places = addresses.into_iter().map(|address| ResolvedEndpoint {
            address: Address::Ip(address),
            host: name.clone(),
            source: endpoint.address.to_string().into(),
            record,
            placement,
        });
        Found { places: places.collect(), expires, failed }
    }

    async fn ask_service(&self, name: &str) -> Result<(Vec<Target>, Instant), String> {
        let _turn = self.turns.acquire().await;
        let [resolver, _] = &self.resolvers;
        let asked = tokio::time::timeout(self.config.timeout, resolver.srv_lookup(name)).await;
        match asked.map_err(|_| "no name server answered in time".to_owned())? {
            Ok(answer) => {
                let records = answer.answers().iter();
                let targets = records.filter_map(|record| Target::of(&record.data));
                Ok((some_targets(targets.collect()), answer.valid_until()))
            }
            Err(error) if error.is_no_records_found() => {
                Ok((Vec::new(), Instant::now() + self.config.max_ttl))
            }
            Err(error) => Err(error.to_string()),
        }
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

/// At most [`MAX_TARGETS`], the first ones first.
fn some_targets(mut targets: Vec<Target>) -> Vec<Target> {
    targets.sort_unstable();
    targets.truncate(MAX_TARGETS);
    targets
}

/// What the records of a service say of each server. One without a weight takes out of service what other servers of its priority
/// have: nearly nothing is what RFC 2782 has it get beside them. Where none has a weight, all are alike.
fn records(targets: Vec<Target>) -> Vec<(Record, String, NonZeroU16)> {
    let weighted: HashSet<u16> =
        targets.iter().filter(|it| it.weight > 0).map(|it| it.priority).collect();
    let record = |Target { priority, name, port, weight }| {
        let weight = NonZeroU16::new(weight);
        let is_draining = weight.is_none() && weighted.contains(&priority);
        let weight = weight.unwrap_or(NonZeroU16::MIN);
        (Record { priority, weight, is_draining }, name, port)
    };
    targets.into_iter().map(record).collect()
}

impl Target {
    /// The server in a record; `None` for one that says that there is none (a target of `.`), or which nobody can connect to.
    fn of(data: &RData) -> Option<Target> {
        let RData::SRV(SRV { priority, weight, port, target, .. }) = data else { return None };
        let name = target.to_ascii();
        let name = name.strip_suffix('.').unwrap_or(&name).to_ascii_lowercase();
        let port = NonZeroU16::new(*port).filter(|_| !name.is_empty())?;
        Some(Target { priority: *priority, name, port, weight: *weight })
    }
}

impl Found {
    fn nothing() -> Found {
        Found { places: Vec::new(), expires: None, failed: None }
    }
}

/// The result of the answers for both families; `None` when one is to be queried again soon. Where there is no answer,
/// what is `known` stays, and so it does when there is no address at all. Where there are too many, each family has at least half of the
/// places if it needs them.
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
    let mut v4 = found(v4).unwrap_or_else(|| known_of(true));
    let mut v6 = found(v6).unwrap_or_else(|| known_of(false));
    v4.truncate(MAX_ADDRESSES - v6.len().min(MAX_ADDRESSES / 2));
    v6.truncate(MAX_ADDRESSES - v4.len());
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

    #[test]
    fn the_addresses_of_a_name_are_bounded_over_both_families() {
        let again = Instant::now();
        let of = |ip: &dyn Fn(u8) -> IpAddr| Ok(((0..=255).map(ip).collect(), again));
        let v4 = of(&|last| [10, 0, 0, last].into());
        let v6 = of(&|last| [0xfd00, 0, 0, 0, 0, 0, 0, last.into()].into());
        let (found, _) = addresses([v4, v6], NonZeroU16::MIN, &[]);
        let half = MAX_ADDRESSES / 2;
        assert_eq!((found.len(), found.iter().filter(|it| it.is_ipv4()).count()), (2 * half, half));
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
