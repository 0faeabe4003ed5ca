//! Tokens revoked before they expire: one table for all workers, which none of them waits for.

use super::{Refusal, date};
use arc_swap::ArcSwap;
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Revoked tokens. Clones share one table: what is added to one is refused by every worker that has another.
#[derive(Clone, Default)]
pub struct Revocations(Arc<Table>);

/// Which tokens are revoked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revocation {
    /// What they have in common.
    pub of: Revoked,
    /// Their issuer (`iss`); any issuer if there is none.
    pub issuer: Option<Arc<str>>,
    /// Until when they are refused, since 1970. Later than their own end, or they come to life again.
    pub until: Duration,
}

/// What revoked tokens have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Revoked {
    /// The name of the token (`jti`).
    Token(Arc<str>),
    /// Whom they are about (`sub`), and that they were issued (`iat`) then, since 1970, or before. One that does not say
    /// when it was issued was issued before.
    Subject(Arc<str>, Duration),
}

struct Table {
    /// Counts what was added. A token that was not found here needs no second look before this changes.
    edition: AtomicU64,
    /// Changed one by one: what is copied for a change is one of many.
    shards: Box<[ArcSwap<Shard>]>,
    hasher: RandomState,
    started: Instant,
    /// In milliseconds since it was started: until when it is not too old to be trusted. [`NEVER_STALE`] without such a time.
    fresh_until: AtomicU64,
}

/// What is known of some of the names; only rules that say something are there.
#[derive(Clone, Default)]
struct Shard {
    tokens: HashMap<Arc<str>, Vec<Rule>>,
    subjects: HashMap<Arc<str>, Vec<Rule>>,
}

/// Which of the tokens with the same name.
#[derive(Clone)]
struct Rule {
    issuer: Option<Arc<str>>,
    /// The latest that it is for.
    issued: Duration,
    until: Duration,
}

/// With a million entries, as many as may be, a change copies four thousand.
const SHARDS: usize = 256;
/// Before anything was added.
const FIRST: u64 = 1;
/// A table that is all that there is to know.
const NEVER_STALE: u64 = u64::MAX;

impl Revocations {
    /// Refuses these tokens, also those that workers remember as good: every request that begins when this has
    /// returned meets it. Takes the place of what was said before of the same name and issuer.
    pub fn add(&self, revocation: &Revocation) {
        let Revocation { of, issuer, until } = revocation;
        let issued = match of {
            Revoked::Token(_) => Duration::MAX,
            Revoked::Subject(_, issued) => *issued,
        };
        let rule = Rule { issuer: issuer.clone(), issued, until: *until };
        self.change(of, issuer.as_deref(), Some(&rule));
        // After the table: a thread that sees the edition sees what is in it.
        self.0.edition.fetch_add(1, Ordering::AcqRel);
    }

    /// Removes the revocation.
    pub fn remove(&self, revocation: &Revocation) {
        self.change(&revocation.of, revocation.issuer.as_deref(), None);
    }

    /// Refuses all tokens that could be revoked, from `after` on, unless this is called again until then. Who never calls it has a
    /// table that does not depend on what others know.
    pub fn distrust_after(&self, after: Duration) {
        let at = self.0.started.elapsed().saturating_add(after).as_millis();
        let at = u64::try_from(at).unwrap_or(NEVER_STALE);
        self.0.fresh_until.store(at, Ordering::Release);
    }

    /// Whether it may be used, or is too old.
    pub(super) fn is_fresh(&self) -> bool {
        let until = self.0.fresh_until.load(Ordering::Acquire);
        until == NEVER_STALE || self.0.started.elapsed().as_millis() < u128::from(until)
    }

