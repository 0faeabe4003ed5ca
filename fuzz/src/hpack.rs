//! HPACK next to a decoder and an encoder of others. Titan's is compiled in here: `titan-h2` does not show it.

#[expect(clippy::module_inception, reason = "it is the folder's own name")]
#[path = "../../crates/titan-h2/src/hpack/mod.rs"]
mod hpack;

use hpack::{BadBlock, Decoder, Hpack, write_size_update};
use loona_hpack::decoder::{DecoderError, IntegerDecodingError};
use titan_http::section::{Encoding, Secrecy, Table};

/// A name and a value.
type Line = (Vec<u8>, Vec<u8>);

/// Both decode a conversation to the same lines, or refuse the same block; what either encodes, the other one decodes. The
/// data is a sequence of blocks, each behind its length.
pub fn hpack(mut data: &[u8]) {
    let (mut ours, mut theirs) = (Decoder::new(), theirs());
    let (mut writer, mut reader) = (loona_hpack::Encoder::new(), Decoder::new());
    while let Some((length, rest)) = data.split_first() {
        let (block, rest) = rest.split_at(rest.len().min(usize::from(*length)));
        data = rest;
        let decoded = (decode(&mut ours, block), theirs.decode(block));
        let lines = match decoded {
            (Ok(ours), Ok(theirs)) => {
                assert_eq!(ours, theirs);
                ours
            }
            (Ok(lines), Err(error)) => return assert!(is_stricter(&lines, error), "{error}"),
            (Err(bad), Ok(_)) => return assert_eq!(bad, BadBlock::Compression(LATE_UPDATE)),
            (Err(_), Err(_)) => return,
        };
        let written = writer.encode(lines.iter().map(|(name, value)| (&name[..], &value[..])));
        assert_eq!(decode(&mut reader, &written).as_ref(), Ok(&lines));
        written_by_us(&lines);
    }
}

/// What Titan refuses and the other one takes: the table's size may change in front of the lines alone (RFC 7541 section 4.2).
const LATE_UPDATE: &str = "a table size update follows a field line (RFC 7541 section 4.2)";

/// Whether the other one refuses what may be sent: integers beyond 28 bits, or a block of nothing but changes of the table's size.
fn is_stricter(lines: &[Line], error: DecoderError) -> bool {
    match error {
        DecoderError::IntegerDecodingError(IntegerDecodingError::TooManyOctets) => true,
        DecoderError::SizeUpdateAtEnd => lines.is_empty(),
        _ => false,
    }
}

fn theirs() -> loona_hpack::Decoder<'static> {
    let mut decoder = loona_hpack::Decoder::new();
    decoder.set_max_allowed_table_size(Table::MAX);
    decoder
}

fn decode(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<Line>, BadBlock> {
    let mut lines = Vec::new();
    decoder.decode(block, |line| {
        lines.push((line.name.to_vec(), line.value.to_vec()));
        Ok(())
    })?;
    Ok(lines)
}

fn written_by_us(lines: &[Line]) {
    let mut block = Vec::new();
    write_size_update(&mut block);
    for (place, (name, value)) in lines.iter().enumerate() {
        let secrecy = [Secrecy::Public, Secrecy::Secret][place % 2];
        Hpack::write_literal(&mut block, None, name, value.len(), secrecy);
        block.extend_from_slice(value);
    }
    let lower = |(name, value): &Line| (name.to_ascii_lowercase(), value.clone());
    let written: Vec<_> = lines.iter().map(lower).collect();
    assert_eq!(decode(&mut Decoder::new(), &block).as_ref(), Ok(&written));
    if !lines.is_empty() {
        assert_eq!(theirs().decode(&block), Ok(written));
    }
}
