//! A reader of HTTP/1.1 messages for tests. It shares no line with the engine under test, and judges
//! nothing: it finds out what a peer was sent.

use std::ops::Deref;

/// A message as it came over a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// The request line or the status line.
    pub first_line: String,
    /// Names and values in order; names in lower case.
    pub fields: Vec<(String, String)>,
    /// The body, out of its chunks.
    pub body: Vec<u8>,
    /// The fields behind the last chunk.
    pub trailers: Vec<(String, String)>,
    /// The message, byte for byte.
    pub bytes: Vec<u8>,
}

/// A request that reached an upstream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// As it stands in the request line.
    pub method: String,
    /// As it stands in the request line.
    pub target: String,
    /// Which of its connections the upstream got it over, from 0.
    pub connection: usize,
    /// All of it.
    pub message: Message,
}

/// A response that reached a client. It may be an interim one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// All of it.
    pub message: Message,
}

/// What came before the end of the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unfinished {
    /// More has to come.
    More,
    /// It is no message.
    Garbage(&'static str),
}

/// How long a body is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Length {
    Bytes(usize),
    Chunked,
    UntilClose,
}

impl Message {
    /// The value of the only field with that name; `None` where there is none.
    #[track_caller]
    pub fn field(&self, name: &str) -> Option<&str> {
        let values = self.all(name);
        assert!(values.len() < 2, "several fields `{name}`: {values:?}");
        values.first().copied()
    }

    /// The values of all fields with that name.
    pub fn all(&self, name: &str) -> Vec<&str> {
        let name = name.to_ascii_lowercase();
        let named = self.fields.iter().filter(|(known, _)| *known == name);
        named.map(|(_, value)| value.as_str()).collect()
    }

    /// The body as text; bytes outside UTF-8 become replacement characters.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Whether the body came in chunks.
    pub fn is_chunked(&self) -> bool {
        self.all("transfer-encoding") == ["chunked"]
    }
}

impl Response {
    /// Checks the status.
    #[track_caller]
    pub fn has_status(self, status: u16) -> Response {
        assert_eq!(self.status, status, "{}\n{}", self.first_line, self.text());
        self
    }

    /// Checks that a field is there once, with that value.
    #[track_caller]
    pub fn has_field(self, name: &str, value: &str) -> Response {
        assert_eq!(self.field(name), Some(value), "{name} of {}", shown(&self.bytes));
        self
    }

    /// Checks that a field is not there.
    #[track_caller]
    pub fn lacks(self, name: &str) -> Response {
        assert_eq!(self.all(name), [""; 0], "{name}");
        self
    }

    /// Checks the body.
    #[track_caller]
    pub fn has_body(self, body: impl AsRef<[u8]>) -> Response {
        let (found, wanted) = (&self.body, body.as_ref());
        assert!(found == wanted, "{} instead of {}", shown(found), shown(wanted));
        self
    }

    /// Checks that it is a problem document of the gateway, with that status and that code.
    #[track_caller]
    pub fn has_problem(self, status: u16, code: &str) -> Response {
        assert_eq!((self.status, self.problem().as_str()), (status, code), "{}", self.text());
        assert_eq!(self.field("content-type"), Some("application/problem+json"));
        assert!(self.text().contains(&format!("\"status\":{status},")), "{}", self.text());
        self
    }

    /// The code of a problem document; empty where the body is none.
    pub fn problem(&self) -> String {
        let text = self.text();
        let code = text.split("\"type\":\"urn:titan:problem:").nth(1);
        code.and_then(|rest| rest.split('"').next()).unwrap_or_default().to_owned()
    }

    /// The id that a problem document gives its request; empty where it gives none.
    pub fn request_id(&self) -> String {
        let text = self.text();
        let id = text.split("\"request_id\":\"").nth(1);
        id.and_then(|rest| rest.split('"').next()).unwrap_or_default().to_owned()
    }

    /// The first response in `bytes`, and how many of them it takes.
    pub(crate) fn parse(
        bytes: &[u8],
        is_to_head: bool,
        has_ended: bool,
    ) -> Result<(Response, usize), Unfinished> {
        let (message, start) = head(bytes)?;
        let status = message.first_line.get(9..12).and_then(|digits| digits.parse().ok());
        let status: u16 = status.ok_or(Unfinished::Garbage("a status line without a status"))?;
        let has_none = is_to_head || status < 200 || status == 204 || status == 304;
        let length = match has_none {
            true => Length::Bytes(0),
            false => length(&message)?.unwrap_or(Length::UntilClose),
        };
        let (message, end) = body(message, bytes, start, length, has_ended)?;
        Ok((Response { status, message }, end))
    }
}

impl Request {
    /// The first request in `bytes`, and how many of them it takes.
    pub(crate) fn parse(bytes: &[u8], connection: usize) -> Result<(Request, usize), Unfinished> {
        let (message, start) = head(bytes)?;
        let words: Vec<_> = message.first_line.split(' ').map(str::to_owned).collect();
        let [method, target, _] = <[String; 3]>::try_from(words)
            .map_err(|_| Unfinished::Garbage("a request line without three words"))?;
        let length = length(&message)?.unwrap_or(Length::Bytes(0));
        let (message, end) = body(message, bytes, start, length, false)?;
        Ok((Request { method, target, connection, message }, end))
    }
}

impl Deref for Request {
    type Target = Message;

    fn deref(&self) -> &Message {
        &self.message
    }
}

impl Deref for Response {
    type Target = Message;

