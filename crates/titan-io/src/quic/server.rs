//! How handshakes are held, and what a client may use.

use super::handover::AT_ONCE;
use super::returning::validation_tokens;
use super::socket::Datagrams;
use super::token::TokenKey;
use crate::tls::ServerTls;
use aws_lc_rs::{hmac, rand};
use quinn_proto::{IdleTimeout, ServerConfig, TransportConfig, VarInt};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// The bounds of a connection below HTTP/3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuicLimits {
    /// Requests that a client may have open at the same time.
    pub streams: u32,
    /// Bytes that may be on their way, or wait to be read, on one stream.
    pub stream_window: u32,
    /// The same for all streams together.
    pub connection_window: u32,
    /// Bytes of the head of a request.
    pub head: u32,
    /// Bytes that were sent, and which the client has not acknowledged.
    pub send_window: u64,
    /// How long nothing may come from the client.
    pub idle: Duration,
}

impl QuicLimits {
    /// What a client remembers, and sends early data by.
    fn remembered(&self) -> Vec<u8> {
        let QuicLimits { streams, stream_window, connection_window, head, send_window: _, idle: _ } =
            self;
        [streams, stream_window, connection_window, head].map(|it| it.to_be_bytes()).concat()
    }
}

/// How handshakes are held, and what a client may use.
#[derive(Clone)]
pub struct QuicServer(pub(super) Arc<ServerConfig>);

/// The bounds of connections that this side opens.
#[derive(Clone)]
pub struct ClientTransport(pub(super) Arc<TransportConfig>);

/// Streams in one direction: three of HTTP/3, and some that mean nothing here (RFC 9114 section 6.2).
const UNI_STREAMS: u32 = 8;
/// How often a connection shows that it is alive within the time after which it is taken for dead.
const PINGS: u32 = 6;
/// The handshake of a client with a long chain of certificates.
const CRYPTO_BUFFER: usize = 64 << 10;
/// Connections whose first datagram has come, and which are not decided on: all that may be in one batch, which is decided on then.
const INCOMING: usize = AT_ONCE + Datagrams::BEGINNINGS;

impl QuicServer {
    /// Handshakes as the listener holds them, with these bounds, and with early data or without. None where the listener allows no suite of
    /// TLS 1.3 that QUIC can use.
    pub fn new(tls: &ServerTls, limits: &QuicLimits, early_data: bool) -> Option<QuicServer> {
        let early = early_data.then(|| limits.remembered());
        Some(QuicServer::of(ServerConfig::new(tls.quic(early)?, token_key()?), limits))
    }

    /// The same with the handshakes of `config`.
    pub(super) fn of(mut config: ServerConfig, limits: &QuicLimits) -> QuicServer {
        config.transport_config(Arc::new(transport(limits)));
        config.max_incoming(INCOMING).validation_token_config(validation_tokens());
        QuicServer(Arc::new(config))
    }

    /// Whether it is the very same.
    pub fn is(&self, other: &QuicServer) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

fn transport(limits: &QuicLimits) -> TransportConfig {
    let mut config = TransportConfig::default();
    config
        .max_concurrent_bidi_streams(VarInt::from_u32(limits.streams))
        .max_concurrent_uni_streams(VarInt::from_u32(UNI_STREAMS))
        .stream_receive_window(VarInt::from_u32(limits.stream_window))
        .receive_window(VarInt::from_u32(limits.connection_window))
        .send_window(limits.send_window)
        .max_idle_timeout(IdleTimeout::try_from(limits.idle).ok())
        .crypto_buffer_size(CRYPTO_BUFFER)
        // HTTP datagrams (RFC 9297) are not offered.
        .datagram_receive_buffer_size(None);
    config
}

impl ClientTransport {
    /// Those bounds. A server opens no streams but those of HTTP/3.
    pub fn new(limits: &QuicLimits) -> ClientTransport {
        let mut config = transport(&QuicLimits { streams: 0, ..*limits });
        // A response may take longer than nothing may come for.
        config.keep_alive_interval(Some(limits.idle / PINGS));
        ClientTransport(Arc::new(config))
    }
}

/// What address validation tokens are sealed with: those of one worker are good at all. None where the system has no randomness.
fn token_key() -> Option<Arc<TokenKey>> {
    static KEY: LazyLock<Option<Arc<TokenKey>>> =
        LazyLock::new(|| Some(Arc::new(TokenKey::new(&secret()?))));
    KEY.clone()
}

/// What the tokens of stateless resets are made with (RFC 9000 section 10.3), on all workers.
pub(super) fn reset_key() -> Option<Arc<hmac::Key>> {
    static KEY: LazyLock<Option<Arc<hmac::Key>>> =
        LazyLock::new(|| Some(Arc::new(hmac::Key::new(hmac::HMAC_SHA256, &secret()?))));
    KEY.clone()
}

fn secret() -> Option<[u8; 64]> {
    let mut secret = [0; 64];
    rand::fill(&mut secret).ok()?;
    Some(secret)
}
