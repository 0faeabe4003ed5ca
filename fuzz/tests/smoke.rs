//! The fuzz targets on a fixed pseudo-random walk around the conformance vectors: no nightly toolchain,
//! the same inputs each time. What libFuzzer finds belongs into the vectors.

#[expect(dead_code, reason = "only its types of settings are used here")]
#[path = "../../crates/titan-h1/tests/conformance/drive.rs"]
mod drive;
#[path = "../../crates/titan-h1/tests/conformance/mutation.rs"]
mod mutation;
mod random;
mod seeds;
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

/// What a target wanders from: short inputs, for long ones only cost time.
struct Walk {
    seeds: Vec<Vec<u8>>,
    /// Whether a second one follows.
    with_next: bool,
}

impl Walk {
    fn of_messages() -> Walk {
        let inputs = vectors::all().into_iter().map(|vector| vector.input);
        Walk { seeds: inputs.filter(|input| input.len() < 1000).collect(), with_next: false }
    }

    fn of_connections() -> Walk {
        Walk { with_next: true, ..Walk::of_messages() }
    }

    fn of_bodies() -> Walk {
        let behind_head = |input: Vec<u8>| {
            let end = input.windows(4).position(|window| window == b"\r\n\r\n")?;
            Some(input[end + 4..].to_vec()).filter(|body| !body.is_empty())
        };
        let Walk { seeds, with_next } = Walk::of_messages();
        let seeds: Vec<_> = seeds.into_iter().filter_map(behind_head).collect();
        assert!(seeds.len() > 50);
        Walk { seeds, with_next }
    }

    fn step(&self, random: &mut Random) -> Vec<u8> {
        let mut data = random.next().to_le_bytes().to_vec();
        assert_eq!(data.len(), CHOICES);
        data.extend(mutation::apply(random.choose(&self.seeds), &mutations(random)));
        if self.with_next {
            data.extend_from_slice(random.choose(&self.seeds));
        }
        data
    }

    fn run(&self, target: fn(&[u8])) {
        let mut random = Random(0x7469_7461_6e00_0001);
        (0..RUNS).for_each(|_| target(&self.step(&mut random)));
    }
}

#[test]
fn heads() {
    Walk::of_messages().run(titan_fuzz::head);
}

#[test]
fn chunked_bodies() {
    Walk::of_bodies().run(titan_fuzz::chunked);
}

#[test]
fn connections() {
    Walk::of_connections().run(titan_fuzz::connection);
}

#[test]
#[ignore = "it is for libFuzzer"]
fn write_seeds() {
    let walks = [
        ("head", Walk::of_messages()),
        ("chunked", Walk::of_bodies()),
        ("connection", Walk::of_connections()),
    ];
    for (target, walk) in walks {
        seeds::write(target, |random| walk.step(random));
    }
}
