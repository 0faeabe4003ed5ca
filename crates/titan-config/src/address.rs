//! Addresses: what a listener is bound to, and where an endpoint listens.

use crate::bounds::{MAX_ADDRESS, MAX_SOCKET_PATH};
use crate::habits;
use crate::host_name::parse_host_name;
use crate::problem::Problem;
use crate::read::Read;
use crate::readers::text;
use crate::shape::TextShape;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;
use std::path::PathBuf;

/// What a listener is bound to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ListenAddress {
    /// One address of one family; `[::]` takes IPv6 alone.
    Tcp(SocketAddr),
    /// A port on every IPv4 and IPv6 address.
    Any(u16),
    /// A socket in the file system.
    Unix(PathBuf),
}

impl ListenAddress {
    /// Whether both cannot be bound at the same moment. Port 0 is a free port, and never clashes.
    pub(crate) fn clashes(&self, other: &ListenAddress) -> bool {
        match (self, other) {
            (ListenAddress::Unix(ours), ListenAddress::Unix(theirs)) => ours == theirs,
            (ListenAddress::Unix(_), _) | (_, ListenAddress::Unix(_)) => false,
            _ => self.port() == other.port() && self.port() != Some(0) && self.overlaps(other),
        }
    }

    /// Whether someone on another machine could connect.
    pub(crate) fn is_public(&self) -> bool {
        match self {
            ListenAddress::Tcp(address) => !address.ip().to_canonical().is_loopback(),
            ListenAddress::Any(_) => true,
            ListenAddress::Unix(_) => false,
        }
    }

    /// Its port; 0 is one that the system chooses. None of a Unix socket.
    pub fn port(&self) -> Option<u16> {
        match self {
            ListenAddress::Tcp(address) => Some(address.port()),
            ListenAddress::Any(port) => Some(*port),
            ListenAddress::Unix(_) => None,
        }
    }

    /// Whether some address belongs to both, ports aside.
    fn overlaps(&self, other: &ListenAddress) -> bool {
        let (ListenAddress::Tcp(ours), ListenAddress::Tcp(theirs)) = (self, other) else {
            return true;
        };
        let same_family = ours.is_ipv4() == theirs.is_ipv4();
        let is_whole = ours.ip().is_unspecified() || theirs.ip().is_unspecified();
        ours.ip() == theirs.ip() || same_family && is_whole
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenAddress::Tcp(address) => address.fmt(f),
            ListenAddress::Any(port) => write!(f, ":{port}"),
            ListenAddress::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Where an endpoint listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum EndpointAddress {
    /// One address.
    Ip(SocketAddr),
    /// Every address of a name, which is in lower case.
    Dns {
        /// The name.
        host: String,
        /// The port on each address.
        port: NonZeroU16,
    },
    /// The servers of a service, by the SRV records of that name (RFC 2782), which is in lower case.
    Srv(String),
    /// A socket in the file system.
    Unix(PathBuf),
    /// What the feed of that name tells of while the gateway runs.
    Feed(String),
}

impl EndpointAddress {
    /// The name that stands for it, if it is one.
    pub fn name(&self) -> &str {
        match self {
            EndpointAddress::Dns { host: name, .. }
            | EndpointAddress::Srv(name)
            | EndpointAddress::Feed(name) => name,
            EndpointAddress::Ip(_) | EndpointAddress::Unix(_) => "",
        }
    }

    /// Whether what it stands for has to be resolved.
    pub fn is_name(&self) -> bool {
        matches!(self, EndpointAddress::Dns { .. } | EndpointAddress::Srv(_))
    }

    /// Whether a connection to it could arrive at `listener`, as far as the texts tell.
    pub(crate) fn is_served_by(&self, listener: &ListenAddress) -> bool {
        match self {
            EndpointAddress::Ip(address) if !address.ip().is_loopback() => {
                *listener == ListenAddress::Tcp(*address)
            }
            EndpointAddress::Ip(address) => listener.clashes(&ListenAddress::Tcp(*address)),
            EndpointAddress::Unix(path) => *listener == ListenAddress::Unix(path.clone()),
            EndpointAddress::Dns { .. } | EndpointAddress::Srv(_) | EndpointAddress::Feed(_) => {
                false
            }
        }
    }
}

impl fmt::Display for EndpointAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EndpointAddress::Ip(address) => address.fmt(f),
            EndpointAddress::Dns { host, port } => write!(f, "{host}:{port}"),
            EndpointAddress::Srv(name) => write!(f, "srv:{name}"),
            EndpointAddress::Unix(path) => write!(f, "unix:{}", path.display()),
            EndpointAddress::Feed(name) => write!(f, "feed:{name}"),
        }
    }
}

const LISTEN: TextShape = TextShape {
    what: "an address to listen on",
    examples: "`:8080`, `127.0.0.1:8080`, `[::1]:8080` or `unix:/run/titan.sock`",
    pattern: Some("^(unix:/.+|.*:[0-9]{1,5})$"),
    max: MAX_ADDRESS,
};

pub(crate) fn listen_address() -> impl Read<Value = ListenAddress> {
    text(LISTEN, parse_listen)
}

