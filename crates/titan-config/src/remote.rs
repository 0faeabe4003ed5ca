//! Sources: where more of the configuration comes from that is in no file of this machine.

mod consul;
mod docker;
mod etcd;

pub use consul::{ConsulService, ConsulSource, ServiceName};
pub use docker::DockerSource;
pub use etcd::EtcdSource;

use crate::bounds::{MAX_HEADERS, MAX_VALUE};
use crate::cluster::{KubernetesSource, kubernetes_source};
use crate::diagnostic::Diagnostic;
use crate::header::parse_request_header;
use crate::location::Location;
use crate::node::Node;
use crate::policy::{Url, parse_url};
use crate::problem::Problem;
use crate::quantity::ByteSize;
use crate::read::{At, Read, Reading, at, default, optional, required};
use crate::readers::{Named, boolean, duration, message_mapping, short_for, size, text};
use crate::section::{section, section_of};
use crate::servers::Server;
use crate::shape::TextShape;
use crate::timeouts::{DAY, timeout};
use crate::tls::{UpstreamTls, tls_settings};
use crate::token::{HEADER_NAME, HeaderName, HeaderValue, Name, header_value};
use crate::upstream::{Protocol, Upstream, UpstreamFields};
use consul::{ConsulSourceDraft, consul_source};
use docker::{DockerSourceDraft, docker_source};
use etcd::{EtcdSourceDraft, etcd_source};
use std::fmt;
use std::time::Duration;

/// Where more documents of the configuration come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteSource {
    /// Its name.
    pub name: Name,
    /// Whether its documents may name files and variables of this machine.
    pub local_files: bool,
    /// What it is.
    pub kind: RemoteKind,
}

/// What a source is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RemoteKind {
    /// A document that is fetched again and again.
    Http(HttpSource),
    /// What Gateway API says in a cluster.
    Kubernetes(KubernetesSource),
    /// Keys of etcd below a prefix.
    Etcd(EtcdSource),
    /// Keys of Consul below a prefix, and services of its catalogue.
    Consul(ConsulSource),
    /// What labels of Docker's containers say.
    Docker(DockerSource),
}

/// A document that is fetched again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpSource {
    /// Where connections to its server lead, as an upstream with one endpoint.
    pub upstream: Upstream,
    /// Where it is.
    pub url: Url,
    /// How long after one look the next one follows.
    pub interval: Duration,
    /// How long a look may take.
    pub timeout: Duration,
    /// More fields of requests.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Whose signature the document has to have.
    pub public_key: Option<PublicKey>,
    /// How large the document may be.
    pub max_size: ByteSize,
}

impl RemoteSource {
    /// The same source wherever the file has it.
    pub fn without_locations(&self) -> RemoteSource {
        let kind = match &self.kind {
            RemoteKind::Http(http) => RemoteKind::Http(HttpSource {
                upstream: http.upstream.without_locations(),
                ..http.clone()
            }),
            RemoteKind::Kubernetes(_) => self.kind.clone(),
            RemoteKind::Etcd(etcd) => RemoteKind::Etcd(EtcdSource {
                upstream: etcd.upstream.without_locations(),
                ..etcd.clone()
            }),
            RemoteKind::Consul(consul) => RemoteKind::Consul(ConsulSource {
                upstream: consul.upstream.without_locations(),
                ..consul.clone()
            }),
            RemoteKind::Docker(docker) => RemoteKind::Docker(DockerSource {
                upstream: docker.upstream.without_locations(),
                ..docker.clone()
            }),
        };
        RemoteSource { kind, ..self.clone() }
    }

    /// What the gateway itself opens connections to for it.
    pub fn upstream(&self) -> Option<&Upstream> {
        match &self.kind {
            RemoteKind::Http(http) => Some(&http.upstream),
            RemoteKind::Kubernetes(_) => None,
            RemoteKind::Etcd(etcd) => Some(&etcd.upstream),
            RemoteKind::Consul(consul) => Some(&consul.upstream),
            RemoteKind::Docker(docker) => Some(&docker.upstream),
        }
    }
}

impl RemoteKind {
    /// What reports call it.
    pub fn name(&self) -> &'static str {
        match self {
            RemoteKind::Http(_) => "http",
            RemoteKind::Kubernetes(_) => "kubernetes",
            RemoteKind::Etcd(_) => "etcd",
            RemoteKind::Consul(_) => "consul",
            RemoteKind::Docker(_) => "docker",
        }
    }

    /// Whether it knows of endpoints, which upstreams follow.
    pub fn knows_endpoints(&self) -> bool {
        match self {
            RemoteKind::Kubernetes(_) | RemoteKind::Consul(_) | RemoteKind::Docker(_) => true,
            RemoteKind::Http(_) | RemoteKind::Etcd(_) => false,
        }
    }
}

/// A public key of minisign: 56 characters of Base64, which begin with the algorithm (Ed25519).
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey(String);

impl PublicKey {
    /// The characters.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({})", self.0)
    }
}

