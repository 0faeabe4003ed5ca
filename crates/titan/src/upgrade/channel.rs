//! What a process and its successor say to each other: small messages, some with descriptors, over a pair of Unix sockets.
//!
//! ```text
//! predecessor                     successor
//! begin, listener ..., server ..., end  ->
//!                                 (reads the configuration, binds what is new)
//!                                 <-  ready
//! (closes what only one process may have)
//! released                              ->
//!                                 (opens that, serves)
//!                                 <-  took ..., serving
//! (stops accepting, drains)
//! ```
//!
//! Instead of `ready` and `serving` the successor may say `failed`, and why. Keys that a message does not know are
//! skipped, so that messages may grow; anything else needs another [`FORM`].

use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg,
    sendmsg, socketpair,
};
use serde::{Deserialize, Serialize};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

/// One end of the conversation.
pub(super) struct Channel(OwnedFd);

/// A message that has come. It is wiped from memory: there may be keys in it.
pub(super) struct Packet {
    bytes: Zeroizing<Vec<u8>>,
    pub(super) sockets: Vec<OwnedFd>,
}

/// What the process that serves says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FromPredecessor<'m> {
    /// The first message, of any form.
    Begin { form: u32, version: &'m str },
    /// Sockets of a listener, which may come in several messages, the keys of its tickets in hexadecimal digits, and the device and
    /// inode of the file of a Unix socket that is the process's own.
    Listener {
        name: ListenerName,
        tickets: Option<&'m str>,
        #[serde(default)]
        file: Option<(u64, u64)>,
    },
    /// The socket of a server beside the gateway, such as that of the admin interface, and whether its file is that of the service
    /// manager.
    Server {
        name: ServerName,
        #[serde(default)]
        is_of_manager: bool,
    },
    /// All was said.
    End,
    /// What only one process may have is free.
    Released,
}

/// What the process that is to serve says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum FromSuccessor {
    /// It can serve as soon as it has what only one process may have.
    Ready,
    /// It has the sockets of this listener.
    Took { name: ListenerName },
    /// It serves.
    Serving { version: String },
    /// It ends, for this reason.
    Failed { why: String },
}

/// Which listener it is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ListenerName {
    /// As the configuration writes it.
    pub(super) address: String,
    /// How many of that address stand before it.
    pub(super) before: usize,
}

/// Which server it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct ServerName {
    pub(super) role: String,
    /// As the configuration writes it.
    pub(super) address: String,
}

/// The form of the messages.
pub(super) const FORM: u32 = 1;
/// Descriptors of one message. The kernel would take 253.
pub(super) const MAX_SOCKETS: usize = 64;
/// Bytes of one message.
const MAX_MESSAGE: usize = 32 << 10;
/// Messages before the end of the first part: some for each listener, and those of the servers.
pub(super) const MAX_MESSAGES: usize = 4096;
/// Bytes of the reason for a failure.
const MAX_REASON: usize = 8 << 10;
/// How long the other side may leave a message unread.
const SEND: Duration = Duration::from_secs(10);

impl Channel {
    /// One end, and the other for a successor.
    pub(super) fn pair() -> io::Result<(Channel, OwnedFd)> {
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let (ours, theirs) = socketpair(family, kind, SocketFlags::CLOEXEC, None)?;
        Ok((Channel::new(ours)?, theirs))
    }

    /// The end that a process was started with.
    pub(super) fn new(socket: OwnedFd) -> io::Result<Channel> {
        set_socket_timeout(&socket, Timeout::Send, Some(SEND))?;
        Ok(Channel(socket))
    }

    /// The same end once more, to be ended by another thread.
    pub(super) fn ender(&self) -> io::Result<Ender> {
        Ok(Ender(self.0.try_clone()?))
    }

    pub(super) fn send(&self, message: &impl Serialize) -> io::Result<()> {
        self.send_with(message, &[])
    }

