//! Bodies that are held, as the code that sends them on sees them.

use super::*;
use crate::body::Text;
use crate::clock::Clock;
use crate::memory::ClientMemory;
use crate::relay::{Pump, StallLimits, Stop};
use std::sync::Arc;
use std::task::Waker;

const MIB: usize = 1 << 20;

/// A body that is there as a whole.
struct Client<'t>(Text<'t>);

impl BodySource for Client<'_> {
    fn poll_data(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.0.poll_data(cx)
    }

    fn data(&self) -> &[u8] {
        self.0.data()
    }

    fn consume(&mut self, count: usize) {
        self.0.consume(count);
    }

    fn is_done(&self) -> bool {
        self.0.is_done()
    }

    fn is_last(&self) -> bool {
        self.0.is_last()
    }

    fn trailers(&self) -> &Fields {
        self.0.trailers()
    }
}

impl RequestBody for Client<'_> {
    fn poll_ahead(&mut self, _: &mut Context<'_>, _: usize) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn ahead(&self) -> usize {
        self.data().len()
    }

    fn poll_gone(&mut self, _: &mut Context<'_>) -> Poll<ClientState> {
        Poll::Pending
    }

    fn poll_lost(&mut self, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    fn is_broken(&self) -> bool {
        false
    }

    fn is_abandoned(&self) -> bool {
        false
    }

    fn set_limit(&mut self, _: u64) -> Result<(), Error> {
        Ok(())
    }

    fn received(&self) -> u64 {
        0
    }
}

fn memory(most: usize) -> ClientMemory {
    ClientMemory::new(most, Arc::default())
}

fn fill(client: &mut Client<'_>, held: &mut BodyBuffer<'_>) -> Result<(), Kind> {
    let mut cx = Context::from_waker(Waker::noop());
    let polled = Pump::new(StallLimits::UNLIMITED).poll(&mut cx, &Clock::new(), client, held);
    let Poll::Ready(filled) = polled else { panic!("there is nothing to wait for") };
    filled.map_err(Stop::of_request).map_err(|error| error.kind)
}

/// Takes at most `most` bytes of a body, in pieces of no more than three.
fn take(body: &mut impl BodySource, most: usize) -> Vec<u8> {
    let mut taken = Vec::new();
    while taken.len() < most && !body.is_done() {
        let data = body.data();
        let count = data.len().min(3).min(most - taken.len());
        taken.extend_from_slice(&data[..count]);
        body.consume(count);
    }
    taken
}

#[test]
fn what_is_held_can_be_had_again_until_that_is_settled() {
    let (memory, mut client) = (memory(MIB), Client(Text::new(b"0123456789")));
    let mut held = BodyBuffer::new(memory.of(None), 10);
    assert_eq!(fill(&mut client, &mut held), Ok(()));
    assert_eq!(held.bytes(), b"0123456789");
    let mut body = HeldBody::new(&mut client, held, 10);
    for taken in [4, 10, 0] {
        assert_eq!(take(&mut body, taken), b"0123456789"[..taken]);
        assert!(body.rewind());
    }
    assert_eq!(take(&mut body, 7), b"0123456");
    body.settle();
    assert!(!body.rewind() && !body.is_done());
    assert!(body.held.memory.bytes() > 0);
    assert_eq!(take(&mut body, 10), b"789");
    assert!(body.is_done());
    assert_eq!((body.held.memory.bytes(), body.held.bytes.capacity()), (0, 0));
}

#[test]
fn what_is_too_large_goes_on_and_cannot_be_had_again() {
    let (memory, mut client) = (memory(MIB), Client(Text::new(b"0123456789")));
    let mut held = BodyBuffer::new(memory.of(None), 4);
    assert_eq!(fill(&mut client, &mut held), Err(Kind::BodyTooLarge));
    let mut body = HeldBody::new(&mut client, held, 4);
    assert_eq!(take(&mut body, 5), b"01234");
    assert!(!body.rewind());
    assert_eq!(take(&mut body, 10), b"56789");
    assert_eq!(body.held.memory.bytes(), 0, "given back as soon as it was taken");
}

#[test]
fn what_is_held_for_others_is_sent_again_only_where_it_may_be() {
    let (memory, mut client) = (memory(MIB), Client(Text::new(b"0123456789")));
    let mut held = BodyBuffer::new(memory.of(None), 100);
    assert_eq!(fill(&mut client, &mut held), Ok(()));
    let mut body = HeldBody::new(&mut client, held, 9);
    assert_eq!(take(&mut body, 10), b"0123456789");
    assert!(!body.rewind());
    assert_eq!(body.held.memory.bytes(), 0);
}

#[test]
fn all_that_is_held_is_bounded_in_sum() {
    let (memory, text) = (memory(MIB), vec![b'x'; 400 << 10]);
    let mut clients = [(); 3].map(|()| Client(Text::new(&text)));
    let [first, second, third] = &mut clients;
    let mut one = BodyBuffer::new(memory.of(None), MIB);
    assert_eq!(fill(first, &mut one), Ok(()));
    let mut other = BodyBuffer::new(memory.of(None), MIB);
    assert_eq!(fill(second, &mut other), Ok(()));
    assert_eq!(fill(third, &mut BodyBuffer::new(memory.of(None), MIB)), Err(Kind::RequestMemory));
    drop(one);
    assert_eq!(fill(third, &mut BodyBuffer::new(memory.of(None), MIB)), Ok(()));
}
