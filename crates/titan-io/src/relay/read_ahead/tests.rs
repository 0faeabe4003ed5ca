//! Bodies that are read ahead of their clients.

use super::*;
use crate::error::Kind;
use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

/// A body that comes in pieces.
#[derive(Default)]
struct Pieces {
    pieces: VecDeque<Vec<u8>>,
    here: Vec<u8>,
    /// Whether the last piece is the end, and not just all that has come.
    ends: bool,
    fails: bool,
    trailers: Fields,
    is_ahead: bool,
    /// Bytes that were consumed, and not ahead of their reader.
    used: usize,
}

impl Pieces {
    fn of(pieces: &[usize], ends: bool) -> Pieces {
        let pieces = pieces.iter().map(|&length| vec![b'x'; length]).collect();
        Pieces { pieces, ends, ..Pieces::default() }
    }
}

impl BodySource for Pieces {
    fn poll_data(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if !self.here.is_empty() {
            return Poll::Ready(Ok(()));
        }
        match self.pieces.pop_front() {
            Some(piece) => self.here = piece,
            None if std::mem::take(&mut self.fails) => {
                return Poll::Ready(Err(Kind::Truncated.into()));
            }
            None => return Poll::Pending,
        }
        Poll::Ready(Ok(()))
    }

    fn data(&self) -> &[u8] {
        &self.here
    }

    fn consume(&mut self, count: usize) {
        self.here.drain(..count);
        self.used += if self.is_ahead { 0 } else { count };
    }

    fn set_ahead(&mut self, is_ahead: bool) {
        self.is_ahead = is_ahead;
    }

    fn is_done(&self) -> bool {
        self.ends && self.here.is_empty() && self.pieces.is_empty()
    }

    fn is_last(&self) -> bool {
        self.ends && self.pieces.is_empty() && self.trailers.is_empty()
    }

    fn trailers(&self) -> &Fields {
        &self.trailers
    }
}

const KIB: usize = 1 << 10;

fn budget(memory: &ClientMemory, most: usize) -> ReadAheadBudget<'_> {
    ReadAheadBudget { memory, client: None, most }
}

/// Takes everything that is there; tells how much.
fn drain(source: &mut impl BodySource) -> usize {
    let cx = &mut Context::from_waker(Waker::noop());
    let mut taken = 0;
    while !source.is_done() && matches!(source.poll_data(cx), Poll::Ready(Ok(()))) {
        // In pieces that fit no boundary.
        let count = source.data().len().min(777);
        source.consume(count);
        taken += count;
    }
    taken
}

#[test]
fn what_fits_is_taken_from_its_source() {
    let memory = ClientMemory::new(1 << 20, Arc::default());
    let mut trailers = Fields::default();
    trailers.append_named(b"x-sum", b"1").expect("it fits");
    let source = Pieces { trailers, ..Pieces::of(&[5 * KIB, 40 * KIB, 1], true) };
    let mut ahead = ReadAhead::new(source, budget(&memory, 64 * KIB));
    ahead.read(&mut Context::from_waker(Waker::noop()));
    assert!(ahead.is_read() && !ahead.is_done());
    let mut rest = ahead.into_rest();
    assert!(!rest.is_last(), "trailers follow");
    assert_eq!(drain(&mut rest), 45 * KIB + 1);
    assert!(rest.is_done() && !rest.trailers().is_empty());
}

#[test]
fn what_does_not_fit_waits_in_its_source() {
    let memory = ClientMemory::new(1 << 20, Arc::default());
    let source = Pieces::of(&[50 * KIB, 50 * KIB], true);
    let mut ahead = ReadAhead::new(source, budget(&memory, 64 * KIB));
    ahead.read(&mut Context::from_waker(Waker::noop()));
    assert!(!ahead.is_read());
    assert_eq!(ahead.rest.bytes.len(), 64 * KIB);
    assert_eq!(drain(&mut ahead), 100 * KIB);
    assert!(ahead.is_done());
    let known = budget(&memory, 64 * KIB).for_body_of(BodyLength::Known(100 * KIB as u64));
    assert_eq!(known.most, 0, "nothing is read of a body that cannot fit");
}

#[test]
fn what_is_read_ahead_is_no_sign_that_the_client_keeps_up() {
    let memory = ClientMemory::new(1 << 20, Arc::default());
    let source = Pieces::of(&[10 * KIB, 30 * KIB, 5 * KIB], true);
    let mut ahead = ReadAhead::new(source, budget(&memory, 32 * KIB));
    let cx = &mut Context::from_waker(Waker::noop());
    assert!(ahead.poll_data(cx).is_ready());
    ahead.consume(KIB);
    ahead.read(cx);
    assert_eq!((ahead.rest.bytes.len(), ahead.source.used), (32 * KIB, KIB));
    drain(&mut ahead);
    assert_eq!(ahead.source.used, 13 * KIB, "what came before, and what did not fit");
}

#[test]
fn the_memory_of_all_is_bounded_and_given_back() {
    let memory = ClientMemory::new(128 * KIB, Arc::default());
    let ahead = |pieces: &[usize]| {
        let mut ahead = ReadAhead::new(Pieces::of(pieces, true), budget(&memory, 64 * KIB));
        ahead.read(&mut Context::from_waker(Waker::noop()));
        ahead
    };
    let bodies: Vec<_> = (0..4).map(|_| ahead(&[64 * KIB])).collect();
    let read: Vec<bool> = bodies.iter().map(ReadAhead::is_read).collect();
    assert_eq!(read, [true, true, false, false]);
    for mut body in bodies {
        assert_eq!(drain(&mut body), 64 * KIB);
    }
    assert!(ahead(&[64 * KIB]).is_read());
}

#[test]
fn a_failure_of_the_source_is_reported_once_its_bytes_are_consumed() {
    let memory = ClientMemory::new(1 << 20, Arc::default());
    let source = Pieces { fails: true, ..Pieces::of(&[10 * KIB], false) };
    let mut ahead = ReadAhead::new(source, budget(&memory, 64 * KIB));
    let cx = &mut Context::from_waker(Waker::noop());
    ahead.read(cx);
    assert!(!ahead.is_read());
    assert_eq!(drain(&mut ahead), 10 * KIB);
    assert!(matches!(ahead.poll_data(cx), Poll::Pending), "it was told in drain");
}
