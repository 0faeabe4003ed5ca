//! HTTPRoute and GRPCRoute: they differ in what they match alone.

use super::meta::Object;
use serde::Deserialize;
use serde_json::{Map, Value};

/// A route for HTTP.
pub type HttpRoute = Object<RouteSpec<HttpMatch>>;

/// A route for gRPC.
pub type GrpcRoute = Object<RouteSpec<GrpcMatch>>;

/// A route for connections with TLS: it matches nothing but hosts.
pub type TlsRoute = Object<RouteSpec<()>>;

/// A route for connections, which matches nothing.
pub type TcpRoute = Object<RouteSpec<()>>;

/// What a route does with which requests.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase", bound = "M: Deserialize<'de> + Default")]
pub struct RouteSpec<M> {
    /// What it attaches to.
    pub parent_refs: Vec<ParentRef>,
    /// The hosts that it is for; none: those of the listeners.
    pub hostnames: Vec<String>,
    /// What it does.
    pub rules: Vec<Rule<M>>,
}

/// A gateway, a listener of it, or something else that routes attach to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ParentRef {
    /// Its group; none: that of Gateway API.
    pub group: Option<String>,
    /// Its kind; none: `Gateway`.
    pub kind: Option<String>,
    /// Its namespace; none: that of the route.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// The listener's name; none: all of them.
    pub section_name: Option<String>,
    /// The listener's port; none: all of them.
    pub port: Option<u16>,
}

/// What is done with some requests.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase", bound = "M: Deserialize<'de> + Default")]
pub struct Rule<M> {
    /// Its name.
    pub name: Option<String>,
    /// One of these has to match; none: all requests do.
    pub matches: Vec<M>,
    /// What happens on the way.
    pub filters: Vec<Filter>,
    /// Who serves them.
    pub backend_refs: Vec<BackendRef>,
    /// How long it may take.
    pub timeouts: Option<Timeouts>,
    /// What is tried again.
    pub retry: Option<Retry>,
    /// Ties clients to pods.
    pub session_persistence: Option<Value>,
    /// What Gateway API has no words for: Ingresses ask for it.
    #[serde(skip)]
    pub more: More,
}

/// What Gateway API has no words for, in those of Titan's configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct More {
    /// What the names of its policies begin with: rules with the same one have them in common.
    pub scope: String,
    /// Fields of routes with an upstream.
    pub fields: Map<String, Value>,
    /// Policies, by their type.
    pub policies: Map<String, Value>,
    /// A service that decides about requests.
    pub auth: Option<AuthService>,
    /// How pods are chosen.
    pub balance: Option<Value>,
    /// A response in place of that of a backend: the fields of the route.
    pub respond: Option<Value>,
}

/// A service that decides about requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AuthService {
    /// Its host and port.
    pub endpoint: String,
    /// Whether it is asked over TLS.
    pub has_tls: bool,
    /// How it is asked.
    pub policy: Value,
}

/// What an HTTP request has to be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HttpMatch {
    /// Its path; none: all below `/`.
    pub path: Option<PathMatch>,
    /// Its header fields; all have to match.
    pub headers: Vec<ValueMatch>,
    /// Its query parameters; all have to match.
    pub query_params: Vec<ValueMatch>,
    /// Its method.
    pub method: Option<String>,
}

/// A condition on a path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PathMatch {
    /// `PathPrefix`, the default, `Exact` or `RegularExpression`.
    #[serde(rename = "type")]
    pub of_type: Option<String>,
    /// The path; none: `/`.
    pub value: Option<String>,
}

/// A condition on a header field or a parameter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ValueMatch {
    /// `Exact`, the default, or `RegularExpression`.
    #[serde(rename = "type")]
    pub of_type: Option<String>,
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// What a gRPC call has to be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct GrpcMatch {
    /// Its method; none: all.
    pub method: Option<GrpcMethod>,
    /// Its header fields; all have to match.
    pub headers: Vec<ValueMatch>,
}