    fn change(&self, of: &Revoked, issuer: Option<&str>, rule: Option<&Rule>) {
        self.0.shard(of.name()).rcu(|shard| {
            let mut shard = Shard::clone(shard);
            let names = match of {
                Revoked::Token(_) => &mut shard.tokens,
                Revoked::Subject(..) => &mut shard.subjects,
            };
            let rules = names.entry(Arc::clone(of.name())).or_default();
            rules.retain(|known| known.issuer.as_deref() != issuer);
            rules.extend(rule.cloned());
            if rules.is_empty() {
                names.remove(of.name());
            }
            shard
        });
    }

    /// What tells the table from others, as long as it is in use.
    pub(super) fn id(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    /// Changes when something is added.
    pub(super) fn edition(&self) -> u64 {
        self.0.edition.load(Ordering::Acquire)
    }

    /// Whether a token with these claims is not revoked.
    pub(super) fn judge(&self, claims: &Map<String, Value>, now: Duration) -> Result<(), Refusal> {
        let issuer = claims.get("iss").and_then(Value::as_str);
        let issued = date(claims, "iat")?.unwrap_or_default();
        let is_revoked = |rules: &Vec<Rule>| rules.iter().any(|it| it.is_for(issuer, issued, now));
        let token = name(claims, "jti")?
            .is_some_and(|name| self.0.shard(name).load().tokens.get(name).is_some_and(is_revoked));
        let subject = name(claims, "sub")?.is_some_and(|name| {
            self.0.shard(name).load().subjects.get(name).is_some_and(is_revoked)
        });
        if token || subject { Err(Refusal::Revoked) } else { Ok(()) }
    }
}

/// How many there are, and not which.
impl fmt::Debug for Revocations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Revocations")
    }
}

impl Revoked {
    /// What tokens call it by.
    pub fn name(&self) -> &Arc<str> {
        match self {
            Revoked::Token(name) | Revoked::Subject(name, _) => name,
        }
    }
}

impl Table {
    fn shard(&self, name: &str) -> &ArcSwap<Shard> {
        let place = usize::try_from(self.hasher.hash_one(name) % SHARDS as u64).unwrap_or_default();
        &self.shards[place]
    }
}

impl Default for Table {
    fn default() -> Table {
        Table {
            edition: AtomicU64::new(FIRST),
            shards: std::iter::repeat_with(ArcSwap::default).take(SHARDS).collect(),
            hasher: RandomState::new(),
            started: Instant::now(),
            fresh_until: AtomicU64::new(NEVER_STALE),
        }
    }
}

/// Whether a token with these claims has anything that it could be revoked by.
pub(super) fn is_revocable(claims: &Map<String, Value>) -> bool {
    claims.contains_key("jti") || claims.contains_key("sub")
}

impl Rule {
    fn is_for(&self, issuer: Option<&str>, issued: Duration, now: Duration) -> bool {
        let is_theirs = self.issuer.as_deref().is_none_or(|known| Some(known) == issuer);
        is_theirs && issued <= self.issued && now < self.until
    }
}

