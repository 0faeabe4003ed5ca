//! A collector, and the way to it: a connection that is opened as those to upstreams are, and used again.

use crate::figures::Signal;
use crate::verdict::{MEDIA_TYPE, Verdict};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use titan_config::{OtlpCompression, OtlpProtocol, Resolver};
use titan_http::{BadField, Method, RequestHead};
use titan_io::registry::Registry;
use titan_io::tls::ClientTls;
use titan_upstream::client::{MOST_BODY, Question, Reuse};
use titan_upstream::members::Upstream;
use titan_upstream::server::Server;

/// A collector of a configuration.
pub struct Collector {
    config: titan_config::Collector,
    resolver: Resolver,
    /// Where it is, and how TLS is spoken with it.
    upstream: Arc<Upstream>,
}

/// What makes a collector the one that another configuration has.
#[derive(PartialEq, Eq, Hash)]
struct CollectorKey(String);

impl Collector {
    /// The collector of a configuration: the one that `registry` has, where nothing of it has changed.
    pub fn of(
        config: &titan_config::Collector,
        resolver: &Resolver,
        tls: Option<ClientTls>,
        registry: &Registry,
    ) -> Arc<Collector> {
        let config = config.without_locations();
        registry.shared(CollectorKey(format!("{config:?} {resolver:?}")), || {
            // Upstreams of the same name are no concern of its.
            let own = Registry::default();
            let upstream = Upstream::of(&config.upstream, resolver, tls, (&own, 1));
            upstream.take_effect();
            Collector { resolver: resolver.clone(), upstream, config }
        })
    }

    /// What the configuration says of it.
    pub fn config(&self) -> &titan_config::Collector {
        &self.config
    }

    /// How TLS is spoken with it, if it is.
    pub fn tls(&self) -> Option<&ClientTls> {
        self.upstream.tls()
    }
}

/// The way of one thread to a collector. Its connections are those of a `LocalSet`.
pub(crate) struct Way {
    collector: Arc<Collector>,
    signal: Signal,
    server: Server,
}

impl Way {
    pub(crate) fn new(collector: Arc<Collector>, signal: Signal) -> Rc<Way> {
        let server = Server::new(Arc::clone(&collector.upstream), collector.resolver.clone());
        Rc::new(Way { collector, signal, server })
    }

    /// A number that differs from time to time.
    pub(crate) fn random(&self) -> u64 {
        self.server.random()
    }

    /// Sends a message; what came of it within the time that the configuration gives.
    pub(crate) async fn send(&self, body: &[u8]) -> Verdict {
        let time = self.collector.config.timeout;
        let sent = tokio::time::timeout(time, self.send_to_any(body)).await;
        let verdict =
            sent.unwrap_or_else(|_| Verdict::unreachable(format!("no response within {time:?}")));
        if matches!(verdict, Verdict::Later { .. }) {
            self.server.take_next();
        }
        verdict
    }

    async fn send_to_any(&self, body: &[u8]) -> Verdict {
        let config = &self.collector.config;
        let head = match self.head() {
            Ok(head) => head,
            Err(_) => return Verdict::Refused { why: "its request cannot be written".to_owned() },
        };
        let host = config.endpoint.authority.as_bytes();
        let question = Question { head, host, body, most: MOST_BODY };
        match self.server.ask(&question, (Reuse::Kept, config.timeout)).await {
            Ok(answer) => Verdict::of(&answer, config.protocol),
            Err(why) => Verdict::unreachable(why),
        }
    }

    /// The head of its requests.
    fn head(&self) -> Result<RequestHead, BadField> {
        let titan_config::Collector { endpoint, protocol, headers, compression, timeout, .. } =
            &self.collector.config;
        let mut head = RequestHead { method: Method::POST, ..RequestHead::default() };
        let is_compressed = *compression == OtlpCompression::Gzip;
        match protocol {
            OtlpProtocol::Grpc => {
                head.set_path(self.signal.method().as_bytes())?;
                head.fields.append_named(b"content-type", b"application/grpc")?;
                head.fields.append_named(b"te", b"trailers")?;
                head.fields.append_named(b"grpc-timeout", grpc_timeout(*timeout).as_bytes())?;
                if is_compressed {
                    head.fields.append_named(b"grpc-encoding", b"gzip")?;
                }
            }
            OtlpProtocol::Http => {
                let path = format!("{}/v1/{}", endpoint.target, self.signal.name());
                head.set_path(path.as_bytes())?;
                head.fields.append_named(b"content-type", MEDIA_TYPE)?;
                if is_compressed {
                    head.fields.append_named(b"content-encoding", b"gzip")?;
                }
            }
        }
        head.fields.append_named(b"user-agent", USER_AGENT.as_bytes())?;
        for (name, value) in headers {
            head.fields.append_named(name.as_str().as_bytes(), value.as_str().as_bytes())?;
        }
        Ok(head)
    }
}

const USER_AGENT: &str = concat!("titan/", env!("CARGO_PKG_VERSION"));

/// A timeout as calls of gRPC have it: at most eight digits.
fn grpc_timeout(timeout: Duration) -> String {
    match timeout.as_millis() {
        millis @ 0..100_000_000 => format!("{millis}m"),
        millis => format!("{}S", millis / 1_000),
    }
}
