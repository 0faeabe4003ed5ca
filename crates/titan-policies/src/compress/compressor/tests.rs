//! Bodies in pieces, compared with what decoders produce.

use super::super::Settings;
use super::super::tests::{Pieces, behind, decoded};
use super::*;
use proptest::prelude::*;
use std::task::{Context, Poll, Waker};
use titan_http::coding::Coding;
use titan_io::body::BodySource;
use titan_io::transform::TURN;

fn encoding(coding: Coding, level: u8) -> Encoding {
    let settings = Settings { coding, level, length: None, padding: 0 };
    Encoding { settings, compressed: Rc::default() }
}

/// What comes out, with what the source had given at each pause. Tells too how often others had their turn.
fn compressed(encoding: Encoding, pieces: &[Vec<u8>], taken_at_once: usize) -> (Vec<u8>, usize) {
    let mut source = Pieces::new(pieces.to_vec());
    let (coding, seen) = (encoding.settings.coding, Rc::clone(&source.seen));
    let mut body = behind(&mut source, Compressor::new(encoding, &Rc::default()));
    let mut cx = Context::from_waker(Waker::noop());
    let (mut out, mut pauses) = (Vec::new(), 0);
    while !body.is_done() {
        if body.data().is_empty() {
            match body.poll_data(&mut cx) {
                Poll::Ready(result) => result.unwrap(),
                Poll::Pending => {
                    pauses += 1;
                    if seen.is_pausing.get() {
                        let so_far = pieces[..seen.next.get()].concat();
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
            let (out, _) = compressed(encoding(coding, 4), &pieces, taken_at_once);
            prop_assert_eq!(decoded(coding, &out), (pieces.concat(), true));
        }
    }
}

#[test]
fn a_source_learns_that_what_it_has_is_coded_ahead() {
    let mut source = Pieces::new(vec![]);
    let seen = Rc::clone(&source.seen);
    let compressor = Compressor::new(encoding(Coding::Gzip, 4), &Rc::default());
    let mut body = behind(&mut source, compressor);
    body.set_ahead(true);
    assert!(seen.is_ahead.get());
    body.set_ahead(false);
    assert!(!seen.is_ahead.get());
}

#[test]
fn digests_of_what_it_was_are_no_trailers() {
    for (names, is_last) in [(["Content-Digest", "x"], false), (["Repr-Digest", "Digest"], true)] {
        let mut source = Pieces::new(vec![b"abc".into()]);
        for name in names {
            source.trailers.append_named(name.as_bytes(), b"1").unwrap();
        }
        let compressor = Compressor::new(encoding(Coding::Gzip, 4), &Rc::default());
        let mut body = behind(&mut source, compressor);
        let mut cx = Context::from_waker(Waker::noop());
        while !body.is_last() && !body.is_done() {
            let _ = body.poll_data(&mut cx).map(Result::unwrap);
            if !body.is_last() {
                body.consume(body.data().len());
            }
        }
        let left: Vec<_> = body.trailers().iter().map(|field| field.name.to_vec()).collect();
        assert_eq!((body.is_last(), left.len()), (is_last, usize::from(!is_last)), "{names:?}");
        assert!(left.iter().all(|name| name.eq_ignore_ascii_case(b"x")));
    }
}

#[test]
fn others_have_their_turn_while_a_large_piece_is_coded() {
    let piece: Vec<u8> =
        (0..1_u32 << 18).flat_map(|number| number.wrapping_mul(number).to_le_bytes()).collect();
    for coding in CODINGS {
        let (out, pauses) =
            compressed(encoding(coding, 4), std::slice::from_ref(&piece), usize::MAX);
        assert_eq!(decoded(coding, &out), (piece.clone(), true));
        assert!(pauses >= piece.len() / TURN - 1, "{coding:?}: {pauses}");
    }
}

/// The highest levels that there are.
const HIGHEST: [(Coding, u8); 3] = [(Coding::Gzip, 9), (Coding::Brotli, 9), (Coding::Zstd, 12)];

#[test]
fn a_wait_for_a_socket_lasts_a_turn_at_most() {
    for (coding, level) in HIGHEST {
        let piece: Vec<u8> = (0..400_000_u32).map(|at| (at / 9 % 251) as u8 & 0x3f).collect();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build_local(tokio::runtime::LocalOptions::default());
        runtime.unwrap().block_on(async {
            let turns = Rc::new(std::cell::Cell::new(0_usize));
            let counted = Rc::clone(&turns);
            let coded = tokio::task::spawn_local(async move {
                let mut source = Pieces::new(vec![piece]);
                let compressor = Compressor::new(encoding(coding, level), &Rc::default());
                let mut body = behind(&mut source, compressor);
                while !body.is_done() {
                    std::future::poll_fn(|cx| {
                        counted.set(counted.get() + 1);
                        body.poll_data(cx)
                    })
                    .await
                    .unwrap();
                    body.consume(body.data().len());
                }
            });
            let (one, other) = tokio::net::UnixStream::pair().unwrap();
            let mut rounds = 0;
            while !coded.is_finished() {
                let before = turns.get();
                other.try_write(b"x").unwrap();
                one.readable().await.unwrap();
                one.try_read(&mut [0]).unwrap();
                // Now it has to be asked again.
                one.try_read(&mut [0]).unwrap_err();
                assert!(turns.get() - before <= 2, "{coding:?}: {before} to {}", turns.get());
                rounds += 1;
            }
            assert!(rounds > 5, "{coding:?}: {rounds}");
        });
    }
}

#[test]
fn a_turn_at_a_high_level_leaves_no_work_to_the_next() {
    for (coding, level) in HIGHEST {
        let encoding = encoding(coding, level);
        let is_heavy = encoding.settings.is_heavy();
        let mut compressor = Compressor::new(encoding, &Rc::default());
        let (piece, mut turn, mut turns) = (vec![7; 5 * TURN], Turn::of(TURN), 0);
        let (mut out, mut left) = (Vec::new(), piece.as_slice());
        while !left.is_empty() {
            let taken = compressor.take(left, &mut turn, &mut out).unwrap();
            left = &left[taken.bytes..];
            if turn.is_over() {
                assert!(!(is_heavy && compressor.is_holding), "{coding:?}");
                turn.renew();
                turns += 1;
            }
        }
        assert_eq!(turns, if is_heavy { 5 * HEAVY } else { 5 }, "{coding:?}");
    }
}