pub(crate) fn endpoint_address() -> impl Read<Value = EndpointAddress> {
    let shape = TextShape {
        what: "an endpoint's address",
        examples: "`10.0.0.1:8080`, `backend.internal:8080` or `unix:/run/backend.sock`",
        pattern: Some("^(unix:/.+|srv:.+|feed:.+|.+:[0-9]{1,5})$"),
        max: MAX_ADDRESS,
    };
    text(shape, parse_endpoint)
}

/// The address and port of a name server.
pub(crate) fn server_address() -> impl Read<Value = SocketAddr> {
    let shape = TextShape {
        what: "an IP address with a port",
        examples: "`127.0.0.1:53` or `[::1]:53`",
        pattern: Some("^.+:[0-9]{1,5}$"),
        max: MAX_ADDRESS,
    };
    text(shape, |text| match text.parse::<SocketAddr>() {
        Ok(address) if address.port() != 0 => Ok(address),
        Ok(_) => Err(Problem::new("port 0 is not a port that a server can listen on")),
        Err(_) => Err(match text.parse::<IpAddr>() {
            Ok(address) => Problem::new("the port is missing")
                .help(format!("did you mean `{}`?", SocketAddr::new(address, 53))),
            Err(_) => Problem::new("this is not an IP address with a port"),
        }),
    })
}

pub(crate) fn parse_listen(text: &str) -> Result<ListenAddress, Problem> {
    if let Some(path) = text.strip_prefix("unix:") {
        return parse_socket_path(path).map(ListenAddress::Unix);
    }
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(ListenAddress::Tcp(address));
    }
    let (host, port) = split_port(text).map_err(|problem| listen_hint(text, problem))?;
    let problem = match host {
        "" => return Ok(ListenAddress::Any(port)),
        "*" | "0" => Problem::new("to listen on all addresses, write the port alone")
            .help(format!("did you mean `:{port}`?")),
        "localhost" => Problem::new("a listener needs an address, not a name")
            .help(format!("did you mean `127.0.0.1:{port}`?")),
        _ => Problem::new("this is not an IP address").part(0..host.len()),
    };
    Err(problem)
}

/// The address of the admin interface, which is a loopback address by default.
pub(crate) fn admin_address() -> impl Read<Value = ListenAddress> {
    text(LISTEN, |text| {
        parse_listen(text).map_err(|problem| match text.parse::<u16>() {
            Ok(port) => problem.help(format!("did you mean `127.0.0.1:{port}`?")),
            Err(_) => problem,
        })
    })
}

/// What was probably meant by an address without a port.
fn listen_hint(text: &str, problem: Problem) -> Problem {
    if problem.help.is_some() {
        return problem;
    }
    match (text.parse::<u16>(), text.parse::<IpAddr>()) {
        (Ok(port), _) => problem.help(format!("did you mean `:{port}`?")),
        (_, Ok(address)) => {
            problem.help(format!("did you mean `{}`?", SocketAddr::new(address, 8080)))
        }
        _ => problem,
    }
}

pub(crate) fn parse_endpoint(text: &str) -> Result<EndpointAddress, Problem> {
    if let Some(path) = text.strip_prefix("unix:") {
        return parse_socket_path(path).map(EndpointAddress::Unix);
    }
    if let Some(name) = text.strip_prefix("srv:") {
        return parse_service(name);
    }
    if let Some(name) = text.strip_prefix("feed:") {
        return parse_feed(name);
    }
    if !text.contains("://") {
        habits::several(text, &[','], "write several endpoints as a list")?;
    }
    if let Ok(address) = text.parse::<SocketAddr>() {
        return match (address.port(), address.ip().is_unspecified()) {
            (0, _) => Err(port_zero(text)),
            (_, true) => Err(Problem::new("this address means \"any\": nothing can connect to it")),
            _ => Ok(EndpointAddress::Ip(address)),
        };
    }
    let (host, port) = split_port(text).map_err(|problem| endpoint_hint(text, problem))?;
    let port = NonZeroU16::new(port).ok_or_else(|| port_zero(text))?;
    if host.is_empty() || host == "*" {
        let problem = Problem::new("the host is missing");
        return Err(problem.help(format!("did you mean `127.0.0.1:{port}`?")));
    }
    Ok(EndpointAddress::Dns { host: parse_host_name(host)?, port })
}

fn parse_service(name: &str) -> Result<EndpointAddress, Problem> {
    let as_part = |problem: Problem| {
        let part = problem.part.clone().unwrap_or(0..name.len());
        problem.part(part.start + "srv:".len()..part.end + "srv:".len())
    };
    if let Some((name, port)) = name.rsplit_once(':') {
        let problem = Problem::new("SRV records say which ports there are");
        return Err(as_part(problem.part(name.len()..name.len() + 1 + port.len()))
            .help(format!("did you mean `srv:{name}`?")));
    }
    parse_host_name(name).map(EndpointAddress::Srv).map_err(as_part)
}

