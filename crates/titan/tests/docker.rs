//! Labels of Docker's containers as a source: an engine that responds as one has (recorded with Docker 20.10, version 1.41 of its
//! interface), and one that responds as none should. `peers` has a real engine.

#![allow(
    clippy::tests_outside_test_module,
    clippy::unwrap_used,
    reason = "a test may stop at a surprise"
)]

#[expect(dead_code, reason = "other tests use the rest")]
mod titan;

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex};
use std::thread;
use titan::{Titan, output};
use titan_testkit::waits_until;

/// What an engine knows, and how it responds.
#[derive(Default)]
struct Known {
    /// The containers, and whether each is ready.
    containers: BTreeMap<String, (Value, bool)>,
    manner: Manner,
    /// Who hears of events.
    hearing: Vec<SyncSender<Vec<u8>>>,
    requests: Vec<String>,
}

/// How it responds to the question for containers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Manner {
    #[default]
    Well,
    /// With the beginning of what it should.
    Truncated,
    /// With a body that does not end.
    Endless,
    /// With more containers than anyone has.
    Crowd,
    /// With this status, and a message.
    Refusing(u16),
    /// Not at all.
    Silent,
}

/// Events that nobody has read yet.
const MAX_EVENTS: usize = 64;

/// An engine of Docker.
struct Engine {
    /// As the source names it.
    endpoint: String,
    known: Arc<Mutex<Known>>,
    folder: Option<PathBuf>,
}

impl Engine {
    /// One at a Unix socket of its own.
    fn start() -> Engine {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("titan-docker-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        let socket = folder.join("docker.sock");
        let endpoint = format!("unix:{}", socket.display());
        let engine = Engine { endpoint, known: Arc::default(), folder: Some(folder) };
        engine.listen(&socket);
        engine
    }

    fn listen(&self, socket: &Path) {
        let (listener, known) = (UnixListener::bind(socket).unwrap(), Arc::clone(&self.known));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, known) = (stream.unwrap(), Arc::clone(&known));
                thread::spawn(move || serve(stream.try_clone().unwrap(), stream, &known));
            }
        });
    }

    /// One behind TCP.
    fn start_with_tcp() -> Engine {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = listener.local_addr().unwrap().to_string();
        let engine = Engine { endpoint, known: Arc::default(), folder: None };
        let known = Arc::clone(&engine.known);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, known) = (stream.unwrap(), Arc::clone(&known));
                thread::spawn(move || serve(stream.try_clone().unwrap(), stream, &known));
            }
        });
        engine
    }

    /// Changes what it knows, and tells nobody.
    fn change(&self, change: impl FnOnce(&mut Known)) {
        change(&mut self.known.lock().unwrap());
    }

    /// Has those hear that who follow events.
    fn tell(&self, event: &str) {
        let piece = format!("{:x}\r\n{event}\r\n", event.len()).into_bytes();
        self.change(|known| known.hearing.retain(|it| it.try_send(piece.clone()).is_ok()));
    }

    fn run(&self, container: Value) {
        let id = container["Id"].as_str().unwrap().to_owned();
        self.change(|known| drop(known.containers.insert(id, (container, true))));
        self.tell("{\"status\":\"start\",\"Type\":\"container\",\"Action\":\"start\"}\n");
    }

    fn stop(&self, id: &str) {
        self.change(|known| drop(known.containers.remove(id)));
        self.tell("{\"status\":\"die\",\"Type\":\"container\",\"Action\":\"die\"}\n");
    }

    fn is_ready(&self, id: &str, is_ready: bool) {
        self.change(|known| known.containers.get_mut(id).unwrap().1 = is_ready);
        self.tell("{\"status\":\"health_status: healthy\",\"Type\":\"container\"}\n");
    }

    fn requests(&self, path: &str) -> Vec<String> {
        let known = self.known.lock().unwrap();
        known.requests.iter().filter(|it| it.contains(path)).cloned().collect()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.folder.iter().for_each(|it| drop(fs::remove_dir_all(it)));
    }
}

/// Responds to one request after the other on a connection.
fn serve(reader: impl Read, mut writer: impl Write, known: &Mutex<Known>) {
    let mut reader = BufReader::new(reader);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).unwrap_or(0) == 0 {
                return;
            }
        }
        if respond(&head, &mut writer, known).is_none() {
            return;
        }
    }
}

