//! Calls of the admin interface of a gateway that runs, over its Unix socket or its address: HTTP/1.1, one connection for
//! each, everything bounded.

mod address;
mod lines;
mod timed;

use address::{Address, remedy};
use lines::read_lines;
use timed::Timed;

use crate::cli::{AddressOption, GatewayOption};
use crate::config_file;
use crate::failure::Failure;
use crate::socket_path::Surroundings;
use serde_json::Value;
use std::io::{self, Read, Write};
use std::ops::ControlFlow;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use titan_admin::Identity;
use titan_config::bounds::MAX_FILES_TOTAL;
use titan_config::{AdminSocket, ListenAddress};

/// The way to a gateway.
#[derive(Debug)]
pub(crate) struct Client {
    place: Place,
    /// How long the gateway may take for a call.
    deadline: Duration,
    /// What names the file of the gateway that is meant, where the command line does.
    identity: Option<String>,
}

/// Where a gateway is.
#[derive(Debug)]
enum Place {
    /// Unix sockets where it may be, the likeliest first.
    Sockets(Vec<PathBuf>),
    Address(Address),
}

/// What is sent beside the target.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Body<'b> {
    pub(crate) media_type: &'b str,
    pub(crate) bytes: &'b [u8],
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
}

/// Bytes of the head of a reply.
const MAX_HEAD: usize = 16 << 10;
/// Bytes of the body of a reply: a configuration with all that it includes, as JSON.
const MAX_BODY: usize = 3 * MAX_FILES_TOTAL;
/// How long the gateway may take for most calls. A change may have to wait for another one, and that for name servers and
/// key sets.
const DEADLINE: Duration = Duration::from_secs(300);
/// How long a response without an end may be silent: the gateway sends an empty line each ten seconds.
const BETWEEN_LINES: Duration = Duration::from_secs(60);

impl Client {
    /// The way to the gateway that the command line names.
    pub(crate) fn find(option: &GatewayOption) -> Result<Client, Failure> {
        let GatewayOption { socket, config } = option;
        let paths = match (socket, config) {
            (Some(path), _) => vec![path.clone()],
            (None, Some(file)) => paths_in(file)?,
            (None, None) => Surroundings::of_process().for_commands(),
        };
        // Whoever names the file means the gateway that has it, and not another one that is where that would be.
        let identity = config.as_deref().and_then(Identity::name);
        Ok(Client { place: Place::Sockets(paths), deadline: DEADLINE, identity })
    }

    /// The same where the command line may name an address instead.
    pub(crate) fn find_at(
        address: &AddressOption,
        option: &GatewayOption,
    ) -> Result<Client, Failure> {
        match Address::of(address)? {
            None => Client::find(option),
            Some(address) => {
                Ok(Client { place: Place::Address(address), deadline: DEADLINE, identity: None })
            }
        }
    }

    /// Where the gateway is, or is looked for first.
    pub(crate) fn place(&self) -> String {
        match &self.place {
            Place::Sockets(paths) => {
                paths.first().map_or_else(String::new, |path| format!("unix:{}", path.display()))
            }
            Place::Address(address) => address.text().to_owned(),
        }
    }

    /// The same for a call that may take that long.
    pub(crate) fn within(self, deadline: Duration) -> Client {
        Client { deadline, ..self }
    }

    /// Makes a call: `target` is a path with its query.
    pub(crate) fn call(
        &self,
        method: &str,
        target: &str,
        body: Option<Body<'_>>,
    ) -> Result<Reply, Failure> {
        let request = self.request("1.1", method, target, body);
        let (replied, place) = match &self.place {
            Place::Sockets(paths) => {
                let (stream, path) = connect(paths)?;
                let stream = Timed::new(stream, self.deadline);
                (exchange(stream, &request), path.display().to_string())
            }
            Place::Address(address) => {
                let stream = address.connect(self.deadline)?;
                (exchange(stream, &request), address.text().to_owned())
            }
        };
        replied.map_err(|error| {
            let help = remedy(&error);
            Failure::Runtime(format!("the gateway at {place} did not respond: {error}{help}"))
        })
    }

    /// The document at that target, which every gateway shows with these members.
    pub(crate) fn document(&self, target: &str, members: &[&str]) -> Result<Value, Failure> {
        let reply = self.call("GET", target, None)?;
        if reply.status != 200 {
            return Err(reply.failure());
        }
        let document = reply.document();
        let is_known = members.iter().all(|name| document.get(name).is_some());
        is_known.then_some(document).ok_or_else(|| self.no_interface())
    }

    /// Why a response is of no use that no gateway sends.
    pub(crate) fn no_interface(&self) -> Failure {
        let place = self.place();
        let text =
            format!("this is no admin interface of Titan: {place} responds with something else");
        Failure::Runtime(text)
    }

