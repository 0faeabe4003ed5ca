//! One address that requests can be sent to, and what all workers know of it.

use crate::balance::EndpointState;
use crate::breaker::Breaker;
use crate::failure_log::{Cause, FailureDetail, FailureLog};
use crate::groups::{Placement, Record};
use crate::health::{Condition, Counts, Fact, Health, Story};
use crate::signals::Signals;
use crate::slots::Slots;
use arc_swap::ArcSwapOption;
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::Duration;
use titan_config::{EndpointAddress, InitialHealth, Protocol};
use titan_http::Version;
use titan_io::error::Kind;
use titan_io::tls::{ClientTls, EndpointTls, is_not_tls};
use tokio::time::Instant;

/// Where an endpoint listens, with every name resolved.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// On the network.
    Ip(SocketAddr),
    /// On this machine.
    Unix(PathBuf),
}

/// One address that requests can be sent to.
pub struct Endpoint {
    /// Unique in the process.
    pub id: u64,
    /// Where it listens.
    pub address: Address,
    /// The same as text.
    pub text: Box<str>,
    /// What connections are secured with; `None` without TLS.
    pub tls: Option<EndpointTls>,
    /// What it speaks.
    pub protocol: Protocol,
    /// Whether a handshake has agreed on HTTP/1.1 where either would have done.
    has_agreed_on_h1: AtomicBool,
    /// Until when connections do not go over QUIC, because that did not get through.
    quic_rests_until: AtomicU64,
    /// The Host of requests for it, where a route wants that: the name it was configured with.
    pub host: Box<str>,
    /// How busy and how slow it is.
    pub load: Arc<EndpointState>,
    /// Whether it can take requests.
    pub health: Health,
    /// What keeps requests from it while it fails; made when it is first asked for, as most endpoints have none.
    breaker: OnceLock<Box<Breaker>>,
    /// Its connections, and the requests that wait for one.
    pub slots: Arc<Slots>,
    /// Idle connections kept, over all workers.
    pub idle: AtomicU32,
    /// What may change while it stays the endpoint that it is.
    max_idle: AtomicU32,
    idle_timeout: SharedDuration,
    queue_timeout: SharedDuration,
    /// Whether its last response was HTTP/1.0: such a server does not know 100 (Continue).
    pub is_http10: AtomicBool,
    /// How many upstreams have it among their members: one, and while a configuration follows another two.
    upstreams: AtomicU32,
    /// What goes wrong with its upstream.
    failure_log: Arc<FailureLog>,
    /// Why the last connection to it failed, until it is reported.
    reason: ArcSwapOption<(Kind, String)>,
}

/// How many seconds QUIC is not tried again where it did not get through.
const QUIC_RESTS: u64 = 60;

/// Seconds since the first call, in this process.
fn moment() -> u64 {
    static FIRST: LazyLock<Instant> = LazyLock::new(Instant::now);
    FIRST.elapsed().as_secs()
}

/// An endpoint with its address, as configured or resolved. Address and host make it the endpoint that it is: the
/// host is the name and port from the configuration, and TLS asks for that name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedEndpoint {
    /// The address.
    pub address: Address,
    /// The name and port from the configuration.
    pub host: Box<str>,
    /// The address in the configuration that it was found for.
    pub source: Box<str>,
    /// The record that it was found by, if it was.
    pub record: Option<Record>,
    /// Its place among the others.
    pub placement: Placement,
}

/// A duration that one thread sets while others read it, in microseconds.
struct SharedDuration(AtomicU64);

/// How one endpoint is doing.
#[derive(Clone, Debug)]
pub struct EndpointStatus {
    /// The upstream it belongs to.
    pub upstream: String,
    /// Its address.
    pub address: String,
    /// Requests that run.
    pub active: u32,
    /// Connections that are open, idle ones among them.
    pub open: u32,
    /// Connections that are idle.
    pub idle: u32,
    /// Requests that wait for a connection.
    pub waiting: u32,
    /// Whether it gets requests, as far as its health goes.
    pub condition: Condition,
    /// Why, and what led there.
    pub story: Story,
    /// What was counted of its requests, where that is counted.
    pub counts: Counts,
}

