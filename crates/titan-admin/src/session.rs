//! `/session`: signing in with a token, for people in front of a browser.

use crate::access::{Access, COOKIE, Credential, LIFE, Place, Session, Why};
use crate::http::{Peer, Request, Response, media_type};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::time::UNIX_EPOCH;
use titan_config::AdminRights;
use titan_http::{FieldName, Status};

#[derive(Serialize)]
struct Shown<'s> {
    user: Cow<'s, str>,
    rights: &'static str,
    /// Nothing for who has no session.
    csrf: Option<&'s str>,
    /// Unix time.
    expires: Option<u64>,
    /// Where traces are shown, with `{trace_id}` in place of one's id.
    trace_url: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SignIn<'r> {
    #[serde(borrow)]
    token: Cow<'r, str>,
}

/// Begins a session, and ends the one that the browser presents. Refuses a wrong token with that reason, which the caller is to wait for.
pub(crate) fn sign_in(
    access: &Access,
    request: &Request,
    place: Place,
) -> Result<Response, Response> {
    let Some(token) = token(request) else {
        let detail = "send {\"token\": \"...\"} with `Content-Type: application/json`";
        return Ok(Response::problem(Status::BAD_REQUEST, detail));
    };
    let (session, key) = match access.sign_in(token.as_bytes(), (place, &request.peer)) {
        Ok(begun) => begun,
        Err(Why::WrongToken) => return Err(Why::WrongToken.response()),
        Err(why) => return Ok(why.response()),
    };
    // The browser forgets the session that it had.
    access.sign_out(&request.head);
    let secure = if request.peer.is_secure() { "; Secure" } else { "" };
    let life = LIFE.as_secs();
    let cookie =
        format!("{COOKIE}={key}; HttpOnly; SameSite=Strict; Path=/; Max-Age={life}{secure}");
    Ok(shown(&Shown::of_session(&session, access)).with(FieldName::SetCookie, &cookie))
}

/// Whose token a request to sign in has, for the event about it.
pub(crate) fn named(access: &Access, request: &Request) -> String {
    let name = token(request).and_then(|token| access.name_of(token.as_bytes()));
    name.map_or_else(String::new, |name| format!("as {name}"))
}

/// Tells who calls.
pub(crate) fn read(access: &Access, request: &Request, place: Place) -> Response {
    let Request { head, peer, .. } = request;
    match (access.credential(head, (place, peer)), peer) {
        (Some(Credential::Session(session)), _) => shown(&Shown::of_session(&session, access)),
        (Some(Credential::Token(token)), _) => {
            let (user, rights) = (Cow::Owned(token.name.to_string()), word(token.rights));
            shown(&Shown { user, rights, csrf: None, expires: None, trace_url: access.trace_url() })
        }
        (None, Peer::Process { uid, .. }) => {
            let (user, rights) = (Cow::Owned(format!("uid {uid}")), word(AdminRights::Full));
            shown(&Shown { user, rights, csrf: None, expires: None, trace_url: access.trace_url() })
        }
        (None, Peer::Client { .. }) => Why::NoToken.response(),
    }
}

/// Ends the session of the caller, who may have none.
pub(crate) fn sign_out(access: &Access, request: &Request) -> Response {
    access.sign_out(&request.head);
    signed_out()
}

/// Takes away the cookie of a session that there is not.
pub(crate) fn signed_out() -> Response {
    let gone = format!("{COOKIE}=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0");
    Response::empty(Status::NO_CONTENT).with(FieldName::SetCookie, &gone)
}

fn token(request: &Request) -> Option<Cow<'_, str>> {
    let is_json = media_type(&request.head).eq_ignore_ascii_case(b"application/json");
    let asked: SignIn<'_> = serde_json::from_slice(&request.body).ok().filter(|_| is_json)?;
    Some(asked.token)
}

fn shown(document: &Shown<'_>) -> Response {
    Response::json(Status::OK, document)
}

fn word(rights: AdminRights) -> &'static str {
    match rights {
        AdminRights::Read => "read",
        AdminRights::Full => "full",
    }
}

impl Shown<'_> {
    fn of_session<'s>(session: &'s Session, access: &Access) -> Shown<'s> {
        let expires = session.expires.duration_since(UNIX_EPOCH).unwrap_or_default();
        Shown {
            user: Cow::Owned(session.token.name.to_string()),
            rights: word(session.token.rights),
            csrf: Some(&session.csrf),
            expires: Some(expires.as_secs()),
            trace_url: access.trace_url(),
        }
    }
}
