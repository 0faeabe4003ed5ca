//! Turns in proportion to weights, without bursts and without a table.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Hands out places so that in any period of `sum of weights` turns each comes exactly as often as its
/// weight says, over all workers that share it.
///
/// The turns walk round a circle of that circumference, on which each place owns an arc as long as its
/// weight. The step is near the golden section and has no divisor in common with the circumference:
/// so every point is met once per period, and near points far apart in time.
#[derive(Debug)]
pub struct Rotation {
    /// Where the arc of each place ends.
    ends: Box<[u64]>,
    step: u64,
    turn: Turn,
}

/// How many turns there have been. Rotations that replace each other share it: one that began anew would favour
/// the same place each time.
pub type Turn = Arc<AtomicU64>;

impl Rotation {
    /// Turns for places with these weights, from the first on.
    pub fn new(weights: &[u32]) -> Rotation {
        Rotation::at(Turn::default(), weights)
    }

    /// Turns for places with these weights, going on at `turn`.
    pub fn at(turn: Turn, weights: &[u32]) -> Rotation {
        let divisor = weights.iter().copied().map(u64::from).fold(0, gcd).max(1);
        let mut end = 0;
        let arc_end = |&weight: &u32| {
            end += u64::from(weight) / divisor;
            end
        };
        let ends: Box<[u64]> = weights.iter().map(arc_end).collect();
        let step = step_of(ends.last().copied().unwrap_or(0));
        Rotation { ends, step, turn }
    }

    /// The next place; `None` where none has a weight.
    pub fn take(&self) -> Option<usize> {
        let round = self.ends.last().copied().filter(|&round| round > 0)?;
        if self.ends.len() == 1 {
            return Some(0);
        }
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let point = turn % round * self.step % round;
        Some(self.ends.partition_point(|&end| end <= point))
    }

    /// The next of a series of fractions of 2^64 that fills the circle evenly, for shares that change
    /// from turn to turn.
    pub(super) fn spread(&self) -> u64 {
        self.turn.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }
}

fn step_of(round: u64) -> u64 {
    let golden = (round * 618 / 1000).max(1);
    (golden..).find(|&step| gcd(step, round) == 1).unwrap_or(1)
}

fn gcd(one: u64, other: u64) -> u64 {
    match other {
        0 => one,
        _ => gcd(other, one % other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn equal_weights_alternate() {
        let rotation = Rotation::new(&[7, 7]);
        let turns: Vec<_> = (0..4).map(|_| rotation.take().unwrap()).collect();
        assert!(turns == [0, 1, 0, 1] || turns == [1, 0, 1, 0]);
    }

    #[test]
    fn no_place_has_a_turn_without_weight() {
        assert_eq!(Rotation::new(&[]).take(), None);
        assert_eq!(Rotation::new(&[0, 0]).take(), None);
        let rotation = Rotation::new(&[0, 3, 0, 1, 0]);
        assert!((0..100).all(|_| matches!(rotation.take(), Some(1 | 3))));
    }

    #[test]
    fn a_small_share_is_spread_and_not_bunched() {
        let rotation = Rotation::new(&[9, 1]);
        let turns: Vec<_> = (0..1000).map(|_| rotation.take().unwrap()).collect();
        assert!(turns.windows(20).all(|window| window.iter().filter(|&&it| it == 1).count() == 2));
        let rotation = Rotation::new(&[999, 1000]);
        let turns: Vec<_> = (0..4000).map(|_| rotation.take().unwrap()).collect();
        assert!(turns.windows(4).all(|window| window.iter().any(|it| *it != window[0])));
    }

    #[test]
    fn threads_share_the_turns() {
        let rotation = Rotation::new(&[3, 1]);
        let count = || (0..4000).filter(|_| rotation.take() == Some(1)).count();
        let total: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(count)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(total, 4000);
    }

    proptest! {
        #[test]
        fn every_period_is_exact(
            weights in proptest::collection::vec(0_u32..=40, 1..12),
            skipped in 0_usize..100,
        ) {
            let sum: u32 = weights.iter().sum();
            let rotation = Rotation::new(&weights);
            prop_assume!(sum > 0);
            (0..skipped).for_each(|_| { rotation.take(); });
            let mut counts = vec![0; weights.len()];
            (0..sum).for_each(|_| counts[rotation.take().unwrap()] += 1);
            prop_assert_eq!(counts, weights);
        }
    }
}
