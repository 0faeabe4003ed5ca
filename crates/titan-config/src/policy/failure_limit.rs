//! Limits on failures: how often a client may fail to authenticate.

use super::rate_limit::{Rate, rate};
use super::section::PolicySection;
use crate::bounds::MAX_LIMITED_KEYS;
use crate::diagnostic::Diagnostic;
use crate::node::Node;
use crate::read::{Read, Reading, default, optional};
use crate::readers::{boolean, whole};
use crate::section::{section, section_of};
use std::num::NonZeroU32;

section! {
    "failure_limit", "a failure limit", Any;
    /// How often clients may fail to authenticate: at least one of `by_client` and `by_name`. A request counts if its
    /// token, API key or password is wrong, if it has more than one token, or if it has `Authorization` and the service
    /// of `forward_auth` responds with 401; one without credentials does not count. A client that has used up the rate
    /// gets 429 and `Retry-After` before anything is checked, even with valid credentials. Concurrent requests are
    /// checked before any of them has failed, at most 32 passwords of one client. Failures beyond the rate lengthen the
    /// wait, by at most an hour or the time of 32 failures, whichever is longer. Routes with the same policy share its
    /// counters, over all workers.
    pub struct FailureLimit {
        /// The rate of failures for each client: an IPv4 address (behind all trusted proxies), or an IPv6 network.
        pub by_client: Option<Rate> = optional("no limit", rate()),
        /// The rate of wrong passwords for each user name (`authorise.basic`), from any client. Anyone who knows a name
        /// can lock its user out with it: if you need it at all, set it much higher than `by_client`.
        pub by_name: Option<Rate> = optional("no limit", rate()),
        /// How many leading bits of an IPv6 address identify a client.
        pub ipv6_prefix: u8 = default("64", whole(16..=128)),
        /// Whether to let all requests pass and only report those that exceed the limit: in metrics
        /// (`titan_rate_limit_requests_total`), and on standard error once a minute at most.
        pub shadow: bool = default("false", boolean()),
        /// For how many clients, and for how many names, failures can be counted at a time. Each takes about 64 bytes
        /// of memory, allocated at the start. If there is no room, further ones wait as long as the one among those
        /// counted that waits the least.
        pub capacity: NonZeroU32 = default("65536", whole(64..=MAX_LIMITED_KEYS)),
    }
}

impl PolicySection for FailureLimit {}

pub(super) fn policy() -> impl Read<Value = FailureLimit> {
    section_of::<FailureLimit>().then(check)
}

fn check(limit: FailureLimit, node: &Node, to: &mut Reading<'_>) -> Option<FailureLimit> {
    if limit.by_client.is_some() || limit.by_name.is_some() {
        return Some(limit);
    }
    let error = Diagnostic::error(node.span, "this failure limit limits nothing");
    to.fail(error.label("expected `by_client` or `by_name`"))
}
