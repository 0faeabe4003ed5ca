//! The loads that every engine is put under.

use std::net::SocketAddr;

use titan_bench::coding::Coding;
use titan_bench::payload::Target;
use titan_bench::report::{Job, Manner, Stop, Tls};

use crate::keys::Key;
use crate::setup::Setup;
use crate::tokens;

/// Idle connections stay silent this long before memory is read.
const IDLE_SECONDS: f64 = 5.0;

/// One load.
#[derive(Debug)]
pub struct Scenario {
    pub name: &'static str,
    /// What it is, for the table and the chart.
    pub title: &'static str,
    target: Target,
    pub connections: usize,
    manner: Manner,
    pub setup: Setup,
    /// TLS sessions are resumed wherever the proxy encrypts.
    resume: bool,
    /// The field lines that requests carry in turn, by the name of their file.
    fields: Option<&'static str>,
}

const ECDSA: Setup = Setup::Tls(Key::EcdsaP256);
const RSA: Setup = Setup::Tls(Key::Rsa2048);

/// All of them, in the order they run.
pub const SCENARIOS: [Scenario; 44] = [
    steady("small-64", "GET 128 bytes, 64 connections", Target::Small, 64),
    steady("small-256", "GET 128 bytes, 256 connections", Target::Small, 256),
    steady("body-30k", "GET 30 KiB, 64 connections", Target::Body30k, 64),
    steady("body-1m", "GET 1 MiB, 16 connections", Target::Body1m, 16),
    Scenario {
        manner: Manner::Fresh,
        ..steady("connection-per-request", "a connection for each request", Target::Small, 64)
    },
    Scenario {
        manner: Manner::Pipelined(16),
        ..steady("pipelined-16", "GET 128 bytes, pipelined by 16", Target::Small, 64)
    },
    Scenario {
        manner: Manner::Idle,
        ..steady("idle-10000", "memory of an idle connection", Target::Small, 10_000)
    },
    steady("post-16k", "POST 16 KiB, 64 connections", Target::Post(16 * 1024), 64),
    Scenario {
        setup: ECDSA,
        ..steady("https-keepalive", "GET 128 bytes over TLS, 64 connections", Target::Small, 64)
    },
    fresh("https-new-full", "a TLS connection for each request, ECDSA P-256", ECDSA),
    fresh("https-new-full-rsa", "a TLS connection for each request, RSA 2048", RSA),
    Scenario {
        resume: true,
        ..fresh("https-new-resumed", "a TLS connection for each request, resumed", ECDSA)
    },
    streams("h2-tls-10x100", "HTTP/2 over TLS, 10 connections x 100 streams", ECDSA, 10, 100),
    streams("h2-tls-100x10", "HTTP/2 over TLS, 100 connections x 10 streams", ECDSA, 100, 10),
    streams("h2c-10x100", "cleartext HTTP/2, 10 connections x 100 streams", Setup::H2c, 10, 100),
    streams("h2-to-h2", "HTTP/2 over TLS to HTTP/2, 10 x 100 streams", Setup::H2ToH2, 10, 100),
    Scenario {
        target: Target::Call,
        ..streams("grpc-unary", "gRPC calls of 64 bytes, 10 x 100 streams", Setup::Grpc, 10, 100)
    },
    streams("h3-small-10x100", "HTTP/3, 10 connections x 100 streams", Setup::Http3, 10, 100),
    streams("h3-small-100x10", "HTTP/3, 100 connections x 10 streams", Setup::Http3, 100, 10),
    Scenario {
        target: Target::Body30k,
        ..streams("h3-30k", "HTTP/3, GET 30 KiB, 16 connections x 4 streams", Setup::Http3, 16, 4)
    },
    Scenario {
        target: Target::Body1m,
        ..streams("h3-1m", "HTTP/3, GET 1 MiB, 16 connections", Setup::Http3, 16, 1)
    },
    fresh("h3-handshake", "HTTP/3, a connection for each request", Setup::Http3),
    Scenario {
        manner: Manner::Idle,
        setup: Setup::Http3,
        ..steady("h3-idle", "memory of an idle connection of HTTP/3", Target::Small, 1000)
    },
    Scenario {
        manner: Manner::Messages,
        setup: Setup::WebSocket,
        ..steady("ws-echo", "WebSocket echo of 64 bytes, 64 tunnels", Target::Message, 64)
    },
    policy("jwt-hs256-1", "JWT, HS256, one token", "-jwt-hs256", Some("hs256-1")),
    policy("jwt-hs256-10000", "JWT, HS256, 10,000 tokens", "-jwt-hs256", Some("hs256-10000")),
    policy("jwt-es256-1", "JWT, ES256, one token", "-jwt-es256", Some("es256-1")),
    policy("jwt-es256-10000", "JWT, ES256, 10,000 tokens", "-jwt-es256", Some("es256-10000")),
    policy("rate-limit", "a rate limit by client address", "-rate-limit", None),
    policy("shared-exact", "a rate limit counted in Redis", "-shared-exact", None),
    policy("shared-lease", "a rate limit in Redis, by leases", "-shared-lease", None),
    policy("cors-headers", "CORS, and headers added and removed", "-cors-headers", Some("origin")),
    policy("hedge", "hedging, which nothing is slow enough for", "-hedge", None),
    policy("regex", "a path rewritten by a regular expression", "-regex", None),
    policy("all-policies", "every policy but compression", "-all-policies", Some("all")),
    compressed("gzip-30k", "30 KiB of JSON in gzip, 64 connections", Coding::Gzip),
    compressed("brotli-30k", "30 KiB of JSON in brotli, 64 connections", Coding::Brotli),
    compressed("zstd-30k", "30 KiB of JSON in zstd, 64 connections", Coding::Zstd),
    Scenario {
        setup: Setup::Compared("-watched", "-unwatched"),
        ..steady("watched", "probes, ejection, a breaker and a retry budget", Target::Small, 64)
    },
    Scenario {
        setup: Setup::Compared("", "-unrecorded"),
        ..steady("recorder", "the last exchanges in memory, as by default", Target::Small, 64)
    },
    Scenario {
        setup: Setup::Compared("-untraced", ""),
        ..steady("traces-off", "tracing that no request is chosen for", Target::Small, 64)
    },
    Scenario {
        setup: Setup::Compared("-traced", ""),
        ..steady("traces-1", "tracing of one request in a hundred", Target::Small, 64)
    },
    Scenario {
        setup: Setup::Logged,
        ..steady("access-log", "a JSON access log in a file", Target::Small, 64)
    },
    Scenario {
        setup: Setup::Reloads,
        ..steady("reloads", "10,000 routes, reloaded ten times a second", Target::Small, 64)
    },
];

