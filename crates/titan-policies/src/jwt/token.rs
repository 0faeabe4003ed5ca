//! The compact form of a signed token (RFC 7515 section 7.1), parsed strictly. Nothing in it is trusted yet.

use super::Refusal;
use super::json;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};
use titan_config::JwtAlgorithm;

/// Bytes of a token.
pub(super) const MAX_TOKEN: usize = 16 << 10;
/// Bytes of the name of a key.
const MAX_KEY_ID: usize = 256;

/// A token that has been taken apart.
pub(super) struct ParsedToken<'t> {
    /// What is signed: the first two parts as they came.
    pub(super) signed: &'t [u8],
    pub(super) algorithm: JwtAlgorithm,
    /// The name of the key. A hint, compared with names that are known and used for nothing else.
    pub(super) key_id: Option<String>,
    /// What kind of token it is.
    pub(super) kind: Option<String>,
    pub(super) claims: Map<String, Value>,
    pub(super) signature: Vec<u8>,
}

/// Members of the header by which tokens bring keys along, say where to get them, or change what is signed or how it is
/// read. A token with one of them is meant for a recipient that follows it.
const REFUSED: [&str; 8] = ["jku", "jwk", "x5u", "x5c", "crit", "b64", "zip", "enc"];

impl<'t> ParsedToken<'t> {
    pub(super) fn parse(text: &'t [u8]) -> Result<ParsedToken<'t>, Refusal> {
        if text.len() > MAX_TOKEN {
            return Err(Refusal::Malformed);
        }
        let mut parts = text.split(|&byte| byte == b'.');
        let (Some(header), Some(claims), Some(signature), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(Refusal::Malformed);
        };
        let signed = &text[..header.len() + 1 + claims.len()];
        let mut header = json::object(&decode(header)?).ok_or(Refusal::Malformed)?;
        if REFUSED.iter().any(|member| header.contains_key(*member)) {
            return Err(Refusal::Header);
        }
        let Some(Value::String(algorithm)) = header.remove("alg") else {
            return Err(Refusal::Algorithm);
        };
        let algorithm = JwtAlgorithm::named(&algorithm).ok_or(Refusal::Algorithm)?;
        let key_id = text_of(&mut header, "kid")?;
        if key_id.as_ref().is_some_and(|id| id.len() > MAX_KEY_ID) {
            return Err(Refusal::Header);
        }
        // A token inside a token: the inner one would be what counts.
        if text_of(&mut header, "cty")?.is_some_and(|it| is_type(&it, "JWT")) {
            return Err(Refusal::Header);
        }
        let kind = text_of(&mut header, "typ")?;
        let claims = json::object(&decode(claims)?).ok_or(Refusal::Malformed)?;
        let signature = decode(signature)?;
        Ok(ParsedToken { signed, algorithm, key_id, kind, claims, signature })
    }
}

/// Whether two types are the same (RFC 7515 section 4.1.9).
pub(super) fn is_type(given: &str, wanted: &str) -> bool {
    let plain = |text: &str| {
        let lower = text.to_ascii_lowercase();
        lower
            .strip_prefix("application/")
            .filter(|rest| !rest.contains('/'))
            .map(str::to_owned)
            .unwrap_or(lower)
    };
    plain(given) == plain(wanted)
}

/// A member that has to be a text where it is there.
fn text_of(header: &mut Map<String, Value>, name: &str) -> Result<Option<String>, Refusal> {
    match header.remove(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(Refusal::Header),
    }
}

/// The one way to write the bytes, and no other: no padding, no line ends, no bits that do not count.
pub(super) fn decode(part: &[u8]) -> Result<Vec<u8>, Refusal> {
    URL_SAFE_NO_PAD.decode(part).map_err(|_| Refusal::Malformed)
}
