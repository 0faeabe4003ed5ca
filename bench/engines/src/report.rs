//! What the driver asks of the load generator and what that reports: one JSON line each way.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::coding::Coding;
use crate::payload::Target;

/// One measurement.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// The proxy.
    pub to: SocketAddr,
    /// What to ask for.
    pub target: Target,
    /// How many connections are open at a time.
    pub connections: usize,
    /// How requests follow each other.
    #[serde(default = "one_by_one")]
    pub manner: Manner,
    /// A file with a JSON list of texts, of which requests of HTTP/1.1 carry one each, in turn: field lines with their
    /// line ends.
    #[serde(default)]
    pub fields: Option<PathBuf>,
    /// The coding that responses are asked for in, and have to come in.
    #[serde(default)]
    pub coding: Option<Coding>,
    /// Connections are encrypted.
    #[serde(default)]
    pub tls: Option<Tls>,
    /// Connections are of QUIC, and speak HTTP/3; it needs `tls`, and resumes nothing.
    #[serde(default)]
    pub http3: bool,
    /// Seconds of load before the measurement.
    #[serde(default)]
    pub warm_up: f64,
    /// When the measurement ends.
    pub stop: Stop,
    /// Processes whose processor time and memory are read where the measurement begins and ends.
    #[serde(default)]
    pub watch: Vec<u32>,
}

fn one_by_one() -> Manner {
    Manner::Pipelined(1)
}

/// How a connection is encrypted. It is always TLS 1.3 with X25519 and AES-128-GCM.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// A PEM file with the only certificate that is trusted.
    pub certificate: PathBuf,
    /// Whether tickets are used. The connections opened first have none; all others have to be resumed.
    pub resume: bool,
}

/// How requests follow each other on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Manner {
    /// Batches of so many requests; 1 is plain keep-alive.
    Pipelined(usize),
    /// A connection for each request.
    Fresh,
    /// One request, then silence, then one more.
    Idle,
    /// HTTP/2 and HTTP/3: so many requests under way at once, each followed by the next one as soon as it is answered.
    Streams(usize),
    /// WebSocket: one message at a time through a tunnel that stays open.
    Messages,
}

/// When a measurement ends.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stop {
    /// After so many seconds.
    Seconds(f64),
    /// After so many requests.
    Requests(u64),
}

/// What came of a [`Job`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// Verified answers within the measurement.
    pub requests: u64,
    /// Bytes of their bodies as they came.
    pub body_bytes: u64,
    /// Seconds it took.
    pub seconds: f64,
    /// Wrong, missing or cut answers and failed connections, over the whole run.
    pub errors: u64,
    /// What was wrong with the first one.
    pub first_error: Option<String>,
    /// Connections whose TLS handshake was a full one, over the whole run.
    pub full_handshakes: u64,
    /// Handshakes of QUIC before the load that the peer said to have no transport parameters; they were tried again.
    pub unread_handshakes: u64,
    /// Connections opened because the peer closed one after a response that said so.
    pub reconnects: u64,
    /// Microseconds from sending to the last byte of the response.
    pub p50_us: f64,
    /// The same for the slowest of a hundred.
    pub p99_us: f64,
    /// Nanoseconds of processor time that the watched processes took meanwhile, without threads that have ended.
    pub cpu_ns: u64,
    /// The same with those threads, and cut to 10 ms.
    pub whole_cpu_ns: u64,
    /// The same of the threads called `worker-*` alone: of Titan those that serve requests.
    pub worker_cpu_ns: u64,
    /// Bytes of memory of the watched processes before the measurement.
    pub resident_before: u64,
    /// And at its end, connections still open.
    pub resident: u64,
}
