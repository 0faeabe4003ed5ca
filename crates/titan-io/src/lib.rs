//! Input and output: sockets, TLS, time, buffers, and messages on a connection. It knows nothing of routes and policies.
//!
//! | what | module |
//! |---|---|
//! | state that outlives a configuration | [`registry`] |
//! | counters that one thread writes, and histograms with two kinds of buckets | [`counter`], [`division`] |
//! | messages of Protocol Buffers | [`protobuf`] |
//! | exchanges to show beside them | [`exemplar`] |
//! | errors: which side caused them, and their status | [`error`] |
//! | what a limit counts as one client, and how much each client uses of shared resources | [`network`], [`shares`], [`memory`] |
//! | time, chance, receive buffers | [`clock`], [`random`], [`buffer`] |
//! | a socket of any kind, its halves, the TLS session over it | [`stream`] |
//! | bytes that go from socket to socket | [`splice`] |
//! | what a worker provides to its connections; a connection that is being served | [`io`], [`transport`] |
//! | TLS handshakes, certificates, the identity in a client's certificate | [`tls`] |
//! | where a body comes from, where one goes to | [`body`] |
//! | moving a body from one side to the other | [`relay`] |
//! | transforming a body while it passes | [`transform`] |
//! | holding a request body in memory, to send it again | [`held_body`] |
//! | an HTTP/1.1 message on a socket | [`message`] |
//! | a connection of HTTP/2 or HTTP/3 and its streams | [`mux`] |
//! | QUIC: sockets, connections, HTTP/3 over them | [`quic`] |

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may stop at a surprise"))]

pub mod registry;

pub mod division;

pub mod counter;

pub mod exemplar;

pub mod protobuf;

pub mod error;

pub mod network;

pub mod shares;

pub mod memory;

pub mod clock;

pub mod random;

pub mod buffer;

pub mod stream;

pub mod splice;

pub mod io;

pub mod transport;

pub mod tls;

pub mod body;

pub mod relay;

pub mod transform;

pub mod held_body;

pub mod message;

pub mod mux;

pub mod quic;
