//! Consul as a source of documents and endpoints: an agent that responds as Consul's documentation says, and fails when it is told to.
//! Consul itself is asked by `make consul`.

#![allow(
    clippy::tests_outside_test_module,
    clippy::unwrap_used,
    reason = "a test may stop at a surprise"
)]

#[expect(dead_code, reason = "other tests use the rest")]
mod titan;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use titan::{Titan, output};
use titan_testkit::waits_until;

/// What an agent knows.
#[derive(Default)]
struct Known {
    index: u64,
    /// The text by key.
    keys: BTreeMap<String, String>,
    /// Where instances are, by service.
    services: BTreeMap<String, Vec<Value>>,
    /// What it responds with in place of that: status and fields.
    fault: Option<(u16, &'static str)>,
    /// The heads of requests.
    requests: Vec<String>,
}

/// An agent of Consul.
struct Agent {
    address: String,
    known: Arc<(Mutex<Known>, Condvar)>,
}

impl Agent {
    fn start() -> Agent {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let known = Arc::new((Mutex::new(Known { index: 10, ..Known::default() }), Condvar::new()));
        let agent = Agent { address, known: Arc::clone(&known) };
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, known) = (stream.unwrap(), Arc::clone(&known));
                thread::spawn(move || serve(stream, &known));
            }
        });
        agent
    }

    /// Changes what it knows, and wakes queries that wait.
    fn change(&self, change: impl FnOnce(&mut Known)) {
        let (known, changed) = &*self.known;
        let mut known = known.lock().unwrap();
        known.index += 1;
        change(&mut known);
        changed.notify_all();
    }

    fn put(&self, key: &str, text: &str) {
        self.change(|known| drop(known.keys.insert(key.to_owned(), text.to_owned())));
    }

    fn register(&self, service: &str, instances: Vec<Value>) {
        self.change(|known| drop(known.services.insert(service.to_owned(), instances)));
    }

    fn requests(&self) -> Vec<String> {
        self.known.0.lock().unwrap().requests.clone()
    }

    /// A main file with a source there.
    fn main(&self, more: &str) -> String {
        main(&format!("'http://{}'", self.address), more)
    }
}

fn main(endpoints: &str, more: &str) -> String {
    format!(
        "workers: 1\nlisteners: [127.0.0.1:0]\nadmin: 127.0.0.1:0\nroutes:\n- {{ path: /own, respond: 204 }}\n\
         - {{ path: /shop, upstream: shop }}\nupstreams: {{ shop: 'feed:c/shop' }}\n\
         sources: {{ c: {{ consul: {{ endpoints: [{endpoints}], interval: 1s, timeout: 1s, {more} }} }} }}\n"
    )
}

/// Responds to one request after the other on a connection.
fn serve(stream: TcpStream, known: &(Mutex<Known>, Condvar)) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head).unwrap_or(0) == 0 {
                return;
            }
        }
        let response = respond(head, known);
        if reader.get_mut().write_all(response.as_bytes()).is_err() {
            return;
        }
    }
}

/// A blocking query: it waits while the index is that of the request.
fn respond(head: String, (known, changed): &(Mutex<Known>, Condvar)) -> String {
    let target = head.split(' ').nth(1).unwrap_or_default().to_owned();
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let parameter = |name: &str| {
        let mut all = query.split('&').filter_map(|it| it.split_once('='));
        all.find(|(key, _)| *key == name).map_or("", |(_, value)| value)
    };
    let index: u64 = parameter("index").parse().unwrap();
    let wait: u64 = parameter("wait").strip_suffix("ms").unwrap().parse().unwrap();
    let deadline = Instant::now() + Duration::from_millis(wait);
    let mut known = known.lock().unwrap();
    known.requests.push(head);
    while known.fault.is_none() && index != 0 && known.index <= index {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        known = changed.wait_timeout(known, left).unwrap().0;
    }
    let (status, fields) = known.fault.unwrap_or((200, ""));
    let body = body(path, parameter("filter"), &known);
    let (status, body) = match body {
        Some(body) if status == 200 => (200, body),
        Some(_) => (status, String::new()),
        None => (if status == 200 { 404 } else { status }, String::new()),
    };
    format!(
        "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nX-Consul-Index: {}\r\n{fields}Content-Length: {}\r\n\r\n{body}",
        known.index,
        body.len()
    )
}

