//! Transforms: changes to requests on their way to upstreams, and to responses on their way back.

mod changes;
mod cookies;
mod path_rule;
mod value;

pub use changes::Changes;
pub use cookies::{CookieDomain, CookieRule};
pub use path_rule::{PathPiece, PathRule, ValueRule};
pub(crate) use value::{Part, body_template, split};
pub use value::{ValuePiece, ValueTemplate};

use super::rule::{Rule, RulePart, response_rule, rule};
use super::section::PolicySection;
use crate::bounds::{MAX_COOKIE_RULES, MAX_PATH_RULES, MAX_STATUSES};
use crate::diagnostic::Diagnostic;
use crate::header::{REQUEST_HEADER, RESPONSE_HEADER, parse_request_header, parse_response_header};
use crate::location::Span;
use crate::node::Node;
use crate::path::PathPattern;
use crate::policy::Policy;
use crate::problem::Problem;
use crate::read::{Read, Reading, default, optional};
use crate::readers::{Named, boolean, mapping, one_or_list, whole};
use crate::section::{section, section_of};
use crate::shape::TextShape;
use crate::status::needed_field;
use crate::token::HeaderName;
use changes::{query_changes, request_headers, response_headers, values};
use cookies::cookie_rule;
use path_rule::{path_rule, value_rule};
use titan_http::Status;

section! {
    "transform", "a transform", Any;
    /// Changes requests on their way to upstreams, and responses on their way back: those of upstreams and the
    /// gateway's own, including errors, but not for requests that no route matches. Interim responses, trailers and
    /// bodies stay as they are. A value can contain variables in braces: `{method}`, `{scheme}` of the connection,
    /// `{host}`, `{path}`, `{query}` with its `?` or empty, `{client}` (its address), `{request_id}`, `{route}` (its
    /// name), `{header:X-Name}`, `{param:name}` of the query, `{claim:name}` of the token by name or JSON pointer,
    /// which needs a policy `jwt`, and any other name for a parameter of the route's path; `{{` and `}}` are braces.
    /// All are those of the request before the transform, and parts of the path or the query stay percent-encoded. A
    /// value that comes out empty sets nothing, and one of more than 16 KiB is refused with 400.
    pub struct Transform {
        /// How requests change.
        pub request: Box<RequestTransform> =
            default("{}", section_of::<RequestTransform>().map(Box::new)),
        /// How responses change.
        pub response: Box<ResponseTransform> =
            default("{}", section_of::<ResponseTransform>().then(check_statuses).map(Box::new)),
    }
}

section! {
    "request_transform", "a request transform", Any;
    /// How requests change: first the path, then the query, then the header fields.
    pub struct RequestTransform {
        /// An expression (CEL, as in `authorise.rules`): only requests for which it is true are changed. It sees the
        /// request before the transform. If it is false, fields that `headers` would set stay as clients sent them. If
        /// it uses something absent, such as a field, it counts as false. Any other error, such as a loop over more
        /// than 256 parameters or `int` of something that is not a number, refuses the request with 400
        /// (`bad-transform`): otherwise clients could switch off the removal of their fields.
        pub when: Option<Rule> = optional("always", rule()),
        /// Rules for the path in its normal form; the first that matches is applied. Not on a route with `rewrite`. The
        /// result is brought into normal form, or refused with 400.
        pub path: Vec<PathRule> = default("[]", one_or_list(path_rule(), 0..=MAX_PATH_RULES)),
        /// How the query parameters change. Names are compared decoded.
        pub query: Changes<String> = default("{}", query_changes()),
        /// How the header fields change.
        pub headers: Changes<HeaderName> = default("{}", request_headers()),
        /// Header fields whose values an expression changes, after `headers`.
        pub replace: Vec<(HeaderName, ValueRule)> =
            default("{}", values(REQUEST_HEADER, parse_request_header, value_rule())),
    }
}

