//! Counters of tokens.

use super::Refusal;
use crate::policy::{Metric, no_event};
use titan_io::counter::Counter;

/// What is made of it.
pub(super) const METRICS: &[Metric<JwtCells>] = &[
    Metric {
        name: "titan_jwt_cache_hits_total",
        help: "Valid tokens found in the token cache.",
        label: "",
        figures: |cells| vec![("", cells.hits.get())],
        event: no_event,
    },
    Metric {
        name: "titan_jwt_cache_misses_total",
        help: "Valid tokens whose signature was checked.",
        label: "",
        figures: |cells| vec![("", cells.misses.get())],
        event: no_event,
    },
    Metric {
        name: "titan_jwt_refused_total",
        help: "Tokens refused, by reason.",
        label: "reason",
        figures: |cells| {
            Refusal::WORDS.iter().copied().zip(cells.refused.iter().map(Counter::get)).collect()
        },
        event: |policy, reason| Some(format!("policy `{policy}` refused tokens (`{reason}`):")),
    },
];

/// Counters of tokens.
#[derive(Default)]
pub struct JwtCells {
    /// Valid ones that were known already.
    pub hits: Counter,
    /// Valid ones whose signature had to be checked.
    pub misses: Counter,
    /// Invalid ones by the reason.
    pub refused: [Counter; Refusal::WORDS.len()],
}
