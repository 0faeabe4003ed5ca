//! HTTP/3 on a connection of QUIC: what has come on its streams goes to the mapping, and what that has to send to the streams.

mod protocol;

use super::refused::refused;
use super::unread::{Backlog, End, Unread};
use crate::mux::Mux;
use crate::tls::Refused;
use bytes::Bytes;
use quinn_proto::{ConnectionError, Dir, ReadError, StreamEvent, VarInt, WriteError};
use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};
use std::time::Instant;
use titan_h3::{Code, Event, Fatal, Transport};
use titan_http::Fields;
use titan_http::stream::StreamId;

/// A connection of QUIC, and HTTP/3 on it.
pub struct Link {
    pub(super) quic: quinn_proto::Connection,
    h3: titan_h3::Connection,
    /// Streams whose responses were given up during the handshake, before they are read from: each once.
    stopped: VecDeque<quinn_proto::Event>,
    /// Streams that may have something to read.
    readable: VecDeque<StreamId>,
    /// What was read of streams and not used, and the streams that are not read from now.
    backlog: Backlog,
    /// The stream that is being read from, and what was read.
    current: Option<(StreamId, Unread)>,
    /// Streams that this side has opened: they stay open for as long as the connection does.
    own: usize,
    /// The last request that the peer has begun.
    newest: Option<StreamId>,
    /// Streams that the peer has opened.
    pub(super) streams: u64,
    /// Bytes that were read from streams, and written to them.
    pub(super) moved: u64,
    /// Whether the client is served before its handshake is complete: not at an address that it may have made up.
    may_be_early: bool,
    /// Whether the handshake is complete.
    is_confirmed: bool,
    /// Who waits for that.
    unconfirmed: Vec<Waker>,
    /// Whether it is among those that wait until the kernel takes more.
    pub(super) awaits_room: bool,
    /// The stream of the next request of this side, where the server takes one.
    spare: Option<StreamId>,
    /// Whether the endpoint knows that it is over.
    pub(super) is_drained: bool,
    /// Why the connection is no more.
    pub(super) lost: Option<ConnectionError>,
}

/// What a request costs its client whose head does not come in time, or takes too much: as much as one that ends without any.
const LATE: u32 = 2;

impl Link {
    /// A client's connection whose handshake has begun.
    pub(super) fn server(
        quic: quinn_proto::Connection,
        limits: titan_h3::Limits,
        is_validated: bool,
    ) -> Link {
        Link::of(quic, titan_h3::Connection::server(limits), is_validated)
    }

    /// A connection to a server whose handshake has begun.
    pub(super) fn client(quic: quinn_proto::Connection, limits: titan_h3::Limits) -> Link {
        Link::of(quic, titan_h3::Connection::client(limits), false)
    }

    fn of(quic: quinn_proto::Connection, h3: titan_h3::Connection, may_be_early: bool) -> Link {
        Link {
            quic,
            h3,
            spare: None,
            stopped: VecDeque::new(),
            readable: VecDeque::new(),
            backlog: Backlog::default(),
            current: None,
            own: 0,
            newest: None,
            streams: 0,
            moved: 0,
            may_be_early,
            is_confirmed: false,
            unconfirmed: Vec::new(),
            awaits_room: false,
            is_drained: false,
            lost: None,
        }
    }

    /// HTTP/3's side of it.
    pub fn h3(&mut self) -> &mut titan_h3::Connection {
        &mut self.h3
    }

    /// Whether the peer has acknowledged all that was sent on its streams.
    pub fn is_acknowledged(&mut self) -> bool {
        self.quic.streams().send_streams() <= self.own
    }

    /// The last request that the peer has begun.
    pub fn newest(&self) -> Option<StreamId> {
        self.newest
    }

    /// Refuses a request of which nothing was done, as its head has not come: that costs its client something.
    ///
    /// # Errors
    ///
    /// When that was too much: the connection is to be closed.
    pub fn reject(&mut self, stream: StreamId) -> Result<(), Fatal> {
        self.h3.reset(stream, Code::RequestRejected);
        self.h3.charge(LATE)
    }

    /// How often the peer has said what it has received.
    pub fn acknowledgements(&self) -> u64 {
        self.quic.stats().frame_rx.acks
    }

    /// The name that the client has asked for in the handshake.
    pub fn server_name(&self) -> Option<Box<str>> {
        let data = self.quic.crypto_session().handshake_data()?;
        let data = data.downcast::<quinn_proto::crypto::rustls::HandshakeData>().ok()?;
        data.server_name.map(String::into_boxed_str)
    }

