//! Counters of rate limits.

use crate::policy::Metric;
use titan_io::counter::Counter;

/// What is made of it, for limits of all types.
pub(crate) const METRICS: &[Metric<RateLimitCells>] = &[Metric {
    name: "titan_rate_limit_requests_total",
    help: "Requests checked against a rate limit, by decision.",
    label: "verdict",
    figures: |cells| {
        let RateLimitCells {
            allowed,
            delayed,
            limited,
            full,
            exempt,
            shadowed,
            unchecked,
            unavailable,
        } = cells;
        vec![
            ("allowed", allowed.get()),
            ("delayed", delayed.get()),
            ("limited", limited.get()),
            ("full", full.get()),
            ("exempt", exempt.get()),
            ("shadowed", shadowed.get()),
            ("unchecked", unchecked.get()),
            ("unavailable", unavailable.get()),
        ]
    },
    event: |policy, verdict| {
        let is_watched = verdict == "shadowed";
        is_watched.then(|| {
            format!("policy `{policy}` is in shadow mode; requests it would have refused:")
        })
    },
}];

/// Counters of rate limits.
#[derive(Default)]
pub(crate) struct RateLimitCells {
    /// Requests that it let through.
    pub(crate) allowed: Counter,
    /// Requests that it let through when they had waited for their turn, or lets wait.
    pub(crate) delayed: Counter,
    /// Requests that it refused.
    pub(crate) limited: Counter,
    /// Requests that it refused for want of room for their keys.
    pub(crate) full: Counter,
    /// Requests that it does not count.
    pub(crate) exempt: Counter,
    /// Requests that passed only because the limit is in shadow mode.
    pub(crate) shadowed: Counter,
    /// Requests that passed because the store did not respond.
    pub(crate) unchecked: Counter,
    /// Requests that it refused because the store did not respond.
    pub(crate) unavailable: Counter,
}
