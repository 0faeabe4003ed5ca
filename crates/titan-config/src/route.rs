//! Routes: which request gets which response.

use crate::concurrency::Importance;
use crate::condition::{CertificateMatch, HeaderMatch, QueryMatch};
use crate::error_pages::ErrorPages;
use crate::files::StaticFiles;
use crate::host::HostPattern;
use crate::listener_set::ListenerSet;
use crate::location::Location;
use crate::look_alikes::Paths;
use crate::mirror::Mirror;
use crate::path::PathPattern;
use crate::policy::Policies;
use crate::quantity::{ByteSize, Cap, Percent};
use crate::respond::{Redirect, Respond};
use crate::retries::Retries;
use crate::share::Share;
use crate::template::Template;
use crate::timeouts::RouteTimeouts;
use crate::token::{HeaderValue, Name, Token};
use std::sync::Arc;
use titan_http::Method;

/// A set of requests and what responds to them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Unique.
    pub name: Name,
    /// The hosts it serves; empty for any.
    pub hosts: Vec<HostPattern>,
    /// The paths it serves.
    pub path: PathPattern,
    /// The methods it serves; empty for any.
    pub methods: Vec<Method>,
    /// Whether GET in `methods` includes HEAD.
    pub head: bool,
    /// Conditions on header fields; all must hold.
    pub headers: Vec<HeaderMatch>,
    /// Conditions on query parameters; all must hold.
    pub query: Vec<QueryMatch>,
    /// Conditions on the client's certificate; all must hold.
    pub certificate: Vec<CertificateMatch>,
    /// The listeners whose requests it serves.
    pub listeners: ListenerSet,
    /// Decides between routes with the same host and path; the higher comes first.
    pub priority: i32,
    /// How much its requests matter when not all can be served.
    pub importance: Importance,
    /// The share of its requests that is traced, if it has one of its own.
    pub trace_share: Option<Percent>,
    /// How many bytes of each body the recorder keeps; none of most.
    pub record_bodies: ByteSize,
    /// The policies that its requests meet.
    pub policies: Policies,
    /// What happens to paths that some upstreams take for others.
    pub paths: Paths,
    /// Its own pages in place of problem documents, before those of the file.
    pub error_pages: ErrorPages,
    /// What is done.
    pub action: Action,
    /// Where the file says so.
    pub location: Location,
}

/// What a route does with a request. What serves requests shares it with the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// An upstream responds.
    Proxy(Arc<Proxy>),
    /// The client is sent elsewhere.
    Redirect(Redirect),
    /// The gateway responds.
    Respond(Arc<Respond>),
    /// The gateway responds with files.
    Files(Box<StaticFiles>),
}

/// How a request goes to an upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    /// The upstreams and their weights: at least one, and no weight is 0.
    pub shares: Vec<Share>,
    /// What happens to the path.
    pub rewrite: Option<Rewrite>,
    /// The Host that the upstream gets.
    pub send_host: SendHost,
    /// What happens after an attempt that has failed.
    pub retries: Arc<Retries>,
    /// How long for everything.
    pub timeouts: Arc<RouteTimeouts>,
    /// The largest request body.
    pub body_limit: Cap<ByteSize>,
    /// The largest request body that is held, so that it can be sent again.
    pub retry_body: Option<ByteSize>,
    /// The protocols that clients may switch to.
    pub upgrades: Arc<[Token]>,
    /// Whether gRPC-Web calls are translated.
    pub grpc_web: bool,
    /// Which requests are copied, and where to. Each has an upstream of its own, and at most one compares.
    pub mirrors: Box<[Mirror]>,
}

/// What happens to the path on its way to the upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rewrite {
    /// Takes the place of the route's prefix. Has no slash at its end; is empty when the prefix is only removed.
    Prefix(String),
    /// Takes the place of the whole path.
    Path(Template),
}

/// The Host that the upstream gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SendHost {
    /// The client's.
    Preserve,
    /// The endpoint's name or address.
    Endpoint,
    /// That one.
    Fixed(HeaderValue),
}
