//! Base64 that arrives in pieces of any size. Padding may occur wherever the sender had to flush.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Reads such text.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    /// Characters that make no whole group yet. `held <= 3`
    group: [u8; GROUP],
    held: usize,
}

/// It is not base64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BadText;

/// How many characters stand for three bytes.
const GROUP: usize = 4;

impl Decoder {
    /// Appends to `out` what the next piece stands for.
    pub(super) fn read(&mut self, mut piece: &[u8], out: &mut Vec<u8>) -> Result<(), BadText> {
        if self.held > 0 {
            let count = piece.len().min(GROUP - self.held);
            self.group[self.held..][..count].copy_from_slice(&piece[..count]);
            self.held += count;
            piece = &piece[count..];
            if self.held < GROUP {
                return Ok(());
            }
            decode(&self.group, out)?;
        }
        let (mut groups, rest) = piece.split_at(piece.len() / GROUP * GROUP);
        while let Some(padding) = groups.iter().position(|byte| *byte == b'=') {
            let (padded, more) = groups.split_at((padding / GROUP + 1) * GROUP);
            decode(padded, out)?;
            groups = more;
        }
        decode(groups, out)?;
        self.group[..rest.len()].copy_from_slice(rest);
        self.held = rest.len();
        Ok(())
    }

    /// Whether the text may end here.
    pub(super) fn is_complete(&self) -> bool {
        self.held == 0
    }
}

/// Decodes whole groups, of which the last may be padded.
fn decode(groups: &[u8], out: &mut Vec<u8>) -> Result<(), BadText> {
    STANDARD.decode_vec(groups, out).map_err(|_| BadText)
}

/// Appends the text of some bytes to `out`, padded so that it can be read at once.
pub(super) fn encode(bytes: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + bytes.len().div_ceil(3) * GROUP, 0);
    STANDARD.encode_slice(bytes, &mut out[start..]).expect("there is room for every group");
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(pieces: &[&[u8]]) -> Result<Vec<u8>, BadText> {
        let (mut decoder, mut out) = (Decoder::default(), Vec::new());
        pieces.iter().try_for_each(|piece| decoder.read(piece, &mut out))?;
        if decoder.is_complete() { Ok(out) } else { Err(BadText) }
    }

    #[test]
    fn wherever_it_is_split_it_is_the_same() {
        // Padded in the middle, twice, and at the end.
        let text = b"AA==AAECAwQFBgc=BAUG/w==";
        let bytes = [0, 0, 1, 2, 3, 4, 5, 6, 7, 4, 5, 6, 255];
        for first in 0..=text.len() {
            for second in first..=text.len() {
                let pieces = [&text[..first], &text[first..second], &text[second..]];
                assert_eq!(read(&pieces).as_deref(), Ok(&bytes[..]), "{first} {second}");
            }
        }
    }

    #[test]
    fn what_is_not_base64_is_refused() {
        for text in
            ["A", "AA", "AAA", "AA=", "A===", "====", "AA=A", "AB==", "A-A=", "AAA\n", "AAAA A"]
        {
            assert_eq!(read(&[text.as_bytes()]), Err(BadText), "{text}");
        }
        assert_eq!(read(&[b""]), Ok(Vec::new()));
    }

    proptest! {
        #[test]
        fn what_is_written_in_pieces_is_read(pieces: Vec<Vec<u8>>, at: prop::sample::Index) {
            let mut text = Vec::new();
            pieces.iter().for_each(|piece| encode(piece, &mut text));
            let (first, second) = text.split_at(at.index(text.len() + 1));
            prop_assert_eq!(read(&[first, second]), Ok(pieces.concat()));
        }
    }
}
