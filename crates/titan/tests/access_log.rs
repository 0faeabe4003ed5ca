//! The access log of the program: what it writes where, and what it does when that is not possible.

#![allow(
    clippy::tests_outside_test_module,
    clippy::unwrap_used,
    dead_code,
    reason = "a test may stop at a surprise, and uses a part of what tests have in common"
)]

mod titan;

use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;
use titan::Titan;
use titan_testkit::waits_until;

/// A folder of its own, which is removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("titan-logs-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap_or_default()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Responds to everything without an upstream, and logs the paths.
fn logging_to(destination: &str) -> String {
    format!(
        "workers: 1\nlisteners: [127.0.0.1:0]\nadmin: 127.0.0.1:0\nroutes: [{{ respond: 200 }}]\n\
         access_log: {{ {destination}, format: '{{path}}' }}\n"
    )
}

fn get(titan: &Titan, path: &str) {
    ask(&titan.address, path);
}

fn ask(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// What it counts of its only access log.
fn counted(titan: &Titan, name: &str) -> u64 {
    let metrics = ask(titan.admin.as_ref().unwrap(), "/metrics");
    let line = metrics.lines().find(|line| line.starts_with(&format!("{name}{{")));
    line.unwrap_or_else(|| panic!("{metrics}")).rsplit(' ').next().unwrap().parse().unwrap()
}

#[test]
fn the_files_are_opened_anew_when_somebody_has_renamed_them() {
    let folder = Folder::new("renamed");
    let titan = Titan::start("log-renamed", &logging_to(&format!("file: {}", folder.path("log"))));
    get(&titan, "/before");
    waits_until("the line", || folder.read("log") == "/before\n");
    fs::rename(folder.path("log"), folder.path("log.1")).unwrap();
    titan.signal(Signal::USR1);
    waits_until("a new file", || fs::exists(folder.path("log")).unwrap());
    get(&titan, "/after");
    waits_until("the line", || folder.read("log") == "/after\n");
    assert_eq!(folder.read("log.1"), "/before\n");
}

#[test]
fn everything_is_written_before_the_process_ends() {
    let folder = Folder::new("last");
    let mut titan = Titan::start("log-last", &logging_to(&format!("file: {}", folder.path("log"))));
    for number in 0..50 {
        get(&titan, &format!("/{number}"));
    }
    titan.signal(Signal::TERM);
    assert_eq!(titan.exit_code(), Some(0));
    let wanted: String = (0..50).map(|number| format!("/{number}\n")).collect();
    assert_eq!(folder.read("log"), wanted);
}

/// A request that is under way, and stays so.
fn in_flight(titan: &Titan, upstream: &TcpListener) -> (TcpStream, TcpStream) {
    let mut client = TcpStream::connect(&titan.address).unwrap();
    client.write_all(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let (served, _) = upstream.accept().unwrap();
    let mut head = BufReader::new(&served).lines();
    while !head.next().unwrap().unwrap().is_empty() {}
    (client, served)
}

/// The same log for a gateway that has an upstream as well.
fn with_upstream(upstream: &TcpListener, destination: &str) -> String {
    let address = upstream.local_addr().unwrap();
    let routes = "routes: [{ path: /slow, upstream: it }, { respond: 200 }]";
    let text = logging_to(destination).replace("routes: [{ respond: 200 }]", routes);
    format!("{text}upstreams: {{ it: '{address}' }}\n")
}

#[test]
fn what_was_collected_is_written_although_a_second_signal_ends_the_process() {
    let (folder, upstream) = (Folder::new("second"), TcpListener::bind("127.0.0.1:0").unwrap());
    let file = format!("file: {}", folder.path("log"));
    let mut titan = Titan::start("log-second", &with_upstream(&upstream, &file));
    let _stays = in_flight(&titan, &upstream);
    let (mut client, mut served) = in_flight(&titan, &upstream);
    titan.signal(Signal::TERM);
    titan.waits_for("draining");
    // The exchange ends, and a moment later the process.
    served.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
    client.read_exact(&mut [0]).unwrap();
    titan.signal(Signal::TERM);
    assert_eq!(titan.exit_code(), Some(143));
    assert_eq!(folder.read("log"), "/slow\n");
}

#[test]
fn the_files_are_opened_anew_in_a_drain() {
    let (folder, upstream) = (Folder::new("drain"), TcpListener::bind("127.0.0.1:0").unwrap());
    let file = format!("file: {}", folder.path("log"));
    let mut titan = Titan::start("log-drain", &with_upstream(&upstream, &file));
    let in_flight = in_flight(&titan, &upstream);
    titan.signal(Signal::TERM);
    titan.waits_for("draining");
    fs::rename(folder.path("log"), folder.path("log.1")).unwrap();
    titan.signal(Signal::USR1);
    waits_until("a new file", || fs::exists(folder.path("log")).unwrap());
    drop(in_flight);
    assert_eq!(titan.exit_code(), Some(0));
}

#[test]
fn a_fifo_whose_reader_is_away_refuses_no_reload_that_does_not_change_it() {
    let folder = Folder::new("fifo");
    let fifo = folder.path("fifo");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    // Opened for both, it waits for nobody.
    let reader = fs::File::options().read(true).write(true).open(&fifo).unwrap();
    let text = logging_to(&format!("file: {fifo}"));
    let titan = Titan::start("log-fifo", &text);
    drop(reader);
    fs::write(&titan.file, text.replace("200", "204")).unwrap();
    titan.signal(Signal::HUP);
    waits_until("the other response", || ask(&titan.address, "/").starts_with("HTTP/1.1 204"));
}

/// Whether a process has said what it does on a signal.
fn handles(process: u32, signal: Signal) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap() >> (signal.as_raw() - 1) & 1 == 1
}

#[test]
fn the_signal_to_open_files_anew_does_not_end_a_process_that_starts() {
    let mut command = Command::new(titan::program());
    command.args(["--config", "-"]).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    // It has no configuration yet.
    waits_until("a handler", || handles(child.id(), Signal::USR1));
    kill_process(Pid::from_child(&child), Signal::USR1).unwrap();
    child.stdin.take().unwrap().write_all(b"this is none").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(2), "it has read that");
}

