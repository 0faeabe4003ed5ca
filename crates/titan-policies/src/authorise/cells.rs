//! Counters of passwords, and of requests to authorization services.

use crate::policy::{Metric, no_event};
use titan_io::counter::Counter;

/// What is counted of passwords, and of the decisions of services.
#[derive(Default)]
pub(crate) struct AuthoriseCells {
    /// Passwords that were remembered to be right or wrong.
    pub(super) passwords_remembered: Counter,
    /// Those that were compared with a hash.
    pub(super) passwords_checked: Counter,
    /// Decisions that were remembered.
    pub(super) decisions_remembered: Counter,
    /// Those that took a call because they were not.
    pub(super) decisions_asked: Counter,
}

/// What is made of it.
pub(super) const METRICS: &[Metric<AuthoriseCells>] = &[
    Metric {
        name: "titan_basic_auth_cache_hits_total",
        help: "Passwords found in the cache of checked passwords.",
        label: "",
        figures: |cells| vec![("", cells.passwords_remembered.get())],
        event: no_event,
    },
    Metric {
        name: "titan_basic_auth_cache_misses_total",
        help: "Passwords compared with a hash.",
        label: "",
        figures: |cells| vec![("", cells.passwords_checked.get())],
        event: no_event,
    },
    Metric {
        name: "titan_forward_auth_cache_hits_total",
        help: "Decisions of authorization services found in the cache.",
        label: "",
        figures: |cells| vec![("", cells.decisions_remembered.get())],
        event: no_event,
    },
    Metric {
        name: "titan_forward_auth_cache_misses_total",
        help: "Requests sent to authorization services because no decision was cached.",
        label: "",
        figures: |cells| vec![("", cells.decisions_asked.get())],
        event: no_event,
    },
];
