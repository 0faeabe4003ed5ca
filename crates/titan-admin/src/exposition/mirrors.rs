//! Metrics of mirrors.

use super::family::Family;
use super::folding::OTHER;
use super::page::Page;
use titan_proxy::{ComparisonStatus, MirrorStatus};

/// In the order of the figures in [`Page::mirrors`].
const OF_MIRROR: [Family; 3] = [
    Family::counter("titan_mirror_copies_total", "Copies of requests sent."),
    Family::counter(
        "titan_mirror_copies_failed_total",
        "Copies that got no complete response in time.",
    ),
    Family::gauge("titan_mirror_copies_running", "Copies in progress."),
];

const DROPPED: Family = Family::counter(
    "titan_mirror_copies_dropped_total",
    "Requests that were to be copied and were not.",
);

const COMPARISONS: Family =
    Family::counter("titan_mirror_comparisons_total", "Responses to copies that were compared.");

const DIFFERENCES: Family = Family::counter(
    "titan_mirror_differences_total",
    "Responses to copies that differed in that part.",
);

const NOT_COMPARED: Family = Family::counter(
    "titan_mirror_not_compared_total",
    "Responses to copies that were to be compared and were not.",
);

impl Page {
    /// So many with series of their own.
    pub(super) fn mirrors(&mut self, mirrors: &[MirrorStatus], own: usize) {
        let mirrors = &folded(mirrors, own)[..];
        for (figure, family) in OF_MIRROR.into_iter().enumerate() {
            self.begin(family);
            for MirrorStatus { route, upstream, running, sent, failed, .. } in mirrors {
                let count = [*sent, *failed, u64::from(*running)][figure];
                self.sample(family.name, &[("route", route), ("upstream", upstream)], count);
            }
        }
        self.begin(DROPPED);
        for MirrorStatus { route, dropped, .. } in mirrors {
            self.by(DROPPED, route, "reason", dropped);
        }
        self.comparisons(mirrors);
    }

    /// Of the mirrors whose responses are compared.
    fn comparisons(&mut self, mirrors: &[MirrorStatus]) {
        let all = || mirrors.iter().filter_map(|it| Some((&it.route, it.comparison.as_ref()?)));
        self.begin(COMPARISONS);
        for (route, ComparisonStatus { equal, different, .. }) in all() {
            let results = [("equal", *equal), ("different", *different)];
            self.by(COMPARISONS, route, "result", &results);
        }
        self.begin(DIFFERENCES);
        for (route, status) in all() {
            self.by(DIFFERENCES, route, "part", &status.differing);
        }
        self.begin(NOT_COMPARED);
        for (route, status) in all() {
            self.by(NOT_COMPARED, route, "reason", &status.not_compared);
        }
    }

    /// The counts of a route's mirror, each with its own value of a label.
    fn by(&mut self, family: Family, route: &str, label: &str, counts: &[(&'static str, u64)]) {
        for (value, count) in counts {
            self.sample(family.name, &[("route", route), (label, value)], count);
        }
    }
}

/// How many series one has.
pub(super) fn series(mirror: &MirrorStatus) -> usize {
    let of_comparison = |it: &ComparisonStatus| 2 + it.differing.len() + it.not_compared.len();
    let comparison = mirror.comparison.as_ref().map_or(0, of_comparison);
    OF_MIRROR.len() + mirror.dropped.len() + comparison
}

/// The first of these, and behind them the sum of the others.
fn folded(mirrors: &[MirrorStatus], own: usize) -> Vec<MirrorStatus> {
    let (first, others) = mirrors.split_at(own.min(mirrors.len()));
    let mut folded = first.to_vec();
    let sum = others.iter().cloned().reduce(|mut sum, other| {
        sum.running += other.running;
        sum.sent += other.sent;
        sum.failed += other.failed;
        add(&mut sum.dropped, &other.dropped);
        match (&mut sum.comparison, other.comparison) {
            (Some(sum), Some(other)) => {
                sum.equal += other.equal;
                sum.different += other.different;
                add(&mut sum.differing, &other.differing);
                add(&mut sum.not_compared, &other.not_compared);
            }
            (sum, other) => *sum = sum.take().or(other),
        }
        sum
    });
    folded.extend(sum.map(|sum| MirrorStatus {
        route: OTHER.to_owned(),
        upstream: OTHER.to_owned(),
        ..sum
    }));
    folded
}

/// All mirrors have the same words in the same order.
fn add(sums: &mut [(&'static str, u64)], counts: &[(&'static str, u64)]) {
    sums.iter_mut().zip(counts).for_each(|((_, sum), (_, count))| *sum += count);
}
