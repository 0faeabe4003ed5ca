//! One client connection: sends a batch of requests, verifies its responses in order.

use std::time::Instant;

use titan_bench::net::Moved;
use titan_bench::poll::{Poller, Ready};

use crate::answer::{Checker, KnownHead, Taken};
use crate::coded::{Coded, KnownBody};
use crate::fault::Fault;
use crate::script::Script;
use crate::tally::Tally;
use crate::transport::{Dial, Transport};
use crate::tunnel::Opening;

/// What all connections of a run share.
pub struct Shared {
    pub dial: Dial,
    pub script: Script,
    pub tally: Tally,
    pub known: KnownHead,
    pub known_body: KnownBody,
    pub buffer: Box<[u8]>,
}

/// What an event brought.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// Responses are still owed, or nothing happened.
    Pending,
    /// The batch is answered; the connection takes another.
    Answered,
    /// The batch is answered and the peer has closed, as it said.
    Ended,
}

pub struct Conn {
    transport: Transport,
    /// The connection is still becoming a tunnel; the first batch waits for that.
    opening: Option<Opening>,
    checker: Checker,
    /// Reads the responses in place of the checker, where they are compressed.
    coded: Option<Coded>,
    /// Which batch is under way.
    batch: usize,
    /// Bytes of it that are written.
    written: usize,
    /// Answers it still has to get.
    owed: usize,
    /// The connection was asked to end with this batch, or the peer announced that it does.
    last: bool,
    sent: Instant,
}

impl Conn {
    /// Opens a connection; its first batch will be number `batch`.
    pub fn open(dial: &Dial, poller: &Poller, token: usize, batch: usize) -> Result<Self, Fault> {
        let sent = Instant::now();
        let transport = dial.connect()?;
        poller.add(&transport, token).map_err(Fault::Connect)?;
        Ok(Self {
            transport,
            opening: None,
            checker: Checker::default(),
            coded: None,
            batch,
            written: 0,
            owed: 0,
            last: false,
            sent,
        })
    }

    pub fn batch(&self) -> usize {
        self.batch
    }

    /// Whether responses are owed.
    pub fn busy(&self) -> bool {
        self.owed > 0
    }

    /// Sends the first batch. Its latency includes opening the connection.
    pub fn send_first(&mut self, script: &Script) -> Result<(), Fault> {
        self.coded = script.coding.map(Coded::new);
        if let Some(request) = &script.opening {
            self.opening = Some(Opening::new(request));
            self.checker = Checker::headless();
        }
        self.send(script)
    }

    /// Sends the batch after the one that was answered.
    pub fn send_next(&mut self, script: &Script) -> Result<(), Fault> {
        self.batch += 1;
        self.written = 0;
        self.sent = Instant::now();
        self.send(script)
    }

    fn send(&mut self, script: &Script) -> Result<(), Fault> {
        self.owed = script.depth;
        self.last = script.fresh;
        self.write(script)
    }

    /// Does what `ready` allows.
    pub fn on_ready(&mut self, ready: Ready, shared: &mut Shared) -> Result<Step, Fault> {
        if ready.writable() {
            self.transport.flush()?;
            if self.busy() {
                self.write(&shared.script)?;
            }
        }
        if ready.readable() { self.read_all(ready.ended(), shared) } else { Ok(Step::Pending) }
    }

    fn write(&mut self, script: &Script) -> Result<(), Fault> {
        if let Some(opening) = &mut self.opening {
            return opening.write(&mut self.transport);
        }
        let batch = script.batch(self.batch);
        while self.written < batch.len() {
            match self.transport.write(&batch[self.written..])? {
                Moved::Bytes(count) => self.written += count,
                Moved::Blocked => break,
                Moved::Closed => return Err(Fault::Cut { owed: self.owed }),
            }
        }
        Ok(())
    }

    /// A read that does not fill the buffer has emptied the socket, unless its end follows.
    fn read_all(&mut self, ended: bool, shared: &mut Shared) -> Result<Step, Fault> {
        let was_busy = self.busy();
        self.transport.begin_reading(ended);
        loop {
            let count = match self.transport.read(&mut shared.buffer)? {
                Moved::Bytes(count) => count,
                Moved::Blocked => break,
                Moved::Closed => return self.on_close(),
            };
            if self.opening.is_some() {
                self.open_tunnel(count, shared)?;
            } else {
                self.verify(count, shared)?;
            }
            if self.transport.emptied(count, shared.buffer.len(), ended) {
                break;
            }
        }
        let answered = was_busy && !self.busy();
        // Where the connection is to end, the batch is complete with that end.
        Ok(if answered && !self.last { Step::Answered } else { Step::Pending })
    }

    fn open_tunnel(&mut self, count: usize, shared: &Shared) -> Result<(), Fault> {
        let Some(opening) = &mut self.opening else { return Ok(()) };
        if opening.take(&shared.buffer[..count])? {
            self.opening = None;
            self.write(&shared.script)?;
        }
        Ok(())
    }

    fn on_close(&self) -> Result<Step, Fault> {
        match (self.busy(), self.last) {
            (false, true) => Ok(Step::Ended),
            (false, false) => Err(Fault::Dropped),
            (true, _) => Err(Fault::Cut { owed: self.owed }),
        }
    }

    fn verify(&mut self, count: usize, shared: &mut Shared) -> Result<(), Fault> {
        let Shared { script, tally, known, known_body, buffer, .. } = shared;
        let now = Instant::now();
        let mut input = &buffer[..count];
        while !input.is_empty() {
            if self.owed == 0 {
                return Err(Fault::Surplus(input.len()));
            }
            let expected = script.answer(self.batch, script.depth - self.owed);
            let taken = match &mut self.coded {
                Some(coded) => coded.take(input, expected, known_body)?,
                None => self.checker.take(input, expected, known)?,
            };
            let Taken::Whole(rest) = taken else { break };
            if self.written < script.batch(self.batch).len() {
                return Err(Fault::Early);
            }
            self.owed -= 1;
            self.last |= self.checker.last;
            tally.answer(
                self.sent,
                now,
                self.coded.as_ref().map_or(expected.len(), |coded| coded.bytes),
            );
            input = rest;
        }
        if self.last && self.owed == 0 {
            tally.full_handshakes += u64::from(self.transport.is_full_handshake());
        }
        Ok(())
    }
}