section! {
    "response_transform", "a response transform", Any;
    /// How responses change: first the status, then `security`, `headers`, `replace` and `cookies`.
    pub struct ResponseTransform {
        /// An expression: only responses for which it is true are changed. It sees what those for requests see, with
        /// the request as it was before the transform, and `response.status` before `status` changes it. If a request
        /// was refused before it reached the transform, only the status is known, and an expression that uses more is
        /// false.
        pub when: Option<Rule> = optional("always", response_rule()),
        /// Statuses to replace with others, as in `{ 404: 410 }`. Not those that decide how a response is framed: 1xx,
        /// 204, 205, 206 and 304. Problem documents of the gateway show the new one. Fields that only mean something
        /// with the old one are removed, unless `headers` sets them: `WWW-Authenticate` and `Proxy-Authenticate`,
        /// `Retry-After`, `Allow`, `Location`, and `Content-Range`. A status that needs such a field is an error unless
        /// `headers` gives it a value that is never empty (RFC 9110): 401 `WWW-Authenticate`, 405 `Allow`. 407 and 426
        /// are not possible.
        pub status: Vec<(Status, Status)> = default("{}", statuses()),
        /// Whether responses get these fields if they have none of that name: `X-Content-Type-Options: nosniff`,
        /// `X-Frame-Options: DENY`, `Content-Security-Policy: frame-ancestors 'none'`,
        /// `Referrer-Policy: strict-origin-when-cross-origin`, `Cross-Origin-Opener-Policy: same-origin`,
        /// `Cross-Origin-Resource-Policy: same-origin`, `X-Permitted-Cross-Domain-Policies: none` and
        /// `Permissions-Policy: camera=(), geolocation=(), microphone=()`.
        pub security: bool = default("false", boolean()),
        /// How the header fields change.
        pub headers: Changes<HeaderName> = default("{}", response_headers()),
        /// Header fields whose values an expression changes, after `headers`.
        pub replace: Vec<(HeaderName, ValueRule)> =
            default("{}", values(RESPONSE_HEADER, parse_response_header, value_rule())),
        /// How the attributes of cookies change, including cookies that `headers` sets and the gateway's own. If
        /// several rules name a cookie, the first one counts.
        pub cookies: Vec<CookieRule> = default("[]", one_or_list(cookie_rule(), 0..=MAX_COOKIE_RULES)),
    }
}

impl PolicySection for Transform {
    fn changed_fields(&self) -> Vec<&HeaderName> {
        let headers = &self.request.headers;
        let renamed = headers.rename.iter().flat_map(|(from, to)| [from, to]);
        let given = headers.given().map(|(name, _)| name);
        let replaced = self.request.replace.iter().map(|(name, _)| name);
        headers.remove.iter().chain(renamed).chain(given).chain(replaced).collect()
    }

    fn request_fields(&self) -> Vec<&HeaderName> {
        let of_conditions = self.conditions().flat_map(Rule::headers);
        let of_values = self.values().flat_map(ValueTemplate::headers);
        self.changed_fields().into_iter().chain(of_values).chain(of_conditions).collect()
    }
}

impl Transform {
    /// Every value that is put together.
    pub(crate) fn values(&self) -> impl Iterator<Item = &ValueTemplate> {
        let Transform { request, response } = self;
        let headers = request.headers.values().chain(response.headers.values());
        headers.chain(request.query.values())
    }

    /// The parameters of paths that it names.
    fn params(&self) -> impl Iterator<Item = &str> {
        self.values().flat_map(ValueTemplate::params)
    }

    /// Whether it uses claims of tokens.
    fn needs_token(&self) -> bool {
        let mut conditions = self.conditions();
        self.values().any(ValueTemplate::needs_token)
            || conditions.any(|rule| rule.reads(RulePart::Claims))
    }

    /// What decides whether something is changed.
    pub(crate) fn conditions(&self) -> impl Iterator<Item = &Rule> {
        self.request.when.iter().chain(&self.response.when)
    }

    /// Whether it is not the same for every route.
    pub fn depends_on_route(&self) -> bool {
        let is_of_route =
            |piece: &ValuePiece| matches!(piece, ValuePiece::Param(_) | ValuePiece::Route);
        self.values().any(|value| value.pieces.iter().any(is_of_route))
    }
}

