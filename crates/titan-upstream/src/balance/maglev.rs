//! Consistent hashing by a lookup table (Eisenbud et al., "Maglev", NSDI 2016, section 3.4), with weights.

use super::mix;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The sizes a table can have: primes, so that every step walks the whole table. The greatest takes
/// some tenths of a second to fill, and only hundreds of endpoints need it.
const SIZES: [usize; 4] = [1021, 8191, 65537, 655_373];

/// Slots for each unit of weight: their number decides how exactly shares follow weights.
const SLOTS_PER_WEIGHT: u64 = 100;

/// Where the weights alone decide, no more slots than that.
const MAX_SLOTS_FOR_WEIGHTS: u64 = 65537;

/// Slots for the square of the number of endpoints. Beside the share of the one that leaves, about
/// `2.5 * endpoints / slots` of the keys move: this keeps it below another share up to 450 endpoints.
const SLOTS_PER_SQUARE: u64 = 3;

/// A table from hashes to places. When a place leaves, little more than its own share moves.
pub(super) struct Maglev {
    slots: Box<[u32]>,
}

/// The order in which one place takes slots: its permutation in the paper.
struct SlotOrder {
    next: usize,
    step: usize,
    weight: u64,
    /// How many slots it has.
    taken: u64,
    place: u32,
}

impl Maglev {
    /// A table for endpoints with these ids. The order in which they are listed does not count.
    pub(super) fn new(ids: &[u64], weights: &[u32]) -> Maglev {
        if ids.is_empty() {
            return Maglev { slots: Box::default() };
        }
        let size = size_for(weights);
        let mut orders: Vec<(u64, SlotOrder)> = (0_u32..)
            .zip(ids.iter().zip(weights))
            .map(|(place, (&id, &weight))| (id, SlotOrder::new(place, id, weight, size)))
            .collect();
        orders.sort_by_key(|(id, _)| *id);
        Maglev { slots: fill(size, orders.into_iter().map(|(_, order)| order).collect()) }
    }

    /// The place for a hash; `None` where there is no endpoint.
    pub(super) fn find(&self, hash: u64) -> Option<usize> {
        let size = u64::try_from(self.slots.len()).ok().filter(|&size| size > 0)?;
        let slot = usize::try_from(hash % size).ok()?;
        usize::try_from(self.slots[slot]).ok()
    }
}

impl SlotOrder {
    /// In which round it takes its next slot.
    fn round(&self, greatest: u64) -> u64 {
        ((self.taken + 1) * greatest).div_ceil(self.weight)
    }

    fn new(place: u32, id: u64, weight: u32, size: usize) -> SlotOrder {
        let below = |bits: u64, bound: usize| {
            let remainder = bits % u64::try_from(bound).unwrap_or(1);
            usize::try_from(remainder).unwrap_or(0)
        };
        let (next, step) = (below(mix(id), size), below(mix(!id), size - 1) + 1);
        SlotOrder { next, step, weight: u64::from(weight).max(1), taken: 0, place }
    }
}

/// Lets the places take slots in rounds. One with half of the greatest weight sits every other round out. The next one is at the top of a
/// heap: with one weight of 65,535 beside thousands of 1, asking each of them in each round would take 10^9 steps.
fn fill(size: usize, mut orders: Vec<SlotOrder>) -> Box<[u32]> {
    let greatest = orders.iter().map(|order| order.weight).max().unwrap_or(1);
    let turns = orders.iter().enumerate().map(|(at, order)| Reverse((order.round(greatest), at)));
    let mut turns: BinaryHeap<_> = turns.collect();
    let mut slots = vec![None; size];
    for _ in 0..size {
        let Some(Reverse((_, at))) = turns.pop() else { break };
        let order = &mut orders[at];
        order.taken += 1;
        turns.push(Reverse((order.round(greatest), at)));
        while slots[order.next].is_some() {
            order.next = (order.next + order.step) % size;
        }
        slots[order.next] = Some(order.place);
    }
    slots.into_iter().flatten().collect()
}