impl Endpoint {
    /// The endpoint at that place.
    pub fn new(
        place: &ResolvedEndpoint,
        upstream: &titan_config::Upstream,
        tls: Option<&Arc<ClientTls>>,
        failure_log: &Arc<FailureLog>,
        signals: Signals,
    ) -> Endpoint {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let ResolvedEndpoint { address, host, .. } = place;
        let (tls, failure_log) = (tls.map(|tls| tls.towards(host)), Arc::clone(failure_log));
        let awaits_probe =
            upstream.health.as_ref().is_some_and(|it| it.initial == InitialHealth::Unhealthy);
        let initial = awaits_probe.then_some(Fact::Unprobed);
        Endpoint {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            address: address.clone(),
            text: address.to_string().into(),
            tls,
            protocol: upstream.protocol,
            has_agreed_on_h1: AtomicBool::new(false),
            quic_rests_until: AtomicU64::new(0),
            host: host.clone(),
            load: EndpointState::new(&address.to_string()),
            health: Health::new(signals, initial),
            breaker: OnceLock::new(),
            slots: Arc::new(Slots::new(upstream.max_connections.at_most(), upstream.queue.length)),
            idle: AtomicU32::new(0),
            max_idle: AtomicU32::new(upstream.max_idle),
            idle_timeout: SharedDuration::new(upstream.idle_timeout),
            queue_timeout: SharedDuration::new(upstream.queue.timeout),
            is_http10: AtomicBool::new(false),
            upstreams: AtomicU32::new(0),
            failure_log,
            reason: ArcSwapOption::empty(),
        }
    }

    /// Applies the settings that an upstream has now; open connections and waiting requests still count.
    pub fn set_limits(&self, upstream: &titan_config::Upstream) {
        let titan_config::Queue { length, timeout } = upstream.queue;
        self.slots.set_limits(upstream.max_connections.at_most(), length);
        self.max_idle.store(upstream.max_idle, Ordering::Relaxed);
        self.idle_timeout.set(upstream.idle_timeout);
        self.queue_timeout.set(timeout);
        self.health.tally.set_limits(upstream.ejection.as_ref());
    }

    /// What keeps requests from it while it fails.
    pub fn breaker(&self) -> &Breaker {
        self.breaker.get_or_init(Box::default)
    }

    /// How long a connection may be idle.
    pub fn idle_timeout(&self) -> Duration {
        self.idle_timeout.get()
    }

    /// How long a request may wait for a connection.
    pub fn queue_timeout(&self) -> Duration {
        self.queue_timeout.get()
    }

    /// What goes wrong with its upstream.
    pub fn failure_log(&self) -> &FailureLog {
        &self.failure_log
    }

    /// Why there is no connection to it, kept to be reported.
    pub fn note_reason(&self, kind: Kind, error: &io::Error) {
        if self.failure_log.is_wanted(Cause::Failed(kind)) {
            let reason = match is_not_tls(error) {
                true => "it does not speak TLS".to_owned(),
                false => error.to_string(),
            };
            self.reason.store(Some(Arc::new((kind, reason))));
        }
    }

    /// The reason for a failure of that kind, where one was noted.
    pub fn take_reason(&self, kind: Kind) -> Option<String> {
        let reason = self.reason.swap(None)?;
        (reason.0 == kind).then(|| reason.1.clone())
    }

    /// Whether that is its address.
    pub fn has_address(&self, address: &str) -> bool {
        self.address.to_string() == address
    }

    /// Whether requests for it go over HTTP/1.1, as far as that is known.
    pub fn speaks_h1(&self) -> bool {
        match self.protocol {
            Protocol::H1 => true,
            Protocol::H2 | Protocol::H3 { .. } => false,
            Protocol::Auto => self.tls.is_none() || self.has_agreed_on_h1.load(Ordering::Relaxed),
        }
    }

    /// What QUIC to it is secured with, where a new connection is to go over that.
    pub fn quic(&self) -> Option<&EndpointTls> {
        let rests = self.quic_rests_until.load(Ordering::Relaxed) > moment();
        self.tls.as_ref().filter(|_| self.protocol.is_h3() && !rests)
    }

