//! How a gateway is doing, for those who watch it.

use super::retired::Retired;
use crate::metrics::RouteCells;
use crate::mirror::MirrorStatus;
use crate::snapshot::{Action, MemoryStatus, Snapshot};
use crate::tls_route::TlsRouteStatus;
use arc_swap::ArcSwap;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use titan_io::counter::Counted;
use titan_io::exemplar;
use titan_io::io::Phase;
use titan_io::tls::Validity;
use titan_observe::destination::DestinationFigures;
use titan_observe::recorder::Recorder;
use titan_otlp::figures::ExporterFigures;
use titan_policies::jwt::KeySetStatus;
use titan_store::store::{Store, StoreStatus};
use titan_upstream::cells::UpstreamCells;
use titan_upstream::concurrency::ConcurrencyStatus;
use titan_upstream::endpoint::{Endpoint, EndpointStatus};
use titan_upstream::status::UpstreamStatus;
use tokio::sync::watch;

/// How a gateway is doing.
#[derive(Clone)]
pub struct Status {
    current: Arc<ArcSwap<Snapshot>>,
    certificates: Arc<ArcSwap<Vec<CertificateStatus>>>,
    retired: Arc<Retired>,
    phase: watch::Receiver<Phase>,
    /// When the gateway began.
    began: Instant,
}

/// The stores of the configuration in force, also before it serves.
#[derive(Clone)]
pub struct StoresInForce(pub(super) Arc<ArcSwap<Snapshot>>);

impl StoresInForce {
    /// The one of that name.
    pub fn named(&self, name: &str) -> Option<Arc<Store>> {
        self.0.load().stores.named(name).cloned()
    }
}

/// How long after the start a gateway is not ready because keys of tokens are missing: a server of keys that does not respond must not
/// keep all gateways of a fleet from the routes that need none.
const KEYS_AT_START: Duration = Duration::from_secs(60);

/// A certificate of a listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateStatus {
    /// The name of the listener.
    pub listener: String,
    /// Its file, and when it is valid.
    pub validity: Validity,
}

impl Status {
    /// That of a gateway which serves from `current`, and whose listeners have these certificates.
    pub(super) fn new(
        (current, certificates): (&Arc<ArcSwap<Snapshot>>, &Arc<ArcSwap<Vec<CertificateStatus>>>),
        retired: &Arc<Retired>,
        phase: watch::Receiver<Phase>,
    ) -> Status {
        let (current, certificates) = (Arc::clone(current), Arc::clone(certificates));
        Status { current, certificates, retired: Arc::clone(retired), phase, began: Instant::now() }
    }

    /// Whether it accepts connections and will for a while, and does not wait for keys of tokens.
    pub fn is_ready(&self) -> bool {
        *self.phase.borrow() == Phase::Serve && !self.awaits_keys()
    }

    /// Whether keys of tokens have not come yet that its own files name, and it has not waited for them long enough.
    pub fn awaits_keys(&self) -> bool {
        self.began.elapsed() < KEYS_AT_START && self.current.load().chains.lacks_keys()
    }

    /// The last exchanges.
    pub fn recorder(&self) -> Arc<Recorder> {
        Arc::clone(&self.current.load().recorder)
    }

    /// How many configurations are in use: the one in force, and those before it that something still runs under.
    pub fn configurations_in_use(&self) -> usize {
        1 + self.retired.in_use()
    }

    /// Every certificate of every listener, in the order of the file.
    pub fn certificates(&self) -> Arc<Vec<CertificateStatus>> {
        self.certificates.load_full()
    }

    /// What bodies have of the memory for them, over all workers.
    pub fn memory(&self) -> [MemoryStatus; 4] {
        self.current.load().memory()
    }

    /// Every key set for tokens that is fetched.
    pub fn key_sets(&self) -> Vec<KeySetStatus> {
        self.current.load().chains.key_sets()
    }

    /// What is counted for each route in the order of the file, and behind them for requests that no route took.
    pub fn routes(&self) -> Vec<Arc<Counted<RouteCells>>> {
        self.current.load().all_counted().to_vec()
    }

    /// The names of the upstreams of the first routes in the order of the file; none where the gateway responds itself.
    pub fn upstreams_of_routes(&self, most: usize) -> Vec<Vec<String>> {
        let snapshot = self.current.load();
        let name = |place: &usize| snapshot.upstreams[*place].config().name.to_string();
        let of_route = |action: &Action| match action {
            Action::Proxy(proxy) => proxy.split.upstreams().iter().map(name).collect(),
            Action::Redirect(_) | Action::Respond(..) | Action::Files(_) => Vec::new(),
        };
        snapshot.actions.iter().take(most).map(of_route).collect()
    }

    /// The exemplars of the durations of each route that has any, by its name.
    pub fn exemplars(&self) -> HashMap<String, exemplar::Buckets> {
        self.current.load().exemplars()
    }

    /// What is counted for each upstream, in the order of the file.
    pub fn upstreams(&self) -> Vec<Arc<Counted<UpstreamCells>>> {
        let snapshot = self.current.load();
        let upstreams = snapshot.upstreams.iter();
        upstreams.map(|upstream| Arc::clone(&upstream.counted)).collect()
    }

    /// How each upstream is doing, in the order of the file.
    pub fn upstreams_now(&self) -> Vec<UpstreamStatus> {
        let snapshot = self.current.load();
        snapshot.upstreams.iter().map(|upstream| UpstreamStatus::of(upstream)).collect()
    }

    /// How the requests of each upstream stand whose number is limited.
    pub fn concurrency(&self) -> Vec<(String, ConcurrencyStatus)> {
        let snapshot = self.current.load();
        let limited = snapshot.upstreams.iter().filter_map(|upstream| {
            let status = upstream.concurrency.as_ref()?.status();
            Some((upstream.config().name.to_string(), status))
        });
        limited.collect()
    }

    /// What is counted for each TLS route, in the order of the file.
    pub fn tls_routes(&self) -> Vec<TlsRouteStatus> {
        self.current.load().tls_routes_now()
    }

    /// Every mirror, in the order of the routes in the file.
    pub fn mirrors(&self) -> Vec<MirrorStatus> {
        self.current.load().mirrors()
    }

    /// What is counted of each access log, in the order of the file.
    pub fn access_logs(&self) -> Vec<Arc<DestinationFigures>> {
        self.current.load().access_logs.clone()
    }

    /// What is counted of what goes to collectors of OpenTelemetry, in the order of the file.
    pub fn exporters(&self) -> Vec<Arc<ExporterFigures>> {
        self.current.load().exporters.clone()
    }

    /// The stores that gateways count together in.
    pub fn stores(&self) -> Vec<StoreStatus> {
        self.current.load().stores.status()
    }

    /// Every endpoint of every upstream.
    pub fn endpoints(&self) -> Vec<EndpointStatus> {
        let snapshot = self.current.load();
        let upstreams = snapshot.upstreams.iter();
        let members = upstreams.flat_map(|upstream| {
            let name = upstream.config().name.to_string();
            let members = upstream.members();
            let status = |endpoint: &Arc<Endpoint>| endpoint.status(&name);
            members.endpoints.iter().map(status).collect::<Vec<_>>()
        });
        members.collect()
    }
}
