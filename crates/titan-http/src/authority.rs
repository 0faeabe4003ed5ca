//! Authorities: the `host[:port]` of a `Host` field or a target (RFC 9110 section 7.2, RFC 3986 3.2).

use crate::text::is_name_byte;
use std::fmt;
use std::net::Ipv6Addr;

/// A host with an optional port, borrowed from the head it stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Authority<'a> {
    /// A registered name, an IPv4 address, or an IPv6 address in brackets; in the case received.
    pub host: &'a [u8],
    /// The port, where one is given.
    pub port: Option<u16>,
}

/// Why bytes are no authority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadAuthority {
    /// There is no host.
    Empty,
    /// A byte that no host may have; `@` and `,` are among them.
    Host,
    /// The brackets do not hold an IPv6 address.
    Ipv6,
    /// The port is no number up to 65535.
    Port,
}

impl<'a> Authority<'a> {
    /// Reads an authority without user information. An empty port is as good as none.
    pub fn parse(text: &'a [u8]) -> Result<Authority<'a>, BadAuthority> {
        let host_len = match text.first() {
            None | Some(b':') => return Err(BadAuthority::Empty),
            Some(b'[') => bracketed(text)?,
            Some(_) => registered_name(text)?,
        };
        let (host, port) = text.split_at(host_len);
        Ok(Authority { host, port: parse_port(port)? })
    }
}

/// The host of an authority without its port.
pub fn host_of(authority: &[u8]) -> &[u8] {
    let digits = authority.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let (host, _) = authority.split_at(authority.len() - digits);
    host.strip_suffix(b":").unwrap_or(authority)
}

fn bracketed(text: &[u8]) -> Result<usize, BadAuthority> {
    let end = text.iter().position(|&byte| byte == b']').ok_or(BadAuthority::Ipv6)?;
    let address = std::str::from_utf8(&text[1..end]).map_err(|_| BadAuthority::Ipv6)?;
    address.parse::<Ipv6Addr>().map_err(|_| BadAuthority::Ipv6)?;
    Ok(end + 1)
}

fn registered_name(text: &[u8]) -> Result<usize, BadAuthority> {
    let mut at = 0;
    loop {
        at += text[at..].iter().take_while(|&&byte| is_name_byte(byte)).count();
        match text.get(at) {
            None | Some(b':') => return Ok(at),
            Some(b'%') if is_percent_triplet(&text[at..]) => at += 3,
            Some(_) => return Err(BadAuthority::Host),
        }
    }
}

fn is_percent_triplet(text: &[u8]) -> bool {
    text.len() >= 3 && text[1].is_ascii_hexdigit() && text[2].is_ascii_hexdigit()
}

fn parse_port(text: &[u8]) -> Result<Option<u16>, BadAuthority> {
    let Some((&colon, digits)) = text.split_first() else { return Ok(None) };
    if colon != b':' || digits.len() > 5 || !digits.iter().all(u8::is_ascii_digit) {
        return Err(BadAuthority::Port);
    }
    let port = digits.iter().fold(0_u32, |sum, digit| sum * 10 + u32::from(digit - b'0'));
    match digits.is_empty() {
        true => Ok(None),
        false => u16::try_from(port).map(Some).map_err(|_| BadAuthority::Port),
    }
}

impl fmt::Display for BadAuthority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BadAuthority::Empty => "the host is empty",
            BadAuthority::Host => "the host contains a byte that is not allowed",
            BadAuthority::Ipv6 => "the brackets do not contain an IPv6 address",
            BadAuthority::Port => "the port is not a number up to 65535",
        })
    }
}

impl std::error::Error for BadAuthority {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorities_are_taken_apart() {
        let parse = |text: &'static str| {
            let Authority { host, port } = Authority::parse(text.as_bytes()).unwrap();
            (std::str::from_utf8(host).unwrap(), port)
        };
        assert_eq!(parse("a"), ("a", None));
        assert_eq!(parse("a.example:80"), ("a.example", Some(80)));
        assert_eq!(parse("a:"), ("a", None));
        assert_eq!(parse("[::1]:65535"), ("[::1]", Some(65535)));
        assert_eq!(parse("%41b"), ("%41b", None));
    }

    #[test]
    fn what_is_no_authority_is_named() {
        let error = |text: &str| Authority::parse(text.as_bytes()).unwrap_err();
        assert_eq!(error(""), BadAuthority::Empty);
        assert_eq!(error(":80"), BadAuthority::Empty);
        for host in ["a b", "a/b", "u@a", "a,b", "a%4", "\u{e9}", "a]"] {
            assert_eq!(error(host), BadAuthority::Host, "{host}");
        }
        for host in ["[::1", "[a]", "[]", "[1.2.3.4]"] {
            assert_eq!(error(host), BadAuthority::Ipv6, "{host}");
        }
        for host in ["a:65536", "a:b", "a:-1", "a:000080", "[::1]80", "a:80:80"] {
            assert_eq!(error(host), BadAuthority::Port, "{host}");
        }
    }

    #[test]
    fn the_host_of_an_authority_has_no_port() {
        let cases: [(&str, &str); 6] = [
            ("a", "a"),
            ("a:80", "a"),
            ("a:", "a"),
            ("[::1]:8", "[::1]"),
            ("[::1]", "[::1]"),
            ("a1", "a1"),
        ];
        for (authority, host) in cases {
            assert_eq!(host_of(authority.as_bytes()), host.as_bytes(), "{authority}");
        }
    }
}
