//! WebSockets that stay open and are echoed: over HTTP/1.1 and HTTP/2 (RFC 8441), with TLS and in the clear.

use super::clients::Doors;
use super::origin::{accepted, frame};
use titan_testkit::Peer;
use titan_testkit::h2::{Client, Head};

/// As in the example of RFC 6455.
const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
/// How many share a connection of HTTP/2.
const SHARE: usize = 10;

/// Tunnels, each with a message on its way or with none.
#[derive(Default)]
pub(super) struct Tunnels {
    own: Vec<Peer>,
    shared: Vec<Shared>,
    /// How many messages have gone into each.
    round: usize,
    echoed: usize,
}

/// Tunnels over one connection.
struct Shared {
    is_clear: bool,
    client: Client,
    streams: Vec<u32>,
}

impl Tunnels {
    pub(super) fn len(&self) -> usize {
        self.own.len() + self.shared.iter().map(|it| it.streams.len()).sum::<usize>()
    }

    /// How many messages have come back.
    pub(super) fn echoed(&self) -> usize {
        self.echoed
    }

    /// Opens one more: of ten, four over TLS, four in the clear, and two over HTTP/2.
    pub(super) fn open(&mut self, doors: &Doors) {
        match self.len() % 10 {
            index @ 0..8 => {
                let mut peer = if index % 2 == 0 { doors.clear() } else { doors.secure() };
                consent(&mut peer);
                self.own.push(peer);
            }
            index => self.open_shared(doors, index == 8),
        }
    }

    fn open_shared(&mut self, doors: &Doors, is_clear: bool) {
        let has_room = |it: &Shared| it.is_clear == is_clear && it.streams.len() < SHARE;
        let place = self.shared.iter().position(has_room).unwrap_or_else(|| {
            let client = if is_clear { doors.clear_h2() } else { doors.secure_h2() };
            self.shared.push(Shared { is_clear, client, streams: Vec::new() });
            self.shared.len() - 1
        });
        let Shared { client, streams, .. } = &mut self.shared[place];
        let head = Head::request("CONNECT", "/through/tunnel").with(":protocol", "websocket");
        let stream = client.starts(&head.with("sec-websocket-version", "13"));
        client.response_head(stream).has_status(200);
        streams.push(stream);
    }

    /// Sends a message into each.
    pub(super) fn send(&mut self) {
        self.round += 1;
        let round = self.round;
        let mask = round.to_be_bytes().last_chunk().copied();
        let mut index = 0..;
        let mut next = || frame(&message(round, index.next().unwrap_or_default()), mask);
        for peer in &mut self.own {
            peer.sends(next());
        }
        for Shared { client, streams, .. } in &mut self.shared {
            for stream in streams {
                client.sends_data(*stream, next(), false);
            }
        }
    }

    /// Waits for the echo of each message.
    pub(super) fn check(&mut self) {
        let round = self.round;
        let mut index = 0..;
        let mut next = || frame(&message(round, index.next().unwrap_or_default()), None);
        for peer in &mut self.own {
            peer.expects(next());
        }
        for Shared { client, streams, .. } in &mut self.shared {
            for stream in streams {
                let wanted = next();
                assert!(client.takes_data(*stream, wanted.len()) == wanted, "another message");
            }
        }
        self.echoed += self.len();
    }
}

/// Asks for a tunnel over a connection, and gets it.
fn consent(peer: &mut Peer) {
    let wish = format!(
        "GET /through/tunnel HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\n\r\n"
    );
    let head = peer.sends(wish).head().to_ascii_lowercase();
    assert!(head.starts_with("http/1.1 101 "), "{head}");
    let proof = format!("sec-websocket-accept: {}\r\n", accepted(KEY)).to_ascii_lowercase();
    assert!(head.contains(&proof), "{head}");
}

/// A message that no other is like, of a few bytes or of some thousands.
fn message(round: usize, index: usize) -> Vec<u8> {
    let length = if index % 50 == round % 50 { 5000 } else { (7 * index + round) % 200 };
    let text = format!("{index} of {round}: ");
    let filling = (b'a'..=b'z').cycle().skip(index % 26);
    text.bytes().chain(filling.take(length)).collect()
}
