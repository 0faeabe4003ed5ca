//! `/jwt/revocations`: tokens are revoked and listed, and revocations removed.

use super::entry::{Shown, Tokens};
use super::{Outcome, Refused, RevocationStore, clock, now};
use crate::http::{Request, Response, media_type};
use serde::Serialize;
use titan_http::Status;

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
    revocations: Vec<Shown>,
    /// What to ask for the rest with, as `after`.
    next: Option<u64>,
    count: usize,
    capacity: usize,
}

/// Why nothing can be revoked or listed where there is no store.
pub(crate) fn no_store() -> Response {
    let detail = "tokens cannot be revoked: `jwt_revocations` is not configured";
    Response::problem(Status::NOT_FOUND, detail)
}

/// Revokes the tokens that the body tells of. Waits for a moment until other gateways can know of it.
pub(crate) async fn revoke(store: &RevocationStore, request: &Request) -> Response {
    if !media_type(&request.head).eq_ignore_ascii_case(JSON.as_bytes()) {
        let detail = "send `Content-Type: application/json`";
        return Response::problem(Status::BAD_REQUEST, detail);
    }
    let tokens: Tokens = match serde_json::from_slice(&request.body) {
        Ok(tokens) => tokens,
        Err(error) => return Response::problem(Status::BAD_REQUEST, &error.to_string()),
    };
    let (status, entry) = match store.revoke(tokens, clock()) {
        Ok(Outcome::Added(entry)) => (Status::CREATED, entry),
        Ok(Outcome::Known(entry)) => (Status::OK, entry),
        Err(refused) => return refused.response(),
    };
    let is_published = store.published(entry.id).await;
    Response::json(status, &entry.shown(is_published))
}

/// Removes the entry with that id, so that its tokens are accepted again.
pub(crate) async fn restore(store: &RevocationStore, id: &[u8]) -> Response {
    let Some(id) = number(id) else { return no_entry() };
    let entry = match store.lift(id, clock()) {
        Ok(Some(entry)) => entry,
        Ok(None) => return no_entry(),
        Err(error) => return Refused::Disk(error).response(),
    };
    match store.published(id).await {
        None | Some(true) => Response::empty(Status::NO_CONTENT),
        Some(false) => Response::json(Status::ACCEPTED, &entry.shown(Some(false))),
    }
}

/// Lists what is revoked.
pub(crate) fn list(store: &RevocationStore, query: Option<&[u8]>) -> Response {
    let Some(Page { after, limit }) = Page::parse(query.unwrap_or_default()) else {
        let detail = "expected `after` (the id of an entry) and `limit` (from 1 to 1000)";
        return Response::problem(Status::BAD_REQUEST, detail);
    };
    let mut entries = store.list(after, limit + 1, now());
    let is_all = entries.len() <= limit;
    entries.truncate(limit);
    let next = entries.last().filter(|_| !is_all).map(|entry| entry.id);
    let (count, capacity) = store.count(now());
    let shown = entries.into_iter().map(|entry| {
        let is_published = store.is_published(entry.id);
        entry.shown(is_published)
    });
    let listing = Listing { revocations: shown.collect(), next, count, capacity };
    Response::json(Status::OK, &listing)
}

fn no_entry() -> Response {
    Response::problem(Status::NOT_FOUND, "there is no such entry; it may have expired")
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
