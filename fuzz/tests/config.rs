//! The configuration target on a fixed pseudo-random walk: files that are right, some of them damaged.

mod random;
mod seeds;

use random::Random;
use titan_fuzz::config::{NEXT_FILE, config};

/// Runs of the target.
const RUNS: usize = 30_000;

/// Files that are worth wandering from; the last ones are included, or values.
const SEEDS: &[&[&str]] = &[
    &["listeners: [':80']\nroutes: [{ respond: 204 }]\n"],
    &[
        "include: [1.yaml, '*']\nlisteners: [\":${PORT:-8080}\"]\nadmin: { tokens: { a: { rights: full, sha256: \
         60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752 } } }\n",
        "routes:\n  - { prefix: /shop, upstream: shop, apply: key }   # ours\nupstreams:\n  shop: \"${A}\"\npolicies:\n  \
         key:\n    transform: { request: { headers: { set: { Authorization: \"Bearer ${file:2}\" } } } }\n",
        "a secret\n",
    ],
    &[
        "listeners: [{ address: ':8443', tls: { certificates: { cert: a.pem, key: a.key } } }]\napply: [users, fair]\n\
         routes:\n  - &r\n    host: '*.example.com'\n    path: /users/{id}/{*rest}\n    methods: [GET, POST]\n    upstream: \
         { api: 9, web: 1 }\n    rewrite: { path: '/u/{id}/{rest}' }\n    timeouts: { response: 5s }\n    retries: 2\n  - \
         redirect: 'https://{host}{path}{query}'\nupstreams:\n  api: 10.0.0.1:80\n  web: { endpoints: [web.internal:80], \
         balance: { consistent_hash: { header: X } } }\npolicies:\n  users:\n    jwt:\n      providers:\n        - \
         issuer: https://id.example\n          algorithms: HS256\n          keys:\n            secret: |-\n              \
         Zk9uW3vTqyR7pXs2mLd8HnBc4JfGw6QoAe1Zk9uW3vT\n  fair: { rate_limit: { rates: [10/s, 100/m], key: { claim: sub } } }\n",
    ],
    &[
        "{\"listeners\": [\":80\"], \"routes\": [{\"respond\": {\"status\": 200, \"body\": \"\\u00e9\"}, \"apply\": [\"p\"]}],\n\
         \"policies\": {\"p\": {\"authorise\": {\"rules\": \"request.method == 'GET'\", \"basic\": {\"users\": {\"eve\": \
         \"$2y$05$N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy\"}}}}}}",
    ],
    &[
        "config: titan.yaml\ncases:\n  - name: a\n    request: { method: POST, url: /a, headers: { X: [1, 2] }, from: ::1 }\n    \
         expect: { route: none, status: 401, policies: { jwt: refuses } }\n",
    ],
    &[
        "include: 1\n",
        "include: [2, '${A}']\nroutes: &a [*a]\n",
        "include: 0\n? [a]\n: b\n--- !x\n",
    ],
];

/// What is written by mistake.
const FRAGMENTS: &[&[u8]] = &[
    b"\"",
    b"'",
    b"#",
    b" #",
    b":",
    b": ",
    b",",
    b"\n",
    b"\r",
    b"\n  ",
    b"{",
    b"}",
    b"[",
    b"]",
    b"&a ",
    b"*a",
    b"!x ",
    b"|\n",
    b">-\n",
    b"- ",
    b"? ",
    b"\t",
    b"%",
    b"@",
    b"\\",
    b"\\x",
    b"${",
    b"$${",
    b"${A:-b}",
    b"${file:1}",
    b"{id}",
    b"---\n",
    b"...\n",
    b"<<: ",
    b"~",
    b"true",
    b"-1",
    b"1e9",
    b"10s",
    b"1GiB",
    b"\x00",
    b"\x1b[1m",
    b"\xff",
    b"\xc3\xa9",
    b"\xe2\x80\xae",
    b"\xef\xbb\xbf",
    b"include: '*'\n",
    b"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
];

/// Takes something away, adds something, or repeats something.
fn damage(data: &mut Vec<u8>, random: &mut Random) {
    let below = |random: &mut Random, end: usize| random.next() as usize % (end + 1);
    let at = below(random, data.len());
    let end = at + below(random, (data.len() - at).min(40));
    match random.next() % 5 {
        0 => drop(data.drain(at..end)),
        1 => data.truncate(at),
        2 => {
            let part = data[at..end].to_vec();
            let to = below(random, data.len());
            drop(data.splice(to..to, part));
        }
        _ => {
            let fragment = FRAGMENTS[random.next() as usize % FRAGMENTS.len()];
            let end = at + usize::from(end > at && random.next().is_multiple_of(2));
            drop(data.splice(at..end, fragment.iter().copied()));
        }
    }
}

fn files() -> Vec<Vec<u8>> {
    let next = char::from(NEXT_FILE).to_string();
    SEEDS.iter().map(|files| files.join(&next).into_bytes()).collect()
}

/// Choices, and files with a few mistakes in them.
fn step(files: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut input = random.choose(files).to_vec();
    for _ in 0..random.next() % 4 {
        damage(&mut input, random);
    }
    [&random.next().to_le_bytes()[..], &input].concat()
}

#[test]
fn configurations() {
    let (files, mut random) = (files(), Random(0x7469_7461_6e00_0003));
    (0..RUNS).for_each(|_| config(&step(&files, &mut random)));
}

#[test]
#[ignore = "it is for libFuzzer"]
fn write_seeds() {
    let files = files();
    seeds::write("config", |random| step(&files, random));
}

/// Without damage they are what they should be, so that the walk begins inside.
#[test]
fn the_seeds_are_right() {
    let read = |seed: &[&str]| titan_config::Config::parse("titan.yaml", seed[0]);
    for seed in [SEEDS[0], SEEDS[2], SEEDS[3]] {
        read(seed).unwrap_or_else(|report| panic!("{report}"));
    }
}