/// Nothing where the connection is of no use any more.
fn respond(head: &str, writer: &mut impl Write, known: &Mutex<Known>) -> Option<()> {
    let target = head.split(' ').nth(1)?.to_owned();
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    known.lock().unwrap().requests.push(head.to_owned());
    match path {
        "/_ping" => write_whole(writer, 200, "OK"),
        "/v1.41/containers/json" => {
            let manner = known.lock().unwrap().manner;
            let text = listed(&known.lock().unwrap(), query.contains("health"));
            match manner {
                Manner::Well => write_whole(writer, 200, &text),
                Manner::Truncated => write_whole(writer, 200, &text[..text.len() / 2]),
                Manner::Endless => write_endless(writer),
                Manner::Crowd => {
                    let others = (0..4_200).map(|it| other(it, "x"));
                    let all: Vec<_> = others.chain([text[1..text.len() - 1].to_owned()]).collect();
                    write_whole(writer, 200, &format!("[{}]", all.join(",")))
                }
                Manner::Refusing(status) => {
                    write_whole(writer, status, r#"{"message":"no\u001b[2J"}"#)
                }
                Manner::Silent => {
                    thread::park();
                    None
                }
            }
        }
        "/v1.41/events" => {
            let (send, receive) = mpsc::sync_channel(MAX_EVENTS);
            known.lock().unwrap().hearing.push(send);
            write_events(writer, &receive)
        }
        _ => write_whole(writer, 404, r#"{"message":"page not found"}"#),
    }
}

fn listed(known: &Known, ready_alone: bool) -> String {
    let wanted = known.containers.values().filter(|(_, is_ready)| *is_ready || !ready_alone);
    Value::from(wanted.map(|(container, _)| container.clone()).collect::<Vec<_>>()).to_string()
}

const FIELDS: &str = "Api-Version: 1.41\r\nContent-Type: application/json\r\nDocker-Experimental: false\r\nOstype: linux\r\n\
    Server: Docker/20.10.24+dfsg1 (linux)\r\nDate: Sat, 28 Nov 2026 20:57:28 GMT\r\n";

fn write_whole(writer: &mut impl Write, status: u16, body: &str) -> Option<()> {
    let length = body.len();
    write!(writer, "HTTP/1.1 {status} X\r\n{FIELDS}Content-Length: {length}\r\n\r\n{body}").ok()
}

fn write_endless(writer: &mut impl Write) -> Option<()> {
    write!(writer, "HTTP/1.1 200 OK\r\n{FIELDS}Transfer-Encoding: chunked\r\n\r\n").ok()?;
    let chunk = format!("{:x}\r\n{}\r\n", 65_536, " ".repeat(65_536));
    while writer.write_all(chunk.as_bytes()).is_ok() {}
    None
}

fn write_events(writer: &mut impl Write, receive: &Receiver<Vec<u8>>) -> Option<()> {
    write!(writer, "HTTP/1.1 200 OK\r\n{FIELDS}Transfer-Encoding: chunked\r\n\r\n").ok()?;
    for piece in receive {
        writer.write_all(&piece).ok()?;
    }
    writer.write_all(b"0\r\n\r\n").ok()
}

/// One of many containers, which want to be served and lead nowhere.
fn other(number: usize, label: &str) -> String {
    let labels = json!({ "titan.enable": "true", "other": label });
    json!({ "Id": format!("other{number}"), "Created": 9, "Labels": labels }).to_string()
}

/// A container in the network of its host, as an engine lists it.
fn container(name: &str, created: u32, labels: &[(&str, &str)]) -> Value {
    let pairs = labels.iter().map(|(key, value)| ((*key).to_owned(), json!(value)));
    let labels: serde_json::Map<_, _> =
        pairs.chain([("titan.enable".to_owned(), json!("true"))]).collect();
    json!({
        "Id": name, "Names": [format!("/{name}")], "Image": "echo", "ImageID": "sha256:7d58", "Command": "/echo",
        "Created": created, "Ports": [], "Labels": labels, "State": "running", "Status": "Up 1 second",
        "HostConfig": { "NetworkMode": "host" },
        "NetworkSettings": { "Networks": { "host": {
            "IPAMConfig": null, "Links": null, "Aliases": null, "NetworkID": "16a8", "EndpointID": "09ea", "Gateway": "",
            "IPAddress": "", "IPPrefixLen": 0, "IPv6Gateway": "", "GlobalIPv6Address": "", "GlobalIPv6PrefixLen": 0,
            "MacAddress": "", "DriverOpts": null,
        } } },
        "Mounts": [],
    })
}

/// The same, that serves at this port what is asked for below a path.
fn serving(name: &str, path: &str, port: &str) -> Value {
    let rule = format!("PathPrefix(`{path}`)");
    container(
        name,
        1,
        &[
            ("titan.http.routers.shop.rule", &rule),
            ("titan.http.services.shop.loadbalancer.server.port", port),
        ],
    )
}

/// The port of a server that responds with its name to everything.
fn service(name: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let length = name.len();
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{name}"
            );
        }
    });
    port
}

