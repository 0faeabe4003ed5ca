//! The admin interface: health, readiness, metrics and revoked tokens, on a thread of its own.
//!
//! | what | module | entry |
//! |---|---|---|
//! | the response for each path | `pages` | `Pages::respond` |
//! | revoked tokens, in a file and for all workers | `revocations` | [`RevocationStore::open`] |
//! | which configuration is in force, and how that went | `reloads` | [`Reloads::note_applied`] |
//! | what the program can be asked to do with its configuration | [`orders`] | [`orders::Orders`] |
//! | what was in force | [`history`] | [`history::Entry`] |
//! | the counters of the workers as text | `exposition` | `exposition::write` |
//! | a small HTTP/1.1 server, which the demo upstream uses too | [`http`] | [`http::Server::start`] |

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may stop at a surprise"))]

mod hex;

pub mod history;

pub mod orders;

mod reloads;

mod exposition;

pub mod http;

mod revocations;

mod pages;

pub use reloads::{Cause, Reloads};
pub use revocations::{RevocationStore, RevocationStoreError};

use http::Request;
use pages::Pages;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use titan_proxy::Gateway;

/// What the admin interface holds at most. A prober that forgets its connections, or asks again just
/// before each is closed, must not keep others out.
const BOUNDS: http::Bounds = http::Bounds {
    connections: 64,
    idle: Duration::from_secs(15),
    requests: 1000,
    life: Duration::from_secs(5 * 60),
    bodies: 8 << 20,
};

/// Serves the admin interface of `gateway` at `socket`, until what it returns is dropped. `reloads` tells it of
/// configurations; in `store` it notes the tokens that are revoked.
pub fn start(
    socket: http::Socket,
    gateway: &Gateway,
    reloads: &Arc<Reloads>,
    store: Option<Arc<RevocationStore>>,
) -> io::Result<http::Server> {
    let pages = Pages::new(gateway, reloads, store).at(socket.address());
    http::Server::start("admin", socket, BOUNDS, move |request: &Request| pages.respond(request))
}

/// Serves health, readiness and metrics of `gateway` at `socket`, and nothing that changes anything, until what it returns is
/// dropped.
pub fn start_probes(
    socket: http::Socket,
    gateway: &Gateway,
    reloads: &Arc<Reloads>,
) -> io::Result<http::Server> {
    let pages = Pages::new(gateway, reloads, None);
    http::Server::start("probes", socket, BOUNDS, move |request: &Request| {
        pages.respond_to_probe(request)
    })
}
