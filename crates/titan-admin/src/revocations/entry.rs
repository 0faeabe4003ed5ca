//! What is revoked, in the form of the file and of the admin interface, with the names of token claims.

use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use titan_config::bounds::MAX_LEEWAY;
use titan_proxy::{Revocation, Revoked};

/// One entry: tokens that are refused, and for how long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "EntryJson", into = "EntryJson")]
pub(crate) struct Entry {
    /// Never given to another one.
    pub(super) id: u64,
    pub(super) tokens: Tokens,
}

/// Tokens that are refused, and for how long.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "TokensJson")]
pub(crate) struct Tokens {
    pub(super) of: Revoked,
    pub(super) issuer: Option<Arc<str>>,
    /// When the last of them ends (`exp`), in seconds since 1970.
    pub(super) ends: u64,
}

/// What identifies an entry: no two have the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct TokensKey {
    is_subject: bool,
    name: Arc<str>,
    issuer: Option<Arc<str>>,
}

/// Bytes of a `jti`, a `sub` or an `iss`.
pub(super) const MAX_NAME: usize = 1024;
/// The end of the year 9999, in seconds since 1970. What is later was meant as milliseconds.
const MAX_DATE: u64 = 253_402_300_799;

impl Entry {
    /// The same in the form that workers use.
    pub(super) fn revocation(&self) -> Revocation {
        let Tokens { of, issuer, ends } = &self.tokens;
        // A token stays valid for that much longer than it says.
        let until = Duration::from_secs(*ends) + MAX_LEEWAY;
        Revocation { of: of.clone(), issuer: issuer.clone(), until }
    }
}

impl Tokens {
    pub(super) fn target(&self) -> TokensKey {
        TokensKey {
            is_subject: matches!(self.of, Revoked::Subject(..)),
            name: Arc::clone(self.of.name()),
            issuer: self.issuer.clone(),
        }
    }

    /// Whether such tokens have expired, revoked or not.
    pub(super) fn have_ended(&self, now: u64) -> bool {
        now >= self.ends + MAX_LEEWAY.as_secs()
    }

    /// Refuses what these or `others`, with the same key, refuse.
    pub(super) fn and(&self, others: &Tokens) -> Tokens {
        let of = match (&self.of, &others.of) {
            (Revoked::Subject(name, ours), Revoked::Subject(_, theirs)) => {
                Revoked::Subject(Arc::clone(name), *ours.max(theirs))
            }
            (of, _) => of.clone(),
        };
        Tokens { of, issuer: self.issuer.clone(), ends: self.ends.max(others.ends) }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EntryJson {
    id: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    jti: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sub: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    iat: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    iss: Option<Arc<str>>,
    exp: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TokensJson {
    jti: Option<Arc<str>>,
    sub: Option<Arc<str>>,
    iat: Option<u64>,
    iss: Option<Arc<str>>,
    exp: u64,
}

impl TryFrom<EntryJson> for Entry {
    type Error = &'static str;

    fn try_from(written: EntryJson) -> Result<Entry, &'static str> {
        let EntryJson { id, jti, sub, iat, iss, exp } = written;
        Ok(Entry { id, tokens: TokensJson { jti, sub, iat, iss, exp }.try_into()? })
    }
}

impl From<Entry> for EntryJson {
    fn from(entry: Entry) -> EntryJson {
        let Entry { id, tokens: Tokens { of, issuer, ends } } = entry;
        let (jti, sub, iat) = match of {
            Revoked::Token(name) => (Some(name), None, None),
            Revoked::Subject(name, issued) => (None, Some(name), Some(issued.as_secs())),
        };
        EntryJson { id, jti, sub, iat, iss: issuer, exp: ends }
    }
}

impl TryFrom<TokensJson> for Tokens {
    type Error = &'static str;

    fn try_from(asked: TokensJson) -> Result<Tokens, &'static str> {
        let TokensJson { jti, sub, iat, iss, exp } = asked;
        let is_name = |name: &Arc<str>| (1..=MAX_NAME).contains(&name.len());
        if ![&jti, &sub, &iss].into_iter().flatten().all(is_name) {
            return Err("`jti`, `sub` and `iss` must have 1 to 1024 bytes");
        }
        if exp.max(iat.unwrap_or_default()) > MAX_DATE {
            return Err("`exp` and `iat` must be Unix times in seconds");
        }
        let of = match (jti, sub, iat) {
            (Some(name), None, None) => Revoked::Token(name),
            (None, Some(name), Some(issued)) => Revoked::Subject(name, Duration::from_secs(issued)),
            _ => return Err("expected either `jti`, or `sub` and `iat`"),
        };
        Ok(Tokens { of, issuer: iss, ends: exp })
    }
}
