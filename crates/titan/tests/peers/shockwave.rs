//! Shockwave behind the gateway: the engine that shares its rules of framing, as a service of its own.

use crate::client::Client;
use crate::curl::curl;
use crate::gateway::{Gateway, config_to};
use crate::place::{Folder, own_address};
use crate::program::{Program, output_of, peer};
use crate::wait::until;
use serde_json::Value;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The echo service of Shockwave.
pub(crate) struct Echo {
    _program: Program,
    pub(crate) address: SocketAddr,
}

impl Echo {
    fn start() -> Echo {
        Echo::with(&[])
    }

    /// One with these flags.
    pub(crate) fn with(flags: &[&str]) -> Echo {
        let (address, folder) = (own_address(), Folder::new());
        let mut command = Command::new(echo());
        command.arg("-listen").arg(address.to_string()).args(flags).stdout(Stdio::null());
        let program = Program::start(&mut command, &folder).listens_on(address);
        Echo { _program: program, address }
    }

    /// Something that it says of itself, asked without the gateway.
    fn stat(&self, name: &str) -> u64 {
        let mut client = Client::connect(self.address).unwrap();
        client.send(b"GET /stats HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
        let stats: Value = serde_json::from_slice(&client.response().unwrap().body).unwrap();
        stats[name].as_u64().unwrap_or_else(|| panic!("no {name} in {stats}"))
    }
}

/// The service, built once.
fn echo() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("echo");
        let mut build = peer("go");
        build.current_dir(repository().join("shockwave")).env("GOTOOLCHAIN", "local");
        output_of(build.args(["build", "-o"]).arg(&program).arg("./cmd/echo"));
        program
    })
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A client of a gateway in front of the service.
fn client() -> (Echo, Gateway, Client) {
    let echo = Echo::start();
    let gateway = Gateway::to(echo.address);
    let client = Client::connect(gateway.address()).unwrap();
    (echo, gateway, client)
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")
}

#[test]
fn requests_arrive_one_after_the_other_on_one_connection() {
    let (_echo, _gateway, mut client) = client();
    for number in 1..=5 {
        let body = "x".repeat(number * 1000);
        let length = body.len();
        let request =
            format!("POST /a?b HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{body}");
        client.send(request.as_bytes()).unwrap();
        let seen: Value = serde_json::from_slice(&client.response().unwrap().body).unwrap();
        assert_eq!(
            (seen["method"].as_str(), seen["target"].as_str()),
            (Some("POST"), Some("/a?b"))
        );
        assert_eq!(seen["body"].as_str(), Some(&*body));
        assert_eq!(seen["request"].as_u64(), Some(number as u64), "a connection for each request");
    }
}

#[test]
fn bodies_of_every_framing_arrive_whole() {
    let (_echo, _gateway, mut client) = client();
    for (path, length) in [
        ("/bytes/0", 0),
        ("/bytes/5000", 5000),
        ("/bytes/5000000", 5_000_000),
        ("/chunked/300/1000", 300_000),
    ] {
        client.send(get(path).as_bytes()).unwrap();
        let response = client.response().unwrap();
        assert_eq!((response.status, response.body.len()), (200, length), "{path}");
        let is_right =
            response.body.iter().zip(b"0123456789abcdef".iter().cycle()).all(|(a, b)| a == b);
        assert!(is_right || path.starts_with("/chunked"), "{path}");
    }
}

