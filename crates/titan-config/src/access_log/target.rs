//! Where lines go: files, the standard output, servers of syslog.

use crate::address::parse_socket_path;
use crate::bounds::{MAX_ADDRESS, MAX_OLD_LOGS};
use crate::diagnostic::Diagnostic;
use crate::host_name::parse_host_name;
use crate::node::Node;
use crate::problem::Problem;
use crate::quantity::ByteSize;
use crate::read::{Read, Reading, default, optional, required};
use crate::readers::{duration, short_for, size, text, whole, words};
use crate::section::{section, section_of};
use crate::shape::TextShape;
use crate::tls::file;
use crate::token::{Name, unexpected};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where the lines of an access log go.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LogTarget {
    /// The standard output of the process.
    Stdout,
    /// A file.
    File {
        /// Which.
        path: PathBuf,
        /// When another one is begun; `None` if the gateway never does.
        rotate: Option<Rotation>,
    },
    /// A server of syslog (RFC 5424).
    Syslog {
        /// Where it is.
        address: SyslogAddress,
        /// What it takes the lines for.
        facility: Facility,
        /// What it calls the gateway: 1 to 48 printable characters of ASCII.
        tag: String,
    },
}

/// Where the records of an access log go.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LogDestination {
    /// Somewhere that takes lines.
    Lines(LogTarget),
    /// The collector of that name.
    Otlp(Name),
}

/// Where a server of syslog is, and how it gets lines.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SyslogAddress {
    /// A datagram for each line (RFC 5426).
    Udp(SyslogServer),
    /// A connection, on which the length of each line is told (RFC 6587 section 3.4.1).
    Tcp(SyslogServer),
    /// A socket in the file system: a datagram for each line.
    Unix(PathBuf),
}

/// A server of syslog on the network.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SyslogServer {
    /// Its address, or its name in lower case; IPv6 without brackets.
    pub host: String,
    /// Its port.
    pub port: NonZeroU16,
}

/// What a server of syslog takes a line for (RFC 5424 section 6.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Facility(u8);

impl Facility {
    /// The user's programs: what a line is for that says nothing else.
    pub const USER: Facility = Facility(1);
    /// The first of those that have no meaning of their own.
    pub const LOCAL0: Facility = Facility(16);

    /// Its number, from 0 to 23.
    pub const fn code(self) -> u8 {
        self.0
    }
}

impl Hash for Rotation {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Rotation { size, age, keep } = self;
        (size, age, keep).hash(state);
    }
}

/// As the file has it.
impl fmt::Display for SyslogAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SyslogAddress::Udp(server) => write!(f, "udp://{server}"),
            SyslogAddress::Tcp(server) => write!(f, "tcp://{server}"),
            SyslogAddress::Unix(path) => write!(f, "unix://{}", path.display()),
        }
    }
}

impl fmt::Display for SyslogServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SyslogServer { host, port } = self;
        match host.parse::<Ipv6Addr>() {
            Ok(_) => write!(f, "[{host}]:{port}"),
            Err(_) => write!(f, "{host}:{port}"),
        }
    }
}

section! {
    "log_file", "a log file", Any;
    /// A file for lines. They are appended to it; it is created with mode 0640, and its directory must exist. It is opened at
    /// the start, which fails if that is not possible, opened again if it was moved or deleted, and on SIGUSR1, as after
    /// logrotate has moved it. While it cannot be written, lines are dropped and counted; the next attempt comes a second later.
    /// A FIFO must have a reader. A plain string sets `path` alone.
    pub(crate) struct LogFile {
        /// The file. A relative path starts at the directory of the file that says it.
        pub(crate) path: PathBuf = required(log_path()),
        /// When the gateway renames the file and begins another one. At least one of `size` and `age`.
        pub(crate) rotate: Option<Rotation> =
            optional("never", section_of::<Rotation>().then(check_rotation)),
    }
}

