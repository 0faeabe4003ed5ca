//! One connection of the origin: reads requests, queues answers, writes as many as fit at once.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::os::fd::OwnedFd;

use titan_bench::net::{self, Moved};
use titan_bench::payload::{LARGEST, pattern};
use titan_bench::poll::Ready;
use titan_bench::websocket::{self, Front};

use crate::answers::{Answer, Answers, refusal, switching};
use crate::head;

/// One write gathers at most so many responses.
const GATHER: usize = 16;
/// While so many responses wait, nothing more is read.
const MAX_QUEUED: usize = 1024;

/// What the caller does with the connection afterwards.
#[derive(Debug, PartialEq, Eq)]
pub enum Fate {
    Keep,
    Close,
}

/// Where in the input the connection stands.
enum Reading {
    Head,
    /// `checked` bytes of the posted body were read and right.
    Body {
        checked: usize,
        length: usize,
    },
    /// Messages, each of which is echoed.
    Tunnel,
}

pub struct Conn {
    socket: OwnedFd,
    /// A head or message that is not whole yet; at most [`head::MAX_HEAD`].
    partial: Vec<u8>,
    reading: Reading,
    queue: VecDeque<Answer>,
    /// Bytes of the queue's front that are written.
    written: usize,
    /// No request follows: close when the queue is empty.
    last: bool,
}

impl Conn {
    pub fn new(socket: OwnedFd) -> Self {
        let (partial, queue) = (Vec::new(), VecDeque::new());
        Self { socket, partial, reading: Reading::Head, queue, written: 0, last: false }
    }

    /// Does what `ready` allows. `buffer` is scratch space that all connections share.
    pub fn on_ready(&mut self, ready: Ready, answers: &mut Answers, buffer: &mut [u8]) -> Fate {
        let held_back = self.queue.len() >= MAX_QUEUED;
        if ready.writable() && !self.queue.is_empty() && self.write_queue() == Fate::Close {
            return Fate::Close;
        }
        if ready.readable() || held_back {
            return self.read_all(ready.ended() || held_back, answers, buffer);
        }
        Fate::Keep
    }

    /// A read that does not fill the buffer has emptied the socket, unless its end follows.
    fn read_all(&mut self, to_the_end: bool, answers: &mut Answers, buffer: &mut [u8]) -> Fate {
        while !self.last && self.queue.len() < MAX_QUEUED {
            let count = match net::read(&self.socket, buffer) {
                Moved::Bytes(count) => count,
                Moved::Blocked => return Fate::Keep,
                Moved::Closed => return Fate::Close,
            };
            self.take(&buffer[..count], answers);
            if self.write_queue() == Fate::Close {
                return Fate::Close;
            }
            if count < buffer.len() && !to_the_end {
                break;
            }
        }
        Fate::Keep
    }

    fn take(&mut self, mut input: &[u8], answers: &mut Answers) {
        while !input.is_empty() && !self.last {
            input = match self.reading {
                Reading::Head => self.take_head(input, answers),
                Reading::Body { checked, length } => {
                    self.take_body(input, checked, length, answers)
                }
                Reading::Tunnel => self.take_message(input),
            };
        }
    }

