//! HTTP/3 (RFC 9114) and QPACK (RFC 9204) without I/O: bytes of streams to heads and bodies, heads and bodies to bytes.
//!
//! Nothing in this crate reads a socket or a clock, knows a library of QUIC, spawns, or allocates once its buffers have grown.
//!
//! | in reading order | |
//! |---|---|
//! | [`qpack`] | lists of fields to bytes and back |

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may stop at a surprise"))]

pub mod qpack;