const fn steady(
    name: &'static str,
    title: &'static str,
    target: Target,
    connections: usize,
) -> Scenario {
    let manner = Manner::Pipelined(1);
    let (setup, resume, fields) = (Setup::Plain, false, None);
    Scenario { name, title, target, connections, manner, setup, resume, fields }
}

/// As small-64, through policies.
const fn policy(
    name: &'static str,
    title: &'static str,
    suffix: &'static str,
    fields: Option<&'static str>,
) -> Scenario {
    let setup = Setup::Policy(suffix);
    Scenario { setup, fields, ..steady(name, title, Target::Small, 64) }
}

const fn compressed(name: &'static str, title: &'static str, coding: Coding) -> Scenario {
    Scenario { setup: Setup::Compress(coding), ..steady(name, title, Target::Json, 64) }
}

const fn fresh(name: &'static str, title: &'static str, setup: Setup) -> Scenario {
    Scenario { manner: Manner::Fresh, setup, ..steady(name, title, Target::Small, 64) }
}

const fn streams(
    name: &'static str,
    title: &'static str,
    setup: Setup,
    connections: usize,
    streams: usize,
) -> Scenario {
    let manner = Manner::Streams(streams);
    Scenario { manner, setup, ..steady(name, title, Target::Small, connections) }
}

impl Scenario {
    /// Whether memory is measured rather than processor time.
    pub fn idle(&self) -> bool {
        self.manner == Manner::Idle
    }

    /// Whether other configurations come into force meanwhile.
    pub fn reloads(&self) -> bool {
        self.setup == Setup::Reloads
    }

    /// Whether each request comes with a TLS handshake.
    pub fn shakes_hands(&self) -> bool {
        self.manner == Manner::Fresh && self.setup.key().is_some()
    }

    /// How many bytes the body of a response has before it is compressed.
    pub fn plain_bytes(&self) -> usize {
        self.target.answer(0).len()
    }

    /// The load as a timed job for an engine.
    pub fn timed(&self, to: SocketAddr, seconds: f64, watch: &[u32]) -> Job {
        let seconds = if self.idle() { IDLE_SECONDS } else { seconds };
        self.job(to, Stop::Seconds(seconds), watch)
    }

    /// The load as a job of so many requests, without warm-up.
    pub fn counted(&self, to: SocketAddr, requests: u64) -> Job {
        Job { warm_up: 0.0, ..self.job(to, Stop::Requests(requests), &[]) }
    }

    fn job(&self, to: SocketAddr, stop: Stop, watch: &[u32]) -> Job {
        let &Self { target, connections, manner, setup, resume, fields, .. } = self;
        let tls = setup.key().map(|key| Tls { certificate: key.files().certificate, resume });
        Job {
            to,
            target,
            connections,
            manner,
            fields: fields.map(tokens::field_file),
            coding: setup.coding(),
            tls,
            http3: setup == Setup::Http3,
            // What is learnt of each token is learnt before the measurement.
            warm_up: if fields.is_some() { 2.0 } else { 0.5 },
            stop,
            watch: watch.to_vec(),
        }
    }
}