#[test]
fn each_piece_goes_there_and_back_before_the_next() {
    let (_echo, _gateway, mut client) = client();
    client.send(b"POST /stream HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
    client.send(b"5\r\nfirst\r\n").unwrap();
    client.head_with("HTTP/1.1 200 OK\r\n").unwrap();
    client.expect(b"5\r\nfirst\r\n").unwrap();
    for _ in 0..100 {
        client.send(b"4\r\nmore\r\n").unwrap();
        client.expect(b"4\r\nmore\r\n").unwrap();
    }
    client.send(b"0\r\n\r\n").unwrap();
    client.expect(b"0\r\n\r\n").unwrap();
}

#[test]
fn trailers_and_early_hints_pass() {
    let echo = Echo::start();
    let gateway = Gateway::to(echo.address);
    let response = curl(&gateway).get("/early");
    assert!(response.heads().starts_with("HTTP/1.1 103 Early Hints\r\n"), "{response:?}");
    assert_eq!(response.status(), 200);
    let mut client = Client::connect(gateway.address()).unwrap();
    let head =
        "POST /trailers HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nTransfer-Encoding: chunked\r\n\r\n";
    client.send(format!("{head}3\r\nabc\r\n0\r\nX-Sum: 6\r\n\r\n").as_bytes()).unwrap();
    client.head_with("HTTP/1.1 200 OK\r\n").unwrap();
    let rest = client.until("\r\n\r\n").unwrap();
    assert!(
        rest.contains("abc") && rest.contains("X-Sum: 6") && rest.contains("Echo-Length: 3"),
        "{rest}"
    );
}

#[test]
fn a_response_that_is_cut_off_does_not_look_whole() {
    let (_echo, _gateway, mut client) = client();
    client.send(get("/abort/1000").as_bytes()).unwrap();
    assert!(client.response().is_err());
}

#[test]
fn the_service_learns_that_its_client_has_gone() {
    let (echo, _gateway, mut client) = client();
    client.send(get("/delay/60000").as_bytes()).unwrap();
    // The question itself has a connection too.
    until("the request to arrive", || echo.stat("connections") == 2);
    drop(client);
    until("the request to be given up", || echo.stat("connections") == 1);
}

#[test]
fn a_unix_socket_leads_there_too() {
    let folder = Folder::new();
    let socket = folder.path().join("echo.sock");
    let mut command = Command::new(echo());
    let _program = Program::start(command.arg("-unix").arg(&socket).stdout(Stdio::null()), &folder);
    until("the socket", || socket.exists());
    let upstream = format!("unix:{}", socket.display());
    let config = config_to(own_address());
    let (head, _) = config.split_once("upstreams:").unwrap();
    let gateway = Gateway::start(&format!("{head}upstreams: {{ it: [\"{upstream}\"] }}\n"));
    assert_eq!(curl(&gateway).get("/bytes/100000").body.len(), 100_000);
}

/// The promise of two engines with one set of rules: whatever the gateway lets through, the service
/// reads as the same one request.
#[test]
fn nothing_that_the_gateway_lets_through_is_read_otherwise() {
    let echo = Echo::start();
    let gateway = Gateway::to(echo.address);
    let (mut passed, mut refused) = (0, 0);
    for input in vectors() {
        let before = echo.stat("requests");
        let mut client = Client::connect(gateway.address()).unwrap();
        client.send(&input).unwrap();
        client.finish().unwrap();
        let responses = client.rest().unwrap();
        let arrived = echo.stat("requests") - before - 1;
        let shown = input.escape_ascii().to_string();
        let answered = responses.matches("\"method\":").count() as u64;
        if responses.contains("urn:titan:problem:") || answered == 0 {
            refused += 1;
            assert!(
                arrived <= 1,
                "{arrived} requests from one that was refused: {shown}\n{responses}"
            );
        } else {
            passed += 1;
            assert_eq!(arrived, answered, "{shown}\n{responses}");
        }
        let errors =
            responses.matches("HTTP/1.1 4").count() + responses.matches("HTTP/1.1 5").count();
        let problems = responses.matches("urn:titan:problem:").count();
        assert_eq!(errors, problems, "the service refused: {shown}\n{responses}");
    }
    assert!(passed > 100 && refused > 300, "{passed} passed, {refused} refused");
}

/// The inputs of all vectors for servers that are of a size to be sent by the hundred.
fn vectors() -> Vec<Vec<u8>> {
    let files = fs::read_dir(repository().join("conformance/http1")).unwrap();
    let files = files.map(|file| file.unwrap().path());
    let mut inputs = Vec::new();
    for file in files.filter(|path| path.extension().is_some_and(|it| it == "json")) {
        let file: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        let vectors = file["vectors"].as_array().into_iter().flatten();
        let of_servers = vectors.filter(|vector| vector["role"] == "server");
        inputs.extend(of_servers.map(|vector| bytes(&vector["input"])));
    }
    inputs.retain(|input| input.len() < 1000);
    inputs
}

/// A text in which each character is a byte, or pieces and runs of such.
fn bytes(value: &Value) -> Vec<u8> {
    match value {
        Value::String(text) => text.chars().map(|c| u8::try_from(c).unwrap()).collect(),
        Value::Array(pieces) => pieces.iter().flat_map(bytes).collect(),
        run => {
            let times = usize::try_from(run["times"].as_u64().unwrap()).unwrap();
            bytes(&run["repeat"]).repeat(times)
        }
    }
}