/// A service, a method, or both.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct GrpcMethod {
    /// `Exact`, the default, or `RegularExpression`.
    #[serde(rename = "type")]
    pub of_type: Option<String>,
    /// The service.
    pub service: Option<String>,
    /// The method.
    pub method: Option<String>,
}

/// What happens on the way. The field that `of_type` names is there.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Filter {
    /// Which one it is.
    #[serde(rename = "type")]
    pub of_type: String,
    /// `RequestHeaderModifier`.
    pub request_header_modifier: Option<HeaderChanges>,
    /// `ResponseHeaderModifier`.
    pub response_header_modifier: Option<HeaderChanges>,
    /// `RequestMirror`.
    pub request_mirror: Option<Mirror>,
    /// `RequestRedirect`.
    pub request_redirect: Option<Redirect>,
    /// `URLRewrite`.
    pub url_rewrite: Option<Rewrite>,
    /// `CORS`.
    pub cors: Option<Cors>,
}

/// How header fields change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct HeaderChanges {
    /// Take the place of fields of their name.
    pub set: Vec<NameValue>,
    /// Come beside them.
    pub add: Vec<NameValue>,
    /// Go away.
    pub remove: Vec<String>,
}

/// A header field.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct NameValue {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// Copies requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Mirror {
    /// Who gets the copies.
    pub backend_ref: ReferenceTo,
    /// The share in percent.
    pub percent: Option<u32>,
    /// The share as a fraction.
    pub fraction: Option<Fraction>,
}

/// A part of a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Fraction {
    /// The part.
    pub numerator: u32,
    /// The whole; none: 100.
    pub denominator: Option<u32>,
}

/// Redirects the client. What is not given stays as it was.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Redirect {
    /// `http` or `https`.
    pub scheme: Option<String>,
    /// The host.
    pub hostname: Option<String>,
    /// The path.
    pub path: Option<PathModifier>,
    /// The port; with a scheme alone, that of the scheme.
    pub port: Option<u16>,
    /// The status; none: 302.
    pub status_code: Option<u16>,
}

/// How a path changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PathModifier {
    /// `ReplaceFullPath` or `ReplacePrefixMatch`.
    #[serde(rename = "type")]
    pub of_type: String,
    /// For the first.
    pub replace_full_path: Option<String>,
    /// For the second.
    pub replace_prefix_match: Option<String>,
}

/// What the upstream gets in place of what the client sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Rewrite {
    /// The host.
    pub hostname: Option<String>,
    /// The path.
    pub path: Option<PathModifier>,
}

/// Which pages of other origins may read responses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Cors {
    /// The origins.
    pub allow_origins: Vec<String>,
    /// Whether browsers send cookies.
    pub allow_credentials: Option<bool>,
    /// The methods.
    pub allow_methods: Vec<String>,
    /// The header fields of requests.
    pub allow_headers: Vec<String>,
    /// Those of responses.
    pub expose_headers: Vec<String>,
    /// In seconds; none: 5.
    pub max_age: Option<u32>,
}

/// How long a request may take: durations such as `1m30s`; `0s` for as long as it takes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Timeouts {
    /// The whole request.
    pub request: Option<String>,
    /// One attempt.
    pub backend_request: Option<String>,
}

/// What is tried again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Retry {
    /// Statuses.
    pub codes: Vec<u16>,
    /// How often.
    pub attempts: Option<u32>,
    /// The pause before.
    pub backoff: Option<String>,
}

/// Names an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ReferenceTo {
    /// Its group; none: what is usual there.
    pub group: Option<String>,
    /// Its kind; none: what is usual there.
    pub kind: Option<String>,
    /// Its namespace; none: that of who names it.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// A port of it.
    pub port: Option<u16>,
}

/// Who serves requests.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct BackendRef {
    /// The object.
    #[serde(flatten)]
    pub to: ReferenceTo,
    /// Its share relative to the others; none: 1.
    pub weight: Option<u32>,
    /// What happens on the way to it.
    pub filters: Vec<Filter>,
}