fn body(path: &str, filter: &str, known: &Known) -> Option<String> {
    if let Some(prefix) = path.strip_prefix("/v1/kv/") {
        let keys = known.keys.iter().filter(|(key, _)| key.starts_with(prefix));
        let keys: Vec<_> = keys
            .map(|(key, text)| json!({ "LockIndex": 0, "Key": key, "Flags": 0, "Value": STANDARD.encode(text) }))
            .collect();
        return (!keys.is_empty()).then(|| Value::from(keys).to_string());
    }
    let service = path.strip_prefix("/v1/health/service/").unwrap();
    let mut instances = known.services.get(service).cloned().unwrap_or_default();
    let filter = filter.replace("%20", " ").replace("%22", "\"");
    for part in filter.split(" and ").filter(|it| !it.is_empty()) {
        let tag: Value = part.strip_suffix(" in Service.Tags").unwrap().parse().unwrap();
        instances.retain(|it| it["Service"]["Tags"].as_array().unwrap().contains(&tag));
    }
    Some(Value::from(instances).to_string())
}

fn instance(address: &str) -> Value {
    let (ip, port) = address.rsplit_once(':').unwrap();
    let port: u16 = port.parse().unwrap();
    json!({ "Node": { "Node": "n", "Address": ip }, "Service": { "ID": "a", "Address": "", "Port": port, "Weights": { "Passing": 1 } } })
}

/// A server that responds with 200 to everything.
fn service() -> String {
    service_with(200)
}

/// A server that responds with that to everything.
fn service_with(status: u16) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let head =
                format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            let _ = stream.write_all(head.as_bytes());
        }
    });
    address
}

fn route(path: &str, status: u16) -> String {
    format!("routes:\n- {{ path: {path}, respond: {status} }}\n")
}

