//! A client of HTTP/3 for tests. It judges nothing: what it sends may break every rule, and what comes is shown as it is.

use bytes::{Bytes, BytesMut};
use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, Connection, ConnectionError, ConnectionHandle, DatagramEvent, Dir, Endpoint,
    EndpointConfig, Event, ReadError, StreamEvent, StreamId, VarInt,
};
use std::collections::HashMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};
use titan_testkit::waits_until;

/// One connection.
pub(super) struct Client {
    socket: UdpSocket,
    peer: SocketAddr,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    pub(super) connection: Connection,
    is_connected: bool,
    lost: Option<ConnectionError>,
    came: HashMap<StreamId, Came>,
}

/// What has come on a stream.
#[derive(Default)]
struct Came {
    bytes: Vec<u8>,
    end: Option<End>,
}

/// How a stream has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Whole,
    Reset(u64),
}

/// How long a datagram is waited for at once.
const MOMENT: Duration = Duration::from_millis(10);
/// A control stream with settings that say nothing.
const SETTINGS: [u8; 3] = [0, 4, 0];
const HEADERS: u8 = 1;

impl Client {
    /// One whose handshake is complete.
    #[track_caller]
    pub(super) fn connects(peer: SocketAddr, tls: rustls::ClientConfig) -> Client {
        let mut client = Client::begins(peer, tls);
        client.waits("a handshake", |client| client.is_connected.then_some(()));
        let control = client.connection.streams().open(Dir::Uni).expect("there may be some");
        client.sends(control, &SETTINGS, false);
        client
    }

    /// One whose handshake has begun.
    pub(super) fn begins(peer: SocketAddr, tls: rustls::ClientConfig) -> Client {
        Client::comes(peer, remembering(tls))
    }

    /// The same with what clients of that configuration remember.
    pub(super) fn comes(peer: SocketAddr, config: ClientConfig) -> Client {
        let mut endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), None, false, None);
        let connected = endpoint.connect(Instant::now(), config, peer, "a.example");
        let (handle, connection) = connected.expect("it has an address");
        let socket = UdpSocket::bind("127.0.0.1:0").expect("there is a port");
        let came = HashMap::new();
        Client { socket, peer, endpoint, handle, connection, is_connected: false, lost: None, came }
    }

    /// Sends a request without a body.
    pub(super) fn asks(&mut self, method: &str, path: &str) -> StreamId {
        let stream = self.opens();
        self.sends(stream, &request(method, path), true);
        stream
    }

    /// Opens the stream of a request.
    #[track_caller]
    pub(super) fn opens(&mut self) -> StreamId {
        self.connection.streams().open(Dir::Bi).expect("there may be some")
    }

    /// Sends these bytes.
    #[track_caller]
    pub(super) fn sends(&mut self, stream: StreamId, bytes: &[u8], end: bool) {
        let mut sending = self.connection.send_stream(stream);
        let sent = sending.write(bytes).expect("there is room");
        assert_eq!(sent, bytes.len());
        if end {
            sending.finish().expect("it has not ended");
        }
        self.flushes();
    }

    /// Waits for the end of a stream.
    #[track_caller]
    pub(super) fn end_of(&mut self, stream: StreamId) -> End {
        self.waits("the end of a stream", |client| client.came.get(&stream)?.end)
    }

    /// Waits for a whole response with that status.
    #[track_caller]
    pub(super) fn is_served(&mut self, stream: StreamId, status: u16) {
        assert_eq!(self.end_of(stream), End::Whole);
        let came = &self.came[&stream].bytes;
        assert_eq!(status_of(came), Some(status), "{came:x?}");
    }

    /// How long what the frames carry is that have come on a stream.
    #[track_caller]
    pub(super) fn payloads(&self, stream: StreamId) -> Vec<usize> {
        let (mut frames, mut lengths) = (&self.came[&stream].bytes[..], Vec::new());
        while let [_, length, rest @ ..] = frames {
            let (length, rest) = match (length >> 6, rest) {
                (0, _) => (usize::from(*length), rest),
                (1, [low, rest @ ..]) => {
                    (usize::from(length & 0x3f) << 8 | usize::from(*low), rest)
                }
                _ => panic!("frames here are shorter than 16,384 bytes"),
            };
            lengths.push(length);
            frames = &rest[length..];
        }
        lengths
    }

    /// Waits for the end of the connection.
    #[track_caller]
    pub(super) fn loss(&mut self) -> ConnectionError {
        self.waits("the end of the connection", |client| client.lost.clone())
    }

    /// Waits for the end of the handshake: whether it has succeeded.
    #[track_caller]
    pub(super) fn is_accepted(&mut self) -> bool {
        self.waits("the end of the handshake", |client| {
            client.is_connected.then_some(true).or(client.lost.as_ref().map(|_| false))
        })
    }

    /// What has come on the stream of that type which the other side has opened.
    pub(super) fn came_on_uni(&self, kind: u8) -> &[u8] {
        let of_kind = |it: &&Came| it.bytes.first() == Some(&kind) && it.bytes.len() > 1;
        let unis = self.came.iter().filter(|(id, _)| id.dir() == Dir::Uni).map(|(_, it)| it);
        unis.filter(of_kind).map(|it| &it.bytes[1..]).next().unwrap_or_default()
    }

    /// Closes the connection.
    pub(super) fn closes(mut self) {
        self.connection.close(Instant::now(), VarInt::from_u32(0x100), Bytes::new());
        self.flushes();
    }

    /// Goes on until there is what is looked for.
    #[track_caller]
    pub(super) fn waits<R>(
        &mut self,
        what: &str,
        mut look: impl FnMut(&mut Client) -> Option<R>,
    ) -> R {
        let mut found = None;
        waits_until(what, || {
            self.steps();
            found = look(self);
            found.is_some()
        });
        found.expect("it was waited for")
    }

    /// Waits for a datagram for a moment, and sends what is due.
    pub(super) fn steps(&mut self) {
        self.flushes();
        let mut datagram = [0; 1 << 16];
        self.socket.set_read_timeout(Some(MOMENT)).expect("it can be set");
        let Ok((length, from)) = self.socket.recv_from(&mut datagram) else {
            return self.flushes();
        };
        let (bytes, mut out) = (BytesMut::from(&datagram[..length]), Vec::new());
        let event = self.endpoint.handle(Instant::now(), from, None, None, bytes, &mut out);
        if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
            self.connection.handle_event(event);
        }
        self.flushes();
        while let Some(event) = self.connection.poll() {
            self.on_event(event);
        }
        self.flushes();
    }

    pub(super) fn flushes(&mut self) {
        let Client { connection, endpoint, handle, socket, peer, .. } = self;
        let now = Instant::now();
        if connection.poll_timeout().is_some_and(|due| due <= now) {
            connection.handle_timeout(now);
        }
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = endpoint.handle_event(*handle, event) {
                connection.handle_event(event);
            }
        }
        let mut out = Vec::new();
        while let Some(transmit) = connection.poll_transmit(now, 1, &mut out) {
            socket.send_to(&out[..transmit.size], *peer).expect("it is sent");
            out.clear();
        }
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Connected => self.is_connected = true,
            Event::ConnectionLost { reason } => self.lost = Some(reason),
            Event::Stream(StreamEvent::Opened { dir }) => {
                while let Some(stream) = self.connection.streams().accept(dir) {
                    self.reads(stream);
                }
            }
            Event::Stream(StreamEvent::Readable { id }) => self.reads(id),
            _ => {}
        }
    }

    fn reads(&mut self, stream: StreamId) {
        let came = self.came.entry(stream).or_default();
        let mut receiving = self.connection.recv_stream(stream);
        let Ok(mut chunks) = receiving.read(true) else { return };
        loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => came.bytes.extend_from_slice(&chunk.bytes),
                Ok(None) => break came.end = Some(End::Whole),
                Err(ReadError::Reset(code)) => {
                    break came.end = Some(End::Reset(code.into_inner()));
                }
                Err(ReadError::Blocked) => break,
            }
        }
        let _ = chunks.finalize();
    }
}

