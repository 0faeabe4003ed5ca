//! The target of HTTP/3's connections on a fixed pseudo-random walk: messages, settings and instructions in any order, some of them
//! damaged, on streams that end in any way.

mod damage;
mod random;
mod seeds;

use damage::damage;
use random::Random;
use titan_fuzz::CHOICES;
use titan_fuzz::h3_connection::{Step, connection};
use titan_h3::varint;

/// Runs of the target.
const RUNS: usize = 150_000;

fn frame(number: u64, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    varint::write(&mut out, number);
    varint::write(&mut out, payload.len() as u64);
    out.extend_from_slice(payload);
    out
}

/// A section of lines of the static table, and of those that were added.
fn head(lines: &[&[u8]]) -> Vec<u8> {
    frame(1, &[&b"\0\0"[..], &lines.concat()].concat())
}

const AUTHORITY: &[u8] = b"\x50\x03a:1";
const LENGTH: &[u8] = b"\x54\x015";

/// What a client's messages begin with; few of them are wrong.
fn requests() -> Vec<Vec<u8>> {
    let get: &[&[u8]] = &[b"\xd1\xd7\xc1", AUTHORITY];
    let post: &[&[u8]] = &[b"\xd4\xd7\xc1", AUTHORITY];
    let blocked = [b"\x02\0", &get.concat()[..], b"\x80"].concat();
    let later = [b"\x03\0", &post.concat()[..], b"\x81"].concat();
    vec![
        head(get),
        head(post),
        head(post),
        head(&[post, &[LENGTH]].concat()),
        head(&[b"\xcf", AUTHORITY]),
        head(&[get, &[b"\x27\x01priority\x06u=1, i"]].concat()),
        head(&[post, &[b"\x23x-a\x7f\x0a", &[b'a'; 137]]].concat()),
        head(&[b"\xd1\xd7\x51\x0c/a/long/path", AUTHORITY]),
        head(&[b"\xd1\xd7"]),
        frame(1, &blocked),
        frame(1, &blocked),
        frame(1, &later),
        // It is too long to be read, and need not come.
        b"\x01\x80\x10\0\0".to_vec(),
    ]
}

/// What a server's begin with.
fn responses() -> Vec<Vec<u8>> {
    let status: &[u8] = b"\xd9";
    vec![
        head(&[status]),
        head(&[status]),
        head(&[status, LENGTH]),
        head(&[b"\x5f\x09\x03103"]),
        head(&[b"\x5f\x09\x03204"]),
        head(&[status, b"\x23x-a\x7f\x0a", &[b'a'; 137]]),
        head(&[LENGTH]),
        frame(1, b"\x02\0\xd9\x80"),
        frame(1, b"\x02\0\xd9\x80"),
    ]
}

/// What goes on behind either.
fn bodies() -> Vec<Vec<u8>> {
    vec![
        frame(0, b"hello"),
        frame(0, b"hello"),
        frame(0, b"a"),
        frame(0, &[7; 200]),
        frame(0, &[7; 600]),
        frame(0, b""),
        frame(0x21, b"skipped"),
        frame(0x21, &[7; 300]),
    ]
}

/// What ends either.
fn trailers() -> Vec<Vec<u8>> {
    vec![
        head(&[b"\x23sum\x017"]),
        head(&[b"\x23sum\x7f\x0a", &[b'7'; 137]]),
        frame(1, b"\x02\0\x80"),
        frame(1, b"\x03\0\x80"),
        b"\x01\x80\x10\0\0".to_vec(),
    ]
}

/// What a control stream says, as that of either side, and of clients alone.
fn control() -> Vec<Vec<u8>> {
    let priority = |id: u8, field: &[u8]| frame(0xf_0700, &[&[id], field].concat());
    vec![
        frame(7, &[8]),
        frame(7, &[0]),
        frame(0x21, &[7; 60]),
        frame(0x21, b""),
        frame(0xd, &[3]),
        priority(0, b"u=1"),
        priority(4, b"u=7, i"),
        priority(8, b"i"),
        priority(12, b"u=0"),
    ]
}

