//! Opening a connection to an endpoint.

use super::Endpoint;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use titan_io::error::Kind;
use titan_io::stream::Stream;
use titan_io::tls;
use tokio::net::{TcpStream, UnixStream};

/// Where an endpoint listens, with every name resolved.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Address {
    Ip(SocketAddr),
    Unix(PathBuf),
}

/// Connects, and agrees on keys where the endpoint speaks TLS; the caller bounds the time.
pub(crate) async fn connect(endpoint: &Endpoint, h1_only: bool) -> Result<Stream, Kind> {
    let failed = |kind| {
        move |error: io::Error| {
            endpoint.note_reason(kind, &error);
            kind
        }
    };
    let mut stream = reach(&endpoint.address).await.map_err(failed(Kind::Connect))?;
    if let Some(tls) = &endpoint.tls {
        Box::pin(tls::connect(&mut stream, tls, h1_only)).await.map_err(failed(Kind::Tls))?;
    }
    Ok(stream)
}

async fn reach(address: &Address) -> io::Result<Stream> {
    match address {
        Address::Ip(address) => {
            let stream = TcpStream::connect(address).await?;
            // Heads and small bodies go out in one write; waiting to fill a segment only delays them.
            stream.set_nodelay(true)?;
            Ok(stream.into())
        }
        Address::Unix(path) => Ok(UnixStream::connect(path).await?.into()),
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Address::Ip(address) => write!(f, "{address}"),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}
