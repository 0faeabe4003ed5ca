//! A client that speaks HTTP/1.1.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::sample::{BODY, Connection, Failure, Kind, Method, sender};

/// A gateway, and the connections to it that wait for a request.
pub struct Client {
    to: SocketAddr,
    kept: RefCell<Vec<TcpStream>>,
}

/// The head of a response as far as it matters here.
struct Head {
    status: u16,
    body: usize,
    is_last: bool,
}

impl Client {
    pub fn new(to: SocketAddr) -> Self {
        Self { to, kept: RefCell::default() }
    }

    /// Sends a request; the name of the endpoint that has answered.
    pub async fn ask(&self, kind: Kind) -> Result<u8, Failure> {
        let mut stream = match self.waiting(kind) {
            Some(stream) => stream,
            None => TcpStream::connect(self.to).await.map_err(|_| Failure::Unreachable)?,
        };
        stream.write_all(&request(kind)).await.map_err(|_| Failure::Closed)?;
        let (head, body) = response(&mut stream).await?;
        if head.status != 200 {
            return Err(Failure::Status(head.status));
        }
        if kind.connection == Connection::Kept && !head.is_last {
            self.kept.borrow_mut().push(stream);
        }
        sender(&body)
    }

    /// A connection that is kept and that the gateway has not closed.
    fn waiting(&self, kind: Kind) -> Option<TcpStream> {
        if kind.connection == Connection::New {
            return None;
        }
        loop {
            let stream = self.kept.borrow_mut().pop()?;
            let read = stream.try_read(&mut [0]);
            if read.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
                return Some(stream);
            }
        }
    }
}

fn request(kind: Kind) -> Vec<u8> {
    const POSTED: &str = "a small order of goods, posted once\n";
    let (method, posted) = match kind.method {
        Method::Get => ("GET", ""),
        Method::Post => ("POST", POSTED),
    };
    let path = kind.method.path();
    let close = if kind.connection == Connection::New { "Connection: close\r\n" } else { "" };
    let length = match posted.len() {
        0 => String::new(),
        length => format!("Content-Length: {length}\r\n"),
    };
    format!("{method} {path} HTTP/1.1\r\nHost: chaos.test\r\n{close}{length}\r\n{posted}").into()
}

/// Reads a response; of a failure only the head.
async fn response(stream: &mut TcpStream) -> Result<(Head, Vec<u8>), Failure> {
    const LONGEST_HEAD: usize = 16 << 10;
    let mut read = Vec::with_capacity(2 * BODY);
    let end = loop {
        if let Some(end) = memchr::memmem::find(&read, b"\r\n\r\n") {
            break end + 4;
        }
        if read.len() > LONGEST_HEAD {
            return Err(Failure::Wrong);
        }
        more(stream, &mut read, Failure::Closed).await?;
    };
    let body = read.split_off(end);
    let head = Head::parse(&read).ok_or(Failure::Wrong)?;
    read = body;
    while head.status == 200 && read.len() < head.body {
        more(stream, &mut read, Failure::Cut).await?;
    }
    Ok((head, read))
}

/// Reads what is there; the failure that it is where nothing comes any more.
async fn more(stream: &mut TcpStream, read: &mut Vec<u8>, end: Failure) -> Result<(), Failure> {
    match stream.read_buf(read).await {
        Ok(0) | Err(_) => Err(end),
        Ok(_) => Ok(()),
    }
}

impl Head {
    /// None without a status, or without a length where there is a body.
    fn parse(head: &[u8]) -> Option<Self> {
        let head = str::from_utf8(head).ok()?.to_ascii_lowercase();
        let field = |name| {
            head.lines().find_map(|line: &str| Some(line.strip_prefix(name)?.trim().to_owned()))
        };
        let status = head.get(9..12)?.parse().ok()?;
        let length = field("content-length:").and_then(|length| length.parse().ok());
        let is_last = field("connection:").is_some_and(|value| value == "close");
        let body = if status == 200 { length? } else { 0 };
        Some(Self { status, body, is_last })
    }
}
