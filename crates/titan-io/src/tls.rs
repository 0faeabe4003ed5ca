//! TLS: handshakes with clients and endpoints, and their configuration.

mod alt_names;
mod client;
mod client_hello;
mod credentials;
mod hello;
mod identity;
mod server;
mod sessions;
mod tickets;
mod verifiers;

pub use client::{ClientSettings, ClientTls, EndpointTls, client_config};
pub use client_hello::MAX_HELLO;
pub use credentials::{BadCredentials, Files, Validity, bad};
pub use hello::{Alert, ClientHello, alert, read_hello};
pub use identity::{Identity, sha256};
pub use server::ServerTls;
pub use tickets::TicketSecrets;

use crate::clock::{CoarseInstant, Timer};
use crate::stream::{Session, Stream};
use crate::transport::Transport;
use rustls::ServerConnection;
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, ready};
use std::time::Duration;

/// Why a connection that had to begin with a handshake does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The client speaks HTTP without TLS.
    Plain,
    /// What came is no handshake, or one that nothing can be agreed on in, for that reason.
    Failed(String),
    /// The client presented no certificate, and one is required.
    NoCertificate,
    /// The client presented a certificate that is refused, for that reason.
    Certificate(String),
    /// The connection ended, or time was up, in the middle of the handshake.
    Gone,
    /// Nothing came at all, as from a port scan or a TCP health check.
    Silent,
}

/// HTTP/2 as handshakes name it (RFC 9113 section 3.1).
pub const H2: &[u8] = b"h2";
/// HTTP/3 as TLS calls it (RFC 9114 section 3.1).
pub const H3: &[u8] = b"h3";
/// HTTP/1.1 as handshakes name it (RFC 7301 section 6).
pub const HTTP11: &[u8] = b"http/1.1";

/// Which of the configured protocols are up for agreement in a handshake (ALPN, RFC 7301).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alpn {
    /// All of them.
    Configured,
    /// HTTP/1.1 alone.
    H1,
    /// None: what goes through the connection is not HTTP.
    Nothing,
}

impl Alpn {
    /// What is up for agreement, where that is not all that is configured.
    fn instead_of(self, configured: &[Vec<u8>]) -> Option<Vec<Vec<u8>>> {
        match self {
            Alpn::Configured => None,
            Alpn::H1 => (configured.len() > 1).then(|| vec![HTTP11.to_vec()]),
            Alpn::Nothing => (!configured.is_empty()).then(Vec::new),
        }
    }
}

impl Refused {
    /// Why a handshake has failed.
    fn of(error: &io::Error) -> Refused {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
        match inner {
            Some(rustls::Error::NoCertificatesPresented) => Refused::NoCertificate,
            Some(
                error @ (rustls::Error::InvalidCertificate(_)
                | rustls::Error::InvalidCertRevocationList(_)),
            ) => Refused::Certificate(error.to_string()),
            _ => Refused::Failed(error.to_string()),
        }
    }
}

/// Whether a handshake has failed because the other side speaks something else than TLS.
pub fn is_not_tls(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    matches!(inner, Some(rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType)))
}

/// How long a client that came to the wrong port may take to see its response.
const LINGER: Duration = Duration::from_secs(1);
/// The first byte of a record that carries a handshake.
const HANDSHAKE: u8 = 22;

/// What a client gets that speaks HTTP to a port for HTTPS.
const NOT_PLAIN: &[u8] = b"HTTP/1.1 400 Bad Request\r\n\
    Content-Type: text/plain; charset=utf-8\r\n\
    Content-Length: 61\r\n\
    Connection: close\r\n\r\n\
    This port speaks HTTPS: the request must begin with https://\n";

/// Completes a handshake by then, and identifies the client if certificates are requested. What it sent behind a PROXY
/// header, or was read of its ClientHello, is in the inbox.
pub async fn accept(
    transport: &mut Transport,
    server: &ServerTls,
    alpn: Alpn,
    deadline: CoarseInstant,
) -> Result<Option<(Identity, u64)>, Refused> {
    await_handshake(transport, deadline).await?;
    let tls = ServerConnection::new(server.config(alpn))
        .map_err(|error| Refused::Failed(error.to_string()))?;
    let session = Session::new(tls);
    let opened = session.came(transport.inbox.unread());
    transport.inbox.clear();
    transport.stream.secure(session);
    let agreed = match opened {
        Ok(()) => agree(&mut transport.stream, &transport.timer, deadline).await,
        Err(error) => Err(Refused::of(&error)),
    };
    let identified = agreed.and_then(|()| {
        let (reader, _) = transport.stream.split();
        let session = reader.session().ok_or(Refused::Gone)?;
        let identified = server.identify(session.shown(), session.is_resumed());
        identified.inspect_err(|_| session.fail())
    });
    if identified.is_err() {
        // What went wrong is said in an alert.
        transport.stream.shut_down();
    }
    identified
}

/// Waits until the client begins a handshake.
async fn await_handshake(
    transport: &mut Transport,
    deadline: CoarseInstant,
) -> Result<(), Refused> {
    let first = transport.read_until(deadline, |unread| unread.first().copied()).await;
    match first.ok_or(Refused::Silent)? {
        HANDSHAKE => Ok(()),
        byte if byte.is_ascii_uppercase() => Err(Refused::Plain),
        _ => Err(Refused::Failed("what came is not TLS".to_owned())),
    }
}

/// Tells a client that this port speaks HTTPS, and waits until it has read that or a moment is over.
pub async fn respond_plain(transport: &mut Transport) {
    let fd = transport.stream.fd();
    let _ = rustix::net::send(fd, NOT_PLAIN, rustix::net::SendFlags::NOSIGNAL);
    transport.stream.shut_down();
    linger(transport).await;
}

/// Waits until a client has seen what was sent last, or a moment is over. It may be sending, and closing at once would
/// respond to that with a reset, which discards what it has not read.
pub async fn linger(transport: &mut Transport) {
    transport.drop_rest(transport.io.clock.deadline(LINGER)).await;
}

/// Agrees with an endpoint on keys; the caller bounds the time.
pub async fn connect(stream: &mut Stream, towards: &EndpointTls, alpn: Alpn) -> io::Result<()> {
    stream.secure(Session::new(towards.session(alpn).map_err(io::Error::other)?));
    poll_fn(|cx| poll_agree(cx, stream)).await
}

async fn agree(stream: &mut Stream, timer: &Timer, deadline: CoarseInstant) -> Result<(), Refused> {
    poll_fn(|cx| match poll_agree(cx, stream) {
        Poll::Ready(result) => Poll::Ready(result.map_err(|error| Refused::of(&error))),
        Poll::Pending => timer.poll(cx, deadline).map(|()| Err(Refused::Gone)),
    })
    .await
}

/// Sends and receives until both sides have the keys and all that was said has been sent.
fn poll_agree(cx: &mut Context<'_>, stream: &mut Stream) -> Poll<io::Result<()>> {
    let (reader, writer) = stream.split();
    let Some(session) = reader.session() else { return Poll::Ready(Ok(())) };
    loop {
        ready!(writer.poll_flush(cx))?;
        if !session.is_handshaking() {
            return Poll::Ready(Ok(()));
        }
        ready!(reader.poll_ready(cx))?;
        match session.receive(&reader) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            received => received?,
        }
        if session.is_handshaking() && session.is_over() {
            return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
        }
    }
}