section! {
    "log_rotation", "a log rotation", Any;
    /// When a log file is renamed, and another one is begun. Its new name has the time: `access.log.20261127T161500Z`, and a
    /// second one of the same second `access.log.20261127T161500Z-1`. No line is lost, and no file is replaced. If `path` is a
    /// symbolic link, the file that it leads to is renamed in its own directory. Do not use it together with logrotate.
    pub struct Rotation {
        /// The size, before a line that would exceed it. A single line may be longer.
        pub size: Option<ByteSize> = optional("any size", size(4 << 10..=1 << 50)),
        /// The age at which it happens, before the next line: since the first line of the file, or after a restart since the file
        /// was made. Where the file system does not know that, it is the time of the last change.
        pub age: Option<Duration> = optional("any age", duration(MIN_AGE..=MAX_AGE)),
        /// How many old files stay; older ones are deleted, if their names are such as this rotation gives.
        pub keep: u16 = default("7", whole(1..=MAX_OLD_LOGS)),
    }
}

section! {
    "syslog", "a syslog server", Any;
    /// A server that gets lines by the syslog protocol (RFC 5424). What it does not take in time is dropped and counted. A
    /// plain string sets `address` alone.
    pub(crate) struct Syslog {
        /// Where it is: `udp://10.0.0.1:514` sends a datagram for each line, cut at 8 KiB; `tcp://logs.example:601` sends
        /// them over a connection, with their length (RFC 6587); `unix:///dev/log` is a socket of this machine, for the same
        /// datagrams. While it cannot be connected to, lines wait: up to 64 batches or 8 MiB.
        pub(crate) address: SyslogAddress = required(syslog_address()),
        /// What the server takes the lines for.
        pub(crate) facility: Facility = default("local0", words(FACILITIES)),
        /// What the server calls the gateway (APP-NAME).
        pub(crate) tag: String = default("titan", text(TAG, parse_tag)),
    }
}

const MIN_AGE: Duration = Duration::from_secs(60);
const MAX_AGE: Duration = Duration::from_secs(3_650 * 86_400);

const FACILITIES: &[(&str, Facility)] = &[
    ("kern", Facility(0)),
    ("user", Facility::USER),
    ("mail", Facility(2)),
    ("daemon", Facility(3)),
    ("auth", Facility(4)),
    ("syslog", Facility(5)),
    ("lpr", Facility(6)),
    ("news", Facility(7)),
    ("uucp", Facility(8)),
    ("cron", Facility(9)),
    ("authpriv", Facility(10)),
    ("ftp", Facility(11)),
    ("local0", Facility::LOCAL0),
    ("local1", Facility(17)),
    ("local2", Facility(18)),
    ("local3", Facility(19)),
    ("local4", Facility(20)),
    ("local5", Facility(21)),
    ("local6", Facility(22)),
    ("local7", Facility(23)),
];

const TAG: TextShape = TextShape {
    what: "a syslog tag",
    examples: "`titan`: 1 to 48 printable characters without spaces",
    pattern: Some("^[!-~]{1,48}$"),
    max: 48,
};

const ADDRESS: TextShape = TextShape {
    what: "the address of a syslog server",
    examples: "`udp://127.0.0.1:514`, `tcp://logs.example:601` or `unix:///dev/log`",
    pattern: Some("^(udp://.+|tcp://.+|unix:///.+)"),
    max: MAX_ADDRESS,
};

pub(super) fn log_file() -> impl Read<Value = LogFile> {
    short_for("path", section_of::<LogFile>())
}

pub(super) fn syslog() -> impl Read<Value = Syslog> {
    short_for("address", section_of::<Syslog>())
}

/// A path that ends in the name of a file.
fn log_path() -> impl Read<Value = PathBuf> {
    file().then(|path: PathBuf, node, to| {
        let is_directory = node.as_text().is_some_and(|text| text.ends_with('/'));
        if !is_directory && path.file_name().is_some() {
            return Some(path);
        }
        let error = Diagnostic::error(node.span, "the path of a log has no file name");
        to.fail(error.label("this is a directory").help("add a name, such as `access.log`"))
    })
}

fn check_rotation(rotation: Rotation, node: &Node, to: &mut Reading<'_>) -> Option<Rotation> {
    if rotation.size.is_some() || rotation.age.is_some() {
        return Some(rotation);
    }
    let error = Diagnostic::error(node.span, "a rotation needs `size` or `age`");
    to.fail(
        error.label("it would never happen").help("such as `rotate: { size: 100MiB, age: 24h }`"),
    )
}

fn syslog_address() -> impl Read<Value = SyslogAddress> {
    text(ADDRESS, parse_address)
}

