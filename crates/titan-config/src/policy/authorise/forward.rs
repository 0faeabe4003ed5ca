//! Forward authentication: a service of the operator decides about requests.

use crate::bounds::MAX_CLAIMS;
use crate::diagnostic::Diagnostic;
use crate::header::{distinct_names, request_header, response_header};
use crate::node::Node;
use crate::quantity::ByteSize;
use crate::read::{Read, Reading, default, optional, required};
use crate::readers::{duration, one_or_list, size, whole, words, words_or};
use crate::section::{section, section_of};
use crate::target::target;
use crate::token::HeaderName;
use crate::upstream_id::{UpstreamId, upstream_name};
use std::fmt;
use std::time::Duration;
use titan_http::{FieldName, Method};

section! {
    "forward_auth", "external authorisation", Any;
    /// A service that decides about each request. It gets the chosen fields of the request and `X-Forwarded-Method`,
    /// `-Proto`, `-Host`, `-Uri` and `-For` (the client's own address; the method and target as they are at this
    /// point), and no body. A response of 2xx lets the request pass. Any other response goes to the client, with the
    /// chosen fields and its body: 401 with `WWW-Authenticate`, 302 with `Location`. gRPC calls get it as a gRPC
    /// status. If there is no response in time, the client gets 503.
    pub struct ForwardAuth {
        /// The upstream of the service, with its connections, TLS and balancing.
        pub upstream: UpstreamId = required(upstream_name()),
        /// The path of the request to it, and a query if there is one.
        pub path: String = default("/", target()),
        /// The method of the request to it.
        pub method: Method = default("GET", words(&METHODS)),
        /// The fields of the request that the service sees.
        pub request_headers: Vec<HeaderName> =
            default("[Authorization, Cookie]", distinct_names(request_header())),
        /// The fields of a 2xx response that the upstream sees. What clients send in them is removed: `Authorization`
        /// and `Cookie` where this policy applies, others on all routes.
        pub upstream_headers: Vec<HeaderName> = default("[]", distinct_names(request_header())),
        /// The fields of any other response that the client sees, besides those that describe its body.
        pub response_headers: Vec<HeaderName> = default(
            "[WWW-Authenticate, Location, Set-Cookie, Cache-Control]",
            distinct_names(response_header()),
        ),
        /// How long all of it may take, including connecting and trying another endpoint.
        pub timeout: Duration = default("5s", duration(SHORTEST..=LONGEST)),
        /// The largest response body to pass to clients; a larger one becomes 503. The body of a 2xx response is
        /// discarded.
        pub body_limit: ByteSize = default("64KiB", size(0..=MAX_BODY)),
        /// Whether to cache decisions, both to allow and to refuse.
        pub cache: Option<AuthCache> = optional("none: the service is called for every request", section_of::<AuthCache>()),
    }
}

section! {
    "auth_cache", "the decision cache", Any;
    /// Decisions of a service that are reused, by each worker separately. A revoked permission stays valid until its
    /// decision expires, for `ttl` at most. `Cache-Control` of the service shortens that (`max-age`, `s-maxage`) or
    /// prevents caching (`no-store`, `no-cache`, `private`). Responses with `Set-Cookie`, 408, 425, 429, 5xx and those
    /// larger than 4 KiB are never cached.
    pub struct AuthCache {
        /// How long a decision is used at most.
        pub ttl: Duration = required(duration(SECOND..=HOUR)),
        /// What a decision that allows a request depends on: requests that are equal in all of this share it. A refusal
        /// may name the requested page, so only requests that look the same to the service share one. Words are
        /// `method`, `scheme`, `host`, `path`, `query` and `client_address`; fields are `{ header: Authorization }`,
        /// and each field of `request_headers` must be here. Anything else that the service uses must be here too, or
        /// one client gets what was decided for another.
        pub key: Option<Vec<AuthKey>> =
            optional("everything that the service receives", one_or_list(auth_key(), 1..=MAX_CLAIMS)),
        /// How many decisions that allow requests each worker caches, and how many others, of at most 4 KiB each. The
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
    "auth_key", "a part of the cache key", Any;
    /// A header field that a decision depends on.
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
                .label("the gateway does not send this header to the service")
                .help("add it to `request_headers` too"),
        );
    }
    for name in forward.request_headers.iter().filter(|sent| !fields().any(|name| name == *sent)) {
        let name = name.as_str();
        let message = format!("requests that differ in `{name}` would share a decision");
        let error = Diagnostic::error(span, message);
        let error = error.label("the service receives this header, but `key` leaves it out");
        to.add(error.help(format!(
            "add `{{ header: {name} }}` to `key`, or list only the headers that the service uses \
                in `request_headers`"
        )));
    }
    if forward.request_headers.is_empty() && !key.contains(&AuthKey::ClientAddress) {
        let warning =
            Diagnostic::warning(span, "the decision about one client would apply to all clients");
        let warning = warning.label("the key does not distinguish clients");
        to.add(warning.help("add `client_address`, or a header from `request_headers`"));
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
    /// The fields that identify clients to upstreams, and that clients may not send on any route.
    pub(super) fn identity_fields(&self) -> impl Iterator<Item = &HeaderName> {
        self.upstream_headers.iter().filter(|name| {
            let id = FieldName::of(name.as_str().as_bytes());
            !matches!(id, FieldName::Authorization | FieldName::Cookie)
        })
    }
}

pub(super) fn forward_auth() -> impl Read<Value = Box<ForwardAuth>> {
    section_of::<ForwardAuth>().then(check).map(Box::new)
}

const METHODS: [(&str, Method); 3] =
    [("GET", Method::GET), ("HEAD", Method::HEAD), ("POST", Method::POST)];
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(60);
/// A body is in memory as a whole.
const MAX_BODY: u64 = 1 << 20;
