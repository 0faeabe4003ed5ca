//! Replies that are none, and the script in Redis beside the algorithm in this process.

mod fleet;

use super::*;
use crate::rate_limit::limiter::Limiter;
use proptest::prelude::*;
use std::cell::{Cell, RefCell};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A server of Redis on a socket of its own; killed when dropped.
struct Redis {
    child: Child,
    folder: PathBuf,
    stream: BufReader<UnixStream>,
}

impl Redis {
    fn start(name: &str) -> Redis {
        let folder =
            std::env::temp_dir().join(format!("titan-shared-{name}-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let socket = folder.join("redis.sock");
        let mut command = Command::new("redis-server");
        command.args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"]);
        command.arg(&socket).arg("--dir").arg(&folder).stdout(Stdio::null());
        let child = command.spawn().expect("scripts/install-peers.sh installs it");
        let deadline = Instant::now() + Duration::from_secs(20);
        let stream = loop {
            match UnixStream::connect(&socket) {
                Ok(stream) => break stream,
                Err(error) => assert!(Instant::now() < deadline, "{error}"),
            }
            std::thread::park_timeout(Duration::from_millis(5));
        };
        Redis { child, folder, stream: BufReader::new(stream) }
    }

    /// The numbers that a command returns.
    fn ask(&mut self, parts: &[&str]) -> Numbers {
        let mut call = format!("*{}\r\n", parts.len());
        parts.iter().for_each(|it| call.push_str(&format!("${}\r\n{it}\r\n", it.len())));
        self.stream.get_mut().write_all(call.as_bytes()).unwrap();
        let count = self.line();
        let count = count.strip_prefix('*').unwrap_or_else(|| panic!("{count}")).parse().unwrap();
        (0..count).map(|_| self.line().strip_prefix(':').unwrap().parse().unwrap()).collect()
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// The script with the time of the test in place of the store's: `KEYS[2]`, in microseconds. Entries would expire by that.
fn timed(body: &str) -> String {
    let lifetime = "math.ceil(longest / 1000000) + 1";
    assert!(OWED.contains(lifetime));
    format!("local now = tonumber(KEYS[2])\n{}{body}", OWED.replace(lifetime, "60000"))
}

/// A request: how many microseconds after the one before, as how many it counts, and how long it waits.
fn requests() -> impl Strategy<Value = Vec<(u64, u64, u64)>> {
    let gap = prop_oneof![Just(0), 0..50_u64, 0..5_000_u64, 0..2_000_000_u64];
    let wait = prop_oneof![Just(0), 0..3_000_000_u64];
    proptest::collection::vec((gap, 1..4_u64, wait), 1..60)
}

fn limits() -> impl Strategy<Value = Vec<(u64, u64)>> {
    let interval = prop_oneof![1_000..50_000_u64, 50_000..20_000_000_u64];
    proptest::collection::vec((interval, 4..30_u64), 1..=MAX_RATES)
}

#[test]
fn the_script_decides_as_the_algorithm_does() {
    let redis = RefCell::new(Redis::start("charges"));
    let script = timed(CHARGE);
    let number = Cell::new(0);
    let config =
        ProptestConfig { failure_persistence: None, cases: 64, ..ProptestConfig::default() };
    proptest!(config, |(limits in limits(), requests in requests())| {
        number.set(number.get() + 1);
        let rates: Scaled = limits
            .iter()
            .map(|(interval, burst)| CellRate { interval: *interval, tolerance: interval * burst })
            .collect();
        let max_delay = requests.iter().map(|it| it.2).max().unwrap_or(0);
        let arguments = arguments_of(&rates, max_delay);
        let limiter = Limiter::new([rates.clone()].into(), None, 64);
        let (key, mut now) = (format!("key-{}", number.get()), 1_700_000_000_000_000_u64);
        for (gap, cost, max_delay) in requests {
            now += gap;
            let charge = Charge { cost, max_delay, ..Charge::ONE };
            let expected = limiter.take(1, charge, WriterId::new(0), || now * 1000);
            let (now, cost, delay) = (now.to_string(), cost.to_string(), max_delay.to_string());
            let mut call = vec!["EVAL", &script, "2", &key, &now, &cost, &delay];
            call.extend(arguments.iter().map(String::as_str));
            let outcome = outcome_in(&redis.borrow_mut().ask(&call), &rates, charge).unwrap();
            prop_assert_eq!(outcome.counts, expected.counts);
            match (outcome.verdict, expected.verdict) {
                (Verdict::Passed { delay, .. }, Verdict::Passed { delay: other, .. }) => {
                    prop_assert_eq!(delay, other);
                }
                (is, expected) => prop_assert_eq!(is, expected),
            }
        }
    });
}

fn rates() -> Scaled {
    [(100, 500), (1000, 2000)].map(|(interval, tolerance)| CellRate { interval, tolerance }).into()
}

#[test]
fn a_reply_says_how_it_stands_with_each_rate() {
    let outcome = |numbers: &[i64]| outcome_in(&numbers.to_vec(), &rates(), Charge::ONE);
    let Some(Outcome { verdict, counts }) = outcome(&[1, 0, 100, 0, 1000, 0]) else {
        panic!("it is one")
    };
    assert_eq!(verdict, Verdict::Passed { place: 0, delay: 0 });
    assert_eq!(counts[0], Count { left: 4, reset: 100, wait: 0 });
    assert_eq!(counts[1], Count { left: 1, reset: 1000, wait: 0 });
    let refused = outcome(&[0, 7, 0, 0, 2000, 7]).map(|it| it.verdict);
    assert_eq!(refused, Some(Verdict::Exceeded { wait: 7 }));
}

#[test]
fn what_the_script_cannot_say_is_no_reply() {
    let replies: [&[i64]; 9] = [
        &[],
        &[1],
        &[1, 0],
        &[1, 0, 0, 0],
        &[1, 0, 0, 0, 0, 0, 0],
        &[2, 0, 0, 0, 0, 0],
        &[1, 1, 0, 0, 0, 0],
        &[0, 0, 0, 0, 0, 0],
        &[1, 0, -1, 0, 0, 0],
    ];
    for reply in replies {
        assert_eq!(outcome_in(&reply.to_vec(), &rates(), Charge::ONE), None, "{reply:?}");
    }
    let waits = Charge { max_delay: 5, ..Charge::ONE };
    assert!(outcome_in(&vec![1, 5, 0, 0, 0, 0], &rates(), waits).is_some());
    assert_eq!(outcome_in(&vec![1, i64::MAX, 0, 0, 0, 0], &rates(), waits), None);
}
