//! One connection, in either role: its state between frames, and the calls of its driver.
//!
//! | in reading order | |
//! |---|---|
//! | `reading` | frames, in the order in which they may come |
//! | `heads` | field blocks: streams begin, messages begin and end |
//! | `bodies` | data, and the credit for it |
//! | `control` | the frames that move no message: windows, settings, pings |
//! | `sending` | messages to frames, as the windows and the output allow |
//! | `ending` | streams and connections that end, in order or not |

mod bodies;

mod control;

mod ending;

mod heads;

mod reading;

mod sending;

use crate::code::Fatal;
use crate::flow::{FIRST_WINDOW, Inflow, Outflow};
use crate::frame::{self, MAX_31, PREFACE};
use crate::head::{HeadReader, HeadWriter};
use crate::limits::Limits;
use crate::output::Output;
use crate::settings::{self, PeerSettings, Role};
use crate::stream::{self, ClosedStreams, Streams};
use std::collections::VecDeque;
use titan_http::stream::{Floods, Half, StreamId};
use titan_http::{Fields, RequestHead, ResponseHead};

/// One connection, in the role of a server or of a client.
///
/// The driver feeds it what arrives ([`Connection::read`]), acts on the events, says what is to be sent, and
/// writes what is in [`Connection::output`].
#[derive(Debug)]
pub struct Connection {
    limits: Limits,
    role: Role,
    stage: reading::Stage,
    /// Bytes that were read in all, and up to the end of the last frame or block that was whole.
    read: u64,
    whole: u64,
    /// The first fault that ends the connection: nothing is read after it.
    failed: Option<Fatal>,
    streams: Streams,
    gone: ClosedStreams,
    /// The highest stream number that the client has used.
    last: u32,

    peer: PeerSettings,
    /// What the peer takes the initial window of a stream to be: ours once it has acknowledged that.
    window: i64,
    /// SETTINGS that the peer has not acknowledged.
    unacknowledged: bool,
    inflow: Inflow,
    outflow: Outflow,
    /// The streams that wait for the connection's window or for room in the output, first come first served.
    turns: VecDeque<u32>,
    /// Streams that were told to go on and have not yet: room is kept for a frame of each.
    granted: usize,
    floods: Floods,
    output: Output,

    reader: HeadReader,
    writer: HeadWriter,
    /// The field block that is being gathered from several frames.
    block: Vec<u8>,
    begun: Option<heads::PartialBlock>,
    /// Bytes of the block of the request that has come last.
    block_length: usize,
    request: RequestHead,
    response: ResponseHead,
    trailers: Fields,

    leaving: ending::Shutdown,
    /// The last stream that the peer serves, once it is leaving.
    peer_serves: Option<u32>,
    /// The peer owes a response to `Connection::ping`.
    pinged: bool,
}

impl Connection {
    /// The server's end: it waits for the client's preface, and announces its settings at once.
    pub fn server(limits: Limits) -> Connection {
        Connection::of(limits, Role::Server)
    }

    /// The client's end: the preface and its settings wait to be written.
    pub fn client(limits: Limits) -> Connection {
        Connection::of(limits, Role::Client)
    }

    /// What the connection is held to.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Whether the stream is not over: this side may still have something to send on it, or to read.
    pub fn is_open(&self, stream: StreamId) -> bool {
        self.streams.get(stream::number(stream)).is_some()
    }

    /// Whether something can still be sent on the stream.
    pub fn is_sending(&self, stream: StreamId) -> bool {
        let stream = self.streams.get(stream::number(stream));
        stream.is_some_and(|stream| stream.sending != Half::Done)
    }

    /// How many streams are open.
    pub fn open_streams(&self) -> usize {
        self.streams.len()
    }

    /// How many streams the peer takes at the same time.
    pub fn peer_streams(&self) -> u32 {
        self.peer.streams
    }

    /// Whether the peer has said that it knows extended CONNECT (RFC 8441).
    pub fn extended_connect(&self) -> bool {
        self.peer.extended_connect
    }

    /// What waits to be written.
    #[inline]
    pub fn output(&self) -> &[u8] {
        self.output.waiting()
    }

    /// The first `count` bytes of the output were written.
    #[inline]
    pub fn written(&mut self, count: usize) {
        self.output.written(count);
    }

    /// Whether so much waits to be written that a server should read nothing more before some of it is: a
    /// client that reads no responses would fill its memory with heads, which no window holds back.
    pub fn is_clogged(&self) -> bool {
        self.role == Role::Server && self.output.len() >= self.limits.output.saturating_mul(2)
    }

    /// Charges the peer for what only the driver sees, such as a stream that stalls: see
    /// [`Limits::flood_budget`].
    pub fn charge(&mut self, cost: u32) -> Result<(), Fatal> {
        self.floods.charge(cost).map_err(|flood| self.fail(flood.into()))
    }

    /// So many seconds have gone by: what the peer was charged leaks away. A connection without streams
    /// gives its memory back; heads that were not taken are gone.
    pub fn calm(&mut self, seconds: u32) {
        self.floods.calm(seconds);
        if self.streams.is_empty() && self.begun.is_none() {
            self.streams.shrink();
            self.output.shrink();
            self.block = Vec::new();
            self.turns = VecDeque::new();
            self.request = RequestHead::default();
            self.response = ResponseHead::default();
            self.trailers = Fields::default();
        }
    }

    fn of(limits: Limits, role: Role) -> Connection {
        let stream_window = limits.stream_window.clamp(1, MAX_31);
        let grown_window = limits.grown_window.clamp(stream_window, MAX_31);
        let limits = Limits { stream_window, grown_window, ..limits };
        let mut connection = Connection {
            limits,
            role,
            stage: reading::Stage::Preface,
            read: 0,
            whole: 0,
            failed: None,
            streams: Streams::default(),
            gone: ClosedStreams::default(),
            last: 0,
            peer: PeerSettings::unknown(),
            window: FIRST_WINDOW,
            unacknowledged: true,
            inflow: Inflow::of(FIRST_WINDOW),
            outflow: Outflow::default(),
            turns: VecDeque::new(),
            granted: 0,
            floods: Floods::new(limits.flood_budget),
            output: Output::default(),
            reader: HeadReader::new(&limits),
            writer: HeadWriter::default(),
            block: Vec::new(),
            begun: None,
            block_length: 0,
            request: RequestHead::default(),
            response: ResponseHead::default(),
            trailers: Fields::default(),
            leaving: ending::Shutdown::No,
            peer_serves: None,
            pinged: false,
        };
        connection.begin();
        connection
    }

    fn begin(&mut self) {
        let out = self.output.buf();
        if self.role == Role::Client {
            self.stage = reading::Stage::Settings;
            out.extend_from_slice(PREFACE);
        }
        settings::write(out, &self.limits, self.role);
        // The window of the connection cannot be smaller than what it is to begin with.
        let size = i64::from(self.limits.connection_window.min(MAX_31)).max(FIRST_WINDOW);
        if let Ok(increment @ 1..) = u32::try_from(size - FIRST_WINDOW) {
            frame::write_window_update(out, 0, increment);
        }
        self.inflow = Inflow::of(size);
    }
}
