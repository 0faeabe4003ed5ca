//! A gateway in this process, from the text of a configuration.

use crate::certificate::{self, Certificate};
use crate::deadline::DEADLINE;
use crate::h2;
use crate::message::Response;
use crate::peer::Peer;
use std::fmt::Display;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use titan_config::Config;
use titan_proxy::{
    BreakerWish, EndpointOrder, Event, Feeds, Field, Files, LoadError, Log, Metrics,
    RefusedHandshakes, Revocations, Status, UpstreamFailure,
};

/// A gateway that serves. Dropping it drains it, and fails the test where that takes too long or a worker
/// has panicked.
pub struct Gateway {
    running: Option<titan_proxy::Gateway>,
    config: Config,
    files: Files,
    revoked: Option<Revocations>,
    /// Whether its clients speak TLS.
    is_secure: bool,
}

/// Starts a gateway.
///
/// In `text` `$0` stands for the address of the first of `upstreams`, `$1` for that of the second, and so
/// on. What every gateway needs and the text does not have is added: one listener at a free port of
/// 127.0.0.1, one worker, an upstream `u` of all `upstreams`, and a route to it for everything. Requests
/// go on as soon as their head has come (`request_buffer`), so that tests can see what happens to their bodies.
#[track_caller]
pub fn gateway(text: &str, upstreams: &[&dyn Display]) -> Gateway {
    match start(text, upstreams) {
        Ok(gateway) => gateway,
        Err(error) => panic!("{error}"),
    }
}

/// The same where starting may fail.
#[track_caller]
pub fn start(text: &str, upstreams: &[&dyn Display]) -> Result<Gateway, LoadError> {
    start_with(text, upstreams, &Certificate::files(&[("usual", certificate::usual())]))
}

/// The same with the files that the configuration names.
#[track_caller]
pub fn start_with(
    text: &str,
    upstreams: &[&dyn Display],
    files: &Files,
) -> Result<Gateway, LoadError> {
    start_revocable(text, upstreams, files, None)
}

/// The same with the tokens that are revoked.
#[track_caller]
pub fn start_revocable(
    text: &str,
    upstreams: &[&dyn Display],
    files: &Files,
    revoked: Option<&Revocations>,
) -> Result<Gateway, LoadError> {
    let text = complete(text, upstreams);
    let is_secure = certificate::is_everywhere() && text.contains("usual.pem");
    let config = parse(&text);
    let running = Some(titan_proxy::Gateway::start(&config, files, revoked)?);
    let (files, revoked) = (files.clone(), revoked.cloned());
    Ok(Gateway { running, config, files, revoked, is_secure })
}

#[track_caller]
fn parse(text: &str) -> Config {
    match Config::parse("test.yaml", text) {
        Ok(config) => config,
        Err(report) => panic!("{report}"),
    }
}

impl Gateway {
    /// The address of its first listener.
    #[track_caller]
    pub fn address(&self) -> SocketAddr {
        self.running().listeners()[0].socket_address.expect("the first listener is one of TCP")
    }

    /// The address of the listener with that name.
    #[track_caller]
    pub fn address_of(&self, name: &str) -> SocketAddr {
        let listeners = self.running().listeners();
        let listener = listeners.iter().find(|listener| listener.name == name);
        listener.and_then(|it| it.socket_address).expect("there is such a listener of TCP")
    }

    /// A new client of its first listener.
    #[track_caller]
    pub fn connects(&self) -> Peer {
        match self.is_secure {
            true => Peer::connects(self.address()).secures(certificate::usual_client()),
            false => Peer::connects(self.address()),
        }
    }

    /// A new client of its first listener that speaks HTTP/2.
    #[track_caller]
    pub fn connects_h2(&self) -> h2::Client {
        self.connects_h2_with(&[])
    }

