//! What the encoder writes, the readers read back as it was.

use proptest::collection::vec;
use proptest::{option, prop_assert_eq, proptest};
use titan_h1::{
    Body, BodyReader, CHUNK_END, Connection, Error, Framing, Limits, RequestReader, ResponseReader,
    write_chunk_head, write_last_chunk, write_request, write_response,
};
use titan_http::{FieldName, Fields, Method, RequestHead, ResponseHead, Status};

fn request(bytes: &[u8]) -> (RequestHead, titan_h1::RequestStart) {
    let mut head = RequestHead::default();
    let start = RequestReader::new(Limits::default()).read(bytes, &mut head);
    (head, start.expect("no fault").expect("complete"))
}

fn response(bytes: &[u8]) -> (ResponseHead, titan_h1::ResponseStart) {
    let mut head = ResponseHead::default();
    let start = ResponseReader::new(Limits::default()).read(bytes, Method::GET, &mut head);
    (head, start.expect("no fault").expect("complete"))
}

fn written_request(bytes: &[u8], body: Body, connection: Connection) -> String {
    let (head, _) = request(bytes);
    let mut out = Vec::new();
    write_request(&mut out, &head, b"upstream:81", body, connection);
    String::from_utf8(out).expect("ASCII")
}

#[test]
fn the_encoder_owns_host_framing_and_connection() {
    let written = written_request(
        b"POST http://a/b?c HTTP/1.1\r\nX-One:1\r\nHost: a\r\nConnection: close, x\r\n\
          Content-Length: 3\r\nX-Two: \t 2 \r\n\r\n",
        Body::Chunked,
        Connection::Close,
    );
    assert_eq!(
        written,
        "POST /b?c HTTP/1.1\r\nHost: upstream:81\r\nX-One: 1\r\nX-Two: 2\r\n\
         Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    );
}

#[test]
fn a_method_that_expects_a_body_says_that_there_is_none() {
    for (method, line) in [("POST", "Content-Length: 0\r\n"), ("GET", ""), ("DELETE", "")] {
        let bytes = format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(
            written_request(bytes.as_bytes(), Body::None, Connection::KeepAlive),
            format!("{method} / HTTP/1.1\r\nHost: upstream:81\r\n{line}\r\n")
        );
    }
}

#[test]
fn targets_are_written_as_the_next_server_needs_them() {
    let cases = [
        ("OPTIONS http://a HTTP/1.1", "OPTIONS * HTTP/1.1"),
        ("OPTIONS http://a/ HTTP/1.1", "OPTIONS / HTTP/1.1"),
        ("OPTIONS * HTTP/1.0", "OPTIONS * HTTP/1.1"),
        ("GET http://a?b HTTP/1.1", "GET /?b HTTP/1.1"),
        ("GET /a?b?c? HTTP/1.1", "GET /a?b?c? HTTP/1.1"),
        ("GET /? HTTP/1.1", "GET /? HTTP/1.1"),
        ("CONNECT a:443 HTTP/1.1", "CONNECT a:443 HTTP/1.1"),
    ];
    for (received, expected) in cases {
        let host = if received.starts_with("CONNECT") { "a:443" } else { "a" };
        let bytes = format!("{received}\r\nHost: {host}\r\n\r\n");
        let written = written_request(bytes.as_bytes(), Body::None, Connection::KeepAlive);
        assert_eq!(written.split("\r\n").next(), Some(expected));
    }
}

#[test]
fn options_of_a_bare_authority_is_no_request_for_the_root() {
    let (head, _) = request(b"OPTIONS http://a HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!((head.path(), head.authority()), (b"*".as_slice(), Some(b"a".as_slice())));
    let (head, _) = request(b"OPTIONS http://a? HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!((head.path(), head.query()), (b"/".as_slice(), Some(b"".as_slice())));
    let (head, _) = request(b"GET http://a HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(head.path(), b"/");
    let mut reader = RequestReader::new(Limits::default());
    let differs = b"OPTIONS http://a HTTP/1.1\r\nHost: b\r\n\r\n";
    let refused = reader.read(differs, &mut RequestHead::default());
    assert_eq!(refused.err(), Some(Error::HostDiffers));
}

#[test]
fn a_response_keeps_its_reason_and_fields() {
    let (mut head, start) =
        response(b"HTTP/1.0 404 Gone fishing\r\nServer:x\r\nContent-Length: 7\r\n\r\n");
    assert_eq!((start.framing, start.keep_alive), (Framing::Length(7), false));
    let mut out = Vec::new();
    write_response(&mut out, &head, Body::Length(7), Connection::KeepAliveExplicit);
    assert_eq!(
        String::from_utf8(out).expect("ASCII"),
        "HTTP/1.1 404 Gone fishing\r\nServer: x\r\nContent-Length: 7\r\n\
         Connection: keep-alive\r\n\r\n"
    );

    head.clear();
    head.status = Status::NO_CONTENT;
    let mut out = Vec::new();
    write_response(&mut out, &head, Body::None, Connection::KeepAlive);
    assert_eq!(out, b"HTTP/1.1 204 No Content\r\n\r\n");
}

#[test]
fn chunks_and_trailers_read_back() {
    let mut trailers = Fields::default();
    trailers.append_named(b"X-Sum", b"7").expect("a valid field");
    trailers.append(FieldName::ContentLength, b"1").expect("a valid field");
    let mut out = Vec::new();
    for length in [1, 15, 16, 4096, 65_537] {
        write_chunk_head(&mut out, length);
        out.resize(out.len() + length, b'x');
        out.extend_from_slice(CHUNK_END);
    }
    write_last_chunk(&mut out, &trailers);

    let mut reader = BodyReader::new(Framing::Chunked, &Limits::default());
    let (mut at, mut data) = (0, 0);
    while !reader.is_done() {
        let piece = reader.read(&out[at..]).expect("no fault");
        data += piece.data.len();
        at += piece.consumed;
    }
    assert_eq!((at, data), (out.len(), 1 + 15 + 16 + 4096 + 65_537));
    let read: Vec<_> = reader.trailers().iter().map(|field| (field.name, field.value)).collect();
    assert_eq!(read, [(b"X-Sum".as_slice(), b"7".as_slice())]);
}

/// A head with these lines, and what becomes of it: `added` behind them, and those of the names in `removed` not.
fn changed(lines: &str, added: &[(String, String)], removed: &[String]) -> RequestHead {
    let (mut head, _) = request(format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n").as_bytes());
    for (name, value) in added {
        head.fields.append_named(name.as_bytes(), value.as_bytes()).expect("a valid field");
    }
    removed.iter().for_each(|name| head.fields.remove_named(name.as_bytes()));
    head
}

proptest! {
    #[test]
    fn a_head_that_is_written_in_pieces_is_that_which_is_written_line_by_line(
        received in vec(("[a-e]", "(: ?|: \t)", "[x-z]{0,3} ?"), 0..8),
        added in vec(("[a-e]", "[x-z]{0,3}"), 0..4),
        removed in vec("[a-e]", 0..3),
        renamed in option::of(("[a-e]", "[a-e]")),
    ) {
        let line = |(name, colon, value): &(String, String, String)| format!("{name}{colon}{value}\r\n");
        let lines: String = received.iter().map(line).collect();
        let mut head = changed(&lines, &added, &removed);
        if let Some((from, to)) = renamed {
            head.fields.rename(from.as_bytes(), to.as_bytes()).expect("a token");
        }
        let mut expected = String::from("GET / HTTP/1.1\r\nHost: b\r\n");
        for field in head.fields.iter().filter(|field| field.id != FieldName::Host) {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            expected += &format!("{}: {}\r\n", text(field.name), text(field.value));
        }
        let mut written = Vec::new();
        write_request(&mut written, &head, b"b", Body::None, Connection::KeepAlive);
        prop_assert_eq!(String::from_utf8_lossy(&written), expected + "\r\n");
    }
}
