//! Streams of HTTP/2 and HTTP/3 apart from their frames: what they are called, how a message on one begins and goes on, and what a peer
//! costs without getting anything done.

mod floods;

mod id;

mod incoming;

pub use floods::{Flood, Floods};
pub use id::{ByNumber, StreamId, StreamMap};
pub use incoming::{FREE_INTERIM, Half, Incoming, RequestKind, RequestStart, ResponseStart};
