//! One connection, in either role: what it knows of its streams, and the calls of its driver.
//!
//! | in reading order | |
//! |---|---|
//! | `reading` | streams of requests: frames, heads, bodies, trailers |
//! | `control` | streams in one direction: settings, the table, GOAWAY, priorities |
//! | `sending` | messages to frames |
//! | `ending` | streams and connections that end, in order or not |
//! | `flushing` | frames to the transport |

mod control;

mod ending;

mod flushing;

mod reading;

mod sending;

use crate::control::Peer;
use crate::event::Event;
use crate::fatal::Fatal;
use crate::frame::{FrameHeader, Kind};
use crate::limits::Limits;
use crate::priority::Priority;
use crate::qpack::CAPACITY;
use crate::sections::SectionReader;
use crate::settings::Settings;
use crate::stream::Stream;
use std::collections::VecDeque;
use titan_http::stream::{Floods, Half, StreamId, StreamMap};
use titan_http::{Fields, RequestHead, ResponseHead};

/// What something that has come leads to.
type Outcome = Result<Option<Event>, Fatal>;

/// How much a connection keeps of what the peer has begun: see [`Connection::kept`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Requests whose heads have perhaps not come: twice [`Limits::streams`] at most.
    pub headless: usize,
    /// The peer's streams in one direction: as many as the transport grants.
    pub unis: usize,
    /// Streams whose field sections wait for entries of the table: [`Limits::blocked`] at most.
    pub blocked: usize,
    /// Priorities of requests that have not come: [`Limits::streams`] at most.
    pub early: usize,
    /// What the transport is to be told of streams, each of which had begun since it was told last, or was open: nothing once all is
    /// flushed.
    pub untold: usize,
    /// Streams that can go on sending: nothing once they were asked for.
    pub unblocked: usize,
    /// Bytes for the peer's encoder that the transport has not taken: the connection ends where they are more than 4 KiB, and more
    /// than ten times [`Limits::streams`].
    pub feedback: usize,
}

/// One connection, in the role of a server or of a client.
///
/// The driver hands it what has come in order on each stream ([`Connection::read`], [`Connection::read_uni`]), acts on the events, says
/// what is to be sent, and lets it write to the transport ([`Connection::flush`]).
#[derive(Debug)]
pub struct Connection {
    limits: Limits,
    peer: Peer,
    /// The first fault that ends the connection: nothing is read after it.
    failed: Option<Fatal>,
    streams: StreamMap<Stream>,
    /// The number of the next request of the client.
    next: u64,
    /// Requests that have begun, in their order, and whose heads have perhaps not come.
    headless: VecDeque<StreamId>,
    /// The peer's streams in one direction.
    unis: StreamMap<control::UniStream>,
    settings: Option<Settings>,
    floods: Floods,
    /// Bytes of body that were told of and are not used.
    held: usize,
    /// Bytes of instructions of both tables, below what costs a point.
    instructed: usize,
    /// Bytes of frames without a meaning, below what costs a point.
    skipped: usize,

    reader: SectionReader,
    /// The streams whose field sections wait for entries of the table.
    blocked: Vec<StreamId>,
    request: RequestHead,
    response: ResponseHead,
    trailers: Fields,
    /// Bytes of the field section of the request that has come last.
    section_length: usize,

    control: flushing::OwnStream,
    feedback: flushing::OwnStream,
    /// The streams that have something for the transport.
    dirty: Vec<StreamId>,
    closings: Vec<flushing::Closing>,
    levels: Vec<(StreamId, i32)>,
    /// Priorities of requests that have not come.
    early: Vec<(StreamId, Priority)>,
    /// The streams that can go on sending.
    unblocked: VecDeque<StreamId>,

    leaving: ending::Shutdown,
    /// The first request that the peer does not serve, once it is leaving.
    peer_serves: Option<u64>,
}

impl Connection {
    /// The server's end.
    pub fn server(limits: Limits) -> Connection {
        Connection::of(limits, Peer::Client)
    }

    /// The client's end.
    pub fn client(limits: Limits) -> Connection {
        Connection::of(limits, Peer::Server)
    }

    /// What the connection is held to.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Whether the stream is not over: this side may still have something to send on it, or to read.
    pub fn is_open(&self, stream: StreamId) -> bool {
        self.streams.contains_key(&stream)
    }

    /// Whether something can still be sent on the stream.
    pub fn is_sending(&self, stream: StreamId) -> bool {
        self.streams.get(&stream).is_some_and(|stream| stream.sending != Half::Done)
    }

