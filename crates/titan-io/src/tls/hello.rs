//! The name that a client asks for, read before anybody speaks TLS with it (RFC 8446 section 4.1.2, RFC 6066 section 3).

use super::client_hello::{BadHello, HelloParser, MAX_HELLO, ReadHello};
use super::{Refused, await_handshake};
use crate::clock::CoarseInstant;
use crate::transport::Transport;
use rustls::pki_types::ServerName;

/// What a ClientHello says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientHello {
    /// The name that the client asks for, in lower case and without a final dot; `None` if it asks for none.
    pub server_name: Option<String>,
}

/// Why a connection goes no further, as TLS says it (RFC 8446 section 6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Alert {
    /// What came cannot be read.
    DecodeError = 50,
    /// The name that the client asks for is not served.
    UnrecognizedName = 112,
}

/// Reads the ClientHello by then, and leaves it where it is.
pub async fn read_hello(
    transport: &mut Transport,
    deadline: CoarseInstant,
) -> Result<ClientHello, Refused> {
    await_handshake(transport, deadline).await?;
    let mut reader = HelloReader::default();
    let read = transport.read_until(deadline, |unread| reader.read(unread)).await;
    read.ok_or(Refused::Gone)?.map_err(|why| Refused::Failed(why.text().to_owned()))
}

/// Tells a client that has not been spoken TLS with why its connection ends.
pub fn alert(transport: &Transport, alert: Alert) {
    // A record of version 1.2 as all are (RFC 8446 section 5.1), with two bytes: fatal, and what.
    let record = [21, 3, 3, 0, 2, 2, alert as u8];
    let fd = transport.stream.fd();
    let _ = rustix::net::send(fd, &record, rustix::net::SendFlags::NOSIGNAL);
    transport.stream.shut_down();
}

/// Reads a ClientHello that stays where it is, each byte once.
#[derive(Default)]
struct HelloReader {
    parser: HelloParser,
    /// Bytes that the parser has seen.
    read: usize,
}

impl HelloReader {
    /// What the beginning of a connection says, as far as it has come: `unread` is all of it.
    fn read(&mut self, unread: &[u8]) -> Option<Result<ClientHello, BadHello>> {
        let new = unread.get(self.read..).unwrap_or_default();
        self.read = unread.len();
        match self.parser.read(new) {
            Ok(None) if unread.len() >= MAX_HELLO => Some(Err(BadHello::TooLong)),
            Ok(None) => None,
            Ok(Some(ReadHello { name })) => Some(server_name(name)),
            Err(bad) => Some(Err(bad)),
        }
    }
}

/// What a client asks for with that name. Some ask for an address by mistake, and thereby for no name, as whoever holds the handshake
/// sees it.
fn server_name(name: Option<Vec<u8>>) -> Result<ClientHello, BadHello> {
    let name = name.map(|name| match ServerName::try_from(&*name) {
        Ok(ServerName::DnsName(name)) => Ok(Some(folded(name.as_ref()))),
        Ok(ServerName::IpAddress(_)) => Ok(None),
        _ => Err(BadHello::Name),
    });
    Ok(ClientHello { server_name: name.transpose()?.flatten() })
}

fn folded(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

#[cfg(test)]
mod tests;
