//! A connection to an endpoint, and how it is opened.

use crate::endpoint::{Address, Endpoint};
use crate::slots::Slot;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use titan_io::error::{Error, Kind, is_shortage};
use titan_io::stream::Stream;
use titan_io::tls::{self, Alpn};
use tokio::net::{TcpStream, UnixStream};

/// An open connection to an endpoint. It counts against the endpoint's limit until it is dropped.
pub struct Connection {
    /// The socket.
    pub stream: Stream,
    /// Where it leads to.
    pub endpoint: Arc<Endpoint>,
    /// How long it took to open.
    pub opening: Opening,
    /// Whether it has served an exchange before.
    pub is_reused: bool,
    /// Whether the request had to wait for it.
    pub was_waited_for: bool,
    /// Whether it holds one of the endpoint's places for idle connections.
    pub(crate) is_idle: bool,
    /// How often in a row it has gone from one request to one that waited on the same worker.
    pub(crate) handed_over: u8,
    pub(crate) slot: Slot,
}

/// How long it took to open a connection. Small, because every request under way has room for one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opening {
    connect_micros: u32,
    /// 0 without TLS.
    tls_micros: u32,
}

impl Opening {
    pub(crate) fn note_connected(&mut self, took: Duration) {
        self.connect_micros = micros(took);
    }

    fn note_secured(&mut self, took: Duration) {
        self.tls_micros = micros(took.saturating_sub(self.connect())).max(1);
    }

    /// Until the endpoint had accepted it.
    pub fn connect(self) -> Duration {
        Duration::from_micros(self.connect_micros.into())
    }

    /// From then until keys were agreed on, with TLS.
    pub fn tls(self) -> Option<Duration> {
        (self.tls_micros > 0).then(|| Duration::from_micros(self.tls_micros.into()))
    }

    /// All of it.
    pub fn whole(self) -> Duration {
        self.connect() + self.tls().unwrap_or_default()
    }
}

fn micros(took: Duration) -> u32 {
    u32::try_from(took.as_micros()).unwrap_or(u32::MAX)
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
    alpn: Alpn,
) -> Result<Connection, Error> {
    let attempt = tokio::time::timeout(timeout, connect(endpoint, alpn));
    let (stream, opening) = match attempt.await {
        Ok(Ok(opened)) => opened,
        Ok(Err(kind)) => return Err(kind.into()),
        Err(_) => return Err(Kind::ConnectTimeout.into()),
    };
    Ok(Connection {
        stream,
        endpoint: Arc::clone(endpoint),
        opening,
        is_reused: false,
        was_waited_for: false,
        is_idle: false,
        handed_over: 0,
        slot,
    })
}

/// Connects, and agrees on keys where the endpoint speaks TLS; the caller bounds the time.
pub(crate) async fn connect(endpoint: &Endpoint, alpn: Alpn) -> Result<(Stream, Opening), Kind> {
    let failed = |kind| {
        move |error: io::Error| {
            let kind = if is_shortage(&error) { Kind::NoSocket } else { kind };
            endpoint.note_reason(kind, &error);
            kind
        }
    };
    let began = Instant::now();
    let mut stream = reach(&endpoint.address).await.map_err(failed(Kind::Connect))?;
    let mut opening = Opening::default();
    opening.note_connected(began.elapsed());
    if let Some(tls) = &endpoint.tls {
        Box::pin(tls::connect(&mut stream, tls, alpn)).await.map_err(failed(Kind::Tls))?;
        opening.note_secured(began.elapsed());
    }
    Ok((stream, opening))
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
