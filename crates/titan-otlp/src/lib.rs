//! What collectors of OpenTelemetry are told of exchanges (OTLP), from a thread that carries no traffic.
//!
//! | what | module |
//! |---|---|
//! | the value of an attribute | `value` |
//! | what is counted | [`figures`] |
//! | the paths of routes | [`routes`] |
//! | what an exchange was, as attributes | `attributes` |
//! | a record as a log record | [`logs`] |
//! | a record as spans | `spans` |
//! | which records become spans | [`traces`] |
//! | many of them in one message, compressed | `message` |
//! | what a collector has made of a message | `verdict` |
//! | a collector, and the way to it | [`collector`] |
//! | what gathers records and sends them, again where that may help | [`exporter`] |

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may stop at a surprise"))]

mod value;

pub mod figures;

pub mod routes;

mod attributes;

pub mod logs;

mod spans;

pub mod traces;

mod message;

mod verdict;

pub mod collector;

pub mod exporter;