    /// How many streams are open.
    pub fn open_streams(&self) -> usize {
        self.streams.len()
    }

    /// How much it keeps beside the streams that are open. Tests hold it to that, whatever the peer does.
    pub fn kept(&self) -> Kept {
        Kept {
            headless: self.headless.len(),
            unis: self.unis.len(),
            blocked: self.blocked.len(),
            early: self.early.len(),
            untold: self.dirty.len() + self.closings.len() + self.levels.len(),
            unblocked: self.unblocked.len(),
            feedback: self.reader.decoder.waiting() + self.feedback.waiting(),
        }
    }

    /// Whether the peer has said that it knows extended CONNECT (RFC 9220).
    pub fn extended_connect(&self) -> bool {
        self.settings.is_some_and(|settings| settings.extended_connect)
    }

    /// Charges the peer for what only the driver sees, such as a stream that stalls: see [`Limits::flood_budget`].
    ///
    /// # Errors
    ///
    /// When that was too much, now or before: the connection is to be closed.
    pub fn charge(&mut self, cost: u32) -> Result<(), Fatal> {
        self.attempt(|it| Ok(it.floods.charge(cost)?))
    }

    /// Takes back what a client was charged for a reset: it had a reason that only the driver knows.
    pub fn forgive_reset(&mut self) {
        self.floods.responded();
    }

    /// So many seconds have gone by: what the peer was charged leaks away. A connection without streams gives its memory back; heads that
    /// were not taken are gone.
    pub fn calm(&mut self, seconds: u32) {
        self.floods.calm(seconds);
        if self.streams.is_empty() {
            self.streams.shrink_to_fit();
            self.headless = VecDeque::new();
            self.dirty = Vec::new();
            self.closings.shrink_to_fit();
            self.levels.shrink_to_fit();
            self.unblocked.shrink_to_fit();
            self.request = RequestHead::default();
            self.response = ResponseHead::default();
            self.trailers = Fields::default();
        }
    }

    /// Does something that the peer has led to, unless the connection has ended before. It may end by that.
    fn attempt<T>(
        &mut self,
        step: impl FnOnce(&mut Connection) -> Result<T, Fatal>,
    ) -> Result<T, Fatal> {
        if let Some(fatal) = self.failed {
            return Err(fatal);
        }
        let outcome = step(self).and_then(|told| self.bound_feedback().map(|()| told));
        outcome.inspect_err(|fatal| self.failed = Some(*fatal))
    }

    fn of(limits: Limits, peer: Peer) -> Connection {
        Connection {
            limits,
            peer,
            failed: None,
            streams: StreamMap::default(),
            next: 0,
            headless: VecDeque::new(),
            unis: StreamMap::default(),
            settings: None,
            floods: Floods::new(limits.flood_budget),
            held: 0,
            instructed: 0,
            skipped: 0,
            reader: SectionReader::new(&limits),
            blocked: Vec::new(),
            request: RequestHead::default(),
            response: ResponseHead::default(),
            trailers: Fields::default(),
            section_length: 0,
            control: flushing::OwnStream::beginning_with(announcement(&limits, peer)),
            // A decoder stream (RFC 9204 section 4.2). There is none for instructions: this side uses no table.
            feedback: flushing::OwnStream::beginning_with(vec![0x03]),
            dirty: Vec::new(),
            closings: Vec::new(),
            levels: Vec::new(),
            early: Vec::new(),
            unblocked: VecDeque::new(),
            leaving: ending::Shutdown::No,
            peer_serves: None,
        }
    }
}

/// Adds bytes to those that have cost nothing so far; how many points all of them make, at so many bytes a point.
fn points(uncharged: &mut usize, bytes: usize, a_point: usize) -> u32 {
    *uncharged += bytes;
    let points = *uncharged / a_point;
    *uncharged %= a_point;
    u32::try_from(points).unwrap_or(u32::MAX)
}

/// What the control stream begins with.
fn announcement(limits: &Limits, peer: Peer) -> Vec<u8> {
    let settings = Settings {
        table_capacity: CAPACITY as u64,
        blocked_streams: limits.blocked as u64,
        field_section: limits.sections.head as u64,
        extended_connect: peer == Peer::Client,
        datagrams: false,
    };
    let (mut out, mut payload) = (vec![0x00], Vec::new());
    settings.write(&mut payload);
    FrameHeader { kind: Kind::Settings, length: payload.len() as u64 }.write(&mut out);
    out.append(&mut payload);
    out
}
