//! Connections over QUIC, and how they are opened.

use super::Sharing;
use crate::connection::Opening;
use crate::endpoint::Endpoint;
use crate::slots::Slot;
use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;
use titan_io::error::{Kind, is_shortage};
use titan_io::quic::{Datagrams, DialError, Dialed, Dialing};
use titan_io::tls::EndpointTls;

/// A connection over QUIC, to be shared. It counts against the endpoint's limit until it is dropped.
pub(crate) struct QuicConnection {
    pub(crate) dialed: Dialed,
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) _slot: Slot,
}

/// Connects over QUIC; the caller bounds the time.
pub(crate) async fn dial(
    endpoint: &Endpoint,
    tls: &EndpointTls,
    (sharing, memory): (&Sharing, &Rc<RefCell<Datagrams>>),
) -> Result<(Dialed, Opening), Kind> {
    let failed = |kind, error: &io::Error| {
        let kind = if is_shortage(error) { Kind::NoSocket } else { kind };
        endpoint.note_reason(kind, error);
        kind
    };
    let Some(to) = endpoint.address.on_network() else { return Err(Kind::Connect) };
    let began = Instant::now();
    let dialing = Dialing { tls, transport: &sharing.quic, limits: sharing.h3, memory };
    let mut dialed = Dialed::open(to, &dialing).map_err(|error| failed(Kind::Connect, &error))?;
    let connected = poll_fn(|cx| dialed.poll_connected(cx)).await;
    connected.map_err(|error| match error {
        DialError::Unreachable(error) => failed(Kind::Connect, &error),
        DialError::Handshake(error) => failed(Kind::Tls, &error),
    })?;
    let mut opening = Opening::default();
    opening.note_connected(began.elapsed());
    Ok((dialed, opening))
}
