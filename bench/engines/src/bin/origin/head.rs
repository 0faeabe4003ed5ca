//! The little of a request head that the origin acts on. The proxies under test are the strict parsers.

use memchr::memmem;
use titan_bench::websocket;

/// A longer head is refused: no proxy here writes one.
pub const MAX_HEAD: usize = 16 * 1024;

/// What a request asks for.
#[derive(Debug, PartialEq, Eq)]
pub struct Head<'a> {
    pub method: &'a [u8],
    pub path: &'a [u8],
    /// Bytes of body that follow.
    pub length: usize,
    /// Whether the connection ends with this request.
    pub last: bool,
    /// The client wants a WebSocket tunnel, with the nonce that the response fits.
    pub upgrade: bool,
}

/// Why a head is not served: the status to answer.
pub type Refused = &'static str;

/// Where the head at the front of `input` ends, its empty line included.
pub fn end(input: &[u8]) -> Option<usize> {
    memmem::find(input, b"\r\n\r\n").map(|position| position + 4)
}

/// Reads a whole head, as [`end`] delimits it.
pub fn parse(head: &[u8]) -> Result<Head<'_>, Refused> {
    let mut lines = head.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end);
    let mut words = lines.next().unwrap_or_default().split(|byte| *byte == b' ');
    let (Some(method), Some(path), Some(version)) = (words.next(), words.next(), words.next())
    else {
        return Err("400 Bad Request");
    };
    let last = version != b"HTTP/1.1";
    let mut parsed = Head { method, path, length: 0, last, upgrade: false };
    let mut nonce = false;
    for line in lines {
        nonce |= apply_field(&mut parsed, line)?;
    }
    if parsed.upgrade && !nonce {
        return Err("400 Bad Request");
    }
    Ok(parsed)
}

/// True for the nonce of a tunnel.
fn apply_field(head: &mut Head<'_>, line: &[u8]) -> Result<bool, Refused> {
    // Most fields are told apart by their first letter alone.
    if !matches!(line.first().map(u8::to_ascii_lowercase), Some(b'c' | b's' | b't' | b'u')) {
        return Ok(false);
    }
    let Some(colon) = line.iter().position(|byte| *byte == b':') else {
        return Err("400 Bad Request");
    };
    let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
    if name.eq_ignore_ascii_case(b"content-length") {
        let digits = std::str::from_utf8(value).map_err(|_| "400 Bad Request")?;
        head.length = digits.parse().map_err(|_| "400 Bad Request")?;
    } else if name.eq_ignore_ascii_case(b"connection") {
        head.last |= value.eq_ignore_ascii_case(b"close");
    } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
        return Err("501 Not Implemented");
    } else if name.eq_ignore_ascii_case(b"upgrade") {
        head.upgrade = value.eq_ignore_ascii_case(b"websocket");
    }
    Ok(name.eq_ignore_ascii_case(b"sec-websocket-key") && value == websocket::KEY.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_compare_without_case() {
        let head =
            b"POST /post HTTP/1.1\r\nhost: a\r\ncontent-LENGTH: 7\r\nconnection: Close\r\n\r\n";
        assert_eq!(end(head), Some(head.len()));
        let expected =
            Head { method: b"POST", path: b"/post", length: 7, last: true, upgrade: false };
        assert_eq!(parse(head), Ok(expected));
    }

    #[test]
    fn a_tunnel_needs_the_nonce_that_the_response_fits() {
        let opening = websocket::opening();
        assert!(parse(&opening).is_ok_and(|head| head.upgrade));
        let other = String::from_utf8_lossy(&opening).replace(websocket::KEY, "AAAA");
        assert_eq!(parse(other.as_bytes()), Err("400 Bad Request"));
    }

    #[test]
    fn chunked_bodies_are_refused() {
        let head = b"POST /post HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
        assert_eq!(parse(head), Err("501 Not Implemented"));
    }
}