    fn deref(&self) -> &Message {
        &self.message
    }
}

/// The bytes as one character each.
fn text(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| char::from(byte)).collect()
}

fn find(bytes: &[u8], what: &[u8]) -> Result<usize, Unfinished> {
    bytes.windows(what.len()).position(|it| it == what).ok_or(Unfinished::More)
}

/// The head at the start of `bytes`, and where it ends.
fn head(bytes: &[u8]) -> Result<(Message, usize), Unfinished> {
    let end = find(bytes, b"\r\n\r\n")?;
    let lines = text(&bytes[..end]);
    let mut lines = lines.split("\r\n");
    let first_line = lines.next().unwrap_or_default().to_owned();
    let fields = fields(lines)?;
    Ok((Message { first_line, fields, ..Message::default() }, end + 4))
}

fn fields<'l>(lines: impl Iterator<Item = &'l str>) -> Result<Vec<(String, String)>, Unfinished> {
    let field = |line: &str| {
        let (name, value) =
            line.split_once(':').ok_or(Unfinished::Garbage("a field line without colon"))?;
        Ok((name.to_ascii_lowercase(), value.trim_matches([' ', '\t']).to_owned()))
    };
    lines.map(field).collect()
}

/// The length that the fields tell. An oracle for what a gateway writes: two fields are garbage.
fn length(message: &Message) -> Result<Option<Length>, Unfinished> {
    let lengths = message.all("content-length");
    match (message.all("transfer-encoding").as_slice(), lengths.as_slice()) {
        ([], []) => Ok(None),
        (["chunked"], []) => Ok(Some(Length::Chunked)),
        ([], [length]) => match length.parse() {
            Ok(length) => Ok(Some(Length::Bytes(length))),
            Err(_) => Err(Unfinished::Garbage("a length that is no number")),
        },
        _ => Err(Unfinished::Garbage("framing fields that contradict each other")),
    }
}

fn body(
    mut message: Message,
    bytes: &[u8],
    start: usize,
    length: Length,
    has_ended: bool,
) -> Result<(Message, usize), Unfinished> {
    let rest = &bytes[start..];
    let taken = match length {
        Length::Bytes(length) => {
            message.body = rest.get(..length).ok_or(Unfinished::More)?.to_vec();
            length
        }
        Length::UntilClose if !has_ended => return Err(Unfinished::More),
        Length::UntilClose => {
            message.body = rest.to_vec();
            rest.len()
        }
        Length::Chunked => chunks(rest, &mut message)?,
    };
    let end = start + taken;
    message.bytes = bytes[..end].to_vec();
    Ok((message, end))
}

/// Reads chunks and trailers into `message`; tells how many bytes they take.
fn chunks(bytes: &[u8], message: &mut Message) -> Result<usize, Unfinished> {
    let mut at = 0;
    loop {
        let line = find(&bytes[at..], b"\r\n")?;
        let size = text(&bytes[at..at + line]);
        let size =
            usize::from_str_radix(&size, 16).map_err(|_| Unfinished::Garbage("a chunk size"))?;
        at += line + 2;
        if size == 0 {
            break;
        }
        let data = bytes.get(at..at + size).ok_or(Unfinished::More)?;
        message.body.extend_from_slice(data);
        at += size + 2;
        if bytes.get(at - 2..at).ok_or(Unfinished::More)? != b"\r\n" {
            return Err(Unfinished::Garbage("a chunk without its end"));
        }
    }
    if bytes[at..].starts_with(b"\r\n") {
        return Ok(at + 2);
    }
    let end = at + find(&bytes[at..], b"\r\n\r\n")?;
    message.trailers = fields(text(&bytes[at..end]).split("\r\n"))?;
    Ok(end + 4)
}

/// Bytes as a message shows them: escaped, and cut where they are many.
pub(crate) fn shown(bytes: &[u8]) -> String {
    const MOST: usize = 800;
    let cut = &bytes[..bytes.len().min(MOST)];
    let more = bytes.len() - cut.len();
    let tail = if more > 0 { format!("... and {more} bytes more") } else { String::new() };
    format!("\"{}\"{tail}", cut.escape_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_ends_where_its_framing_says() {
        let cases: [(&str, &str, &str); 4] = [
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab", "ab", ""),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n1\r\nb\r\n0\r\n\r\n",
                "ab",
                "",
            ),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nT: 1\r\n\r\n", "", "1"),
            ("HTTP/1.1 204 No Content\r\n\r\n", "", ""),
        ];
        for (bytes, body, trailer) in cases {
            for end in 0..bytes.len() {
                let part = Response::parse(&bytes.as_bytes()[..end], false, false);
                assert_eq!(part, Err(Unfinished::More), "{end} bytes of {bytes:?}");
            }
            let (response, end) =
                Response::parse(format!("{bytes}HTTP").as_bytes(), false, false).unwrap();
            assert_eq!((response.text().as_str(), end), (body, bytes.len()));
            assert_eq!(response.trailers.first().map_or("", |(_, value)| value), trailer);
        }
    }

    #[test]
    fn a_body_without_length_runs_to_the_close() {
        let bytes = b"HTTP/1.1 200 OK\r\n\r\nab";
        assert_eq!(Response::parse(bytes, false, false), Err(Unfinished::More));
        assert_eq!(Response::parse(bytes, false, true).unwrap().0.body, b"ab");
        assert_eq!(Response::parse(bytes, true, false).unwrap().1, bytes.len() - 2);
    }
}
