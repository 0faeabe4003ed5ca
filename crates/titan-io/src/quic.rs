//! QUIC (RFC 9000) with HTTP/3 on it.
//!
//! ```text
//! UDP socket --> Endpoint --> connections, each with its task
//!    ^                           |  quinn-proto: packets, loss, keys
//!    |                           |  titan-h3: frames, heads
//!    +---------------------------+  Mux: streams, each with its task
//! ```
//!
//! | in reading order | |
//! |---|---|
//! | `ids` | connection ids that name an endpoint |
//! | [`Datagrams`], `socket` | what comes and goes on a UDP socket |
//! | [`Handover`] | from one endpoint to another |
//! | [`Predecessors`] | from one process to the one before it |
//! | `token` | what clients show that have validated their address |
//! | [`QuicServer`] | how handshakes are held, and what a client may use |
//! | `returning` | which tokens of clients that come back were used |
//! | [`Link`] | HTTP/3 on a connection of QUIC |
//! | [`Endpoint`] | the connections of one socket |
//! | `audit` | what a peer costs below HTTP/3 |
//! | [`Line`] | one of them, in the hands of its driver |
//! | [`Dialed`] | one that this side has opened, with its socket |

mod audit;
mod dialed;
mod endpoint;
mod forward;
mod handover;
mod ids;
mod line;
mod link;
mod refused;
mod returning;
mod server;
mod socket;
#[cfg(test)]
mod testing;
mod token;
mod unread;

pub use audit::LineFigures;
pub use dialed::{DialError, Dialed, Dialing};
pub use endpoint::{Accepted, Arrival, Endpoint, EndpointFigures};
pub use forward::{Predecessors, take_forwarded};
pub use handover::Handover;
pub use line::{Line, LineEnd};
pub use link::Link;
pub use server::{ClientTransport, QuicLimits, QuicServer};
pub use socket::Datagrams;