    /// The certificates that the client has shown.
    pub fn shown(&self) -> Option<Vec<rustls::pki_types::CertificateDer<'static>>> {
        let shown = self.quic.crypto_session().peer_identity()?;
        shown.downcast::<Vec<rustls::pki_types::CertificateDer<'static>>>().ok().map(|it| *it)
    }

    /// Ends the connection of a client whose certificate is not accepted. It was in the handshake: an alert of TLS comes too late.
    pub fn refuse(&mut self) {
        self.close(Code::GeneralProtocol, "the certificate is not accepted");
    }

    /// Ends the connection with that code.
    pub(super) fn close(&mut self, code: Code, why: &'static str) {
        self.quic.close(Instant::now(), varint(code), Bytes::from_static(why.as_bytes()));
    }

    /// Whether nobody has to hear of its end any more.
    pub(super) fn is_left(&self) -> bool {
        let has_closed = matches!(
            self.lost,
            Some(ConnectionError::ApplicationClosed(_) | ConnectionError::ConnectionClosed(_))
        );
        has_closed || self.quic.is_drained()
    }

    /// Goes on until the handshake is complete, or a stream has begun by early data from an address that is validated. Whether that is so;
    /// what has happened behind it is told later.
    pub(super) fn hold_handshake(&mut self) -> bool {
        while let Some(event) = self.quic.poll() {
            match event {
                quinn_proto::Event::Connected => {
                    self.confirm();
                    return true;
                }
                quinn_proto::Event::Stream(StreamEvent::Opened { dir }) => {
                    self.accept(dir);
                    if self.may_be_early {
                        return true;
                    }
                }
                quinn_proto::Event::ConnectionLost { reason } => self.lost = Some(reason),
                event @ quinn_proto::Event::Stream(StreamEvent::Stopped { .. }) => {
                    self.stopped.push_back(event);
                }
                // A stream that has begun is read from in any case.
                _ => {}
            }
        }
        false
    }

    /// Whether the handshake is complete. What comes before that is early data.
    pub fn is_confirmed(&self) -> bool {
        self.is_confirmed
    }

    /// Waits until it is.
    pub fn poll_confirmed(&mut self, cx: &Context<'_>) -> Poll<()> {
        if self.is_confirmed {
            return Poll::Ready(());
        }
        if !self.unconfirmed.iter().any(|waiting| waiting.will_wake(cx.waker())) {
            self.unconfirmed.push(cx.waker().clone());
        }
        Poll::Pending
    }

    fn confirm(&mut self) {
        self.is_confirmed = true;
        self.unconfirmed.drain(..).for_each(Waker::wake);
    }

    /// Why the handshake has failed, as far as that is known.
    pub fn refused(&self) -> Refused {
        refused(self.lost.as_ref())
    }

    /// Ends the connection of a client that was served and does not complete its handshake.
    pub fn give_up(&mut self) {
        self.lost.get_or_insert(ConnectionError::LocallyClosed);
        self.close(Code::NoError, "");
    }

    /// Takes the streams that the peer has opened.
    fn accept(&mut self, dir: Dir) {
        while let Some(stream) = self.quic.streams().accept(dir) {
            self.readable.push_back(number(stream));
            self.streams += 1;
            if dir == Dir::Bi {
                self.newest = Some(number(stream));
            }
        }
    }

    /// The next event, and what it tells of where that is data. None where everything that has come was read.
    fn next(&mut self) -> Result<Option<(Event, Bytes)>, Fatal> {
        loop {
            if let Some((stream, unread)) = self.current.take() {
                if let Some(told) = self.read(stream, unread)? {
                    return Ok(Some(told));
                }
            } else if let Some(stream) = self.readable.pop_front() {
                self.current = Some((stream, self.backlog.take(stream)));
            } else if let Some(event) = self.stopped.pop_front().or_else(|| self.quic.poll()) {
                if let Some(event) = self.take(event)? {
                    return Ok(Some((event, Bytes::new())));
                }
            } else {
                return Ok(None);
            }
        }
    }

    /// Something has happened below HTTP/3.
    fn take(&mut self, event: quinn_proto::Event) -> Result<Option<Event>, Fatal> {
        match event {
            quinn_proto::Event::ConnectionLost { reason } => self.lost = Some(reason),
            quinn_proto::Event::Connected => self.confirm(),
            quinn_proto::Event::Stream(StreamEvent::Opened { dir }) => self.accept(dir),
            quinn_proto::Event::Stream(StreamEvent::Readable { id }) => {
                return self.on_readable(number(id), id);
            }
            quinn_proto::Event::Stream(StreamEvent::Writable { id }) => {
                self.h3.writable(number(id));
            }
            quinn_proto::Event::Stream(StreamEvent::Stopped { id, error_code }) => {
                return self.h3.peer_stopped(number(id), Code::of(error_code.into_inner()));
            }
            _ => {}
        }
        Ok(None)
    }

    /// One that is not read from now is only asked whether it was given up.
    fn on_readable(
        &mut self,
        stream: StreamId,
        id: quinn_proto::StreamId,
    ) -> Result<Option<Event>, Fatal> {
        if !self.h3.is_blocked(stream) {
            self.readable.push_back(stream);
            return Ok(None);
        }
        match self.quic.recv_stream(id).received_reset() {
            Ok(Some(code)) => {
                self.backlog.forget(stream);
                self.h3.peer_reset(stream, Code::of(code.into_inner()))
            }
            _ => {
                self.backlog.hold_back(stream);
                Ok(None)
            }
        }
    }

    /// Reads on from a stream, as far as the next event or the end of what has come.
    fn read(
        &mut self,
        stream: StreamId,
        mut unread: Unread,
    ) -> Result<Option<(Event, Bytes)>, Fatal> {
        let is_request = id(stream).dir() == Dir::Bi;
        let mut wants_more = false;
        loop {
            if is_request && self.h3.is_blocked(stream) {
                self.backlog.hold_back(stream);
                self.backlog.keep(stream, unread);
                return Ok(None);
            }
            wants_more |= unread.bytes.is_empty();
            let has_more = self.read_ahead(stream, &mut unread, wants_more);
            let is_last = unread.end == End::Last && unread.ahead.is_none();
            let (count, event) = match is_request {
                true => self.h3.read(stream, &unread.bytes, is_last)?,
                false => self.h3.read_uni(stream, &unread.bytes, is_last)?,
            };
            let used = unread.bytes.split_to(count);
            if let Some(event) = event {
                self.current = Some((stream, unread));
                return Ok(Some((event, used)));
            }
            if !is_request && let Some((resumed, event)) = self.h3.resume()? {
                self.readable.push_back(resumed);
                if let Some(event) = event {
                    self.current = Some((stream, unread));
                    return Ok(Some((event, Bytes::new())));
                }
                continue;
            }
            if count == 0 && wants_more && !has_more {
                return self.pause(stream, unread, is_request);
            }
            wants_more = count == 0;
        }
    }

    /// Everything that has come of a stream was read.
    fn pause(
        &mut self,
        stream: StreamId,
        unread: Unread,
        is_request: bool,
    ) -> Result<Option<(Event, Bytes)>, Fatal> {
        let event = match (unread.end, is_request) {
            (End::Reset(code), true) => self.h3.peer_reset(stream, code)?,
            (End::Reset(_), false) => {
                self.h3.uni_reset(stream)?;
                None
            }
            (End::Unknown, _) if unread.bytes.is_empty() => None,
            (End::Unknown, _) => {
                self.backlog.keep_part(stream, unread);
                self.relieve()?
            }
            // What still waits for entries of the table is read again when they have come.
            (End::Last, true) if self.h3.is_blocked(stream) => {
                self.backlog.keep(stream, unread);
                None
            }
            (End::Last | End::Gone, _) => None,
        };
        Ok(event.map(|event| (event, Bytes::new())))
    }

    /// Gives the stream up that has the longest part of a head, or of trailers, where all of them are beyond the window of the connection.
    /// To read no further would not do: what comes on other streams would fill the window, and the rest of no part could come.
    fn relieve(&mut self) -> Result<Option<Event>, Fatal> {
        let limits = self.h3.limits();
        let most = limits.connection_window.max(limits.longest_section());
        let Some(stream) = self.backlog.longest_beyond(most) else { return Ok(None) };
        self.backlog.forget(stream);
        if self.h3.is_headless(stream) {
            self.reject(stream)?;
            return Ok(None);
        }
        let code = Code::ExcessiveLoad;
        self.h3.reset(stream, code);
        self.h3.charge(LATE)?;
        Ok(Some(Event::Reset { stream, code, fault: None }))
    }

    /// Takes what has come of a stream, as far as it is needed: what follows what is at hand, to see whether that is all, and puts it
    /// behind that only where it `wants_more`. Otherwise what is at hand would grow with each short frame in it, beyond the windows.
    /// Whether there is something new.
    fn read_ahead(&mut self, stream: StreamId, unread: &mut Unread, wants_more: bool) -> bool {
        let mut has_more = false;
        if let Some(ahead) = unread.ahead.take_if(|_| wants_more) {
            unread.bytes.append(ahead);
            has_more = true;
        }
        if unread.end != End::Unknown {
            return has_more;
        }
        let mut receiving = self.quic.recv_stream(id(stream));
        let Ok(mut chunks) = receiving.read(true) else {
            unread.end = End::Gone;
            return has_more;
        };
        while unread.ahead.is_none() {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) if has_more || !wants_more => {
                    self.moved += chunk.bytes.len() as u64;
                    unread.ahead = Some(chunk.bytes);
                }
                Ok(Some(chunk)) => {
                    self.moved += chunk.bytes.len() as u64;
                    unread.bytes.append(chunk.bytes);
                    has_more = true;
                }
                Ok(None) => {
                    unread.end = End::Last;
                    has_more = true;
                    break;
                }
                Err(ReadError::Reset(code)) => {
                    unread.end = End::Reset(Code::of(code.into_inner()));
                    break;
                }
                Err(ReadError::Blocked) => break,
            }
        }
        has_more
    }

    /// Streams that were held back and are no more are read from again.
    fn let_go(&mut self) {
        let Link { h3, backlog, readable, .. } = self;
        backlog.let_go(readable, |stream| h3.is_blocked(stream));
    }

    /// Hands what HTTP/3 has to send to the streams.
    fn flush(&mut self) {
        let Link { quic, h3, own, moved, backlog, .. } = self;
        h3.flush(&mut Streams { quic, own, moved, backlog });
    }
}

