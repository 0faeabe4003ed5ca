//! The client's side of QUIC. Each connection has a socket of its own, as those of clients in different places have.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use quinn::crypto::rustls::{HandshakeData, QuicClientConfig};
use quinn::{
    ClientConfig, Connection, ConnectionError, Endpoint, EndpointConfig, IdleTimeout, TokioRuntime,
    TransportConfig, TransportErrorCode,
};
use rustix::net::sockopt;
use tokio::time::timeout;

use crate::tls;

/// ALPN's name for HTTP/3.
pub const HTTP3: &[u8] = b"h3";
/// What a socket should hold, either way: less loses datagrams of a proxy that sends many at once.
const SOCKET_BUFFER: usize = 2 * 1024 * 1024;

/// Longer than any scenario lets connections be silent.
const IDLE: Duration = Duration::from_secs(120);
/// A proxy that is there shakes hands within this time; nothing says that none is there.
const PATIENCE: Duration = Duration::from_millis(500);
/// The alert `missing_extension` of TLS (RFC 8446 section 6).
const MISSING_EXTENSION: u8 = 109;

/// How connections are opened.
pub struct Dial {
    to: SocketAddr,
    config: ClientConfig,
    endpoint: EndpointConfig,
}

impl Dial {
    /// To a proxy with that certificate, for HTTP/3. No session is resumed.
    pub fn new(to: SocketAddr, certificate: &Path) -> io::Result<Self> {
        let tls = tls::client(certificate, HTTP3, false)?;
        let tls = QuicClientConfig::try_from(tls).map_err(io::Error::other)?;
        let mut config = ClientConfig::new(Arc::new(tls));
        let mut transport = TransportConfig::default();
        transport.max_idle_timeout(IdleTimeout::try_from(IDLE).ok());
        config.transport_config(Arc::new(transport));
        Ok(Self { to, config, endpoint: EndpointConfig::default() })
    }

    /// Opens a connection, which lives on without the endpoint.
    pub async fn connect(&self) -> io::Result<(Endpoint, Connection)> {
        let runtime = Arc::new(TokioRuntime);
        let endpoint = Endpoint::new(self.endpoint.clone(), None, socket(self.to)?, runtime)?;
        let connecting = endpoint.connect_with(self.config.clone(), self.to, tls::NAME);
        let connection = connecting.map_err(io::Error::other)?.await?;
        if chosen_protocol(&connection).as_deref() == Some(HTTP3) {
            return Ok((endpoint, connection));
        }
        Err(io::Error::other("the proxy does not choose HTTP/3"))
    }
}

/// Whether a proxy shakes hands.
pub fn answers(to: SocketAddr, certificate: &Path) -> io::Result<bool> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let dial = Dial::new(to, certificate)?;
    runtime.block_on(async {
        let (endpoint, connection) = timeout(PATIENCE, dial.connect()).await??;
        connection.close(0_u32.into(), b"");
        endpoint.wait_idle().await;
        Ok(true)
    })
}

/// Whether a handshake failed because the proxy found no transport parameters in it, as nginx 1.30 says of some that have them.
pub fn is_unread(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    let Some(ConnectionError::ConnectionClosed(close)) = inner else { return false };
    close.error_code == TransportErrorCode::crypto(MISSING_EXTENSION)
}

/// Says so where the kernel does not let sockets hold what they should: losses then cost all engines.
pub fn warn_of_small_buffers() -> io::Result<()> {
    let socket = socket((Ipv4Addr::LOCALHOST, 0).into())?;
    let (received, sent) =
        (sockopt::socket_recv_buffer_size(&socket)?, sockopt::socket_send_buffer_size(&socket)?);
    // The kernel doubles what is set, for what it keeps beside the bytes.
    if received.min(sent) < 2 * SOCKET_BUFFER {
        eprintln!(
            "warning: UDP sockets may not hold 2 MiB: raise net.core.rmem_max and net.core.wmem_max"
        );
    }
    Ok(())
}

fn socket(to: SocketAddr) -> io::Result<UdpSocket> {
    let any = match to {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind(SocketAddr::new(any, 0))?;
    sockopt::set_socket_recv_buffer_size(&socket, SOCKET_BUFFER)?;
    sockopt::set_socket_send_buffer_size(&socket, SOCKET_BUFFER)?;
    Ok(socket)
}

fn chosen_protocol(connection: &Connection) -> Option<Vec<u8>> {
    connection.handshake_data()?.downcast::<HandshakeData>().ok()?.protocol
}

#[cfg(test)]
mod tests {
    use quinn::ConnectionClose;

    use super::*;

    fn closed(code: TransportErrorCode) -> io::Error {
        let close = ConnectionClose { error_code: code, frame_type: None, reason: "".into() };
        ConnectionError::ConnectionClosed(close).into()
    }

    #[test]
    fn only_what_was_not_read_is_tried_again() {
        assert!(is_unread(&closed(TransportErrorCode::crypto(MISSING_EXTENSION))));
        // handshake_failure
        assert!(!is_unread(&closed(TransportErrorCode::crypto(40))));
        assert!(!is_unread(&closed(TransportErrorCode::INTERNAL_ERROR)));
        assert!(!is_unread(&io::Error::other("something else")));
    }
}