    /// Sends a message with at most [`MAX_SOCKETS`] descriptors.
    pub(super) fn send_with(
        &self,
        message: &impl Serialize,
        sockets: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        // With room for all: a copy that growing leaves behind would not be wiped.
        let mut bytes = Zeroizing::new(Vec::with_capacity(MAX_MESSAGE));
        serde_json::to_writer(&mut *bytes, message)?;
        if bytes.len() > MAX_MESSAGE {
            return Err(io::Error::other("a message is too long"));
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_SOCKETS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !sockets.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(sockets)) {
            return Err(io::Error::other("too many descriptors for a message"));
        }
        sendmsg(&self.0, &[IoSlice::new(&bytes)], &mut ancillary, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// The next message; `None` if the other side has gone. An error of kind `TimedOut` if none comes until then.
    pub(super) fn receive(&self, deadline: Instant) -> io::Result<Option<Packet>> {
        let mut bytes = Zeroizing::new(vec![0; MAX_MESSAGE]);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_SOCKETS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            // Less than a microsecond would be no limit.
            let left = left.max(Duration::from_millis(1));
            set_socket_timeout(&self.0, Timeout::Recv, Some(left))?;
            let mut slices = [IoSliceMut::new(&mut bytes)];
            match recvmsg(&self.0, &mut slices, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(Errno::CONNRESET) => return Ok(None),
                received => break received?,
            }
        };
        let sockets = ancillary.drain().flat_map(|message| match message {
            RecvAncillaryMessage::ScmRights(sockets) => sockets.collect(),
            _ => Vec::new(),
        });
        let sockets = sockets.collect();
        if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
            return Err(io::Error::other(
                "a message is too long, or no descriptor is left for its sockets",
            ));
        }
        bytes.truncate(received.bytes);
        Ok((received.bytes > 0).then_some(Packet { bytes, sockets }))
    }
}

/// What ends a conversation.
pub(super) struct Ender(OwnedFd);

impl Ender {
    /// Both sides see that the other has gone.
    pub(super) fn end(&self) {
        // One that has ended already is what is wanted.
        let _ = rustix::net::shutdown(self.0.as_fd(), rustix::net::Shutdown::Both);
    }
}

impl Packet {
    /// What it says; an error for what no version of this form says.
    pub(super) fn read<'p, M: Deserialize<'p>>(&'p self) -> io::Result<M> {
        Ok(serde_json::from_slice(&self.bytes)?)
    }
}

impl FromSuccessor {
    /// A failure with as much of its reason as a message takes.
    pub(super) fn failed(why: &str) -> FromSuccessor {
        let end = (0..=MAX_REASON.min(why.len())).rev().find(|end| why.is_char_boundary(*end));
        FromSuccessor::Failed { why: why[..end.unwrap_or(0)].to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(20)
    }

    fn both() -> (Channel, Channel) {
        let (ours, theirs) = Channel::pair().unwrap();
        (ours, Channel::new(theirs).unwrap())
    }

    #[test]
    fn messages_and_descriptors_arrive_together() {
        let (one, other) = both();
        let (mut kept, sent) = UnixStream::pair().unwrap();
        let name = ListenerName { address: ":443".to_owned(), before: 1 };
        let message = FromPredecessor::Listener { name, tickets: Some("00ff"), file: None };
        one.send_with(&message, &[sent.as_fd()]).unwrap();
        drop(sent);
        one.send(&FromPredecessor::End).unwrap();
        let packet = other.receive(soon()).unwrap().unwrap();
        let FromPredecessor::Listener { name, tickets, .. } = packet.read().unwrap() else {
            panic!()
        };
        assert_eq!((&*name.address, name.before, tickets), (":443", 1, Some("00ff")));
        let [socket] = <[OwnedFd; 1]>::try_from(packet.sockets).unwrap();
        UnixStream::from(socket).write_all(b"x").unwrap();
        let mut byte = [0];
        kept.read_exact(&mut byte).unwrap();
        assert_eq!(&byte, b"x");
        let packet = other.receive(soon()).unwrap().unwrap();
        assert!(matches!(packet.read().unwrap(), FromPredecessor::End));
        drop(one);
        assert!(other.receive(soon()).unwrap().is_none());
    }

    #[test]
    fn silence_has_a_limit_and_an_end_can_be_made() {
        let (one, other) = both();
        let error = other.receive(Instant::now()).err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        one.ender().unwrap().end();
        assert!(other.receive(soon()).unwrap().is_none());
        assert!(one.receive(soon()).unwrap().is_none());
    }

    #[test]
    fn what_a_later_version_adds_is_skipped_and_what_it_changes_is_an_error() {
        let (one, other) = both();
        let read = |text: &str| -> Result<String, io::Error> {
            one.send(&serde_json::from_str::<serde_json::Value>(text).unwrap()).unwrap();
            let packet = other.receive(soon()).unwrap().unwrap();
            packet.read::<FromPredecessor<'_>>().map(|message| format!("{message:?}"))
        };
        let added = r#"{"begin":{"form":7,"version":"9.0.0","more":[1]}}"#;
        assert_eq!(read(added).unwrap(), r#"Begin { form: 7, version: "9.0.0" }"#);
        assert!(read(r#"{"begins":{"form":1,"version":"1"}}"#).is_err());
    }

    #[test]
    fn a_reason_is_cut_between_characters() {
        let FromSuccessor::Failed { why } = FromSuccessor::failed(&"ä".repeat(MAX_REASON)) else {
            panic!()
        };
        assert_eq!(why.len(), MAX_REASON);
    }
}