    /// QUIC does not get through to it. Whether HTTP/2 will do, for a while.
    pub fn rest_quic(&self) -> bool {
        let may_rest = self.protocol == (Protocol::H3 { or_h2: true });
        if may_rest {
            self.quic_rests_until.store(moment().saturating_add(QUIC_RESTS), Ordering::Relaxed);
            let describe = || FailureDetail::of_quic(&self.address, QUIC_RESTS);
            self.failure_log.note(Cause::WithoutQuic, describe);
        }
        may_rest
    }

    /// Notes what a new connection speaks.
    pub fn note_agreed(&self, is_h2: bool) {
        self.has_agreed_on_h1.store(!is_h2, Ordering::Relaxed);
    }

    /// Takes a place among the idle connections, if there is one.
    pub fn take_idle_place(&self) -> bool {
        let most = self.max_idle.load(Ordering::Relaxed);
        let more = |idle| (idle < most).then_some(idle + 1);
        self.idle.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).is_ok()
    }

    /// Notes what it responded with. A store only where that is news: all workers read it.
    pub fn note_version(&self, version: Version) {
        let is_http10 = version == Version::Http10;
        if self.is_http10.load(Ordering::Relaxed) != is_http10 {
            self.is_http10.store(is_http10, Ordering::Relaxed);
        }
    }

    /// How it is doing.
    pub fn status(&self, upstream: &str) -> EndpointStatus {
        EndpointStatus {
            upstream: upstream.to_owned(),
            address: self.address.to_string(),
            active: self.load.active(),
            open: self.slots.open(),
            idle: self.idle.load(Ordering::Relaxed),
            waiting: self.slots.waiting(),
            condition: self.health.condition(),
            story: self.health.story().clone(),
            counts: self.health.tally.counts(),
        }
    }

    /// Notes that an upstream has it among its members.
    pub(crate) fn join(&self) {
        self.upstreams.fetch_add(1, Ordering::AcqRel);
    }

    /// Notes that an upstream no longer does.
    pub(crate) fn leave(&self) {
        self.upstreams.fetch_sub(1, Ordering::AcqRel);
    }

    /// Whether no upstream has it any more.
    pub fn is_gone(&self) -> bool {
        self.upstreams.load(Ordering::Acquire) == 0
    }
}

impl ResolvedEndpoint {
    /// The endpoint of a configuration; `None` where its address is a name or a feed.
    pub fn fixed(endpoint: &titan_config::Endpoint) -> Option<ResolvedEndpoint> {
        let (address, host) = match &endpoint.address {
            EndpointAddress::Ip(address) => (Address::Ip(*address), address.to_string()),
            // A Unix socket has no name that a Host field could carry.
            EndpointAddress::Unix(path) => (Address::Unix(path.clone()), "localhost".to_owned()),
            EndpointAddress::Dns { .. } | EndpointAddress::Srv(_) | EndpointAddress::Feed(_) => {
                return None;
            }
        };
        let (source, placement) = (endpoint.address.to_string().into(), Placement::of(endpoint));
        Some(ResolvedEndpoint { address, host: host.into(), source, record: None, placement })
    }

    /// The same host at another port, if it has any.
    pub(crate) fn at_port(&self, port: NonZeroU16) -> ResolvedEndpoint {
        let mut there = self.clone();
        if let Address::Ip(address) = &mut there.address {
            address.set_port(port.get());
            let name = self.host.rsplit_once(':').map_or(&*self.host, |(name, _)| name);
            there.host = format!("{name}:{port}").into();
        }
        there
    }
}

impl SharedDuration {
    fn new(duration: Duration) -> SharedDuration {
        let shared = SharedDuration(AtomicU64::new(0));
        shared.set(duration);
        shared
    }

    fn set(&self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        self.0.store(micros, Ordering::Relaxed);
    }

    fn get(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::Relaxed))
    }
}

impl Address {
    /// The address on the network, if it is one.
    pub fn on_network(&self) -> Option<SocketAddr> {
        match self {
            Address::Ip(address) => Some(*address),
            Address::Unix(_) => None,
        }
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Address::Ip(address) => write!(f, "{address}"),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}
