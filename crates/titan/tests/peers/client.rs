//! A small client that notices everything: each response is read byte for byte as its head says.

use crate::wait::TIMEOUT;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

/// A connection to the gateway.
pub(crate) struct Client {
    reader: BufReader<TcpStream>,
}

/// A response that came as a whole.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: Vec<u8>,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> io::Result<Client> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        stream.set_nodelay(true)?;
        Ok(Client { reader: BufReader::new(stream) })
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.reader.get_mut().write_all(bytes)
    }

    /// The next response. A response that is cut off is an error.
    pub(crate) fn response(&mut self) -> io::Result<Response> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.reader.read_line(&mut head)? == 0 {
                let kind = match head.is_empty() {
                    true => io::ErrorKind::ConnectionAborted,
                    false => io::ErrorKind::UnexpectedEof,
                };
                return Err(kind.into());
            }
        }
        let status = head.get(9..12).and_then(|code| code.parse().ok());
        let status = status.unwrap_or_else(|| panic!("no status line: {head:?}"));
        let mut response = Response { status, head, body: Vec::new() };
        match (response.field("Content-Length"), response.field("Transfer-Encoding")) {
            (Some(length), None) => {
                response.body = vec![0; length.parse().unwrap()];
                self.reader.read_exact(&mut response.body)?;
            }
            (None, Some("chunked")) => self.chunks(&mut response.body)?,
            framing => panic!("neither length nor chunks: {framing:?}"),
        }
        Ok(response)
    }

    /// Reads a head that begins like this.
    pub(crate) fn head_with(&mut self, beginning: &str) -> io::Result<()> {
        let head = self.until("\r\n\r\n")?;
        assert!(head.starts_with(beginning), "{head:?}");
        Ok(())
    }

    /// Reads lines until what was read ends like this.
    pub(crate) fn until(&mut self, end: &str) -> io::Result<String> {
        let mut text = String::new();
        while !text.ends_with(end) {
            if self.reader.read_line(&mut text)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(text)
    }

    /// Reads exactly that.
    pub(crate) fn expect(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut read = vec![0; bytes.len()];
        self.reader.read_exact(&mut read)?;
        assert_eq!(read.escape_ascii().to_string(), bytes.escape_ascii().to_string());
        Ok(())
    }

    /// Sends nothing more.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.reader.get_mut().shutdown(Shutdown::Write)
    }

    /// Everything that comes until the connection ends, in whatever way.
    pub(crate) fn rest(&mut self) -> io::Result<String> {
        let mut bytes = Vec::new();
        match self.reader.read_to_end(&mut bytes) {
            Err(error) if error.kind() != io::ErrorKind::ConnectionReset => Err(error),
            _ => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        }
    }

    fn chunks(&mut self, body: &mut Vec<u8>) -> io::Result<()> {
        loop {
            let mut line = String::new();
            self.reader.read_line(&mut line)?;
            let line = line.strip_suffix("\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
            let size = usize::from_str_radix(line, 16).unwrap();
            let start = body.len();
            body.resize(start + size + 2, 0);
            self.reader.read_exact(&mut body[start..])?;
            assert!(body.ends_with(b"\r\n"), "a chunk without its end");
            body.truncate(start + size);
            if size == 0 {
                return Ok(());
            }
        }
    }
}

impl Response {
    /// The value of a field.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(": ")?;
            found.eq_ignore_ascii_case(name).then_some(value)
        })
    }

    /// Whether the connection can be used again.
    pub(crate) fn keeps_alive(&self) -> bool {
        self.field("Connection") != Some("close")
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

/// The page of metrics of a gateway, by its admin interface.
pub(crate) fn metrics(admin: SocketAddr) -> String {
    let mut client = Client::connect(admin).unwrap();
    client.send(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    client.response().unwrap().text().to_owned()
}
