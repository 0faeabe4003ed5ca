//! An accepted connection of any kind.

use tokio::io::{AsyncRead, AsyncWrite};

/// TCP, a Unix socket, or TLS over one of them.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}
