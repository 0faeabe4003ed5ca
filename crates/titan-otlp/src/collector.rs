//! A collector, and the way to it: a connection that is opened as those to upstreams are, and used again.

use crate::figures::Signal;
use crate::verdict::{MEDIA_TYPE, Verdict};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use titan_config::{OtlpCompression, OtlpProtocol, Resolver};
use titan_http::{BadField, Method, RequestHead};
use titan_io::registry::Registry;
use titan_io::tls::ClientTls;
use titan_upstream::client::{Client, Question, Reuse};
use titan_upstream::endpoint::Endpoint;
use titan_upstream::members::Upstream;
use titan_upstream::resolve::{NameResolver, has_names};

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
    client: Client,
    /// `None` where there are no names; made when it is first needed.
    names: RefCell<Option<Arc<NameResolver>>>,
    /// When they are to be resolved again.
    again: Cell<Option<Instant>>,
    /// Which of its addresses is next, if there are several.
    next: Cell<usize>,
}

impl Way {
    pub(crate) fn new(collector: Arc<Collector>, signal: Signal) -> Rc<Way> {
        let (names, again, next) = Default::default();
        Rc::new(Way { collector, signal, client: Client::default(), names, again, next })
    }

    /// A number that differs from time to time.
    pub(crate) fn random(&self) -> u64 {
        self.client.random()
    }

    /// Sends a message; what came of it within the time that the configuration gives.
    pub(crate) async fn send(&self, body: &[u8]) -> Verdict {
        let time = self.collector.config.timeout;
        let sent = tokio::time::timeout(time, self.send_to_any(body)).await;
        let verdict =
            sent.unwrap_or_else(|_| Verdict::unreachable(format!("no response within {time:?}")));
        if matches!(verdict, Verdict::Later { .. }) {
            self.next.set(self.next.get().wrapping_add(1));
        }
        verdict
    }

    async fn send_to_any(&self, body: &[u8]) -> Verdict {
        self.client.sweep();
        let endpoint = match self.endpoint().await {
            Ok(endpoint) => endpoint,
            Err(why) => return Verdict::unreachable(why),
        };
        let Collector { config, .. } = &*self.collector;
        let head = match self.head() {
            Ok(head) => head,
            Err(_) => return Verdict::Refused { why: "its request cannot be written".to_owned() },
        };
        let host = config.endpoint.authority.as_bytes();
        let question = Question { head, host, body };
        match self.client.ask(&endpoint, &question, (Reuse::Kept, config.timeout)).await {
            Ok(answer) => Verdict::of(&answer, config.protocol),
            Err(error) => {
                let why = endpoint.take_reason(error.kind);
                Verdict::unreachable(why.unwrap_or_else(|| error.to_string()))
            }
        }
    }

    /// The address that is next.
    async fn endpoint(&self) -> Result<Arc<Endpoint>, String> {
        let Collector { upstream, config, .. } = &*self.collector;
        if has_names(upstream) && self.again.get().is_none_or(|at| at <= Instant::now()) {
            let names = self.names()?;
            self.again.set(Some(names.refresh(upstream).await));
        }
        let members = upstream.members();
        let count = members.endpoints.len().max(1);
        let endpoint = members.endpoints.get(self.next.get() % count).cloned();
        endpoint.ok_or_else(|| format!("the name {} does not resolve", config.endpoint.host))
    }

    fn names(&self) -> Result<Arc<NameResolver>, String> {
        let mut names = self.names.borrow_mut();
        if let Some(names) = &*names {
            return Ok(Arc::clone(names));
        }
        let made =
            NameResolver::new(&self.collector.resolver).map_err(|error| error.to_string())?;
        Ok(Arc::clone(names.insert(Arc::new(made))))
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
