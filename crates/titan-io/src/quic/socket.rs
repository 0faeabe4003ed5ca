//! A UDP socket of one worker: many datagrams in one call, in both directions, with their marks of congestion (RFC 9000 section 13.4).

use bytes::BytesMut;
use quinn_udp::{EcnCodepoint, RecvMeta, UdpSocketState};
use std::cell::Cell;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket as StdUdpSocket};
use std::task::{Context, Poll, ready};
use tokio::io::Interest;
use tokio::net::UdpSocket;

/// The UDP socket.
pub(super) struct QuicSocket {
    socket: UdpSocket,
    state: UdpSocketState,
    /// How often in a row the kernel has said that nobody listens there. Only a connected socket is told.
    refusals: Cell<u32>,
}

/// Memory for what comes.
pub struct Datagrams {
    bytes: Vec<u8>,
    metas: [RecvMeta; Datagrams::BATCH],
    count: usize,
}

/// Bytes of datagrams that share their memory at most. A connection that keeps a single one of them keeps them all, which the bounds of
/// streams know nothing of.
const SHARED: usize = 4 << 10;

/// Datagrams that came together: of one peer, and of the same size but for the last.
pub(super) struct Arrived<'a> {
    pub(super) from: SocketAddr,
    pub(super) to: Option<IpAddr>,
    pub(super) ecn: Option<quinn_proto::EcnCodepoint>,
    pub(super) bytes: &'a [u8],
    pub(super) size: usize,
}

impl Datagrams {
    /// Messages that one call receives; each may be of several datagrams.
    const BATCH: usize = 8;
    /// Bytes of one message: what the kernel joins at most.
    const ROOM: usize = 64 << 10;
    /// Connections that can begin with what one call receives: a client begins with a datagram of 1,200 bytes at least (RFC 9000
    /// section 14.1).
    pub(super) const BEGINNINGS: usize = Datagrams::BATCH * (Datagrams::ROOM / 1200);
}

impl Default for Datagrams {
    fn default() -> Datagrams {
        Datagrams {
            bytes: vec![0; Datagrams::BATCH * Datagrams::ROOM],
            metas: [RecvMeta::default(); Datagrams::BATCH],
            count: 0,
        }
    }
}

impl Datagrams {
    /// What has come last.
    pub(super) fn arrived(&self) -> impl Iterator<Item = Arrived<'_>> {
        let rooms = self.bytes.chunks_exact(Datagrams::ROOM);
        self.metas[..self.count].iter().zip(rooms).map(|(meta, bytes)| Arrived {
            from: meta.addr,
            to: meta.dst_ip,
            ecn: meta.ecn.and_then(|ecn| quinn_proto::EcnCodepoint::from_bits(ecn as u8)),
            bytes: &bytes[..meta.len],
            size: meta.stride.max(1),
        })
    }
}

impl Arrived<'_> {
    /// The datagrams, one by one. A few of them share the memory that is made for them.
    pub(super) fn datagrams(&self) -> impl Iterator<Item = BytesMut> + use<'_> {
        let size = self.size;
        let most = (SHARED / size).max(1) * size;
        self.bytes.chunks(most).flat_map(move |few| {
            let mut rest = BytesMut::from(few);
            std::iter::from_fn(move || {
                let length = size.min(rest.len());
                (length > 0).then(|| rest.split_to(length))
            })
        })
    }
}

impl QuicSocket {
    /// Makes a socket that is bound a part of the runtime that this is called in.
    pub(super) fn new(socket: StdUdpSocket) -> io::Result<QuicSocket> {
        let state = UdpSocketState::new((&socket).into())?;
        Ok(QuicSocket { socket: UdpSocket::from_std(socket)?, state, refusals: Cell::new(0) })
    }

    /// Whether packets may be cut on their way: then nothing can be learned of how large they may be.
    pub(super) fn may_fragment(&self) -> bool {
        self.state.may_fragment()
    }

