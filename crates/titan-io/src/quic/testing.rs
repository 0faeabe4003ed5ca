//! For tests: clients of QUIC that send what they are told, without sockets and in a time of their own.

use super::token::TokenKey;
use aws_lc_rs::hmac;
use bytes::BytesMut;
use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Endpoint, EndpointConfig,
    ServerConfig,
};
use rustls::pki_types::PrivatePkcs8KeyDer;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

/// A client and its connection.
pub(super) struct TestClient {
    endpoint: Endpoint,
    handle: ConnectionHandle,
    pub(super) quic: Connection,
}

/// Where clients send from, and to.
pub(super) fn addresses() -> (SocketAddr, SocketAddr) {
    ((Ipv4Addr::LOCALHOST, 4444).into(), (Ipv4Addr::LOCALHOST, 443).into())
}

impl TestClient {
    /// One that begins a handshake.
    pub(super) fn new(config: ClientConfig, now: Instant) -> TestClient {
        let own = Arc::new(endpoint_config());
        let mut endpoint = Endpoint::new(own, None, false, None);
        let (handle, quic) = endpoint.connect(now, config, addresses().1, "localhost").unwrap();
        TestClient { endpoint, handle, quic }
    }

    /// The datagrams that it sends now.
    pub(super) fn sends(&mut self, now: Instant) -> Vec<BytesMut> {
        tell(&mut self.endpoint, self.handle, &mut self.quic);
        sent(&mut self.quic, now)
    }

    pub(super) fn hears(&mut self, now: Instant, datagram: BytesMut) {
        let from = addresses().1;
        let event = self.endpoint.handle(now, from, None, None, datagram, &mut Vec::new());
        if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
            self.quic.handle_event(event);
        }
    }
}

/// Hands on what a connection and its endpoint have for each other.
pub(super) fn tell(endpoint: &mut Endpoint, handle: ConnectionHandle, quic: &mut Connection) {
    while let Some(event) = quic.poll_endpoint_events() {
        if let Some(event) = endpoint.handle_event(handle, event) {
            quic.handle_event(event);
        }
    }
}

/// The datagrams that a connection sends now, one by one.
pub(super) fn sent(quic: &mut Connection, now: Instant) -> Vec<BytesMut> {
    if quic.poll_timeout().is_some_and(|due| due <= now) {
        quic.handle_timeout(now);
    }
    let next = || {
        let mut out = Vec::new();
        quic.poll_transmit(now, 1, &mut out).map(|sent| BytesMut::from(&out[..sent.size]))
    };
    std::iter::from_fn(next).collect()
}

pub(super) fn endpoint_config() -> EndpointConfig {
    EndpointConfig::new(Arc::new(hmac::Key::new(hmac::HMAC_SHA256, &[7; 64])))
}

/// How a server and its clients hold handshakes: a client that comes back may send early data.
pub(super) fn configs() -> (ServerConfig, ClientConfig) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let versions = [&rustls::version::TLS13];
    let server = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider));
    let server = server.with_protocol_versions(&versions).unwrap().with_no_client_auth();
    let mut server = server.with_single_cert(vec![made.cert.der().clone()], key.into()).unwrap();
    server.max_early_data_size = u32::MAX;
    let server = Arc::new(QuicServerConfig::try_from(server).unwrap());
    let mut roots = rustls::RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let client = rustls::ClientConfig::builder_with_provider(provider);
    let client = client.with_protocol_versions(&versions).unwrap();
    let mut client = client.with_root_certificates(roots).with_no_client_auth();
    client.enable_early_data = true;
    let client = Arc::new(QuicClientConfig::try_from(client).unwrap());
    let tokens = Arc::new(TokenKey::new(&[7; 64]));
    (ServerConfig::new(server, tokens), ClientConfig::new(client))
}
