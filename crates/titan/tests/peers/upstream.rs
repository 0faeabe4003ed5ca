//! A small upstream inside the test: a thread for each connection, a closure for each request.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

/// A request as the upstream sees it.
pub(crate) struct Request {
    /// Request line and fields.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

/// Responds to what comes to `listener` with the texts that `response` makes, until the test ends.
pub(crate) fn serve(
    listener: TcpListener,
    response: impl Fn(&Request) -> String + Send + Sync + 'static,
) -> SocketAddr {
    let address = listener.local_addr().unwrap();
    let response = Arc::new(response);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let response = Arc::clone(&response);
            thread::spawn(move || converse(stream, &*response));
        }
    });
    address
}

fn converse(stream: TcpStream, response: &dyn Fn(&Request) -> String) -> Option<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let request = Request::read(&mut reader)?;
        let text = response(&request);
        let length = text.len();
        let message = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{text}");
        reader.get_mut().write_all(message.as_bytes()).ok()?;
    }
}

impl Request {
    /// Reads one whose length is known.
    pub(crate) fn read(reader: &mut BufReader<TcpStream>) -> Option<Request> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).ok()? == 0 {
                return None;
            }
        }
        let mut request = Request { head, body: Vec::new() };
        let length = request.field("Content-Length").map_or(0, |length| length.parse().unwrap());
        request.body.resize(length, 0);
        reader.read_exact(&mut request.body).ok()?;
        Some(request)
    }

    /// The value of a field.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(": ")?;
            found.eq_ignore_ascii_case(name).then_some(value)
        })
    }
}
