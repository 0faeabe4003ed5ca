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
    /// Never given to another one, and this gateway's own.
    pub(super) id: u64,
    pub(super) tokens: Tokens,
    /// When it became what it is, in milliseconds since 1970, and later than whatever was known of these tokens then. 0 where an
    /// earlier version has written it, whose gateway told no other one.
    pub(super) stamp: u64,
    /// Nothing while the tokens are refused. Otherwise they are accepted again, so that those hear of it who know them as revoked:
    /// those who know what was said up to that stamp, which is what this gateway knew when it withdrew it.
    pub(super) lifts: Option<u64>,
}

/// An entry as a client sees it, and whether all gateways can know of it, where there are others.
#[derive(Serialize)]
#[serde(transparent)]
pub(super) struct Shown(EntryJson);

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
/// The same in milliseconds, and as much again for those that followed it within a millisecond.
const MAX_STAMP: u64 = 2 * 1000 * MAX_DATE;

impl Entry {
    /// Whether its tokens are accepted again.
    pub(super) fn is_withdrawn(&self) -> bool {
        self.lifts.is_some()
    }

    /// The same, withdrawn.
    pub(super) fn withdrawn(&self, stamp: u64) -> Entry {
        Entry { stamp, lifts: Some(self.stamp), ..self.clone() }
    }

    /// What this and `other`, which was known elsewhere of the same tokens, come to: wherever they meet, and however often. Of two
    /// that revoke, what either does. Who withdraws undoes what they knew, and nothing else, whatever is later: in doubt tokens are
    /// revoked.
    pub(super) fn merged(&self, other: &Entry) -> Entry {
        let outlasts = |entry: &Entry, lifts: u64| entry.stamp > lifts;
        let (tokens, lifts) = match (self.lifts, other.lifts) {
            (Some(lifts), None) if outlasts(other, lifts) => {
                return Entry { id: self.id, ..other.clone() };
            }
            (None, Some(lifts)) if outlasts(self, lifts) => return self.clone(),
            // Known for as long as whatever it withdraws, in one form wherever the two meet.
            (one, another) => (self.tokens.and(&other.tokens), one.max(another)),
        };
        Entry { id: self.id, tokens, stamp: self.stamp.max(other.stamp), lifts }
    }

    /// Whether both say the same, whatever their ids.
    pub(super) fn says(&self, other: &Entry) -> bool {
        *self == Entry { id: self.id, ..other.clone() }
    }

    /// For clients. `is_published` where there are others to tell.
    pub(super) fn shown(self, is_published: Option<bool>) -> Shown {
        let entry = EntryJson::from(Entry { stamp: 0, ..self });
        Shown(EntryJson { published: is_published, ..entry })
    }

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
    #[serde(default, skip_serializing_if = "is_zero")]
    stamp: u64,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    withdrawn: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lifts: Option<u64>,
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    published: Option<bool>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
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
        let EntryJson { id, jti, sub, iat, iss, exp, stamp, withdrawn, lifts, published: _ } =
            written;
        if stamp.max(lifts.unwrap_or_default()) > MAX_STAMP {
            return Err("`stamp` and `lifts` must be Unix times in milliseconds");
        }
        // Earlier versions have not said what they knew: everything that was said before.
        let lifts = withdrawn.then(|| lifts.unwrap_or(stamp.saturating_sub(1)));
        let tokens = TokensJson { jti, sub, iat, iss, exp }.try_into()?;
        Ok(Entry { id, tokens, stamp, lifts })
    }
}

impl From<Entry> for EntryJson {
    fn from(entry: Entry) -> EntryJson {
        let Entry { id, tokens: Tokens { of, issuer, ends }, stamp, lifts } = entry;
        let (jti, sub, iat) = match of {
            Revoked::Token(name) => (Some(name), None, None),
            Revoked::Subject(name, issued) => (None, Some(name), Some(issued.as_secs())),
        };
        let (iss, exp, withdrawn) = (issuer, ends, lifts.is_some());
        EntryJson { id, jti, sub, iat, iss, exp, stamp, withdrawn, lifts, published: None }
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
