//! Values built from parts of a request.

use crate::context::{Client, PolicyContext};
use crate::findings::TokenClaims;
use crate::jwt::{find, text_of};
use crate::matched::Match;
use crate::transform::BAD_TRANSFORM;
use std::io::Write;
use std::rc::Rc;
use titan_config::{Claim, HeaderName, Route, ValuePiece, ValueTemplate};
use titan_http::RequestHead;
use titan_http::Scheme;
use titan_http::path::escape;
use titan_http::path::{is_path_byte, is_unreserved};
use titan_http::query::is_parameter;
use titan_io::error::Error;

/// The most bytes of a built value.
pub(super) const MAX_MADE: usize = 16 << 10;

/// What values can be built from, beside the request itself.
#[derive(Clone, Copy)]
pub struct RequestParts<'s> {
    /// The client.
    pub client: &'s dyn Client,
    /// The route, and what it captured of the path.
    pub found: &'s Match,
    /// The claims of the request's token.
    pub claims: Option<&'s Rc<TokenClaims>>,
}

impl<'s> RequestParts<'s> {
    /// From what policies know of a request.
    pub(super) fn of(context: &'s PolicyContext<'_>) -> RequestParts<'s> {
        let PolicyContext { findings, client, found, .. } = context;
        RequestParts { client: *client, found, claims: findings.shared_claims() }
    }
}

/// Where a value goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// Into a header field, as it is.
    Field,
    /// Into a query, as one value of it.
    Query,
}

/// A value, ready to be built.
pub(super) enum Value {
    /// The same for every request.
    Fixed(Box<[u8]>),
    /// Of parts of the request.
    Built {
        pieces: Box<[Piece]>,
        /// Its index among the built values.
        index: usize,
    },
}

pub(super) enum Piece {
    Text(Box<[u8]>),
    Method,
    Scheme,
    Host,
    Path,
    Query,
    Client,
    RequestId,
    Header(HeaderName),
    QueryParam(String),
    Claim(Claim),
    /// The index of the parameter among those of the route's path.
    Param(usize),
}

/// Built values, in order.
#[derive(Debug, Default)]
pub(super) struct BuiltValues {
    text: Vec<u8>,
    spans: Vec<(usize, usize)>,
}

impl Value {
    /// `made` counts the built values. Only a template that names parts of a route needs `route`.
    pub(super) fn new(
        template: &ValueTemplate,
        route: Option<&Route>,
        place: Target,
        made: &mut usize,
    ) -> Value {
        let pieces: Vec<_> = template.pieces.iter().map(|it| Piece::new(it, route)).collect();
        if pieces.iter().any(|piece| !matches!(piece, Piece::Text(_))) {
            *made += 1;
            return Value::Built { pieces: pieces.into(), index: *made - 1 };
        }
        let mut text = Vec::new();
        for piece in &pieces {
            if let Piece::Text(bytes) = piece {
                place.write(bytes, &mut text);
            }
        }
        Value::Fixed(text.into())
    }

    /// Its bytes; none for a value that was not put together.
    pub(super) fn of<'v>(&'v self, made: Option<&'v BuiltValues>) -> Option<&'v [u8]> {
        match self {
            Value::Fixed(text) => Some(text),
            Value::Built { index, .. } => {
                let made = made?;
                made.spans.get(*index).map(|&(start, end)| &made.text[start..end])
            }
        }
    }
}

impl Piece {
    pub(super) fn new(piece: &ValuePiece, route: Option<&Route>) -> Piece {
        let text = |text: &str| Piece::Text(text.as_bytes().into());
        match piece {
            ValuePiece::Text(fixed) => text(fixed),
            ValuePiece::Method => Piece::Method,
            ValuePiece::Scheme => Piece::Scheme,
            ValuePiece::Host => Piece::Host,
            ValuePiece::Path => Piece::Path,
            ValuePiece::Query => Piece::Query,
            ValuePiece::Client => Piece::Client,
            ValuePiece::RequestId => Piece::RequestId,
            ValuePiece::Route => text(route.map_or("", |route| route.name.as_str())),
            ValuePiece::Header(name) => Piece::Header(name.clone()),
            ValuePiece::QueryParam(name) => Piece::QueryParam(name.clone()),
            ValuePiece::Claim(claim) => Piece::Claim(claim.clone()),
            ValuePiece::Param(name) => {
                // Without a route there is nothing that its path could have captured.
                let Some(route) = route else { return text("") };
                let place = route.path.params().position(|it| it == name);
                Piece::Param(place.expect("the configuration has been checked"))
            }
        }
    }