    /// Consumes one head or keeps what there is of it; returns the input after it.
    fn take_head<'a>(&mut self, input: &'a [u8], answers: &mut Answers) -> &'a [u8] {
        if self.partial.is_empty()
            && let Some(end) = head::end(input)
        {
            self.begin(&input[..end], answers);
            return &input[end..];
        }
        let before = self.partial.len();
        let room = head::MAX_HEAD.saturating_sub(before).min(input.len());
        self.partial.extend_from_slice(&input[..room]);
        match head::end(&self.partial) {
            Some(end) => {
                let whole = std::mem::take(&mut self.partial);
                self.begin(&whole[..end], answers);
                &input[end - before..]
            }
            None if room < input.len() => {
                self.refuse("431 Request Header Fields Too Large");
                &[]
            }
            None => &[],
        }
    }

    fn begin(&mut self, head: &[u8], answers: &mut Answers) {
        match head::parse(head) {
            Err(status) => self.refuse(status),
            Ok(head) if head.upgrade && head.path == websocket::PATH.as_bytes() => {
                self.reading = Reading::Tunnel;
                self.answer(switching(), false);
            }
            Ok(head) if head.method == b"GET" && head.length == 0 => match answers.get(head.path) {
                Some(answer) => self.answer(answer, head.last),
                None => self.refuse("404 Not Found"),
            },
            Ok(head) if head.method == b"POST" && head.path == b"/post" => {
                self.begin_post(head.length, head.last, answers);
            }
            Ok(_) => self.refuse("405 Method Not Allowed"),
        }
    }

    fn begin_post(&mut self, length: usize, last: bool, answers: &mut Answers) {
        if length > LARGEST || last {
            // No scenario posts on a closing connection, so the state for it is not kept.
            self.refuse("413 Content Too Large");
        } else if length == 0 {
            self.answer(answers.receipt(0), false);
        } else {
            self.reading = Reading::Body { checked: 0, length };
        }
    }

    fn take_body<'a>(
        &mut self,
        input: &'a [u8],
        checked: usize,
        length: usize,
        answers: &mut Answers,
    ) -> &'a [u8] {
        let count = input.len().min(length - checked);
        let (body, rest) = input.split_at(count);
        let checked_now = checked + count;
        if body != &pattern()[checked..checked_now] {
            self.refuse("422 Unprocessable Content");
        } else if checked_now == length {
            self.reading = Reading::Head;
            self.answer(answers.receipt(length), false);
        } else {
            self.reading = Reading::Body { checked: checked_now, length };
        }
        rest
    }

    /// Echoes one message or keeps what there is of it; returns the input after it.
    fn take_message<'a>(&mut self, input: &'a [u8]) -> &'a [u8] {
        let before = self.partial.len();
        let front = if before == 0 {
            websocket::read(input)
        } else {
            self.partial.extend_from_slice(input);
            websocket::read(&self.partial)
        };
        match front {
            Front::Message(length, echo) => {
                self.partial.clear();
                self.answer(echo.into(), false);
                &input[length - before..]
            }
            Front::Partial => {
                if before == 0 {
                    self.partial.extend_from_slice(input);
                }
                &[]
            }
            // A client that sends anything else sees the tunnel end.
            Front::Other => {
                self.last = true;
                &[]
            }
        }
    }

    fn refuse(&mut self, status: &'static str) {
        self.answer(refusal(status), true);
    }

    fn answer(&mut self, answer: Answer, last: bool) {
        self.queue.push_back(answer);
        self.last |= last;
    }

    fn write_queue(&mut self) -> Fate {
        while !self.queue.is_empty() {
            match self.write_once() {
                Moved::Bytes(count) => self.advance(count),
                Moved::Blocked => return Fate::Keep,
                Moved::Closed => return Fate::Close,
            }
        }
        if self.last { Fate::Close } else { Fate::Keep }
    }

    fn write_once(&self) -> Moved {
        if let [only] = self.queue.as_slices().0
            && self.queue.len() == 1
        {
            return net::write(&self.socket, &only[self.written..]);
        }
        let mut pieces = [IoSlice::new(&[]); GATHER];
        let mut used = 0;
        for (piece, answer) in pieces.iter_mut().zip(&self.queue) {
            let start = if used == 0 { self.written } else { 0 };
            *piece = IoSlice::new(&answer[start..]);
            used += 1;
        }
        net::write_pieces(&self.socket, &pieces[..used])
    }

    fn advance(&mut self, mut count: usize) {
        while let Some(front) = self.queue.front() {
            let left = front.len() - self.written;
            if count < left {
                self.written += count;
                return;
            }
            count -= left;
            self.written = 0;
            self.queue.pop_front();
        }
    }
}
