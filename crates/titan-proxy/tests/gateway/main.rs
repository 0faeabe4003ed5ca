//! The gateway as a whole, through real sockets: each module proves one side of its behaviour.

mod access_log;
mod any_of;
mod attacks;
mod authorisations;
mod balancing;
mod basic;
mod circuit_breaker;
mod claims;
mod client_certificates;
mod coded_requests;
mod comparison;
mod compression;
mod concurrency;
mod cors;
mod dates;
mod deadlines;
mod drain;
mod error_pages;
mod exchange;
mod failure_log;
mod fault;
mod figures;
mod files;
mod forward_auth;
mod grpc;
mod guesses;
mod health;
mod hedging;
mod hostile;
mod http2;
mod http3;
mod http3_upstream;
mod jwt;
mod kept;
mod large;
mod limits;
mod listeners;
mod maintenance;
mod mirror;
mod pools;
mod pressure;
mod rate_limits;
mod recorded_bodies;
mod recorder;
mod regressions;
mod reload;
mod resolver;
mod retries;
mod retry_budget;
mod retry_conditions;
mod revocations;
mod routing;
mod slow_clients;
mod succession;
mod timeouts;
mod tls;
mod tls_routes;
mod transforms;
mod tunnels;
mod uploads;
mod vectors;

use titan_testkit::{Gateway, Listening, Peer, gateway, upstream};

/// A configuration under which the gateway adds no fields of its own to requests.
const QUIET: &str = "forwarding: { x_forwarded: false, request_id: off, via: off }";

/// What stands between a client and an endpoint.
struct Held {
    gateway: Gateway,
    upstream: Listening,
}

/// A client that has sent `request`, and an endpoint that has accepted the connection for it.
#[track_caller]
fn between(request: impl AsRef<[u8]>) -> (Held, Peer, Peer) {
    between_under(QUIET, request)
}

/// The same under another configuration.
#[track_caller]
fn between_under(text: &str, request: impl AsRef<[u8]>) -> (Held, Peer, Peer) {
    let upstream = upstream::listens();
    let gateway = gateway(text, &[&upstream]);
    let mut client = gateway.connects();
    client.sends(request);
    let endpoint = upstream.accepts();
    (Held { gateway, upstream }, client, endpoint)
}
