//! A name server for the endpoints: one name, whatever it is asked for.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// The name of the endpoints.
pub const NAME: &str = "endpoints.chaos.test";

/// A name server that serves until this value is dropped.
pub struct Names {
    pub address: SocketAddr,
    answer: Arc<Mutex<Option<Answer>>>,
}

/// The addresses that the name has; none where the server only has errors.
type Answer = Option<Vec<Ipv4Addr>>;

const TTL_SECONDS: u32 = 1;
/// The server looks so often whether it is still needed.
const GLANCE: Duration = Duration::from_millis(200);

impl Names {
    pub fn start(addresses: Vec<Ipv4Addr>) -> io::Result<Self> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.set_read_timeout(Some(GLANCE))?;
        let address = socket.local_addr()?;
        let answer = Arc::new(Mutex::new(Some(Some(addresses))));
        let shared = Arc::clone(&answer);
        // Names are asked for while the driver waits for a gateway: so a thread of its own.
        thread::spawn(move || serve(&socket, &shared));
        Ok(Self { address, answer })
    }

    /// Answers with these addresses from now on, or with errors.
    pub fn answer(&self, answer: Answer) {
        self.set(Some(answer));
    }

    fn set(&self, answer: Option<Answer>) {
        *self.answer.lock().unwrap_or_else(PoisonError::into_inner) = answer;
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        self.set(None);
    }
}

fn serve(socket: &UdpSocket, shared: &Mutex<Option<Answer>>) {
    let mut query = [0; 1232];
    loop {
        let received = socket.recv_from(&mut query);
        let Some(answer) = shared.lock().unwrap_or_else(PoisonError::into_inner).clone() else {
            return;
        };
        if let Ok((length, from)) = received
            && let Some(message) = message(&query[..length], answer.as_deref())
        {
            let _ = socket.send_to(&message, from);
        }
    }
}

/// The answer to a query (RFC 1035 section 4), whose question it repeats; further sections, as of EDNS, it does not.
fn message(query: &[u8], addresses: Option<&[Ipv4Addr]>) -> Option<Vec<u8>> {
    const HEADER: usize = 12;
    const IPV4: [u8; 2] = [0, 1];
    const NAME_OF_THE_QUESTION: [u8; 2] = [0xc0, HEADER as u8];
    const SERVER_FAILURE: u8 = 2;
    let name = query.get(HEADER..)?;
    let question = HEADER + memchr::memchr(0, name)? + 1 + 4;
    let kind = query.get(question - 4..question - 2)?;
    let known = if kind == IPV4 { addresses.unwrap_or_default() } else { &[] };
    let error = if addresses.is_none() { SERVER_FAILURE } else { 0 };
    let mut message = query.get(..question)?.to_vec();
    message[2] = 0x81;
    message[3] = 0x80 | error;
    message[4..HEADER].copy_from_slice(&[0, 1, 0, u8::try_from(known.len()).ok()?, 0, 0, 0, 0]);
    for address in known {
        message.extend(NAME_OF_THE_QUESTION);
        message.extend([0, 1, 0, 1]);
        message.extend(TTL_SECONDS.to_be_bytes());
        message.extend([0, 4]);
        message.extend(address.octets());
    }
    Some(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUERY: &[u8] =
        b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x01\x01a\x00\x00\x01\x00\x01more";

    #[test]
    fn a_question_is_answered_with_addresses_or_an_error() {
        let answer = message(QUERY, Some(&[Ipv4Addr::LOCALHOST])).expect("it is a query");
        assert_eq!(&answer[..12], b"\x12\x34\x81\x80\x00\x01\x00\x01\x00\x00\x00\x00");
        assert!(
            answer.ends_with(b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x01\x00\x04\x7f\x00\x00\x01")
        );
        let answer = message(QUERY, None).expect("it is a query");
        assert_eq!(&answer[2..8], b"\x81\x82\x00\x01\x00\x00");
    }

    #[test]
    fn what_is_no_query_gets_no_answer() {
        for length in 0..19 {
            assert_eq!(message(&QUERY[..length], None), None, "{length}");
        }
    }
}
