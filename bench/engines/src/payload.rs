//! The requests and the exact responses that the origin and the load generator agree on.
//!
//! Small responses come in [`VARIANTS`] different texts, and the load generator asks for them in turn: an
//! answer that a proxy delivers to the wrong request or out of order has the wrong bytes. So do calls and
//! messages, which are echoed.

use std::fmt::Write as _;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use crate::websocket;

/// How many different small answers there are: `/small/0` and so on.
pub const VARIANTS: usize = 16;
/// The largest body, either way.
pub const LARGEST: usize = 1024 * 1024;
const SMALL: usize = 128;
const MEDIUM: usize = 30 * 1024;
/// The least bytes of the JSON text.
const JSON: usize = 30 * 1024;
/// Bytes of what is echoed.
const MESSAGE: usize = 64;

/// The gRPC method that responses with the message it is sent.
pub const CALL_PATH: &str = "/bench.Echo/Say";

/// What a scenario asks the origin for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    /// GET of 128 bytes.
    Small,
    /// GET of 30 KiB.
    Body30k,
    /// GET of 1 MiB.
    Body1m,
    /// GET of 30 KiB of JSON.
    Json,
    /// POST of that many bytes, at most [`LARGEST`]; the response names their count and checksum.
    Post(usize),
    /// A unary gRPC call with a message of 64 bytes, which is the response too.
    Call,
    /// A WebSocket message of 64 bytes, which is the response too.
    Message,
}

/// A request, whatever carries it.
pub struct Ask {
    /// GET or POST.
    pub method: &'static str,
    /// Where to.
    pub path: String,
    /// What is posted.
    pub body: Vec<u8>,
}

impl Target {
    /// How many different requests there are.
    pub fn variants(self) -> usize {
        match self {
            Self::Small | Self::Call | Self::Message => VARIANTS,
            Self::Body30k | Self::Body1m | Self::Json | Self::Post(_) => 1,
        }
    }

    /// The request as such. A message has none of its own: it travels in the tunnel that one opened.
    pub fn ask(self, variant: usize) -> Ask {
        let (method, path, body) = match self {
            Self::Small => ("GET", format!("/small/{variant}"), Vec::new()),
            Self::Body30k => ("GET", "/30k".to_owned(), Vec::new()),
            Self::Body1m => ("GET", "/1m".to_owned(), Vec::new()),
            Self::Json => ("GET", "/json".to_owned(), Vec::new()),
            Self::Post(size) => ("POST", "/post".to_owned(), pattern()[..size].to_vec()),
            Self::Call => ("POST", CALL_PATH.to_owned(), call(variant)),
            Self::Message => ("GET", websocket::PATH.to_owned(), Vec::new()),
        };
        Ask { method, path, body }
    }

    /// The bytes written on a connection of HTTP/1.1, or in a tunnel. `last` asks both sides to close the
    /// connection after the response.
    pub fn request(self, variant: usize, last: bool) -> Vec<u8> {
        self.request_with("", variant, last)
    }

    /// The same with more field lines, each with its line end.
    pub fn request_with(self, fields: &str, variant: usize, last: bool) -> Vec<u8> {
        if self == Self::Message {
            return websocket::masked(&text("message", variant, MESSAGE));
        }
        let Ask { method, path, body } = self.ask(variant);
        let mut request = format!(
            "{method} {path} HTTP/1.1\r\nHost: bench.example\r\nUser-Agent: titan-bench\r\nAccept: */*\r\n{fields}"
        )
        .into_bytes();
        if method == "POST" {
            request.extend_from_slice(format!("Content-Length: {}\r\n", body.len()).as_bytes());
        }
        request.extend_from_slice(if last { b"Connection: close\r\n\r\n" } else { b"\r\n" });
        request.extend_from_slice(&body);
        request
    }

    /// The bytes that the response's body must consist of; for a message, its frame.
    pub fn answer(self, variant: usize) -> Vec<u8> {
        match self {
            Self::Small => text("small answer", variant, SMALL),
            Self::Body30k => pattern()[..MEDIUM].to_vec(),
            Self::Body1m => pattern().to_vec(),
            Self::Json => json(),
            Self::Post(size) => receipt(size),
            Self::Call => call(variant),
            Self::Message => websocket::plain(&text("message", variant, MESSAGE)),
        }
    }
}

