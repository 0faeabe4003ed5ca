//! Where configurations come from that are in no file of this machine.
//!
//! | what | module |
//! |---|---|
//! | all that a source has at one moment | [`delivery`] |
//! | how it gets to the program, and what became of it back | [`outlet`] |

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may stop at a surprise"))]

pub mod delivery;

pub mod outlet;
