//! WebSocket (RFC 6455) as far as an echo of short messages needs it: one way to open, frames of one size class.

/// What is asked to become a tunnel.
pub const PATH: &str = "/echo";

/// The nonce that every tunnel is opened with, and what proves that it was understood: RFC 6455, section 1.3.
pub const KEY: &str = "dGhlIHNhbXBsZSBub25jZQ==";
/// See [`KEY`].
pub const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";

/// A longer payload would have a longer length field.
pub const LONGEST: usize = 125;

/// The final, only frame of a text message.
const TEXT: u8 = 0x81;
const MASKED: u8 = 0x80;
const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

/// The request that opens a tunnel.
pub fn opening() -> Vec<u8> {
    format!(
        "GET {PATH} HTTP/1.1\r\nHost: bench.example\r\nUser-Agent: titan-bench\r\n\
         Connection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\n\r\n"
    )
    .into_bytes()
}

/// A message as a client sends it.
pub fn masked(payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![TEXT, MASKED | length(payload)];
    frame.extend_from_slice(&MASK);
    frame.extend(payload.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

/// A message as a server sends it.
pub fn plain(payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![TEXT, length(payload)];
    frame.extend_from_slice(payload);
    frame
}

/// What the front of a client's bytes is.
#[derive(Debug, PartialEq, Eq)]
pub enum Front {
    /// Not a whole frame yet.
    Partial,
    /// A message of that many bytes, frame included, and the frame that echoes it.
    Message(usize, Vec<u8>),
    /// Anything that this benchmark's client does not send.
    Other,
}

/// Reads one frame of a client.
pub fn read(input: &[u8]) -> Front {
    let &[first, second, ref rest @ ..] = input else { return Front::Partial };
    let length = usize::from(second & !MASKED);
    if first != TEXT || second & MASKED == 0 || length > LONGEST {
        return Front::Other;
    }
    let Some((mask, rest)) = rest.split_first_chunk::<4>() else { return Front::Partial };
    let Some(payload) = rest.get(..length) else { return Front::Partial };
    let payload: Vec<u8> =
        payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask).collect();
    Front::Message(2 + mask.len() + length, plain(&payload))
}

fn length(payload: &[u8]) -> u8 {
    assert!(payload.len() <= LONGEST, "messages here are short");
    payload.len() as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_masked_message_is_read_as_it_was_at_every_length_of_input() {
        let frame = masked(b"hello");
        for end in 0..frame.len() {
            assert_eq!(read(&frame[..end]), Front::Partial);
        }
        let more = [frame.as_slice(), b"next"].concat();
        assert_eq!(read(&more), Front::Message(frame.len(), b"\x81\x05hello".to_vec()));
    }

    #[test]
    fn frames_that_no_client_here_sends_are_recognised() {
        for frame in [&b"\x81\x05hello"[..], b"\x88\x80mask", b"\x81\xfe\x01\x00"] {
            assert_eq!(read(frame), Front::Other);
        }
    }
}
