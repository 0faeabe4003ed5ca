//! What becomes of each datagram: the seed and its number say it, and nothing else.

use std::ops::RangeInclusive;
use std::time::Duration;

/// What a network does to datagrams. By default it does nothing.
///
/// The fate of the n-th datagram of each direction, over all clients, depends on the seed and on n. With one seed, a rate that changes
/// leaves alone what the others decide.
#[derive(Clone, Debug, PartialEq)]
pub struct BadNetwork {
    /// What all of it follows from.
    pub seed: u64,
    /// How many of the datagrams are lost: 0.0, the default, is none, and 1.0 is all.
    pub loss: f64,
    /// How many of those that are not lost arrive twice, one right behind the other. 0.0 by default.
    pub duplicates: f64,
    /// How many of those that are not lost are held back until some more of the same client have come, up to four, or for 20 ms when
    /// too few come. 0.0 by default.
    pub reordering: f64,
    /// How long a datagram takes, from the shortest to the longest. That alone changes no order: one that takes longer holds up those
    /// behind it. No time by default.
    pub delay: RangeInclusive<Duration>,
}

/// Where a datagram goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    ToServer,
    ToClients,
}

/// What becomes of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It never arrives.
    Lost,
    /// It arrives.
    Passes {
        /// After so much time.
        delay: Duration,
        /// So often: once or twice.
        copies: u64,
        /// Behind so many that come after it.
        behind: u64,
    },
}

/// What is decided of a datagram, each on its own.
#[derive(Clone, Copy)]
enum Question {
    Loss,
    Duplicate,
    Reordering,
    Behind,
    Delay,
}

/// The most datagrams that one is held back for: beyond three behind it QUIC takes one for lost (RFC 9002 section 6.1.1).
const MOST_BEHIND: u64 = 4;

/// What SplitMix64 adds from one number to the next.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl Default for BadNetwork {
    fn default() -> BadNetwork {
        let delay = Duration::ZERO..=Duration::ZERO;
        BadNetwork { seed: 0, loss: 0.0, duplicates: 0.0, reordering: 0.0, delay }
    }
}

impl BadNetwork {
    /// Panics where there is no such network.
    #[track_caller]
    pub(super) fn check(&self) {
        for (name, rate) in
            [("loss", self.loss), ("duplicates", self.duplicates), ("reordering", self.reordering)]
        {
            assert!((0.0..=1.0).contains(&rate), "{name} is from 0.0 to 1.0, not {rate}");
        }
        assert!(!self.delay.is_empty(), "the shortest delay is longer than the longest one");
    }

    /// The fate of the n-th datagram in a direction, from 0.
    pub(super) fn fate(&self, direction: Direction, n: u64) -> Fate {
        let chance = |question| fraction(self.number(direction, question, n));
        if chance(Question::Loss) < self.loss {
            return Fate::Lost;
        }
        let is_held = chance(Question::Reordering) < self.reordering;
        let behind = self.number(direction, Question::Behind, n) % MOST_BEHIND + 1;
        Fate::Passes {
            delay: within(&self.delay, chance(Question::Delay)),
            copies: 1 + u64::from(chance(Question::Duplicate) < self.duplicates),
            behind: if is_held { behind } else { 0 },
        }
    }

    /// The n-th number of the sequence (SplitMix64) that a question has in a direction.
    fn number(&self, direction: Direction, question: Question, n: u64) -> u64 {
        let sequence = 2 * question as u64 + direction as u64 + 1;
        let start = mix(self.seed.wrapping_add(STEP.wrapping_mul(sequence)));
        mix(start.wrapping_add(STEP.wrapping_mul(n)))
    }
}

/// The finalizer of SplitMix64: <https://prng.di.unimi.it/splitmix64.c>.
fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// From 0.0 to just below 1.0.
fn fraction(number: u64) -> f64 {
    // As many bits as the fraction of a float has.
    const BITS: u32 = f64::MANTISSA_DIGITS;
    (number >> (u64::BITS - BITS)) as f64 / (1_u64 << BITS) as f64
}

