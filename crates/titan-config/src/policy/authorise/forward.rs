//! Forward-auth: a service of the operator's decides about requests.

use crate::bounds::{MAX_CLAIMS, MAX_PATH};
use crate::diagnostic::Diagnostic;
use crate::node::Node;
use crate::policy::header::{answer_header, request_header};
use crate::problem::Problem;
use crate::quantity::ByteSize;
use crate::read::{Read, Reading, default, optional, required};
use crate::readers::{duration, one_or_list, size, text, whole, words, words_or};
use crate::section::{section, section_of};
use crate::shape::TextShape;
use crate::token::HeaderName;
use crate::upstream::{UpstreamId, upstream_name};
use std::fmt;
use std::time::Duration;
use titan_http::{FieldName, Method, is_target_byte};

section! {
    "forward_auth", "a question to another service", Any;
    /// A service that decides about each request: it gets the chosen fields of the request, what `X-Forwarded-Method`,
    /// `-Proto`, `-Host`, `-Uri` and `-For` say (the client's own address, its method and target as they are by then),
    /// and no body. A status of 2xx lets the request go on. Any other one is what the client gets, with the chosen
    /// fields and the body of the response: 401 with `WWW-Authenticate`, 302 with `Location`. gRPC calls get a
    /// status of their own form. Where there is no response, or not in time, the client gets 503.
    pub struct ForwardAuth {
        /// The upstream that is asked: the service's connections, TLS and balancing are configured there.
        pub upstream: UpstreamId = required(upstream_name()),
        /// The path that is asked for there, and a query if there is one.
        pub path: String = default("/", text(TARGET, parse_target)),
        /// The method that is asked with.
        pub method: Method = default("GET", words(&METHODS)),
        /// The fields of the request that the service sees.
        pub request_headers: Vec<HeaderName> =
            default("[Authorization, Cookie]", names(request_header())),
        /// The fields of a response of 2xx that the upstream sees. What clients send in them is removed: `Authorization`
        /// and `Cookie` where this policy is in force, others on all routes.
        pub upstream_headers: Vec<HeaderName> = default("[]", names(request_header())),
        /// The fields of any other answer that the client sees, besides those that say what its body is.
        pub response_headers: Vec<HeaderName> = default(
            "[WWW-Authenticate, Location, Set-Cookie, Cache-Control]",
            names(answer_header()),
        ),
        /// How long all of it may take, connecting and trying another endpoint included.
        pub timeout: Duration = default("5s", duration(SHORTEST..=LONGEST)),
        /// The largest body of a response that clients see; beyond it they get 503. Those of 2xx nobody sees.
        pub body_limit: ByteSize = default("64KiB", size(0..=MAX_BODY)),
        /// Whether decisions are remembered, consents and refusals.
        pub cache: Option<AuthCache> = optional("each request is asked about", section_of::<AuthCache>()),
    }
}

section! {
    "auth_cache", "remembered decisions", Any;
    /// Decisions of a service that are used again, by each worker for itself. A right that is revoked counts until its decision is
    /// forgotten: `ttl` is how long that takes at most. `Cache-Control` of the service shortens it (`max-age`, `s-maxage`) or keeps it
    /// from being remembered (`no-store`, `no-cache`, `private`). Never remembered are responses with `Set-Cookie`, 408, 425, 429, 5xx
    /// and those that are larger than 4 KiB.
    pub struct AuthCache {
        /// How long a decision is used at most.
        pub ttl: Duration = required(duration(SECOND..=HOUR)),
        /// What a decision that lets a request pass depends on: requests that are alike in all of this get the same one. A
        /// refusal may name the page that was asked for, and is for requests that the service sees alike in everything.
        /// Words are `method`, `scheme`, `host`, `path`, `query` and `client_address`; fields are
        /// `{ header: Authorization }`, and each field of `request_headers` has to be here. What else the service looks at
        /// has to be here too, or somebody gets what was decided for somebody else.
        pub key: Option<Vec<AuthKey>> =
            optional("all that the service sees", one_or_list(auth_key(), 1..=MAX_CLAIMS)),
        /// How many decisions that let requests pass each worker remembers, and how many others, of at most 4 KiB each. The
        /// oldest of its kind makes room.
        pub capacity: u32 = default("1024", whole(1..=65_536)),
    }
}

/// What of a request a decision depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthKey {
    /// Its method.
    Method,
    /// Whether it came over TLS.
    Scheme,
    /// Its host.
    Host,
    /// Its path.
    Path,
    /// Its query.
    Query,
    /// The address of its client.
    ClientAddress,
    /// The values of that field.
    Header(HeaderName),
}

