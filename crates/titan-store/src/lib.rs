//! Stores of Redis or Valkey that the gateways of a fleet have in common: how they are connected to, asked, and done without.
//!
//! Nothing here knows what is stored. A store may be down, slow, or something else altogether: whoever asks gets a reply or
//! [`Unavailable`] within the time that the configuration gives it.
//!
//! | what | module |
//! |---|---|
//! | scripts, and what they reply | [`script`] |
//! | what a connection may receive at most | `bounded` |
//! | which node of a cluster has a key | `slots` |
//! | where a store is: names, sentinels, clusters | `place` |
//! | a connection, from the socket to the first reply | `connect` |
//! | the connection of one worker: when it is used, given up, and tried again | `link` |
//! | a server, and the connections of all workers to it | `shard` |
//! | what is given back before the gateway ends | `leaving` |
//! | a store | [`store`] |
//! | what gateways tell each other through it | [`stream`] |
//! | the thread that finds it, and announces the gateway there | `keeper` |
//! | the stores of a configuration | [`stores`] |

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may stop at a surprise"))]

pub mod script;

mod bounded;

mod connect;

mod slots;

mod place;

mod link;

mod shard;

mod leaving;

pub mod store;

pub mod stream;

mod keeper;

pub mod stores;

pub use script::Unavailable;