    /// Reads a response of lines without an end, until it ends, or whoever takes its lines has enough.
    pub(crate) fn lines(
        &self,
        target: &str,
        take: impl FnMut(&str) -> Result<ControlFlow<()>, Failure>,
    ) -> Result<(), Failure> {
        // The body of a response to HTTP/1.0 ends with the connection: there are no chunks to read.
        let request = self.request("1.0", "GET", target, None);
        match &self.place {
            Place::Sockets(paths) => {
                let (stream, path) = connect(paths)?;
                let stream = Timed::endless(stream, BETWEEN_LINES);
                read_lines(stream, &request, &path.display(), take)
            }
            Place::Address(address) => {
                let stream = address.connect_endless(BETWEEN_LINES)?;
                read_lines(stream, &request, &address.text(), take)
            }
        }
    }

    fn request(
        &self,
        version: &str,
        method: &str,
        target: &str,
        body: Option<Body<'_>>,
    ) -> Vec<u8> {
        let host = match &self.place {
            Place::Sockets(_) => "localhost",
            Place::Address(address) => address.authority(),
        };
        let mut text =
            format!("{method} {target} HTTP/{version}\r\nHost: {host}\r\nConnection: close\r\n");
        if let Place::Address(address) = &self.place {
            text.push_str(&address.authorization());
        }
        if let Some(named) = &self.identity {
            text.push_str(&format!("{}: {named}\r\n", Identity::FIELD));
        }
        let Some(Body { media_type, bytes }) = body else {
            text.push_str("Content-Length: 0\r\n\r\n");
            return text.into_bytes();
        };
        let length = bytes.len();
        text.push_str(&format!("Content-Type: {media_type}\r\nContent-Length: {length}\r\n\r\n"));
        [text.as_bytes(), bytes].concat()
    }
}

impl Reply {
    /// The body as JSON; null if it is none.
    pub(crate) fn document(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// What went wrong.
    fn failure(&self) -> Failure {
        match self.status {
            400 => Failure::BadInput(self.problem()),
            _ => Failure::Runtime(self.problem()),
        }
    }

    /// What went wrong, in a reply that says so.
    pub(crate) fn problem(&self) -> String {
        let document = self.document();
        let told = document["detail"].as_str();
        let told = told.map_or_else(
            || format!("the gateway responded with status {}", self.status),
            str::to_owned,
        );
        match self.status {
            401 => format!("{told}; `--token-file` names a file with a token"),
            _ => told,
        }
    }
}

/// Where the gateway with that configuration is.
fn paths_in(file: &Path) -> Result<Vec<PathBuf>, Failure> {
    let name = config_file::name_of(file);
    let config = config_file::read(file)?;
    let Some(admin) = config.admin else {
        return Err(Failure::BadInput(format!(
            "{name}: `admin` is off: there is no socket; {SIGNALS}"
        )));
    };
    match (admin.socket, admin.address) {
        (AdminSocket::At(path), _) | (_, ListenAddress::Unix(path)) => Ok(vec![path]),
        (AdminSocket::Auto, _) => Ok(Surroundings::of_process().for_commands()),
        (AdminSocket::Off, _) => {
            Err(Failure::BadInput(format!("{name}: `admin.socket` is off; {SIGNALS}")))
        }
    }
}

/// What does without a socket.
const SIGNALS: &str = "use `kill -HUP` to reload, and `kill -USR2` to upgrade";

/// A connection to the first of these sockets that takes one.
fn connect(paths: &[PathBuf]) -> Result<(UnixStream, &Path), Failure> {
    let mut faults = Vec::new();
    for path in paths {
        match UnixStream::connect(path) {
            Ok(stream) => return Ok((stream, path)),
            Err(error) => faults.push(format!("{}: {error}", path.display())),
        }
    }
    Err(Failure::Runtime(format!(
        "no gateway can be reached: {}\nhelp: `titan run` prints where its socket is (`admin on unix:...`): name it \
         with `--socket`, or the configuration with `-c`;\n\x20     only root and the user of the gateway may use it",
        faults.join("; ")
    )))
}

/// Sends a request, and receives the reply to it.
fn exchange(mut stream: impl Read + Write, request: &[u8]) -> io::Result<Reply> {
    let (status, length, body) = receive_head(&mut stream, request)?;
    let length = length.ok_or_else(no_response)?;
    if length > MAX_BODY {
        return Err(io::Error::other("the body of its response is too long"));
    }
    let body = receive_body(&mut stream, body, length)?;
    Ok(Reply { status, body })
}

/// Sends a request, and receives the head of the response: its status, the length of its body, and what has come of that.
fn receive_head(
    stream: &mut (impl Read + Write),
    request: &[u8],
) -> io::Result<(u16, Option<usize>, Vec<u8>)> {
    // A gateway that refuses a body early has responded before it closes.
    let sent = stream.write_all(request).and_then(|()| stream.flush());
    let mut received = Vec::new();
    let end = loop {
        if let Some(at) = received.windows(4).position(|it| it == b"\r\n\r\n") {
            break at + 4;
        }
        if received.len() > MAX_HEAD {
            return Err(io::Error::other("the head of its response is too long"));
        }
        if receive(stream, &mut received)? == 0 {
            sent?;
            return Err(io::Error::other("it closed the connection"));
        }
    };
    let (status, length) = parse_head(&received[..end]).ok_or_else(no_response)?;
    Ok((status, length, received.split_off(end)))
}

/// Receives the rest of a body.
fn receive_body(stream: &mut impl Read, mut body: Vec<u8>, length: usize) -> io::Result<Vec<u8>> {
    while body.len() < length {
        if receive(stream, &mut body)? == 0 {
            return Err(io::Error::other("its response ends before it is complete"));
        }
    }
    body.truncate(length);
    Ok(body)
}

fn no_response() -> io::Error {
    io::Error::other("what it sent is no response of a gateway")
}

/// Receives what there is.
fn receive(stream: &mut impl Read, to: &mut Vec<u8>) -> io::Result<usize> {
    let mut buffer = [0; 16 << 10];
    let count = match stream.read(&mut buffer) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Err(error) if error.kind() == io::ErrorKind::Interrupted => return receive(stream, to),
        read => read?,
    };
    to.extend_from_slice(&buffer[..count]);
    Ok(count)
}