impl Mux<Link> {
    /// Reads on and hands what has come to the streams; what opens one, or is about all of them, goes to the driver. None where everything
    /// was read.
    ///
    /// # Errors
    ///
    /// The peer has broken a rule: the connection is to be closed.
    pub(super) fn next(&self) -> Result<Option<Event>, Fatal> {
        let mut shared = self.shared.borrow_mut();
        while let Some((event, data)) = shared.connection.next()? {
            let event = match event {
                Event::Data { stream, data: range, end } => {
                    shared.deliver_data(stream, &data[range], end);
                    continue;
                }
                Event::Response { stream, start } => {
                    shared.deliver_head(stream, start, |link, head| link.h3.take_response(head));
                    continue;
                }
                Event::Trailers { stream } => {
                    let mut fields = Fields::default();
                    shared.connection.h3.take_trailers(&mut fields);
                    shared.deliver_trailers(stream, fields);
                    continue;
                }
                Event::Reset { stream, code, fault } if shared.has(stream) => {
                    shared.deliver_loss(stream, fault, code == Code::RequestRejected);
                    continue;
                }
                Event::GoAway { first } => {
                    shared.lose_from(first);
                    event
                }
                event => event,
            };
            return Ok(Some(event));
        }
        Ok(None)
    }

    /// Hands what the streams have left to QUIC, and wakes those that have waited for that.
    pub(super) fn flush(&self) {
        self.connection().flush();
        self.wake_unblocked();
    }
}

