//! What a proxy is set up to speak on its two sides, and so which definition it runs with.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use rustls::ClientConnection;
use titan_bench::coding::Coding;
use titan_bench::payload::Target;
use titan_bench::{quic, tls};

use crate::engine::Engine;
use crate::keys::Key;
use crate::origin::Origin;

/// The two sides of a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setup {
    /// HTTP/1.1 on both.
    Plain,
    /// TLS with HTTP/2 or HTTP/1.1 to the client, HTTP/1.1 to the origin.
    Tls(Key),
    /// HTTP/3 to the client, HTTP/1.1 to the origin.
    Http3,
    /// Cleartext HTTP/2 to the client, HTTP/1.1 to the origin.
    H2c,
    /// TLS with HTTP/2 to the client, cleartext HTTP/2 to the origin.
    H2ToH2,
    /// gRPC over cleartext HTTP/2 on both.
    Grpc,
    /// HTTP/1.1 on both, with tunnels.
    WebSocket,
    /// HTTP/1.1 on both, with policies that its definition is named for.
    Policy(&'static str),
    /// HTTP/1.1 on both, with responses compressed in that coding.
    Compress(Coding),
    /// HTTP/1.1 on both, with something that the first definition is named for, and without it, as the second one is, for the bare one.
    Compared(&'static str, &'static str),
    /// HTTP/1.1 on both, with an access log; without it for the bare one.
    Logged,
    /// HTTP/1.1 on both, with many routes and, but for the bare one, other configurations all the time.
    Reloads,
}

impl Setup {
    /// What the names of its definitions end with.
    pub fn suffix(self, engine: Engine) -> &'static str {
        match self {
            Self::Reloads => "-reloads",
            Self::Compared(_, without) if engine == Engine::Bare => without,
            Self::Compared(with, _) => with,
            Self::Logged if engine != Engine::Bare => "-log",
            _ if engine == Engine::Bare => "",
            Self::Plain | Self::Logged => "",
            Self::Policy(suffix) => suffix,
            Self::Compress(_) => "-compress",
            Self::Tls(_) => "-tls",
            Self::Http3 => "-h3",
            Self::H2c => "-h2c",
            Self::H2ToH2 => "-h2-to-h2",
            Self::Grpc => "-grpc",
            Self::WebSocket => "-websocket",
        }
    }

    /// The key of the proxy's certificate.
    pub fn key(self) -> Option<Key> {
        match self {
            Self::Tls(key) => Some(key),
            Self::H2ToH2 | Self::Http3 => Some(Key::EcdsaP256),
            Self::Plain
            | Self::H2c
            | Self::Grpc
            | Self::WebSocket
            | Self::Policy(_)
            | Self::Compress(_)
            | Self::Compared(..)
            | Self::Logged
            | Self::Reloads => None,
        }
    }

    /// The coding that responses come in, of an engine that compresses.
    pub fn coding(self) -> Option<Coding> {
        match self {
            Self::Compress(coding) => Some(coding),
            _ => None,
        }
    }

    /// Whether it counts in a store.
    pub fn needs_store(self) -> bool {
        matches!(self, Self::Policy("-shared-exact" | "-shared-lease"))
    }

    /// Whether an engine can do it: nginx knows HTTP/2 upstream as gRPC alone. The floor could copy HTTP/2 to
    /// HTTP/2, but a hundred streams with one read: the floor of no proxy.
    pub fn suits(self, engine: Engine) -> bool {
        if engine == Engine::Bare {
            return matches!(
                self,
                Self::Policy(_)
                    | Self::Compress(_)
                    | Self::Compared(..)
                    | Self::Logged
                    | Self::Reloads
            );
        }
        match self {
            Self::Plain | Self::WebSocket => true,
            Self::Policy(_) | Self::Compared(..) | Self::Reloads => engine == Engine::Titan,
            // Of the other codings nginx and HAProxy know nothing as Debian has them.
            Self::Compress(coding) => {
                engine != Engine::Floor && (coding == Coding::Gzip || engine == Engine::Titan)
            }
            // HAProxy writes no file.
            Self::Logged => matches!(engine, Engine::Nginx | Engine::Titan),
            Self::Tls(_) | Self::Http3 | Self::H2c | Self::Grpc => engine != Engine::Floor,
            Self::H2ToH2 => !matches!(engine, Engine::Floor | Engine::Nginx),
        }
    }

    /// The service behind the proxy, where `chosen` can be it.
    pub fn origin(self, chosen: Origin) -> Origin {
        match self {
            Self::Plain
            | Self::Tls(_)
            | Self::Http3
            | Self::H2c
            | Self::Policy(_)
            | Self::Compared(..)
            | Self::Logged
            | Self::Reloads => chosen,
            Self::H2ToH2 | Self::Grpc => Origin::Http2,
            Self::WebSocket | Self::Compress(_) => Origin::BuiltIn,
        }
    }

    /// Whether a proxy does its work already.
    pub fn answers(self, address: SocketAddr) -> bool {
        let answered = match self {
            Self::Plain
            | Self::WebSocket
            | Self::Compress(_)
            | Self::Compared(..)
            | Self::Logged
            | Self::Reloads => answers_http1(address),
            // Whether it refuses requests without a token is not the question here.
            Self::Policy(_) => answers_at_all(address),
            Self::Tls(_) | Self::H2ToH2 => self.greets(address, shakes_hands),
            Self::Http3 => self.greets(address, quic::answers),
            Self::H2c | Self::Grpc => answers_http2(address),
        };
        answered.unwrap_or(false)
    }

    /// Asks a proxy that encrypts, with the certificate that it has to have.
    fn greets(
        self,
        address: SocketAddr,
        ask: fn(SocketAddr, &Path) -> io::Result<bool>,
    ) -> io::Result<bool> {
        self.key().map_or(Ok(false), |key| ask(address, &key.files().certificate))
    }
}

/// Whether one request gets a response with status 200.
pub fn answers_http1(address: SocketAddr) -> io::Result<bool> {
    Ok(first_status(address)? == *b"HTTP/1.1 200")
}

/// Whether one request gets a response, of whatever status.
fn answers_at_all(address: SocketAddr) -> io::Result<bool> {
    Ok(first_status(address)?.starts_with(b"HTTP/1.1 "))
}

fn first_status(address: SocketAddr) -> io::Result<[u8; 12]> {
    let mut stream = connect(address)?;
    stream.write_all(&Target::Small.request(0, true))?;
    let mut start = [0; 12];
    stream.read_exact(&mut start)?;
    Ok(start)
}

/// Whether the peer introduces itself as one of HTTP/2: its first frame is SETTINGS, on no stream.
pub fn answers_http2(address: SocketAddr) -> io::Result<bool> {
    let mut stream = connect(address)?;
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")?;
    let mut header = [0; 9];
    stream.read_exact(&mut header)?;
    Ok(header[3] == 4 && header[5..] == [0; 4])
}

fn shakes_hands(address: SocketAddr, certificate: &Path) -> io::Result<bool> {
    let mut stream = connect(address)?;
    let config = tls::client(certificate, tls::HTTP1, false)?;
    let mut session = ClientConnection::new(config, tls::name()).map_err(io::Error::other)?;
    session.complete_io(&mut stream)?;
    Ok(true)
}

fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    Ok(stream)
}
