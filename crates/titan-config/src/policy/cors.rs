//! Cross-origin resource sharing (the Fetch standard): which pages may read responses.

use super::section::PolicySection;
use crate::bounds::{MAX_METHODS, MAX_ORIGINS, MAX_TOKEN, MAX_VALUE};
use crate::diagnostic::Diagnostic;
use crate::method::method;
use crate::node::Node;
use crate::problem::Problem;
use crate::read::{Read, Reading, default, optional, required};
use crate::readers::{boolean, duration, one_or_list, text, text_or, word_or, words_or};
use crate::section::{section, section_of};
use crate::shape::{Shape, TextShape};
use crate::timeouts::DAY;
use crate::token::{HEADER_NAME, HeaderName, Pattern, parse_header_name, pattern};
use std::time::Duration;
use titan_http::Method;

section! {
    "cors", "a CORS policy", Any;
    /// Which pages of other origins may read responses. The gateway responds to preflight requests itself, before any
    /// other policy, with 403 if the page is not allowed. It removes an upstream's own `Access-Control-` fields; its own
    /// responses, including errors, carry these fields too. If the file as a whole applies the policy, so do responses
    /// without a route (404, 405, 400, 431). It then also responds to preflight requests that no route matches, so that
    /// the page can see the 404 or 405, unless a route of that host and path has another policy or none.
    pub(crate) struct CorsFields {
        /// The origins of the pages: `https://app.example.com`, `https://*.example.com` for one or more labels in
        /// front, `*` for every page, or `{ regex: ... }`, which must match the whole origin.
        pub(crate) origins: Vec<CorsOrigin> = required(one_or_list(origin(), 1..=MAX_ORIGINS)),
        /// The methods that pages may use; `"*"` for any.
        pub(crate) methods: Option<CorsMethods> = optional("`[GET, HEAD, POST]`", methods()),
        /// The header fields that pages may send, besides those that need no permission; `*` for any.
        pub(crate) headers: CorsHeaders = default("[]", headers()),
        /// The header fields of responses that pages may read, besides those that need no permission; `"*"` for any,
        /// without `credentials`.
        pub(crate) expose: Vec<HeaderName> = default("[]", one_or_list(header_name(), 0..=MAX_METHODS)),
        /// Whether browsers send cookies and certificates. Never with `origins: "*"`.
        pub(crate) credentials: bool = default("false", boolean()),
        /// How long a browser may cache the response to a preflight request.
        pub(crate) max_age: Duration = default("10m", duration(Duration::ZERO..=DAY)),
        /// Whether pages of public networks may send requests although this gateway is in a private one.
        pub(crate) private_network: bool = default("false", boolean()),
        /// Whether to refuse a WebSocket handshake with 403 if it comes from a page of another origin that `origins`
        /// does not name. Browsers do not ask permission for a WebSocket, and send cookies with its handshake whatever
        /// `credentials` says (cross-site WebSocket hijacking): turn it on wherever cookies identify users. Pages of
        /// the gateway's own origin may open WebSockets, and so may clients that send no `Origin`, which are not
        /// browsers. Behind a proxy that terminates TLS, the gateway knows its own origin if that proxy is in
        /// `forwarding.trusted_proxies` and sends `X-Forwarded-Proto`, or `proto` in `Forwarded` if that is its
        /// `trusted_field`; otherwise name it in `origins`. Never with `origins: "*"`.
        pub(crate) websockets: Option<bool> = optional("the value of `credentials`", boolean()),
    }
}

/// A CORS policy, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cors {
    /// At least one. No `Any` together with credentials.
    pub origins: Vec<CorsOrigin>,
    /// The methods that pages may use.
    pub methods: CorsMethods,
    /// The fields that pages may send.
    pub headers: CorsHeaders,
    /// The fields of responses that pages may read.
    pub expose: Vec<HeaderName>,
    /// Whether browsers send cookies and certificates along.
    pub credentials: bool,
    /// How long the response to a preflight request may be remembered.
    pub max_age: Duration,
    /// Whether pages of public networks may ask.
    pub private_network: bool,
    /// Whether handshakes of WebSockets are judged by their origin, too.
    pub websockets: bool,
}

/// Pages that may ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CorsOrigin {
    /// Every page there is.
    Any,
    /// Those of exactly this origin.
    Exact(String),
    /// Those below a domain: what stands before the labels, and what stands behind them.
    Below {
        /// The scheme with `://`.
        before: String,
        /// The domain with the dot in front, and the port where there is one.
        behind: String,
    },
    /// Those whose whole origin the expression matches.
    Regex(Pattern),
}

/// Methods that pages may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CorsMethods {
    /// Any.
    Any,
    /// These.
    These(Vec<Method>),
}

/// Fields that pages may send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CorsHeaders {
    /// Any.
    Any,
    /// These.
    These(Vec<HeaderName>),
}