/// A name, which has to be a text (RFC 7519 sections 4.1.2 and 4.1.7): a token whose name could be read in two ways could not
/// be revoked by it.
fn name<'c>(claims: &'c Map<String, Value>, claim: &str) -> Result<Option<&'c str>, Refusal> {
    claims.get(claim).map(|name| name.as_str().ok_or(Refusal::Claim)).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use serde_json::json;

    const NOW: Duration = Duration::from_secs(1_000);

    fn judge(revocations: &Revocations, claims: Value) -> Result<(), Refusal> {
        let Value::Object(claims) = claims else { unreachable!("the tests write objects") };
        revocations.judge(&claims, NOW)
    }

    fn revocation(of: Revoked, issuer: Option<&str>, until: u64) -> Revocation {
        Revocation { of, issuer: issuer.map(Into::into), until: Duration::from_secs(until) }
    }

    fn subject(name: &str, issued: u64) -> Revoked {
        Revoked::Subject(name.into(), Duration::from_secs(issued))
    }

    #[test]
    fn a_token_is_refused_by_its_id_or_its_subject() {
        let revocations = Revocations::default();
        let before = revocations.edition();
        revocations.add(&revocation(Revoked::Token("a".into()), None, 2_000));
        revocations.add(&revocation(subject("ann", 500), Some("i"), 2_000));
        assert_ne!(revocations.edition(), before);
        let refused = [
            json!({ "jti": "a" }),
            json!({ "jti": "a", "iss": "anybody" }),
            json!({ "sub": "ann", "iss": "i", "iat": 500 }),
            json!({ "sub": "ann", "iss": "i", "iat": 499.5 }),
            json!({ "sub": "ann", "iss": "i" }),
        ];
        for claims in refused {
            assert_eq!(judge(&revocations, claims.clone()), Err(Refusal::Revoked), "{claims}");
        }
        let good = [
            json!({}),
            json!({ "jti": "b" }),
            json!({ "sub": "a", "jti": "ann", "iss": "i", "iat": 1 }),
            json!({ "sub": "ann", "iss": "j", "iat": 1 }),
            json!({ "sub": "ann", "iat": 1 }),
            json!({ "sub": "ann", "iss": "i", "iat": 500.5 }),
        ];
        for claims in good {
            assert_eq!(judge(&revocations, claims.clone()), Ok(()), "{claims}");
        }
        for claims in [json!({ "jti": 1 }), json!({ "sub": null }), json!({ "iat": "x" })] {
            assert_eq!(judge(&revocations, claims.clone()), Err(Refusal::Claim), "{claims}");
        }
    }

    #[derive(Clone, Debug)]
    enum Change {
        Add(Revocation),
        Remove(Revocation),
    }

    fn changes() -> impl Strategy<Value = Vec<Change>> {
        let of = prop_oneof![
            "[ab]".prop_map(|name| Revoked::Token(name.into())),
            ("[ab]", 0..3u64).prop_map(|(name, issued)| subject(&name, issued)),
        ];
        let issuer = proptest::option::of("[ij]");
        let revocation = (of, issuer, 999..1_003u64)
            .prop_map(|(of, issuer, until)| revocation(of, issuer.as_deref(), until));
        vec((any::<bool>(), revocation), 0..12).prop_map(|all| {
            let change = |(is_new, it)| if is_new { Change::Add(it) } else { Change::Remove(it) };
            all.into_iter().map(change).collect()
        })
    }

    /// Whether both are about the same tokens, but for when those were issued.
    fn is_same(ours: &Revocation, theirs: &Revocation) -> bool {
        let kind = |it: &Revocation| matches!(it.of, Revoked::Token(_));
        kind(ours) == kind(theirs)
            && ours.of.name() == theirs.of.name()
            && ours.issuer == theirs.issuer
    }

    proptest! {
        /// A list that is searched from end to end says the same.
        #[test]
        fn the_table_says_what_a_list_says(
            changes in changes(), jti in "[abc]", sub in "[abc]", iss in "[ij]", iat in 0..4u64,
        ) {
            let revocations = Revocations::default();
            let mut list: Vec<Revocation> = Vec::new();
            for change in changes {
                let (Change::Add(it) | Change::Remove(it)) = &change;
                list.retain(|known| !is_same(known, it));
                match change {
                    Change::Add(it) => { revocations.add(&it); list.push(it); }
                    Change::Remove(it) => revocations.remove(&it),
                }
            }
            let is_revoked = list.iter().any(|it| {
                let is_named = match &it.of {
                    Revoked::Token(name) => **name == *jti,
                    Revoked::Subject(name, issued) => **name == *sub && iat <= issued.as_secs(),
                };
                is_named && it.issuer.as_deref().is_none_or(|it| it == iss) && NOW < it.until
            });
            let claims = json!({ "jti": jti, "sub": sub, "iss": iss, "iat": iat });
            prop_assert_eq!(judge(&revocations, claims).is_err(), is_revoked);
        }
    }
}
