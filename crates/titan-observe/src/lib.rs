//! What is told of exchanges and of the gateway itself: records of exchanges, and events.
//!
//! Nothing here runs on the path of a request but the copy of a finished record into memory of its worker.
//!
//! | what | module |
//! |---|---|
//! | names that tell that a value is secret | [`secret`] |
//! | the trace that a request belongs to | [`trace`] |
//! | one record for each exchange | [`record`] |
//! | what else of messages and tokens a record has | [`captures`] |
//! | what was decided about a request, from its record | [`decisions`] |
//! | records as lines of text | [`format`] |
//! | records on their way from a worker to the thread that reads them | [`ring`] |
//! | that thread, and whom it tells | [`observer`] |
//! | where lines are written to | [`destination`] |
//! | the access log | [`access`] |
//! | the last exchanges in memory, and exchanges live | [`recorder`] |

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may stop at a surprise"))]

pub mod secret;

pub mod trace;

pub mod record;

pub mod captures;

pub mod decisions;

pub mod format;

pub mod ring;

pub mod observer;

pub mod destination;

pub mod access;

pub mod recorder;

pub mod events;
