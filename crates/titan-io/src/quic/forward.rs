//! From one process to the one before it: datagrams that come to a process and are for connections of its predecessor.
//!
//! After an upgrade both have the same UDP sockets. The predecessor reads them no longer; what is for connections that it still has goes
//! on to it over a pair of Unix sockets, as it came, and it answers from its own descriptor of the UDP socket. No keys are shared: which
//! ids belong to whom only their process can tell, so it gets what is for nobody here, and drops what is not for it either.

use super::handover::{Foreign, Handover, Way};
use super::ids::{EndpointIds, LENGTH, LONG, LONG_LENGTH_AT, SHORT_AT};
use super::token::is_marked;
use bytes::BytesMut;
use quinn_proto::EcnCodepoint;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::set_socket_send_buffer_size;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, SocketFlags, SocketType, recv,
    sendmsg, socketpair,
};
use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// The processes before this one that have not ended yet, as far as the endpoints at one address are concerned.
#[derive(Default)]
pub struct Predecessors {
    /// The ways to them, the last one first.
    ways: Mutex<Vec<OwnedFd>>,
    /// Whether there is one: while no upgrade is under way, that is all that is looked at.
    is_any: AtomicBool,
}

/// What became of a datagram that is for no connection of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Offer {
    /// Whether it can be for nobody here, whoever took it.
    pub(super) is_theirs: bool,
    /// Whether a predecessor has got it. It is lost where that one has too many already, as any may be.
    pub(super) is_sent: bool,
}

/// Whose a datagram may be that names no endpoint of this process, as far as its first packet tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Claim {
    /// A client's that begins here, or nobody's.
    Ours,
    /// A client's that begins here, or whose handshake a predecessor holds: only one of them can decrypt it then.
    Either,
    /// A client's that has got an id from a process.
    Theirs,
}

/// What a datagram is sent on with in front of it is shorter: two addresses, and a digit.
const MOST_HEAD: usize = 160;
/// The largest datagram.
const MOST_BYTES: usize = 64 << 10;
/// Bytes that may wait for a predecessor, as the kernel counts them; it may allow less.
const QUEUE: usize = 4 << 20;
/// The version of QUIC whose headers these are (RFC 9000 section 17.2).
const VERSION: [u8; 4] = [0, 0, 0, 1];
const INITIAL: u8 = 0;
const ZERO_RTT: u8 = 1;
const RETRY: u8 = 3;

impl Predecessors {
    /// Hands what is for their connections to these processes from now on.
    pub fn set(&self, ways: Vec<OwnedFd>) {
        self.is_any.store(!ways.is_empty(), Ordering::Relaxed);
        *self.ways() = ways;
    }

    /// Duplicates of the ways to those that have not ended, for a successor of this process.
    ///
    /// # Errors
    ///
    /// When there are no descriptors left.
    pub fn lend(&self) -> io::Result<Vec<OwnedFd>> {
        let mut ways = self.ways();
        ways.retain(is_open);
        self.is_any.store(!ways.is_empty(), Ordering::Relaxed);
        ways.iter().map(OwnedFd::try_clone).collect()
    }

    /// Hands a datagram that names no endpoint of this process to those whose it may be. None where it is not for them.
    pub(super) fn offer(&self, way: &Way, datagram: &[u8]) -> Option<Offer> {
        if !self.is_any.load(Ordering::Relaxed) {
            return None;
        }
        let claim = claim(datagram);
        if claim == Claim::Ours {
            return None;
        }
        let head = head(way);
        let mut ways = self.ways();
        let mut is_sent = false;
        ways.retain(|socket| match send(socket, head.as_bytes(), datagram) {
            Ok(()) => {
                is_sent = true;
                true
            }
            Err(error) => !is_over(error),
        });
        if ways.is_empty() {
            self.is_any.store(false, Ordering::Relaxed);
            return None;
        }
        Some(Offer { is_theirs: claim == Claim::Theirs, is_sent })
    }

