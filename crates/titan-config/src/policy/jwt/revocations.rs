//! Revoked tokens: where they are stored, for all policies.

use crate::bounds::MAX_REVOCATIONS;
use crate::read::{Read, default, required};
use crate::readers::{short_for, whole};
use crate::section::{section, section_of};
use crate::tls::file;
use std::num::NonZeroU32;
use std::path::PathBuf;

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
    }
}

pub(crate) fn jwt_revocations() -> impl Read<Value = JwtRevocations> {
    short_for("file", section_of::<JwtRevocations>())
}