/// Whether a route with that path can use the transform.
pub(crate) fn check_use(
    named: (&str, &Policy),
    path: &PathPattern,
    (rewrites, has_tokens): (bool, bool),
    place: Span,
    to: &mut Reading<'_>,
) {
    let (name, Policy::Transform(transform)) = named else { return };
    if transform.needs_token() && !has_tokens {
        let message =
            format!("the transform `{name}` uses token claims, but no policy checks tokens");
        let error = Diagnostic::error(place, message).label("no `jwt` policy applies here");
        to.add(error.help("apply one to this route, or remove the transform with `without`"));
    }
    for wanted in transform.params().filter(|wanted| path.params().all(|it| it != *wanted)) {
        let message = format!("there is no variable `{{{wanted}}}` for the transform `{name}`");
        let error = Diagnostic::error(place, message);
        let error = error.label("the path of this route has no such parameter");
        to.add(error.help(format!(
            "remove `transform` with `without`, or use a path such as `/{{{wanted}}}`"
        )));
    }
    if rewrites && !transform.request.path.is_empty() {
        let error = Diagnostic::error(place, "two rules rewrite the path of this route");
        let error = error.label(format!("the route's `rewrite` and the transform `{name}`"));
        to.add(error.help("remove one of them, or remove the transform with `without`"));
    }
}

pub(super) fn policy() -> impl Read<Value = Transform> {
    section_of::<Transform>()
}

const STATUS: TextShape = TextShape {
    what: "a status that can be replaced",
    examples: "`404`",
    pattern: Some("^[2-5][0-9][0-9]$"),
    max: 3,
};

fn statuses() -> impl Read<Value = Vec<(Status, Status)>> {
    let to = whole::<u16>(200..=599).then(|code, node, to| match plain_status(code) {
        Ok(status) => Some(status),
        Err(problem) => {
            let error =
                Diagnostic::error(node.span, format!("{code} cannot replace another status"));
            to.fail(error.label(problem.reason))
        }
    });
    mapping(STATUS, parse_status, to, 0..=MAX_STATUSES)
        .map(|named| named.into_iter().map(|Named { key, value, .. }| (key, value)).collect())
}

/// A status that means nothing without a certain field needs the transform to give it that: the response had another one.
fn check_statuses(
    transform: ResponseTransform,
    node: &Node,
    to: &mut Reading<'_>,
) -> Option<ResponseTransform> {
    let lacking = transform.status.iter().find_map(|(from, status)| {
        let needed = needed_field(*status).filter(|_| from != status)?;
        (!transform.gives(needed.0)).then_some((*status, needed))
    });
    let Some((status, (name, section, example))) = lacking else { return Some(transform) };
    let message = format!("a response with status {status} needs the header {name}");
    let error = Diagnostic::error(node.key_span("status"), message);
    let example = example.filter(|_| parse_response_header(name).is_ok());
    let help = match example {
        Some(example) => {
            format!("add `headers: {{ set: {{ {name}: '{example}' }} }}`, or choose another status")
        }
        None => "choose another status: the gateway sets this header itself".to_owned(),
    };
    to.fail(error.label(format!("RFC 9110 section {section}")).help(help))
}

impl ResponseTransform {
    /// Whether responses have a field of that name whatever the request is.
    fn gives(&self, name: &str) -> bool {
        let is_certain = |value: &ValueTemplate| {
            let is_said =
                |piece: &ValuePiece| matches!(piece, ValuePiece::Text(it) if !it.trim().is_empty());
            value.pieces.iter().any(is_said)
        };
        let mut given = self.headers.given();
        given.any(|(it, value)| it.as_str().eq_ignore_ascii_case(name) && is_certain(value))
    }
}

fn parse_status(text: &str) -> Result<Status, Problem> {
    let code = text.parse().ok().filter(|code| (200..=599).contains(code));
    plain_status(code.ok_or_else(|| Problem::new("it is not between 200 and 599"))?)
}

/// A status that says nothing of how the message is framed, nor which part of the content it has.
fn plain_status(code: u16) -> Result<Status, Problem> {
    match (code, Status::from_code(code)) {
        (204 | 205 | 206 | 304, _) | (_, None) => {
            Err(Problem::new("it determines how the response is framed"))
        }
        (_, Some(status)) => Ok(status),
    }
}