/// The configuration of clients that come back.
pub(super) fn remembering(mut tls: rustls::ClientConfig) -> ClientConfig {
    tls.alpn_protocols = vec![b"h3".to_vec()];
    let tls = QuicClientConfig::try_from(tls).expect("it speaks TLS 1.3");
    ClientConfig::new(Arc::new(tls))
}

/// A HEADERS frame with a request to `a.example`, in names and values that stand for themselves.
pub(super) fn request(method: &str, path: &str) -> Vec<u8> {
    let fields =
        [(":method", method), (":scheme", "https"), (":authority", "a.example"), (":path", path)];
    let mut section = vec![0, 0];
    for (name, value) in fields {
        // A literal name (RFC 9204 section 4.5.6), shorter than its first byte has room for, or not by much.
        let most = 7;
        section.push(0x20 | u8::try_from(name.len().min(most)).expect("it is short"));
        section.extend(name.len().checked_sub(most).map(|rest| u8::try_from(rest).expect("short")));
        section.extend(name.bytes());
        section.push(u8::try_from(value.len()).expect("it is short"));
        section.extend(value.bytes());
    }
    let length = u8::try_from(section.len()).expect("it is short");
    // In two bytes, as any length up to 16,383 may be.
    [&[HEADERS, 0x40, length][..], &section].concat()
}

/// The status of a response whose head names it by an entry of the static table (RFC 9204 appendix A).
fn status_of(response: &[u8]) -> Option<u16> {
    let (kind, rest) = response.split_first()?;
    let section = rest.get(if rest.first()? & 0xc0 == 0x40 { 2 } else { 1 }..)?;
    let line = section.get(2..)?;
    let index = match line.first()? & 0x3f {
        0x3f => 0x3f + line.get(1)?,
        short => short,
    };
    let statuses = [(25, 200), (27, 404), (28, 503), (64, 204), (67, 400)];
    let known = statuses.iter().find(|(number, _)| *number == index);
    (*kind == HEADERS && line[0] & 0xc0 == 0xc0).then_some(known?.1)
}