    /// The same with these settings.
    #[track_caller]
    pub fn connects_h2_with(&self, settings: &[(u16, u32)]) -> h2::Client {
        let peer = Peer::connects(self.address());
        let peer = if self.is_secure { peer.secures(certificate::usual_h2_client()) } else { peer };
        h2::Client::begins(peer, settings)
    }

    /// A new client of its first listener, from that address of this machine.
    #[track_caller]
    pub fn connects_from(&self, source: &str) -> Peer {
        let client = Peer::connects_from(source, self.address());
        if self.is_secure { client.secures(certificate::usual_client()) } else { client }
    }

    /// Uses other files from now on, under the configuration that it was started with.
    pub fn rereads(&self, files: &Files) -> Result<(), LoadError> {
        self.running().loader().load(&self.config, files, self.revoked.as_ref()).map(drop)
    }

    /// Serves from another configuration from now on, which `text` and `upstreams` make as those of [`gateway`] do.
    #[track_caller]
    pub fn reloads(&self, text: &str, upstreams: &[&dyn Display]) -> Result<(), LoadError> {
        let config = parse(&complete(text, upstreams));
        self.running().loader().load(&config, &self.files, self.revoked.as_ref()).map(drop)
    }

    /// The same as if a source had delivered the policies in it.
    #[track_caller]
    pub fn reloads_delivered(
        &self,
        text: &str,
        upstreams: &[&dyn Display],
    ) -> Result<(), LoadError> {
        let mut config = parse(&complete(text, upstreams));
        config.policies.iter_mut().for_each(|it| it.is_delivered = true);
        self.running().loader().load(&config, &self.files, self.revoked.as_ref()).map(drop)
    }

    /// Where endpoints are told of that come and go without another configuration.
    pub fn feeds(&self) -> Feeds {
        self.running().loader().feeds()
    }

    /// A new client of the Unix socket there.
    #[track_caller]
    pub fn connects_to_unix(&self, path: &Path) -> Peer {
        Peer::connects_to_unix(path)
    }

