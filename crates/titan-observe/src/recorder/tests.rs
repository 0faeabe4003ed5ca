//! What is kept, for how long, and what is found of it.

use super::*;
use crate::observer::{Message, Observer};
use crate::record::{Bodies, BodyOf, Chosen, ExchangeRecord, Text};
use crate::ring::{BATCH, MAX_BATCHES, Ring};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;
use titan_http::Status;
use titan_io::error::Kind;

/// A recorder, and a worker that hands it records.
struct Worker {
    recorder: Arc<Recorder>,
    writer: RecorderWriter,
    ring: Ring<Message>,
    batches: Receiver<Message>,
}

impl Worker {
    fn new(bytes: usize) -> Worker {
        let (sender, batches) = sync_channel(MAX_BATCHES);
        let recorder = Arc::<Recorder>::default();
        recorder.limit(bytes);
        let writer = RecorderWriter(Arc::clone(&recorder));
        Worker { recorder, writer, ring: Ring::new(sender), batches }
    }

    fn push(&mut self, record: &ExchangeRecord) {
        self.ring.push(record, self.recorder.notes(record));
    }

    fn hand_on(&mut self) {
        self.ring.flush();
        self.take();
    }

    /// Takes what the ring has handed on by itself.
    fn take(&mut self) {
        while let Ok(Message::Records(batch)) = self.batches.try_recv() {
            batch.arrive();
            self.writer.take(&Arc::new(batch));
        }
    }

    /// The memory that is taken, but for the slowest of the minute.
    fn memory(&self) -> usize {
        let kept = self.recorder.kept();
        [&kept.last, &kept.failed, &kept.slow].iter().map(|store| store.capacities()).sum()
    }

    fn tell(&mut self, record: &ExchangeRecord) {
        self.push(record);
        self.hand_on();
    }

    /// The paths of the exchanges for which a query holds.
    fn find(&self, query: &str) -> Vec<String> {
        let found = self.recorder.find(&filter(query), 100);
        let path = |bytes: &[u8]| {
            let (record, rest) = Recorded::first_of(bytes).unwrap();
            assert!(rest.is_empty());
            String::from_utf8(record.path().to_vec()).unwrap()
        };
        found.records.iter().map(|bytes| path(bytes)).collect()
    }
}

fn filter(query: &str) -> Filter {
    let mut filter = Filter::default();
    for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
        assert!(filter.set(name, value).unwrap(), "{name}");
    }
    filter
}

/// An exchange of that path, which has started at that second and has got that status.
fn record(path: &str, second: u64, status: u16) -> ExchangeRecord {
    let mut record = ExchangeRecord::default();
    record.set(Text::Target, path.as_bytes());
    record.set(Text::Route, b"api");
    record.facts.set_started(second * 1_000_000);
    record.facts.set_took(Duration::from_millis(5));
    record.facts.set_status(Status::from_code(status));
    record
}

#[test]
fn the_last_exchanges_are_found_the_latest_first() {
    let mut worker = Worker::new(1 << 20);
    for second in [1, 3, 2] {
        worker.tell(&record(&format!("/{second}"), second, 200));
    }
    assert_eq!(worker.find(""), ["/3", "/2", "/1"]);
    let coverage = worker.recorder.coverage();
    assert_eq!((coverage.since, coverage.bytes_at_most), (Some(1_000_000), 1 << 20));
    assert!(coverage.bytes > 300, "{coverage:?}");
    let found = worker.recorder.find(&Filter::default(), 2);
    assert_eq!((found.records.len(), found.has_more), (2, true));
}

