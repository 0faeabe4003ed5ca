//! Limits on failures: how often clients may show what is wrong.

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
    "failure_limit", "a limit on failures", Any;
    /// How often clients may fail to show who they are: at least one of `by_client` and `by_name`. A request counts whose token,
    /// API key or password is wrong, or more than one, and one with `Authorization` that the service of `forward_auth`
    /// responds with 401; one that shows nothing does not. Whoever has used up the rate is answered with 429 and
    /// `Retry-After` before anything is checked, also with what is right. Requests that come at the same moment are checked before
    /// any of them has failed, of one client's passwords 32 at most. Those beyond the rate are owed: whoever sent them waits the
    /// longer, by an hour or by what 32 failures take at most, whichever is more. Routes that name the same policy share its
    /// numbers, which are one over all workers.
    pub struct FailureLimit {
        /// How many failures in how long for each client: an IPv4 address (behind all trusted proxies), or a network of IPv6.
        pub by_client: Option<Rate> = optional("no limit", rate()),
        /// How many wrong passwords in how long for each user name (`authorise.basic`), wherever they come from. Who knows a
        /// name can keep its user out with it: make it much higher than `by_client`, if it is needed at all.
        pub by_name: Option<Rate> = optional("no limit", rate()),
        /// How many leading bits of IPv6 addresses tell clients apart.
        pub ipv6_prefix: u8 = default("64", whole(16..=128)),
        /// Whether all requests are let through, and only the metrics tell which would not have been
        /// (`titan_rate_limit_requests_total`), and a line on standard error once a minute at most.
        pub shadow: bool = default("false", boolean()),
        /// For how many clients, and for how many names, failures can be counted at the same time. One takes some 64 bytes of
        /// memory from the start. Where more fail than have room, others wait as long as those of them that have to wait least.
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
    let error = Diagnostic::error(node.span, "a limit on failures that limits nothing");
    to.fail(error.label("expected `by_client` or `by_name`"))
}