section! {
    "source", "a source", Any;
    /// Where more documents of the configuration come from. They may set `listeners`, `routes`, `upstreams`, `policies`, `apply` and
    /// `error_pages`, which are joined to what the files say; all other keys belong to the gateway itself. A document that does
    /// not fit is held back alone: what was in force of it before stays in force. What was in force last is kept in the
    /// state directory, so that the gateway starts with it where the source does not respond.
    pub(crate) struct SourceFields {
        /// Whether its documents may name files, directories, Unix sockets and variables of this machine: certificates, `root`,
        /// `${NAME}`, `${file:PATH}`. Whoever can change them can then read what the gateway can read.
        pub(crate) local_files: bool = default("false", boolean()),
        /// A document that is fetched over HTTP again and again. A plain string is its `url`.
        pub(crate) http: Option<HttpSourceDraft> = optional("none", http_source()),
        /// What Gateway API says in a Kubernetes cluster. The documents that are made of that name the files of its certificates,
        /// whatever `local_files` says; objects themselves name no files and variables of this machine.
        pub(crate) kubernetes: Option<KubernetesSource> = optional("none", kubernetes_source()),
        /// Keys of etcd below a prefix, a document each, which are watched. Plain strings are its `endpoints`.
        pub(crate) etcd: Option<EtcdSourceDraft> = optional("none", etcd_source()),
        /// Keys of Consul below a prefix, a document each, and services of its catalogue, whose instances upstreams follow.
        pub(crate) consul: Option<ConsulSourceDraft> = optional("none", consul_source()),
        /// What labels of Docker's containers say, which upstreams follow as endpoints. A plain string is its `endpoint`; `{}` is the
        /// engine of this machine.
        pub(crate) docker: Option<DockerSourceDraft> = optional("none", docker_source()),
    }
}

section! {
    "http_source", "a document that is fetched over HTTP", Any;
    /// A document that is fetched over HTTP again and again, with its entity tag or date, so that it is sent only after it has changed.
    /// When that fails it is tried again after a second, and then after longer and longer pauses, up to `interval`, or as long as
    /// `Retry-After` asks for (an hour at most); what is in force stays so.
    pub(crate) struct HttpSourceFields {
        /// Where it is: `https://config.example.com/shop.yaml`. Redirects are followed on the same server only.
        pub(crate) url: At<Url> = required(at(text(URL, parse_url))),
        /// How long after one look the next one follows; a tenth of it is left to chance.
        pub(crate) interval: Duration = default("30s", duration(Duration::from_secs(1)..=DAY)),
        /// How long a look may take, from connecting to the last byte.
        pub(crate) timeout: Duration = default("10s", timeout()),
        /// More fields of requests, such as a key: `{ authorization: "Bearer ${file:token}" }`.
        pub(crate) headers: Vec<(HeaderName, HeaderValue)> = default("{}", headers()),
        /// How TLS is spoken with its server; its `url` begins with `https`.
        pub(crate) tls: Option<UpstreamTls> =
            optional("all defaults where `url` begins with `https`", tls_settings()),
        /// The public key of minisign whose signature the document has to have. The signature is fetched from the same URL with
        /// `.minisig` behind its path, and verified before anything is read. A document that was signed before the one in
        /// force is refused, and one without the time that minisign writes into the trusted comment, too.
        pub(crate) public_key: Option<PublicKey> =
            optional("none: whoever controls the server is trusted", public_key()),
        /// The largest document that is accepted.
        pub(crate) max_size: ByteSize = default("16MiB", size(1..=MAX_DOCUMENT)),
    }
}

/// Bytes of a document; all documents of a configuration together are not larger either.
const MAX_DOCUMENT: u64 = crate::bounds::MAX_FILES_TOTAL as u64;

const URL: TextShape = TextShape {
    what: "the URL of a document",
    examples: "`https://config.example.com/shop.yaml`",
    pattern: Some("^https?://.+"),
    max: MAX_VALUE,
};

const HEADER: TextShape =
    TextShape { what: "a request header", examples: "`authorization`", ..HEADER_NAME };

const PUBLIC_KEY: TextShape = TextShape {
    what: "a public key of minisign",
    examples: "`RWQ...`, as `minisign -G` prints it",
    pattern: Some("RW[Q-T][A-Za-z0-9+/]{53}"),
    max: MAX_VALUE,
};

/// A source that has no name yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SourceDraft {
    local_files: bool,
    kind: KindDraft,
}

/// What a source is that has no name yet.
#[derive(Clone, Debug, PartialEq, Eq)]
enum KindDraft {
    Http(Box<HttpSourceDraft>),
    Kubernetes(KubernetesSource),
    Etcd(Box<EtcdSourceDraft>),
    Consul(Box<ConsulSourceDraft>),
    Docker(Box<DockerSourceDraft>),
}

/// A document that is fetched by a source that has no name yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HttpSourceDraft {
    fields: HttpSourceFields,
    upstream: UpstreamFields,
}

