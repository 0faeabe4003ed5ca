//! Metrics of mirrors.

use super::family::Family;
use super::folding::{Figures, Other, fold};
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
    pub(super) fn mirrors(
        &mut self,
        mirrors: &[MirrorStatus],
        (own, other): (usize, &mut Other<2, MirrorStatus>),
    ) {
        let all = mirrors.iter().map(|it| ([it.route.as_str(), it.upstream.as_str()], figures(it)));
        let mirrors = &fold(all, own, other)[..];
        for (figure, family) in OF_MIRROR.into_iter().enumerate() {
            self.begin(family);
            for ([route, upstream], MirrorStatus { running, sent, failed, .. }) in mirrors {
                let count = [*sent, *failed, u64::from(*running)][figure];
                self.sample(family.name, &[("route", route), ("upstream", upstream)], count);
            }
        }
        self.begin(DROPPED);
        for (names, MirrorStatus { dropped, .. }) in mirrors {
            self.by(DROPPED, *names, "reason", dropped);
        }
        self.comparisons(mirrors);
    }

    /// Of the mirrors whose responses are compared.
    fn comparisons(&mut self, mirrors: &[([&str; 2], MirrorStatus)]) {
        let all = || mirrors.iter().filter_map(|(it, all)| Some((*it, all.comparison.as_ref()?)));
        self.begin(COMPARISONS);
        for (names, ComparisonStatus { equal, different, .. }) in all() {
            let results = [("equal", *equal), ("different", *different)];
            self.by(COMPARISONS, names, "result", &results);
        }
        self.begin(DIFFERENCES);
        for (names, status) in all() {
            self.by(DIFFERENCES, names, "part", &status.differing);
        }
        self.begin(NOT_COMPARED);
        for (names, status) in all() {
            self.by(NOT_COMPARED, names, "reason", &status.not_compared);
        }
    }

    /// The counts of a mirror, of which a route and an upstream are the names, each with its own value of a label.
    fn by(
        &mut self,
        family: Family,
        [route, upstream]: [&str; 2],
        label: &str,
        counts: &[(&'static str, u64)],
    ) {
        for (value, count) in counts {
            let labels = [("route", route), ("upstream", upstream), (label, value)];
            self.sample(family.name, &labels, count);
        }
    }
}

/// How many series one has.
pub(super) fn series(mirror: &MirrorStatus) -> usize {
    let of_comparison = |it: &ComparisonStatus| 2 + it.differing.len() + it.not_compared.len();
    let comparison = mirror.comparison.as_ref().map_or(0, of_comparison);
    OF_MIRROR.len() + mirror.dropped.len() + comparison
}

/// Without what is no figure, which may be large.
fn figures(mirror: &MirrorStatus) -> MirrorStatus {
    let comparison = mirror.comparison.as_ref().map(|it| ComparisonStatus {
        differing: it.differing.clone(),
        not_compared: it.not_compared.clone(),
        places: Vec::new(),
        samples: Vec::new(),
        ..*it
    });
    let dropped = mirror.dropped.clone();
    MirrorStatus { route: String::new(), upstream: String::new(), dropped, comparison, ..*mirror }
}

impl Figures for MirrorStatus {
    fn add(&mut self, other: &MirrorStatus) {
        self.running += other.running;
        self.count_on(other);
        if self.comparison.is_none() {
            self.comparison.clone_from(&other.comparison);
        }
    }

    fn since(&self, before: &MirrorStatus) -> Option<MirrorStatus> {
        let mut grown = self.clone();
        [grown.sent, grown.failed] =
            [self.sent, self.failed].since(&[before.sent, before.failed])?;
        take(&mut grown.dropped, &before.dropped)?;
        if let (Some(grown), Some(before)) = (&mut grown.comparison, &before.comparison) {
            let now = [grown.equal, grown.different];
            [grown.equal, grown.different] = now.since(&[before.equal, before.different])?;
            take(&mut grown.differing, &before.differing)?;
            take(&mut grown.not_compared, &before.not_compared)?;
        }
        Some(grown)
    }

    fn count_on(&mut self, before: &MirrorStatus) {
        self.sent += before.sent;
        self.failed += before.failed;
        add(&mut self.dropped, &before.dropped);
        if let (Some(sum), Some(before)) = (&mut self.comparison, &before.comparison) {
            sum.equal += before.equal;
            sum.different += before.different;
            add(&mut sum.differing, &before.differing);
            add(&mut sum.not_compared, &before.not_compared);
        }
    }
}

/// All mirrors have the same words in the same order.
fn add(sums: &mut [(&'static str, u64)], counts: &[(&'static str, u64)]) {
    sums.iter_mut().zip(counts).for_each(|((_, sum), (_, count))| *sum += count);
}

/// The same for the difference, if there is one.
fn take(counts: &mut [(&'static str, u64)], before: &[(&'static str, u64)]) -> Option<()> {
    counts.iter_mut().zip(before).try_for_each(|((_, count), (_, before))| {
        *count = count.checked_sub(*before)?;
        Some(())
    })
}