fn status(titan: &Titan, path: &str) -> u16 {
    let mut stream = TcpStream::connect(&titan.address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response[9..12].parse().unwrap()
}

const DELIVERED: &str = "what the source c has delivered is in force";
const FAILED: &str = "the source c cannot be asked, and what is in force of it stays: ";

// field: source.consul, consul_source.endpoints, consul_source.prefix, consul_source.token
#[test]
fn keys_are_served_and_followed() {
    let agent = Agent::start();
    agent.put("titan/a.yaml", &route("/a", 201));
    agent.put("other/a.yaml", &route("/other", 201));
    let mut titan = Titan::start("consul", &agent.main("prefix: titan/, token: of-titan"));
    titan.waits_for(DELIVERED);
    assert_eq!([status(&titan, "/a"), status(&titan, "/other")], [201, 404]);
    agent.put("titan/a.yaml", &route("/a", 202));
    titan.waits_for(DELIVERED);
    assert_eq!(status(&titan, "/a"), 202);
    agent.put("titan/bad.yaml", "rutes: []");
    titan.waits_for("source://c/bad.yaml is held back: ");
    agent.put("titan/no name", "x");
    titan.waits_for("source://c/no name is held back: what follows the prefix is no name");
    agent.change(|known| known.keys.clear());
    waits_until("all is gone", || status(&titan, "/a") == 404);
    let requests = agent.requests();
    assert!(
        requests[0].starts_with("GET /v1/kv/titan/?recurse=true&index=0&wait=1000ms "),
        "{}",
        requests[0]
    );
    assert!(requests[0].contains("x-consul-token: of-titan\r\n"), "{}", requests[0]);
    assert!(requests[1].contains("&index=12&"), "{}", requests[1]);
}

#[test]
fn an_index_that_goes_back_is_followed() {
    let agent = Agent::start();
    agent.change(|known| known.index = 1000);
    agent.put("titan/a.yaml", &route("/a", 201));
    let mut titan = Titan::start("consul-back", &agent.main("prefix: titan/"));
    titan.waits_for(DELIVERED);
    // A restored Consul: what it knows is older.
    agent.change(|known| {
        known.index = 5;
        known.keys.insert("titan/a.yaml".to_owned(), route("/a", 202));
    });
    titan.waits_for(DELIVERED);
    assert_eq!(status(&titan, "/a"), 202);
    let begins = |request: &&String| request.contains("&index=0&");
    waits_until("it starts over", || agent.requests().iter().filter(begins).count() == 2);
    agent.put("titan/a.yaml", &route("/a", 203));
    titan.waits_for(DELIVERED);
    assert_eq!(status(&titan, "/a"), 203);
}

// field: consul_source.services
#[test]
fn instances_of_a_service_are_endpoints() {
    let agent = Agent::start();
    let titan = Titan::start("consul-services", &agent.main("services: shop"));
    assert_eq!(status(&titan, "/shop"), 503);
    agent.register("shop", vec![instance(&service())]);
    waits_until("it is an endpoint", || status(&titan, "/shop") == 200);
    // Where nobody can be asked, what was told stays.
    agent.change(|known| known.fault = Some((500, "")));
    let (_, shown) = titan.call("GET", "/sources", &[], "");
    assert!(shown.contains(r#""kind":"consul""#), "{shown}");
    waits_until("it is told", || {
        titan.call("GET", "/sources", &[], "").1.contains("shop: it responds with 500")
    });
    assert_eq!(status(&titan, "/shop"), 200);
    agent.change(|known| known.fault = None);
    agent.register("shop", Vec::new());
    waits_until("it is none any more", || status(&titan, "/shop") == 503);
    let mut named = instance("127.0.0.1:1");
    named["Service"]["Address"] = "shop.internal".into();
    agent.register("shop", vec![named, instance(&service())]);
    waits_until("the other one is", || status(&titan, "/shop") == 200);
    let mut titan = titan;
    titan.waits_for("the source c: 1 instances of shop get no requests: they have no IP address");
}

// field: consul_service.name, consul_service.tags, consul_service.datacenter, consul_service.feed
#[test]
fn instances_may_be_those_with_certain_tags() {
    let agent = Agent::start();
    let with = |status: u16, tags: &[&str]| {
        let mut instance = instance(&service_with(status));
        instance["Service"]["Tags"] = json!(tags);
        instance
    };
    let instances =
        vec![with(201, &["v1"]), with(202, &["v1", "v2"]), with(203, &["v1", "v2", "eu"])];
    agent.register("front", instances);
    let services =
        "services: [{ name: front, tags: [v2, eu], feed: shop, datacenter: east }, front]";
    let titan = Titan::start("consul-tags", &agent.main(services));
    waits_until("it is an endpoint", || status(&titan, "/shop") == 203);
    (0..6).for_each(|_| assert_eq!(status(&titan, "/shop"), 203));
    let asked = agent.requests();
    let east: Vec<_> = asked.iter().filter(|it| it.contains("&dc=east&filter=")).collect();
    assert!(east[0].starts_with("GET /v1/health/service/front?passing=true&dc=east&"), "{east:?}");
    assert!(
        asked.iter().any(|it| it.starts_with("GET /v1/health/service/front?passing=true&index"))
    );
}

#[test]
fn a_start_without_consul_serves_the_instances_that_are_kept() {
    let state = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("consul-kept");
    let _ = fs::remove_dir_all(&state);
    let agent = Agent::start();
    agent.register("shop", vec![instance(&service())]);
    let main = format!("state: '{}'\n{}", state.display(), agent.main("services: [shop, other]"));
    let titan = Titan::start("consul-kept", &main);
    waits_until("it is an endpoint", || status(&titan, "/shop") == 200);
    let kept = state.join("endpoints/c.json");
    waits_until("it is kept", || fs::read_to_string(&kept).is_ok_and(|it| it.contains("c/other")));
    drop(titan);
    // The agent is asked in vain by the next process, which begins with what was there.
    agent.change(|known| known.fault = Some((500, "")));
    let titan = Titan::start("consul-kept", &main);
    assert_eq!(status(&titan, "/shop"), 200);
    agent.change(|known| known.fault = None);
    agent.register("shop", Vec::new());
    waits_until("Consul is believed again", || status(&titan, "/shop") == 503);
}

#[test]
fn what_a_token_may_not_read_is_not_taken_for_gone() {
    let agent = Agent::start();
    agent.put("titan/a.yaml", &route("/a", 201));
    let mut titan = Titan::start("consul-acl", &agent.main("prefix: titan/"));
    titan.waits_for(DELIVERED);
    agent.change(|known| {
        known.keys.clear();
        known.fault = Some((404, "X-Consul-Results-Filtered-By-ACLs: true\r\n"));
    });
    let why = titan.waits_for(FAILED);
    assert!(why.contains("keys: its token may not read all of this"), "{why}");
    assert_eq!(status(&titan, "/a"), 201);
    agent.change(|known| known.fault = Some((403, "")));
    waits_until("it is told", || {
        titan.call("GET", "/sources", &[], "").1.contains("it responds with 403")
    });
    agent.change(|known| known.fault = None);
    agent.put("titan/b.yaml", &route("/b", 202));
    titan.waits_for(DELIVERED);
    assert_eq!([status(&titan, "/a"), status(&titan, "/b")], [404, 202]);
}

// field: consul_source.interval, consul_source.timeout
#[test]
fn an_agent_that_is_silent_makes_room_for_another() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let agent = Agent::start();
    agent.put("titan/a.yaml", &route("/a", 201));
    let silent = format!("'http://{}'", silent.local_addr().unwrap());
    let mut titan = Titan::start("consul-silent", &main(&silent, "prefix: titan/"));
    let why = titan.waits_for(FAILED);
    assert!(why.contains("no response within 2.0625s"), "{why}");
    let both = format!("{silent}, 'http://{}'", agent.address);
    let mut titan = Titan::start("consul-silent", &main(&both, "prefix: titan/"));
    titan.waits_for(DELIVERED);
    assert_eq!(status(&titan, "/a"), 201);
    assert!(agent.requests()[0].contains("&wait=1000ms "), "{:?}", agent.requests());
}

// field: consul_source.tls
#[test]
fn an_agent_is_asked_over_tls() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("consul-tls");
    let _ = fs::remove_dir_all(&folder);
    let at = folder.to_str().unwrap();
    let (code, said, _) = output(["cert", "--out", at]);
    assert_eq!(code, Some(0), "{said}");
    let agent = Agent::start();
    agent.put("titan/a.yaml", &route("/a", 201));
    let server = format!(
        "workers: 1\nadmin: 127.0.0.1:0\nroutes: {{ upstream: agent }}\nupstreams: {{ agent: '{}' }}\nlisteners:\n\
         - address: 127.0.0.1:0\n  tls: {{ certificates: {{ cert: {at}/localhost.pem, key: {at}/localhost.key }} }}\n",
        agent.address
    );
    let mut server = Titan::launch("consul-tls-server", &server);
    let endpoint = format!("'https://{}'", server.next_output("listening on https://"));
    let mut titan = Titan::start("consul-tls", &main(&endpoint, "prefix: titan/"));
    let why = titan.waits_for(FAILED);
    assert!(why.contains("certificate"), "{why}");
    let trusting = main(&endpoint, &format!("prefix: titan/, tls: {{ ca: {at}/ca.pem }}"));
    fs::write(&titan.file, trusting).unwrap();
    titan.signal(Signal::HUP);
    titan.waits_for(DELIVERED);
    assert_eq!(status(&titan, "/a"), 201);
}
