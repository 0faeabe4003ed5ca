//! The origin: the backend behind every proxy, as cheap as it can be so that it does not limit them.
//!
//! One thread, one epoll, fixed answers laid out before the first connection. It keeps connections
//! open, answers pipelined requests in order with one write, and checks posted bodies byte for byte.
//!
//! Usage: origin LISTEN-ADDRESS

mod answers;
mod conn;
mod head;

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};

use titan_bench::net;
use titan_bench::poll::{Poller, Ready};

use crate::answers::Answers;
use crate::conn::{Conn, Fate};

/// One read takes at most this much.
const BUFFER: usize = 64 * 1024;

struct Origin {
    poller: Poller,
    listener: OwnedFd,
    /// By descriptor number.
    conns: Vec<Option<Conn>>,
    answers: Answers,
    buffer: Box<[u8]>,
}

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [listen] = arguments.as_slice() else {
        return Err(io::Error::other("usage: origin LISTEN-ADDRESS"));
    };
    Origin::bind(listen.parse().map_err(io::Error::other)?)?.run()
}

impl Origin {
    fn bind(listen: SocketAddr) -> io::Result<Self> {
        let (poller, listener) = (Poller::new()?, net::listen(listen)?);
        poller.add_listener(&listener, listener.as_raw_fd() as usize)?;
        let buffer = vec![0; BUFFER].into_boxed_slice();
        Ok(Self { poller, listener, conns: Vec::new(), answers: Answers::lay_out(), buffer })
    }

    fn run(mut self) -> io::Result<()> {
        let listener = self.listener.as_raw_fd() as usize;
        loop {
            self.poller.wait(None)?;
            for index in 0..self.poller.count() {
                match self.poller.ready(index) {
                    ready if ready.token == listener => self.accept_waiting()?,
                    ready => self.serve(ready),
                }
            }
        }
    }

    fn accept_waiting(&mut self) -> io::Result<()> {
        while let Some(socket) = net::accept(&self.listener)? {
            let token = socket.as_raw_fd() as usize;
            self.poller.add(&socket, token)?;
            if self.conns.len() <= token {
                self.conns.resize_with(token + 1, || None);
            }
            self.conns[token] = Some(Conn::new(socket));
        }
        Ok(())
    }

    fn serve(&mut self, ready: Ready) {
        let Some(Some(conn)) = self.conns.get_mut(ready.token) else { return };
        if conn.on_ready(ready, &mut self.answers, &mut self.buffer) == Fate::Close {
            self.conns[ready.token] = None;
        }
    }
}