/// What an encoder says, first what needs no entry.
fn instructions() -> Vec<Vec<u8>> {
    vec![
        b"\x41a\x01v".to_vec(),
        b"\xc1\x01/".to_vec(),
        b"\x62\x1c\x64\x01a".to_vec(),
        b"\0".to_vec(),
        vec![0; 200],
        b"\x80\x01w".to_vec(),
        b"\x3f\x3d".to_vec(),
    ]
}

/// What is wrong almost anywhere.
fn wrong() -> Vec<Vec<u8>> {
    vec![
        head(&[b"\x23x-a\x01b"]),
        head(&[b"\x23:abc\x01b"]),
        head(&[b"\x5f\x09\x03101"]),
        frame(1, b"\x05\x01\x10"),
        frame(1, b"\0\0\xff"),
        frame(5, b"\0\0\0"),
        frame(2, b"\0"),
        frame(4, b"\x06\x01"),
        frame(0xf_0700, b"\x02u=1"),
        frame(0xd, &[1]),
        frame(0xf_0700, b"\x14u=1"),
        b"\x20\x80".to_vec(),
        vec![7; 250],
    ]
}

/// What streams in one direction begin with: the control stream, the encoder's, the decoder's, and any.
const BEGINNINGS: [&[&[u8]]; 4] = [
    &[b"\0\x04\0", b"\0\x04\x04\x01\x20\x07\x10", b"\0\x04\x02\x06\x30", b"\0\x04\x02\x08\x01"],
    &[b"\x02\x3f\xe1\x1f"],
    &[b"\x03"],
    &[b"\x21", b"\x40\x21", b"\x40", b"\x3f", b"\x01\0", b"\x02", b"\0"],
];

/// What may be sent.
struct Pool {
    requests: Vec<Vec<u8>>,
    responses: Vec<Vec<u8>>,
    bodies: Vec<Vec<u8>>,
    trailers: Vec<Vec<u8>>,
    control: Vec<Vec<u8>>,
    instructions: Vec<Vec<u8>>,
    wrong: Vec<Vec<u8>>,
}

impl Pool {
    fn new() -> Pool {
        Pool {
            requests: requests(),
            responses: responses(),
            bodies: bodies(),
            trailers: trailers(),
            control: control(),
            instructions: instructions(),
            wrong: wrong(),
        }
    }

    /// Choices, and steps for them.
    fn steps(&self, random: &mut Random) -> Vec<u8> {
        let choices = random.next().to_le_bytes();
        assert_eq!(choices.len(), CHOICES);
        let mut walk = Walk {
            pool: self,
            is_server: choices[2].is_multiple_of(2),
            is_wrong: random.next().is_multiple_of(4),
            requests: Default::default(),
            unis: Default::default(),
        };
        let steps = (0..random.next() % 60).flat_map(|_| walk.step(random));
        choices.into_iter().chain(steps).collect()
    }
}

/// A peer on its way.
struct Walk<'p> {
    pool: &'p Pool,
    is_server: bool,
    /// Whether it breaks rules on purpose.
    is_wrong: bool,
    requests: [Said; 5],
    unis: [Said; 5],
}

/// How far it is with a stream.
#[derive(Default)]
struct Said {
    has_begun: bool,
    has_ended: bool,
    /// What is not sent yet.
    rest: Vec<u8>,
}

impl Said {
    /// Sends some of what is left.
    fn some(&mut self, random: &mut Random) -> Vec<u8> {
        let length = self.rest.len().min(255);
        let most = if random.next().is_multiple_of(2) {
            length
        } else {
            random.next() as usize % (length + 1)
        };
        self.rest.drain(..most).collect()
    }
}

