//! The name that a client asks for, read before anybody speaks TLS with it (RFC 8446 section 4.1.2, RFC 6066 section 3).

use super::{Refused, await_handshake};
use crate::clock::CoarseInstant;
use crate::transport::Transport;
use rustls::server::Acceptor;

/// What a ClientHello says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientHello {
    /// The name that the client asks for, in lower case and without a final dot; `None` if it asks for none.
    pub server_name: Option<String>,
}

/// Bytes that may come before a ClientHello is complete: those of browsers have some 2 KiB.
pub const MAX_HELLO: usize = 16 << 10;

/// Why a connection goes no further, as TLS says it (RFC 8446 section 6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Alert {
    /// What came cannot be read.
    DecodeError = 50,
    /// Nobody is there to go on with.
    InternalError = 80,
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
    read.ok_or(Refused::Gone)?.map_err(|why| Refused::Failed(why.to_owned()))
}

/// Tells a client that has not been spoken TLS with why its connection ends.
pub fn alert(transport: &Transport, alert: Alert) {
    // A record of version 1.2 as all are (RFC 8446 section 5.1), with two bytes: fatal, and what.
    let record = [21, 3, 3, 0, 2, 2, alert as u8];
    let fd = transport.stream.fd();
    let _ = rustix::net::send(fd, &record, rustix::net::SendFlags::NOSIGNAL);
    transport.stream.shut_down();
}

/// Reads a ClientHello that comes in pieces, each byte once.
#[derive(Default)]
struct HelloReader {
    acceptor: Acceptor,
    /// Bytes that the acceptor has.
    read: usize,
}

impl HelloReader {
    /// What the beginning of a connection says, as far as it has come: `unread` is all of it.
    fn read(&mut self, unread: &[u8]) -> Option<Result<ClientHello, &'static str>> {
        const BROKEN: &str = "what came is no ClientHello";
        let mut rest = unread.get(self.read..).unwrap_or_default();
        self.read = unread.len();
        while !rest.is_empty() {
            if self.acceptor.read_tls(&mut rest).is_err() {
                return Some(Err(BROKEN));
            }
            match self.acceptor.accept() {
                Ok(None) => {}
                Ok(Some(accepted)) => {
                    let name = accepted.client_hello().server_name().map(folded);
                    return Some(Ok(ClientHello { server_name: name }));
                }
                Err(_) => return Some(Err(BROKEN)),
            }
        }
        let is_too_large = unread.len() >= MAX_HELLO;
        is_too_large.then_some(Err("the ClientHello is longer than 16 KiB"))
    }
}

fn folded(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::pki_types::ServerName;
    use rustls::{ClientConfig, ClientConnection, RootCertStore};
    use std::sync::Arc;

    /// What a client sends first that asks for `name`.
    fn hello(name: &'static str) -> Vec<u8> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ClientConfig::builder_with_provider(provider);
        let config = config.with_safe_default_protocol_versions().unwrap();
        let config = config.with_root_certificates(RootCertStore::empty()).with_no_client_auth();
        let name = ServerName::try_from(name).unwrap();
        let mut bytes = Vec::new();
        ClientConnection::new(Arc::new(config), name).unwrap().write_tls(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn a_hello_is_read_whatever_pieces_it_comes_in() {
        let hello = hello("DB.example.com");
        for size in [1, 7, hello.len()] {
            let mut reader = HelloReader::default();
            for end in (size..hello.len()).step_by(size) {
                assert_eq!(reader.read(&hello[..end]), None, "{end}");
            }
            let read = reader.read(&hello).unwrap().unwrap();
            assert_eq!(read.server_name.as_deref(), Some("db.example.com"), "{size}");
        }
    }

    #[test]
    fn one_that_asks_for_an_address_asks_for_no_name() {
        let read = HelloReader::default().read(&hello("127.0.0.1")).unwrap().unwrap();
        assert_eq!(read.server_name, None);
    }

    #[test]
    fn one_in_several_records_is_read() {
        let whole = hello("a.example");
        let records = whole[5..].chunks(9).flat_map(|piece| {
            let length = u8::try_from(piece.len()).unwrap();
            [&[22, 3, 1, 0, length][..], piece].concat()
        });
        let read = HelloReader::default().read(&records.collect::<Vec<_>>()).unwrap().unwrap();
        assert_eq!(read.server_name.as_deref(), Some("a.example"));
    }

    #[test]
    fn what_is_none_or_does_not_end_is_refused() {
        let mut reader = HelloReader::default();
        assert!(reader.read(&[22, 3, 1, 0, 4, 2, 0, 0, 0]).unwrap().is_err(), "a ServerHello");
        assert!(HelloReader::default().read(b"\x16GET / HTTP/1.1\r\n\r\n").unwrap().is_err());
        // A message of 64 KiB in records of 4 KiB.
        let record = [&[22, 3, 1, 16, 0][..], &[0; 4_096]].concat();
        let mut endless = record.repeat(8);
        endless[5..9].copy_from_slice(&[1, 0, 255, 255]);
        let mut reader = HelloReader::default();
        assert_eq!(reader.read(&endless[..MAX_HELLO - 1]), None);
        assert!(reader.read(&endless[..MAX_HELLO]).unwrap().is_err());
    }
}