    /// Datagrams that one call sends at most.
    pub(super) fn most_segments(&self) -> usize {
        self.state.max_gso_segments()
    }

    /// Waits for datagrams.
    pub(super) fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        into: &mut Datagrams,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.socket.poll_recv_ready(cx))?;
            let Datagrams { bytes, metas, count } = into;
            let received = self.socket.try_io(Interest::READABLE, || {
                let mut rooms = bytes.chunks_exact_mut(Datagrams::ROOM);
                let mut slices: [IoSliceMut<'_>; Datagrams::BATCH] =
                    std::array::from_fn(|_| IoSliceMut::new(rooms.next().unwrap_or_default()));
                self.state.recv((&self.socket).into(), &mut slices, metas)
            });
            match received {
                Ok(received) => {
                    *count = received;
                    self.refusals.set(0);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if self.is_refusal(&error) => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    /// Sends what a connection has made. False where the kernel takes nothing now: [`QuicSocket::poll_writable`] says when it does. What
    /// cannot be sent at all is lost, as a datagram may be.
    pub(super) fn send(&self, transmit: &quinn_proto::Transmit, bytes: &[u8]) -> bool {
        let transmit = quinn_udp::Transmit {
            destination: transmit.destination,
            ecn: transmit.ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn as u8)),
            contents: &bytes[..transmit.size],
            segment_size: transmit.segment_size,
            src_ip: transmit.src_ip,
        };
        let send = || self.state.try_send((&self.socket).into(), &transmit);
        match self.socket.try_io(Interest::WRITABLE, send) {
            Err(error) => self.is_refusal(&error) || error.kind() != io::ErrorKind::WouldBlock,
            Ok(()) => true,
        }
    }

    /// Notes that nobody listens there, if that is what an error says: of a datagram that was sent before.
    fn is_refusal(&self, error: &io::Error) -> bool {
        let is_refusal = error.kind() == io::ErrorKind::ConnectionRefused;
        self.refusals.set(self.refusals.get() + u32::from(is_refusal));
        is_refusal
    }

    /// Waits until the kernel says that nobody listens there: a socket that receives nothing is told nothing else.
    pub(super) async fn refused(&self) -> io::Result<()> {
        loop {
            self.socket.ready(Interest::ERROR).await?;
            let error = self.socket.try_io(Interest::ERROR, || {
                self.socket.take_error()?.ok_or_else(|| io::ErrorKind::WouldBlock.into())
            });
            match error {
                Ok(error) if self.is_refusal(&error) => return Ok(()),
                // Other trouble on the way may pass.
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// How often in a row the kernel has said that nobody listens there.
    pub(super) fn refusals(&self) -> u32 {
        self.refusals.get()
    }

    pub(super) fn poll_writable(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.socket.poll_send_ready(cx).map(drop)
    }

    pub(super) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn datagrams_that_come_together_share_little_memory() {
        /// Two of the largest that cross an Ethernet.
        const LITTLE: usize = 4096;
        for (length, size) in [(64_000, 1000), (60_001, 1452), (1200, 40), (5, 1200), (9000, 9000)]
        {
            let bytes: Vec<u8> = (0..=u8::MAX).cycle().take(length).collect();
            let from = (Ipv4Addr::LOCALHOST, 1).into();
            let arrived = Arrived { from, to: None, ecn: None, bytes: &bytes, size };
            let datagrams: Vec<_> = arrived.datagrams().collect();
            assert!(datagrams.iter().eq(bytes.chunks(size)), "{length} in {size}");
            let (mut shared, mut end) = (0, None);
            for datagram in &datagrams {
                let is_behind = end == Some(datagram.as_ptr());
                shared = if is_behind { shared + datagram.len() } else { datagram.len() };
                end = Some(datagram.as_ptr_range().end);
                assert!(
                    shared <= LITTLE.max(size),
                    "{shared} bytes in a row of {length} in {size}"
                );
            }
        }
    }
}
