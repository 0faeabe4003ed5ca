//! What policies count, and the key sets that they fetch.

use super::family::Family;
use super::folding::{Figures, Need, OTHER, fold};
use super::page::Page;
use std::collections::HashMap;
use titan_proxy::{KeySetStatus, PolicyFigure, PolicyMetric};

/// In the order of [`KeySet`].
pub(super) const OF_KEY_SET: [Family; 3] = [
    Family::gauge("titan_jwks_keys", "Keys in use from a fetched key set."),
    Family::gauge(
        "titan_jwks_last_success_timestamp_seconds",
        "Unix time of the last successful fetch of the key set; 0 for never.",
    ),
    Family::counter("titan_jwks_fetches_failed_total", "Failed attempts to fetch the key set."),
];

/// The figures of a key set. Of several the one counts that was fetched the longest ago.
struct KeySet([u64; OF_KEY_SET.len()]);

impl Figures for KeySet {
    fn add(&mut self, other: &KeySet) {
        let (KeySet([keys, fetched, failed]), KeySet([more, before, too])) = (self, other);
        *keys += more;
        *fetched = (*fetched).min(*before);
        *failed += too;
    }
}

impl Page {
    /// So many policies with series of their own.
    pub(super) fn policies(&mut self, metrics: &[PolicyMetric], own: usize) {
        let mut known = HashMap::new();
        for PolicyMetric { name, help, label, figures } in metrics {
            self.begin(Family::counter(name, help));
            let figures = figures.iter().map(|PolicyFigure { policy, figure, count, .. }| {
                let next = known.len();
                let policy = match *known.entry(policy.as_str()).or_insert(next) < own {
                    true => policy.as_str(),
                    false => OTHER,
                };
                ([policy, *figure], [*count])
            });
            for ([policy, figure], [count]) in fold(figures, usize::MAX) {
                let labels = [("policy", policy), (*label, figure)];
                let labels = if label.is_empty() { &labels[..1] } else { &labels[..] };
                self.sample(name, labels, count);
            }
        }
    }

    /// So many with series of their own.
    pub(super) fn key_sets(&mut self, sets: &[KeySetStatus], own: usize) {
        if sets.is_empty() {
            return;
        }
        let sets = sets.iter().map(|KeySetStatus { policy, issuer, keys, fetched_at, failed }| {
            ([policy.as_str(), issuer.as_str()], KeySet([*keys as u64, *fetched_at, *failed]))
        });
        let rows = fold(sets, own);
        for (figure, family) in OF_KEY_SET.into_iter().enumerate() {
            self.begin(family);
            for ([policy, issuer], KeySet(figures)) in &rows {
                let labels = [("policy", *policy), ("issuer", *issuer)];
                self.sample(family.name, &labels, figures[figure]);
            }
        }
    }
}

/// What all figures of all policies need.
pub(super) fn need(metrics: &[PolicyMetric]) -> Need {
    let mut series: HashMap<&str, usize> = HashMap::new();
    for PolicyFigure { policy, .. } in metrics.iter().flat_map(|metric| &metric.figures) {
        *series.entry(policy).or_default() += 1;
    }
    // The figures of the others together may be those of all types.
    let of_metric = |metric: &PolicyMetric| {
        let first = metric.figures.first();
        let of_first = |figure: &&PolicyFigure| Some(&figure.policy) == first.map(|it| &it.policy);
        metric.figures.iter().take_while(of_first).count()
    };
    let of_others = metrics.iter().map(of_metric).sum::<usize>();
    let most = series.values().copied().max().unwrap_or_default();
    Need { count: series.len(), each: most.max(of_others) }
}