fn size_for(weights: &[u32]) -> usize {
    let least = weights.iter().copied().min().unwrap_or(1).max(1);
    let total: u64 = weights.iter().copied().map(u64::from).sum();
    let for_weights = (total * SLOTS_PER_WEIGHT / u64::from(least)).min(MAX_SLOTS_FOR_WEIGHTS);
    let count = u64::try_from(weights.len()).unwrap_or(u64::MAX);
    let wanted = for_weights.max(count.saturating_mul(count).saturating_mul(SLOTS_PER_SQUARE));
    let fits = |size: &&usize| u64::try_from(**size).is_ok_and(|size| size >= wanted);
    SIZES.iter().find(fits).copied().unwrap_or(SIZES[SIZES.len() - 1])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The same by asking each in each round.
    fn naive(size: usize, mut orders: Vec<SlotOrder>) -> Box<[u32]> {
        let greatest = orders.iter().map(|order| order.weight).max().unwrap();
        let (mut slots, mut free) = (vec![None; size], size);
        for round in 1_u64.. {
            for order in &mut orders {
                if free == 0 {
                    return slots.into_iter().flatten().collect();
                }
                if round * order.weight < (order.taken + 1) * greatest {
                    continue;
                }
                (order.taken, free) = (order.taken + 1, free - 1);
                while slots[order.next].is_some() {
                    order.next = (order.next + order.step) % size;
                }
                slots[order.next] = Some(order.place);
            }
        }
        unreachable!("the one with the greatest weight takes a slot in every round")
    }

    proptest! {
        #[test]
        fn turns_are_those_of_rounds(weights in prop::collection::vec(1_u32..500, 1..12)) {
            let orders = || {
                let of = |(place, weight): (u32, &u32)| {
                    SlotOrder::new(place, mix(place.into()), *weight, 1021)
                };
                (0..).zip(&weights).map(of).collect()
            };
            prop_assert_eq!(fill(1021, orders()), naive(1021, orders()));
        }
    }

    fn ids(count: u64) -> Vec<u64> {
        (0..count).map(mix).collect()
    }

    /// How many of 20,000 keys each place has.
    fn shares(ids: &[u64], weights: &[u32]) -> Vec<f64> {
        let table = Maglev::new(ids, weights);
        let mut counts = vec![0.0; ids.len()];
        (0..20_000).for_each(|key| counts[table.find(mix(key)).unwrap()] += 1.0);
        counts.into_iter().map(|count| count / 20_000.0).collect()
    }

    #[test]
    fn shares_follow_weights() {
        for weights in [vec![1; 7], vec![1, 2, 3, 4], vec![1, 50], vec![1; 300], vec![10, 1000, 20]]
        {
            let total: u32 = weights.iter().sum();
            let count = weights.len().try_into().unwrap();
            for (share, weight) in shares(&ids(count), &weights).into_iter().zip(weights) {
                let ideal = f64::from(weight) / f64::from(total);
                assert!((share - ideal).abs() < ideal * 0.4 + 0.001, "{share} for {ideal}");
            }
        }
    }

    #[test]
    fn when_an_endpoint_leaves_less_than_twice_its_share_moves() {
        for count in [2_u64, 3, 5, 10, 50, 140] {
            let all = ids(count);
            let before = Maglev::new(&all, &vec![1; all.len()]);
            let left = &all[1..];
            let after = Maglev::new(left, &vec![1; left.len()]);
            let moved = |&key: &u64| {
                all[before.find(mix(key)).unwrap()] != left[after.find(mix(key)).unwrap()]
            };
            let moved = u64::try_from((0..20_000).filter(moved).count()).unwrap();
            assert!(moved * count < 2 * 20_000, "{moved} of 20000 with {count} endpoints");
        }
    }

    /// The light ones sit out 65,534 rounds of 65,535, and the table has as many rounds as slots.
    #[test]
    fn rounds_that_are_sat_out_cost_nothing() {
        let weights: Vec<u32> = std::iter::once(65_535).chain([1; 4_095]).collect();
        let heavy = shares(&ids(4_096), &weights)[0];
        assert!((heavy - 65_535.0 / 69_630.0).abs() < 0.02, "{heavy}");
    }

    #[test]
    fn the_order_of_the_list_does_not_count() {
        let (one, weights) = (ids(9), [1, 2, 3, 4, 5, 6, 7, 8, 9]);
        let other: Vec<u64> = one.iter().rev().copied().collect();
        let reversed: Vec<u32> = weights.iter().rev().copied().collect();
        let (first, second) = (Maglev::new(&one, &weights), Maglev::new(&other, &reversed));
        let same = |key| one[first.find(key).unwrap()] == other[second.find(key).unwrap()];
        assert!((0..10_000).map(mix).all(same));
    }

    #[test]
    fn an_empty_table_has_no_place() {
        assert_eq!(Maglev::new(&[], &[]).find(1), None);
    }
}
