//! curl as a client.

use crate::gateway::{Gateway, config_to};
use crate::go;
use crate::nginx::Nginx;
use crate::place::Folder;
use crate::program::peer;
use serde_json::Value;
use std::fs::File;
use std::net::{Ipv6Addr, TcpListener};
use std::path::Path;
use std::process::{Command, Stdio};

/// A request that is being put together.
pub(crate) struct Request {
    command: Command,
    base: String,
    input: Stdio,
}

/// What came of it: the last response, if there were several.
#[derive(Debug)]
pub(crate) struct Curl {
    heads: String,
    pub(crate) body: Vec<u8>,
    /// The exit code.
    pub(crate) code: Option<i32>,
}

/// A request through `gateway`, which may take a minute.
pub(crate) fn curl(gateway: &Gateway) -> Request {
    to(&gateway.url(""))
}

pub(crate) fn to(base: &str) -> Request {
    let mut command = peer("curl");
    // First, or curl would read the user's own settings.
    command.args(["-q", "-sS", "--max-time", "60", "--noproxy", "*"]);
    Request { command, base: base.to_owned(), input: Stdio::null() }
}

impl Request {
    pub(crate) fn arg(mut self, argument: &str) -> Request {
        self.command.arg(argument);
        self
    }

    pub(crate) fn args<'a>(mut self, arguments: impl IntoIterator<Item = &'a str>) -> Request {
        self.command.args(arguments);
        self
    }

    /// Lets curl read this file as its standard input.
    pub(crate) fn input(self, file: &Path) -> Request {
        Request { input: File::open(file).unwrap().into(), ..self }
    }

    /// Sends it.
    pub(crate) fn get(mut self, path: &str) -> Curl {
        let folder = Folder::new();
        let heads = folder.path().join("heads");
        self.command.arg("-D").arg(&heads).arg(format!("{}{path}", self.base));
        let output = self.command.stdin(self.input).output().unwrap();
        let heads = std::fs::read_to_string(heads).unwrap_or_default();
        if heads.is_empty() {
            eprintln!("{:?}: {}", self.command, String::from_utf8_lossy(&output.stderr));
        }
        let is_head = self.command.get_args().any(|argument| argument == "-I");
        let body = if is_head { Vec::new() } else { output.stdout };
        Curl { heads, body, code: output.status.code() }
    }
}

impl Curl {
    /// All heads, those of interim responses before the last.
    pub(crate) fn heads(&self) -> &str {
        &self.heads
    }

    /// The head of the last response.
    fn head(&self) -> &str {
        let heads = self.heads.trim_end();
        heads.rsplit("\r\n\r\n").next().unwrap()
    }

    pub(crate) fn status(&self) -> u16 {
        let code = self.head().split(' ').nth(1);
        code.unwrap_or_else(|| panic!("no response: {self:?}")).parse().unwrap()
    }

