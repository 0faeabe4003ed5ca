//! The policies of routes: a module for each, and what they have in common. They know facts about a request, and nothing
//! of connections that carry traffic, upstreams and the snapshot.
//!
//! | what | module |
//! |---|---|
//! | the route's verdict, a response in memory, conditions on values | [`matched`], [`buffered_response`], [`values`] |
//! | what a policy sees of a request, what it finds out, and whom it may ask | [`context`], [`findings`] |
//! | what one says of a request that nobody has made | [`explained`] |
//! | what all of them leave for the response, keep for a worker, count there | [`state`], [`worker`], [`cells`] |
//! | the policies themselves | [`cors`], [`rate_limit`], [`jwt`], [`authorise`], [`transform`], [`compress`] |
//! | keys, users and passwords from files | [`credentials`] |
//! | which of them a request meets, in what order | [`chain`] |

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may stop at a surprise"))]

pub mod matched;

pub mod buffered_response;

pub mod values;

pub mod findings;

pub mod explained;

pub mod context;

pub mod cors;

pub mod jwt;

pub mod authorise;

pub mod rate_limit;

pub mod transform;

pub mod compress;

pub mod credentials;

pub mod state;

pub mod worker;

pub mod cells;

pub mod chain;