#[test]
fn each_condition_holds_of_some_and_not_of_others() {
    let mut worker = Worker::new(1 << 20);
    let mut one = record("/a/b", 10, 503);
    one.set(Text::RequestId, b"4f2a");
    one.set(Text::Method, b"POST");
    one.facts.set_client("10.1.2.3".parse().ok());
    one.facts.set_took(Duration::from_millis(700));
    let endpoint = |endpoint| Chosen { upstream: "pool", endpoint, balance: "random", choices: 2 };
    one.begin_attempt(false, Duration::ZERO, endpoint("10.0.0.1:80"));
    one.begin_attempt(false, Duration::ZERO, endpoint("10.0.0.2:80"));
    worker.tell(&one);
    let mut other = record("/c", 20, 200);
    other.set(Text::Route, b"");
    worker.tell(&other);
    for query in [
        "id=4f2a",
        "route=api",
        "upstream=pool",
        "endpoint=10.0.0.1:80",
        "endpoint=10.0.0.2:80",
        "method=POST",
        "path=/a/",
        "status=5xx",
        "status=404,503",
        "client=10.0.0.0/8",
        "slower_than=0.7",
        "until=10",
        "failed=true",
        "until=15.5&route=api",
    ] {
        assert_eq!(worker.find(query), ["/a/b"], "{query}");
    }
    for query in ["route=none", "status=2xx", "since=20", "path=/c"] {
        assert_eq!(worker.find(query), ["/c"], "{query}");
    }
    for query in
        ["id=4f2", "endpoint=10.0.0.3:80", "client=11.0.0.0/8", "slower_than=0.8", "upstream=x"]
    {
        assert!(worker.find(query).is_empty(), "{query}");
    }
    let names = Filter::NAMES.map(|name| Filter::default().set(name, "\u{1}").is_ok_and(|is| !is));
    assert!(!names.contains(&true), "a name that nothing reads");
}

#[test]
fn a_bad_condition_is_told_with_what_to_write() {
    let told = |name: &str, value: &str| match Filter::default().set(name, value) {
        Err(bad) => bad.to_string(),
        Ok(is_known) => format!("{is_known}"),
    };
    assert_eq!(
        told("status", "6xx"),
        "`status`: statuses are from 100 to 599 (RFC 9110 section 15)"
    );
    assert_eq!(told("slower_than", "fast"), "`slower_than`: write seconds, such as `0.5`");
    assert_eq!(told("since", "-1"), "`since`: write seconds since 1970, such as `1764272000.5`");
    assert_eq!(told("failed", "yes"), "`failed`: write `true` or `false`");
    assert!(told("client", "10.0.0.0/33").starts_with("`client`: "));
    assert_eq!(told("colour", "red"), "false");
}

#[test]
fn memory_is_bounded_and_failures_outlast_the_rest() {
    let mut worker = Worker::new(1 << 20);
    worker.tell(&record("/failed", 1, 502));
    let long = "x".repeat(1_000);
    for second in 2..4_000 {
        worker.push(&record(&format!("/{long}"), second, 200));
        if second % 100 == 0 {
            worker.hand_on();
        }
        assert_eq!(worker.recorder.coverage().bytes, worker.memory());
        assert!(worker.memory() <= 1 << 20);
    }
    assert_eq!(worker.find("failed=true"), ["/failed"]);
    assert!(worker.recorder.coverage().since > Some(2_000_000), "the oldest have given way");
    assert!(worker.recorder.find(&Filter::default(), 10_000).records.len() > 400);
    worker.recorder.limit(0);
    assert_eq!(worker.recorder.coverage().bytes, 0);
    worker.tell(&record("/late", 5_000, 502));
    assert!(worker.find("").is_empty() && worker.recorder.coverage().bytes == 0);
}

