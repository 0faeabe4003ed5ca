//! Limits that several gateways count together.

use crate::read::{Read, default, required};
use crate::readers::{short_for, words};
use crate::section::{section, section_of};
use crate::store::store_name;
use crate::token::Name;

section! {
    "shared_limit", "how a limit is shared", Any;
    /// How the gateways of a fleet count together. Those that have a policy of the same name and the same store count as one. Each
    /// request that is counted takes one call to the store.
    pub struct SharedLimit {
        /// The store, by its name in the file's `stores`.
        pub store: Name = required(store_name()),
        /// What becomes of requests while the store does not respond: with `local` each gateway counts by itself and lets pass what all
        /// may, divided by the number of gateways that were seen last; `allow` lets all pass; `deny` refuses all with 503
        /// (`store-unavailable`). With `local`, neither does a store that is down stop the service, nor is it without a limit.
        pub without_store: WithoutStore = default("local", words(&[
            ("local", WithoutStore::Local),
            ("allow", WithoutStore::Allow),
            ("deny", WithoutStore::Deny),
        ])),
    }
}

/// What becomes of requests while the store of their limit does not respond.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WithoutStore {
    /// Each gateway lets its part of the limit pass.
    Local,
    /// All pass.
    Allow,
    /// None pass.
    Deny,
}

pub(super) fn shared() -> impl Read<Value = SharedLimit> {
    short_for("store", section_of::<SharedLimit>())
}
