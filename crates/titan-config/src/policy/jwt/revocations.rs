//! Revoked tokens: where they are stored, for all policies.

use crate::bounds::MAX_REVOCATIONS;
use crate::diagnostic::Diagnostic;
use crate::node::Node;
use crate::read::{Read, Reading, default, optional, required};
use crate::readers::{duration, short_for, whole, words};
use crate::section::{section, section_of};
use crate::store::store_name;
use crate::tls::file;
use crate::token::Name;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

section! {
    "jwt_revocations", "the revoked tokens", Any;
    /// Tokens that all JWT policies refuse although they are otherwise valid. Revoke them at the admin interface,
    /// `/jwt/revocations`. A plain string sets `file` alone.
    pub struct JwtRevocations {
        /// The file that stores them; it is created if it does not exist. No other process may use it. A relative path
        /// starts at the directory of the file that says it. If it cannot be read, or is corrupt, Titan does not
        /// start.
        pub file: PathBuf = required(file()),
        /// How many entries there may be at a time; each takes about 500 bytes of memory. When it is full, further ones
        /// are refused; entries whose tokens have expired make room.
        pub capacity: NonZeroU32 = default("100000", whole(1..=MAX_REVOCATIONS)),
        /// A store of the file's `stores`, through which the gateways of a fleet tell each other what is revoked: what one
        /// revokes is refused by all within a second. All gateways need the same `capacity`. No request asks the store, and
        /// what is stored there is encrypted with a key that is derived from its `hash_key`.
        pub store: Option<Name> = optional("none: each gateway knows what was revoked at itself", store_name()),
        /// What becomes of requests with tokens while the gateway has not heard from `store` for longer than `stale_after`, or
        /// knows that it lacks revocations: with `keep` what it knows stays in force, and other tokens are valid; `deny`
        /// refuses all tokens that could have been revoked, with 503 (`token-revocations`), also from the start until the
        /// gateway has read all that the store has.
        pub without_store: WithoutRevocations = default("keep", words(&[
            ("keep", WithoutRevocations::Keep),
            ("deny", WithoutRevocations::Deny),
        ])),
        /// How long a gateway may be cut off from `store` before `without_store` decides, and before it says that it is cut off.
        pub stale_after: Duration = default("10s", duration(MIN_STALE..=MAX_STALE)),
    }
}

/// What becomes of tokens while a gateway cannot know whether another one has revoked them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WithoutRevocations {
    /// Those are valid that are not known to be revoked.
    Keep,
    /// None is valid that could be revoked.
    Deny,
}

/// A store that is asked ten times a second may be late for this long.
const MIN_STALE: Duration = Duration::from_secs(1);
/// Who waits for longer can as well wait for ever.
const MAX_STALE: Duration = Duration::from_secs(24 * 60 * 60);

pub(crate) fn jwt_revocations() -> impl Read<Value = JwtRevocations> {
    short_for("file", section_of::<JwtRevocations>().then(check))
}

/// Whether there is a store that tokens could be refused without.
fn check(revocations: JwtRevocations, node: &Node, to: &mut Reading<'_>) -> Option<JwtRevocations> {
    let denies = revocations.without_store == WithoutRevocations::Deny;
    if !denies || revocations.store.is_some() {
        return Some(revocations);
    }
    let message = "`without_store` is set, but no `store` is";
    let error = Diagnostic::error(node.key_span("without_store"), message).label("no effect");
    to.fail(error.help("set `store` to one of `stores`, or remove this"))
}
