//! Bodies in pieces, compared with what encoders were given.

use super::super::tests::{Pieces, behind};
use super::*;
use crate::compress::{BAD_CODING, BODY_EXPANDS, WINDOW_TOO_LARGE};
use proptest::prelude::*;
use std::io::Write;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use titan_io::body::BodySource;
use titan_io::error::Kind;
use titan_io::memory::ClientMemory;
use titan_io::transform::TURN;

const CODINGS: [Coding; 3] = [Coding::Gzip, Coding::Brotli, Coding::Zstd];

fn coded(coding: Coding, bytes: &[u8]) -> Vec<u8> {
    match coding {
        Coding::Gzip => {
            let level = flate2::Compression::default();
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
        Coding::Brotli => {
            let mut encoder = brotli::CompressorWriter::new(Vec::new(), 4096, 4, 20);
            encoder.write_all(bytes).unwrap();
            encoder.into_inner()
        }
        Coding::Zstd => zstd::encode_all(bytes, 3).unwrap(),
    }
}

/// What comes out of a body in pieces, and how often it waited; or why nothing more comes.
fn decoded(limits: Decoding, pieces: &[Vec<u8>]) -> Result<(Vec<u8>, usize), Kind> {
    let mut source = Pieces::new(pieces.to_vec());
    let memory = ClientMemory::new(64 << 20, Arc::default());
    let mut body = behind(&mut source, Decompressor::new(limits, memory.of(None)));
    let mut cx = Context::from_waker(Waker::noop());
    let (mut out, mut pauses) = (Vec::new(), 0);
    while !body.is_done() {
        match body.poll_data(&mut cx) {
            Poll::Ready(result) => result.map_err(|error| error.kind)?,
            Poll::Pending => pauses += 1,
        }
        out.extend_from_slice(body.data());
        body.consume(body.data().len());
    }
    Ok((out, pauses))
}

fn unbounded(coding: Coding) -> Decoding {
    Decoding { coding, most: u64::MAX, ratio: u64::MAX, window: 8 << 20 }
}

fn in_pieces(bytes: &[u8], size: usize) -> Vec<Vec<u8>> {
    bytes.chunks(size).map(<[u8]>::to_vec).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn a_body_comes_out_as_it_was_however_it_is_split(
        body in proptest::collection::vec(0_u8..8, 0..60_000),
        size in 1_usize..5000,
    ) {
        for coding in CODINGS {
            let made = decoded(unbounded(coding), &in_pieces(&coded(coding, &body), size));
            prop_assert_eq!(made.map(|(out, _)| out), Ok(body.clone()));
        }
    }

    #[test]
    fn what_was_coded_in_parts_comes_out_as_one(
        parts in proptest::collection::vec(proptest::collection::vec(0_u8..8, 0..3_000), 1..8),
        size in 1_usize..5000,
    ) {
        for coding in [Coding::Gzip, Coding::Zstd] {
            let body: Vec<_> = parts.iter().flat_map(|part| coded(coding, part)).collect();
            let made = decoded(unbounded(coding), &in_pieces(&body, size));
            prop_assert_eq!(made.map(|(out, _)| out), Ok(parts.concat()));
        }
    }

    #[test]
    fn what_is_cut_or_goes_on_is_refused(at in 0_usize..400, size in 1_usize..50) {
        for coding in CODINGS {
            let mut bytes = coded(coding, b"What is cut or goes on is refused. What is whole is not.");
            let cut = &bytes[..at % bytes.len()];
            prop_assert_eq!(decoded(unbounded(coding), &in_pieces(cut, size)), Err(BAD_CODING));
            bytes.push(b'x');
            prop_assert_eq!(decoded(unbounded(coding), &in_pieces(&bytes, size)), Err(BAD_CODING));
        }
    }

    #[test]
    fn nothing_makes_it_panic_or_spin(
        bytes in proptest::collection::vec(any::<u8>(), 0..2000),
        start in 0_usize..20,
        size in 1_usize..500,
    ) {
        for coding in CODINGS {
            let mut whole = coded(coding, b"begins well, and then?");
            whole.truncate(start);
            whole.extend_from_slice(&bytes);
            let limits = Decoding { most: 1 << 20, ..unbounded(coding) };
            let _ = decoded(limits, &in_pieces(&whole, size));
        }
    }
}

#[test]
fn what_follows_the_end_of_brotli_is_refused() {
    let two = [coded(Coding::Brotli, b"a"), coded(Coding::Brotli, b"b")];
    assert_eq!(decoded(unbounded(Coding::Brotli), &two), Err(BAD_CODING));
}

#[test]
fn members_without_content_wait_their_turn() {
    let body = coded(Coding::Gzip, b"").repeat(200);
    let (out, pauses) = decoded(unbounded(Coding::Gzip), &[body]).unwrap();
    assert!(out.is_empty() && pauses >= 2, "{pauses}");
}

#[test]
fn digests_of_what_it_was_are_no_trailers() {
    let mut body = Pieces::new(vec![coded(Coding::Gzip, b"abc")]);
    for name in ["Content-Digest", "x", "Content-MD5"] {
        body.trailers.append_named(name.as_bytes(), b"1").unwrap();
    }
    let memory = ClientMemory::new(64 << 20, Arc::default());
    let decompressor = Decompressor::new(unbounded(Coding::Gzip), memory.of(None));
    let mut body = behind(&mut body, decompressor);
    let mut cx = Context::from_waker(Waker::noop());
    while !body.is_done() {
        let _ = body.poll_data(&mut cx).map(Result::unwrap);
        body.consume(body.data().len());
    }
    let left: Vec<_> = body.trailers().iter().map(|field| field.name.to_vec()).collect();
    assert_eq!(left, [b"x"]);
}

#[test]
fn a_bomb_does_not_go_off() {
    for coding in CODINGS {
        let bomb = coded(coding, &vec![0; 4 << 20]);
        let of = |limits| decoded(limits, &in_pieces(&bomb, 1000)).map(drop);
        assert_eq!(of(unbounded(coding)), Ok(()));
        assert_eq!(of(Decoding { most: 4 << 20, ..unbounded(coding) }), Ok(()));
        assert_eq!(of(Decoding { most: (4 << 20) - 1, ..unbounded(coding) }), Err(BODY_EXPANDS));
        assert_eq!(of(Decoding { ratio: 100, ..unbounded(coding) }), Err(BODY_EXPANDS));
        // Short ones may be all alike.
        let short = coded(coding, &vec![0; 60 << 10]);
        assert!(decoded(Decoding { ratio: 2, ..unbounded(coding) }, &[short]).is_ok());
    }
}

/// A body of zstd with a window of so many bits.
fn zstd(bits: u32) -> Vec<u8> {
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.window_log(bits).unwrap();
    encoder.write_all(b"abc").unwrap();
    // So that it does not know how short the content is, and ask for no more than that.
    encoder.flush().unwrap();
    encoder.finish().unwrap()
}

#[test]
fn the_window_of_zstd_is_most_of_its_memory() {
    for bits in [17, 20, 23, 24] {
        let window = 1 << bits;
        let mut decoder = Decoder::new(Coding::Zstd, window);
        let begun = decoder.decode(&zstd(bits)[..9], &mut [0; 100]).unwrap();
        assert!(!begun.is_end);
        let bounds = window..=Decoder::most_memory(Coding::Zstd, window);
        assert!(bounds.contains(&decoder.memory()), "{bits}: {}", decoder.memory());
    }
}

#[test]
fn a_window_is_as_large_as_it_may_be() {
    let brotli = |bits: u32| {
        let mut encoder = brotli::CompressorWriter::new(Vec::new(), 4096, 4, bits);
        encoder.write_all(b"abc").unwrap();
        encoder.into_inner()
    };
    let of = |coding, body: Vec<u8>| {
        let limits = Decoding { window: 1 << 20, ..unbounded(coding) };
        decoded(limits, &in_pieces(&body, 1)).map(|(out, _)| out)
    };
    assert_eq!(of(Coding::Brotli, brotli(20)), Ok(b"abc".to_vec()));
    assert_eq!(of(Coding::Brotli, brotli(21)), Err(WINDOW_TOO_LARGE));
    assert_eq!(of(Coding::Zstd, zstd(20)), Ok(b"abc".to_vec()));
    assert_eq!(of(Coding::Zstd, zstd(21)), Err(WINDOW_TOO_LARGE));
}

/// What a decoder has is known while it decodes, is never more than it may become, and is given back at the end.
#[test]
fn memory_is_counted_as_it_is_used() {
    for coding in CODINGS {
        let limits = unbounded(coding);
        let memory = ClientMemory::new(256 << 20, Arc::default());
        let body = (0..1_000_000_u32).map(|it| (it.wrapping_mul(it) >> 7).to_le_bytes()[0]);
        let whole = coded(coding, &body.collect::<Vec<_>>());
        let mut decompressor = Decompressor::new(limits, memory.of(None));
        let (mut left, mut turn, mut most) = (whole.as_slice(), Turn::of(TURN), 0);
        assert_eq!(decompressor.memory.bytes(), 0, "{coding:?}");
        let mut has_more = false;
        while has_more || !left.is_empty() {
            let taken = decompressor.take(left, &mut turn, &mut Vec::new()).unwrap();
            (left, has_more) = (&left[taken.bytes..], taken.has_more);
            most = most.max(decompressor.memory.bytes());
        }
        let bound = ROOM + Decoder::most_memory(coding, limits.window);
        assert!((40 << 10..=bound).contains(&most), "{coding:?}: {most}");
        decompressor.end(&Fields::default(), &mut Vec::new()).unwrap();
        assert_eq!(decompressor.memory.bytes(), ROOM, "{coding:?}");
    }
}

#[test]
fn others_have_their_turn_while_a_bomb_is_decoded() {
    for coding in CODINGS {
        let whole = coded(coding, &vec![0; 4 << 20]);
        let pieces = [whole];
        let (out, pauses) = decoded(unbounded(coding), &pieces).unwrap();
        assert!(pauses >= out.len() / (TURN + ROOM), "{coding:?}: {pauses}");
    }
}