    fn ways(&self) -> MutexGuard<'_, Vec<OwnedFd>> {
        self.ways.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes what successors of this process hand to it, on a thread of its own, until none is left that could. What is returned is for them.
///
/// # Errors
///
/// When there are no descriptors left, or no threads.
pub fn take_forwarded(handover: Arc<Handover>) -> io::Result<OwnedFd> {
    // Messages have bounds, and each side learns when the other has gone.
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let (ours, theirs) = socketpair(family, kind, SocketFlags::CLOEXEC, None)?;
    set_socket_send_buffer_size(&theirs, QUEUE)?;
    let ids = EndpointIds::of_place(0).ok_or(io::ErrorKind::Other)?;
    let take = move || take(&ours, &ids, &handover);
    thread::Builder::new().name("forwarded".to_owned()).spawn(take)?;
    Ok(theirs)
}

fn take(socket: &OwnedFd, ids: &EndpointIds, handover: &Handover) {
    let mut message = vec![0; MOST_HEAD + MOST_BYTES];
    loop {
        match recv(socket, &mut *message, RecvFlags::empty()) {
            Err(Errno::INTR) => {}
            Err(_) | Ok((_, 0)) => return,
            Ok((_, length)) => {
                let Some((way, datagram)) = read(&message[..length]) else { continue };
                if let Some(place) = ids.place_of(datagram) {
                    handover.pass(place, Foreign { way, bytes: BytesMut::from(datagram) });
                }
            }
        }
    }
}

/// Does not wait: what does not fit is lost.
fn send(socket: &OwnedFd, head: &[u8], datagram: &[u8]) -> Result<(), Errno> {
    let parts = [IoSlice::new(head), IoSlice::new(datagram)];
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    sendmsg(socket, &parts, &mut SendAncillaryBuffer::default(), flags).map(drop)
}

/// Whether nothing will be sent there any more.
fn is_over(error: Errno) -> bool {
    !matches!(error, Errno::AGAIN | Errno::INTR | Errno::NOBUFS | Errno::NOMEM | Errno::MSGSIZE)
}

/// Whether there is somebody at the other end.
fn is_open(socket: &OwnedFd) -> bool {
    let mut asked = [PollFd::new(socket, PollFlags::empty())];
    let is_asked = poll(&mut asked, Some(&Timespec::default())).is_ok();
    !(is_asked && asked[0].revents().contains(PollFlags::HUP))
}

/// A line that says what is known of a datagram beside its bytes.
fn head((from, to, ecn): &Way) -> String {
    let to = to.map_or_else(|| NOWHERE.to_owned(), |to| to.to_string());
    format!("{from} {to} {}\n", ecn.map_or(0, |ecn| ecn as u8))
}

/// What stands for an address that is not known.
const NOWHERE: &str = "-";

/// The line and the bytes behind it. None for what no process sends.
fn read(message: &[u8]) -> Option<(Way, &[u8])> {
    let end = message.iter().take(MOST_HEAD).position(|byte| *byte == b'\n')?;
    let mut words = std::str::from_utf8(&message[..end]).ok()?.split(' ');
    let from = words.next()?.parse().ok()?;
    let to = match words.next()? {
        NOWHERE => None,
        address => Some(address.parse().ok()?),
    };
    let ecn = EcnCodepoint::from_bits(words.next()?.parse().ok()?);
    Some(((from, to, ecn), &message[end + 1..]))
}

fn claim(datagram: &[u8]) -> Claim {
    let Some(first) = datagram.first() else { return Claim::Ours };
    if first & LONG == 0 {
        let has_id = datagram.len() > SHORT_AT + LENGTH;
        return if has_id { Claim::Theirs } else { Claim::Ours };
    }
    let length = datagram.get(LONG_LENGTH_AT).copied().map(usize::from);
    // Types of other versions are others, and clients are told which one is spoken.
    if length != Some(LENGTH) || datagram.get(1..LONG_LENGTH_AT) != Some(&VERSION) {
        return Claim::Ours;
    }
    match first >> 4 & 3 {
        // Nobody but the process that has made the token, and the id that came with it, can go on from there.
        INITIAL if token(datagram).is_some_and(is_marked) => Claim::Theirs,
        // Early data has the id that its client has begun with.
        INITIAL | ZERO_RTT => Claim::Either,
        RETRY => Claim::Ours,
        _ => Claim::Theirs,
    }
}

/// The token of an Initial packet with an id of the usual length (RFC 9000 section 17.2.2).
fn token(datagram: &[u8]) -> Option<&[u8]> {
    let (source, rest) = datagram.get(LONG_LENGTH_AT + 1 + LENGTH..)?.split_first()?;
    let (first, rest) = rest.get(usize::from(*source)..)?.split_first()?;
    // Its length has as many bytes as the first two bits say (section 16).
    let (more, rest) = rest.split_at_checked((1 << (first >> 6)) - 1)?;
    let length = usize::from(first & 0x3f);
    rest.get(..more.iter().fold(length, |length, byte| length << 8 | usize::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::super::token::TokenKey;
    use super::*;
    use quinn_proto::ConnectionIdGenerator;
    use quinn_proto::crypto::HandshakeTokenKey;
    use std::net::{IpAddr, SocketAddr};

    fn way(from: &str, to: Option<&str>, ecn: Option<EcnCodepoint>) -> Way {
        let to = to.map(|to| to.parse::<IpAddr>().unwrap());
        (from.parse::<SocketAddr>().unwrap(), to, ecn)
    }

    fn anywhere() -> Way {
        way("192.0.2.1:443", None, None)
    }

    /// A long header with such an id, an id of the client of that length, and what comes then.
    fn long(first: u8, version: u8, id: &[u8], source: u8, rest: &[u8]) -> Vec<u8> {
        let mut packet = vec![first, 0, 0, 0, version, u8::try_from(id.len()).unwrap()];
        packet.extend_from_slice(id);
        packet.push(source);
        packet.resize(packet.len() + usize::from(source), 7);
        packet.extend_from_slice(rest);
        packet
    }

    /// A token, with its length in front of it.
    fn token_of_another_process() -> Vec<u8> {
        let nonce = [5; 16];
        let mut token = b"a Retry token".to_vec();
        TokenKey::new(&[1; 64]).aead_from_hkdf(&nonce).seal(&mut token, &[]).unwrap();
        token.extend_from_slice(&nonce);
        [&[0x40, u8::try_from(token.len()).unwrap()], &token[..], b"rest"].concat()
    }

    #[test]
    fn whose_a_datagram_may_be_is_seen_in_its_first_packet() {
        let (id, longer, retried) = (b"8 bytes.", b"9 bytes..", token_of_another_process());
        let cases: [(&str, Vec<u8>, Claim); 15] = [
            ("nothing", vec![], Claim::Ours),
            ("a short header", [b"\x40", &id[..], b"..."].concat(), Claim::Theirs),
            ("one that is cut off", [b"\x40", &id[..7]].concat(), Claim::Ours),
            ("a Handshake packet", long(0xe0, 1, id, 4, b"\x10"), Claim::Theirs),
            ("0-RTT", long(0xd0, 1, id, 4, b"\x10"), Claim::Either),
            ("a Retry packet", long(0xf0, 1, id, 4, b"\x10"), Claim::Ours),
            ("one with a longer id", long(0xe0, 1, longer, 4, b"\x10"), Claim::Ours),
            ("another version", long(0xe0, 2, id, 4, b"\x10"), Claim::Ours),
            ("an Initial packet", long(0xc0, 1, id, 4, b"\0rest"), Claim::Either),
            ("no token in two bytes", long(0xc0, 1, id, 0, b"\x40\0rest"), Claim::Either),
            ("a token of Titan", long(0xc0, 1, id, 20, &retried), Claim::Theirs),
            ("another token", long(0xc0, 1, id, 0, b"\x05token"), Claim::Either),
            ("one that is cut off", long(0xc0, 1, id, 0, &retried[..20]), Claim::Either),
            ("no place for a token", long(0xc0, 1, id, 0, b""), Claim::Either),
            ("a token, but a longer id", long(0xc0, 1, longer, 4, &retried), Claim::Ours),
        ];
        for (name, datagram, expected) in cases {
            assert_eq!(claim(&datagram), expected, "{name}");
        }
    }

    #[test]
    fn what_is_handed_on_arrives_as_it_came_where_its_connection_is() {
        let handover = Arc::new(Handover::default());
        let (_other, (place, mut foreign)) = (handover.join(), handover.join());
        let predecessors = Predecessors::default();
        predecessors.set(vec![take_forwarded(handover).unwrap()]);
        let id = EndpointIds::of_place(place).unwrap().generate_cid();
        let ways = [
            way("192.0.2.1:443", Some("198.51.100.7"), Some(EcnCodepoint::Ect0)),
            way("[::ffff:192.0.2.1]:1", Some("::ffff:198.51.100.7"), Some(EcnCodepoint::Ce)),
            way("[fe80::1%3]:65535", None, None),
        ];
        for (way, size) in ways.into_iter().zip([30, 1200, 65_000]) {
            let mut datagram = [b"\x40", &id[..]].concat();
            // A line end in it ends nothing.
            datagram.resize(size, b'\n');
            // What is for no endpoint here is dropped.
            predecessors.offer(&way, &[&b"\x40"[..], &[9; 30]].concat()).unwrap();
            let offer = predecessors.offer(&way, &datagram).unwrap();
            assert_eq!(offer, Offer { is_theirs: true, is_sent: true });
            let came = foreign.blocking_recv().unwrap();
            assert_eq!((came.way, &came.bytes[..]), (way, &datagram[..]));
        }
    }

    #[test]
    fn messages_that_no_process_sends_are_nothing() {
        assert!(read(b"192.0.2.1:443 - 0\nx").is_some());
        let others: [&[u8]; 6] = [
            b"",
            b"\n",
            b"192.0.2.1:443 - 0",
            b"192.0.2.1 - 0\n",
            b"a - 0\n",
            b"192.0.2.1:443 -\n",
        ];
        assert!(others.into_iter().all(|it| read(it).is_none()));
        assert!(read(&[b'x'; MOST_HEAD + 1]).is_none());
    }

    fn short() -> Vec<u8> {
        [&b"\x40"[..], &[1; 1200]].concat()
    }

    fn pair() -> (OwnedFd, OwnedFd) {
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        socketpair(family, kind, SocketFlags::CLOEXEC, None).unwrap()
    }

    #[test]
    fn one_that_takes_nothing_blocks_nobody() {
        let predecessors = Predecessors::default();
        assert_eq!(predecessors.offer(&anywhere(), &short()), None, "there is none");
        let ((_deaf, first), (hears, second)) = (pair(), pair());
        predecessors.set(vec![first, second]);
        let mut count = 0;
        while predecessors.offer(&anywhere(), &short()).unwrap().is_sent {
            count += 1;
        }
        assert!(count > 10, "{count}");
        let mut message = [0; 2000];
        recv(&hears, &mut message, RecvFlags::empty()).unwrap();
        assert!(predecessors.offer(&anywhere(), &short()).unwrap().is_sent, "there is room again");
    }

    #[test]
    fn nothing_is_handed_to_those_that_have_ended() {
        let predecessors = Predecessors::default();
        let ((first_end, first), (second_end, second)) = (pair(), pair());
        predecessors.set(vec![first, second]);
        assert_eq!(predecessors.lend().unwrap().len(), 2);
        drop(first_end);
        assert_eq!(predecessors.lend().unwrap().len(), 1, "the other has ended");
        assert!(predecessors.offer(&anywhere(), &short()).unwrap().is_sent);
        drop(second_end);
        assert_eq!(predecessors.offer(&anywhere(), &short()), None);
        assert!(!predecessors.is_any.load(Ordering::Relaxed));
    }
}
