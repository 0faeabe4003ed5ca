//! One HTTP/2 connection, shared by the driver that owns its socket and the exchanges on its streams.
//!
//! The driver reads the socket and stores what arrives where the streams find it; the streams put what they send into
//! the connection's output, which the driver writes. Neither waits for the other: each wakes the other's task.

mod handle;
mod wire;

pub use handle::{Receiver, Sender, StreamHandle};
pub use wire::{Progress, Wire, WireEnd};

use crate::error::{Error, Kind, Side};
use std::cell::{Cell, RefCell, RefMut};
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::rc::Rc;
use std::task::{Context, Waker};
use titan_h2::{Code, Destination, Event, Fatal, Fault, ResponseStart, StreamId};
use titan_http::{Fields, RequestHead, ResponseHead};

/// A connection with all its streams.
pub struct Mux {
    shared: RefCell<Shared>,
    /// Who owns the socket.
    driver: RefCell<Waker>,
    /// Whose doing it is when a stream fails.
    peer: Side,
}

/// What the driver and the streams have in common.
struct Shared {
    connection: titan_h2::Connection,
    streams: HashMap<StreamId, Slot, BuildHasherDefault<ByNumber>>,
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
    Reset(Code),
    /// The peer broke a rule.
    Fault(Fault),
    /// The connection is gone.
    Connection,
}

/// How many spare bodies a connection keeps, and how long they may be.
const SPARE: usize = 8;
const SPARE_BYTES: usize = 64 << 10;

/// Stream numbers are as good as hashes already.
#[derive(Default)]
struct ByNumber(u64);

impl Hasher for ByNumber {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u32(&mut self, number: u32) {
        // The high bits choose the group in the table, the low ones the place in it.
        self.0 = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl Mux {
    /// A connection whose peer is the given side.
    pub fn new(connection: titan_h2::Connection, peer: Side) -> Rc<Mux> {
        let (streams, spare, spare_heads) = (HashMap::default(), Vec::new(), Vec::new());
        let shared = Shared { connection, streams, spare, spare_heads };
        Rc::new(Mux {
            shared: RefCell::new(shared),
            driver: RefCell::new(Waker::noop().clone()),
            peer,
        })
    }

    /// The protocol's side of it. Not to be held while waiting.
    pub fn connection(&self) -> RefMut<'_, titan_h2::Connection> {
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

    /// Reads on from `input` and hands what has come to the streams; what concerns the connection goes to
    /// the driver. Tells how much was used; 0 without an event means that more is needed.
    pub fn read(&self, input: &[u8]) -> Result<(usize, Option<Event>), Fatal> {
        let mut shared = self.shared.borrow_mut();
        let (consumed, event) = shared.connection.read(input)?;
        Ok((consumed, event.and_then(|event| shared.deliver(event, input))))
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
    pub fn accept(self: &Rc<Self>, stream: StreamId, is_whole: bool) -> Rc<StreamHandle> {
        let slot = Slot { is_whole, ..Slot::default() };
        self.shared.borrow_mut().streams.insert(stream, slot);
        self.handle(stream)
    }

    /// A stream that this side opens; none when the peer takes no more.
    pub fn open(
        self: &Rc<Self>,
        head: &RequestHead,
        to: Destination<'_>,
        length: Option<u64>,
        end: bool,
    ) -> Option<Rc<StreamHandle>> {
        let mut shared = self.shared.borrow_mut();
        let stream = shared.connection.send_request(head, to, length, end)?;
        shared.streams.insert(stream, Slot::default());
        drop(shared);
        self.wake_driver();
        Some(self.handle(stream))
    }

    fn handle(self: &Rc<Self>, stream: StreamId) -> Rc<StreamHandle> {
        Rc::new(StreamHandle { mux: Rc::clone(self), stream, farewell: Cell::new(Code::Cancel) })
    }

    fn error(&self, lost: StreamLoss, has_head: bool) -> Error {
        match (lost, self.peer) {
            (StreamLoss::Fault(fault), side) => Error { side, kind: Kind::MalformedStream(fault) },
            (StreamLoss::Unprocessed, Side::Upstream) => Kind::Unprocessed.into(),
            (_, Side::Upstream) if has_head => Kind::Truncated.into(),
            (StreamLoss::Reset(_), Side::Upstream) => Kind::Reset.into(),
            (StreamLoss::Connection, Side::Upstream) => Kind::Closed.into(),
            _ => Kind::ClientGone.into(),
        }
    }
}

impl Shared {
    /// Puts what has come where its stream finds it. What opens a stream, or is about all of them, is left
    /// for the driver.
    fn deliver(&mut self, event: Event, input: &[u8]) -> Option<Event> {
        match event {
            Event::Data { stream, data, end } => self.deliver_data(stream, &input[data], end),
            Event::Response { stream, start } => {
                let fresh = || Box::new((ResponseHead::default(), start));
                let mut head = self.spare_heads.pop().unwrap_or_else(fresh);
                head.1 = start;
                self.connection.take_response(&mut head.0);
                self.at(stream, |slot| {
                    slot.is_whole |= start.end;
                    slot.heads.push_back(head);
                });
            }
            Event::Trailers { stream } => {
                let mut fields = Fields::default();
                self.connection.take_trailers(&mut fields);
                self.at(stream, |slot| {
                    slot.trailers = Some(fields);
                    slot.is_whole = true;
                });
            }
            Event::Reset { stream, .. } if !self.streams.contains_key(&stream) => {
                return Some(event);
            }
            Event::Reset { stream, code, fault } => {
                let lost = match (fault, code) {
                    (Some(fault), _) => StreamLoss::Fault(fault),
                    (None, Code::RefusedStream) => StreamLoss::Unprocessed,
                    (None, code) => StreamLoss::Reset(code),
                };
                self.at(stream, |slot| slot.lose(lost));
            }
            Event::GoAway { last, .. } => {
                self.streams
                    .iter_mut()
                    .filter(|(stream, _)| **stream > last)
                    .for_each(|(_, slot)| slot.lose(StreamLoss::Unprocessed));
                return Some(event);
            }
            event => return Some(event),
        }
        None
    }

    fn deliver_data(&mut self, stream: StreamId, data: &[u8], end: bool) {
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
