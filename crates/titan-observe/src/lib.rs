//! What is told of exchanges and of the gateway itself: records of exchanges, and events.
//!
//! Nothing here runs on the path of a request but the copy of a finished record into memory of its worker.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may stop at a surprise"))]
