//! What this engine makes of requests, for another program to compare with its own verdicts.
//!
//! A question on standard input has its numbers in network order: one byte, which is not zero when the
//! peer closes behind the message; the limits `head`, `target`, `fields`, `chunk_line` and `trailers` with
//! four bytes each and `body` with eight, as in the vectors' README; four bytes of length; then as many
//! bytes of message. The response is one line, written at once, so that a fuzzer can ask over a pipe:
//!
//! ```text
//! accept "GET" "/" "HTTP/1.1" persist=true expect=false fields=["Host" "a"] body="" trailers=[] rest=""
//! reject 400<TAB>BareLf: an LF without CR (RFC 9112 section 2.2)
//! incomplete
//! ```
//!
//! Between quotes stand SP to `~` as they are, except `"` and `\`; every other byte is `\x` and two digits.
//! Behind the tab stands what a reader of a difference wants to know, not a part of the verdict.

#[path = "../tests/conformance/drive.rs"]
mod drive;

use drive::{Lines, Message, Setting, Verdict, verdict};
use std::fmt::{self, Display, Formatter, Write as _};
use std::io::{self, BufReader, BufWriter, ErrorKind, Read, Write};
use titan_h1::Limits;

fn main() -> io::Result<()> {
    let mut questions = BufReader::new(io::stdin().lock());
    let mut answers = BufWriter::new(io::stdout().lock());
    while let Some(question) = Question::read(&mut questions)? {
        let Question { setting, close, input } = question;
        writeln!(answers, "{}", Answer(&verdict(setting, &input, &[], close)))?;
        answers.flush()?;
    }
    Ok(())
}

struct Question {
    setting: Setting,
    close: bool,
    input: Vec<u8>,
}

impl Question {
    /// `None` when there are no more.
    fn read(from: &mut impl Read) -> io::Result<Option<Question>> {
        let close = match bytes(from) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
            close => close? != [0],
        };
        let limits = Limits {
            head: size(from)?,
            target: size(from)?,
            fields: size(from)?,
            chunk_line: size(from)?,
            trailers: size(from)?,
            drops_trailers: false,
            body: u64::from_be_bytes(bytes(from)?),
        };
        let mut input = vec![0; size(from)?];
        from.read_exact(&mut input)?;
        Ok(Some(Question { setting: Setting { response_to: None, limits }, close, input }))
    }
}

fn size(from: &mut impl Read) -> io::Result<usize> {
    usize::try_from(u32::from_be_bytes(bytes(from)?)).map_err(io::Error::other)
}

fn bytes<const N: usize>(from: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes).map(|()| bytes)
}

struct Answer<'a>(&'a Verdict);

impl Display for Answer<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Verdict::Incomplete => write!(f, "incomplete"),
            Verdict::Reject(error) => {
                write!(f, "reject {}\t{error:?}: {error}", error.status().code())
            }
            Verdict::Accept(message) => accept(message, f),
        }
    }
}

fn accept(message: &Message, f: &mut Formatter<'_>) -> fmt::Result {
    let Message { start_line, fields, body, trailers, interim: _, persist, expect_continue, rest } =
        message;
    let [method, target, version] = start_line.each_ref().map(|part| Quoted(part));
    let rest = if *persist { rest.as_slice() } else { b"" };
    write!(f, "accept {method} {target} {version} persist={persist} expect={expect_continue}")?;
    write!(f, " fields={} body={}", List(fields), Quoted(body))?;
    write!(f, " trailers={} rest={}", List(trailers), Quoted(rest))
}

struct List<'a>(&'a Lines);

impl Display for List<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (index, (name, value)) in self.0.iter().enumerate() {
            let gap = if index == 0 { "" } else { " " };
            write!(f, "{gap}{} {}", Quoted(name), Quoted(value))?;
        }
        f.write_str("]")
    }
}

struct Quoted<'a>(&'a [u8]);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for &byte in self.0 {
            match byte {
                b'"' | b'\\' | ..=0x1f | 0x7f.. => write!(f, "\\x{byte:02x}")?,
                _ => f.write_char(char::from(byte))?,
            }
        }
        f.write_char('"')
    }
}
