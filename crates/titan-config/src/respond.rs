//! The gateway's own responses: redirects and fixed responses.

use crate::body_template::{BodyTemplate, Escaping, stands_in_strings, stands_in_text};
use crate::bounds::{MAX_HEADERS, MAX_RESPONSE_BODY};
use crate::condition::refuse_same_name;
use crate::diagnostic::Diagnostic;
use crate::node::Node;
use crate::policy::{ValueTemplate, body_template};
use crate::problem::Problem;
use crate::read::{Read, Reading, default, optional, required};
use crate::readers::{Named, message_mapping, short_for, text, whole, words};
use crate::section::{exclude, section, section_of};
use crate::shape::TextShape;
use crate::status::needed_field;
use crate::template::{Template, TemplateText, location_template};
use crate::token::{HEADER_NAME, HeaderName, HeaderValue, header_value, parse_header_name};
use titan_http::{FieldName, Status};

/// Sends the client elsewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// The Location.
    pub to: Template,
    /// 301, 302, 303, 307 or 308.
    pub status: Status,
}

/// A response from the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Respond {
    /// 200 to 599.
    pub status: Status,
    /// What the body is made of for each request.
    pub template: Option<BodyTemplate>,
    /// Empty with 204, 205 and 304, and where there is a template.
    pub body: String,
    /// The Content-Type; `None` without a body.
    pub content_type: Option<HeaderValue>,
    /// Further fields; none of those that frame a message.
    pub headers: Vec<(HeaderName, HeaderValue)>,
}

section! {
    "redirect", "a redirect", Any;
    /// Redirects the client. A plain string sets `to` alone.
    pub(crate) struct RedirectFields {
        /// The Location of the response. `{host}`, `{path}` and `{query}` are those of the request, `{query}` with its
        /// `?` or empty; `{hostname}` is the host without its port, and `{rest}` what follows the route's `prefix` in
        /// the path: `https://{host}/new{rest}{query}`. Other names are parameters of the route's path, and a path
        /// parameter of the same name comes first. The host cannot have an `@` in front of it.
        pub(crate) to: TemplateText = required(location_template()),
        /// 307 and 308 keep the method; 301, 302 and 303 let clients change it to GET. Clients remember 301 and 308
        /// permanently.
        pub(crate) status: Status = default("308", words(&[
            ("301", Status::MOVED_PERMANENTLY),
            ("302", Status::FOUND),
            ("303", Status::SEE_OTHER),
            ("307", Status::TEMPORARY_REDIRECT),
            ("308", Status::PERMANENT_REDIRECT),
        ])),
    }
}

section! {
    "respond", "a response", Any;
    /// A response from the configuration. A plain number sets `status` alone.
    pub(crate) struct RespondFields {
        /// The status code. The fields that RFC 9110 requires with it must be in `headers`: WWW-Authenticate with 401,
        /// Allow with 405, Proxy-Authenticate with 407, Content-Range with 206. 426 is not possible.
        pub(crate) status: Status = default("200", status()),
        /// The body, up to 64 KiB. 204, 205 and 304 have none (RFC 9110 section 15).
        pub(crate) body: Option<String> = optional("no body", body()),
        /// In place of `body`: a body that is built for each request, with the variables of transform values:
        /// `"{{ \"path\": \"{path}\", \"who\": \"{claim:sub}\" }}"`; `{{` and `}}` are braces. Values are escaped for
        /// `content_type`. In JSON they must be inside strings. In HTML and XML they must be in text or in quoted
        /// attributes, but not in `on...`, `style` and `srcdoc`, and in URL attributes only after a `/`, `?` or `#`;
        /// such a template cannot have scripts, styles or comments. In `text/plain` they are inserted as they are.
        /// Other types are not possible. The result may have up to 256 KiB.
        pub(crate) template: Option<ValueTemplate> = optional("the body is always the same", body_template()),
        /// The media type of the body.
        pub(crate) content_type: Option<HeaderValue> =
            optional("`text/plain; charset=utf-8` with a body", header_value()),
        /// Further header fields, except those that frame a message, such as Content-Length.
        pub(crate) headers: Vec<(HeaderName, HeaderValue)> = default("{}", response_headers()),
    }
}

pub(crate) fn redirect() -> impl Read<Value = RedirectFields> {
    short_for("to", section_of::<RedirectFields>())
}

pub(crate) fn respond() -> impl Read<Value = Respond> {
    short_for("status", section_of::<RespondFields>()).then(check_respond)
}

