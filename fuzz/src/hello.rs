//! ClientHellos. The parser is pure and is compiled in here: the crate that it is part of would bring a runtime and a TLS library.

#[path = "../../crates/titan-io/src/tls/client_hello.rs"]
mod client_hello;

use client_hello::{BadHello, HelloParser, MAX_HELLO, ReadHello};

/// A ClientHello says the same however its bytes are split, and keeps no name that is longer than one can be.
pub fn hello(data: &[u8]) {
    let Some((choice, input)) = data.split_first() else { return };
    let input = &input[..input.len().min(MAX_HELLO)];
    let whole = read(input, input.len().max(1));
    assert_eq!(whole, read(input, usize::from(*choice) % 23 + 1));
    assert_eq!(whole, read(input, 1));
    if let Ok(Some(ReadHello { name: Some(name) })) = whole {
        assert!((1..=255).contains(&name.len()));
    }
}

fn read(input: &[u8], step: usize) -> Result<Option<ReadHello>, &'static str> {
    let mut parser = HelloParser::default();
    for piece in input.chunks(step) {
        if let read @ Some(_) = parser.read(piece).map_err(BadHello::text)? {
            return Ok(read);
        }
    }
    Ok(None)
}