section! {
    "auth_key", "a part of what a decision depends on", Any;
    /// A header field on which a decision depends.
    pub(crate) struct AuthKeyFields {
        /// Its name, one of `request_headers`.
        pub(crate) header: HeaderName = required(request_header()),
    }
}

fn auth_key() -> impl Read<Value = AuthKey> {
    let words = [
        ("method", AuthKey::Method),
        ("scheme", AuthKey::Scheme),
        ("host", AuthKey::Host),
        ("path", AuthKey::Path),
        ("query", AuthKey::Query),
        ("client_address", AuthKey::ClientAddress),
    ];
    words_or(&words, section_of::<AuthKeyFields>().map(|fields| AuthKey::Header(fields.header)))
}

/// Whether decisions are remembered by what they depend on, and by nothing else.
fn check(forward: ForwardAuth, node: &Node, to: &mut Reading<'_>) -> Option<ForwardAuth> {
    let Some(key) = forward.cache.as_ref().and_then(|cache| cache.key.as_ref()) else {
        return Some(forward);
    };
    let span = node.entry("cache").map_or(node.span, |entry| entry.value.key_span("key"));
    let fields = || key.iter().filter_map(AuthKey::header);
    for name in fields().filter(|name| !forward.request_headers.contains(name)) {
        let message = format!("no decision depends on `{}`", name.as_str());
        let error = Diagnostic::error(span, message);
        to.add(
            error
                .label("the service does not see that field")
                .help("name it in `request_headers` too"),
        );
    }
    for name in forward.request_headers.iter().filter(|sent| !fields().any(|name| name == *sent)) {
        let name = name.as_str();
        let message = format!("requests that differ in `{name}` would share a decision");
        let error = Diagnostic::error(span, message);
        let error = error.label("the service sees that field, and `key` leaves it out");
        to.add(error.help(format!(
            "add `{{ header: {name} }}` to `key`, or list in `request_headers` only what the service looks at"
        )));
    }
    if forward.request_headers.is_empty() && !key.contains(&AuthKey::ClientAddress) {
        let warning = Diagnostic::warning(span, "every client gets the decision of the first one");
        let warning = warning.label("nothing here tells clients apart");
        to.add(warning.help("add `client_address`, or a field of `request_headers`"));
    }
    Some(forward)
}

impl AuthKey {
    /// The name of the field that it is.
    fn header(&self) -> Option<&HeaderName> {
        match self {
            AuthKey::Header(name) => Some(name),
            AuthKey::Method
            | AuthKey::Scheme
            | AuthKey::Host
            | AuthKey::Path
            | AuthKey::Query
            | AuthKey::ClientAddress => None,
        }
    }
}

/// As messages call it.
impl fmt::Display for AuthKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AuthKey::Method => "method",
            AuthKey::Scheme => "scheme",
            AuthKey::Host => "host",
            AuthKey::Path => "path",
            AuthKey::Query => "query",
            AuthKey::ClientAddress => "client address",
            AuthKey::Header(name) => name.as_str(),
        })
    }
}

impl ForwardAuth {
    /// The fields that tell upstreams of who asks, and that are not for clients to send anywhere.
    pub(super) fn told_fields(&self) -> impl Iterator<Item = &HeaderName> {
        self.upstream_headers.iter().filter(|name| {
            let id = FieldName::of(name.as_str().as_bytes());
            !matches!(id, FieldName::Authorization | FieldName::Cookie)
        })
    }
}

pub(super) fn forward_auth() -> impl Read<Value = Box<ForwardAuth>> {
    section_of::<ForwardAuth>().then(check).map(Box::new)
}

/// Names of fields, each once.
fn names(name: impl Read<Value = HeaderName>) -> impl Read<Value = Vec<HeaderName>> {
    one_or_list(name, 0..=MAX_CLAIMS).map(|names| {
        let mut distinct = Vec::with_capacity(names.len());
        for name in names {
            if !distinct.contains(&name) {
                distinct.push(name);
            }
        }
        distinct
    })
}

const METHODS: [(&str, Method); 3] =
    [("GET", Method::GET), ("HEAD", Method::HEAD), ("POST", Method::POST)];
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(60);
/// A body is in memory as a whole.
const MAX_BODY: u64 = 1 << 20;
const TARGET: TextShape = TextShape {
    what: "a path to ask for",
    examples: "`/verify` or `/verify?realm=a`",
    pattern: Some("^/"),
    max: MAX_PATH,
};

fn parse_target(text: &str) -> Result<String, Problem> {
    match text {
        text if !text.starts_with('/') => Err(Problem::new("it does not start with `/`")),
        text if !text.bytes().all(is_target_byte) => {
            Err(Problem::new("it has characters that no path may have").help("`%20` is a space"))
        }
        text => Ok(text.to_owned()),
    }
}