// field: access_log.stdout
#[test]
fn the_standard_output_has_lines_between_what_the_gateway_says() {
    let mut titan = Titan::start("log-stdout", &logging_to("stdout: {}"));
    get(&titan, "/a");
    assert_eq!(titan.next_output("/a"), "");
    titan.signal(Signal::TERM);
    assert_eq!(titan.exit_code(), Some(0));
}

// field: access_log.syslog, syslog.address, syslog.facility, syslog.tag
#[test]
fn a_syslog_server_gets_a_message_for_each() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    server.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let address = server.local_addr().unwrap();
    let destination =
        format!("syslog: {{ address: 'udp://{address}', facility: local3, tag: edge }}");
    let titan = Titan::start("log-syslog", &logging_to(&destination));
    get(&titan, "/a");
    let mut message = [0; 8192];
    let count = server.recv(&mut message).unwrap();
    let message = std::str::from_utf8(&message[..count]).unwrap();
    // Local use 3 (19), informational (6): RFC 5424 section 6.2.1.
    assert!(message.starts_with("<158>1 20"), "{message}");
    assert!(message.contains(" edge "), "{message}");
    assert!(message.ends_with(" access - /a"), "{message}");
}

// field: log_file.rotate, log_rotation.size, log_rotation.keep
#[test]
fn a_file_that_is_large_is_renamed_and_few_old_ones_stay() {
    let folder = Folder::new("rotated");
    let file =
        format!("file: {{ path: {}, rotate: {{ size: 4KiB, keep: 2 }} }}", folder.path("log"));
    let titan = Titan::start("log-rotated", &logging_to(&file));
    let count = || fs::read_dir(&folder.0).unwrap().count();
    let long = "x".repeat(1000);
    for number in 0..40 {
        get(&titan, &format!("/{number}/{long}"));
        waits_until("the line", || counted(&titan, "titan_access_log_lines_total") > number);
    }
    assert_eq!(count(), 3, "that which is written, and two old ones");
    assert!(folder.read("log").len() <= 4 << 10);
}

#[test]
fn what_cannot_be_written_is_counted_and_told_and_stops_nothing() {
    let mut titan = Titan::start("log-full", &logging_to("file: /dev/full"));
    get(&titan, "/a");
    waits_until("the count", || counted(&titan, "titan_access_log_dropped_total") == 1);
    let told = titan.events_up_to_that(|line| line.contains("No space left"));
    assert!(told.contains("/dev/full"), "{told}");
    get(&titan, "/b");
    waits_until("the count", || counted(&titan, "titan_access_log_dropped_total") == 2);
}

#[test]
fn that_a_log_is_written_again_is_told() {
    let folder = Folder::new("again");
    let [logs, elsewhere] = ["logs", "elsewhere"].map(|name| folder.path(name));
    fs::create_dir(&logs).unwrap();
    let mut titan = Titan::start("log-again", &logging_to(&format!("file: {logs}/log")));
    fs::rename(&logs, &elsewhere).unwrap();
    titan.signal(Signal::USR1);
    titan.events_up_to_that(|line| line.contains("cannot open "));
    fs::rename(&elsewhere, &logs).unwrap();
    titan.signal(Signal::USR1);
    let told = titan.events_up_to_that(|line| line.contains("lines are written again"));
    assert!(told.contains(&format!("{logs}/log")), "{told}");
}

#[test]
fn a_file_that_cannot_be_opened_is_no_start() {
    let file = titan::config("log-nowhere", &logging_to("file: /nowhere/log"));
    let (code, _, text) = titan::output(["run", "--config", file.to_str().unwrap()]);
    assert_ne!(code, Some(0));
    assert!(text.contains("/nowhere/log: No such file or directory"), "{text}");
}
