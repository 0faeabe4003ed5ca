//! Documents and endpoints in Consul: where its agents are, and which keys and services are meant.

use crate::bounds::{MAX_SECRET, MAX_SERVERS, MAX_SERVICES, MAX_VALUE};
use crate::diagnostic::Diagnostic;
use crate::location::Location;
use crate::node::Node;
use crate::policy::{Url, parse_url};
use crate::problem::Problem;
use crate::read::{At, Read, Reading, at, default, optional, required};
use crate::readers::{duration, one_or_list, secret, short_for, text};
use crate::secret::{Secret, parse_secret};
use crate::section::{section, section_of};
use crate::servers::Server;
use crate::shape::TextShape;
use crate::timeouts::timeout;
use crate::tls::{UpstreamTls, tls_settings};
use crate::token::Name;
use crate::upstream::{Protocol, Upstream, UpstreamFields};
use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

/// Keys of Consul below a prefix, a document each, and services of its catalogue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsulSource {
    /// Where connections to its agents lead: an endpoint for each.
    pub upstream: Upstream,
    /// What the keys of documents begin with; it ends with `/`. `None` for no documents.
    pub prefix: Option<String>,
    /// The services whose instances are followed, no two with the same feed.
    pub services: Vec<ConsulService>,
    /// What shows who asks.
    pub token: Option<Secret>,
    /// How long an agent may hold back a response while nothing changes, and the longest pause after failures.
    pub interval: Duration,
    /// How long an agent may take beyond that.
    pub timeout: Duration,
}

/// Instances of a service in Consul.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsulService {
    /// The service.
    pub name: ServiceName,
    /// The tags that instances must have.
    pub tags: Vec<String>,
    /// The datacenter that is asked; `None` for that of the agent.
    pub datacenter: Option<String>,
    /// What follows the source's name in that of their feed.
    pub feed: ServiceName,
}

/// The name of a service: letters, digits, `.`, `_` and `-`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceName(String);

impl fmt::Display for ServiceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

section! {
    "consul_source", "a source in Consul", Any;
    /// What is in Consul: documents, which are keys that begin with `prefix`, and the healthy instances of `services`, which upstreams
    /// follow without a reload. Both are followed by blocking queries, so that a change is in force within moments. An agent that does
    /// not respond makes room for the next one, after a second and then longer and longer pauses, up to `interval`; what is in force
    /// stays so.
    pub(crate) struct ConsulSourceFields {
        /// Where agents of Consul serve HTTP: `http://127.0.0.1:8500`. Several are asked one after the other when one fails.
        pub(crate) endpoints: Vec<At<Url>> =
            required(one_or_list(at(text(ENDPOINT, parse_agent)), 1..=MAX_SERVERS)),
        /// What the keys of documents begin with: `titan/`. It ends with `/`, and what follows it in a key is the name of the document.
        pub(crate) prefix: Option<String> = optional("no documents", text(PREFIX, parse_prefix)),
        /// Services whose instances that pass all their checks are told to upstreams: `shop` of the source `c` is the endpoint
        /// `feed:c/shop`. Their weights are those that Consul has for them.
        pub(crate) services: Vec<At<ConsulService>> =
            default("[]", one_or_list(at(consul_service()), 0..=MAX_SERVICES)),
        /// What shows who asks: `${file:consul.token}`. It needs `key_prefix` with `read` for `prefix`, `service` with `read` for the
        /// services, and `node_prefix` with `read`. A response from which Consul has left out something for lack of rights is a failure.
        pub(crate) token: Option<Secret> = optional("the anonymous token", secret(TOKEN, parse_token)),
        /// How TLS is spoken with the agents; their addresses begin with `https`.
        pub(crate) tls: Option<UpstreamTls> =
            optional("all defaults where the addresses begin with `https`", tls_settings()),
        /// How long an agent may wait with a response while nothing changes; a sixteenth more is left to chance by Consul. A
        /// connection that has died without a word is noticed within this time and `timeout`.
        pub(crate) interval: Duration =
            default("30s", duration(Duration::from_secs(1)..=Duration::from_secs(600))),
        /// How long a request may take beyond that, from connecting to the last byte.
        pub(crate) timeout: Duration = default("10s", timeout()),
    }
}

section! {
    "consul_service", "a service in Consul", Any;
    /// A service whose instances upstreams follow. A plain string is its `name`.
    pub(crate) struct ConsulServiceFields {
        /// Its name in Consul's catalogue.
        pub(crate) name: ServiceName = required(text(SERVICE, parse_service)),
        /// Tags that instances must have, all of them, to get requests: `[v2]`.
        pub(crate) tags: Vec<String> = default("[]", one_or_list(text(TAG, parse_tag), 0..=MAX_TAGS)),
        /// The datacenter whose instances are meant.
        pub(crate) datacenter: Option<String> =
            optional("that of the agent", text(DATACENTER, parse_datacenter)),
        /// What follows the source's name in that of the feed: with `feed: canary`, the endpoint is `feed:c/canary`. Another one for
        /// each lets upstreams follow different instances of one service.
        pub(crate) feed: Option<ServiceName> = optional("that of the service", text(SERVICE, parse_service)),
    }
}

/// A source in Consul that has no name yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConsulSourceDraft {
    fields: ConsulSourceFields,
    upstream: UpstreamFields,
}

const ENDPOINT: TextShape = TextShape {
    what: "the URL of an agent of Consul",
    examples: "`http://127.0.0.1:8500`",
    pattern: Some("^https?://.+"),
    max: MAX_VALUE,
};

const PREFIX: TextShape = TextShape {
    what: "the beginning of keys",
    examples: "`titan/`",
    pattern: Some("^[A-Za-z0-9._:-][A-Za-z0-9._:/-]*/$"),
    max: 512,
};

