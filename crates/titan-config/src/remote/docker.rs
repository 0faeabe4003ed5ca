//! Labels of Docker's containers: where the engine is, and how containers are reached.

use crate::address::parse_socket_path;
use crate::bounds::MAX_VALUE;
use crate::diagnostic::Diagnostic;
use crate::location::{Location, Span};
use crate::node::{Entry, Kind, Node, Text};
use crate::policy::{Url, parse_url};
use crate::problem::Problem;
use crate::read::{At, Read, Reading, at, default, optional};
use crate::readers::{duration, short_for, text};
use crate::section::{section, section_of};
use crate::servers::Server;
use crate::shape::TextShape;
use crate::timeouts::{DAY, timeout};
use crate::tls::{UpstreamTls, tls_settings};
use crate::token::Name;
use crate::upstream::{Protocol, Upstream, UpstreamFields, upstream};
use std::path::PathBuf;
use std::time::Duration;

/// What labels of containers say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DockerSource {
    /// Where connections to the engine lead, as an upstream with one endpoint.
    pub upstream: Upstream,
    /// The engine's Unix socket; `None` for an engine at a URL.
    pub socket: Option<PathBuf>,
    /// The network in which containers are reached that are in several.
    pub network: Option<String>,
    /// How long after one look the next one follows where nothing is heard, and the longest pause after failures.
    pub interval: Duration,
    /// How long a request may take.
    pub timeout: Duration,
}

section! {
    "docker_source", "a source in Docker", Any;
    /// What labels of running containers say (`titan.enable=true`, `titan.http.routers.NAME.rule`): routes, and the containers as their
    /// endpoints, which come and go without a reload. The engine is asked for its containers, and again whenever it tells that one has
    /// changed. After a failure it is tried again in a second, and then after longer and longer pauses, up to `interval`; what is in
    /// force stays so. Whoever can use the engine's socket is root on its machine: see [sources](sources.md#docker).
    pub(crate) struct DockerSourceFields {
        /// Where the engine is: its Unix socket, or the URL of a proxy that only reads: `http://socket-proxy:2375`.
        pub(crate) endpoint: At<Engine> =
            default("unix:/var/run/docker.sock", at(text(ENDPOINT, parse_engine))),
        /// The network in which a container is reached that is in several and has no label `titan.docker.network`.
        pub(crate) network: Option<String> =
            optional("none: the label has to say it", text(NETWORK, parse_network)),
        /// How TLS is spoken with the engine; its `endpoint` begins with `https`.
        pub(crate) tls: Option<UpstreamTls> =
            optional("all defaults where `endpoint` begins with `https`", tls_settings()),
        /// After how long without news the engine is asked for its containers all the same. A connection that has died without a word
        /// is noticed within this time and `timeout`.
        pub(crate) interval: Duration = default("30s", duration(Duration::from_secs(1)..=DAY)),
        /// How long a request may take, from connecting to the last byte.
        pub(crate) timeout: Duration = default("10s", timeout()),
    }
}

/// Where an engine is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Engine {
    Socket(PathBuf),
    Url(Url),
}

/// A source in Docker that has no name yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DockerSourceDraft {
    fields: DockerSourceFields,
    upstream: UpstreamFields,
}

const ENDPOINT: TextShape = TextShape {
    what: "where an engine of Docker is",
    examples: "`unix:/var/run/docker.sock` or `http://127.0.0.1:2375`",
    pattern: Some("^(unix:/.+|https?://.+)$"),
    max: MAX_VALUE,
};

const NETWORK: TextShape = TextShape {
    what: "the name of a network",
    examples: "`web`",
    pattern: Some("^[A-Za-z0-9][A-Za-z0-9_.-]*$"),
    max: 255,
};

impl DockerSourceDraft {
    /// The source of that name.
    pub(super) fn finish(self, name: Name, location: Location) -> DockerSource {
        let DockerSourceFields { endpoint, network, tls: _, interval, timeout } = self.fields;
        let socket = match endpoint.value {
            Engine::Socket(path) => Some(path),
            Engine::Url(_) => None,
        };
        let upstream = self.upstream.finish(name, location, None);
        DockerSource { upstream, socket, network, interval, timeout }
    }
}

pub(super) fn docker_source() -> impl Read<Value = DockerSourceDraft> {
    short_for("endpoint", section_of::<DockerSourceFields>()).then(check)
}

fn check(
    fields: DockerSourceFields,
    node: &Node,
    to: &mut Reading<'_>,
) -> Option<DockerSourceDraft> {
    let DockerSourceFields { endpoint: At { value, span }, tls, .. } = &fields;
    let upstream = match value {
        Engine::Socket(path) => {
            if tls.is_some() {
                let error = Diagnostic::error(node.key_span("tls"), "`tls` has no effect");
                let error = error.label("there is no TLS on a Unix socket");
                return to.fail(error.help("write `https` in `endpoint`, or remove `tls`"));
            }
            at_socket(&format!("unix:{}", path.display()), *span, to)?
        }
        Engine::Url(url) => {
            let urls = [At { value: url.clone(), span: *span }];
            at_url(
                &Server { what: "engine", key: "endpoint", urls: &urls, tls: tls.as_ref() },
                node,
                to,
            )?
        }
    };
    Some(DockerSourceDraft { fields, upstream })
}

fn at_url(server: &Server<'_>, node: &Node, to: &mut Reading<'_>) -> Option<UpstreamFields> {
    let is_fine = server.check_tls(node, to);
    if let Some(url) = server.exposed() {
        let warning = Diagnostic::warning(url.span, "an engine is asked without TLS");
        let warning = warning.label("anyone on the network path can change what it says");
        to.add(warning.help("use `https`, or a network of containers that nobody else is in"));
    }
    server.upstream(Protocol::H1, to).filter(|_| is_fine)
}

fn at_socket(address: &str, span: Span, to: &mut Reading<'_>) -> Option<UpstreamFields> {
    let value = Node { span, kind: Kind::Text(Text::written(address.to_owned(), true)) };
    let entry = Entry { key: "endpoints".to_owned(), key_span: span, value };
    upstream().read(&Node { span, kind: Kind::Map(vec![entry]) }, to)
}

fn parse_engine(text: &str) -> Result<Engine, Problem> {
    if let Some(path) = text.strip_prefix("unix:") {
        // As `DOCKER_HOST` has it: `unix:///var/run/docker.sock`.
        let path = path.strip_prefix("//").filter(|it| it.starts_with('/')).unwrap_or(path);
        return parse_socket_path(path).map(Engine::Socket);
    }
    if let Some(rest) = text.strip_prefix("tcp://") {
        let problem = Problem::new("whether there is TLS at a `tcp://` is not known");
        return Err(problem.help(format!("write `http://{rest}`, or `https://{rest}` for TLS")));
    }
    let url = parse_url(text)?;
    match url.target.as_str() {
        "/" => Ok(Engine::Url(url)),
        _ => Err(Problem::new("it has a path")),
    }
}

fn parse_network(text: &str) -> Result<String, Problem> {
    let is_taken = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    let begins = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    match begins && text.bytes().all(is_taken) {
        true => Ok(text.to_owned()),
        false => Err(Problem::new("it has other characters than letters, digits and `_.-`")),
    }
}
