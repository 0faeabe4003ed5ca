//! How many series the page may have: the things beyond that share one of each kind, in which they are added up.
//!
//! A configuration may have any number of routes, upstreams and endpoints, and names may resolve to any number of addresses. A
//! scraper that gets more series than it can hold drops all of them, so the page is bounded by the one who writes it.
//!
//! Which things those are changes with the configuration. A counter that falls is one that began again to a scraper, which then adds
//! all of it to what it knew, and one that rises by all that a thing has ever counted looks like traffic. So the sum is of what
//! things count while they are in it ([`Other`]), from page to page: what leaves stays in it, what comes adds what follows.

use std::collections::HashMap;
use std::time::Duration;
use titan_proxy::HistogramSum;

/// What stands in the labels of things that have no series of their own. Nothing can have that name.
pub(super) const OTHER: &str = "(other)";

/// Figures that can be added up: what was counted, and what is so at the moment.
pub(super) trait Figures: Clone {
    /// Adds those of another thing.
    fn add(&mut self, other: &Self);
    /// What was counted after `before`, and what is so; nothing if those are another thing's figures, which began again.
    fn since(&self, before: &Self) -> Option<Self>;
    /// Adds what was counted before. What is so at the moment stays.
    fn count_on(&mut self, before: &Self);
}

/// What is so at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Now<const N: usize>(pub(super) [u64; N]);

