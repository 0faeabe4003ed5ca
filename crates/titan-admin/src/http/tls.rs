//! TLS in front of a server, which can be exchanged while it runs.

use super::stream::Stream;
use arc_swap::ArcSwapOption;
use rustls::ServerConfig;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

/// What connections begin with; nothing by default. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct Tls(Arc<ArcSwapOption<ServerConfig>>);

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);

impl Tls {
    /// New connections begin so.
    pub fn set(&self, config: Option<Arc<ServerConfig>>) {
        self.0.store(config);
    }

    /// What a connection is to begin with now.
    pub(super) fn acceptor(&self) -> Option<TlsAcceptor> {
        self.0.load_full().map(TlsAcceptor::from)
    }
}

/// Performs a handshake.
pub(super) async fn secure(
    acceptor: TlsAcceptor,
    stream: Box<dyn Stream>,
) -> io::Result<Box<dyn Stream>> {
    Ok(Box::new(timeout(HANDSHAKE, acceptor.accept(stream)).await??))
}
