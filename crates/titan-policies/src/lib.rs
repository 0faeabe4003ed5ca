//! The policies of routes: a module for each, and what they have in common. They know facts about a request, but
//! nothing of connections that carry traffic, upstreams or the snapshot.
//!
//! | what | module |
//! |---|---|
//! | the matched route, a response in memory, conditions on values | [`matched`], [`buffered_response`], [`values`] |
//! | what a policy sees of a request, what it finds out, and the subrequests it may send | [`context`], [`findings`] |
//! | what a policy tells `titan explain` | [`story`] |
//! | what a policy is | `policy` |
//! | the policies themselves | a module for each, with the names of [`titan_config::policies`] |
//! | what follows from the list of them: the order, states, credentials, metrics | [`list`] |
//! | all of a configuration, and those of each route | [`credentials`], [`state`], [`chain`] |

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may stop at a surprise"))]

pub mod matched;

pub mod buffered_response;

pub mod values;

pub mod findings;

pub mod context;

pub mod story;

pub mod policy;

pub mod cors;

pub mod jwt;

mod authorise;

mod rate_limit;

mod maintenance;

mod early_limit;

mod failure_limit;

pub mod fault;

pub mod transform;

pub mod compress;

pub mod list;

pub mod credentials;

pub mod state;

pub mod chain;

#[cfg(test)]
mod trial;
