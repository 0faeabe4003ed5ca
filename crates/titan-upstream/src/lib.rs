//! Upstreams: which endpoint takes a request, and over which connection. It knows nothing of the
//! connections of clients, of policies and routes.
//!
//! | what | module | entry |
//! |---|---|---|
//! | what is counted for an upstream | [`cells`] | `UpstreamCells` |
//! | failures of an upstream, to be reported | [`failure_log`] | `FailureLog::note` |
//! | whether an upstream that fails is asked at all | [`breaker`] | `Breaker::try_pass` |
//! | waiting requests, and whose turn it is | `queue` | `Queue::next` |
//! | how many requests run at an upstream, and which wait | [`concurrency`] | `Concurrency::try_enter` |
//! | how many connections an endpoint may have, and which requests wait for one | [`slots`] | `Slots::try_take` |
//! | which endpoint a request goes to | [`balance`] | `Balancer::choose` |
//! | groups of endpoints, of which the first takes what it can | [`groups`] | `Groups::choose` |
//! | how many retries an upstream may get | [`budget`] | `RetryBudget::withdraw` |
//! | how long responses take | `latency` | `LatencyPercentile::get` |
//! | where something has happened that has to be judged | [`signals`] | `Signals::stir` |
//! | whether an endpoint can take requests, and how those that it gets fare | [`health`] | `Health::standing` |
//! | when a request is sent to a second endpoint as well | [`hedging`] | `Hedging::delay` |
//! | one address, and what is known of it | [`endpoint`] | `Endpoint` |
//! | the breakers of an upstream and its endpoints | [`breaking`] | `Breaking::enter` |
//! | a named group of them | [`members`] | `Upstream::set_places` |
//! | how an upstream and its members are doing | [`status`] | `UpstreamStatus::of` |
//! | endpoints that something in this process tells of | [`feeds`], [`fed`] | `Feed::publish` |
//! | names to addresses, again when they expire | [`resolve`] | `NameResolver::keep_fresh` |
//! | the endpoints that an exchange goes through | [`attempts`] | `Attempts::next` |
//! | a connection | [`connection`] | `Connection` |
//! | the request out while the response comes in | [`call`] | `Call::poll_head` |
//! | the same over HTTP/1.1, over HTTP/2 and HTTP/3 | [`h1`], [`shared`] | `H1Channel`, `StreamChannel` |
//! | idle connections, and which are closed | [`pool`], [`reclaim`] | `Pools::get` |
//! | a request of the gateway's own | [`client`] | `Client::ask` |
//! | a server that such requests go to | [`server`] | `Server::ask` |
//! | which endpoints are ejected because requests fare badly | [`ejection`] | `judge` |
//! | what is asked of an endpoint to see whether it is healthy | [`probe`] | `Prober::probe` |
//! | who decides about the health of all endpoints | [`monitor`] | `HealthMonitor::run` |

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may stop at a surprise"))]

pub mod cells;

pub mod failure_log;

pub mod breaker;

mod queue;

pub mod slots;

pub mod balance;

pub mod groups;

pub mod budget;

mod latency;

pub mod signals;

pub mod health;

pub mod hedging;

pub mod concurrency;

pub mod endpoint;

pub mod breaking;

pub mod feeds;

pub mod members;

pub mod status;

mod places;

pub mod fed;

pub mod resolve;

pub mod attempts;

pub mod connection;

pub mod call;

pub mod h1;

pub mod shared;

pub mod reclaim;

pub mod pool;

pub mod client;

pub mod server;

pub mod ejection;

pub mod probe;

pub mod monitor;