/// The things of one kind that had no series of their own when the page was written last. It is as large as their names and figures.
#[derive(Debug)]
pub(super) struct Other<const N: usize, T> {
    /// Each of them, as it was then.
    last: HashMap<[String; N], T>,
    /// What all that ever were among them have counted meanwhile.
    total: Option<T>,
    /// Whether there was a page: what comes later may have counted elsewhere.
    has_begun: bool,
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
    other: &mut Other<N, T>,
) -> Vec<([&'s str; N], T)> {
    let mut rows: Vec<([&str; N], T)> = Vec::new();
    let mut places = HashMap::new();
    for (names, figures) in things {
        let place = *places.entry(names).or_insert(rows.len());
        match rows.get_mut(place) {
            Some((_, sum)) => sum.add(&figures),
            None => rows.push((names, figures)),
        }
    }
    let beyond = rows.split_off(own.min(rows.len()));
    rows.extend(other.add_up(beyond).map(|sum| ([OTHER; N], sum)));
    rows
}

impl<const N: usize, T: Figures> Other<N, T> {
    /// The sum now that these are the things without series of their own; nothing if there are none.
    fn add_up(&mut self, things: Vec<([&str; N], T)>) -> Option<T> {
        let before = std::mem::take(&mut self.last);
        let mut grown: Option<T> = None;
        for (names, figures) in things {
            let names = names.map(str::to_owned);
            let base = before.get(&names).or(self.has_begun.then_some(&figures));
            let since = base.and_then(|base| figures.since(base));
            add(&mut grown, &since.unwrap_or_else(|| figures.clone()));
            self.last.insert(names, figures);
        }
        self.has_begun = true;
        let mut shown = grown.clone()?;
        self.total.iter().for_each(|total| shown.count_on(total));
        add(&mut self.total, &grown?);
        Some(shown)
    }
}

impl<const N: usize, T> Default for Other<N, T> {
    fn default() -> Other<N, T> {
        Other { last: HashMap::new(), total: None, has_begun: false }
    }
}

fn add<T: Figures>(sum: &mut Option<T>, figures: &T) {
    match sum {
        Some(sum) => sum.add(figures),
        None => *sum = Some(figures.clone()),
    }
}

impl<const N: usize> Figures for Now<N> {
    fn add(&mut self, other: &Self) {
        self.0.add(&other.0);
    }

    fn since(&self, _: &Self) -> Option<Self> {
        Some(*self)
    }

    fn count_on(&mut self, _: &Self) {}
}

impl<const N: usize> Figures for [u64; N] {
    fn add(&mut self, other: &Self) {
        self.iter_mut().zip(other).for_each(|(sum, figure)| *sum = sum.wrapping_add(*figure));
    }

    fn since(&self, before: &Self) -> Option<Self> {
        each_since(self, before, u64::checked_sub)
    }

    fn count_on(&mut self, before: &Self) {
        self.add(before);
    }
}

impl<const N: usize> Figures for [Duration; N] {
    fn add(&mut self, other: &Self) {
        self.iter_mut().zip(other).for_each(|(sum, figure)| *sum = sum.saturating_add(*figure));
    }

    fn since(&self, before: &Self) -> Option<Self> {
        each_since(self, before, Duration::checked_sub)
    }

    fn count_on(&mut self, before: &Self) {
        self.add(before);
    }
}

impl Figures for HistogramSum {
    fn add(&mut self, other: &Self) {
        self.buckets.add(&other.buckets);
        self.sum = self.sum.wrapping_add(other.sum);
    }

    fn since(&self, before: &Self) -> Option<Self> {
        let buckets = self.buckets.since(&before.buckets)?;
        Some(HistogramSum { buckets, sum: self.sum.wrapping_sub(before.sum) })
    }

    fn count_on(&mut self, before: &Self) {
        Figures::add(self, before);
    }
}

impl<const N: usize> Figures for [HistogramSum; N] {
    fn add(&mut self, other: &Self) {
        self.iter_mut().zip(other).for_each(|(sum, figure)| Figures::add(sum, figure));
    }

    fn since(&self, before: &Self) -> Option<Self> {
        each_since(self, before, |now, before| now.since(&before))
    }

    fn count_on(&mut self, before: &Self) {
        self.add(before);
    }
}

impl<T: Figures, U: Figures> Figures for (T, U) {
    fn add(&mut self, other: &Self) {
        self.0.add(&other.0);
        self.1.add(&other.1);
    }

    fn since(&self, before: &Self) -> Option<Self> {
        Some((self.0.since(&before.0)?, self.1.since(&before.1)?))
    }

    fn count_on(&mut self, before: &Self) {
        self.0.count_on(&before.0);
        self.1.count_on(&before.1);
    }
}

/// The differences, if there are all of them.
fn each_since<T: Copy, const N: usize>(
    now: &[T; N],
    before: &[T; N],
    since: impl Fn(T, T) -> Option<T>,
) -> Option<[T; N]> {
    let mut grown = *now;
    for (figure, before) in grown.iter_mut().zip(before) {
        *figure = since(*figure, *before)?;
    }
    Some(grown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

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
        let rows = |own| {
            let things = things.iter().map(|(name, count)| ([*name], [*count]));
            fold(things, own, &mut Other::default())
        };
        let all = [(["a"], [4]), (["b"], [8]), (["c"], [4]), (["d"], [5])];
        assert_eq!(rows(4), all);
        assert_eq!(rows(2), [all[0], all[1], ([OTHER], [9])]);
        assert_eq!(rows(0), [([OTHER], [21])]);
        let none = std::iter::empty::<([&str; 1], [u64; 1])>();
        assert!(fold(none, 0, &mut Other::default()).is_empty());
    }

    /// Requests so far and now, by name.
    type Thing = (&'static str, u64, u64);

    /// The sum of those beyond the first `own`, as a page has it.
    fn shown(other: &mut Other<1, ([u64; 1], Now<1>)>, own: usize, things: &[Thing]) -> (u64, u64) {
        let things = things.iter().map(|(name, count, now)| ([*name], ([*count], Now([*now]))));
        let rows = fold(things, own, other);
        let sum = rows.iter().find(|(names, _)| *names == [OTHER]);
        sum.map_or((0, 0), |(_, ([count], Now([now])))| (*count, *now))
    }

    #[test]
    fn the_sum_counts_on_whatever_leaves_it_and_comes_into_it() {
        let mut other = Other::default();
        let mut page = |own, things: &[Thing]| shown(&mut other, own, things);
        let (a, b, c) = (("a", 1000, 1), ("b", 20, 2), ("c", 3, 3));
        assert_eq!(page(1, &[a, b, c]), (23, 5), "the first page has all of it");
        assert_eq!(page(1, &[a, ("b", 25, 1), c]), (28, 4));
        assert_eq!(page(1, &[a, c]), (28, 3), "what is gone");
        assert_eq!(page(1, &[a, c, ("b", 26, 1)]), (28, 4), "what is there again");
        assert_eq!(page(1, &[a, c, ("b", 27, 1)]), (29, 4));
        assert_eq!(page(1, &[c, a]), (29, 1), "what had a series of its own");
        assert_eq!(page(1, &[("c", 9, 3), ("a", 1001, 1)]), (30, 1), "what has one now");
        assert_eq!(page(2, &[c, a]), (0, 0));
        assert_eq!(page(1, &[c, ("a", 1010, 7)]), (30, 7), "what has none any more");
        assert_eq!(page(1, &[c, ("a", 4, 7)]), (34, 7), "another one of that name");
    }

    #[test]
    fn what_leaves_the_sum_is_forgotten() {
        let mut other = Other::default();
        for number in 0..100_u64 {
            let name = number.to_string();
            fold([([name.as_str()], [number])].into_iter(), 0, &mut other);
            assert_eq!(other.last.len(), 1);
        }
    }

    proptest! {
        /// Whatever a configuration puts where: each counts what it does while a page has it in the sum.
        #[test]
        fn the_sum_is_what_things_counted_in_it(
            pages in vec((0..6_usize, vec((0..8_usize, 0..100_u64), 0..12)), 1..20)
        ) {
            const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];
            let (mut other, mut counts) = (Other::default(), [0; NAMES.len()]);
            let (mut wanted, mut before) = (0, None);
            for (own, order) in pages {
                let (mut beyond, mut places) = (Vec::new(), Vec::new());
                for (place, more) in order {
                    counts[place] += more;
                    if !places.contains(&place) {
                        beyond.extend((places.len() >= own).then_some(place));
                        places.push(place);
                    }
                }
                let things: Vec<Thing> = places.iter().map(|it| (NAMES[*it], counts[*it], 0)).collect();
                let (sum, _) = shown(&mut other, own, &things);
                let (were, last) = before.take().unwrap_or_else(|| (beyond.clone(), [0; NAMES.len()]));
                for place in beyond.iter().filter(|it| were.contains(it)) {
                    wanted += counts[*place] - last[*place];
                }
                prop_assert!(beyond.is_empty() || sum == wanted, "{sum} {wanted}");
                before = Some((beyond, counts));
            }
        }
    }
}
