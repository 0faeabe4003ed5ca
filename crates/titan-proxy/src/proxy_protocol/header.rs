//! What a header says. Pure; no I/O.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The bytes are no header of either version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// A header: its length, and the client where it names one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) length: usize,
    pub(super) client: Option<IpAddr>,
}

const SIGNATURE_1: &[u8] = b"PROXY ";
const SIGNATURE_2: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// The longest line of version 1, with its line end.
const LONGEST_LINE: usize = 107;
/// The fixed part of version 2.
const FIXED: usize = 16;
/// What version 2 may carry behind that: addresses and TLVs.
const LONGEST_BLOCK: usize = 4096;

/// The header at the start of `bytes`; `None` while it is incomplete.
pub(super) fn parse(bytes: &[u8]) -> Result<Option<Header>, Malformed> {
    if starts_like(bytes, SIGNATURE_2) {
        return parse_2(bytes);
    }
    if starts_like(bytes, SIGNATURE_1) {
        return parse_1(bytes);
    }
    Err(Malformed)
}

/// Whether `bytes` begin with `signature`, as far as there are any.
fn starts_like(bytes: &[u8], signature: &[u8]) -> bool {
    let length = bytes.len().min(signature.len());
    bytes[..length] == signature[..length]
}

fn parse_1(bytes: &[u8]) -> Result<Option<Header>, Malformed> {
    let line = &bytes[..bytes.len().min(LONGEST_LINE)];
    let Some(end) = line.windows(2).position(|pair| pair == b"\r\n") else {
        return if line.len() < LONGEST_LINE { Ok(None) } else { Err(Malformed) };
    };
    let text = std::str::from_utf8(&line[..end]).map_err(|_| Malformed)?;
    let client = parse_line(text).ok_or(Malformed)?;
    Ok(Some(Header { length: end + 2, client }))
}

/// `PROXY TCP4 source destination port port`, or `PROXY UNKNOWN` with anything behind it.
fn parse_line(line: &str) -> Option<Option<IpAddr>> {
    let mut words = line.split(' ');
    words.next().filter(|word| *word == "PROXY")?;
    let family = words.next()?;
    if family == "UNKNOWN" {
        return Some(None);
    }
    let [source, destination, from, to] =
        [words.next()?, words.next()?, words.next()?, words.next()?];
    let is_port = |word: &str| word.parse::<u16>().is_ok_and(|port| port.to_string() == word);
    if words.next().is_some() || !is_port(from) || !is_port(to) {
        return None;
    }
    let address = |text: &str| -> Option<IpAddr> {
        match family {
            "TCP4" => text.parse().ok().map(IpAddr::V4),
            "TCP6" => text.parse().ok().map(IpAddr::V6),
            _ => None,
        }
    };
    address(destination)?;
    Some(Some(address(source)?))
}

fn parse_2(bytes: &[u8]) -> Result<Option<Header>, Malformed> {
    if bytes.len() < FIXED {
        return Ok(None);
    }
    let (version, command) = (bytes[12] >> 4, bytes[12] & 0xf);
    let block = usize::from(u16::from_be_bytes([bytes[14], bytes[15]]));
    if version != 2 || command > 1 || block > LONGEST_BLOCK {
        return Err(Malformed);
    }
    let Some(addresses) = bytes.get(FIXED..FIXED + block) else { return Ok(None) };
    let client = match (command, bytes[13] >> 4) {
        // LOCAL: the balancer speaks for itself. Unspecified and Unix addresses name no client.
        (0, _) | (1, 0 | 3) => None,
        (1, 1) => Some(IpAddr::V4(Ipv4Addr::from(source::<4>(addresses, 12)?))),
        (1, 2) => Some(IpAddr::V6(Ipv6Addr::from(source::<16>(addresses, 36)?))),
        _ => return Err(Malformed),
    };
    Ok(Some(Header { length: FIXED + block, client }))
}

/// The source address at the start of a block that must hold `needed` bytes of addresses and ports.
fn source<const N: usize>(block: &[u8], needed: usize) -> Result<[u8; N], Malformed> {
    let address = block.first_chunk::<N>().ok_or(Malformed)?;
    (block.len() >= needed).then_some(*address).ok_or(Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v2(command: u8, family: u8, block: &[u8]) -> Vec<u8> {
        let mut bytes = SIGNATURE_2.to_vec();
        bytes.extend([0x20 | command, family]);
        bytes.extend(u16::try_from(block.len()).unwrap().to_be_bytes());
        bytes.extend(block);
        bytes
    }

    fn v4_block() -> Vec<u8> {
        vec![192, 0, 2, 1, 192, 0, 2, 2, 1, 0, 0, 80]
    }

    #[test]
    fn the_client_is_the_source_address() {
        let client = |bytes: &[u8]| parse(bytes).unwrap().unwrap();
        let line = b"PROXY TCP4 192.0.2.1 192.0.2.2 256 80\r\nGET";
        let v4 = Some("192.0.2.1".parse().unwrap());
        assert_eq!(client(line), Header { length: line.len() - 3, client: v4 });
        assert_eq!(
            client(b"PROXY TCP6 2001:db8::1 ::1 1 2\r\n").client,
            "2001:db8::1".parse().ok()
        );
        assert_eq!(client(&v2(1, 0x11, &v4_block())), Header { length: 28, client: v4 });
        let mut block = [0; 36 + 5];
        block[15] = 1;
        assert_eq!(client(&v2(1, 0x21, &block)).client, "::1".parse().ok());
    }

    #[test]
    fn some_headers_name_no_client() {
        for bytes in [b"PROXY UNKNOWN\r\n".to_vec(), v2(0, 0, &[]), v2(1, 0x31, &[0; 216])] {
            assert_eq!(parse(&bytes).unwrap().unwrap().client, None);
        }
    }

    #[test]
    fn every_beginning_of_a_header_is_incomplete() {
        let headers =
            [b"PROXY TCP4 192.0.2.1 192.0.2.2 256 80\r\n".to_vec(), v2(1, 0x11, &v4_block())];
        for header in headers {
            for end in 0..header.len() {
                assert_eq!(parse(&header[..end]), Ok(None), "{end} bytes");
            }
        }
    }

    #[test]
    fn anything_else_is_refused() {
        let mut long = b"PROXY UNKNOWN ".to_vec();
        long.resize(LONGEST_LINE, b'x');
        let cases = [
            b"GET / HTTP/1.1\r\n".to_vec(),
            b"PROXY TCP4 192.0.2.1 192.0.2.2 256\r\n".to_vec(),
            b"PROXY TCP4 ::1 ::1 1 2\r\n".to_vec(),
            b"PROXY TCP4 1.2.3.4 1.2.3.4 65536 2\r\n".to_vec(),
            b"PROXY TCP4 1.2.3.4 1.2.3.4 1 2 3\r\n".to_vec(),
            long,
            v2(1, 0x11, &v4_block()[..11]),
            v2(2, 0x11, &v4_block()),
            v2(1, 0x11, &[0; LONGEST_BLOCK + 1]),
        ];
        for bytes in cases {
            assert_eq!(parse(&bytes), Err(Malformed), "{:?}", bytes.escape_ascii().to_string());
        }
    }
}