    pub(crate) fn field(&self, name: &str) -> Option<String> {
        let mut fields = self.head().lines().filter_map(|line| line.split_once(": "));
        let found = fields.find(|(found, _)| found.eq_ignore_ascii_case(name))?;
        Some(found.1.to_owned())
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// What the judge behind the gateway saw of the request.
    pub(crate) fn seen(&self) -> Value {
        assert_eq!((self.status(), self.code), (200, Some(0)), "{self:?}");
        serde_json::from_slice(&self.body).unwrap()
    }
}

#[test]
fn each_version_gets_a_response_in_its_way() {
    let server = go::Server::start();
    let gateway = Gateway::to(server.address);
    for (version, protocol) in [("--http1.1", "HTTP/1.1"), ("--http1.0", "HTTP/1.0")] {
        let response = curl(&gateway).arg(version).get("/a");
        // A server responds with its own version (RFC 9112 section 2.3).
        assert!(response.head().starts_with("HTTP/1.1 200 OK"), "{protocol}: {response:?}");
        assert_eq!(response.seen()["Proto"], "HTTP/1.1", "the gateway speaks for itself");
    }
}

#[test]
fn an_upload_of_unknown_length_is_chunked_all_the_way() {
    let server = go::Server::start();
    let gateway = Gateway::to(server.address);
    let folder = Folder::new();
    let file = folder.write("source", vec![b'x'; 1_000_000]);
    let seen = curl(&gateway).args(["-T", "-"]).input(&file).get("/upload").seen();
    assert_eq!(seen["TransferEncoding"], serde_json::json!(["chunked"]));
    assert_eq!(seen["BodyLength"], 1_000_000);
}

#[test]
fn a_large_post_waits_for_100_continue_and_gets_it() {
    let server = go::Server::start();
    let gateway = Gateway::to(server.address);
    let folder = Folder::new();
    let file = folder.write("source", vec![b'x'; 2_000_000]);
    let data = format!("@{}", file.display());
    // Far longer than the test may take: the body is not sent without the interim response.
    let patient = ["--expect100-timeout", "50", "-H", "Expect: 100-continue"];
    let response = curl(&gateway).args(patient).args(["--data-binary", &data]).get("/post");
    assert!(response.heads.starts_with("HTTP/1.1 100 Continue\r\n"), "{}", response.heads);
    assert_eq!(response.seen()["BodyLength"], 2_000_000);
}

#[test]
fn the_gateway_responds_to_expectations_that_it_refuses() {
    let server = go::Server::start();
    let gateway = Gateway::start(&(config_to(server.address) + "limits: { body: 1KiB }\n"));
    let folder = Folder::new();
    let file = folder.write("source", vec![b'x'; 2_000_000]);
    let data = format!("@{}", file.display());
    for expect in ["Expect: 100-continue", "Expect:"] {
        let request = curl(&gateway).args(["--expect100-timeout", "50", "-H", expect]);
        let response = request.args(["--data-binary", &data]).get("/post");
        assert_eq!(response.status(), 413, "{expect}");
        assert!(
            response.text().contains("urn:titan:problem:body-too-large"),
            "{}",
            response.text()
        );
    }
}

#[test]
fn requests_one_after_the_other_share_a_connection() {
    let nginx = Nginx::start("location / { return 200 '$connection_requests\n'; }");
    // One worker, so that there is one pool to take a connection to nginx from.
    let config = config_to(nginx.address).replace("workers: 2", "workers: 1");
    let gateway = Gateway::start(&config);
    let (first, third) = (gateway.url("/first"), gateway.url("/third"));
    let format = ["-w", "%{num_connects}\n"];
    let request = curl(&gateway).args(format).arg(&first).args(["--next", "-q", "-sS"]);
    let request = request.args(format).args(["-d", "body"]).arg(&third).args(["--next", "-sS"]);
    let response = request.args(format).get("/fourth");
    assert_eq!(response.text(), "1\n1\n2\n0\n3\n0\n", "requests on nginx's side, connects on ours");
}

#[test]
fn the_other_kinds_of_listeners_serve_too() {
    let server = go::Server::start();
    let folder = Folder::new();
    let socket = folder.path().join("socket");
    let more = format!("listeners: [127.0.0.1:0, \"unix:{}\"]", socket.display());
    let config = config_to(server.address).replace("listeners: [127.0.0.1:0]", &more);
    let gateway = Gateway::start(&config);
    let response =
        to("http://any").args(["--unix-socket", socket.to_str().unwrap()]).get("/over-unix");
    assert_eq!(response.seen()["Target"], "/over-unix");
    assert_eq!(response.seen()["Host"], "any");
    assert_eq!(curl(&gateway).get("/over-tcp").seen()["Target"], "/over-tcp");
}

#[test]
fn ipv6_works_on_both_sides() {
    if TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_err() {
        eprintln!("not tested: this machine has no IPv6");
        return;
    }
    let server = go::Server::start();
    let config = config_to(server.address).replace("127.0.0.1:0", "\"[::1]:0\"");
    let inner = Gateway::start(&config);
    let config = config_to(inner.address()).replace("127.0.0.1:0", "\"[::1]:0\"");
    let outer = Gateway::start(&config);
    assert!(outer.address().is_ipv6());
    let seen = curl(&outer).get("/six").seen();
    assert_eq!(seen["Host"], outer.address().to_string());
    assert_eq!(seen["Header"]["X-Forwarded-For"][0], "::1");
    assert_eq!(seen["Header"]["Via"], serde_json::json!(["1.1 titan", "1.1 titan"]));
}

#[test]
fn paths_reach_the_upstream_in_one_form_or_not_at_all() {
    let server = go::Server::start();
    let gateway = Gateway::to(server.address);
    let resolved = [
        ("/a/../b", "/b"),
        ("/a/./b/", "/a/b/"),
        ("/a/%2e%2e/b", "/b"),
        ("/a/%7Eb", "/a/~b"),
        ("/a//b", "/a/b"),
        ("/a?x=../b", "/a?x=../b"),
        // Decoded once this is no dot segment, and no recipient may decode twice (RFC 3986 section 2.4).
        ("/a/%252e%252e/b", "/a/%252e%252e/b"),
    ];
    for (path, target) in resolved {
        let seen = curl(&gateway).arg("--path-as-is").get(path).seen();
        assert_eq!(seen["Target"], target, "{path}");
    }
    for path in ["/../../etc/passwd", "/a/%2e%2e%2fb", "/a%00b", "/a%5c..%5cb", "/%zz", "/a/..;/b"]
    {
        let response = curl(&gateway).arg("--path-as-is").get(path);
        assert_eq!(response.status(), 400, "{path}: {}", response.text());
    }
}

#[test]
fn unusual_fields_pass_or_are_refused_but_never_change() {
    let server = go::Server::start();
    let gateway = Gateway::to(server.address);
    let long = format!("X-Long: {}", "v".repeat(8000));
    let fields = ["X-Empty;", "X-Twice: 1", "X-Twice: 2", "x-lower: É, \"q, q\"", &long];
    let fields = fields.iter().flat_map(|field| ["-H", field]);
    let header = &curl(&gateway).args(fields).get("/").seen()["Header"];
    assert_eq!(header["X-Empty"][0], "");
    assert_eq!(header["X-Twice"], serde_json::json!(["1", "2"]));
    assert_eq!(header["X-Lower"][0], "É, \"q, q\"");
    assert_eq!(header["X-Long"][0].as_str().unwrap().len(), 8000);
    let refused = [
        (["-H", "X Y: space in the name"], 400),
        (["-H", "Host: a b"], 400),
        (["-H", "Content-Length: 5x"], 400),
        (["-H", "Transfer-Encoding: gzip"], 501),
        (["-H", "Expect: the-unexpected"], 417),
        (["-X", "CONNECT"], 400),
    ];
    for (arguments, status) in refused {
        let response = curl(&gateway).args(arguments).get("/");
        assert_eq!(response.status(), status, "{arguments:?}: {response:?}");
    }
}
