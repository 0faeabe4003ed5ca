//! One request and its response.

use crate::control::Peer;
use crate::message::MessageStream;
use crate::transport::Outgoing;
use titan_http::Fields;
use titan_http::stream::{Half, Incoming};

/// One stream of a request.
///
/// ```text
///            head             end of the stream         all is handed to the transport
/// open ----> incoming: Body ----> Done --------------+
///            sending:  Head ----> Body ----> Done ---+---> out of the table
/// ```
#[derive(Debug)]
pub(crate) struct Stream {
    /// The order of what comes in.
    pub(crate) frames: MessageStream,
    /// Whether what comes in is what its head declares.
    pub(crate) incoming: Incoming,
    /// Whether what comes in is of interest.
    pub(crate) is_heard: bool,
    /// A field section that waits for entries of the table. Nothing is read behind it.
    pub(crate) section: Option<WaitingSection>,
    /// Trailers that wait for the end of the stream.
    pub(crate) trailers: Option<Box<Fields>>,
    /// Bytes of the body that were told of and are not used.
    pub(crate) held: usize,
    /// The head was refused: what still comes is dropped.
    pub(crate) is_refused: bool,
    /// Whether the client has said how urgent the response is.
    pub(crate) has_priority: bool,
    pub(crate) sending: Half,
    pub(crate) out: Outgoing,
    /// Whether the stream ends behind `out`, and the transport does not know it yet.
    pub(crate) ends: bool,
    /// Whether it is among those that have something for the transport.
    pub(crate) is_dirty: bool,
    /// Whether more is to be sent once there is room.
    pub(crate) is_waiting: bool,
}

/// A field section that refers to entries which have not come.
#[derive(Debug)]
pub(crate) struct WaitingSection {
    pub(crate) bytes: Vec<u8>,
    pub(crate) place: Place,
    /// How many entries must have come.
    pub(crate) required: u64,
}

/// What a field section is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A head; with `end` nothing follows.
    Head { end: bool },
    /// Trailers.
    Trailers,
}

impl Stream {
    /// One on which nothing has come that `peer` sends, and no field section may be longer than `longest`.
    pub(crate) fn new(peer: Peer, incoming: Incoming, longest: usize) -> Stream {
        Stream {
            frames: MessageStream::new(peer, longest),
            incoming,
            is_heard: true,
            section: None,
            trailers: None,
            held: 0,
            is_refused: false,
            has_priority: false,
            sending: Half::Head,
            out: Outgoing::default(),
            ends: false,
            is_dirty: false,
            is_waiting: false,
        }
    }

    /// Whether a head is still awaited.
    pub(crate) fn is_headless(&self) -> bool {
        self.is_heard && self.incoming.half() == Half::Head
    }

    /// Whether nothing more can come of it, in either direction.
    pub(crate) fn is_over(&self) -> bool {
        let is_read = !self.is_heard || self.incoming.half() == Half::Done;
        is_read && self.sending == Half::Done && !self.ends && self.out.is_empty()
    }
}