#[test]
fn bodies_count_as_memory() {
    let mut worker = Worker::new(1 << 20);
    for second in 1..3_000 {
        let mut one = record("/a", second, if second % 3 == 0 { 502 } else { 200 });
        let bodies = Bodies::new(4 << 10);
        bodies.note(BodyOf::Request, &[b'a'; 9_000]);
        bodies.note(BodyOf::Response, &[b'b'; 9_000]);
        one.bodies = Some(bodies);
        worker.push(&one);
        if second % 20 == 0 {
            worker.hand_on();
        }
        assert_eq!(worker.recorder.coverage().bytes, worker.memory());
        assert!(worker.memory() <= 1 << 20);
    }
    let found = worker.recorder.find(&Filter::default(), 1_000).records;
    assert!((50..128).contains(&found.len()), "of 8 KiB each: {}", found.len());
    let (one, _) = Recorded::first_of(&found[0]).unwrap();
    let body = one.body(BodyOf::Response).unwrap();
    assert_eq!((body.beginning, body.length), (&[b'b'; 4 << 10][..], 9_000));
}

#[test]
fn what_is_off_keeps_nothing_and_tells_nobody() {
    let mut worker = Worker::new(1 << 20);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut tap = worker.recorder.tap(Filter::default(), 9).unwrap();
    worker.push(&record("/late", 1, 502));
    worker.recorder.limit(0);
    worker.hand_on();
    assert!(runtime.block_on(tap.next()).is_none(), "it has ended");
    let mut late = worker.recorder.tap(Filter::default(), 9).unwrap();
    assert!(runtime.block_on(late.next()).is_none(), "it has never begun");
    assert!(!worker.recorder.notes(&record("/", 1, 502)), "nothing is worth to be marked");
    worker.recorder.limit(1 << 20);
    assert!(worker.find("").is_empty());
    assert!(worker.recorder.notes(&record("/", 1, 502)));
    assert!(worker.recorder.notes(&record("/", 1, 200)));
}

#[test]
fn an_old_tunnel_that_ends_does_not_say_that_all_since_it_began_is_there() {
    let mut worker = Worker::new(1 << 20);
    let since = |worker: &Worker| worker.recorder.coverage().since.map(|it| it / 1_000_000);
    assert_eq!(since(&worker), None);
    worker.tell(&record("/first", 1_000, 200));
    let mut tunnel = record("/tunnel", 1, 101);
    tunnel.facts.set_event(Event::TunnelClosed);
    let long = format!("/{}", "x".repeat(8_000));
    for second in 1_001..1_200 {
        tunnel.facts.set_took(Duration::from_secs(second - 1));
        worker.push(&tunnel);
        worker.tell(&record(&long, second, 200));
        if second < 1_050 {
            assert_eq!(since(&worker), Some(1_000), "nothing has given way");
        }
    }
    let since = since(&worker).unwrap();
    let kept = worker.recorder.kept().last.records();
    let ends = kept.iter().map(|it| ended(&Recorded::first_of(it.bytes()).unwrap().0.facts));
    let oldest = ends.min().unwrap() / 1_000_000;
    assert!(since > 1_050 && since + 1 == oldest, "{since}, {oldest}");
}

#[test]
fn whole_batches_are_kept_as_they_are_and_their_memory_comes_back() {
    let mut worker = Worker::new(4 << 20);
    let long = format!("/{}", "x".repeat(8_000));
    let mut returned = 0;
    for second in 0..2_000 {
        let filled = worker.ring.capacity();
        worker.push(&record(&long, second, 200));
        // It was handed on, and another has taken its place.
        returned += usize::from(filled > BATCH && worker.ring.capacity() == filled);
        worker.take();
        assert!(worker.recorder.kept().last.capacities() <= 3 << 20, "three quarters of all");
    }
    let is_batch = |it: &&Records| matches!(it, Records::Batch(_));
    let records = worker.recorder.kept().last.records();
    assert!(records.iter().filter(is_batch).count() >= 10, "{}", records.len());
    assert!(worker.memory() > 5 << 19, "{}", worker.memory());
    assert_eq!(worker.recorder.coverage().bytes, worker.memory());
    assert!(returned > 0);
}