fn main(endpoint: &str, more: &str) -> String {
    format!(
        "workers: 1\nlisteners: [127.0.0.1:0]\nadmin: 127.0.0.1:0\nroutes:\n- {{ path: /own, respond: 204 }}\n\
         - {{ path: /followed, upstream: followed }}\nupstreams: {{ followed: 'feed:d/shop' }}\n\
         sources: {{ d: {{ docker: {{ endpoint: '{endpoint}', interval: 1s, timeout: 2s{more} }} }} }}\n"
    )
}

fn followed(name: &str, engine: &Engine) -> Titan {
    Titan::start(name, &main(&engine.endpoint, ""))
}

/// The status, and the body.
fn get(titan: &Titan, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(&titan.address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    (head[9..12].parse().unwrap(), body.to_owned())
}

fn status(titan: &Titan, path: &str) -> u16 {
    get(titan, path).0
}

fn serves(titan: &Titan, path: &str, name: &str) {
    waits_until(&format!("{name} serves {path}"), || get(titan, path) == (200, name.to_owned()));
}

/// What is told of the source.
fn told(titan: &Titan) -> Value {
    let (_, text) = titan.call("GET", "/sources", &[], "");
    serde_json::from_str::<Value>(&text).unwrap()["sources"][0].clone()
}

fn fails(titan: &Titan, words: &str) {
    waits_until(&format!("it fails: {words}"), || {
        told(titan)["failure"].as_str().is_some_and(|it| it.contains(words))
    });
}

fn works(titan: &Titan) {
    waits_until("it works", || told(titan)["state"] == "up");
}

const DELIVERED: &str = "what the source d has delivered is in force";

// field: source.docker, docker_source.endpoint
#[test]
fn containers_are_served_as_long_as_they_run() {
    let engine = Engine::start();
    let mut titan = followed("docker", &engine);
    works(&titan);
    assert_eq!(status(&titan, "/shop"), 404);
    engine.run(serving("one", "/shop", &service("one")));
    titan.waits_for(DELIVERED);
    serves(&titan, "/shop/x", "one");
    assert_eq!(told(&titan)["kind"], "docker");
    // Another one is an endpoint, and no other configuration.
    let revision = told(&titan)["revision"].clone();
    engine.run(serving("two", "/shop", &service("two")));
    serves(&titan, "/shop", "two");
    serves(&titan, "/shop", "one");
    engine.is_ready("one", false);
    engine.stop("two");
    waits_until("none is ready", || status(&titan, "/shop") == 503);
    assert_eq!(told(&titan)["revision"], revision);
    engine.is_ready("one", true);
    serves(&titan, "/shop", "one");
    serves(&titan, "/followed", "one");
    engine.stop("one");
    titan.waits_for(DELIVERED);
    assert_eq!([status(&titan, "/shop"), status(&titan, "/own")], [404, 204]);
    assert_eq!(status(&titan, "/followed"), 503);
    let asked = engine.requests("/_ping");
    assert!(
        asked[0].contains("host: docker\r\n") || asked[0].contains("Host: docker\r\n"),
        "{asked:?}"
    );
    let heard = engine.requests("/events");
    assert!(heard[0].contains("&since=1795899447 "), "{heard:?}");
}

#[test]
fn what_is_wrong_is_refused_alone_and_told() {
    let engine = Engine::start();
    let mut titan = followed("docker-wrong", &engine);
    engine.run(serving("one", "/shop", &service("one")));
    serves(&titan, "/shop", "one");
    engine.run(container("typo", 2, &[("titan.http.routers.x.rle", "Host(`x`)")]));
    let why = titan.waits_for("source://d/containers/typo is held back: ");
    assert!(why.contains("the label `titan.http.routers.x.rle`: a router has `rule`"), "{why}");
    // What is right of itself, and does not fit the files.
    let port = ("titan.http.services.x.loadbalancer.server.port", "1");
    engine.run(container("own", 3, &[("titan.http.routers.own.rule", "Path(`/own`)"), port]));
    titan.waits_for("source://d/routers/own is held back: ");
    let nobody = ("titan.http.routers.y.entrypoints", "nobody");
    engine.run(container("y", 4, &[("titan.http.routers.y.rule", "Path(`/y`)"), nobody, port]));
    titan.waits_for("source://d/routers/y is held back: ");
    assert_eq!([status(&titan, "/own"), status(&titan, "/y")], [204, 404]);
    serves(&titan, "/shop", "one");
    let held = told(&titan)["held_back"].to_string();
    for name in ["containers/typo", "routers/own", "routers/y"] {
        assert!(held.contains(name), "{held}");
    }
    engine.stop("typo");
    titan.waits_for("source://d/containers/typo is not held back any more");
}

#[test]
fn labels_read_nothing_of_this_machine() {
    let engine = Engine::start();
    let mut titan = followed("docker-literal", &engine);
    let labels = [
        ("titan.http.routers.x.rule", "Path(`/x`) && Header(`X-A`, `${PATH}${file:/etc/passwd}`)"),
        ("titan.http.services.x.loadbalancer.server.port", &service("x")),
    ];
    engine.run(container("x", 1, &labels));
    titan.waits_for(DELIVERED);
    assert_eq!(told(&titan)["held_back"], json!([]));
    let mut stream = TcpStream::connect(&titan.address).unwrap();
    let value = "${PATH}${file:/etc/passwd}";
    write!(stream, "GET /x HTTP/1.1\r\nHost: a\r\nX-A: {value}\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
}

// field: docker_source.timeout
#[test]
fn an_engine_that_responds_as_none_should_changes_nothing() {
    let engine = Engine::start();
    engine.run(serving("one", "/shop", &service("one")));
    let titan = followed("docker-hostile", &engine);
    serves(&titan, "/shop", "one");
    for (manner, words) in [
        (Manner::Truncated, "its response is not that of Docker"),
        (Manner::Endless, "its response is not that of Docker: it is no list of objects"),
        (Manner::Refusing(500), "it responds with 500: no[2J"),
        (
            Manner::Refusing(403),
            "a proxy has to let GET `/_ping`, `/containers/json` and `/events` through",
        ),
        (Manner::Silent, "no response within 2s"),
    ] {
        engine.change(|known| known.manner = manner);
        fails(&titan, words);
        assert_eq!(get(&titan, "/shop"), (200, "one".to_owned()), "{manner:?}");
        engine.change(|known| known.manner = Manner::Well);
        works(&titan);
    }
}

#[test]
fn of_too_many_containers_the_oldest_are_served() {
    let engine = Engine::start();
    engine.run(serving("one", "/shop", &service("one")));
    let mut titan = followed("docker-crowd", &engine);
    serves(&titan, "/shop", "one");
    // 4,200 younger ones.
    engine.change(|known| known.manner = Manner::Crowd);
    engine.tell("start");
    titan.waits_for("at most 4096 containers with `titan.enable` are taken, and so many are older");
    works(&titan);
    engine.run(serving("two", "/shop", &service("two")));
    serves(&titan, "/shop", "two");
}

// field: docker_source.interval
#[test]
fn events_are_no_more_than_a_reason_to_look() {
    let engine = Engine::start();
    let mut titan = followed("docker-events", &engine);
    works(&titan);
    // Nothing is told of it.
    let one = serving("one", "/shop", &service("one"));
    engine.change(|known| drop(known.containers.insert("one".to_owned(), (one, true))));
    serves(&titan, "/shop", "one");
    // Something is told that is over, and no JSON.
    engine.tell("{\"status\":\"die\",\"id\":\"one\",\"Ty");
    engine.tell("<html>\n{\"status\":\"destroy\",\"id\":\"one\"}\n\n");
    let looks = engine.requests("/containers/json").len();
    waits_until("it looks", || engine.requests("/containers/json").len() > looks);
    serves(&titan, "/shop", "one");
    // They end.
    engine.change(|known| known.hearing.clear());
    let why = titan.waits_for("the source d cannot be asked, and what is in force of it stays: ");
    assert!(why.ends_with("docker.sock: it has ended its events"), "{why}");
    works(&titan);
    engine.stop("one");
    waits_until("it is gone", || status(&titan, "/shop") == 404);
}

/// Engines tell of a change before their list has it.
#[test]
fn a_list_that_changes_after_the_event_is_seen() {
    let engine = Engine::start();
    let hourly = main(&engine.endpoint, "").replace("interval: 1s", "interval: 1h");
    let titan = Titan::start("docker-late", &hourly);
    works(&titan);
    waits_until("it hears", || !engine.known.lock().unwrap().hearing.is_empty());
    let asked = || engine.requests("/containers/json").len();
    let before = asked();
    engine.tell("start");
    waits_until("it looks", || asked() >= before + 2);
    let one = serving("one", "/shop", &service("one"));
    engine.change(|known| drop(known.containers.insert("one".to_owned(), (one, true))));
    serves(&titan, "/shop", "one");
}

#[test]
fn a_start_without_docker_serves_what_is_kept() {
    let state = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("docker-kept");
    let _ = fs::remove_dir_all(&state);
    let engine = Engine::start();
    engine.run(serving("one", "/shop", &service("one")));
    let text = format!("state: '{}'\n{}", state.display(), main(&engine.endpoint, ""));
    let titan = Titan::start("docker-kept", &text);
    serves(&titan, "/shop", "one");
    for (file, word) in [("endpoints/d.json", "d/shop"), ("sources/d.json", "routers/shop")] {
        let file = state.join(file);
        waits_until("it is kept", || fs::read_to_string(&file).is_ok_and(|it| it.contains(word)));
    }
    drop(titan);
    let folder = engine.folder.clone().unwrap();
    fs::rename(folder.join("docker.sock"), folder.join("elsewhere")).unwrap();
    let titan = Titan::start("docker-kept", &text);
    assert_eq!(
        [get(&titan, "/shop"), get(&titan, "/followed")],
        [(200, "one".to_owned()), (200, "one".to_owned())]
    );
    fails(&titan, "docker.sock: there is no such socket: start Docker");
    engine.change(|known| known.containers.clear());
    fs::rename(folder.join("elsewhere"), folder.join("docker.sock")).unwrap();
    // What is gone since is known to be gone.
    waits_until("it is gone", || status(&titan, "/shop") == 404);
    assert_eq!(status(&titan, "/followed"), 503);
}

// field: docker_source.network
#[test]
fn a_network_may_be_said_once_for_all() {
    let engine = Engine::start();
    let mut both = serving("one", "/shop", &service("one"));
    both["NetworkSettings"]["Networks"]["other"] = json!({ "IPAddress": "127.0.0.2" });
    engine.run(both);
    let mut titan = followed("docker-network", &engine);
    titan.waits_for(
        "source://d/containers/one is held back: it is in several networks (host, other)",
    );
    let titan = Titan::start("docker-network", &main(&engine.endpoint, ", network: host"));
    serves(&titan, "/shop", "one");
}

// field: docker_source.tls
#[test]
fn an_engine_is_asked_over_tls() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("docker-tls");
    let _ = fs::remove_dir_all(&folder);
    let at = folder.to_str().unwrap();
    let (code, said, _) = output(["cert", "--out", at]);
    assert_eq!(code, Some(0), "{said}");
    let engine = Engine::start_with_tcp();
    let mut reached = serving("one", "/shop", &service("one"));
    reached["NetworkSettings"]["Networks"] = json!({ "web": { "IPAddress": "127.0.0.1" } });
    engine.run(reached);
    engine.run(container("two", 2, &[("titan.http.services.x.loadbalancer.server.port", "1")]));
    let server = format!(
        "workers: 1\nadmin: 127.0.0.1:0\nroutes: {{ upstream: engine }}\nupstreams: {{ engine: '{}' }}\nlisteners:\n\
         - address: 127.0.0.1:0\n  tls: {{ certificates: {{ cert: {at}/localhost.pem, key: {at}/localhost.key }} }}\n",
        engine.endpoint
    );
    let mut server = Titan::launch("docker-tls-server", &server);
    let endpoint = format!("https://{}", server.next_output("listening on https://"));
    let doubting = Titan::start("docker-tls", &main(&endpoint, ""));
    fails(&doubting, "certificate");
    let with = format!(", tls: {{ ca: {at}/ca.pem }}");
    let mut titan = Titan::start("docker-tls", &main(&endpoint, &with));
    titan.waits_for("source://d/containers/two is held back: it has the network of its host");
    serves(&titan, "/shop", "one");
}
