//! Where configurations come from that are in no file of this machine.
//!
//! | what | module |
//! |---|---|
//! | all that a source has at one moment | [`delivery`] |
//! | how it gets to the program, and what became of it back | [`outlet`] |
//! | documents of values that somebody else has chosen | [`literal`] |
//! | what servers say, as far as it is shown | `message` |
//! | values in the query of a URL | `percent` |
//! | endpoints that upstreams follow | [`endpoints`] |
//! | when a source is asked again | `pace` |
//! | who has signed a document, and when | `signature` |
//! | lines of a response that does not end | `lines` |
//! | a document that is fetched over HTTP | `http` |
//! | keys of etcd below a prefix | [`etcd`] |
//! | keys of Consul below a prefix, and services of its catalogue | `consul` |
//! | labels of Docker's containers, and these as endpoints | `docker` |
//! | a source of a configuration, on a thread of its own | [`source`] |

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may stop at a surprise"))]

pub mod delivery;

pub mod outlet;

pub mod literal;

mod message;

mod percent;

pub mod endpoints;

mod pace;

mod signature;

mod lines;

mod http;

pub mod etcd;

mod consul;

mod docker;

pub mod source;
