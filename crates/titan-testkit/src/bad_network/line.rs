//! The datagrams that are on their way in one direction. Knows no socket, and what time it is it is told.

use super::chance::{BadNetwork, Direction, Fate};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// What has become of the datagrams of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Those that were passed on, each once.
    pub passed: u64,
    /// Those that were lost as the seed says.
    pub dropped: u64,
    /// Those that were lost because too much was on its way, or because there were too many clients.
    pub overflowed: u64,
    /// Those that were passed on a second time.
    pub duplicated: u64,
    /// Those that were held back, until others had come or in vain.
    pub held_back: u64,
}

/// The datagrams that are on their way in one direction.
///
/// ```text
/// take --> queue --------------> due
///   \-> held -^  others have come, or none did for a while
/// ```
#[derive(Debug)]
pub(super) struct Line {
    network: BadNetwork,
    direction: Direction,
    /// Datagrams that have come: the number of the next one.
    came: u64,
    /// In the order in which they leave: none before the one in front of it.
    queue: VecDeque<Transit>,
    held: Vec<Held>,
    /// What `queue` and `held` take together, at most [`MOST`].
    size: usize,
    tally: Tally,
}

/// A datagram that leaves.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Departure {
    /// The number of its client.
    pub(super) client: usize,
    pub(super) bytes: Vec<u8>,
    /// How often it is sent.
    pub(super) copies: u64,
}

/// A datagram that leaves at a time.
#[derive(Debug)]
struct Transit {
    at: Instant,
    departure: Departure,
}

/// One that lets others of its client go first.
#[derive(Debug)]
struct Held {
    transit: Transit,
    /// How many are still to come.
    behind: u64,
    /// When it leaves even if they do not.
    until: Instant,
}

/// Bytes on their way, beyond which the next datagram is lost.
const MOST: usize = 4 << 20;
/// What a datagram takes besides its bytes, so that empty ones have a bound as well.
const OVERHEAD: usize = 128;
/// How long a datagram waits for others.
const HOLD: Duration = Duration::from_millis(20);

impl Line {
    pub(super) fn new(network: BadNetwork, direction: Direction) -> Line {
        let (queue, held, tally) = (VecDeque::new(), Vec::new(), Tally::default());
        Line { network, direction, came: 0, queue, held, size: 0, tally }
    }

    /// A datagram has come.
    pub(super) fn take(&mut self, now: Instant, client: usize, bytes: &[u8]) {
        let fate = self.network.fate(self.direction, self.came);
        self.came += 1;
        let Fate::Passes { delay, copies, behind } = fate else {
            self.tally.dropped += 1;
            return;
        };
        let size = bytes.len() + OVERHEAD;
        if self.size + size > MOST {
            return self.overflow();
        }
        self.size += size;
        let departure = Departure { client, bytes: bytes.to_vec(), copies };
        let transit = Transit { at: now + delay, departure };
        self.let_pass(client);
        if behind == 0 {
            enqueue(&mut self.queue, transit);
        } else {
            self.tally.held_back += 1;
            let until = transit.at + HOLD;
            self.held.push(Held { transit, behind, until });
        }
        self.release(|held| held.behind == 0);
    }

    /// A datagram has come for which there is no room.
    pub(super) fn overflow(&mut self) {
        self.tally.overflowed += 1;
    }

    /// The next datagram that leaves by now.
    pub(super) fn due(&mut self, now: Instant) -> Option<Departure> {
        self.release(|held| held.until <= now);
        self.queue.front().filter(|transit| transit.at <= now)?;
        let Transit { departure, .. } = self.queue.pop_front()?;
        self.size -= departure.bytes.len() + OVERHEAD;
        self.tally.passed += 1;
        self.tally.duplicated += departure.copies - 1;
        Some(departure)
    }

    /// When something will be due.
    pub(super) fn next(&self) -> Option<Instant> {
        let first = self.queue.front().map(|transit| transit.at);
        first.into_iter().chain(self.held.iter().map(|held| held.until)).min()
    }

    pub(super) fn tally(&self) -> Tally {
        self.tally
    }

    /// Those that wait for others of that client wait for one less.
    fn let_pass(&mut self, client: usize) {
        let held = self.held.iter_mut().filter(|held| held.transit.departure.client == client);
        held.for_each(|held| held.behind -= 1);
    }

