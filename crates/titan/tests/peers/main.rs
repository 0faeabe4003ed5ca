//! The gateway between programs that others wrote: nginx, HAProxy, lighttpd, curl, Go's net/http, gRPC's own tests,
//! Python's WebSockets, PyJWT and aioquic, Chromium, Prometheus, etcd, Docker, the OpenTelemetry Collector, wrk, h2load,
//! slowhttptest, testssl.sh.
//!
//! Each peer runs in the foreground on a loopback address of its own, with its files in a temporary
//! folder, and ends with its test. One that is not installed fails the test.

#![allow(
    clippy::tests_outside_test_module,
    clippy::unwrap_used,
    reason = "a test may stop at a surprise"
)]
#![allow(clippy::print_stderr, clippy::print_stdout, reason = "a test may tell what it met")]

mod client;
mod gateway;
mod place;
mod process;
mod program;
mod upstream;
mod wait;

mod attacks;
mod auth;
mod chaos;
mod compression;
mod consul;
mod curl;
mod dns;
mod docker;
mod etcd;
mod files;
mod fleet;
mod go;
mod grpc;
mod h2;
mod haproxy;
mod http3;
mod jwt;
mod lighttpd;
mod load;
mod nginx;
mod otlp;
mod overload;
mod prometheus;
mod shockwave;
mod soak;
mod stop;
mod streaming;
mod testssl;
mod tls;
mod tls_routes;
mod traces;
mod websocket;