const SERVICE: TextShape = TextShape {
    what: "the name of a service",
    examples: "`shop`",
    pattern: Some("^[A-Za-z0-9._-]{1,128}$"),
    max: 128,
};

const TAG: TextShape = TextShape {
    what: "a tag",
    examples: "`v2`",
    pattern: Some(r#"^[!#-\[\]-~]{1,128}$"#),
    max: 128,
};

const DATACENTER: TextShape = TextShape {
    what: "the name of a datacenter",
    examples: "`dc1`",
    pattern: Some("^[A-Za-z0-9_-]{1,64}$"),
    max: 64,
};

/// Tags of one service.
const MAX_TAGS: usize = 16;

const TOKEN: TextShape = TextShape {
    what: "a token of Consul",
    examples: "`${file:consul.token}`",
    pattern: None,
    max: MAX_SECRET,
};

impl ConsulSourceDraft {
    /// The source of that name.
    pub(super) fn finish(self, name: Name, location: Location) -> ConsulSource {
        let ConsulSourceFields { endpoints: _, prefix, services, token, tls: _, interval, timeout } =
            self.fields;
        let upstream = self.upstream.finish(name, location, None);
        let services = services.into_iter().map(|it| it.value).collect();
        ConsulSource { upstream, prefix, services, token, interval, timeout }
    }
}

pub(super) fn consul_source() -> impl Read<Value = ConsulSourceDraft> {
    section_of::<ConsulSourceFields>().then(check)
}

fn check(
    fields: ConsulSourceFields,
    node: &Node,
    to: &mut Reading<'_>,
) -> Option<ConsulSourceDraft> {
    let ConsulSourceFields { endpoints: urls, tls, token, prefix, services, .. } = &fields;
    let server = Server { what: "agent", key: "endpoints", urls, tls: tls.as_ref() };
    let is_fine = server.check_tls(node, to);
    if prefix.is_none() && services.is_empty() {
        let error = Diagnostic::error(node.span, "this source brings nothing");
        let error = error.label("it names neither keys nor services");
        return to.fail(error.help("set `prefix` for documents, or `services` for endpoints"));
    }
    check_feeds(services, to)?;
    if let Some(url) = server.exposed() {
        let warning = Diagnostic::warning(url.span, "a configuration is fetched without TLS");
        let warning = warning.label("anyone on the network path can change it");
        to.add(warning.help("use `https`, or ask an agent on this machine"));
    }
    if token.is_some() {
        server.check_exposed("token", "the token is sent without TLS", node, to);
    }
    let upstream = server.upstream(Protocol::H1, to)?;
    is_fine.then_some(ConsulSourceDraft { fields, upstream })
}

fn check_feeds(services: &[At<ConsulService>], to: &mut Reading<'_>) -> Option<()> {
    let mut before = HashMap::new();
    for At { value: ConsulService { feed, .. }, span } in services {
        if let Some(other) = before.insert(feed, *span) {
            let error = Diagnostic::error(*span, format!("two services have the feed `{feed}`"));
            let error = error.also(other, "the other one");
            return to.fail(error.help("set `feed` of one of them"));
        }
    }
    Some(())
}

fn consul_service() -> impl Read<Value = ConsulService> {
    short_for("name", section_of::<ConsulServiceFields>()).map(|fields| {
        let ConsulServiceFields { name, tags, datacenter, feed } = fields;
        let feed = feed.unwrap_or_else(|| name.clone());
        ConsulService { name, tags, datacenter, feed }
    })
}

fn parse_tag(text: &str) -> Result<String, Problem> {
    let is_taken = |byte: u8| byte.is_ascii_graphic() && !br#""\"#.contains(&byte);
    match !text.is_empty() && text.bytes().all(is_taken) {
        true => Ok(text.to_owned()),
        false => {
            Err(Problem::new("it has spaces, quotes, backslashes or characters that are not ASCII"))
        }
    }
}

fn parse_datacenter(text: &str) -> Result<String, Problem> {
    let is_taken = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    match !text.is_empty() && text.bytes().all(is_taken) {
        true => Ok(text.to_owned()),
        false => Err(Problem::new("it has other characters than letters, digits and `_-`")),
    }
}

fn parse_agent(text: &str) -> Result<Url, Problem> {
    let url = parse_url(text)?;
    match url.target.as_str() {
        "/" => Ok(url),
        _ => Err(Problem::new("it has a path").help("what keys begin with goes into `prefix`")),
    }
}

fn parse_prefix(text: &str) -> Result<String, Problem> {
    let is_taken = |byte: u8| byte.is_ascii_alphanumeric() || b"._:/-".contains(&byte);
    if text.starts_with('/') {
        let problem = Problem::new("keys of Consul do not begin with `/`");
        return Err(problem.help(format!("did you mean `{}`?", text.trim_start_matches('/'))));
    }
    if !text.ends_with('/') {
        let problem = Problem::new("it does not end with `/`");
        return Err(problem.help(format!("did you mean `{text}/`?")));
    }
    match text.bytes().all(is_taken) {
        true => Ok(text.to_owned()),
        false => Err(Problem::new("it has other characters than letters, digits and `._:/-`")),
    }
}

fn parse_service(text: &str) -> Result<ServiceName, Problem> {
    let is_taken = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    match !text.is_empty() && text.bytes().all(is_taken) {
        true => Ok(ServiceName(text.to_owned())),
        false => Err(Problem::new("it has other characters than letters, digits and `._-`")),
    }
}

/// What can stand in a header.
fn parse_token(text: &str) -> Result<Secret, Problem> {
    match text.bytes().all(|it| it.is_ascii_graphic()) {
        true => parse_secret(text),
        false => Err(Problem::new("it has spaces or characters that are not ASCII")),
    }
}
