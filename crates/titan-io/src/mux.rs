//! One connection of HTTP/2 or HTTP/3, shared by the driver that owns its socket and the exchanges on its streams.
//!
//! The driver reads the socket and stores what arrives where the streams find it; the streams put what they send into
//! the connection's output, which the driver writes. Neither waits for the other: each wakes the other's task.

mod client;
mod h2;
mod handle;
mod wire;

pub use client::ClientProtocol;
pub use handle::{Receiver, Sender, StreamHandle};
pub use wire::{Progress, Wire, WireEnd};

use crate::error::{Error, Kind, Side};
use std::cell::{Cell, RefCell, RefMut};
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Context, Waker};
use titan_http::section::Fault;
use titan_http::stream::{ResponseStart, StreamId, StreamMap};
use titan_http::{Fields, ResponseHead};

/// What the streams of a connection need of its protocol.
pub trait Protocol {
    /// Sends a head of a response: an interim one if its status says so, else the final one, which with `end` has no body. `length` is
    /// what `content-length` is to say. Tells how many bytes of a field section that are.
    fn send_response(
        &mut self,
        stream: StreamId,
        head: &ResponseHead,
        length: Option<u64>,
        end: bool,
    ) -> usize;

    /// Sends of a body as much as may be sent now, and tells how much that is; `end` counts when it is all. On a stream that is over
    /// everything is taken.
    fn send_data(&mut self, stream: StreamId, data: &[u8], end: bool) -> usize;

    /// Ends a message with trailers, if there are any. Tells how many bytes of a field section that are.
    fn send_trailers(&mut self, stream: StreamId, fields: &Fields) -> usize;

    /// Whether something can still be sent on the stream.
    fn is_sending(&self, stream: StreamId) -> bool;

    /// `count` bytes of the body were used: the peer may send as many again.
    fn release(&mut self, stream: StreamId, count: usize);

    /// The same for data that is unused so far and kept elsewhere, which bounds it.
    fn set_aside(&mut self, stream: StreamId, count: usize);

    /// Abandons a stream; nothing happens if it is over.
    fn reset(&mut self, stream: StreamId, farewell: Farewell);

    /// Takes back what a client was charged for a reset.
    fn forgive_reset(&mut self);

    /// Charges the peer for a stream that was reset because the peer let it wait: so many may do that at the same time. Whether that was
    /// too much the driver learns when it reads on.
    fn charge_for_stall(&mut self, stalls: u32);

    /// A stream that could not send all, and can go on.
    fn next_unblocked(&mut self) -> Option<StreamId>;
}

/// What a peer is told of a stream that ends before it is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Farewell {
    /// It got its response; what is left of the request is not wanted.
    Responded,
    /// This side has failed.
    Failed,
    /// Nobody wants it any more.
    Cancelled,
}

/// A connection with all its streams.
pub struct Mux<P> {
    pub(crate) shared: RefCell<Shared<P>>,
    /// Who owns the socket.
    driver: RefCell<Waker>,
    /// Whose doing it is when a stream fails.
    peer: Side,
}

/// What the driver and the streams have in common.
pub(crate) struct Shared<P> {
    pub(crate) connection: P,
    streams: StreamMap<Slot>,
    /// Memory for bodies and heads that streams have left.
    spare: Vec<Vec<u8>>,
    #[expect(
        clippy::vec_box,
        reason = "lent and given back for each response: only a pointer moves"
    )]
    spare_heads: Vec<Box<Head>>,
}

/// The head of a response.
type Head = (ResponseHead, ResponseStart);

/// What has come on a stream and was not taken yet.
#[derive(Default)]
struct Slot {
    heads: VecDeque<Box<Head>>,
    body: Vec<u8>,
    trailers: Option<Fields>,
    /// Whether the peer's message is complete.
    is_whole: bool,
    lost: Option<StreamLoss>,
    /// Who serves the stream.
    task: Option<Waker>,
}

/// How a stream was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StreamLoss {
    /// The peer has done nothing with it.
    Unprocessed,
    /// The peer has reset it.
    Reset,
    /// The peer broke a rule.
    Fault(Fault),
    /// The connection is gone.
    Connection,
}

/// How many spare bodies a connection keeps, and how long they may be.
const SPARE: usize = 8;
const SPARE_BYTES: usize = 64 << 10;

impl<P: Protocol> Mux<P> {
    /// A connection whose peer is the given side.
    pub fn new(connection: P, peer: Side) -> Rc<Mux<P>> {
        let (streams, spare, spare_heads) = (StreamMap::default(), Vec::new(), Vec::new());
        let shared = Shared { connection, streams, spare, spare_heads };
        Rc::new(Mux {
            shared: RefCell::new(shared),
            driver: RefCell::new(Waker::noop().clone()),
            peer,
        })
    }

