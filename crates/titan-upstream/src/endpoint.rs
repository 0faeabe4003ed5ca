//! One address that requests can be sent to, and what all workers know of it.

use crate::balance::EndpointState;
use crate::slots::Slots;
use crate::trouble::{Cause, Troubles};
use arc_swap::ArcSwapOption;
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;
use titan_config::Protocol;
use titan_http::Version;
use titan_io::error::Kind;
use titan_io::tls::{ClientTls, EndpointTls, is_not_tls};

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
    /// What connections are secured with; `None` without TLS.
    pub tls: Option<EndpointTls>,
    /// What it speaks.
    pub protocol: Protocol,
    /// Whether a handshake has agreed on HTTP/1.1 where either would have done.
    has_agreed_on_h1: AtomicBool,
    /// The Host of requests for it, where a route wants that: the name it was configured with.
    pub host: Box<str>,
    /// How busy and how slow it is.
    pub load: Arc<EndpointState>,
    /// Its connections, and who waits for one.
    pub slots: Arc<Slots>,
    /// Idle connections kept, over all workers.
    pub idle: AtomicU32,
    max_idle: u32,
    /// How long a connection may be idle.
    pub idle_timeout: Duration,
    /// How long a request may wait for a connection.
    pub queue_timeout: Duration,
    /// Whether its last response was HTTP/1.0: such a server does not know 100 (Continue).
    pub is_http10: AtomicBool,
    is_gone: AtomicBool,
    /// What goes wrong with its upstream.
    troubles: Arc<Troubles>,
    /// Why the last connection to it was not to be had, until somebody tells of that.
    reason: ArcSwapOption<(Kind, String)>,
}

/// An endpoint with its address, as configured or resolved. Address and host make it the endpoint that it is: the
/// host is the name and port from the configuration, and TLS asks for that name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedEndpoint {
    /// The address.
    pub address: Address,
    /// The name and port from the configuration.
    pub host: Box<str>,
    /// Its share of the requests, beside those of the others.
    pub weight: NonZeroU16,
}

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
}

impl Endpoint {
    /// The endpoint at that place.
    pub fn new(
        place: &ResolvedEndpoint,
        upstream: &titan_config::Upstream,
        tls: Option<&ClientTls>,
        troubles: &Arc<Troubles>,
    ) -> Endpoint {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let ResolvedEndpoint { address, host, weight: _ } = place;
        let (tls, troubles) = (tls.map(|tls| tls.towards(host)), Arc::clone(troubles));
        Endpoint {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            address: address.clone(),
            tls,
            protocol: upstream.protocol,
            has_agreed_on_h1: AtomicBool::new(false),
            host: host.clone(),
            load: EndpointState::new(&address.to_string()),
            slots: Arc::new(Slots::new(upstream.max_connections.at_most(), upstream.queue.length)),
            idle: AtomicU32::new(0),
            max_idle: upstream.max_idle,
            idle_timeout: upstream.idle_timeout,
            queue_timeout: upstream.queue.timeout,
            is_http10: AtomicBool::new(false),
            is_gone: AtomicBool::new(false),
            troubles,
            reason: ArcSwapOption::empty(),
        }
    }

    /// Why there is no connection to it, kept where somebody is going to tell of it.
    pub fn note_reason(&self, kind: Kind, error: &io::Error) {
        if self.troubles.is_wanted(Cause::Failed(kind)) {
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

    /// Whether requests for it go over HTTP/1.1, as far as that is known.
    pub fn speaks_h1(&self) -> bool {
        match self.protocol {
            Protocol::H1 => true,
            Protocol::H2 => false,
            Protocol::Auto => self.tls.is_none() || self.has_agreed_on_h1.load(Ordering::Relaxed),
        }
    }

    /// Notes what a new connection speaks.
    pub fn note_agreed(&self, is_h2: bool) {
        self.has_agreed_on_h1.store(!is_h2, Ordering::Relaxed);
    }

    /// Takes a place among the idle connections, if there is one.
    pub fn take_idle_place(&self) -> bool {
        let more = |idle| (idle < self.max_idle).then_some(idle + 1);
        self.idle.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).is_ok()
    }

    /// Notes what it answered with. A store only where that is news: all workers read it.
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
        }
    }

    /// Notes whether the upstream no longer has it.
    pub fn set_gone(&self, is_gone: bool) {
        self.is_gone.store(is_gone, Ordering::Release);
    }

    /// Whether the upstream no longer has it.
    pub fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::Acquire)
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
