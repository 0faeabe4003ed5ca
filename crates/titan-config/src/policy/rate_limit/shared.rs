//! Limits that several gateways count together.

use crate::read::{Read, default, required};
use crate::readers::{short_for, words};
use crate::section::{section, section_of};
use crate::store::store_name;
use crate::token::Name;

section! {
    "shared_limit", "how a limit is shared", Any;
    /// How the gateways of a fleet count together. Those that have a policy of the same name and the same store count as one.
    pub struct SharedLimit {
        /// The store, by its name in the file's `stores`.
        pub store: Name = required(store_name()),
        /// How exactly. With `exact` each request that is counted takes one call to the store, and waits for it. With `lease` a gateway
        /// takes permits ahead for keys that it meets more than 40 times a second, as many as they have used lately, and lets requests
        /// pass by these without a call; what is not used within 100 ms is given back. For one key a gateway holds at most what each of
        /// its rates gives in 100 ms, or a twentieth of the burst divided by the number of gateways if that is more, and never more
        /// than its part of half the burst. So of a key there pass in any time at most the burst, what the rate gives in that time,
        /// and what all gateways may hold. While the
        /// store has none for a key, its requests are refused without a call until one fits, and for 10 ms or half the time in which a
        /// burst comes back, whichever is less. Rarer keys, and limits of which a gateway may hold fewer than 4, are counted exactly.
        pub mode: SharedMode = default("exact", words(&[
            ("exact", SharedMode::Exact),
            ("lease", SharedMode::Lease),
        ])),
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

/// How exactly the gateways of a fleet count together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SharedMode {
    /// By a call to the store for each request.
    Exact,
    /// By permits that each gateway takes from the store ahead of requests.
    Lease,
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