    fn release(&mut self, is_free: impl Fn(&Held) -> bool) {
        for held in self.held.extract_if(.., |held| is_free(held)) {
            enqueue(&mut self.queue, held.transit);
        }
    }
}

/// To the end, and so no earlier than the one before it.
fn enqueue(queue: &mut VecDeque<Transit>, mut transit: Transit) {
    if let Some(last) = queue.back() {
        transit.at = transit.at.max(last.at);
    }
    queue.push_back(transit);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(network: BadNetwork) -> Line {
        Line::new(network, Direction::ToServer)
    }

    /// The first bytes of what leaves by then.
    fn leaving(line: &mut Line, now: Instant) -> Vec<u8> {
        let mut first = Vec::new();
        while let Some(departure) = line.due(now) {
            first.push(departure.bytes[0]);
        }
        first
    }

    #[test]
    fn a_perfect_network_keeps_the_order() {
        let (mut line, now) = (line(BadNetwork::default()), Instant::now());
        (0..100).for_each(|n| line.take(now, 0, &[n]));
        assert_eq!(leaving(&mut line, now), (0..100).collect::<Vec<_>>());
        assert_eq!(line.next(), None);
        assert_eq!(line.tally(), Tally { passed: 100, ..Tally::default() });
    }

    #[test]
    fn those_that_are_held_back_arrive_behind_others() {
        let network = BadNetwork { seed: 1, reordering: 0.1, ..BadNetwork::default() };
        let (mut line, now) = (line(network), Instant::now());
        (0..200).for_each(|n| line.take(now, 0, &[n]));
        let order = leaving(&mut line, now);
        let late =
            order.iter().enumerate().filter(|(place, n)| order[..*place].iter().any(|it| it > n));
        let late = late.count() as u64;
        let Tally { passed, held_back, .. } = line.tally();
        // The last ones may still wait, and two of which each waits for one come in their order.
        assert!((10..=held_back).contains(&late), "{late} of {held_back} are late");
        assert!(passed >= 196, "{passed}");
        // As far behind as the seed says, and no further.
        assert!(order.iter().zip(0..).all(|(n, place)| place <= *n + 4));
    }

    #[test]
    fn one_that_waits_for_others_in_vain_leaves_after_a_while() {
        let network = BadNetwork { reordering: 1.0, ..BadNetwork::default() };
        let (mut line, now) = (line(network), Instant::now());
        line.take(now, 0, b"a");
        // Others' datagrams are not those that it waits for.
        (1..20).for_each(|client| line.take(now, client, b"b"));
        assert_eq!(line.due(now), None);
        assert_eq!(line.next(), Some(now + HOLD));
        assert_eq!(leaving(&mut line, now + HOLD).len(), 20);
        assert_eq!(line.tally().held_back, 20);
    }

    #[test]
    fn delays_pass_and_keep_the_order() {
        let delay = Duration::from_millis(10)..=Duration::from_millis(30);
        let network = BadNetwork { seed: 2, delay, ..BadNetwork::default() };
        let (mut line, now) = (line(network), Instant::now());
        (0..50).for_each(|n| line.take(now, 0, &[n]));
        assert_eq!(line.due(now + Duration::from_millis(9)), None);
        let mut order = Vec::new();
        while let Some(next) = line.next() {
            assert!(next > now + Duration::from_millis(10));
            assert_eq!(line.due(next - Duration::from_nanos(1)), None);
            order.extend(leaving(&mut line, next));
        }
        assert_eq!(order, (0..50).collect::<Vec<_>>());
    }

    #[test]
    fn what_is_on_its_way_has_a_bound() {
        let (mut line, now) = (line(BadNetwork::default()), Instant::now());
        let room = MOST / (1000 + OVERHEAD);
        (0..room + 5).for_each(|_| line.take(now, 0, &[0; 1000]));
        assert_eq!((line.queue.len(), line.tally().overflowed), (room, 5));
        assert_eq!(leaving(&mut line, now).len(), room);
        line.take(now, 0, &[0; 1000]);
        assert_eq!((line.queue.len(), line.tally().overflowed), (1, 5));
    }
}
