//! What exporters do with collectors that accept, refuse, ask for time and are silent.

use super::*;
use crate::figures::Signal;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use titan_config::Config;
use titan_io::registry::Registry;

/// A collector that responds to each request as the next text of a script says, and tells of the requests. Where the text is empty it does
/// not respond; behind the last one it accepts everything.
struct Scripted {
    address: String,
    requests: Receiver<Request>,
}

struct Request {
    head: String,
    body: Vec<u8>,
}

const ACCEPTED: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

impl Scripted {
    fn says(responses: &[&str]) -> Scripted {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (tell, requests) = sync_channel(1_024);
        let mut responses: Vec<String> =
            responses.iter().rev().map(|it| (*it).to_owned()).collect();
        thread::spawn(move || {
            let mut silent = Vec::new();
            for stream in listener.incoming() {
                let mut stream = BufReader::new(stream.unwrap());
                while let Some(request) = read(&mut stream) {
                    let response = responses.pop();
                    let response = response.as_deref().unwrap_or(ACCEPTED);
                    if tell.send(request).is_err() {
                        return;
                    }
                    if response.is_empty() {
                        silent.push(stream);
                        break;
                    }
                    let _ = stream.get_mut().write_all(response.as_bytes());
                }
            }
        });
        Scripted { address, requests }
    }
}

fn read(stream: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
    let mut body = vec![0; length?.parse().unwrap()];
    stream.read_exact(&mut body).ok()?;
    Some(Request { head, body })
}

/// Fast, so that no test waits.
const FAST: Pace = Pace {
    gather: Duration::from_millis(20),
    first: Duration::from_millis(1),
    most: Duration::from_millis(4),
    give_up: Duration::from_millis(300),
};

/// A collector of a file, and what is counted of what it gets.
fn collector(address: &str, more: &str) -> (Arc<Collector>, Arc<ExporterFigures>) {
    let file = format!(
        "listeners: [':1']\nroutes: [{{ respond: 204 }}]\naccess_log: {{ otlp: c }}\n\
         otlp: {{ c: {{ endpoint: 'http://{address}/base', protocol: http, compression: none, {more} }} }}"
    );
    let config = Config::parse("titan.yaml", &file).unwrap_or_else(|report| panic!("{report}"));
    let collector = Collector::of(&config.otlp[0], &config.resolver, None, &Registry::default());
    let destination = Arc::new(DestinationFigures::named("otlp c".to_owned()));
    let figures = ExporterFigures::new(config.otlp[0].name.clone(), Signal::Logs, destination);
    (collector, Arc::new(figures))
}

/// One that sends to it at once.
fn exporter(address: &str, more: &str) -> (Exporter, Arc<ExporterFigures>) {
    let (collector, figures) = collector(address, more);
    (Exporter::new(collector, Arc::clone(&figures), FAST), figures)
}

/// Records that are told apart by one byte.
fn records(count: u8) -> Lines {
    let mut lines = Lines::default();
    for number in 0..count {
        lines.text.extend_from_slice(&[0x12, 2, 0x48, number]);
        lines.end(0);
    }
    lines
}

/// What was dropped, without what was not.
fn dropped(figures: &ExporterFigures) -> Vec<(&'static str, u64)> {
    figures.dropped().filter(|(_, count)| *count > 0).collect()
}

fn sends(exporter: &mut Exporter, count: u8) {
    exporter.write(&records(count), &End::default());
    exporter.flush(&End::default());
}

