//! The fuzz targets on a fixed pseudo-random walk around the conformance vectors: no nightly toolchain,
//! the same inputs each time. What libFuzzer finds belongs into the vectors.

#[expect(dead_code, reason = "only its types of settings are used here")]
#[path = "../../crates/titan-h1/tests/conformance/drive.rs"]
mod drive;
#[path = "../../crates/titan-h1/tests/conformance/mutation.rs"]
mod mutation;
mod random;
#[expect(dead_code, reason = "only the inputs are used here")]
#[path = "../../crates/titan-h1/tests/conformance/vectors.rs"]
mod vectors;

use mutation::Mutation;
use random::Random;
use titan_fuzz::CHOICES;

/// Runs per target.
const RUNS: usize = 300_000;

fn mutations(random: &mut Random) -> Vec<Mutation> {
    let count = random.next() % 4;
    (0..count).map(|_| (random.next() as u8, random.next(), random.next())).collect()
}

/// Inputs that are worth wandering from: short ones, for long ones only cost time.
fn seeds() -> Vec<Vec<u8>> {
    let inputs = vectors::all().into_iter().map(|vector| vector.input);
    inputs.filter(|input| input.len() < 1000).collect()
}

fn run(target: fn(&[u8]), seeds: &[Vec<u8>], with_next: bool) {
    let mut random = Random(0x7469_7461_6e00_0001);
    for _ in 0..RUNS {
        let mut data = random.next().to_le_bytes().to_vec();
        assert_eq!(data.len(), CHOICES);
        data.extend(mutation::apply(random.choose(seeds), &mutations(&mut random)));
        if with_next {
            data.extend_from_slice(random.choose(seeds));
        }
        target(&data);
    }
}

#[test]
fn heads() {
    run(titan_fuzz::head, &seeds(), false);
}

#[test]
fn chunked_bodies() {
    let behind_head = |input: Vec<u8>| {
        let end = input.windows(4).position(|window| window == b"\r\n\r\n")?;
        Some(input[end + 4..].to_vec()).filter(|body| !body.is_empty())
    };
    let bodies: Vec<_> = seeds().into_iter().filter_map(behind_head).collect();
    assert!(bodies.len() > 50);
    run(titan_fuzz::chunked, &bodies, false);
}

#[test]
fn connections() {
    run(titan_fuzz::connection, &seeds(), true);
}
