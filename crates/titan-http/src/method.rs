//! Request methods (RFC 9110 section 9).

use crate::text::is_token;
use std::fmt;

/// A request method. Extension methods are kept inline, so that a method is `Copy` and never allocates.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Method(Name);

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Name {
    Get,
    Head,
    Post,
    Put,
    Delete,
    Connect,
    Options,
    Trace,
    Patch,
    Extension { len: u8, text: [u8; Method::MAX_LEN] },
}

impl Method {
    /// The longest method that is understood, in bytes; a longer one is refused with 501.
    pub const MAX_LEN: usize = 23;

    /// GET: safe and idempotent.
    pub const GET: Method = Method(Name::Get);
    /// HEAD: GET without the content of the response.
    pub const HEAD: Method = Method(Name::Head);
    /// POST: neither safe nor idempotent.
    pub const POST: Method = Method(Name::Post);
    /// PUT: idempotent.
    pub const PUT: Method = Method(Name::Put);
    /// DELETE: idempotent.
    pub const DELETE: Method = Method(Name::Delete);
    /// CONNECT: asks for a tunnel.
    pub const CONNECT: Method = Method(Name::Connect);
    /// OPTIONS: safe; the only method that may target `*`.
    pub const OPTIONS: Method = Method(Name::Options);
    /// TRACE: safe.
    pub const TRACE: Method = Method(Name::Trace);
    /// PATCH (RFC 5789): neither safe nor idempotent.
    pub const PATCH: Method = Method(Name::Patch);

    /// Reads a method; methods are case-sensitive. `None` when it is no token or too long.
    pub fn parse(text: &[u8]) -> Option<Method> {
        Some(Method(match text {
            b"GET" => Name::Get,
            b"HEAD" => Name::Head,
            b"POST" => Name::Post,
            b"PUT" => Name::Put,
            b"DELETE" => Name::Delete,
            b"CONNECT" => Name::Connect,
            b"OPTIONS" => Name::Options,
            b"TRACE" => Name::Trace,
            b"PATCH" => Name::Patch,
            other => Name::extension(other)?,
        }))
    }

    /// The method as it stands in a request line.
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Name::Get => "GET",
            Name::Head => "HEAD",
            Name::Post => "POST",
            Name::Put => "PUT",
            Name::Delete => "DELETE",
            Name::Connect => "CONNECT",
            Name::Options => "OPTIONS",
            Name::Trace => "TRACE",
            Name::Patch => "PATCH",
            Name::Extension { len, text } => std::str::from_utf8(&text[..usize::from(*len)])
                .expect("a token is ASCII: parse checks"),
        }
    }

    /// Whether the method only reads (RFC 9110 section 9.2.1).
    pub fn is_safe(&self) -> bool {
        matches!(self.0, Name::Get | Name::Head | Name::Options | Name::Trace)
    }

    /// Whether sending the request twice means the same as sending it once (RFC 9110 section 9.2.2).
    pub fn is_idempotent(&self) -> bool {
        self.is_safe() || matches!(self.0, Name::Put | Name::Delete)
    }
}

impl Default for Method {
    fn default() -> Self {
        Method::GET
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Name {
    fn extension(from: &[u8]) -> Option<Name> {
        if !is_token(from) || from.len() > Method::MAX_LEN {
            return None;
        }
        let mut text = [0; Method::MAX_LEN];
        text[..from.len()].copy_from_slice(from);
        Some(Name::Extension { len: u8::try_from(from.len()).ok()?, text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_reads_back_as_written() {
        for text in
            ["GET", "HEAD", "POST", "PATCH", "PROPFIND", "get", "A", "X-23-bytes-long-methods"]
        {
            assert_eq!(Method::parse(text.as_bytes()).unwrap().as_str(), text);
        }
    }

    #[test]
    fn what_is_no_method_is_refused() {
        for text in ["", "GE T", "GET:", "X-24-bytes-longer-method", "\u{e9}"] {
            assert_eq!(Method::parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn idempotence_follows_the_registry() {
        assert!(Method::PUT.is_idempotent() && !Method::PUT.is_safe());
        assert!(!Method::POST.is_idempotent() && !Method::PATCH.is_idempotent());
        assert!(Method::GET.is_safe() && !Method::parse(b"PROPFIND").unwrap().is_idempotent());
    }
}
