//! How much each client uses of a shared resource that can run out.
//!
//! Clients are counted by a hash of their network, in two rows of cells: what a client has is at most what the smaller of
//! its two cells says (a count-min sketch). Two clients have both in common once in a million; that matters only when
//! the last places are given out. The hash is keyed, so that no client can choose whose cells to share.

use crate::network::ClientNetwork;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU32, Ordering};

/// Places that clients take and leave, over all workers.
///
/// The last eighth of them is for clients that have few: a client that takes all it can get leaves those to others.
pub struct Shares {
    taken: AtomicU32,
    rows: [Box<[AtomicU32]>; 2],
    hash: RandomState,
}

/// The counter of a client: its cell in each row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientCounter([u16; 2]);

/// How many cells a row has: 8 KiB of memory for both.
const CELLS: u64 = 1024;
/// Which part of the places is kept for clients that have few.
const KEPT_PART: u32 = 8;
/// Which part of what is kept one client may take.
const FEW_PART: u32 = 4;

impl Shares {
    /// Shares of which none is taken.
    pub fn new() -> Shares {
        Shares {
            taken: AtomicU32::new(0),
            rows: [(); 2].map(|()| (0..CELLS).map(|_| AtomicU32::new(0)).collect()),
            hash: RandomState::new(),
        }
    }

    /// The counter of a client. Those without a known address count as one.
    pub fn counter(&self, client: Option<ClientNetwork>) -> ClientCounter {
        let hash = self.hash.hash_one(client);
        let cell = |hash: u64| u16::try_from(hash % CELLS).expect("a row has fewer cells");
        ClientCounter([cell(hash), cell(hash >> 32)])
    }

    /// Whether that client may take one more of `most` places, where one is free.
    pub fn admits(&self, counter: ClientCounter, most: u32) -> bool {
        self.admits_to(counter, self.taken.load(Ordering::Relaxed), most)
    }

    /// The same where `taken` of them are taken.
    pub fn admits_to(&self, counter: ClientCounter, taken: u32, most: u32) -> bool {
        let kept = most / KEPT_PART;
        taken < most - kept || self.of(counter) < (kept / FEW_PART).max(1)
    }

    /// How many places that client has.
    pub fn of(&self, counter: ClientCounter) -> u32 {
        let [first, second] = self.cells(counter).map(|cell| cell.load(Ordering::Relaxed));
        first.min(second)
    }

    /// Notes that the client has one more.
    pub fn take(&self, counter: ClientCounter) {
        self.taken.fetch_add(1, Ordering::Relaxed);
        for cell in self.cells(counter) {
            cell.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Notes that the client has one less.
    pub fn give_back(&self, counter: ClientCounter) {
        for cell in self.cells(counter) {
            cell.fetch_sub(1, Ordering::Relaxed);
        }
        self.taken.fetch_sub(1, Ordering::Relaxed);
    }

    fn cells(&self, ClientCounter([first, second]): ClientCounter) -> [&AtomicU32; 2] {
        let [firsts, seconds] = &self.rows;
        [&firsts[usize::from(first)], &seconds[usize::from(second)]]
    }
}

impl Default for Shares {
    fn default() -> Shares {
        Shares::new()
    }
}

impl Shares {
    /// Shares in which each of these clients has a counter of its own, for tests that count on it.
    pub fn apart(clients: &[Option<ClientNetwork>]) -> Shares {
        let is_apart = |shares: &Shares| {
            // A cell that no other client has is enough.
            let cells = clients.iter().map(|client| shares.counter(*client).0[0]);
            cells.collect::<std::collections::BTreeSet<_>>().len() == clients.len()
        };
        std::iter::repeat_with(Shares::new).find(is_apart).expect("it does not end")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many places a client gets that takes all it can, where so many are free of so many.
    fn greedy(shares: &Shares, counter: ClientCounter, (free, most): (u32, u32)) -> u32 {
        let takes = || shares.admits(counter, most).then(|| shares.take(counter));
        (0..free).map_while(|_| takes()).count().try_into().unwrap()
    }

    #[test]
    fn the_last_eighth_is_for_clients_that_have_few() {
        for (most, first, others) in
            [(1024, 896, 32), (100, 88, 3), (8, 7, 1), (7, 7, 0), (1, 1, 0)]
        {
            let shares = Shares::new();
            assert_eq!(greedy(&shares, ClientCounter([0, 0]), (most, most)), first, "of {most}");
            let got = greedy(&shares, ClientCounter([1, 1]), (most - first, most));
            assert_eq!(got, others.min(most - first), "of {most}");
        }
    }

    #[test]
    fn what_is_given_back_is_there_for_all() {
        let shares = Shares::new();
        let (one, other) = (ClientCounter([0, 0]), ClientCounter([1, 1]));
        assert_eq!(greedy(&shares, one, (16, 16)), 14);
        shares.give_back(one);
        assert_eq!((shares.of(one), shares.of(other)), (13, 0));
        assert!(shares.admits(one, 16) && shares.admits(other, 16));
    }

    #[test]
    fn a_client_has_one_counter() {
        let shares = Shares::new();
        let client = |last| Some(ClientNetwork::of([192, 0, 2, last].into()));
        assert_eq!(shares.counter(client(1)), shares.counter(client(1)));
        let others =
            (2..=255).filter(|&last| shares.counter(client(last)) != shares.counter(client(1)));
        assert!(others.count() > 250);
    }

    #[test]
    fn who_has_one_cell_in_common_has_not_the_other() {
        let shares = Shares::new();
        let counter = |number: u32| {
            let address = std::net::Ipv4Addr::from_bits(number);
            shares.counter(Some(ClientNetwork::of(address.into()))).0
        };
        let [first, second] = counter(0);
        // Of so many, sixteen share the first cell.
        let in_common = (1..16_384).map(counter).filter(|cells| cells[0] == first);
        let others: Vec<_> = in_common.filter(|cells| cells[1] != second).collect();
        assert!(!others.is_empty());
    }

    #[test]
    fn who_shares_one_cell_with_a_greedy_client_still_has_few() {
        for other in [ClientCounter([0, 1]), ClientCounter([1, 0])] {
            let shares = Shares::new();
            assert_eq!(greedy(&shares, ClientCounter([0, 0]), (32, 32)), 28);
            assert_eq!(shares.of(other), 0);
            assert_eq!(greedy(&shares, other, (4, 32)), 1);
        }
    }
}
