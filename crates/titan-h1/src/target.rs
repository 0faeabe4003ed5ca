//! Request targets (RFC 9112 section 3.2): four forms, each for some methods only.

use crate::error::Error;
use titan_http::{Authority, Method, Span, Target, TargetForm};

/// Takes `text[start..end]` apart; its bytes have been checked.
#[inline]
pub(crate) fn parse(
    text: &[u8],
    (start, end): (usize, usize),
    method: Method,
) -> Result<Target, Error> {
    let target = &text[start..end];
    match target.first() {
        _ if method == Method::CONNECT => authority_form(target, start),
        Some(b'/') => Ok(Target { form: TargetForm::Origin, ..path_and_query(target, start) }),
        Some(b'*') => asterisk_form(target, method),
        _ => absolute_form(target, start, method),
    }
}

fn authority_form(target: &[u8], start: usize) -> Result<Target, Error> {
    let authority = Authority::parse(target).map_err(|_| Error::TargetAuthority)?;
    if authority.port.is_none() {
        return Err(Error::TargetAuthority);
    }
    Ok(Target {
        form: TargetForm::Authority,
        authority: Span::new(start, start + target.len()),
        ..Target::default()
    })
}

fn asterisk_form(target: &[u8], method: Method) -> Result<Target, Error> {
    match target == b"*" && method == Method::OPTIONS {
        true => Ok(Target { form: TargetForm::Asterisk, ..Target::default() }),
        false => Err(Error::TargetForm),
    }
}

fn absolute_form(target: &[u8], start: usize, method: Method) -> Result<Target, Error> {
    let scheme_len = scheme_len(target).ok_or(Error::TargetForm)?;
    let rest = &target[scheme_len..];
    let authority_len = memchr::memchr2(b'/', b'?', rest).unwrap_or(rest.len());
    Authority::parse(&rest[..authority_len]).map_err(|_| Error::TargetAuthority)?;
    let authority_start = start + scheme_len;
    let path_start = authority_start + authority_len;
    let has_path = authority_len < rest.len();
    // OPTIONS of a bare authority asks about the server as a whole (RFC 9112 section 3.2.4). The
    // path has to show that, or a route for `/` would match `*`.
    let form = match method == Method::OPTIONS && !has_path {
        true => TargetForm::Asterisk,
        false => TargetForm::Absolute,
    };
    Ok(Target {
        form,
        authority: Span::new(authority_start, path_start),
        ..path_and_query(&rest[authority_len..], path_start)
    })
}

fn path_and_query(text: &[u8], start: usize) -> Target {
    let end = start + text.len();
    let path_len = memchr::memchr(b'?', text).unwrap_or(text.len());
    Target {
        path: Span::new(start, start + path_len),
        query: (path_len < text.len()).then(|| Span::new(start + path_len + 1, end)),
        ..Target::default()
    }
}

/// How long the scheme with its `://` is. Only those that this gateway speaks.
fn scheme_len(target: &[u8]) -> Option<usize> {
    [b"http://".as_slice(), b"https://"]
        .into_iter()
        .find(|scheme| {
            target.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
        })
        .map(<[u8]>::len)
}
