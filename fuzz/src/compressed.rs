//! Decoders of compressed bodies. They need no I/O and are compiled in here.

#[path = "../../crates/titan-policies/src/compress/decoder/mod.rs"]
mod decoder;

use crate::CHOICES;
use decoder::{Bad, Decoder, Progress};
use titan_http::coding::Coding;

/// The codings, by the first byte of the data.
pub const CODINGS: [Coding; 3] = [Coding::Gzip, Coding::Brotli, Coding::Zstd];

/// Bytes of a body that are looked at: a small input may stand for a large one.
const MOST: usize = 1 << 20;

/// What a decoder made of a body.
#[derive(Debug, PartialEq, Eq)]
struct Decoded {
    bytes: Vec<u8>,
    /// Whether the body may end there; `None` where there was more than is looked at.
    outcome: Option<Result<bool, Bad>>,
}

/// A body has the same bytes and the same end however it is split and however much room there is; a decoder has no more
/// memory than its coding and window allow, and never stands still with both input and room.
pub fn compressed(data: &[u8]) {
    let Some((choices, input)) = data.split_first_chunk::<CHOICES>() else { return };
    let coding = CODINGS[usize::from(choices[0]) % CODINGS.len()];
    let window = 1 << [10, 15, 18, 23][usize::from(choices[1] % 4)];
    let whole = decode(coding, window, input, input.len().max(1), 16 << 10);
    let step = usize::from(choices[2]) % 61 + 1;
    let split = decode(coding, window, input, step, usize::from(choices[3]) * 16 + 1);
    let common = whole.bytes.len().min(split.bytes.len());
    assert_eq!(whole.bytes[..common], split.bytes[..common]);
    if let (Some(Ok(_)), Some(_)) | (Some(_), Some(Ok(_))) = (whole.outcome, split.outcome) {
        assert_eq!(whole, split);
    }
}

fn decode(coding: Coding, window: usize, input: &[u8], step: usize, room: usize) -> Decoded {
    let mut decoder = Decoder::new(coding, window);
    let mut decoded = Decoded { bytes: Vec::new(), outcome: Some(Ok(false)) };
    let (mut at, mut room) = (0, vec![0; room]);
    let mut is_end = false;
    loop {
        let piece = &input[at..input.len().min(at + step)];
        let progress = match decoder.decode(piece, &mut room) {
            Ok(progress) => progress,
            Err(bad) => {
                decoded.outcome = Some(Err(bad));
                return decoded;
            }
        };
        let Progress { taken, made, .. } = progress;
        assert!(taken <= piece.len() && made <= room.len());
        assert!(decoder.memory() <= Decoder::most_memory(coding, window), "{coding:?} {window}");
        decoded.bytes.extend_from_slice(&room[..made]);
        at += taken;
        if taken > 0 || made > 0 {
            is_end = progress.is_end;
        }
        let is_over = progress.is_end && !decoder.may_go_on();
        let is_still = taken == 0 && made == 0;
        if decoded.bytes.len() > MOST {
            decoded.outcome = None;
            return decoded;
        }
        if is_over || is_still {
            assert!(is_over || piece.is_empty(), "it stands still with {} bytes", piece.len());
            decoded.outcome = Some(Ok(is_end && at == input.len()));
            return decoded;
        }
    }
}
