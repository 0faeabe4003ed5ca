//! The data plane: requests in, responses out.
//!
//! One request, top to bottom. Below, the modules are declared bottom-up: each knows only those before it (`cargo
//! xtask tidy`).
//!
//! | # | what happens | module | entry |
//! |---|---|---|---|
//! | 0 | bind, build the snapshot, start the workers, stop them | `gateway` | [`Gateway::start`] |
//! | - | another configuration while they serve | `gateway`, `serve` | [`Loader::load`], `Change` |
//! | 1 | one thread, one runtime, own sockets, buffers, pools and clock | `worker`, `serve` | `serve::run` |
//! | 2 | accept, connection limits, PROXY protocol | `listener`, `socket` | `Listener::serve` |
//! | 3 | TLS: certificates, the handshake, records | [`titan_io::tls`] | `accept` |
//! | - | connections that go to an upstream without HTTP | `tls_route`, `downstream::raw` | `TlsRoutes::find` |
//! | 4 | bytes to heads, heads to bytes | `downstream`: `h1`, `h2` | `serve` |
//! | 5 | **the spine** | `exchange` | `Exchange::run` |
//! | - | from the head to the route, for the exchange and for explain | `steps` | `Steps::route` |
//! | - | which fields of requests are accepted | `guard` | `Guard::strip_head` |
//! | 6 | one normal form of the path | [`titan_http::path`] | `normalise` |
//! | 7 | host, path, method and match rules | `route` | `Routes::find`, `LookAlikes::judge` |
//! | - | policies: the request half, the response half | [`titan_policies`] | `Chain::on_request`, `Chain::apply_to_response` |
//! | 8 | the client, and what the upstream gets of it | `origin`, `forwarding` | `Forwarding::add_upstream_fields` |
//! | - | another protocol in place of HTTP | `upgrade`, `exchange::tunnel` | `Upgrade`, `Exchange::tunnel` |
//! | 9 | choose an endpoint, get a connection, retry | [`titan_upstream`] | `Attempts::next`, `Pools::get` |
//! | 10 | the request out, the response in | `exchange::attempt`, `exchange::deliver` | `Exchange::start`, `Exchange::deliver` |
//! | 11 | both bodies, back-pressure, stalls | [`titan_io::relay`] | `Pump::poll` |
//! | 12 | one record, one set of counters | `exchange::telling`, `observed`, `metrics` | `Exchange::tell`, `RouteCells::count_response` |
//! | - | responses with files | `files`, `exchange::files` | `Site::find`, `Site::reply` |
//! | - | copies of requests for another upstream | `mirror`, `exchange::copy` | `Copy::send` |
//! | - | their responses, compared | `comparison`, `json`, `exchange::capture` | `Comparer::compare` |
//! | - | redirects and rewritten paths | `template` | `write_location`, `PathRewrite::apply` |
//! | - | sockets, messages on them, time, buffers | [`titan_io`] | `Transport`, `Io` |
//! | - | what a worker serves from | `snapshot` | `Snapshot::build` |
//! | - | which side failed, and the response | [`titan_io::error`], `problem`, `grpc` | `Error` |
//! | - | what a request would get, and why | `explain` | [`explain()`] |

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may stop at a surprise"))]

mod pressure;
mod process;

mod metrics;

mod grpc;
mod problem;

mod error_pages;
mod upgrade;

mod guard;

mod refused;

mod listener_id;

mod listener_policy;
mod origin;

mod forwarding;

mod route;
mod template;
mod tls_route;

mod fallback;

mod copied;

mod json;

mod comparison;

mod mirror;

mod files;

mod exemplar_notes;

mod tracing;

mod snapshot;

mod scratch;

mod observed;

mod steps;

mod worker;

mod exchange;

mod downstream;

mod proxy_protocol;

mod socket;

mod listener;

mod serve;

mod named_files;

mod gateway;

mod explain;

pub use comparison::{ComparisonStatus, ResponseDifference, Sample, ShownValue};
pub use explain::{Asking, BadQuestion, Explanation, Forwarded, Outcome, explain};
pub use forwarding::is_request_id;
pub use gateway::{
    Bound, CertificateStatus, Gateway, Held, InheritedListener, Lending, ListenerName, LoadError,
    Loader, PreparedGateway, SmallBuffers, Status, StoresInForce, UpstreamFailure,
    check_credentials, warn_of_credentials,
};
pub use metrics::{Cells, Metrics, RouteCells};
pub use mirror::MirrorStatus;
pub use pressure::{Pressure, PressureLevel};
pub use process::ProcessFigures;
pub use refused::RefusedHandshakes;
pub use snapshot::MemoryStatus;
pub use socket::{FileIdentity, SocketFile, remove_stale_socket};
pub use titan_io::counter::{
    BUCKETS, Counted, Counter, Durations, Histogram, HistogramSum, Native, PartSum, Scale, Sizes,
};
pub use titan_io::exemplar::{Exemplar, Exemplars};
pub use titan_io::tls::{BadCredentials, Files, TicketSecrets, sha256};
pub use titan_observe::destination::DestinationFigures;
pub use titan_observe::events::{Event, Field, Log};
pub use titan_otlp::figures::{ExporterFigures, Signal};
pub use titan_policies::jwt::{KeySetStatus, Revocation, Revocations, Revoked};
pub use titan_policies::list::{PolicyFigure, PolicyMetric};
pub use titan_store::store::{StoreCells, StoreStatus};
pub use titan_upstream::breaker::State as BreakerState;
pub use titan_upstream::breaking::BreakerNow;
pub use titan_upstream::cells::{RetryReason, UpstreamCells};
pub use titan_upstream::concurrency::ConcurrencyStatus;
pub use titan_upstream::endpoint::EndpointStatus;
pub use titan_upstream::feeds::{FedEndpoint, Feed, Feeds, MAX_FED};
pub use titan_upstream::groups::DrainedBy;
pub use titan_upstream::health::{Condition, Counts, Fact, Reason, Story};
pub use titan_upstream::monitor::{
    BreakerWish, Monitored, NotOrdered, Order as EndpointOrder, Wish,
};
pub use titan_upstream::status::{HedgingStatus, MemberStatus, UpstreamStatus};
pub use tls_route::{TlsFailure, TlsRouteCells, TlsRouteName, TlsRouteStatus};
