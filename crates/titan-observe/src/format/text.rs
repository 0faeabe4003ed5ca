//! Numbers and foreign texts as parts of a line, which no reader obeys.

use std::net::IpAddr;
use std::time::Duration;

/// Appends a number.
pub(super) fn number(value: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Appends a duration in milliseconds, with the microseconds behind the point.
pub(super) fn milliseconds(duration: Duration, out: &mut Vec<u8>) {
    let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    number(micros / 1_000, out);
    let rest = micros % 1_000;
    let digit = |place: u64| b'0' + u8::try_from(rest / place % 10).expect("a digit");
    out.extend_from_slice(&[b'.', digit(100), digit(10), digit(1)]);
}

/// Appends an address.
pub(super) fn address(address: IpAddr, out: &mut Vec<u8>) {
    use std::io::Write;
    match address {
        IpAddr::V4(address) => {
            for (place, octet) in address.octets().into_iter().enumerate() {
                if place > 0 {
                    out.push(b'.');
                }
                number(octet.into(), out);
            }
        }
        IpAddr::V6(address) => {
            let _ = write!(out, "{address}");
        }
    }
}

/// Appends a text as the inside of a string of JSON, of ASCII alone: what a terminal obeys, what ends a line and what
/// turns the direction of text is escaped. Bytes that are no UTF-8 become U+FFFD.
pub(super) fn json(text: &[u8], out: &mut Vec<u8>) {
    let plain = plain_start(text);
    out.extend_from_slice(&text[..plain]);
    if plain == text.len() {
        return;
    }
    for character in String::from_utf8_lossy(&text[plain..]).chars() {
        match character {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            ' '..='~' => out.push(character as u8),
            _ => {
                let mut units = [0; 2];
                for unit in character.encode_utf16(&mut units) {
                    let hex = |shift: u16| HEX[usize::from(*unit >> shift & 15)];
                    out.extend_from_slice(&[b'\\', b'u', hex(12), hex(8), hex(4), hex(0)]);
                }
            }
        }
    }
}

/// Appends a text with `\xHH` in place of quotes, backslashes and everything that is not printable ASCII, as web servers
/// write it into their logs; `-` for none.
pub(super) fn escaped(text: &[u8], out: &mut Vec<u8>) {
    if text.is_empty() {
        return out.push(b'-');
    }
    let plain = plain_start(text);
    out.extend_from_slice(&text[..plain]);
    for byte in &text[plain..] {
        match is_plain(*byte) {
            true => out.push(*byte),
            false => {
                let hex = |shift: u8| HEX[usize::from(*byte >> shift & 15)];
                out.extend_from_slice(&[b'\\', b'x', hex(4), hex(0)]);
            }
        }
    }
}

const HEX: &[u8; 16] = b"0123456789abcdef";

fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\'
}

/// How many bytes at the beginning stand for themselves.
fn plain_start(text: &[u8]) -> usize {
    text.iter().position(|byte| !is_plain(*byte)).unwrap_or(text.len())
}
