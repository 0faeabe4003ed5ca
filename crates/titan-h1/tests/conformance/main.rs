//! Every vector of `conformance/http1`: whole, byte for byte, and split at every offset.

mod drive;
mod expectation;
mod mutation;
mod naive;
mod properties;
mod vectors;

use drive::verdict;
use vectors::Vector;

fn check_all(run: impl Fn(&Vector) -> Result<(), String>) {
    let vectors = vectors::all();
    assert!(vectors.len() >= 200, "only {} vectors", vectors.len());
    let failures: Vec<String> = vectors
        .iter()
        .filter_map(|vector| run(vector).err().map(|why| format!("{}: {why}", vector.id)))
        .collect();
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn vectors_hold_when_they_arrive_at_once() {
    check_all(|vector| vector.check(&verdict(vector.setting, &vector.input, &[], vector.close)));
}

#[test]
fn vectors_hold_byte_by_byte() {
    check_all(|vector| {
        let ends: Vec<usize> = (0..vector.input.len()).collect();
        vector.check(&verdict(vector.setting, &vector.input, &ends, vector.close))
    });
}

#[test]
fn vectors_hold_split_at_every_offset() {
    check_all(|vector| {
        offsets(&vector.input).into_iter().try_for_each(|at| {
            vector
                .check(&verdict(vector.setting, &vector.input, &[at], vector.close))
                .map_err(|why| format!("split at {at}: {why}"))
        })
    });
}

/// Every offset; of a long input, which is mostly runs, those next to the first line ends and the last
/// ones, and a sample of the others.
fn offsets(input: &[u8]) -> Vec<usize> {
    const LONG: usize = 4096;
    const BYTES_TO_FEED: usize = 4 << 20;
    if input.len() <= LONG {
        return (0..=input.len()).collect();
    }
    let sample = (BYTES_TO_FEED / input.len()).clamp(2, 64);
    let is_near_line_end = |&at: &usize| {
        let near = &input[at.saturating_sub(2)..(at + 2).min(input.len())];
        near.iter().any(|byte| matches!(byte, b'\r' | b'\n'))
    };
    let mut offsets: Vec<usize> = (0..input.len()).filter(is_near_line_end).take(sample).collect();
    offsets.extend((0..=input.len()).rev().filter(is_near_line_end).take(sample));
    offsets.extend((0..=input.len()).step_by(input.len().div_ceil(sample)));
    offsets
}
