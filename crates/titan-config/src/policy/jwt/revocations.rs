//! Revoked tokens: where they are remembered, for all policies.

use crate::bounds::MAX_REVOCATIONS;
use crate::read::{Read, default, required};
use crate::readers::{short_for, whole};
use crate::section::{section, section_of};
use crate::tls::file;
use std::num::NonZeroU32;
use std::path::PathBuf;

section! {
    "jwt_revocations", "the revoked tokens", Any;
    /// Tokens that are refused although they are good otherwise, by all JWT policies. They are named at the admin interface,
    /// `/jwt/revocations`. A plain text stands for `file` alone.
    pub struct JwtRevocations {
        /// The file that remembers them; it is made where there is none. No other process may use it. A relative path starts at
        /// the folder of the configuration file. Where it cannot be read, or is not as it was written, Titan does not start.
        pub file: PathBuf = required(file()),
        /// How many entries there may be at a time; each takes some 500 bytes of memory. Where there is no room, further ones
        /// are refused; those whose tokens have ended make room.
        pub capacity: NonZeroU32 = default("100000", whole(1..=MAX_REVOCATIONS)),
    }
}

pub(crate) fn jwt_revocations() -> impl Read<Value = JwtRevocations> {
    short_for("file", section_of::<JwtRevocations>())
}
