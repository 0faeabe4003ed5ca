//! One GET, on a thread that may block.

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};
use titan_config::Url;
use titan_h1::{BodyReader, Limits, ResponseReader};
use titan_http::{Method, ResponseHead, Status};

/// How long it may take in all, name resolution apart.
const TIME: Duration = Duration::from_secs(10);
/// Bytes of a key set.
const MAX_SET: u64 = 1 << 20;
/// Interim responses before the final one.
const MAX_INTERIM: usize = 4;

/// What is there. Redirects are not followed: a server that may move keys elsewhere may replace them.
pub(super) fn fetch(url: &Url, tls: Option<Arc<ClientConfig>>) -> Result<Vec<u8>, String> {
    let socket = Timed::connect(url).map_err(|error| error.to_string())?;
    let bytes = match tls {
        None if url.is_https => return Err("there is no trusted authority".to_owned()),
        None => upstream_call(socket, url),
        Some(config) => {
            let name = ServerName::try_from(url.host.clone()).map_err(|error| error.to_string())?;
            let session = ClientConnection::new(config, name).map_err(|error| error.to_string())?;
            upstream_call(StreamOwned::new(session, socket), url)
        }
    };
    bytes.map_err(|error| error.to_string())
}

/// A connection that has so much time left.
struct Timed {
    socket: TcpStream,
    deadline: Instant,
}

impl Timed {
    #[expect(clippy::disallowed_methods, reason = "this thread has nothing else to do than wait")]
    fn connect(url: &Url) -> io::Result<Timed> {
        let addresses = (url.host.as_str(), url.port).to_socket_addrs()?;
        let deadline = Instant::now() + TIME;
        let mut failed = io::Error::other("the host name has no address");
        for address in addresses {
            match TcpStream::connect_timeout(&address, left(deadline)?) {
                Ok(socket) => return Ok(Timed { socket, deadline }),
                Err(error) => failed = error,
            }
        }
        Err(failed)
    }
}

fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

impl Read for Timed {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.socket.set_read_timeout(Some(left(self.deadline)?))?;
        self.socket.read(into)
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.set_write_timeout(Some(left(self.deadline)?))?;
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

/// The request, and the body of its response.
fn upstream_call(mut stream: impl Read + Write, url: &Url) -> io::Result<Vec<u8>> {
    let Url { authority, target, .. } = url;
    write!(
        stream,
        "GET {target} HTTP/1.1\r\nHost: {authority}\r\nAccept: application/json\r\nConnection: close\r\n\r\n"
    )?;
    stream.flush()?;
    let limits = Limits { body: MAX_SET, ..Limits::default() };
    let mut received = Vec::new();
    let mut interim = 0;
    let framing = loop {
        if let Some(start) = read_head(&limits, &mut received, &mut interim)? {
            break start;
        }
        if !more(&mut stream, &mut received)? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    };
    let mut reader = BodyReader::new(framing, &limits);
    // `new` leaves a declared length unjudged.
    reader.set_limit(MAX_SET).map_err(io::Error::other)?;
    let mut body = Vec::new();
    loop {
        let piece = reader.read(&received).map_err(io::Error::other)?;
        body.extend_from_slice(&received[piece.data]);
        received.drain(..piece.consumed);
        if piece.done {
            return Ok(body);
        }
        if piece.consumed == 0 && !more(&mut stream, &mut received)? {
            return reader.end_of_input().map(|()| body).map_err(io::Error::other);
        }
    }
}

/// Reads the head of the final response, and leaves what is behind it; nothing where it is not complete.
fn read_head(
    limits: &Limits,
    received: &mut Vec<u8>,
    interim: &mut usize,
) -> io::Result<Option<titan_h1::Framing>> {
    while *interim <= MAX_INTERIM {
        let mut head = ResponseHead::default();
        let read = ResponseReader::new(*limits).read(received, Method::GET, &mut head);
        let Some(start) = read.map_err(io::Error::other)? else { return Ok(None) };
        received.drain(..start.consumed);
        match head.status {
            _ if start.interim => *interim += 1,
            Status::OK => return Ok(Some(start.framing)),
            status => return Err(io::Error::other(format!("the response has status {status}"))),
        }
    }
    Err(io::Error::other("there are too many interim responses"))
}

fn more(stream: &mut impl Read, received: &mut Vec<u8>) -> io::Result<bool> {
    let mut some = [0; 8192];
    let count = stream.read(&mut some)?;
    received.extend_from_slice(&some[..count]);
    Ok(count > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An endpoint that sends this text, that many bytes at a time.
    struct Script {
        says: Vec<u8>,
        at_once: usize,
        heard: Vec<u8>,
    }

    impl Read for Script {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let count = self.at_once.min(self.says.len()).min(into.len());
            into[..count].copy_from_slice(&self.says[..count]);
            self.says.drain(..count);
            Ok(count)
        }
    }

    impl Write for Script {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.heard.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What comes of a response; the same however it arrives.
    fn gets(response: &str) -> Result<String, String> {
        let url = Url {
            text: "http://a:8080/keys?x".to_owned(),
            is_https: false,
            host: "a".to_owned(),
            port: 8080,
            authority: "a:8080".to_owned(),
            target: "/keys?x".to_owned(),
        };
        let results = [1, 7, usize::MAX].map(|at_once| {
            let mut script = Script { says: response.into(), at_once, heard: Vec::new() };
            let got = upstream_call(&mut script, &url).map_err(|error| error.to_string());
            assert!(script.heard.starts_with(b"GET /keys?x HTTP/1.1\r\nHost: a:8080\r\n"));
            got.map(|bytes| String::from_utf8(bytes).unwrap())
        });
        assert_eq!(results[0], results[1]);
        assert_eq!(results[1], results[2]);
        results[0].clone()
    }

    #[test]
    fn responses_are_read_whatever_their_framing() {
        let start = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n";
        for rest in [
            "Content-Length: 4\r\n\r\nkeys",
            "Transfer-Encoding: chunked\r\n\r\n2\r\nke\r\n2\r\nys\r\n0\r\n\r\n",
            "\r\nkeys",
        ] {
            assert_eq!(gets(&format!("{start}{rest}")), Ok("keys".to_owned()), "{rest}");
        }
    }

    #[test]
    fn nothing_else_is_taken_for_keys() {
        for response in [
            "",
            "HTTP/1.1 200",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nkeys",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nkeys\r\n",
            "HTTP/1.1 302 Found\r\nLocation: /other\r\nContent-Length: 4\r\n\r\nkeys",
            "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nkeys",
            "HTTP/1.1 204 No Content\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1048577\r\n\r\nkeys",
            "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nkeys",
            &"HTTP/1.1 100 Continue\r\n\r\n".repeat(6),
            "SSH-2.0-OpenSSH\r\n",
        ] {
            assert!(gets(response).is_err(), "{response}");
        }
        let endless = format!("HTTP/1.1 200 OK\r\n\r\n{}", "x".repeat(1_048_577));
        let mut script = Script { says: endless.into(), at_once: usize::MAX, heard: Vec::new() };
        let url = Url {
            text: String::new(),
            is_https: false,
            host: "a".to_owned(),
            port: 80,
            authority: "a".to_owned(),
            target: "/".to_owned(),
        };
        assert!(upstream_call(&mut script, &url).is_err());
    }
}