impl Walk<'_> {
    fn step(&mut self, random: &mut Random) -> Vec<u8> {
        let place = (random.next() % 5) as u8;
        let anywhere = place | if random.next().is_multiple_of(4) { 0x80 } else { 0 };
        let some: Vec<_> = (0..random.next() % 50).map(|_| random.next() as u8).collect();
        match random.next() % 48 {
            0..18 => self.says(random, place),
            18..28 => self.says_uni(random, place),
            28 => Step::EndsUni.with(3 | place, b""),
            29 => Step::Resets.with(place, &some),
            30 if self.is_wrong => Step::Resets.with(anywhere, &some),
            31 => Step::Stops.with(place, &some),
            32 if self.is_wrong => Step::Stops.with(anywhere, &some),
            33 | 34 => Step::Takes.with(anywhere, &some),
            35 => Step::Grants.with(0, b""),
            36..41 => Step::Sends.with(place, &some),
            41 | 42 => Step::Uses.with(place, &vec![0; (random.next() % 250) as usize]),
            43 => Step::Leaves.with(place, b""),
            44 => Step::Waits.with(place, b""),
            45 if random.next().is_multiple_of(4) => Step::Drains.with(anywhere, b""),
            _ => Step::Uses.with(place, &[0; 250]),
        }
    }

    fn says(&mut self, random: &mut Random, place: u8) -> Vec<u8> {
        let wrong = self.wrong(random);
        let said = &mut self.requests[usize::from(place)];
        let heads = if self.is_server { &self.pool.requests } else { &self.pool.responses };
        match (said.has_begun, said.has_ended) {
            (false, _) => said.rest.extend_from_slice(random.choose(heads)),
            // An interim response may have come before.
            (true, false) if !self.is_server && random.next().is_multiple_of(24) => {
                said.rest.extend_from_slice(random.choose(heads));
            }
            (true, false) if random.next().is_multiple_of(8) => {
                said.rest.extend_from_slice(random.choose(&self.pool.trailers));
                said.has_ended = true;
            }
            (true, false) => said.rest.extend_from_slice(random.choose(&self.pool.bodies)),
            (true, true) => {}
        }
        said.has_begun = true;
        said.rest.extend_from_slice(&wrong);
        let some = said.some(random);
        let is_last = said.rest.is_empty() && (said.has_ended || random.next().is_multiple_of(4));
        if is_last { Step::Ends } else { Step::Says }.with(place, &some)
    }

    fn says_uni(&mut self, random: &mut Random, place: u8) -> Vec<u8> {
        let wrong = self.wrong(random);
        let said = &mut self.unis[usize::from(place)];
        let kind = usize::from(place).min(3);
        if !said.has_begun {
            let begins = BEGINNINGS[kind];
            let begins = if self.is_wrong { begins } else { &begins[..begins.len().min(4)] };
            said.rest.extend_from_slice(random.choose(begins));
        }
        let of_clients = if self.is_server { self.pool.control.len() } else { 4 };
        match kind {
            0 if said.has_begun => {
                said.rest.extend_from_slice(random.choose(&self.pool.control[..of_clients]))
            }
            // Others need an entry.
            1 if said.has_ended => {
                said.rest.extend_from_slice(random.choose(&self.pool.instructions))
            }
            1 if said.has_begun => {
                said.rest.extend_from_slice(random.choose(&self.pool.instructions[..3]));
                said.has_ended = true;
            }
            2 => said.rest.push(0x40 | (random.next() as u8 % 64)),
            3 if self.is_wrong => said.rest.extend_from_slice(b"whatever"),
            _ => {}
        }
        said.has_begun = true;
        said.rest.extend_from_slice(&wrong);
        Step::SaysUni.with(place, &said.some(random))
    }

    /// Something that breaks a rule, if it does now.
    fn wrong(&self, random: &mut Random) -> Vec<u8> {
        if !self.is_wrong || !random.next().is_multiple_of(16) {
            return Vec::new();
        }
        let mut bytes = random.choose(&self.pool.wrong).to_vec();
        damage(&mut bytes, random);
        bytes
    }
}

#[test]
fn steps_in_any_order() {
    let (pool, mut random) = (Pool::new(), Random(0x7469_7461_6e00_000a));
    (0..RUNS).for_each(|_| connection(&pool.steps(&mut random)));
}

#[test]
#[ignore = "it is for libFuzzer"]
fn write_seeds() {
    let pool = Pool::new();
    seeds::write("h3", |random| pool.steps(random));
}

#[test]
fn any_bytes() {
    let mut random = Random(0x7469_7461_6e00_000b);
    for _ in 0..RUNS {
        let mut bytes = random.next().to_le_bytes().to_vec();
        for _ in 0..random.next() % 12 {
            let step = Step::ALL[random.next() as usize % Step::ALL.len()];
            let any: Vec<_> = (0..random.next() % 40)
                .map(|_| {
                    random.next() as u8 & if random.next().is_multiple_of(2) { 7 } else { 255 }
                })
                .collect();
            bytes.extend(step.with(random.next() as u8, &any));
        }
        connection(&bytes);
    }
}
