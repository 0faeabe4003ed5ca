//! API keys, by their hashes.

use crate::balance::query_name;
use crate::bounds::MAX_API_KEYS;
use crate::diagnostic::Diagnostic;
use crate::header::{identity_header, request_header};
use crate::node::Node;
use crate::problem::Problem;
use crate::read::{Read, Reading, default, optional};
use crate::readers::{Named, mapping, secret};
use crate::section::{section, section_of};
use crate::shape::TextShape;
use crate::tls::file;
use crate::token::{HeaderName, NAME, Name, parse_name};
use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use titan_http::FieldName;

section! {
    "api_keys", "API key settings", Any;
    /// Keys that clients present. The file has only their hashes, which is safe for keys that are long and random, such
    /// as those of `openssl rand -hex 32`, and for no others. The key is removed before the request goes to the
    /// upstream.
    pub(crate) struct ApiKeyFields {
        /// The header field that carries the key.
        pub(crate) header: HeaderName = default("X-API-Key", request_header()),
        /// A query parameter that may carry the key instead, decoded. Such keys end up in histories and logs.
        pub(crate) query: Option<String> = optional("none", query_name()),
        /// A header field that tells the upstream the name of the key. What clients send in it is removed on all
        /// routes.
        pub(crate) identity_header: Option<HeaderName> = optional("none", identity_header()),
        /// The SHA-256 of each key by a name, in hexadecimal: `printf %s KEY | sha256sum`. To replace a client's key,
        /// list the old and the new one under different names for a while.
        pub(crate) keys: Vec<Named<Name, KeyHash>> =
            default("{}", mapping(NAME, parse_name, key_hash(), 0..=MAX_API_KEYS)),
        /// A file with more keys: lines of a name, a colon and a hash. It is read again when it changes; once it is
        /// empty, none of its keys is valid.
        pub(crate) file: Option<PathBuf> = optional("none", file()),
    }
}

/// Keys that clients show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKeys {
    /// The header field that carries the key.
    pub header: HeaderName,
    /// The parameter of the query that may carry it instead.
    pub query: Option<String>,
    /// The field that tells the upstream the name of the key.
    pub identity_header: Option<HeaderName>,
    /// Those of the configuration itself; no two are the same.
    pub keys: Vec<ApiKey>,
    /// A file with more. There are some here or there.
    pub file: Option<PathBuf>,
}

/// A key by its hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKey {
    /// Unique.
    pub name: Name,
    /// What is left of it here.
    pub hash: KeyHash,
}

/// The SHA-256 of a key.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyHash([u8; 32]);

impl KeyHash {
    /// The bytes.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Whether it is the hash of an empty key: what an empty variable of a shell comes to.
    pub(crate) fn is_of_nothing(&self) -> bool {
        self.0 == HASH_OF_NOTHING
    }
}

impl fmt::Debug for KeyHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, second, ..] = self.0;
        write!(f, "KeyHash({first:02x}{second:02x}..)")
    }
}

impl ApiKeys {
    /// Whether what stands in `Authorization` is taken for a key, also where one may come in the query.
    pub(super) fn are_in_authorization(&self) -> bool {
        FieldName::of(self.header.as_str().as_bytes()) == FieldName::Authorization
    }
}

pub(super) fn api_keys() -> impl Read<Value = ApiKeys> {
    section_of::<ApiKeyFields>().then(check_keys)
}

fn check_keys(fields: ApiKeyFields, node: &Node, to: &mut Reading<'_>) -> Option<ApiKeys> {
    let ApiKeyFields { header, query, identity_header, keys, file } = fields;
    if keys.is_empty() && file.is_none() {
        let error = Diagnostic::error(node.span, "there are no API keys");
        return to.fail(error.label("expected `keys` or `file`"));
    }
    let mut seen = HashMap::new();
    for Named { key, key_span, value } in &keys {
        let message = if value.is_of_nothing() {
            format!("`{key}` is the hash of an empty key")
        } else if seen.contains_key(value) {
            format!("`{key}` has the hash of another key")
        } else {
            seen.insert(*value, *key_span);
            continue;
        };
        let error =
            Diagnostic::error(*key_span, message).label("expected a different hash for each key");
        return to.fail(
            seen.get(value)
                .into_iter()
                .fold(error, |error, first| error.also(*first, "the other key is here")),
        );
    }
    let keys = keys.into_iter().map(|Named { key, value, .. }| ApiKey { name: key, hash: value });
    Some(ApiKeys { header, query, identity_header, keys: keys.collect(), file })
}

/// The keys of a file: lines of a name, a colon and a hash. Empty ones and those that begin with `#` do not count. There
/// may be none: when its last line is removed, that key must not stay valid.
pub fn api_keys_in(bytes: &[u8]) -> Result<Vec<ApiKey>, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_owned())?;
    let mut count = 0;
    lines_of(text, |line| {
        let (name, hash) = line.split_once(':').ok_or("there is no colon after a name")?;
        // What stands there may be a key: it is not repeated.
        let name =
            parse_name(name.trim()).map_err(|_| "the part before the colon is not a valid name")?;
        let hash = parse_hash(hash.trim()).map_err(|problem| problem.reason)?;
        if hash.is_of_nothing() {
            return Err("it is the hash of an empty key".to_owned());
        }
        count += 1;
        match count > MAX_API_KEYS {
            true => Err(format!("there are more than {MAX_API_KEYS} keys")),
            false => Ok(ApiKey { name, hash }),
        }
    })
}

/// What the lines of a file say that count, or what is wrong with them.
pub(super) fn lines_of<T>(
    text: &str,
    mut parse: impl FnMut(&str) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    const TOLD: usize = 8;
    let (mut values, mut told, mut faults) = (Vec::new(), Vec::new(), 0);
    for (line, number) in text.lines().zip(1..) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match parse(line) {
            Ok(value) => values.push(value),
            Err(reason) => {
                faults += 1;
                if told.len() < TOLD {
                    told.push(format!("line {number}: {reason}"));
                }
            }
        }
    }
    match faults - told.len() {
        _ if faults == 0 => Ok(values),
        0 => Err(told.join("; ")),
        more => Err(format!("{}; and {more} more", told.join("; "))),
    }
}

const HASH: TextShape = TextShape {
    what: "a key hash",
    examples: "the output of `printf %s KEY | sha256sum`: 64 hexadecimal digits",
    pattern: Some("^[0-9A-Fa-f]{64}$"),
    max: 64,
};

/// The SHA-256 of no bytes.
const HASH_OF_NOTHING: [u8; 32] = [
    0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24,
    0x27, 0xae, 0x41, 0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55,
];

/// The hash of a key that clients present.
pub(crate) fn key_hash() -> impl Read<Value = KeyHash> {
    secret(HASH, parse_hash)
}

fn parse_hash(text: &str) -> Result<KeyHash, Problem> {
    let digits = text.as_bytes();
    if digits.len() != 64 {
        return Err(Problem::new(format!("it has {} characters, not 64", digits.len())));
    }
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |digit: u8| char::from(digit).to_digit(16);
        let (high, low) = digit(pair[0]).zip(digit(pair[1])).ok_or_else(|| {
            Problem::new("it contains characters that are not hexadecimal digits")
        })?;
        *byte = u8::try_from(high << 4 | low).map_err(|_| Problem::new("it is no byte"))?;
    }
    Ok(KeyHash(bytes))
}
