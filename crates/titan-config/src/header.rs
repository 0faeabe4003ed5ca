//! The header fields that a configuration may set, for upstreams and for clients.

use crate::bounds::MAX_POINTERS;
use crate::forwarding::{is_claim, key_of};
use crate::problem::Problem;
use crate::read::Read;
use crate::readers::{one_or_list, text};
use crate::shape::{Shape, TextShape};
use crate::token::{HEADER_NAME, HeaderName, parse_header_name};
use titan_http::{FieldName, fold_name};

pub(crate) const REQUEST_HEADER: TextShape =
    TextShape { what: "a request header that can be changed", ..HEADER_NAME };
const TOLD_HEADER: TextShape =
    TextShape { what: "a header that can carry an identity", ..HEADER_NAME };
pub(crate) const RESPONSE_HEADER: TextShape =
    TextShape { what: "a response header that can be changed", ..HEADER_NAME };

/// A request field that no other part of the file controls.
pub(crate) fn request_header() -> impl Read<Value = HeaderName> {
    text(REQUEST_HEADER, parse_request_header).shaped(Shape::Caseless)
}

/// A field that identifies clients to upstreams.
pub(crate) fn identity_header() -> impl Read<Value = HeaderName> {
    text(TOLD_HEADER, parse_identity_header).shaped(Shape::Caseless)
}

/// A response field that others may write too.
pub(crate) fn response_header() -> impl Read<Value = HeaderName> {
    text(RESPONSE_HEADER, parse_appended_header).shaped(Shape::Caseless)
}

/// A field by which responses can be compared.
pub(crate) fn compared_header() -> impl Read<Value = HeaderName> {
    text(HEADER_NAME, parse_compared_header).shaped(Shape::Caseless)
}

/// Names of fields, each once.
pub(crate) fn distinct_names(
    name: impl Read<Value = HeaderName>,
) -> impl Read<Value = Vec<HeaderName>> {
    one_or_list(name, 0..=MAX_POINTERS).map(|names| {
        let mut distinct = Vec::with_capacity(names.len());
        for name in names {
            if !distinct.contains(&name) {
                distinct.push(name);
            }
        }
        distinct
    })
}

/// Neither what a transform may not write either, nor what clients say of themselves.
pub(crate) fn parse_identity_header(name: &str) -> Result<HeaderName, Problem> {
    let header = parse_request_header(name)?;
    match FieldName::of(fold_name(name).as_bytes()) {
        FieldName::Authorization | FieldName::Cookie => {
            Err(Problem::new("this header has another meaning").help("such as `X-User`"))
        }
        _ => Ok(header),
    }
}

pub(crate) fn parse_request_header(text: &str) -> Result<HeaderName, Problem> {
    let name = parse_header_name(text)?;
    let known = fold_name(text);
    match FieldName::of(known.as_bytes()) {
        FieldName::Via | FieldName::XRequestId => Err(own_key(&known)),
        _ if is_claim(&known) => Err(own_key(&known)),
        FieldName::Host => {
            Err(ours().help("to change what upstreams get, use `send_host` in a route"))
        }
        FieldName::Expect | FieldName::MaxForwards => Err(ours()),
        id if frames(id) || known.starts_with("sec-websocket-") => Err(ours()),
        _ => Ok(name),
    }
}

pub(crate) fn parse_response_header(text: &str) -> Result<HeaderName, Problem> {
    match FieldName::of(fold_name(text).as_bytes()) {
        FieldName::Vary => {
            let problem = Problem::new("without its values, caches would mix up responses");
            Err(problem.help("you can append to it"))
        }
        _ => parse_appended_header(text),
    }
}

pub(crate) fn parse_appended_header(text: &str) -> Result<HeaderName, Problem> {
    let name = parse_header_name(text)?;
    let known = fold_name(text);
    match FieldName::of(known.as_bytes()) {
        FieldName::Server => Err(own_key(&known)),
        FieldName::ContentEncoding | FieldName::ContentRange => {
            Err(Problem::new("it describes the content coding, which does not change"))
        }
        _ if known.starts_with("access-control-") => {
            Err(Problem::new("CORS headers belong to another policy").help("use a `cors` policy"))
        }
        id if frames(id) || known.starts_with("sec-websocket-") => Err(ours()),
        _ => Ok(name),
    }
}

fn parse_compared_header(text: &str) -> Result<HeaderName, Problem> {
    let name = parse_header_name(text)?;
    match FieldName::of(fold_name(text).as_bytes()) {
        FieldName::Connection
        | FieldName::KeepAlive
        | FieldName::ProxyConnection
        | FieldName::Te
        | FieldName::Trailer
        | FieldName::TransferEncoding
        | FieldName::Upgrade => {
            let problem = Problem::new("this header belongs to one connection");
            Err(problem.help("remove it: responses have nothing in common there"))
        }
        _ => Ok(name),
    }
}

/// Whether the field says where a message ends, or belongs to one connection.
fn frames(id: FieldName) -> bool {
    matches!(
        id,
        FieldName::Connection
            | FieldName::ContentLength
            | FieldName::Date
            | FieldName::KeepAlive
            | FieldName::ProxyAuthenticate
            | FieldName::ProxyAuthorization
            | FieldName::ProxyConnection
            | FieldName::Te
            | FieldName::Trailer
            | FieldName::TransferEncoding
            | FieldName::Upgrade
    )
}

fn ours() -> Problem {
    Problem::new("the gateway sets this header itself").help("remove it")
}

/// What is said of a field that has its place elsewhere in the file; of the other fields of proxies nothing can be set.
fn own_key(folded: &str) -> Problem {
    match key_of(folded) {
        Some(key) => {
            Problem::new("this header has its own key").help(format!("`{key}` controls it"))
        }
        None => Problem::new("upstreams trust this header to describe the client")
            .help("use a name that does not begin with `X-Forwarded-`"),
    }
}