/// Bytes without a period, the same in every process: a lost, doubled or shifted one shows.
pub fn pattern() -> &'static [u8] {
    static PATTERN: OnceLock<Vec<u8>> = OnceLock::new();
    PATTERN.get_or_init(|| {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        (0..LARGEST).map(|_| next_byte(&mut state)).collect()
    })
}

/// A list of records as an API responses with: names that repeat, identifiers, times and numbers that do not.
pub fn json() -> Vec<u8> {
    const WORDS: [&str; 16] = [
        "amber", "basin", "cedar", "delta", "ember", "fjord", "grove", "haven", "inlet", "jetty",
        "knoll", "ledge", "marsh", "north", "oasis", "pines",
    ];
    let mut bytes = pattern()
        .chunks_exact(16)
        .map(|record| u128::from_le_bytes(record.try_into().unwrap_or_default()));
    let mut text = String::from("[");
    while text.len() < JSON {
        let random = bytes.next().unwrap_or_default();
        let part = |shift: u32, below: u128| (random >> shift) % below;
        let word = |shift: u32| WORDS[part(shift, 16) as usize];
        let (first, second, third) = (word(0), word(4), word(8));
        let separator = if text.len() > 1 { "," } else { "" };
        let _ = write!(
            text,
            "{separator}{{\"id\":\"{:016x}\",\"name\":\"{first} {second}\",\"email\":\"{first}.{second}@{third}.example\",\
             \"created\":\"2026-{:02}-{:02}T{:02}:{:02}:{:02}Z\",\"balance\":{}.{:02},\"active\":{},\
             \"tags\":[\"{second}\",\"{third}\"],\"address\":{{\"street\":\"{} {third} street\",\"city\":\"{first}\"}}}}",
            random >> 64,
            1 + part(12, 12),
            1 + part(16, 28),
            part(20, 24),
            part(24, 60),
            part(28, 60),
            part(32, 10_000),
            part(48, 100),
            part(60, 2) == 0,
            1 + part(52, 200),
        );
    }
    text.push(']');
    text.into_bytes()
}

/// The response to a POST of the pattern's first `size` bytes.
pub fn receipt(size: usize) -> Vec<u8> {
    let sum = pattern()[..size].iter().fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3)
    });
    format!("{size} bytes, fnv1a {sum:016x}\n").into_bytes()
}

/// A message behind the bytes that gRPC puts before it: not compressed, and its length.
fn call(variant: usize) -> Vec<u8> {
    let message = text("call", variant, MESSAGE);
    let mut framed = vec![0];
    framed.extend_from_slice(&u32::try_from(message.len()).unwrap_or(u32::MAX).to_be_bytes());
    framed.extend_from_slice(&message);
    framed
}

fn text(what: &str, variant: usize, size: usize) -> Vec<u8> {
    let mut body = format!("{what} {variant:02}: ").into_bytes();
    body.extend((body.len()..size - 1).map(|index| b'a' + (index % 26) as u8));
    body.push(b'\n');
    body
}

/// xorshift64: good enough to have no short period.
fn next_byte(state: &mut u64) -> u8 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 32) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_responses_calls_and_messages_have_one_length_and_differ() {
        for (target, length) in
            [(Target::Small, 128), (Target::Call, 5 + 64), (Target::Message, 2 + 64)]
        {
            let answers: Vec<_> = (0..VARIANTS).map(|variant| target.answer(variant)).collect();
            assert!(answers.iter().all(|answer| answer.len() == length));
            assert!((1..VARIANTS).all(|variant| answers[variant] != answers[0]));
        }
    }

    #[test]
    fn the_json_is_json() {
        let records: Vec<serde_json::Value> =
            serde_json::from_slice(&json()).expect("it is a list");
        assert!(records.len() > 100 && records[0]["name"].is_string());
    }

    #[test]
    fn a_post_carries_its_length_and_body() {
        let request = Target::Post(3).request(0, false);
        let text = String::from_utf8_lossy(&request);
        assert!(text.contains("Content-Length: 3\r\n\r\n"));
        assert!(request.ends_with(&pattern()[..3]));
    }
}
