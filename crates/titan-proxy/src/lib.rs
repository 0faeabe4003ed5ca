//! The data plane: requests in, answers out.
//!
//! One request, top to bottom. The modules stand in this order:
//!
//! | # | what happens | module | entry |
//! |---|---|---|---|
//! | 0 | bind, build the snapshot, start the workers, stop them | `gateway` | [`Gateway::start`] |
//! | 1 | one thread, one runtime, own sockets, buffers, pools and clock | `worker` | `Worker::run` |
//! | 2 | accept, connection limits, PROXY protocol | `listener` | `Listener::serve` |
//! | 3 | TLS: certificates, the handshake, records | `tls` | `accept` |
//! | 4 | octets to heads, heads to octets | `downstream`: `h1`, `h2` | `serve` |
//! | 5 | **the spine** | `exchange` | `Exchange::run` |
//! | - | which fields of requests are let in | `guard` | `Guard::strip_head` |
//! | 6 | one normal form of the path | `path` | `normalise` |
//! | 7 | host, path, method and match rules | `route` | `Routes::find`, `LookAlikes::judge` |
//! | - | policies: the request half, the response half | `middleware` | `Chain::on_request`, `Chain::on_response` |
//! | 8 | who the client is, and what the upstream is told of it | `forwarding` | `Forwarding::tell_upstream` |
//! | - | another protocol in place of HTTP | `upgrade`, `exchange::tunnel` | `Upgrade`, `Talk::tunnel` |
//! | 9 | choose an endpoint, get a connection, retry | `upstream` | `Attempts::next`, `Pools::get` |
//! | 10 | the request goes out while the answer comes in | `exchange::attempt` | `Exchange::attempt` |
//! | 11 | both bodies, back-pressure, stalls | `relay` | `Pump::poll` |
//! | 12 | one record, one set of counters | `metrics` | `Cells::count_answer` |
//! | - | answers with files | `files`, `exchange::files` | `Site::find`, `Site::reply` |
//! | - | redirects and rewritten paths | `template` | `write_location`, `PathRewrite::apply` |
//! | - | an HTTP/1.1 message on a socket | `message`, `stream`, `splice` | `Incoming`, `Outgoing` |
//! | - | an HTTP/2 connection and its streams | `mux` | `Wire`, `Receiver`, `Sender` |
//! | - | what a worker serves from | `snapshot` | `Snapshot::build` |
//! | - | who failed, and what to answer | `error`, `problem`, `grpc` | `Error` |
//! | - | what a request would get, and why | `explain` | [`explain()`] |

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may stop at a surprise"))]

mod gateway;

mod worker;

mod entry;
mod listener;
mod network;
mod proxy_protocol;
mod shares;
mod tls;

mod downstream;

mod exchange;

mod guard;
mod path;
mod route;
mod template;

mod middleware;

mod cookie;

mod files;

mod forwarding;
mod upgrade;

mod upstream;

mod message;
mod mux;
mod relay;
mod splice;
mod stream;

mod metrics;

mod snapshot;

mod error;
mod error_pages;
mod grpc;
mod problem;

mod explain;

mod buffer;
mod clock;
mod memory;
mod scratch;

pub use explain::{Asking, BadQuestion, Explanation, explain};
pub use gateway::{
    Bound, EndpointStatus, Gateway, StartError, Status, UpstreamFailure, check_credentials,
    warn_of_credentials,
};
pub use metrics::{
    Cells, Counter, Histogram, JwtCells, Metrics, RateLimitCells, RouteCells, UpstreamCells,
};
pub use middleware::{KeySetStatus, Revocation, Revocations, Revoked};
pub use tls::{BadCredentials, Files};
