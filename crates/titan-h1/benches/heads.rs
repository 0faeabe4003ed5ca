//! Nanoseconds per head, read and written: `cargo bench -p titan-h1`.
//!
//! Each figure is the fastest of many short rounds: what the code costs, without what else the machine
//! was doing.

#![expect(clippy::print_stdout, reason = "a benchmark prints its result")]

use std::hint::black_box;
use std::time::Instant;
use titan_h1::{
    Body, BodyReader, Connection, Framing, Limits, RequestReader, ResponseReader, write_request,
    write_response,
};
use titan_http::{Method, RequestHead, ResponseHead};

const REQUEST: &[u8] = b"GET /api/v1/users/12345/orders?limit=20&sort=date HTTP/1.1\r\n\
Host: shop.example.com\r\n\
User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n\
Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n\
Accept-Language: en-US,en;q=0.5\r\n\
Accept-Encoding: gzip, deflate, br\r\n\
Referer: https://shop.example.com/account\r\n\
Connection: keep-alive\r\n\
Cookie: session=0123456789abcdef0123456789abcdef; theme=dark\r\n\
X-Requested-With: XMLHttpRequest\r\n\
Cache-Control: no-cache\r\n\r\n";

const SMALL_REQUEST: &[u8] = b"GET /small HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n";

const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\n\
Date: Mon, 06 Jan 2025 10:00:00 GMT\r\n\
Content-Type: application/json\r\n\
Content-Length: 128\r\n\
Server: shockwave\r\n\r\n";

fn main() {
    let limits = Limits::default();
    for (name, bytes) in [("10 fields", REQUEST), ("1 field", SMALL_REQUEST)] {
        let mut reader = RequestReader::new(limits);
        let mut head = RequestHead::default();
        report(&format!("read request, {name}"), bytes.len(), || {
            let start = reader.read(black_box(bytes), &mut head).expect("no fault");
            black_box(start.expect("complete"));
        });
        let mut out = Vec::new();
        report(&format!("write request, {name}"), bytes.len(), || {
            out.clear();
            let head = black_box(&head);
            write_request(&mut out, head, b"127.0.0.1:81", Body::None, Connection::KeepAlive);
            black_box(&out);
        });
    }

    let mut reader = ResponseReader::new(limits);
    let mut head = ResponseHead::default();
    report("read response, 4 fields", RESPONSE.len(), || {
        let start = reader.read(black_box(RESPONSE), Method::GET, &mut head).expect("no fault");
        black_box(start.expect("complete"));
    });
    let mut out = Vec::new();
    report("write response, 4 fields", RESPONSE.len(), || {
        out.clear();
        write_response(&mut out, black_box(&head), Body::Length(128), Connection::KeepAlive);
        black_box(&out);
    });

    let mut chunk = b"400\r\n".to_vec();
    chunk.extend_from_slice(&[b'x'; 0x400]);
    chunk.extend_from_slice(b"\r\n0\r\n\r\n");
    let mut body = BodyReader::new(Framing::None, &limits);
    report("read 1 chunk and the last", chunk.len(), || {
        body.reset(Framing::Chunked);
        let mut at = 0;
        while !body.is_done() {
            at += body.read(black_box(&chunk[at..])).expect("no fault").consumed;
        }
    });
}

/// Prints how long one call of `run` takes.
fn report(name: &str, bytes: usize, mut run: impl FnMut()) {
    const ROUNDS: u32 = 300;
    const CALLS: u32 = 1000;
    let round = |_| {
        let start = Instant::now();
        (0..CALLS).for_each(|_| run());
        start.elapsed()
    };
    let fastest = (0..ROUNDS).map(round).min().expect("rounds were run");
    let nanoseconds = fastest.as_secs_f64() * 1e9 / f64::from(CALLS);
    println!("{name:28} {bytes:5} bytes {nanoseconds:8.1} ns");
}