    /// The protocol's side of it. Not to be held while waiting.
    pub fn connection(&self) -> RefMut<'_, P> {
        RefMut::map(self.shared.borrow_mut(), |shared| &mut shared.connection)
    }

    /// Makes the task of `cx` the one that writes what streams leave.
    pub fn set_driver(&self, cx: &Context<'_>) {
        let mut driver = self.driver.borrow_mut();
        if !driver.will_wake(cx.waker()) {
            driver.clone_from(cx.waker());
        }
    }

    /// Wakes the driver, which then checks the connection.
    pub fn wake_driver(&self) {
        self.driver.borrow().wake_by_ref();
    }

    /// How many exchanges are on streams, those among them whose stream is lost already.
    pub fn handles(&self) -> usize {
        self.shared.borrow().streams.len()
    }

    /// Wakes the streams that have waited for the peer to take more.
    pub fn wake_unblocked(&self) {
        let mut shared = self.shared.borrow_mut();
        while let Some(stream) = shared.connection.next_unblocked() {
            if let Some(slot) = shared.streams.get_mut(&stream) {
                slot.wake();
            }
        }
    }

    /// Nothing will come or go any more.
    pub fn lose(&self) {
        for slot in self.shared.borrow_mut().streams.values_mut() {
            slot.lose(StreamLoss::Connection);
        }
    }

    /// A stream that the peer has opened.
    pub fn accept(self: &Rc<Self>, stream: StreamId, is_whole: bool) -> Rc<StreamHandle<P>> {
        let slot = Slot { is_whole, ..Slot::default() };
        self.shared.borrow_mut().streams.insert(stream, slot);
        self.handle(stream)
    }

    /// A stream that this side has opened, which the driver has to send something on.
    pub(crate) fn opened(self: &Rc<Self>, stream: StreamId) -> Rc<StreamHandle<P>> {
        self.shared.borrow_mut().streams.insert(stream, Slot::default());
        self.wake_driver();
        self.handle(stream)
    }

    fn handle(self: &Rc<Self>, stream: StreamId) -> Rc<StreamHandle<P>> {
        Rc::new(StreamHandle {
            mux: Rc::clone(self),
            stream,
            farewell: Cell::new(Farewell::Cancelled),
        })
    }

    fn error(&self, lost: StreamLoss, has_head: bool) -> Error {
        match (lost, self.peer) {
            (StreamLoss::Fault(fault), side) => Error { side, kind: Kind::MalformedStream(fault) },
            (StreamLoss::Unprocessed, Side::Upstream) => Kind::Unprocessed.into(),
            (_, Side::Upstream) if has_head => Kind::Truncated.into(),
            (StreamLoss::Reset, Side::Upstream) => Kind::Reset.into(),
            (StreamLoss::Connection, Side::Upstream) => Kind::Closed.into(),
            _ => Kind::ClientGone.into(),
        }
    }
}

impl<P: Protocol> Shared<P> {
    /// The head of a response has come, which `take` swaps with another one.
    pub(crate) fn deliver_head(
        &mut self,
        stream: StreamId,
        start: ResponseStart,
        take: impl FnOnce(&mut P, &mut ResponseHead),
    ) {
        let fresh = || Box::new((ResponseHead::default(), start));
        let mut head = self.spare_heads.pop().unwrap_or_else(fresh);
        head.1 = start;
        take(&mut self.connection, &mut head.0);
        self.at(stream, |slot| {
            slot.is_whole |= start.end;
            slot.heads.push_back(head);
        });
    }

    pub(crate) fn deliver_data(&mut self, stream: StreamId, data: &[u8], end: bool) {
        let Shared { connection, streams, spare, .. } = self;
        let Some(slot) = streams.get_mut(&stream).filter(|slot| slot.lost.is_none()) else {
            return connection.release(stream, data.len());
        };
        if slot.body.capacity() == 0 {
            slot.body = spare.pop().unwrap_or_default();
        }
        slot.body.extend_from_slice(data);
        slot.is_whole |= end;
        slot.wake();
    }

    pub(crate) fn deliver_trailers(&mut self, stream: StreamId, fields: Fields) {
        self.at(stream, |slot| {
            slot.trailers = Some(fields);
            slot.is_whole = true;
        });
    }

    /// A stream is over before its end.
    pub(crate) fn deliver_loss(
        &mut self,
        stream: StreamId,
        fault: Option<Fault>,
        is_unprocessed: bool,
    ) {
        let lost = match (fault, is_unprocessed) {
            (Some(fault), _) => StreamLoss::Fault(fault),
            (None, true) => StreamLoss::Unprocessed,
            (None, false) => StreamLoss::Reset,
        };
        self.at(stream, |slot| slot.lose(lost));
    }

    /// The peer has done nothing with streams from that one on.
    pub(crate) fn lose_from(&mut self, first: StreamId) {
        let of_those = |stream: &StreamId| *stream >= first;
        for (_, slot) in self.streams.iter_mut().filter(|(stream, _)| of_those(stream)) {
            slot.lose(StreamLoss::Unprocessed);
        }
    }

    /// Whether anybody serves that stream.
    pub(crate) fn has(&self, stream: StreamId) -> bool {
        self.streams.contains_key(&stream)
    }

    fn at(&mut self, stream: StreamId, change: impl FnOnce(&mut Slot)) {
        if let Some(slot) = self.streams.get_mut(&stream) {
            change(slot);
            slot.wake();
        }
    }

    /// Keeps the memory of a body that is used up.
    fn spare(&mut self, mut body: Vec<u8>) {
        if (1..=SPARE_BYTES).contains(&body.capacity()) && self.spare.len() < SPARE {
            body.clear();
            self.spare.push(body);
        }
    }
}

impl Slot {
    fn wake(&mut self) {
        if let Some(task) = self.task.take() {
            task.wake();
        }
    }

    fn wait(&mut self, cx: &Context<'_>) {
        match &self.task {
            Some(task) if task.will_wake(cx.waker()) => {}
            _ => self.task = Some(cx.waker().clone()),
        }
    }

    fn lose(&mut self, lost: StreamLoss) {
        self.lost.get_or_insert(lost);
        self.wake();
    }
}
