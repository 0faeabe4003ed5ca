//! Verifies answers whose bodies are compressed: what is in them has to be the body that is right.

use memchr::memmem;
use titan_bench::coding::Coding;

use crate::answer::Taken;
use crate::fault::Fault;

/// A longer answer is a fault.
const MAX_ANSWER: usize = 4 * 1024 * 1024;

/// The coded body that was last seen to be right. Proxies that repeat it need not be read again.
#[derive(Default)]
pub struct KnownBody(Vec<u8>);

/// The state of one connection's current answer.
pub struct Coded {
    coding: Coding,
    /// All of it so far.
    answer: Vec<u8>,
    /// How many bytes the body of the last whole response had.
    pub bytes: usize,
}

/// How a body is delimited.
enum Framing {
    Length(usize),
    Chunked,
}

impl Coded {
    pub fn new(coding: Coding) -> Self {
        Self { coding, answer: Vec::new(), bytes: 0 }
    }

    /// Takes `input` as far as it belongs to the response whose body must be `expected`.
    pub fn take<'a>(
        &mut self,
        input: &'a [u8],
        expected: &[u8],
        known: &mut KnownBody,
    ) -> Result<Taken<'a>, Fault> {
        let before = self.answer.len();
        self.answer.extend_from_slice(input);
        let Some((body, end)) = self.whole()? else {
            let too_long = self.answer.len() > MAX_ANSWER;
            return if too_long { Err(fault("too long")) } else { Ok(Taken::All) };
        };
        if body != known.0 {
            let plain = self.coding.decode(&body).map_err(|error| fault(&error.to_string()))?;
            if plain != expected {
                return Err(Fault::Body { near: 0 });
            }
        }
        self.bytes = body.len();
        known.0 = body;
        self.answer.clear();
        Ok(Taken::Whole(&input[end - before..]))
    }

    /// The body of the response, and where the response ends; none while it is not whole.
    fn whole(&self) -> Result<Option<(Vec<u8>, usize)>, Fault> {
        let Some(head) = memmem::find(&self.answer, b"\r\n\r\n").map(|at| at + 4) else {
            return Ok(None);
        };
        let rest = &self.answer[head..];
        Ok(match self.framing(&self.answer[..head])? {
            Framing::Length(length) => {
                rest.get(..length).map(|body| (body.to_vec(), head + length))
            }
            Framing::Chunked => unchunk(rest)?.map(|(body, length)| (body, head + length)),
        })
    }

    fn framing(&self, head: &[u8]) -> Result<Framing, Fault> {
        let text =
            std::str::from_utf8(head).map_err(|_| fault("unreadable head"))?.to_ascii_lowercase();
        if !text.starts_with("http/1.1 200") {
            return Err(Fault::Status(text.lines().next().unwrap_or_default().to_owned()));
        }
        let value = |name: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once(':'));
            lines.find(|(found, _)| *found == name).map(|(_, value)| value.trim().to_owned())
        };
        if value("content-encoding").as_deref() != Some(self.coding.name()) {
            return Err(fault(&format!("Content-Encoding {:?}", value("content-encoding"))));
        }
        match (value("transfer-encoding").as_deref(), value("content-length")) {
            (Some("chunked"), None) => Ok(Framing::Chunked),
            (None, Some(length)) => {
                length.parse().map(Framing::Length).map_err(|_| fault("its length"))
            }
            _ => Err(fault("neither chunked nor with a length")),
        }
    }
}

/// The data of all chunks and where they end; none while the last is not there.
fn unchunk(mut rest: &[u8]) -> Result<Option<(Vec<u8>, usize)>, Fault> {
    let (mut body, all) = (Vec::new(), rest.len());
    loop {
        let Some(line) = memmem::find(rest, b"\r\n") else { return Ok(None) };
        let digits = std::str::from_utf8(&rest[..line]).map_err(|_| fault("a chunk size"))?;
        let size = usize::from_str_radix(digits, 16).map_err(|_| fault("a chunk size"))?;
        let Some(chunk) = rest.get(line + 2..line + 2 + size + 2) else { return Ok(None) };
        let (data, end) = chunk.split_at(size);
        if end != b"\r\n" {
            return Err(fault("a chunk's end"));
        }
        body.extend_from_slice(data);
        rest = &rest[line + 2 + size + 2..];
        if size == 0 {
            return Ok(Some((body, all - rest.len())));
        }
    }
}

fn fault(what: &str) -> Fault {
    Fault::Coding(what.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// "hello" in a gzip member of one stored block.
    const GZIP: &[u8] =
        b"\x1f\x8b\x08\0\0\0\0\0\0\xff\x01\x05\0\xfa\xffhello\x86\xa6\x10\x36\x05\0\0\0";

    fn answers() -> [Vec<u8>; 2] {
        let length = format!(
            "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
            GZIP.len()
        );
        let (first, second) = GZIP.split_at(10);
        let chunked =
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Encoding: gzip\r\n\r\na\r\n"
                .as_slice();
        let between = format!("\r\n{:x}\r\n", second.len());
        [
            [length.as_bytes(), GZIP].concat(),
            [chunked, first, between.as_bytes(), second, b"\r\n0\r\n\r\n"].concat(),
        ]
    }

    fn right(input: &[u8], at: usize, known: &mut KnownBody) -> Result<bool, Fault> {
        let mut coded = Coded::new(Coding::Gzip);
        let (first, second) = input.split_at(at);
        match coded.take(first, b"hello", known)? {
            Taken::Whole(rest) => Ok(rest.is_empty() && second.is_empty()),
            Taken::All => Ok(matches!(coded.take(second, b"hello", known)?, Taken::Whole([]))),
        }
    }

    #[test]
    fn a_right_response_passes_at_every_split() {
        for answer in answers() {
            let mut known = KnownBody::default();
            for at in 0..=answer.len() {
                assert!(right(&answer, at, &mut known).expect("it is right"), "split at {at}");
            }
        }
    }

    #[test]
    fn changed_bytes_of_the_body_are_found() {
        for answer in answers() {
            let place = memmem::find(&answer, b"hello").expect("the block is stored");
            for at in place..place + 5 {
                let mut wrong = answer.clone();
                wrong[at] ^= 1;
                assert!(right(&wrong, 0, &mut KnownBody::default()).is_err());
            }
        }
    }

    #[test]
    fn another_coding_is_found() {
        let plain = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
        assert!(matches!(right(plain, 0, &mut KnownBody::default()), Err(Fault::Coding(_))));
    }
}
