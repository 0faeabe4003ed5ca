//! The upstreams' endpoints: they tell which one they are, mirror bodies, and echo WebSockets (RFC 6455).

use crate::place::own_address;
use crate::upstream::Request;
use crate::wait::eventually;
use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::io::{BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;

/// Endpoints that serve until the process ends.
pub(super) struct Origins {
    pub(super) addresses: [SocketAddr; 3],
    /// Tells of each request to `/through/held`, which gets no response before it is released.
    pub(super) held: Receiver<()>,
    pub(super) release: SyncSender<()>,
}

/// The endpoint's end of holding a request.
struct Gate {
    holds: SyncSender<()>,
    released: Mutex<Receiver<()>>,
}

impl Origins {
    pub(super) fn start() -> Origins {
        let (holds, held) = sync_channel(1);
        let (release, released) = sync_channel(1);
        let gate = Arc::new(Gate { holds, released: Mutex::new(released) });
        let own = || vec![TcpListener::bind(own_address()).unwrap()];
        let mut index = 0..;
        let addresses = [own(), own(), listen_at_localhost()].map(|listeners| {
            let address = listeners[0].local_addr().unwrap();
            let index = index.next().unwrap();
            for listener in listeners {
                let gate = Arc::clone(&gate);
                thread::spawn(move || accept(&listener, index, &gate));
            }
            address
        });
        Origins { addresses, held, release }
    }
}

/// Wherever the name leads: one port at both addresses, where there is IPv6.
fn listen_at_localhost() -> Vec<TcpListener> {
    eventually("a port that is free at both addresses", || {
        let first = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = first.local_addr().unwrap().port();
        match TcpListener::bind((Ipv6Addr::LOCALHOST, port)) {
            Ok(second) => Some(vec![first, second]),
            Err(error) if error.kind() == ErrorKind::AddrInUse => None,
            Err(_) => Some(vec![first]),
        }
    })
}

fn accept(listener: &TcpListener, index: usize, gate: &Arc<Gate>) {
    for stream in listener.incoming().flatten() {
        let gate = Arc::clone(gate);
        thread::spawn(move || converse(stream, index, &gate));
    }
}

fn converse(stream: TcpStream, index: usize, gate: &Gate) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut reader = BufReader::new(stream);
    loop {
        let request = Request::read(&mut reader)?;
        if let Some(key) = request.field("Sec-WebSocket-Key") {
            let consent = format!(
                "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                 Sec-WebSocket-Accept: {}\r\n\r\n",
                accepted(key)
            );
            reader.get_mut().write_all(consent.as_bytes()).ok()?;
            return echo(&mut reader);
        }
        let target = request.head.split(' ').nth(1)?;
        if target == "/through/held" {
            gate.holds.send(()).ok()?;
            gate.released.lock().ok()?.recv().ok()?;
        }
        let body = match request.body.is_empty() {
            true => format!("{index} {target}").into_bytes(),
            false => request.body,
        };
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        reader.get_mut().write_all(&[head.as_bytes(), &body].concat()).ok()?;
    }
}

/// What shows that a key was understood (RFC 6455 section 4.2.2).
pub(super) fn accepted(key: &str) -> String {
    const PROOF: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    let text = format!("{key}{PROOF}");
    STANDARD.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes()))
}

/// Sends each message back until the tunnel ends.
fn echo(reader: &mut BufReader<TcpStream>) -> Option<()> {
    loop {
        let message = read_masked(reader)?;
        reader.get_mut().write_all(&frame(&message, None)).ok()?;
    }
}

/// A message in one frame: a client's, with its mask, or a server's.
pub(super) fn frame(message: &[u8], mask: Option<[u8; 4]>) -> Vec<u8> {
    const WHOLE_AND_BINARY: u8 = 0x82;
    let masked = if mask.is_some() { 0x80 } else { 0 };
    let mut frame = vec![WHOLE_AND_BINARY];
    match u8::try_from(message.len()) {
        Ok(length) if length < 126 => frame.push(masked | length),
        _ => {
            let length = u16::try_from(message.len()).expect("messages are short");
            frame.push(masked | 126);
            frame.extend(length.to_be_bytes());
        }
    }
    match mask {
        None => frame.extend(message),
        Some(mask) => {
            frame.extend(mask);
            frame.extend(message.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        }
    }
    frame
}

fn read_masked(reader: &mut impl Read) -> Option<Vec<u8>> {
    let mut head = [0; 2];
    reader.read_exact(&mut head).ok()?;
    let length = match head[1] & 0x7f {
        126 => {
            let mut length = [0; 2];
            reader.read_exact(&mut length).ok()?;
            u16::from_be_bytes(length).into()
        }
        length => usize::from(length),
    };
    let mut mask = [0; 4];
    reader.read_exact(&mut mask).ok()?;
    let mut message = vec![0; length];
    reader.read_exact(&mut message).ok()?;
    message.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
    Some(message)
}