    /// Writes what the request has of it.
    pub(super) fn write(
        &self,
        request: &RequestHead,
        seen: &RequestParts<'_>,
        place: Target,
        out: &mut Vec<u8>,
    ) {
        let fields = &request.fields;
        match self {
            Piece::Text(text) => place.write(text, out),
            Piece::Method => place.write(request.method.as_str().as_bytes(), out),
            Piece::Scheme if seen.client.scheme() == Scheme::Https => place.write(b"https", out),
            Piece::Scheme => place.write(b"http", out),
            Piece::Host => place.write(request.authority().unwrap_or_default(), out),
            Piece::Path => place.write_url(request.path(), out),
            Piece::Query => {
                let query = request.query();
                place.write_url(if query.is_some() { b"?" } else { b"" }, out);
                place.write_url(query.unwrap_or_default(), out);
            }
            Piece::Client => {
                if let Some(client) = seen.client.address(fields) {
                    let mut text = [0; 48];
                    let mut left = text.as_mut_slice();
                    write!(left, "{client}").expect("an address fits");
                    let length = 48 - left.len();
                    place.write(&text[..length], out);
                }
            }
            Piece::RequestId => {
                place.write(seen.client.request_id(fields).unwrap_or_default(), out);
            }
            Piece::Header(name) => {
                let value = fields.named(name.as_str().as_bytes()).next();
                place.write(value.unwrap_or_default(), out);
            }
            Piece::QueryParam(name) => {
                place.write_url(parameter(request.query(), name).unwrap_or_default(), out);
            }
            Piece::Claim(claim) => {
                let said = seen.claims.and_then(|claims| find(claims, claim)).and_then(text_of);
                place.write(said.unwrap_or_default().as_bytes(), out);
            }
            Piece::Param(index) => {
                let path = seen.found.path(request);
                place.write_url(seen.found.params.get(*index, path), out);
            }
        }
    }
}

impl Target {
    /// Writes any text.
    fn write(self, bytes: &[u8], out: &mut Vec<u8>) {
        match self {
            Target::Field => out.extend_from_slice(bytes),
            Target::Query => escape(bytes, is_unreserved, out),
        }
    }

    /// Writes a part of a URL, which has its escapes already.
    fn write_url(self, bytes: &[u8], out: &mut Vec<u8>) {
        match self {
            Target::Field => out.extend_from_slice(bytes),
            Target::Query => {
                escape(bytes, |byte| is_path_byte(byte) && !b"&=;".contains(&byte), out);
            }
        }
    }
}

impl BuiltValues {
    /// Puts another value together, unless it is fixed.
    pub(super) fn add(
        &mut self,
        value: &Value,
        request: &RequestHead,
        seen: &RequestParts<'_>,
        place: Target,
    ) -> Result<(), Error> {
        let Value::Built { pieces, .. } = value else { return Ok(()) };
        let mut start = self.text.len();
        for piece in pieces {
            piece.write(request, seen, place, &mut self.text);
            if self.text.len() - start > MAX_MADE {
                return Err(BAD_TRANSFORM.into());
            }
        }
        let mut end = self.text.len();
        let is_space = |byte: u8| matches!(byte, b' ' | b'\t');
        while start < end && is_space(self.text[start]) {
            start += 1;
        }
        while start < end && is_space(self.text[end - 1]) {
            end -= 1;
        }
        self.spans.push((start, end));
        Ok(())
    }
}

/// The first value of the parameter, as the URL has it.
fn parameter<'q>(query: Option<&'q [u8]>, name: &str) -> Option<&'q [u8]> {
    let mut pairs = query?.split(|&byte| byte == b'&').filter(|pair| !pair.is_empty());
    let pair = pairs.find(|pair| is_parameter(pair, name))?;
    let end = pair.iter().position(|&byte| byte == b'=')?;
    Some(&pair[end + 1..])
}