    /// The response to a GET over a connection of its own.
    #[track_caller]
    pub fn get(&self, target: &str) -> Response {
        self.asks(&format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"))
    }

    /// The response to a request over a connection of its own.
    #[track_caller]
    pub fn asks(&self, request: &str) -> Response {
        let method = request.split(' ').next().unwrap_or_default().to_owned();
        self.connects().sends(request).response_to(&method)
    }

    /// What has gone wrong lately with keys of tokens that it fetches.
    pub fn tells_of_keys(&self) -> String {
        self.running().key_failures().join("; ")
    }

    /// How it is doing.
    pub fn status(&self) -> Status {
        self.running().status()
    }

    /// How many configurations are used that are not in force any more.
    pub fn retired(&self) -> usize {
        self.running().loader().retired()
    }

    /// How many things outlive the configuration in force, as far as anything uses them.
    pub fn kept(&self) -> usize {
        self.running().loader().kept()
    }

    /// What it counts.
    pub fn metrics(&self) -> Arc<Metrics> {
        self.running().metrics()
    }

    /// What it has told of since the last call: the sentence of each event, which begins with the address of the endpoint, if it is about
    /// one.
    pub fn tells(&self) -> Vec<String> {
        let sentence = |event: &Event| match event.field(Field::Endpoint) {
            Some(endpoint) => format!("{endpoint} {}", event.message()),
            None => event.message().to_owned(),
        };
        self.running().log().take().iter().map(sentence).collect()
    }

    /// Orders something about an endpoint; whether there is such an endpoint.
    pub fn orders(&self, order: EndpointOrder) -> bool {
        self.running().monitored().order(order).is_ok()
    }

    /// Orders something about the breaker of an upstream, or of its endpoint at that address; whether there is one.
    pub fn orders_breaker(
        &self,
        upstream: &str,
        address: Option<SocketAddr>,
        wish: BreakerWish,
    ) -> bool {
        let address = address.map(|address| address.to_string());
        self.running().monitored().order_breaker(upstream, address.as_deref(), wish).is_ok()
    }

    /// What has gone wrong with upstreams, as far as it has not been asked before.
    pub fn upstream_failures(&self) -> Vec<UpstreamFailure> {
        self.running().upstream_failures()
    }

    /// Handshakes that have not succeeded, as far as it has not been asked before.
    pub fn refused_handshakes(&self) -> Vec<RefusedHandshakes> {
        self.running().refused_handshakes()
    }

    /// Starts another gateway, of a configuration made as [`gateway`] does, that takes over what this one listens at. This one drains.
    #[track_caller]
    pub fn hands_over_to(
        &self,
        text: &str,
        upstreams: &[&dyn Display],
    ) -> Result<Gateway, LoadError> {
        let config = parse(&complete(text, upstreams));
        let mut lending = self.running().loader().lend().expect("there are descriptors left");
        let inherited = std::mem::take(&mut lending.listeners);
        let revoked = self.revoked.as_ref();
        let prepared = titan_proxy::Gateway::prepare(
            &config,
            &self.files,
            revoked,
            inherited,
            &Log::default(),
        )?;
        let taken = prepared.taken().to_vec();
        let running = Some(prepared.start()?);
        lending.hand_over(&taken);
        self.drains();
        let (files, revoked) = (self.files.clone(), self.revoked.clone());
        Ok(Gateway { running, config, files, revoked, is_secure: self.is_secure })
    }

    /// Lets it accept nothing more and finish what runs.
    pub fn drains(&self) {
        self.running().drain();
    }

    /// Waits until it has ended, which something else has to bring about.
    #[track_caller]
    pub fn waits_for_end(mut self) {
        let running = self.running.take().expect("only this and drop take it");
        assert!(end(running), "the gateway has not ended in time, or a worker has panicked");
    }

    fn running(&self) -> &titan_proxy::Gateway {
        self.running.as_ref().expect("only drop takes it")
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let Some(running) = self.running.take() else { return };
        running.drain();
        if !thread::panicking() {
            assert!(end(running), "the gateway has not drained in time, or a worker has panicked");
        }
    }
}

/// Waits until a gateway has ended; tells whether it did, and as it should.
fn end(mut running: titan_proxy::Gateway) -> bool {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.expect("there are descriptors left");
    let ended = async { tokio::time::timeout(DEADLINE, running.ended()).await.is_ok() };
    runtime.block_on(ended) && running.join()
}

/// A listener with the usual certificate.
const SECURE: &str = "[{ address: \"127.0.0.1:0\", \
    tls: { certificates: [{ cert: usual.pem, key: usual.key }] } }]";

/// The text with its addresses and with what it lacks.
fn complete(text: &str, upstreams: &[&dyn Display]) -> String {
    let mut complete = text.to_owned();
    // From the last one: `$1` is the beginning of `$10`.
    for (index, upstream) in upstreams.iter().enumerate().rev() {
        complete = complete.replace(&format!("${index}"), &upstream.to_string());
    }
    if !text.contains("request_buffer") {
        let at_once = |line: &str| match line.strip_prefix("limits: {") {
            Some(rest) => format!("limits: {{ request_buffer: off,{rest}\n"),
            None => format!("{line}\n"),
        };
        complete = complete.lines().map(at_once).collect();
    }
    let has = |key: &str| text.lines().any(|line| line.starts_with(&format!("{key}:")));
    let mut add = |key: &str, value: &str| {
        if !has(key) {
            complete += &format!("\n{key}: {value}");
        }
    };
    add("limits", "{ request_buffer: off }");
    add("listeners", if certificate::is_everywhere() { SECURE } else { "[\"127.0.0.1:0\"]" });
    add("workers", "1");
    add("routes", "[{ prefix: /, upstream: u }]");
    if !upstreams.is_empty() {
        let all: Vec<_> = upstreams.iter().map(ToString::to_string).collect();
        add("upstreams", &format!("{{ u: [{}] }}", all.join(", ")));
    }
    complete
}
