//! Verifies answers as they arrive: status, announced length, and every byte of the body.

use memchr::memmem;

use crate::fault::Fault;

/// A longer head is a fault.
const MAX_HEAD: usize = 16 * 1024;

/// The last head that was read and right. Proxies repeat their heads, so comparing mostly replaces reading.
#[derive(Default)]
pub struct KnownHead {
    bytes: Vec<u8>,
    length: usize,
    last: bool,
}

/// The state of one connection's current answer.
#[derive(Default)]
pub struct Checker {
    /// A head that is not whole yet.
    partial: Vec<u8>,
    /// Bytes of the body that were right so far; none while the head is read.
    body: Option<usize>,
    /// Responses are messages in a tunnel, which have no head.
    headless: bool,
    /// The response said that the connection closes after it.
    pub last: bool,
}

/// What a piece of input amounted to.
pub enum Taken<'a> {
    /// All of it belongs to a response that goes on.
    All,
    /// It completes a response; the rest follows.
    Whole(&'a [u8]),
}

impl Checker {
    /// For what comes through a tunnel.
    pub fn headless() -> Self {
        Self { body: Some(0), headless: true, ..Self::default() }
    }

    /// Takes `input` as far as it belongs to the response whose body must be `expected`.
    pub fn take<'a>(
        &mut self,
        input: &'a [u8],
        expected: &[u8],
        known: &mut KnownHead,
    ) -> Result<Taken<'a>, Fault> {
        let (input, done) = match self.body {
            Some(done) => (input, done),
            None => match self.take_head(input, expected.len(), known)? {
                Some(rest) => (rest, 0),
                None => return Ok(Taken::All),
            },
        };
        let (body, rest) = input.split_at(input.len().min(expected.len() - done));
        if body != &expected[done..done + body.len()] {
            return Err(Fault::Body { near: done });
        }
        let done = done + body.len();
        if done < expected.len() {
            self.body = Some(done);
            return Ok(Taken::All);
        }
        self.body = self.headless.then_some(0);
        Ok(Taken::Whole(rest))
    }

    /// The input after the head; none when the head is not whole yet.
    fn take_head<'a>(
        &mut self,
        input: &'a [u8],
        expected: usize,
        known: &mut KnownHead,
    ) -> Result<Option<&'a [u8]>, Fault> {
        if self.partial.is_empty() && known.length == expected && !known.bytes.is_empty() {
            // A head ends with its empty line, so what begins with a whole head has no longer one.
            if let Some(rest) = input.strip_prefix(known.bytes.as_slice()) {
                self.last = known.last;
                return Ok(Some(rest));
            }
        }
        let before = self.partial.len();
        self.partial.extend_from_slice(&input[..input.len().min(MAX_HEAD)]);
        let Some(end) = memmem::find(&self.partial, b"\r\n\r\n").map(|at| at + 4) else {
            let too_long = self.partial.len() > MAX_HEAD;
            return if too_long { Err(bad_head(&self.partial)) } else { Ok(None) };
        };
        self.partial.truncate(end);
        self.last = check_head(&self.partial, expected)?;
        *known = KnownHead {
            bytes: std::mem::take(&mut self.partial),
            length: expected,
            last: self.last,
        };
        Ok(Some(&input[end - before..]))
    }
}

/// Whether the connection closes after this response.
fn check_head(head: &[u8], expected: usize) -> Result<bool, Fault> {
    let text = std::str::from_utf8(head).map_err(|_| bad_head(head))?;
    let mut lines = text.trim_end().split("\r\n");
    let status = lines.next().unwrap_or_default();
    if !status.starts_with("HTTP/1.1 200") {
        return Err(Fault::Status(status.to_owned()));
    }
    let (mut announced, mut last) = (None, false);
    for line in lines {
        let (name, value) = line.split_once(':').ok_or_else(|| bad_head(head))?;
        if name.eq_ignore_ascii_case("content-length") {
            announced = value.trim().parse().ok();
        }
        last |=
            name.eq_ignore_ascii_case("connection") && value.trim().eq_ignore_ascii_case("close");
    }
    if announced == Some(expected) { Ok(last) } else { Err(Fault::Length { announced, expected }) }
}

fn bad_head(head: &[u8]) -> Fault {
    Fault::BadHead(String::from_utf8_lossy(&head[..head.len().min(200)]).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";

    /// Feeds `input` cut at `at`; true when it is exactly one right answer.
    fn right(input: &[u8], at: usize, known: &mut KnownHead) -> Result<bool, Fault> {
        let mut checker = Checker::default();
        let (first, second) = input.split_at(at);
        match checker.take(first, b"hello", known)? {
            Taken::Whole(rest) => Ok(rest.is_empty() && second.is_empty()),
            Taken::All => Ok(
                matches!(checker.take(second, b"hello", known)?, Taken::Whole(rest) if rest.is_empty()),
            ),
        }
    }

    #[test]
    fn a_right_response_passes_at_every_split_with_and_without_a_known_head() {
        let mut shared = KnownHead::default();
        for at in 0..=ANSWER.len() {
            assert!(right(ANSWER, at, &mut KnownHead::default()).expect("it is right"));
            assert!(right(ANSWER, at, &mut shared).expect("it is right"));
        }
    }

    #[test]
    fn every_changed_body_byte_is_found() {
        for at in ANSWER.len() - 5..ANSWER.len() {
            let mut wrong = ANSWER.to_vec();
            wrong[at] ^= 1;
            assert!(matches!(right(&wrong, 0, &mut KnownHead::default()), Err(Fault::Body { .. })));
        }
    }

    #[test]
    fn responses_in_a_tunnel_are_bodies_only() {
        let mut checker = Checker::headless();
        for _ in 0..2 {
            let taken = checker.take(b"hello", b"hello", &mut KnownHead::default());
            assert!(matches!(taken, Ok(Taken::Whole([]))));
        }
        let wrong = checker.take(b"hullo", b"hello", &mut KnownHead::default());
        assert!(matches!(wrong, Err(Fault::Body { near: 0 })));
    }

    #[test]
    fn other_status_or_length_is_found() {
        let refused = b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 5\r\n\r\nhello";
        assert!(matches!(right(refused, 0, &mut KnownHead::default()), Err(Fault::Status(_))));
        let short = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhell";
        assert!(matches!(right(short, 0, &mut KnownHead::default()), Err(Fault::Length { .. })));
    }
}
