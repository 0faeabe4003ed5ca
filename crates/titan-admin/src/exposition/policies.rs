//! What policies count, and the key sets that they fetch.

use super::family::Family;
use super::folding::{Figures, Need, Other, fold};
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
#[derive(Clone, Copy)]
pub(super) struct KeySet([u64; OF_KEY_SET.len()]);

/// What a policy counts, each with its metric and figure.
#[derive(Clone, Default)]
pub(super) struct PolicySum(Vec<((&'static str, &'static str), u64)>);

impl Figures for KeySet {
    fn add(&mut self, other: &KeySet) {
        let (KeySet([keys, fetched, failed]), KeySet([more, before, too])) = (self, other);
        *keys += more;
        *fetched = (*fetched).min(*before);
        *failed += too;
    }

    fn since(&self, before: &KeySet) -> Option<KeySet> {
        let (KeySet([keys, fetched, failed]), KeySet([.., before])) = (self, before);
        Some(KeySet([*keys, *fetched, failed.checked_sub(*before)?]))
    }

    fn count_on(&mut self, before: &KeySet) {
        let (KeySet([.., failed]), KeySet([.., before])) = (self, before);
        *failed += before;
    }
}

impl PolicySum {
    fn of(&self, wanted: (&str, &str)) -> Option<u64> {
        self.0.iter().find(|(figure, _)| *figure == wanted).map(|(_, count)| *count)
    }
}

impl Figures for PolicySum {
    fn add(&mut self, other: &PolicySum) {
        for (figure, count) in &other.0 {
            match self.0.iter_mut().find(|(known, _)| known == figure) {
                Some((_, sum)) => *sum += count,
                None => self.0.push((*figure, *count)),
            }
        }
    }

    fn since(&self, before: &PolicySum) -> Option<PolicySum> {
        let since = |(figure, count): &(_, u64)| {
            Some((*figure, count.checked_sub(before.of(*figure).unwrap_or_default())?))
        };
        self.0.iter().map(since).collect::<Option<_>>().map(PolicySum)
    }

    fn count_on(&mut self, before: &PolicySum) {
        for (figure, count) in &mut self.0 {
            *count += before.of(*figure).unwrap_or_default();
        }
    }
}

impl Page {
    /// So many policies with series of their own.
    pub(super) fn policies(
        &mut self,
        metrics: &[PolicyMetric],
        (own, other): (usize, &mut Other<1, PolicySum>),
    ) {
        let rows = fold(by_policy(metrics).into_iter(), own, other);
        for PolicyMetric { name, help, label, .. } in metrics {
            self.begin(Family::counter(name, help));
            for ([policy], PolicySum(counts)) in &rows {
                for ((_, figure), count) in counts.iter().filter(|((of, _), _)| of == name) {
                    let labels = [("policy", *policy), (*label, *figure)];
                    let labels = if label.is_empty() { &labels[..1] } else { &labels[..] };
                    self.sample(name, labels, count);
                }
            }
        }
    }

    /// So many with series of their own.
    pub(super) fn key_sets(
        &mut self,
        sets: &[KeySetStatus],
        (own, other): (usize, &mut Other<2, KeySet>),
    ) {
        if sets.is_empty() {
            return;
        }
        let sets = sets.iter().map(|KeySetStatus { policy, issuer, keys, fetched_at, failed }| {
            ([policy.as_str(), issuer.as_str()], KeySet([*keys as u64, *fetched_at, *failed]))
        });
        let rows = fold(sets, own, other);
        for (figure, family) in OF_KEY_SET.into_iter().enumerate() {
            self.begin(family);
            for ([policy, issuer], KeySet(figures)) in &rows {
                let labels = [("policy", *policy), ("issuer", *issuer)];
                self.sample(family.name, &labels, figures[figure]);
            }
        }
    }
}

/// What each policy counts, in the order in which the metrics name them.
fn by_policy(metrics: &[PolicyMetric]) -> Vec<([&str; 1], PolicySum)> {
    let (mut all, mut places) = (Vec::new(), HashMap::new());
    for metric in metrics {
        for PolicyFigure { policy, figure, count, .. } in &metric.figures {
            let place = *places.entry(policy.as_str()).or_insert(all.len());
            if place == all.len() {
                all.push(([policy.as_str()], PolicySum::default()));
            }
            let (_, PolicySum(counts)) = &mut all[place];
            counts.push(((metric.name, *figure), *count));
        }
    }
    all
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