impl SourceDraft {
    /// Whether it is a Kubernetes cluster.
    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self.kind, KindDraft::Kubernetes(_))
    }

    /// The source of that name.
    pub(crate) fn finish(self, name: Name, location: Location) -> RemoteSource {
        let SourceDraft { local_files, kind } = self;
        let local_files = local_files || matches!(kind, KindDraft::Kubernetes(_));
        let kind = match kind {
            KindDraft::Http(http) => RemoteKind::Http(http.finish(name.clone(), location)),
            KindDraft::Kubernetes(cluster) => RemoteKind::Kubernetes(cluster),
            KindDraft::Etcd(etcd) => RemoteKind::Etcd(etcd.finish(name.clone(), location)),
            KindDraft::Consul(it) => RemoteKind::Consul(it.finish(name.clone(), location)),
            KindDraft::Docker(it) => RemoteKind::Docker(it.finish(name.clone(), location)),
        };
        RemoteSource { name, local_files, kind }
    }
}

impl HttpSourceDraft {
    fn finish(self, name: Name, location: Location) -> HttpSource {
        let HttpSourceFields { url, interval, timeout, headers, tls: _, public_key, max_size } =
            self.fields;
        let upstream = self.upstream.finish(name, location, None);
        let url = url.value;
        HttpSource { upstream, url, interval, timeout, headers, public_key, max_size }
    }
}

pub(crate) fn source() -> impl Read<Value = SourceDraft> {
    section_of::<SourceFields>().then(|fields, node, to| {
        let SourceFields { local_files, http, kubernetes, etcd, consul, docker } = fields;
        let http = http.map(|it| ("http", KindDraft::Http(Box::new(it))));
        let kubernetes = kubernetes.map(|it| ("kubernetes", KindDraft::Kubernetes(it)));
        let etcd = etcd.map(|it| ("etcd", KindDraft::Etcd(Box::new(it))));
        let consul = consul.map(|it| ("consul", KindDraft::Consul(Box::new(it))));
        let docker = docker.map(|it| ("docker", KindDraft::Docker(Box::new(it))));
        let mut kinds = [http, kubernetes, etcd, consul, docker].into_iter().flatten();
        let Some((key, kind)) = kinds.next() else {
            let error = Diagnostic::error(node.span, "this source says not what it is");
            return to.fail(
                error.label("expected one of `http`, `kubernetes`, `etcd`, `consul` and `docker`"),
            );
        };
        if let Some((other, _)) = kinds.next() {
            let error = Diagnostic::error(node.key_span(other), "a source is of one kind");
            let error = error.also(node.key_span(key), "this is another one");
            return to.fail(error.help("write two sources, each with a name of its own"));
        }
        Some(SourceDraft { local_files, kind })
    })
}

fn http_source() -> impl Read<Value = HttpSourceDraft> {
    short_for("url", section_of::<HttpSourceFields>()).then(check)
}

fn check(fields: HttpSourceFields, node: &Node, to: &mut Reading<'_>) -> Option<HttpSourceDraft> {
    let HttpSourceFields { url, headers, tls, public_key, .. } = &fields;
    let urls = std::slice::from_ref(url);
    let server = Server { what: "server", key: "url", urls, tls: tls.as_ref() };
    let is_fine = server.check_tls(node, to);
    server.check_headers(headers, node, to);
    if public_key.is_none()
        && let Some(url) = server.exposed()
    {
        let warning = Diagnostic::warning(url.span, "a configuration is fetched without TLS");
        let warning = warning.label("anyone on the network path can change it");
        to.add(warning.help("use `https`, or sign it and set `public_key`"));
    }
    let upstream = server.upstream(Protocol::H1, to)?;
    is_fine.then_some(HttpSourceDraft { fields, upstream })
}

fn headers() -> impl Read<Value = Vec<(HeaderName, HeaderValue)>> {
    message_mapping(HEADER, parse_header, header_value(), 0..=MAX_HEADERS)
        .map(|named| named.into_iter().map(|Named { key, value, .. }| (key, value)).collect())
}

/// A field that the gateway does not write itself.
fn parse_header(text: &str) -> Result<HeaderName, Problem> {
    let lower = text.to_ascii_lowercase();
    let is_ours = matches!(
        lower.as_str(),
        "if-none-match" | "if-modified-since" | "range" | "accept-encoding" | "user-agent"
    );
    match is_ours {
        true => Err(Problem::new("the gateway writes this header itself")),
        false => parse_request_header(text),
    }
}

fn public_key() -> impl Read<Value = PublicKey> {
    text(PUBLIC_KEY, |text| {
        // Of the file that minisign writes, whose first line is a comment.
        let key = text.trim_end().lines().last().unwrap_or_default();
        let is_key = key.len() == 56
            && key.starts_with("RW")
            && matches!(key.as_bytes().get(2), Some(b'Q'..=b'T'))
            && key.bytes().all(|it| it.is_ascii_alphanumeric() || b"+/".contains(&it));
        match is_key {
            true => Ok(PublicKey(key.to_owned())),
            false => Err(Problem::new("this is no public key of minisign")
                .help("it has 56 characters that begin with `RW`; minisign writes it into the last line of its file")),
        }
    })
}
