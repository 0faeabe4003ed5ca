//! Bodies that come in pieces, against what decoders make of them.

use super::*;
use proptest::prelude::*;
use std::io::Read;
use std::task::Waker;
use titan_config::Coding;

/// Pieces of a body with a pause behind each.
struct Pieces {
    pieces: Vec<Vec<u8>>,
    next: usize,
    data: Vec<u8>,
    pauses: bool,
    no_fields: Fields,
}

impl Pieces {
    fn new(pieces: Vec<Vec<u8>>) -> Pieces {
        let (data, no_fields) = (Vec::new(), Fields::default());
        Pieces { pieces, next: 0, data, pauses: false, no_fields }
    }
}

impl BodySource for Pieces {
    fn poll_data(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if std::mem::replace(&mut self.pauses, true) && self.next > 0 {
            self.pauses = false;
            return Poll::Pending;
        }
        if let Some(piece) = self.pieces.get(self.next) {
            self.data.clone_from(piece);
        }
        self.next += 1;
        Poll::Ready(Ok(()))
    }

    fn data(&self) -> &[u8] {
        &self.data
    }

    fn consume(&mut self, count: usize) {
        self.data.drain(..count);
    }

    fn is_done(&self) -> bool {
        self.next > self.pieces.len()
    }

    fn is_last(&self) -> bool {
        self.is_done()
    }

    fn trailers(&self) -> &Fields {
        &self.no_fields
    }
}

fn config() -> titan_config::Compress {
    let text = "listeners: [\":80\"]\nroutes: [{ respond: 204, apply: [p] }]\npolicies: { p: { compress: {} } }";
    let mut config = titan_config::Config::parse("titan.yaml", text).unwrap();
    match config.policies.remove(0).policy {
        titan_config::Policy::Compress(compress) => compress,
        _ => unreachable!(),
    }
}

/// What a decoder makes of what there is, and whether it found the end.
fn decoded(coding: Coding, octets: &[u8]) -> (Vec<u8>, bool) {
    let mut out = Vec::new();
    let is_whole = match coding {
        Coding::Gzip => flate2::read::GzDecoder::new(octets).read_to_end(&mut out).is_ok(),
        Coding::Brotli => brotli::Decompressor::new(octets, 4096).read_to_end(&mut out).is_ok(),
        Coding::Zstd => zstd::Decoder::new(octets).unwrap().read_to_end(&mut out).is_ok(),
    };
    (out, is_whole)
}

/// What comes out, with what the source had given at each pause. Tells too how often others had their turn.
fn squeezed(coding: Coding, pieces: &[Vec<u8>], taken_at_once: usize) -> (Vec<u8>, usize) {
    let mut source = Pieces::new(pieces.to_vec());
    let mut body = Squeezed::new(&mut source, Encoder::new(coding, &config(), None));
    let mut cx = Context::from_waker(Waker::noop());
    let (mut out, mut pauses) = (Vec::new(), 0);
    while !body.is_done() {
        if body.data().is_empty() {
            match body.poll_data(&mut cx) {
                Poll::Ready(result) => result.unwrap(),
                Poll::Pending => {
                    pauses += 1;
                    if body.source.data.is_empty() && !body.is_holding {
                        let so_far = pieces[..body.source.next].concat();
                        assert_eq!(decoded(coding, &out).0, so_far, "held back");
                    }
                }
            }
            continue;
        }
        let count = body.data().len().min(taken_at_once);
        out.extend_from_slice(&body.data()[..count]);
        body.consume(count);
    }
    (out, pauses)
}

const CODINGS: [Coding; 3] = [Coding::Gzip, Coding::Brotli, Coding::Zstd];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn a_body_comes_out_as_it_went_in_however_it_is_split(
        pieces in proptest::collection::vec(proptest::collection::vec(0_u8..8, 1..3000), 0..8),
        taken_at_once in 1_usize..5000,
    ) {
        for coding in CODINGS {
            let (out, _) = squeezed(coding, &pieces, taken_at_once);
            prop_assert_eq!(decoded(coding, &out), (pieces.concat(), true));
        }
    }
}

#[test]
fn others_have_their_turn_while_a_large_piece_is_coded() {
    let piece: Vec<u8> =
        (0..1_u32 << 18).flat_map(|number| number.wrapping_mul(number).to_le_bytes()).collect();
    for coding in CODINGS {
        let (out, pauses) = squeezed(coding, std::slice::from_ref(&piece), usize::MAX);
        assert_eq!(decoded(coding, &out), (piece.clone(), true));
        assert!(pauses >= piece.len() / TURN - 1, "{coding:?}: {pauses}");
    }
}