section! {
    "cors_origin", "an origin", One;
    /// Origins that match an expression.
    pub(crate) struct OriginFields {
        /// Must match the whole origin (syntax of the Rust `regex` crate).
        pub(crate) regex: Option<Pattern> = optional("", pattern()),
    }
}

const ORIGIN: TextShape = TextShape {
    what: "an origin",
    examples: "`https://app.example.com` or `https://*.example.com`",
    pattern: None,
    max: MAX_VALUE,
};

impl PolicySection for Cors {}

pub(super) fn policy() -> impl Read<Value = Cors> {
    section_of::<CorsFields>().then(check)
}

fn check(fields: CorsFields, node: &Node, to: &mut Reading<'_>) -> Option<Cors> {
    let CorsFields {
        origins,
        methods,
        headers,
        expose,
        credentials,
        max_age,
        private_network,
        websockets,
    } = fields;
    let is_for_all = origins.contains(&CorsOrigin::Any);
    if credentials && is_for_all {
        let message = "every page on the web could act with its visitor's credentials";
        let error = Diagnostic::error(node.key_span("credentials"), message);
        let error = error.label("cannot be combined with `origins: \"*\"`");
        return to
            .fail(error.also(node.key_span("origins"), "any origin").help("list the origins"));
    }
    if websockets == Some(true) && is_for_all {
        let message = "pages of every origin may open WebSockets";
        let error = Diagnostic::error(node.key_span("websockets"), message);
        let error = error.label("has no effect with `origins: \"*\"`");
        return to
            .fail(error.also(node.key_span("origins"), "any origin").help("list the origins"));
    }
    if let Some(CorsMethods::These(these)) = &methods
        && these.iter().any(|method| method.as_str() == "*")
    {
        let error = Diagnostic::error(node.key_span("methods"), "there is no method `*`");
        return to.fail(error.label("list each method that pages may use, or say `\"*\"` alone"));
    }
    if credentials && expose.iter().any(|name| name.as_str() == "*") {
        let message = "with credentials, browsers do not treat `*` as a wildcard";
        let error = Diagnostic::error(node.key_span("expose"), message);
        let error = error.also(node.key_span("credentials"), "credentials are allowed here");
        return to.fail(error.help("list the headers"));
    }
    let usual = || CorsMethods::These(vec![Method::GET, Method::HEAD, Method::POST]);
    let methods = methods.unwrap_or_else(usual);
    let websockets = websockets.unwrap_or(credentials);
    Some(Cors {
        origins,
        methods,
        headers,
        expose,
        credentials,
        max_age,
        private_network,
        websockets,
    })
}

fn origin() -> impl Read<Value = CorsOrigin> {
    let regex = section_of::<OriginFields>().then(|OriginFields { regex }, _, _| regex?.whole());
    let one = text_or(text(ORIGIN, parse_origin), regex.map(CorsOrigin::Regex));
    word_or("*", CorsOrigin::Any, one)
}

fn parse_origin(text: &str) -> Result<CorsOrigin, Problem> {
    if text == "null" {
        return Err(Problem::new("any page can have the origin `null`"));
    }
    let (scheme, host) = text.split_once("://").ok_or_else(|| Problem::new("it has no scheme"))?;
    let is_lower = |text: &str| !text.chars().any(|c| c.is_ascii_uppercase());
    if scheme.is_empty() || !scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    {
        return Err(Problem::new("its scheme is malformed"));
    }
    if !is_lower(text) {
        return Err(Problem::new("browsers send origins in lower case"));
    }
    let (is_below, domain) = match host.strip_prefix("*.") {
        Some(domain) => (true, domain),
        None => (false, host),
    };
    if titan_http::Authority::parse(domain.as_bytes()).is_err() || domain.contains('*') {
        return Err(Problem::new("a host must follow the scheme, with or without a port"));
    }
    let usual = [("https", ":443"), ("http", ":80")];
    if usual.iter().any(|(known, port)| scheme == *known && domain.ends_with(port)) {
        return Err(Problem::new("browsers leave out the default port"));
    }
    Ok(match is_below {
        true => CorsOrigin::Below { before: format!("{scheme}://"), behind: format!(".{domain}") },
        false => CorsOrigin::Exact(text.to_owned()),
    })
}

fn methods() -> impl Read<Value = CorsMethods> {
    let these = one_or_list(method(), 1..=MAX_METHODS).map(CorsMethods::These);
    words_or(&[("*", CorsMethods::Any)], these)
}

fn headers() -> impl Read<Value = CorsHeaders> {
    let these = one_or_list(header_name(), 0..=MAX_TOKEN).map(CorsHeaders::These);
    words_or(&[("*", CorsHeaders::Any)], these)
}

fn header_name() -> impl Read<Value = HeaderName> {
    text(HEADER_NAME, parse_header_name).shaped(Shape::Caseless)
}