#[test]
fn a_batch_whose_memory_is_not_full_is_copied() {
    let mut worker = Worker::new(4 << 20);
    let long = format!("/{}", "x".repeat(8_000));
    for second in 0..400 {
        worker.push(&record(&long, second, 200));
        if second % 20 == 19 {
            worker.hand_on();
        }
    }
    let kept = worker.recorder.kept();
    let records = kept.last.records();
    let (bytes, memory) = (records.iter().map(|it| it.bytes().len()).sum(), kept.last.capacities());
    assert!((5 << 19..=memory).contains(&bytes), "as much as there is room for: {bytes}");
    assert!(memory <= bytes + (128 << 10), "{bytes}");
}

#[test]
fn a_flood_of_one_failure_leaves_room_for_others() {
    let mut worker = Worker::new(1 << 20);
    worker.tell(&record("/other", 1, 404));
    for _ in 0..10_000 {
        let mut flood = record("/flood", 1, 502);
        flood.fail(Kind::Connect.into());
        worker.push(&flood);
    }
    worker.hand_on();
    assert_eq!(worker.find("status=404"), ["/other"]);
    let chaos = (0..1_000).map(|kind| format!("route {kind}"));
    for route in chaos {
        let mut one = record("/chaos", 2, 502);
        one.set(Text::Route, route.as_bytes());
        worker.tell(&one);
    }
    assert_eq!(worker.find("status=404"), ["/other"], "kinds are bounded");
}

#[test]
fn the_slowest_of_each_minute_outlast_the_rest() {
    let mut worker = Worker::new(1 << 20);
    let long = format!("/{}", "x".repeat(1_000));
    for tenth in 0..6_000 {
        let mut one = record(&long, tenth / 10, 200);
        // One in each minute.
        if tenth % 600 == 300 {
            one = record(&format!("/slow/{}", tenth / 10), tenth / 10, 200);
            one.facts.set_took(Duration::from_secs(3));
        }
        worker.tell(&one);
    }
    let slow = worker.find("slower_than=2");
    assert!(slow.len() >= 6, "{slow:?}");
    assert!(worker.recorder.coverage().since > Some(500_000_000), "the last minute and a half");
}

#[test]
fn a_worker_knows_what_is_slow_once_there_are_enough() {
    let mut worker = Worker::new(1 << 20);
    for millis in 1..=100 {
        let mut one = record("/", 1, 200);
        one.facts.set_took(Duration::from_millis(millis));
        worker.tell(&one);
    }
    let mark = &worker.recorder.slow;
    assert!(!mark.is_reached(Duration::from_millis(84)));
    assert!(mark.is_reached(Duration::from_millis(85)));
    worker.tell(&record("/", 61, 200));
    assert!(worker.recorder.slow.is_reached(Duration::from_millis(1)), "another minute");
}

#[test]
fn a_failure_that_takes_long_does_not_make_room_for_a_flood() {
    let mut worker = Worker::new(1 << 20);
    let long = "x".repeat(1_000);
    for count in 0..2_000 {
        let mut flood = record(&format!("/flood/{count}"), 100, 502);
        flood.facts.set_started(flood.facts.started() + count);
        worker.tell(&flood);
        let mut timeout = record(&format!("/timeout/{count}"), 70, 504);
        timeout.facts.set_took(Duration::from_secs(30));
        worker.tell(&timeout);
    }
    // The rest gives way.
    for second in 101..1_200 {
        worker.tell(&record(&format!("/{long}"), second, 200));
    }
    assert_eq!(worker.find("path=/flood").len(), 10);
    assert_eq!(worker.find("path=/timeout").len(), 10);
}

#[test]
fn large_records_are_no_more_notable_than_others() {
    let mut worker = Worker::new(32 << 20);
    let mut large = |millis| {
        let mut one = record("/", 1, 200);
        (0..5).for_each(|_| one.set(Text::Host, &[b'x'; 8_000]));
        one.facts.set_took(Duration::from_millis(millis));
        worker.tell(&one);
    };
    (1..=20).for_each(&mut large);
    let mark = &worker.recorder.slow;
    assert!(!mark.is_reached(Duration::from_millis(14)), "six have room in 256 KiB");
    assert!(mark.is_reached(Duration::from_millis(15)));
    let bytes: usize = worker.recorder.kept().slowest.pending().iter().map(Records::capacity).sum();
    assert!((200 << 10..=256 << 10).contains(&bytes), "{bytes}");
}

