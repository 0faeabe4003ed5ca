//! A connection to an endpoint, and how it is opened.

use crate::endpoint::{Address, Endpoint};
use crate::slots::Slot;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use titan_io::error::{Error, Kind, is_shortage};
use titan_io::stream::Stream;
use titan_io::tls;
use tokio::net::{TcpStream, UnixStream};

/// An open connection to an endpoint. It counts against the endpoint's limit until it is dropped.
pub struct Connection {
    /// The socket.
    pub stream: Stream,
    /// Where it leads to.
    pub endpoint: Arc<Endpoint>,
    /// Whether it has served an exchange before.
    pub is_reused: bool,
    /// How long it took to open.
    pub opening: Duration,
    /// Whether the request had to wait for it.
    pub was_waited_for: bool,
    /// Whether it holds one of the endpoint's places for idle connections.
    pub(crate) is_idle: bool,
    /// How often in a row it has gone from one request to one that waited on the same worker.
    pub(crate) handed_over: u8,
    pub(crate) slot: Slot,
}

impl Connection {
    /// Gives back the place for idle connections that it holds.
    pub(crate) fn leave_idle_place(&mut self) {
        if std::mem::take(&mut self.is_idle) {
            self.endpoint.idle.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.leave_idle_place();
    }
}

/// Opens a connection for which a slot has been taken.
pub(crate) async fn open(
    endpoint: &Arc<Endpoint>,
    slot: Slot,
    timeout: Duration,
    h1_only: bool,
) -> Result<Connection, Error> {
    let begun = Instant::now();
    let attempt = tokio::time::timeout(timeout, connect(endpoint, h1_only));
    let stream = match attempt.await {
        Ok(Ok(stream)) => stream,
        Ok(Err(kind)) => return Err(kind.into()),
        Err(_) => return Err(Kind::ConnectTimeout.into()),
    };
    Ok(Connection {
        stream,
        endpoint: Arc::clone(endpoint),
        is_reused: false,
        opening: begun.elapsed(),
        was_waited_for: false,
        is_idle: false,
        handed_over: 0,
        slot,
    })
}

/// Connects, and agrees on keys where the endpoint speaks TLS; the caller bounds the time.
pub(crate) async fn connect(endpoint: &Endpoint, h1_only: bool) -> Result<Stream, Kind> {
    let failed = |kind| {
        move |error: io::Error| {
            let kind = if is_shortage(&error) { Kind::NoSocket } else { kind };
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

pub(crate) async fn reach(address: &Address) -> io::Result<Stream> {
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