/// The status, and the length of the body if it says that.
fn parse_head(head: &[u8]) -> Option<(u16, Option<usize>)> {
    let mut lines = std::str::from_utf8(head).ok()?.split("\r\n");
    let status = lines.next()?.strip_prefix("HTTP/1.")?.get(2..5)?.parse().ok()?;
    let length = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("Content-Length").then(|| value.trim().parse().ok())?
    });
    Some((status, length))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    /// What a client makes of that, and what it has sent.
    fn replied(bytes: &[u8]) -> (io::Result<Reply>, Vec<u8>) {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let bytes = bytes.to_vec();
        let gateway = thread::spawn(move || {
            let mut request = vec![0; 1024];
            let count = theirs.read(&mut request).unwrap();
            theirs.write_all(&bytes).unwrap();
            request.truncate(count);
            request
        });
        let client =
            Client { place: Place::Sockets(Vec::new()), deadline: DEADLINE, identity: None };
        let body = Body { media_type: "application/yaml", bytes: b"a: 1" };
        let request = client.request("1.1", "PUT", "/config?confirm=5m", Some(body));
        let reply = exchange(Timed::new(ours, DEADLINE), &request);
        (reply, gateway.join().unwrap())
    }

    #[test]
    fn a_call_is_one_request_and_one_reply() {
        let (reply, sent) = replied(
            b"HTTP/1.1 422 Unprocessable Content\r\ncontent-length: 8\r\n\r\n{\"a\":1}\nmore",
        );
        let reply = reply.unwrap();
        assert_eq!((reply.status, reply.document()["a"].as_i64()), (422, Some(1)));
        let wanted = "PUT /config?confirm=5m HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
            Content-Type: application/yaml\r\nContent-Length: 4\r\n\r\na: 1";
        assert_eq!(String::from_utf8(sent).unwrap(), wanted);
    }

    #[test]
    fn who_needs_a_token_hears_how_to_name_one() {
        let problem = |status| {
            let body = br#"{"detail":"this needs a token"}"#.to_vec();
            Reply { status, body }.problem()
        };
        assert_eq!(problem(401), "this needs a token; `--token-file` names a file with a token");
        assert_eq!(problem(403), "this needs a token");
    }

    #[test]
    fn a_reply_that_is_none_or_has_no_end_is_an_error() {
        let long = [b"HTTP/1.1 200 OK\r\nX: ".to_vec(), vec![b'x'; MAX_HEAD + 1]].concat();
        let body = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", MAX_BODY + 1);
        for (bytes, what) in [
            (&b""[..], "it closed the connection"),
            (b"HTTP/1.1 200 OK\r\n", "it closed the connection"),
            (b"SSH-2.0\r\n\r\n", "no response of a gateway"),
            (b"HTTP/1.1 200 OK\r\n\r\n", "no response of a gateway"),
            (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nx", "before it is complete"),
            (&long, "the head of its response is too long"),
            (body.as_bytes(), "the body of its response is too long"),
        ] {
            let error = replied(bytes).0.unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
    }
}
