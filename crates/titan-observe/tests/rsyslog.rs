//! rsyslog reads what destinations send to servers of syslog. One that is not installed fails the test.

#![allow(
    clippy::tests_outside_test_module,
    clippy::unwrap_used,
    reason = "a test may stop at a surprise"
)]

use std::fs::{self, File};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};
use titan_config::{Facility, LogTarget, SyslogAddress, SyslogServer};
use titan_observe::destination::{Destination, DestinationFigures, Lines};

/// Listens in three ways, and writes what it has made of each message to a file.
const CONFIG: &str = r#"
global(workDirectory="PATH" maxMessageSize="64k" parser.escapeControlCharactersOnReceive="off")
module(load="imudp")
module(load="imtcp")
module(load="imuxsock" SysSock.Use="off")
template(name="parsed" type="string"
  string="PARSED\n")
ruleset(name="all") { action(type="omfile" file="PATH/parsed" template="parsed") }
input(type="imudp" address="127.0.0.1" port="PORT" ruleset="all")
input(type="imtcp" address="127.0.0.1" port="PORT" ruleset="all")
input(type="imuxsock" socket="PATH/socket" parseHostname="on" useSpecialParser="off" ruleset="all"
  ignoreTimestamp="off"
  rateLimit.interval="0")
"#;

/// A line for each message.
const PARSED: &str = "%syslogfacility-text% %syslogseverity-text% %timestamp:::date-rfc3339% %hostname% \
    %app-name% %procid% %msgid% %structured-data% [%msg%]";

/// rsyslog in a folder of its own; both are gone when it is dropped.
struct Rsyslog {
    child: Child,
    folder: PathBuf,
    port: u16,
}

impl Rsyslog {
    fn start() -> Rsyslog {
        let folder = std::env::temp_dir().join(format!("titan-rsyslog-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let port = free_port();
        let config = CONFIG
            .replace("PATH", folder.to_str().unwrap())
            .replace("PORT", &port.to_string())
            .replace("PARSED", PARSED);
        let file = folder.join("rsyslog.conf");
        fs::write(&file, config).unwrap();
        let child = Command::new(program())
            .args(["-n", "-f", file.to_str().unwrap(), "-i"])
            .arg(folder.join("pid"))
            .stdin(Stdio::null())
            .stderr(File::create(folder.join("stderr")).unwrap())
            .spawn()
            .unwrap();
        let mut server = Rsyslog { child, folder, port };
        server.until("it listens", |it| {
            TcpStream::connect(("127.0.0.1", it.port)).is_ok() && it.folder.join("socket").exists()
        });
        server
    }

    fn until(&mut self, what: &str, is_so: impl Fn(&Rsyslog) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !is_so(self) {
            let ended = self.child.try_wait().unwrap();
            let told = fs::read_to_string(self.folder.join("stderr")).unwrap_or_default();
            assert!(ended.is_none(), "ended with {ended:?}: {told}");
            let seen = self.parsed();
            assert!(Instant::now() < deadline, "not in time: {what}\n{told}\n{seen}");
            thread::park_timeout(Duration::from_millis(5));
        }
    }

    fn parsed(&self) -> String {
        fs::read_to_string(self.folder.join("parsed")).unwrap_or_default()
    }
}

impl Drop for Rsyslog {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A port that is free for both protocols.
fn free_port() -> u16 {
    let mut ports = std::iter::repeat_with(|| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        TcpListener::bind(address).is_ok().then(|| address.port())
    });
    ports.find_map(|port| port).unwrap()
}

fn program() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Daemons live in sbin, which not every PATH has.
    let extra = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from);
    let mut programs =
        std::env::split_paths(&path).chain(extra).map(|folder| folder.join("rsyslogd"));
    let found = programs.find(|path| path.is_file());
    found.expect("rsyslogd is not installed: run scripts/install-peers.sh")
}

const BEGAN: u64 = 1_795_796_100_012_345;
const TEXTS: [&str; 3] =
    [r#"{"method":"GET","path":"/a b"}"#, "10.0.0.1 - - \"GET / HTTP/1.1\" 200 é🦀", "<1>1 - - ["];

fn lines() -> Lines {
    let mut lines = Lines::default();
    for text in TEXTS {
        lines.text.extend_from_slice(text.as_bytes());
        lines.text.push(b'\n');
        lines.ends.push((lines.text.len(), BEGAN));
    }
    lines
}

#[test]
fn rsyslog_reads_what_was_sent_to_it() {
    let mut rsyslog = Rsyslog::start();
    let port = NonZeroU16::new(rsyslog.port).unwrap();
    let server = || SyslogServer { host: "127.0.0.1".to_owned(), port };
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    for (tag, address) in [
        ("udp", SyslogAddress::Udp(server())),
        ("tcp", SyslogAddress::Tcp(server())),
        ("unix", SyslogAddress::Unix(rsyslog.folder.join("socket"))),
    ] {
        let target = LogTarget::Syslog { address, facility: Facility::LOCAL0, tag: tag.to_owned() };
        let figures = Arc::new(DestinationFigures::new(&target));
        let mut destination = Destination::open(&target, Path::new("/"), figures).unwrap();
        destination.write(&lines(), SystemTime::now());
        destination.wait();
        let head = format!(
            "local0 info 2026-11-27T16:15:00.012345Z {} {tag} {} access -",
            host.trim_end(),
            std::process::id()
        );
        let expected = TEXTS.map(|text| format!("{head} [{text}]")).to_vec();
        let own = |it: &Rsyslog| -> Vec<String> {
            let part = format!(" {tag} ");
            let parsed = it.parsed();
            parsed.lines().filter(|line| line.contains(&part)).map(str::to_owned).collect()
        };
        rsyslog.until(&format!("all of {tag}"), |it| own(it).len() >= TEXTS.len());
        assert_eq!(own(&rsyslog), expected);
    }
}
