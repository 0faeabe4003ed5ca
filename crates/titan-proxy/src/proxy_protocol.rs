//! The PROXY protocol, versions 1 and 2 (HAProxy's proxy-protocol.txt): who the client of a balancer is.

mod header;

use header::{Malformed, parse};
use std::net::IpAddr;
use titan_io::clock::CoarseInstant;
use titan_io::transport::Transport;

/// Why a connection that must start with a header does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadHeader {
    /// The bytes are no header of either version.
    Malformed,
    /// The connection ended, or time was up, before the header was complete.
    Incomplete,
}

/// Reads the header at the start of a connection, which has to be there until then. What follows it stays in the
/// inbox.
pub(crate) async fn read(
    transport: &mut Transport,
    deadline: CoarseInstant,
) -> Result<Option<IpAddr>, BadHeader> {
    let header = transport.read_until(deadline, |unread| parse(unread).transpose()).await;
    let header = header.ok_or(BadHeader::Incomplete)?.map_err(|Malformed| BadHeader::Malformed)?;
    transport.inbox.consume(header.length);
    Ok(header.client)
}
