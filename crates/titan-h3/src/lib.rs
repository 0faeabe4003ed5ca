//! HTTP/3 (RFC 9114) and QPACK (RFC 9204) without I/O: bytes of streams to heads and bodies, heads and bodies to bytes.
//!
//! Nothing in this crate reads a socket or a clock, knows a library of QUIC, or spawns. What is read is read in buffers that are used
//! again. What is written is allocated for each flush: the transport keeps it until the peer has acknowledged it.
//!
//! | in reading order | |
//! |---|---|
//! | [`Code`] | what a connection or a stream is ended with |
//! | [`varint`], [`FrameHeader`], [`Settings`] | what is in front of payloads, and what each side announces |
//! | [`Priority`] | how urgent a response is |
//! | [`ControlStream`] | the control stream of the peer |
//! | [`MessageStream`] | the stream of a request, in one direction |
//! | [`qpack`] | lists of fields to bytes and back |
//! | [`Limits`], [`Fatal`] | the bounds of everything that a peer can make long, or many, and what ends a connection |
//! | `sections` | heads and trailers: from field sections to fields and facts |
//! | [`Event`], [`Transport`] | what a connection tells its driver, and what it needs to write |
//! | `stream` | one request and its response |
//! | [`Connection`] | all of it together |

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may stop at a surprise"))]

mod code;

pub mod varint;

mod frame;

mod settings;

mod priority;

mod control;

mod message;

pub mod qpack;

mod limits;

mod fatal;

mod sections;

mod event;

mod transport;

mod stream;

mod connection;

pub use code::Code;
pub use connection::{Connection, Kept};
pub use control::{ControlStream, Peer, Told};
pub use event::Event;
pub use fatal::Fatal;
pub use frame::{FrameHeader, Kind, StreamKind};
pub use limits::Limits;
pub use message::{Ending, MessageStream, Part};
pub use priority::{MAX_PRIORITY, Priority};
pub use settings::{MAX_PAYLOAD, Settings};
pub use titan_http::section::{Destination, Fault};
pub use titan_http::stream::{RequestStart, ResponseStart, StreamId};
pub use transport::Transport;