fn parse_address(text: &str) -> Result<SyslogAddress, Problem> {
    let Some((scheme, rest)) = text.split_once("://") else { return Err(without_scheme(text)) };
    let begin = scheme.len() + "://".len();
    let within = |problem: Problem| {
        let part = problem.part.map_or(begin..text.len(), |it| it.start + begin..it.end + begin);
        Problem { part: Some(part), ..problem }
    };
    match scheme {
        "udp" => parse_server(rest, scheme, 514).map(SyslogAddress::Udp).map_err(within),
        "tcp" => parse_server(rest, scheme, 601).map(SyslogAddress::Tcp).map_err(within),
        "unix" if !rest.starts_with('/') => {
            let problem = Problem::new("the path of a Unix socket must start with `/`");
            Err(within(problem.help("write it as `unix:///dev/log`")))
        }
        "unix" => parse_socket_path(rest).map(SyslogAddress::Unix).map_err(within),
        _ => {
            let problem = Problem::new("this protocol is not supported").part(0..scheme.len());
            Err(problem.help("lines are sent over `udp`, `tcp` or `unix`"))
        }
    }
}

fn without_scheme(text: &str) -> Problem {
    let problem = Problem::new("the protocol is missing");
    match text.strip_prefix("unix:").unwrap_or(text) {
        path if path.starts_with('/') => problem.help(format!("did you mean `unix://{path}`?")),
        _ if text.contains(':') => {
            problem.help(format!("did you mean `udp://{text}` or `tcp://{text}`?"))
        }
        _ => problem.help(format!("did you mean `udp://{text}:514` or `tcp://{text}:601`?")),
    }
}

fn parse_server(text: &str, scheme: &str, usual: u16) -> Result<SyslogServer, Problem> {
    let without_port =
        |problem: Problem| problem.help(format!("did you mean `{scheme}://{text}:{usual}`?"));
    let missing = || without_port(Problem::new("the port is missing"));
    if text.parse::<Ipv6Addr>().is_ok() {
        let problem = Problem::new("an IPv6 address needs brackets");
        return Err(problem.help(format!("did you mean `{scheme}://[{text}]:{usual}`?")));
    }
    let (host, port) =
        text.rsplit_once(':').filter(|_| !text.ends_with(']')).ok_or_else(missing)?;
    let part = host.len() + 1..text.len();
    let is_number = port.bytes().all(|byte| byte.is_ascii_digit());
    let port = port.parse::<NonZeroU16>().ok().filter(|_| is_number);
    let port =
        port.ok_or_else(|| Problem::new("the port is not a number from 1 to 65535").part(part))?;
    let host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(address) => {
            let address = address.parse::<Ipv6Addr>();
            let not_one = |_| Problem::new("this is not an IPv6 address").part(0..host.len());
            IpAddr::V6(address.map_err(not_one)?).to_string()
        }
        None => parse_host_name(host).map_err(|problem| {
            let part = problem.part.clone().unwrap_or(0..host.len());
            problem.part(part)
        })?,
    };
    Ok(SyslogServer { host, port })
}

fn parse_tag(text: &str) -> Result<String, Problem> {
    match text.char_indices().find(|(_, c)| !c.is_ascii_graphic()) {
        Some((at, c)) => Err(unexpected(at, c)),
        None if text.is_empty() => Err(Problem::new("it is empty")),
        None => Ok(text.to_owned()),
    }
}

/// A path without what leads nowhere else: two that differ in that only are the same file.
pub(super) fn plain(path: &Path) -> PathBuf {
    path.components().filter(|part| !matches!(part, std::path::Component::CurDir)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_display_as_written() {
        for text in
            ["udp://127.0.0.1:514", "udp://[::1]:514", "tcp://logs.example:601", "unix:///dev/log"]
        {
            assert_eq!(parse_address(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in [
            "",
            "10.0.0.1:514",
            "/dev/log",
            "unix:/dev/log",
            "unix://dev/log",
            "udp://",
            "udp://a",
            "udp://a:0",
            "udp://a:+1",
            "udp://a:",
            "udp://:514",
            "udp://::1",
            "udp://[::1]",
            "udp://a b:1",
            "tls://a:1",
            "tcp://a:1/b",
        ] {
            assert!(parse_address(text).is_err(), "{text}");
        }
    }
}
