//! How a connection becomes a WebSocket tunnel: one request, and the response that proves it was understood.

use memchr::memmem;
use titan_bench::net::Moved;
use titan_bench::websocket;

use crate::fault::Fault;
use crate::transport::Transport;

/// A longer head is a fault.
const MAX_HEAD: usize = 16 * 1024;

/// A tunnel that is not open yet.
pub struct Opening {
    /// What is not written of the request.
    unsent: Vec<u8>,
    /// What came of the response.
    head: Vec<u8>,
}

impl Opening {
    pub fn new(request: &[u8]) -> Self {
        Self { unsent: request.to_vec(), head: Vec::new() }
    }

    pub fn write(&mut self, transport: &mut Transport) -> Result<(), Fault> {
        while !self.unsent.is_empty() {
            match transport.write(&self.unsent)? {
                Moved::Bytes(count) => drop(self.unsent.drain(..count)),
                Moved::Blocked => break,
                Moved::Closed => return Err(Fault::Cut { owed: 1 }),
            }
        }
        Ok(())
    }

    /// Takes more of the response. True when the tunnel is open; the server has nothing to say before it is asked.
    pub fn take(&mut self, input: &[u8]) -> Result<bool, Fault> {
        self.head.extend_from_slice(input);
        match memmem::find(&self.head, b"\r\n\r\n").map(|at| at + 4) {
            Some(end) if end < self.head.len() => Err(Fault::Surplus(self.head.len() - end)),
            Some(_) if opens(&self.head) => Ok(true),
            None if self.head.len() <= MAX_HEAD => Ok(false),
            _ => {
                let start = &self.head[..self.head.len().min(200)];
                Err(Fault::NoTunnel(String::from_utf8_lossy(start).into_owned()))
            }
        }
    }
}

/// Whether a whole head says what RFC 6455, section 4.1 asks for.
fn opens(head: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(head) else { return false };
    let mut lines = text.trim_end().split("\r\n");
    let switches = lines.next().is_some_and(|line| line.starts_with("HTTP/1.1 101"));
    let fields: Vec<(&str, &str)> = lines.filter_map(|line| line.split_once(':')).collect();
    let value = |name: &str| {
        let mut found = fields.iter().filter(|field| field.0.eq_ignore_ascii_case(name));
        found.next().map(|field| field.1.trim()).unwrap_or_default()
    };
    switches
        && value("upgrade").eq_ignore_ascii_case("websocket")
        && value("connection").eq_ignore_ascii_case("upgrade")
        && value("sec-websocket-accept") == websocket::ACCEPT
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "HTTP/1.1 101 Switching Protocols\r\nupgrade: WebSocket\r\nConnection: Upgrade\r\n\
                        Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

    #[test]
    fn the_right_response_opens_at_every_split() {
        for at in 1..HEAD.len() {
            let mut opening = Opening::new(b"");
            assert!(!opening.take(&HEAD.as_bytes()[..at]).expect("it is right so far"));
            assert!(opening.take(&HEAD.as_bytes()[at..]).expect("it is right"));
        }
    }

    #[test]
    fn any_other_response_does_not() {
        for (right, wrong) in [("101", "200"), ("WebSocket", "h2c"), ("xOo=", "xOp=")] {
            let head = HEAD.replace(right, wrong);
            let taken = Opening::new(b"").take(head.as_bytes());
            assert!(matches!(taken, Err(Fault::NoTunnel(_))), "{head}");
        }
    }
}
