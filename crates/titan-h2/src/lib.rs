//! HTTP/2 (RFC 9113) and HPACK (RFC 7541) without I/O: bytes to heads and bodies, heads and bodies to
//! bytes, for many streams over one connection.
//!
//! Both roles are here. Nothing in this crate reads a socket or a clock, spawns, or allocates once its
//! buffers have grown. The verdict on a stream of bytes depends on the bytes, never on how they were split
//! into reads.
//!
//! | in reading order | |
//! |---|---|
//! | [`Limits`] | the bounds of everything that a peer can make long, or many |
//! | [`Fault`] | what is wrong with one message, and the status to respond with |
//! | `hpack` | lists of fields to bytes and back |
//! | [`Code`], [`Violation`], [`Fatal`] | what ends a stream or the connection |
//! | `frame` | the nine bytes before a payload |
//! | `flow` | what may still be received and sent |
//! | `stream` | the open streams, and how the last ones ended |
//! | `settings` | what each side announces |
//! | `output` | what waits to be written |
//! | [`Event`] | what a connection tells its driver |
//! | `head` | heads and trailers: from field blocks to fields and facts |
//! | [`Connection`] | all of it together |

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may stop at a surprise"))]

mod limits;

mod hpack;

mod code;

mod frame;

mod flow;

mod stream;

mod settings;

mod output;

mod event;

mod head;

mod connection;

pub use code::{Code, Fatal, Violation};
pub use connection::Connection;
pub use event::Event;
pub use limits::Limits;
pub use titan_http::section::{Destination, Fault};
pub use titan_http::stream::{RequestStart, ResponseStart, StreamId};
