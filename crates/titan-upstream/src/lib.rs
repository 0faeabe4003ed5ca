//! Upstreams: which endpoint takes a request, and over which connection. It knows nothing of the
//! connections of clients, of policies and routes.
//!
//! | what | module | entry |
//! |---|---|---|
//! | what is counted for an upstream | [`cells`] | `UpstreamCells` |
//! | failures of an upstream, to be reported | [`failure_log`] | `FailureLog::note` |
//! | waiting requests, and whose turn it is | `queue` | `Queue::next` |
//! | how many connections an endpoint may have, and which requests wait for one | [`slots`] | `Slots::try_take` |
//! | which endpoint a request goes to | [`balance`] | `Balancer::choose` |
//! | one address, and what is known of it | [`endpoint`] | `Endpoint` |
//! | a named group of them | [`members`] | `Upstream::set_places` |
//! | names to addresses, again when they expire | [`resolve`] | `NameResolver::keep_fresh` |
//! | the endpoints that an exchange goes through | [`attempts`] | `Attempts::next` |
//! | a connection | [`connection`] | `Connection` |
//! | the request out while the response comes in | [`call`] | `Call::poll_head` |
//! | the same over HTTP/1.1, over HTTP/2 | [`h1`], [`h2`] | `H1Channel`, `H2Channel` |
//! | idle connections, and which are closed | [`pool`], [`reclaim`] | `Pools::get` |

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may stop at a surprise"))]

pub mod cells;

pub mod failure_log;

mod queue;

pub mod slots;

pub mod balance;

pub mod endpoint;

pub mod members;

pub mod resolve;

pub mod attempts;

pub mod connection;

pub mod call;

pub mod h1;

pub mod h2;

pub mod reclaim;

pub mod pool;