fn parse_feed(name: &str) -> Result<EndpointAddress, Problem> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_part) {
        let problem = Problem::new("the name of a feed has letters, digits, `.`, `_`, `-` and `/`");
        return Err(problem.help("write it as `feed:kubernetes/shop/front/8080`"));
    }
    Ok(EndpointAddress::Feed(name.to_owned()))
}

fn endpoint_hint(text: &str, problem: Problem) -> Problem {
    if problem.help.is_some() {
        return problem;
    }
    match (text.parse::<NonZeroU16>(), parse_host_name(text)) {
        (Ok(port), _) => problem.help(format!("did you mean `127.0.0.1:{port}`?")),
        (_, Ok(_)) => problem.help(format!("did you mean `{text}:80`?")),
        _ => problem,
    }
}

fn port_zero(text: &str) -> Problem {
    let colon = text.rfind(':').unwrap_or(0);
    Problem::new("port 0 cannot be connected to").part(colon + 1..text.len())
}

/// The host (as written) and the port.
fn split_port(text: &str) -> Result<(&str, u16), Problem> {
    if let Some((scheme, rest)) = text.split_once("://") {
        // `dns:///a:80` has an empty authority.
        let rest = rest.trim_start_matches('/');
        let authority = rest.split('/').next().unwrap_or(rest);
        let problem =
            Problem::new("an address does not include a scheme").part(0..scheme.len() + 3);
        let port = match scheme {
            _ if authority
                .rsplit_once(':')
                .is_some_and(|(_, port)| port.parse::<u16>().is_ok()) =>
            {
                ""
            }
            "https" => ":443",
            _ => ":80",
        };
        let beside = match scheme {
            "https" | "wss" => " Configure TLS under the key `tls`",
            "h2c" | "grpc" => " For HTTP/2, set `protocol: h2` in the upstream",
            _ => "",
        };
        return Err(problem.help(format!("did you mean `{authority}{port}`?{beside}")));
    }
    let missing = || Problem::new("the port is missing");
    let (host, port) = text.rsplit_once(':').ok_or_else(missing)?;
    if host.contains(':') && !host.starts_with('[') {
        let problem = Problem::new("an IPv6 address with a port needs brackets");
        return Err(problem.help("write it as `[::1]:8080`"));
    }
    let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let number = port.parse().ok().filter(|_| is_number);
    let part = host.len() + 1..text.len();
    let number = number.ok_or_else(|| match (port, habits::after_port(port)) {
        ("", _) => missing(),
        (_, Some((digits, help))) => Problem::new("nothing may follow the port")
            .part(host.len() + 1 + digits.len()..text.len())
            .help(help),
        _ => Problem::new("the port is not a number from 0 to 65535").part(part),
    })?;
    Ok((host, number))
}

pub(crate) fn parse_socket_path(path: &str) -> Result<PathBuf, Problem> {
    if !path.starts_with('/') {
        let problem = Problem::new("the path of a Unix socket must start with `/`");
        return Err(problem.help("write it as `unix:/run/titan.sock`"));
    }
    if path.len() > MAX_SOCKET_PATH {
        let reason = format!("the path has {} bytes; the maximum is {MAX_SOCKET_PATH}", path.len());
        return Err(Problem::new(reason));
    }
    if path.contains(char::is_control) {
        return Err(Problem::new("the path contains a control character"));
    }
    Ok(PathBuf::from(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_display_as_written() {
        for text in ["0.0.0.0:8080", ":8080", "[::]:8080", "unix:/run/titan.sock", "127.0.0.1:0"] {
            assert_eq!(parse_listen(text).unwrap().to_string(), text);
        }
        for text in [
            "10.0.0.1:80",
            "[2001:db8::1]:80",
            "a.internal:65535",
            "unix:/x",
            "feed:a/b.c-d_1/8080",
        ] {
            assert_eq!(parse_endpoint(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in ["", ":", "8080", "::1:80", ":65536", "localhost:80", "*:80", "unix:x", ":+80"]
        {
            assert!(parse_listen(text).is_err(), "{text}");
        }
        for text in
            ["", ":80", "a", "a:0", "10.0.0.1:0", "0.0.0.0:80", "http://a:80", "10.0.0.256:80"]
        {
            assert!(parse_endpoint(text).is_err(), "{text}");
        }
    }

    #[test]
    fn addresses_clash_when_one_socket_would_be_enough() {
        for (ours, theirs, clash) in [
            (":80", ":80", true),
            (":80", "127.0.0.1:80", true),
            (":80", "[::1]:80", true),
            ("0.0.0.0:80", "127.0.0.1:80", true),
            ("0.0.0.0:80", "[::]:80", false),
            ("0.0.0.0:80", "0.0.0.0:81", false),
            ("127.0.0.1:80", "127.0.0.2:80", false),
            (":0", ":0", false),
            ("unix:/a", "unix:/a", true),
            ("unix:/a", "unix:/b", false),
        ] {
            let parsed = [ours, theirs].map(|text| parse_listen(text).unwrap());
            assert_eq!(parsed[0].clashes(&parsed[1]), clash, "{ours} {theirs}");
            assert_eq!(parsed[1].clashes(&parsed[0]), clash, "{theirs} {ours}");
        }
    }
}
