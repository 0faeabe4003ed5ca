//! The text form of gRPC-Web: base64 in pieces. What reads it is pure and is compiled in here.

#[path = "../../crates/titan-proxy/src/grpc/text.rs"]
mod text;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use text::{BadText, Decoder, encode};

/// A body has the same bytes however it is split, those of its groups, and no more than they can stand for; what is
/// written in pieces is read.
pub fn web_text(data: &[u8]) {
    let Some((choice, input)) = data.split_first() else { return };
    let step = usize::from(*choice) % 23 + 1;
    let whole = read(input, input.len().max(1));
    assert_eq!(whole, read(input, step));
    assert_eq!(whole, read(input, 1));
    let groups: Result<Vec<_>, _> = input.chunks(4).map(|group| STANDARD.decode(group)).collect();
    let groups = groups.ok().filter(|_| input.len().is_multiple_of(4));
    assert_eq!(whole.ok(), groups.map(|groups| groups.concat()));

    let mut text = Vec::new();
    input.chunks(step).for_each(|piece| encode(piece, &mut text));
    assert_eq!(read(&text, step), Ok(input.to_vec()));
}

fn read(input: &[u8], step: usize) -> Result<Vec<u8>, BadText> {
    let (mut decoder, mut out) = (Decoder::default(), Vec::new());
    for piece in input.chunks(step) {
        decoder.read(piece, &mut out)?;
        assert!(out.len() <= input.len() / 4 * 3);
    }
    if decoder.is_complete() { Ok(out) } else { Err(BadText) }
}
