//! HTTP/3 (RFC 9114) and QPACK (RFC 9204) without I/O: bytes of streams to heads and bodies, heads and bodies to bytes.
//!
//! Nothing in this crate reads a socket or a clock, knows a library of QUIC, spawns, or allocates once its buffers have grown.
//!
//! | in reading order | |
//! |---|---|
//! | [`Code`] | what a connection or a stream is ended with |
//! | [`varint`], [`FrameHeader`], [`Settings`] | what is in front of payloads, and what each side announces |
//! | [`qpack`] | lists of fields to bytes and back |

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may stop at a surprise"))]

mod code;

pub mod varint;

mod frame;

mod settings;

pub mod qpack;

pub use code::Code;
pub use frame::{FrameHeader, Kind, StreamKind};
pub use settings::{MAX_PAYLOAD, Settings};