fn check_respond(fields: RespondFields, node: &Node, to: &mut Reading<'_>) -> Option<Respond> {
    let RespondFields { status, body, template, content_type, headers } = fields;
    if let (Some(_), Some(first), Some(second)) =
        (&body, node.entry("body"), node.entry("template"))
    {
        exclude(first, second, to);
        return None;
    }
    let body = body.unwrap_or_default();
    let has_body = !body.is_empty() || template.is_some();
    if has_body && matches!(status.code(), 204 | 205 | 304) {
        let message = format!("a response with status {status} cannot have a body");
        let key = if template.is_some() { "template" } else { "body" };
        let error = Diagnostic::error(node.key_span(key), message).label("remove it");
        return to.fail(error.also(node.key_span("status"), "the status is here"));
    }
    if !has_body && content_type.is_some() {
        let error = Diagnostic::error(node.key_span("content_type"), "a content type needs a body");
        return to.fail(error.label("remove it, or add `body`"));
    }
    check_needed(status, &headers, node, to)?;
    let plain = || HeaderValue::of("text/plain; charset=utf-8");
    let content_type = has_body.then(|| content_type.unwrap_or_else(plain));
    let template = match (template, &content_type) {
        (Some(text), Some(content_type)) => Some(body_of(text, content_type.as_str(), node, to)?),
        _ => None,
    };
    Some(Respond { status, body, template, content_type, headers })
}

/// A status that means nothing without a certain field has to come with it.
fn check_needed(
    status: Status,
    headers: &[(HeaderName, HeaderValue)],
    node: &Node,
    to: &mut Reading<'_>,
) -> Option<()> {
    let Some((name, section, example)) = needed_field(status) else { return Some(()) };
    let is_it = |(it, _): &(HeaderName, HeaderValue)| it.as_str().eq_ignore_ascii_case(name);
    if headers.iter().any(is_it) {
        return Some(());
    }
    let message = format!("a response with status {status} needs the header {name}");
    let error = Diagnostic::error(node.key_span("status"), message);
    to.fail(error.label(format!("RFC 9110 section {section}")).help(match example {
        Some(example) => {
            format!("add `headers: {{ {name}: '{example}' }}`, or choose another status")
        }
        None => "choose another status: the gateway sets this header itself".to_owned(),
    }))
}

/// A template whose values cannot be more than values where they stand.
fn body_of(
    text: ValueTemplate,
    content_type: &str,
    node: &Node,
    to: &mut Reading<'_>,
) -> Option<BodyTemplate> {
    let Some(escaping) = Escaping::of(content_type) else {
        let span = node.key_span("content_type");
        let error = Diagnostic::error(span, "a template cannot have this content type");
        let error = error.label("the gateway does not know how to escape values for it");
        return to.fail(error.help("use `text/plain`, or a JSON, HTML or XML type"));
    };
    let (is_safe, where_to) = match escaping {
        Escaping::Plain => (true, ""),
        Escaping::Json => (stands_in_strings(&text), "put it inside a quoted string"),
        Escaping::Markup => (
            stands_in_text(&text),
            "put it into text or into a quoted attribute, not into scripts, styles or comments; \
                in a URL, only after a `/`",
        ),
    };
    if !is_safe {
        let error = Diagnostic::error(
            node.key_span("template"),
            "this variable is in a place where its \
                value cannot be escaped safely",
        );
        return to.fail(error.label("a client could inject more than a value here").help(where_to));
    }
    Some(BodyTemplate { text, escaping })
}

pub(crate) fn status() -> impl Read<Value = Status> {
    whole::<u16>(200..=599)
        .map(|code| Status::from_code(code).expect("the range of the reader is within Status"))
}

/// The body of a fixed response.
pub(crate) fn body() -> impl Read<Value = String> {
    let shape = TextShape { what: "a string", examples: "", pattern: None, max: MAX_RESPONSE_BODY };
    text(shape, |text| Ok(text.to_owned()))
}

fn response_headers() -> impl Read<Value = Vec<(HeaderName, HeaderValue)>> {
    let headers =
        message_mapping(RESPONSE_HEADER, parse_response_header, header_value(), 0..=MAX_HEADERS);
    headers.then(|named, _, to| {
        refuse_same_name(&named, to);
        let pair = |Named { key, value, .. }| (key, value);
        Some(named.into_iter().map(pair).collect())
    })
}

const RESPONSE_HEADER: TextShape =
    TextShape { what: "a header that a response can set", ..HEADER_NAME };

/// A field that a fixed response may set.
fn parse_response_header(text: &str) -> Result<HeaderName, Problem> {
    let name = parse_header_name(text)?;
    match FieldName::of(text.as_bytes()) {
        FieldName::Connection
        | FieldName::ContentLength
        | FieldName::Date
        | FieldName::KeepAlive
        | FieldName::ProxyConnection
        | FieldName::Te
        | FieldName::Trailer
        | FieldName::TransferEncoding
        | FieldName::Upgrade => {
            let problem = Problem::new("the gateway sets this header itself");
            Err(problem.help("remove it"))
        }
        FieldName::ContentType => {
            Err(Problem::new("this header has a key of its own").help("use `content_type`"))
        }
        _ => Ok(name),
    }
}
