//! HTTP/1.1 (RFC 9112) without I/O: bytes to heads and bodies, heads and bodies to bytes.
//!
//! Both roles are here: a server reads requests and writes responses, a client the other way round.
//! Nothing in this crate reads a socket or a clock, spawns, or allocates once its buffers have grown.
//!
//! The reading is strict. Where RFC 9112 lets a recipient repair a message, this one refuses it:
//! every repair is a place where two implementations may see a message end at different bytes.
//! The verdict on a stream depends on its bytes alone, never on how they were split into reads.
//!
//! | in reading order | |
//! |---|---|
//! | [`Limits`] | the bounds of everything that a peer can make long |
//! | [`Error`] | what a peer did wrong, and the status to respond with |
//! | `scan` | fast searches for the first byte that does not belong |
//! | `lines` | field lines, of heads and of trailers |
//! | `target` | the four forms of a request target |
//! | `facts` | what the fields of a head say about the message, gathered while they are read |
//! | [`Framing`] | how long is this message? One function per role decides |
//! | [`RequestReader`] | server role: the head of a request |
//! | [`ResponseReader`] | client role: the head of a response |
//! | `extension` | what may follow a chunk's size |
//! | `chunked` | the chunked coding |
//! | [`BodyReader`] | both roles: the body of a message |
//! | [`write_request`], [`write_response`] | heads and chunks to bytes |

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may stop at a surprise"))]

mod limits;

mod error;

mod scan;

mod lines;

mod target;

mod facts;

mod framing;

mod request;

mod response;

mod extension;

mod chunked;

mod body;

mod encode;

pub use body::{BodyReader, Piece};
pub use encode::{
    Body, CHUNK_END, Connection, write_chunk_head, write_last_chunk, write_request, write_response,
};
pub use error::Error;
pub use framing::Framing;
pub use limits::Limits;
pub use request::{RequestReader, RequestStart};
pub use response::{ResponseReader, ResponseStart};