fn within(delay: &RangeInclusive<Duration>, fraction: f64) -> Duration {
    *delay.start() + (*delay.end() - *delay.start()).mul_f64(fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNT: u64 = 100_000;
    const SEEDS: [u64; 5] = [0, 1, 2, 0x7469_7461_6e00_0001, u64::MAX];

    fn bad(seed: u64) -> BadNetwork {
        let delay = Duration::from_millis(5)..=Duration::from_millis(15);
        BadNetwork { seed, loss: 0.1, duplicates: 0.03, reordering: 0.2, delay }
    }

    fn fates(network: &BadNetwork, direction: Direction) -> Vec<Fate> {
        (0..COUNT).map(|n| network.fate(direction, n)).collect()
    }

    /// Checks that so many of so many are what that rate comes to, within five standard deviations.
    #[track_caller]
    fn is_rate(rate: f64, of: &[&Fate], is_so: impl Fn(&Fate) -> bool) {
        let all = of.len() as f64;
        let count = of.iter().filter(|fate| is_so(fate)).count() as f64;
        let deviation = (all * rate * (1.0 - rate)).sqrt();
        let distance = (count - all * rate).abs();
        assert!(distance <= 5.0 * deviation, "{count} of {all} are not {rate}");
    }

    #[test]
    fn rates_come_out() {
        for seed in SEEDS {
            for direction in [Direction::ToServer, Direction::ToClients] {
                let fates = fates(&bad(seed), direction);
                let all: Vec<_> = fates.iter().collect();
                is_rate(0.1, &all, |fate| *fate == Fate::Lost);
                let passes = |fate: &&Fate| **fate != Fate::Lost;
                let passed: Vec<_> = fates.iter().filter(passes).collect();
                is_rate(0.03, &passed, |fate| matches!(fate, Fate::Passes { copies: 2, .. }));
                for place in 1..=MOST_BEHIND {
                    let is_so = |fate: &Fate| matches!(fate, Fate::Passes { behind, .. } if *behind == place);
                    is_rate(0.2 / MOST_BEHIND as f64, &passed, is_so);
                }
            }
        }
    }

    #[test]
    fn fates_do_not_depend_on_those_of_others() {
        let network = bad(3);
        let [there, back] =
            [Direction::ToServer, Direction::ToClients].map(|it| fates(&network, it));
        let both: Vec<_> = there.iter().zip(&back).filter(|(_, it)| **it == Fate::Lost).collect();
        is_rate(0.1, &both.iter().map(|(it, _)| *it).collect::<Vec<_>>(), |it| *it == Fate::Lost);
        let next: Vec<_> = there.windows(2).filter(|it| it[0] == Fate::Lost).collect();
        is_rate(0.1, &next.iter().map(|it| &it[1]).collect::<Vec<_>>(), |it| *it == Fate::Lost);
        let is_doubled = |fate: &Fate| matches!(fate, Fate::Passes { copies: 2, .. });
        let doubled: Vec<_> = there.iter().filter(|it| is_doubled(it)).collect();
        is_rate(0.2, &doubled, |it| matches!(it, Fate::Passes { behind: 1.., .. }));
    }

    #[test]
    fn a_seed_decides_everything() {
        for seed in SEEDS {
            let [once, again] = [(); 2].map(|()| fates(&bad(seed), Direction::ToServer));
            assert_eq!(once, again);
            assert_ne!(once, fates(&bad(seed), Direction::ToClients));
            assert_ne!(once, fates(&bad(seed.wrapping_add(1)), Direction::ToServer));
        }
    }

    #[test]
    fn a_rate_that_changes_leaves_the_others_alone() {
        let lossless = BadNetwork { loss: 0.0, ..bad(4) };
        let fates = fates(&bad(4), Direction::ToServer);
        for (fate, n) in fates.into_iter().zip(0..).filter(|(fate, _)| *fate != Fate::Lost) {
            assert_eq!(lossless.fate(Direction::ToServer, n), fate);
        }
    }

    #[test]
    fn delays_fill_their_range() {
        let mut delays: Vec<_> = fates(&bad(5), Direction::ToServer)
            .into_iter()
            .filter_map(|fate| match fate {
                Fate::Passes { delay, .. } => Some(delay),
                Fate::Lost => None,
            })
            .collect();
        delays.sort_unstable();
        for (part, wanted) in [(0, 5.0), (1, 7.5), (2, 10.0), (3, 12.5), (4, 15.0)] {
            let delay = delays[(delays.len() - 1) * part / 4].as_secs_f64() * 1000.0;
            assert!((delay - wanted).abs() < 0.1, "{delay} ms and not {wanted}");
        }
        assert!(delays.iter().all(|delay| bad(5).delay.contains(delay)));
    }

    #[test]
    fn nothing_and_everything_are_exact() {
        let none = BadNetwork { seed: 6, ..BadNetwork::default() };
        let passes = Fate::Passes { delay: Duration::ZERO, copies: 1, behind: 0 };
        assert!(fates(&none, Direction::ToServer).iter().all(|fate| *fate == passes));
        let all = BadNetwork { loss: 1.0, ..none };
        assert!(fates(&all, Direction::ToServer).iter().all(|fate| *fate == Fate::Lost));
    }

    #[test]
    #[should_panic(expected = "loss is from 0.0 to 1.0, not 10")]
    fn a_rate_is_no_percentage() {
        BadNetwork { loss: 10.0, ..BadNetwork::default() }.check();
    }
}
