//! Heads and chunks to bytes.
//!
//! A head is written anew from its parts. The fields that say where the message ends, whom it is for
//! and whether the connection goes on are never copied: they are written here, from what the caller
//! decided, so that they cannot disagree with what is sent.

use std::ops::Range;
use titan_http::{FieldName, Fields, Method, RequestHead, ResponseHead, TargetForm};

/// How the body that the caller is going to send is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// There is none, and no field says so: 1xx, 204, a 304 or a response to HEAD of unknown length.
    None,
    /// That many bytes. Also the length that a response to HEAD or a 304 would have had.
    Length(u64),
    /// Chunks: [`write_chunk_head`], data, [`CHUNK_END`], and at last [`write_last_chunk`].
    Chunked,
    /// Everything until the connection closes. Responses to HTTP/1.0 clients only.
    UntilClose,
}

/// What the message says about the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connection {
    /// It goes on, which HTTP/1.1 takes for granted: nothing is written.
    KeepAlive,
    /// It ends after this message.
    Close,
    /// It goes on, said aloud for an HTTP/1.0 peer.
    KeepAliveExplicit,
    /// It is to go on in the protocol that the `Upgrade` field names.
    Upgrade,
}

/// What follows the data of a chunk.
pub const CHUNK_END: &[u8] = b"\r\n";

/// Appends the head of a request for `host`: in origin-form, or as CONNECT and asterisk-form need.
pub fn write_request(
    out: &mut Vec<u8>,
    head: &RequestHead,
    host: &[u8],
    body: Body,
    connection: Connection,
) {
    out.reserve(room_for(&head.fields) + host.len());
    out.extend_from_slice(head.method.as_str().as_bytes());
    out.push(b' ');
    write_target(out, head);
    out.extend_from_slice(b" HTTP/1.1\r\nHost: ");
    out.extend_from_slice(host);
    out.extend_from_slice(b"\r\n");
    write_fields(out, &head.fields);
    match body {
        Body::None if expects_body(head.method) => out.extend_from_slice(b"Content-Length: 0\r\n"),
        _ => write_framing(out, body),
    }
    write_end(out, connection);
}

/// Appends the head of a response.
pub fn write_response(out: &mut Vec<u8>, head: &ResponseHead, body: Body, connection: Connection) {
    out.reserve(room_for(&head.fields));
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(&head.status.digits());
    out.push(b' ');
    out.extend_from_slice(head.reason());
    out.extend_from_slice(b"\r\n");
    write_fields(out, &head.fields);
    write_framing(out, body);
    write_end(out, connection);
}

/// Appends what precedes the data of a chunk. `length` is not 0: that would be the last chunk.
pub fn write_chunk_head(out: &mut Vec<u8>, length: usize) {
    debug_assert_ne!(length, 0, "an empty chunk ends the body");
    let digits = (usize::BITS - length.leading_zeros()).div_ceil(4);
    for place in (0..digits).rev() {
        out.push(b"0123456789abcdef"[length >> (place * 4) & 0xf]);
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends the last chunk and the trailer section.
pub fn write_last_chunk(out: &mut Vec<u8>, trailers: &Fields) {
    out.extend_from_slice(b"0\r\n");
    write_fields(out, trailers);
    out.extend_from_slice(b"\r\n");
}

fn write_target(out: &mut Vec<u8>, head: &RequestHead) {
    let text = head.fields.text();
    match head.target.form {
        TargetForm::Authority => out.extend_from_slice(head.target.authority.of(text)),
        TargetForm::Origin | TargetForm::Absolute | TargetForm::Asterisk => {
            out.extend_from_slice(head.path());
            if let Some(query) = head.query() {
                out.push(b'?');
                out.extend_from_slice(query);
            }
        }
    }
}

/// Writes the lines that are the sender's own, and leaves out those that are the encoder's. Lines that follow each other in the
/// text of the head as they are to be written go out in one piece.
fn write_fields(out: &mut Vec<u8>, fields: &Fields) {
    let text = fields.text();
    let mut piece = 0..0;
    for (id, name, value) in fields.lines() {
        if is_own(id) {
            continue;
        }
        let line = match is_as_written(text, name.range(), value.range()) {
            true => name.range().start..value.range().end + b"\r\n".len(),
            false => 0..0,
        };
        if line.start == piece.end && !line.is_empty() {
            piece.end = line.end;
            continue;
        }
        out.extend_from_slice(&text[piece]);
        if line.is_empty() {
            for part in [name.of(text), b": ", value.of(text), b"\r\n"] {
                out.extend_from_slice(part);
            }
        }
        piece = line;
    }
    out.extend_from_slice(&text[piece]);
}

/// Whether the encoder writes that field itself.
fn is_own(id: FieldName) -> bool {
    matches!(
        id,
        FieldName::Host
            | FieldName::ContentLength
            | FieldName::TransferEncoding
            | FieldName::Connection
    )
}

/// Whether a line stands in the text as it is to be written, its end included: another sender may have left out the space, written
/// more of it, or another name.
fn is_as_written(text: &[u8], name: Range<usize>, value: Range<usize>) -> bool {
    text.get(name.end..value.start) == Some(b": ")
        && text.get(value.end..value.end + b"\r\n".len()) == Some(b"\r\n")
}

fn write_framing(out: &mut Vec<u8>, body: Body) {
    match body {
        Body::None | Body::UntilClose => {}
        Body::Length(length) => {
            out.extend_from_slice(b"Content-Length: ");
            write_decimal(out, length);
            out.extend_from_slice(b"\r\n");
        }
        Body::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
    }
}

fn write_end(out: &mut Vec<u8>, connection: Connection) {
    out.extend_from_slice(match connection {
        Connection::KeepAlive => b"\r\n",
        Connection::Close => b"Connection: close\r\n\r\n",
        Connection::KeepAliveExplicit => b"Connection: keep-alive\r\n\r\n",
        Connection::Upgrade => b"Connection: Upgrade\r\n\r\n",
    });
}

fn write_decimal(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [b'0'; 20];
    let mut first = digits.len();
    while number > 0 || first == digits.len() {
        first -= 1;
        digits[first] += u8::try_from(number % 10).expect("a digit is below 10");
        number /= 10;
    }
    out.extend_from_slice(&digits[first..]);
}

/// Methods whose recipients may wait for a body unless they are told that there is none
/// (RFC 9110 section 8.6).
fn expects_body(method: Method) -> bool {
    method == Method::POST || method == Method::PUT || method == Method::PATCH
}

/// Enough room for a head with these fields, so that the buffer grows at most once.
fn room_for(fields: &Fields) -> usize {
    const START_LINE_AND_FRAMING: usize = 160;
    fields.text().len() + fields.len() * b": \r\n".len() + START_LINE_AND_FRAMING
}
