//! How many series the page may have: the things beyond that share one of each kind, in which they are added up.
//!
//! A configuration may have any number of routes, upstreams and endpoints, and names may resolve to any number of addresses. A
//! scraper that gets more series than it can hold drops all of them, so the page is bounded by the one who writes it.

use std::collections::HashMap;
use std::time::Duration;

/// What stands in the labels of things that have no series of their own. Nothing can have that name.
pub(super) const OTHER: &str = "(other)";

/// Figures that can be added up.
pub(super) trait Figures {
    /// Adds those of another thing.
    fn add(&mut self, other: &Self);
}

/// Things of one kind, all of which have the same labels.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Need {
    /// How many there are.
    pub(super) count: usize,
    /// How many series each has at most.
    pub(super) each: usize,
}

/// How many things of each kind have series of their own, if there may be so many series. A kind that needs less than an equal part
/// leaves the rest to the others.
pub(super) fn share_out<const N: usize>(most: usize, needs: [Need; N]) -> [usize; N] {
    let mut order: [usize; N] = std::array::from_fn(|kind| kind);
    let all = |kind: usize| needs[kind].count.saturating_mul(needs[kind].each);
    order.sort_by_key(|kind| all(*kind));
    let (mut left, mut own) = (most, [0; N]);
    for (done, kind) in order.into_iter().enumerate() {
        let part = left / (N - done);
        let Need { count, each } = needs[kind];
        // One place is for those that are added up.
        own[kind] = match all(kind) <= part {
            true => count,
            false => (part / each).saturating_sub(1),
        };
        left -= all(kind).min(part);
    }
    own
}

/// The first of these, each with its names, and behind them the sum of the others. Those of the same names are one.
pub(super) fn fold<'s, T: Figures, const N: usize>(
    things: impl Iterator<Item = ([&'s str; N], T)>,
    own: usize,
) -> Vec<([&'s str; N], T)> {
    let mut rows: Vec<([&str; N], T)> = Vec::new();
    let mut places = HashMap::new();
    for (names, figures) in things {
        let names = match places.len() >= own && !places.contains_key(&names) {
            true => [OTHER; N],
            false => names,
        };
        match places.get(&names) {
            Some(place) => {
                let (_, sum): &mut ([&str; N], T) = &mut rows[*place];
                sum.add(&figures);
            }
            None => {
                places.insert(names, rows.len());
                rows.push((names, figures));
            }
        }
    }
    rows
}

impl<const N: usize> Figures for [u64; N] {
    fn add(&mut self, other: &Self) {
        self.iter_mut().zip(other).for_each(|(sum, figure)| *sum = sum.wrapping_add(*figure));
    }
}

impl<const N: usize> Figures for [Duration; N] {
    fn add(&mut self, other: &Self) {
        self.iter_mut().zip(other).for_each(|(sum, figure)| *sum = sum.saturating_add(*figure));
    }
}

/// Things whose figures are added up when they are written.
impl<T> Figures for Vec<&T> {
    fn add(&mut self, other: &Self) {
        self.extend(other);
    }
}

impl<T: Figures, U: Figures> Figures for (T, U) {
    fn add(&mut self, other: &Self) {
        self.0.add(&other.0);
        self.1.add(&other.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_that_need_little_leave_the_rest_to_the_others() {
        let needs = |counts: [usize; 3]| {
            let each = [10, 5, 1];
            std::array::from_fn(|kind| Need { count: counts[kind], each: each[kind] })
        };
        for (most, counts, own) in [
            (1000, [10, 10, 10], [10, 10, 10]),
            (160, [10, 10, 10], [10, 10, 10]),
            (159, [10, 10, 10], [8, 10, 10]),
            (100, [1000, 10, 10], [3, 8, 10]),
            (300, [1000, 1000, 1000], [9, 19, 99]),
            (0, [1, 1, 0], [0, 0, 0]),
            (29, [1, 1, 0], [1, 1, 0]),
        ] {
            let found = share_out(most, needs(counts));
            assert_eq!(found, own, "{most} {counts:?}");
            let series = |kind: usize| {
                let Need { count, each } = needs(counts)[kind];
                (found[kind] + usize::from(found[kind] < count)) * each
            };
            assert!(most < 30 || (0..3).map(series).sum::<usize>() <= most, "{most} {counts:?}");
        }
    }

    #[test]
    fn those_beyond_are_added_up_and_those_of_one_name_are_one() {
        let things = [("a", 1), ("b", 2), ("a", 3), ("c", 4), ("d", 5), ("b", 6)];
        let rows = |own| fold(things.iter().map(|(name, count)| ([*name], [*count])), own);
        let all = [(["a"], [4]), (["b"], [8]), (["c"], [4]), (["d"], [5])];
        assert_eq!(rows(4), all);
        assert_eq!(rows(2), [all[0], all[1], ([OTHER], [9])]);
        assert_eq!(rows(0), [([OTHER], [21])]);
        assert!(fold(std::iter::empty::<([&str; 1], [u64; 1])>(), 0).is_empty());
    }
}
