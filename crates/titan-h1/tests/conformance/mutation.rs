//! Small damage to messages, of the kinds that parsers have tripped over.

/// One change: what is done, where, and with what. Any three numbers are a change.
pub(crate) type Mutation = (u8, u32, u32);

/// Bytes that matter to some rule.
const FRAGMENTS: &[&[u8]] = &[
    b"\r\n",
    b"\n",
    b"\r",
    b"\0",
    b"\t",
    b" ",
    b":",
    b";",
    b",",
    b"\x7f",
    b"\x80",
    b"\xff",
    b"#",
    b"?",
    b"*",
    b"/",
    b"@",
    b"[::1]",
    b"%41",
    b"%",
    b"\"",
    b"0",
    b"5",
    b"f",
    b"00000000",
    b"+",
    b"-",
    b"_",
    b"0x",
    b"chunked",
    b"gzip, ",
    b"Transfer-Encoding: chunked\r\n",
    b"Content-Length: 5\r\n",
    b"Content-Length: 0\r\n",
    b"Host: a\r\n",
    b"Connection: close\r\n",
    b"Connection: keep-alive\r\n",
    b"Connection: x, close\r\n",
    b"Expect: 100-continue\r\n",
    b"Expect: x\r\n",
    b"X-Any: \xe9\t1\r\n",
    b"X: 1\r\n",
    b" folded\r\n",
    b"\r\n\r\n",
    b"0\r\n\r\n",
    b"5\r\nhello\r\n",
    b"5;a=\"b\"\r\n",
    b";a",
    b"=",
    b"\\",
    b"HTTP/1.0",
    b"HTTP/1.1",
    b"HTTP/2.0",
    b"GET ",
    b"POST ",
    b"HEAD",
    b"CONNECT ",
    b"OPTIONS ",
    b"http://a",
    b" 204 ",
    b" 304 ",
    b" 100 ",
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
];

/// `input` after all the changes, one upon the other.
pub(crate) fn apply(input: &[u8], mutations: &[Mutation]) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for &(kind, at, with) in mutations {
        let at = at as usize % (bytes.len() + 1);
        let end = bytes.len().min(at + 1 + with as usize % 8);
        match kind % 6 {
            0 => drop(bytes.splice(at..at, fragment(with))),
            1 => drop(bytes.splice(at..end, fragment(with / 8))),
            2 => drop(bytes.drain(at..end)),
            3 => bytes.truncate(at),
            4 => double_line(&mut bytes, at),
            _ => flip_bit(&mut bytes, at, with),
        }
    }
    bytes
}

fn fragment(with: u32) -> impl Iterator<Item = u8> {
    FRAGMENTS[with as usize % FRAGMENTS.len()].iter().copied()
}

fn double_line(bytes: &mut Vec<u8>, at: usize) {
    let is_end = |&byte: &u8| byte == b'\n';
    let start = bytes[..at].iter().rposition(is_end).map_or(0, |place| place + 1);
    let end = bytes[at..].iter().position(is_end).map_or(bytes.len(), |place| at + place + 1);
    bytes.extend_from_within(start..end);
    bytes[end..].rotate_right(end - start);
}

fn flip_bit(bytes: &mut [u8], at: usize, with: u32) {
    if let Some(byte) = bytes.get_mut(at) {
        *byte ^= 1 << (with % 8);
    }
}