/// The streams of a connection, to write to.
struct Streams<'q> {
    quic: &'q mut quinn_proto::Connection,
    own: &'q mut usize,
    moved: &'q mut u64,
    backlog: &'q mut Backlog,
}

impl Transport for Streams<'_> {
    fn open(&mut self) -> Option<StreamId> {
        let stream = self.quic.streams().open(Dir::Uni)?;
        *self.own += 1;
        Some(number(stream))
    }

    fn write(&mut self, stream: StreamId, data: &mut Bytes) {
        let mut sending = self.quic.send_stream(id(stream));
        // Only a call that is refused has it say when there is room again.
        while !data.is_empty() {
            match sending.write_chunks(std::slice::from_mut(data)) {
                Ok(written) => *self.moved += written.bytes as u64,
                Err(WriteError::Blocked) => return,
                Err(WriteError::Stopped(_) | WriteError::ClosedStream) => data.clear(),
            }
        }
    }

    fn finish(&mut self, stream: StreamId) {
        let _ = self.quic.send_stream(id(stream)).finish();
    }

    fn reset(&mut self, stream: StreamId, code: Code) {
        let _ = self.quic.send_stream(id(stream)).reset(varint(code));
    }

    fn stop(&mut self, stream: StreamId, code: Code) {
        // Whoever has given the stream up, the peer may say nothing more of it: not even that it is readable.
        self.backlog.forget(stream);
        let _ = self.quic.recv_stream(id(stream)).stop(varint(code));
    }

    fn prioritize(&mut self, stream: StreamId, level: i32) {
        let _ = self.quic.send_stream(id(stream)).set_priority(level);
    }
}

fn varint(code: Code) -> VarInt {
    VarInt::from_u64(code.number()).unwrap_or(VarInt::MAX)
}

fn number(stream: quinn_proto::StreamId) -> StreamId {
    StreamId::new(VarInt::from(stream).into_inner())
}

fn id(stream: StreamId) -> quinn_proto::StreamId {
    quinn_proto::StreamId::from(VarInt::from_u64(stream.number()).unwrap_or(VarInt::MAX))
}

#[cfg(test)]
mod tests;
