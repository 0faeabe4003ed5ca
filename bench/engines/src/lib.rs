//! What the benchmark's programs share: the floor, the origin, the load generator and the drivers.

pub mod chart;

pub mod coding;

pub mod histogram;

pub mod machine;

pub mod net;

pub mod poll;

pub mod process;

pub mod programs;

pub mod launch;

pub mod tickets;

pub mod tls;

pub mod quic;

pub mod websocket;

pub mod payload;

pub mod report;

pub mod results;

pub mod verdict;