#[test]
fn a_clock_that_was_ahead_does_not_stop_the_minutes() {
    let mut worker = Worker::new(1 << 20);
    worker.tell(&record("/ahead", 1_000_000, 200));
    for second in [600, 660, 720] {
        for _ in 0..20 {
            worker.tell(&record("/", second, 200));
        }
        assert!(!worker.recorder.slow.is_reached(Duration::from_millis(4)), "a full minute");
        worker.tell(&record("/", second + 60, 200));
        assert!(worker.recorder.slow.is_reached(Duration::from_millis(1)), "another minute");
    }
    let mut late = record("/late", 0, 502);
    late.facts.set_started(779_999_000);
    worker.tell(&late);
    for _ in 0..20 {
        worker.tell(&record("/", 780, 200));
    }
    worker.tell(&late);
    assert!(!worker.recorder.slow.is_reached(Duration::from_millis(4)), "one late batch");
}

#[test]
fn how_long_a_body_takes_is_not_slow() {
    let mut worker = Worker::new(1 << 20);
    for _ in 0..100 {
        let mut one = record("/stream", 1, 200);
        one.facts.set_took(Duration::from_secs(3_600));
        one.begin_attempt(
            false,
            Duration::ZERO,
            Chosen { upstream: "a", endpoint: "b", balance: "random", choices: 1 },
        );
        one.attempt_at("b").unwrap().set_head(Some(Duration::from_millis(2)));
        worker.tell(&one);
    }
    worker.tell(&record("/slow", 3_601, 200));
    assert!(!worker.recorder.slow.is_reached(Duration::from_millis(1)));
    assert!(worker.recorder.slow.is_reached(Duration::from_millis(3)));
}

#[test]
fn taps_get_what_they_want_to_hear_and_no_more_than_that() {
    let mut worker = Worker::new(1 << 20);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut tap = worker.recorder.tap(filter("status=5xx"), 3).unwrap();
    let quiet = worker.recorder.tap(filter("status=404"), 3).unwrap();
    for (path, status) in [("/a", 200), ("/b", 502), ("/c", 503), ("/d", 500), ("/e", 500)] {
        worker.tell(&record(path, 1, status));
    }
    for path in [b"/b", b"/c", b"/d"] {
        let told = runtime.block_on(tap.next()).unwrap();
        assert_eq!(Recorded::first_of(&told).unwrap().0.path(), path);
    }
    assert_eq!((tap.take_skipped(), tap.take_skipped()), (1, 0));
    drop((tap, quiet));
    worker.tell(&record("/f", 1, 500));
    assert_eq!(worker.recorder.taps.len(), 0, "nobody looks on any more");
    let open = || worker.recorder.tap(Filter::default(), 1);
    let taps: Vec<_> = std::iter::from_fn(|| open().ok()).take(1_000).collect();
    assert_eq!(taps.len(), 32);
    drop(taps);
    assert!(open().is_ok());
}

#[test]
fn a_recorder_is_told_by_the_observer() {
    let observer = Observer::start(1).unwrap();
    let recorder = Arc::<Recorder>::default();
    recorder.limit(1 << 20);
    observer.way().tell(vec![Box::new(RecorderWriter(Arc::clone(&recorder)))]);
    let mut ring = observer.rings().next().unwrap();
    for second in 0..1_000 {
        ring.push(&record("/a", second, 200), false);
    }
    ring.flush();
    drop(ring);
    observer.end();
    assert_eq!(recorder.find(&Filter::default(), 20_000).records.len(), 1_000);
}
