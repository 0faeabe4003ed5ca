//! The PROXY protocol. What reads headers is pure and is compiled in here, as that of ClientHellos is.

#[path = "../../crates/titan-proxy/src/proxy_protocol/header.rs"]
mod header;

use header::{Header, Malformed, parse};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bytes that are always enough to decide: the longest header of version 2.
const MOST: usize = 16 + 4096;

/// A header is decided by its bytes alone, once and for all, and says the same in both versions.
pub fn proxy_protocol(input: &[u8]) {
    let whole = parse(input);
    for end in 0..input.len().min(MOST) {
        match parse(&input[..end]) {
            Ok(None) => {}
            decided => assert_eq!(decided, whole, "behind {end} bytes"),
        }
    }
    assert!(input.len() < MOST || whole != Ok(None));
    let Ok(Some(Header { length, client })) = whole else { return };
    assert!(length <= input.len().min(MOST));
    assert_eq!(parse(&input[..length]), whole, "what follows is no part of it");
    if client.is_some() && input.starts_with(b"PROXY ") {
        let words = input[..length].split(|byte| *byte == b' ');
        assert_eq!(words.count(), 6, "a line has nothing else in it");
    }
    for written in [line(client), block(client)] {
        let again = parse(&written);
        assert_eq!(again, Ok(Some(Header { length: written.len(), client })));
        assert_eq!(parse(&[&b" "[..], &written].concat()), Err(Malformed));
    }
}

/// A header of version 1 for that client.
fn line(client: Option<IpAddr>) -> Vec<u8> {
    match client {
        None => "PROXY UNKNOWN\r\n".to_owned(),
        Some(IpAddr::V4(it)) => format!("PROXY TCP4 {it} {} 1 65535\r\n", Ipv4Addr::LOCALHOST),
        Some(IpAddr::V6(it)) => format!("PROXY TCP6 {it} {} 0 443\r\n", Ipv6Addr::LOCALHOST),
    }
    .into_bytes()
}

/// One of version 2.
fn block(client: Option<IpAddr>) -> Vec<u8> {
    let (family, address, rest) = match client {
        None => (0, Vec::new(), 0),
        Some(IpAddr::V4(it)) => (0x11, it.octets().to_vec(), 4 + 4),
        Some(IpAddr::V6(it)) => (0x21, it.octets().to_vec(), 16 + 4),
    };
    let length = u8::try_from(address.len() + rest).expect("addresses are short");
    let fixed = [&b"\r\n\r\n\0\r\nQUIT\n\x21"[..], &[family, 0, length]].concat();
    [fixed, address, vec![7; rest]].concat()
}
