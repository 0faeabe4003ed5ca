//! A connection that this side has opened. It has a UDP socket of its own, as one of TCP has: the kernel can tell it, and it alone, that
//! nobody listens there.

use super::endpoint::Endpoint;
use super::line::{Line, LineEnd};
use super::link::Link;
use super::server::ClientTransport;
use super::socket::Datagrams;
use crate::clock::Clock;
use crate::mux::Mux;
use crate::tls::EndpointTls;
use quinn_proto::ConnectionError;
use socket2::SockRef;
use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use titan_h3::{Code, Event};

/// A connection that this side has opened.
pub struct Dialed {
    line: Line,
    endpoint: Rc<Endpoint>,
    memory: Rc<RefCell<Datagrams>>,
    /// Waits for the kernel to say that nobody listens there.
    refusal: Pin<Box<dyn Future<Output = io::Result<()>>>>,
    has_heard: bool,
}

/// What connections are opened with.
pub struct Dialing<'d> {
    /// The names and keys of the endpoint.
    pub tls: &'d EndpointTls,
    /// The bounds below HTTP/3.
    pub transport: &'d ClientTransport,
    /// The bounds of HTTP/3.
    pub limits: titan_h3::Limits,
    /// Memory for what comes, which all connections of a worker use in turn.
    pub memory: &'d Rc<RefCell<Datagrams>>,
}

/// Why there is no connection.
#[derive(Debug)]
pub enum DialError {
    /// Nobody has responded.
    Unreachable(io::Error),
    /// Whoever has responded is not the endpoint, or does not agree on HTTP/3.
    Handshake(io::Error),
}

/// Calls that receive, before others have their turn.
const CALLS: usize = 16;
/// How often in a row the kernel says that nobody listens before an open connection is given up: once can be forged.
const REFUSALS: u32 = 3;
/// What the kernel may hold of datagrams that were not received, or not sent, yet.
const BUFFER: usize = 4 << 20;

impl Dialed {
    /// Begins a connection to that address.
    ///
    /// # Errors
    ///
    /// When there is no socket for it, or nothing can be sent to that address.
    pub fn open(to: SocketAddr, dialing: &Dialing<'_>) -> io::Result<Dialed> {
        let (mut config, name) = dialing.tls.quic().map_err(io::Error::other)?;
        config.transport_config(Arc::clone(&dialing.transport.0));
        let endpoint = Endpoint::client(socket(to)?)?;
        let accepted = endpoint.connect(config, (to, &name), dialing.limits)?;
        Ok(Dialed {
            line: Line::client(accepted),
            refusal: refusal(&endpoint),
            endpoint,
            memory: Rc::clone(dialing.memory),
            has_heard: false,
        })
    }

    /// The connection, for those who send requests on it.
    pub fn mux(&self) -> &Rc<Mux<Link>> {
        self.line.mux()
    }

    /// Waits until the handshake is complete.
    ///
    /// # Errors
    ///
    /// When it has failed.
    pub fn poll_connected(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), DialError>> {
        self.receive(cx).map_err(DialError::Unreachable)?;
        if self.endpoint.socket.refusals() > 0 {
            let refused = io::ErrorKind::ConnectionRefused.into();
            return Poll::Ready(Err(DialError::Unreachable(refused)));
        }
        self.line.poll_connected(cx).map(|is_connected| match is_connected {
            true => Ok(()),
            false => Err(self.why_unconnected()),
        })
    }

    /// Moves what can be moved in both directions; `on_event` gets what no stream takes. Ready when nothing more will move.
    pub fn poll(
        &mut self,
        cx: &mut Context<'_>,
        clock: &Clock,
        on_event: impl FnMut(Event),
    ) -> Poll<LineEnd> {
        let received = self.receive(cx);
        if received.is_err() || self.endpoint.socket.refusals() >= REFUSALS {
            return Poll::Ready(LineEnd::Gone);
        }
        self.line.poll(cx, clock, on_event)
    }

    /// Whether anything has come since it was asked last.
    pub fn take_heard(&mut self) -> bool {
        std::mem::take(&mut self.has_heard)
    }

    /// Asks the endpoint for a sign of life: see [`Dialed::take_heard`].
    pub fn ping(&self) {
        self.line.ping();
    }

    /// Tells the endpoint that this is the end, once: whatever it sends after that comes to nobody, and it learns so.
    pub fn say_goodbye(&mut self, cx: &mut Context<'_>) {
        self.line.say_goodbye(cx, Code::NoError);
    }

    fn receive(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        while let Poll::Ready(refused) = self.refusal.as_mut().poll(cx) {
            refused?;
            self.refusal = refusal(&self.endpoint);
        }
        let mut memory = self.memory.borrow_mut();
        for _ in 0..CALLS {
            // Nobody is accepted here.
            match self.endpoint.poll_receive(cx, &mut memory, &mut Vec::new()) {
                Poll::Ready(received) => received?,
                Poll::Pending => return Ok(()),
            }
            self.has_heard = true;
        }
        cx.waker().wake_by_ref();
        Ok(())
    }

    fn why_unconnected(&self) -> DialError {
        let lost = self.line.mux().connection().lost.take();
        match lost {
            Some(
                error @ (ConnectionError::TransportError(_) | ConnectionError::ConnectionClosed(_)),
            ) => DialError::Handshake(io::Error::other(error)),
            Some(error) => DialError::Unreachable(io::Error::other(error)),
            None => DialError::Unreachable(io::ErrorKind::NotConnected.into()),
        }
    }
}

/// A socket for one peer.
fn socket(to: SocketAddr) -> io::Result<UdpSocket> {
    let any = match to {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(to)?;
    socket.set_nonblocking(true)?;
    // The kernel grants less where it is told to: then more is lost in bursts, and sent again.
    let own = SockRef::from(&socket);
    let _ = own.set_recv_buffer_size(BUFFER);
    let _ = own.set_send_buffer_size(BUFFER);
    Ok(socket)
}

fn refusal(endpoint: &Rc<Endpoint>) -> Pin<Box<dyn Future<Output = io::Result<()>>>> {
    let endpoint = Rc::clone(endpoint);
    Box::pin(async move { endpoint.socket.refused().await })
}
