//! A source of a configuration: made from what the configuration says of it, and asked on a thread of its own.

use crate::http::Http;
use crate::outlet::{Inlet, outlet};
use std::io;
use std::sync::Arc;
use std::thread;
use titan_config::{RemoteKind, RemoteSource, Resolver};
use titan_io::registry::Registry;
use titan_io::tls::{BadCredentials, ClientTls, Files};
use titan_upstream::members::Upstream;
use tokio::runtime::Builder;
use tokio::task::LocalSet;

/// A source that can be asked.
#[derive(Clone)]
pub struct Source {
    config: RemoteSource,
    resolver: Resolver,
    upstream: Arc<Upstream>,
}

impl Source {
    /// The source that a configuration describes; the files are those that it names.
    pub fn new(
        config: &RemoteSource,
        resolver: &Resolver,
        files: &Files,
    ) -> Result<Source, BadCredentials> {
        let config = config.without_locations();
        let tls = config.upstream().tls.as_ref();
        let tls = tls.map(|tls| ClientTls::new(tls, config.upstream().protocol, files));
        // Upstreams of the same name are no concern of its.
        let own = Registry::default();
        let upstream = Upstream::of(config.upstream(), resolver, tls.transpose()?, (&own, 1));
        upstream.take_effect();
        Ok(Source { config, resolver: resolver.clone(), upstream })
    }

    /// What the configuration says of it.
    pub fn config(&self) -> &RemoteSource {
        &self.config
    }

    /// Whether the other one would be asked in the same way. Then that one's certificates are used from now on.
    pub fn takes_over(&self, other: &Source) -> bool {
        let is_same = self.config == other.config && self.resolver == other.resolver;
        if is_same && let Some((tls, renewed)) = self.upstream.tls().zip(other.upstream.tls()) {
            tls.replace(renewed.settings());
        }
        is_same
    }

    /// Begins to ask it, on a thread that ends with the inlet. What is in force of it already was signed then, in seconds since 1970.
    pub fn start(&self, signed_at: Option<u64>) -> io::Result<Inlet> {
        let (outlet, inlet) = outlet(self.config.name.as_str());
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let Source { config, resolver, upstream } = self.clone();
        let run = move || {
            let asked = async {
                match config.kind {
                    RemoteKind::Http(http) => {
                        Http::new(http, upstream, resolver, signed_at).run(outlet).await;
                    }
                }
            };
            LocalSet::new().block_on(&runtime, asked);
        };
        thread::Builder::new().name("source".to_owned()).spawn(run)?;
        Ok(inlet)
    }
}
