//! `/jwt/revocations`: tokens are revoked and listed, and revocations removed.

use super::entry::{Entry, Tokens};
use super::{Outcome, Refused, RevocationStore, now};
use crate::http::{Request, Response};
use serde::Serialize;
use titan_http::{FieldName, Method, ResponseHead, Status};

/// Where all of this is.
pub(crate) const PATH: &[u8] = b"/jwt/revocations";
/// Entries of a response, where the query does not say.
const PAGE: usize = 100;
/// Entries of a response at most.
const MAX_PAGE: usize = 1000;

const JSON: &str = "application/json";

/// The parameters of a list.
struct Page {
    after: u64,
    limit: usize,
}

/// A part of the list.
#[derive(Serialize)]
struct Listing {
    revocations: Vec<Entry>,
    /// What to ask for the rest with, as `after`.
    next: Option<u64>,
    count: usize,
    capacity: usize,
}

/// Responds to a request for [`PATH`] or what is under it, `rest`.
pub(crate) fn respond(store: Option<&RevocationStore>, request: &Request, rest: &[u8]) -> Response {
    // A browser sends it with writes, also if the name of some page points to this address.
    if request.head.fields.get(FieldName::Origin).is_some() {
        return Response::problem(
            Status::FORBIDDEN,
            "requests from web pages are not allowed here",
        );
    }
    let Some(store) = store else {
        let detail = "tokens cannot be revoked: `jwt_revocations` is not configured";
        return Response::problem(Status::NOT_FOUND, detail);
    };
    let method = request.head.method;
    match (rest, method) {
        (b"", Method::GET | Method::HEAD) => list(store, request.head.query()),
        (b"", Method::POST) => add(store, request),
        (b"", _) => not_allowed("GET, HEAD, POST"),
        (rest, Method::DELETE) => remove(store, rest),
        (rest, _) if id(rest).is_some() => not_allowed("DELETE"),
        _ => no_entry(),
    }
}

fn add(store: &RevocationStore, request: &Request) -> Response {
    let media_type = request.head.fields.get(FieldName::ContentType).unwrap_or_default();
    let media_type = media_type.split(|byte| *byte == b';').next().unwrap_or_default();
    if !media_type.trim_ascii().eq_ignore_ascii_case(JSON.as_bytes()) {
        let detail = "send `Content-Type: application/json`";
        return Response::problem(Status::BAD_REQUEST, detail);
    }
    let tokens: Tokens = match serde_json::from_slice(&request.body) {
        Ok(tokens) => tokens,
        Err(error) => return Response::problem(Status::BAD_REQUEST, &error.to_string()),
    };
    match store.revoke(tokens, now()) {
        Ok(Outcome::Added(entry)) => document(Status::CREATED, &entry),
        Ok(Outcome::Known(entry)) => document(Status::OK, &entry),
        Err(refused) => refused.response(),
    }
}

fn remove(store: &RevocationStore, rest: &[u8]) -> Response {
    match id(rest).map(|id| store.lift(id, now())) {
        Some(Ok(true)) => {
            Response { head: ResponseHead::with_status(Status::NO_CONTENT), body: Vec::new() }
        }
        Some(Ok(false)) | None => no_entry(),
        Some(Err(error)) => Refused::Disk(error).response(),
    }
}

fn list(store: &RevocationStore, query: Option<&[u8]>) -> Response {
    let Some(Page { after, limit }) = Page::parse(query.unwrap_or_default()) else {
        let detail = "expected `after` (the id of an entry) and `limit` (from 1 to 1000)";
        return Response::problem(Status::BAD_REQUEST, detail);
    };
    let mut entries = store.list(after, limit + 1, now());
    let is_all = entries.len() <= limit;
    entries.truncate(limit);
    let next = entries.last().filter(|_| !is_all).map(|entry| entry.id);
    let (count, capacity) = store.count(now());
    document(Status::OK, &Listing { revocations: entries, next, count, capacity })
}

fn document(status: Status, document: &impl Serialize) -> Response {
    let text = serde_json::to_string(document).expect("it is made of numbers and texts");
    Response::new(status, JSON, format!("{text}\n"))
}

fn not_allowed(methods: &'static str) -> Response {
    let refusal = Response::problem(Status::METHOD_NOT_ALLOWED, "this method is not allowed here");
    refusal.with(FieldName::Allow, methods)
}

fn no_entry() -> Response {
    Response::problem(Status::NOT_FOUND, "there is no such entry; it may have expired")
}

/// The id in a path, as in `/7`.
fn id(rest: &[u8]) -> Option<u64> {
    number(rest.strip_prefix(b"/")?)
}

fn number(text: &[u8]) -> Option<u64> {
    let is_plain = text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| is_plain)?.parse().ok()
}

impl Page {
    fn parse(query: &[u8]) -> Option<Page> {
        let mut page = Page { after: 0, limit: PAGE };
        for part in query.split(|byte| *byte == b'&').filter(|part| !part.is_empty()) {
            if let Some(after) = part.strip_prefix(b"after=") {
                page.after = number(after)?;
            } else {
                let limit = usize::try_from(number(part.strip_prefix(b"limit=")?)?).ok()?;
                page.limit = Some(limit).filter(|limit| (1..=MAX_PAGE).contains(limit))?;
            }
        }
        Some(page)
    }
}

impl Refused {
    fn response(&self) -> Response {
        match self {
            Refused::Issuer => {
                let detail = "no provider has this `iss`, so this would revoke no token";
                Response::problem(Status::BAD_REQUEST, detail)
            }
            Refused::Ended => {
                let detail = "`exp` is in the past: the token has already expired";
                Response::problem(Status::BAD_REQUEST, detail)
            }
            Refused::Full => {
                let detail = "nothing was revoked: the limit `jwt_revocations.capacity` is reached";
                Response::problem(Status::CONFLICT, detail)
            }
            Refused::Disk(error) => {
                let detail = format!("nothing was changed: the file cannot be written: {error}");
                Response::problem(Status::SERVICE_UNAVAILABLE, &detail)
            }
        }
    }
}
