//! The admin interface: health, readiness, metrics, revoked tokens and the configuration, on threads of its own.
//!
//! | what | module | entry |
//! |---|---|---|
//! | the response for each call | `pages` | `Site`, `Probes` |
//! | which calls there are, and what right each needs | `calls` | `CALLS` |
//! | who calls, and whether they may | `access` | [`Access`] |
//! | the page for browsers, and its files | `dashboard` | `dashboard::file` |
//! | signing in, for people in front of a browser | `session` | `session::sign_in` |
//! | an event for each call that changes something | `audit` | `Audit::note` |
//! | the configuration in force, and other ones | `configuration` | `configuration::put` |
//! | the certificates of listeners | `certificates` | `certificates::list` |
//! | which gateway a call is meant for | `identity` | [`Identity::of`] |
//! | how upstreams are doing, and orders about endpoints | `upstreams` | `upstreams::list` |
//! | copies of requests, and where the responses to them differ | `mirrors` | `mirrors::list` |
//! | where more of the configuration comes from | [`sources`] | `sources::list` |
//! | which events are written | `log` | `log::put` |
//! | the last exchanges, and exchanges live | `recorder` | `recorder::tap` |
//! | another process that takes over | `upgrades` | `upgrades::upgrade` |
//! | revoked tokens, in a file and for all workers | `revocations` | [`RevocationStore::open`] |
//! | which configuration is in force, and how that went | `reloads` | [`Reloads::note_applied`] |
//! | what the program can be asked to do while it serves | [`orders`] | [`orders::Orders`] |
//! | what was in force | [`history`] | [`history::Entry`] |
//! | the counters of the workers, for scrapers | `exposition` | `exposition::write` |
//! | figures over time, and what is wrong | `figures` | `Figures::start` |
//! | percentiles of histograms | `quantile` | [`Quantile::of`] |
//! | a small HTTP/1.1 server, which the demo upstream uses too | [`http`] | [`http::Server::start`] |

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may stop at a surprise"))]

mod hex;

mod quantile;

pub mod history;

pub mod orders;

mod reloads;

pub mod http;

mod revocations;

mod exposition;

mod identity;

mod figures;

mod calls;

mod access;

mod dashboard;

mod session;

mod audit;

mod configuration;

mod certificates;

mod upgrades;

mod upstreams;

mod mirrors;

pub mod sources;

mod log;

mod recorder;

mod pages;

pub use access::{Access, PreparedAccess};
pub use identity::Identity;
pub use quantile::Quantile;
pub use reloads::{Attempts, Cause, Reloads, SourceState, SourceStatus, Subject};
pub use revocations::{RevocationStore, RevocationStoreError};

use access::Place;
use orders::Orders;
use pages::{Pages, Probes, Site};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use titan_config::bounds::MAX_FILE;
use titan_proxy::Gateway;

/// What the admin interface holds at most. A prober that forgets its connections, or asks again just
/// before each is closed, must not keep others out. So 64 may read streams, 16 of each client.
const BOUNDS: http::Bounds = http::Bounds {
    connections: 128,
    share: 32,
    idle: Duration::from_secs(15),
    requests: 1000,
    life: Duration::from_secs(5 * 60),
    bodies: 2 * MAX_FILE,
};

/// The admin interface of a gateway, to be served at several sockets.
pub struct Interface(Arc<Pages>);

impl Interface {
    /// That of `gateway`, whose log gets an event for each call that changes something. `reloads` tells it of configurations; in `store`,
    /// while there is one, it notes the tokens that are revoked. Calls that are meant for a gateway with another `identity` are refused.
    pub fn new(
        gateway: &Gateway,
        reloads: &Arc<Reloads>,
        store: Option<&Arc<RevocationStore>>,
        access: &Access,
        orders: Orders,
        identity: Option<Identity>,
    ) -> Interface {
        let orders = (orders, identity);
        Interface(Arc::new(Pages::new(gateway, reloads, store, access, orders)))
    }

    /// Serves all of it at `socket`, on a thread of that name, until what it returns is dropped.
    pub fn serve(&self, name: &str, socket: http::Socket) -> io::Result<http::Server> {
        self.0.figures().start()?;
        let site = Site { pages: Arc::clone(&self.0), place: Place::of(socket.address()) };
        http::Server::start(name, socket.secured(self.0.tls()), BOUNDS, site)
    }

    /// Serves health, readiness and metrics at `socket`, and nothing that changes anything, until what it returns is
    /// dropped.
    pub fn serve_probes(&self, socket: http::Socket) -> io::Result<http::Server> {
        let site = Probes { pages: Arc::clone(&self.0), place: Place::of(socket.address()) };
        http::Server::start("probes", socket, BOUNDS, site)
    }
}