// field: collector.headers
#[test]
fn records_go_to_the_path_of_their_kind_with_the_headers_that_are_set() {
    let server = Scripted::says(&[]);
    let (mut exporter, figures) = exporter(&server.address, "headers: { api-key: hunter2 }");
    sends(&mut exporter, 3);
    let Request { head, body } = server.requests.recv().unwrap();
    assert!(head.starts_with("POST /base/v1/logs HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("\r\ncontent-type: application/x-protobuf\r\n"), "{head}");
    assert!(head.contains("\r\napi-key: hunter2\r\n"), "{head}");
    assert!(head.contains(&format!("Host: {}\r\n", server.address)), "{head}");
    assert!(body.ends_with(&records(3).text));
    assert_eq!((figures.sent(), figures.retries(), dropped(&figures)), (3, 0, vec![]));
    assert!(!figures.destination.is_in_trouble());
}

#[test]
fn what_may_be_accepted_later_is_sent_again_and_not_before_it_is_asked_for() {
    let later = "HTTP/1.1 503 x\r\nContent-Length: 0\r\nRetry-After: 1\r\n\r\n";
    let server = Scripted::says(&[later, "HTTP/1.1 429 x\r\nContent-Length: 0\r\n\r\n"]);
    let (mut exporter, figures) = exporter(&server.address, "");
    exporter.pace.give_up = Duration::from_secs(60);
    let began = Instant::now();
    sends(&mut exporter, 1);
    assert!(began.elapsed() >= Duration::from_secs(1));
    assert_eq!((figures.sent(), figures.retries(), dropped(&figures)), (1, 2, vec![]));
    assert!(!figures.destination.is_in_trouble(), "it has recovered");
    let trouble = figures.destination.take_trouble().unwrap();
    assert!(trouble.contains("429"), "{trouble}");
}

#[test]
fn what_is_refused_is_dropped_and_not_sent_again() {
    let server = Scripted::says(&["HTTP/1.1 401 x\r\nContent-Length: 0\r\n\r\n"]);
    let (mut exporter, figures) = exporter(&server.address, "");
    sends(&mut exporter, 2);
    assert_eq!((figures.sent(), dropped(&figures)), (0, vec![("refused", 2)]));
    assert!(figures.destination.is_in_trouble());
    sends(&mut exporter, 1);
    assert_eq!((figures.sent(), figures.retries()), (1, 0));
    assert!(!figures.destination.is_in_trouble());
}

#[test]
fn what_is_rejected_of_a_message_counts_as_dropped() {
    let partial = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n\x0a\x02\x08\x02";
    let server = Scripted::says(&[partial]);
    let (mut exporter, figures) = exporter(&server.address, "");
    sends(&mut exporter, 3);
    assert_eq!((figures.sent(), dropped(&figures)), (1, vec![("rejected", 2)]));
}

// field: collector.timeout
#[test]
fn a_collector_that_does_not_respond_is_given_up() {
    let server = Scripted::says(&[""; 100]);
    let (mut exporter, figures) = exporter(&server.address, "timeout: 20ms");
    sends(&mut exporter, 2);
    assert_eq!((figures.sent(), dropped(&figures)), (0, vec![("unreachable", 2)]));
    assert!(figures.retries() >= 1);
    let trouble = figures.destination.take_trouble().unwrap();
    assert!(trouble.ends_with("no response within 20ms"), "{trouble}");
}

#[test]
fn a_collector_that_is_not_there_is_tried_again() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let (mut exporter, figures) = exporter(&address, "");
    sends(&mut exporter, 2);
    assert_eq!((figures.sent(), dropped(&figures)), (0, vec![("unreachable", 2)]));
    let trouble = figures.destination.take_trouble().unwrap();
    assert!(trouble.contains("Connection refused"), "{trouble}");
}

#[test]
fn a_connection_is_used_again_and_replaced_when_it_has_ended() {
    let server = Scripted::says(&[
        ACCEPTED,
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
    ]);
    let (mut exporter, figures) = exporter(&server.address, "");
    for _ in 0..2 {
        sends(&mut exporter, 1);
    }
    assert_eq!(figures.sent(), 2);
}

#[test]
fn a_name_is_resolved_and_one_that_does_not_is_told() {
    let server = Scripted::says(&[]);
    let port = server.address.rsplit_once(':').unwrap().1.to_owned();
    let (mut found, figures) = exporter(&format!("localhost:{port}"), "");
    sends(&mut found, 1);
    assert_eq!(figures.sent(), 1);
}

#[test]
fn records_are_gathered_until_they_are_many_or_wait_too_long() {
    let server = Scripted::says(&[]);
    let (mut exporter, _) = exporter(&server.address, "");
    let end = End::default();
    for _ in 0..17 {
        exporter.write(&records(100), &end);
    }
    let first = server.requests.recv().unwrap();
    let whole = 4 * MOST_RECORDS;
    assert!((whole..whole + 200).contains(&first.body.len()), "{}", first.body.len());
    thread::park_timeout(exporter.patience().unwrap());
    while exporter.patience() != Some(Duration::ZERO) {
        thread::yield_now();
    }
    exporter.write(&records(1), &end);
    let second = server.requests.recv().unwrap();
    let rest = 4 * (1_701 - MOST_RECORDS);
    assert!((rest..rest + 200).contains(&second.body.len()), "{}", second.body.len());
    assert_eq!(exporter.patience(), None);
}

#[test]
fn a_message_has_no_more_bytes_than_collectors_take_but_for_a_single_record() {
    let server = Scripted::says(&[]);
    let (mut exporter, figures) = exporter(&server.address, "");
    let mut lines = Lines::default();
    for _ in 0..3 {
        lines.text.resize(lines.text.len() + 600_000, 0);
        lines.end(0);
    }
    lines.text.resize(lines.text.len() + MOST_BYTES + 1, 0);
    lines.end(0);
    exporter.write(&lines, &End::default());
    exporter.close(&End::default());
    assert_eq!(figures.sent(), 4);
    let sizes: Vec<_> = server.requests.try_iter().map(|it| it.body.len() / 100_000).collect();
    assert_eq!(sizes, [6, 6, 6, 10]);
}

#[test]
fn at_the_end_nobody_waits_for_a_collector_that_does_not_respond() {
    let server = Scripted::says(&[""; 100]);
    let (collector, figures) = collector(&server.address, "timeout: 1h");
    let mut destination = start(&collector, &figures).unwrap();
    destination.write(&records(2), std::time::SystemTime::now());
    server.requests.recv().unwrap();
    destination.write(&records(3), std::time::SystemTime::now());
    let began = Instant::now();
    destination.wait();
    assert!(began.elapsed() < Duration::from_secs(10));
    assert_eq!((figures.sent(), dropped(&figures)), (0, vec![("ended", 5)]));
}

#[test]
fn a_collector_that_is_slow_costs_no_more_than_the_queue() {
    let server = Scripted::says(&[""; 100]);
    let (collector, figures) = collector(&server.address, "timeout: 1h");
    let mut destination = start(&collector, &figures).unwrap();
    destination.write(&records(1), std::time::SystemTime::now());
    server.requests.recv().unwrap();
    for _ in 0..100 {
        destination.write(&records(1), std::time::SystemTime::now());
    }
    assert_eq!(dropped(&figures), [("queue_full", 100 - 64)]);
    let trouble = figures.destination.take_trouble().unwrap();
    assert_eq!(trouble, "lines for otlp c are dropped: it does not take them in time");
}
