//! Sources of the configuration, as the program follows them: what they deliver comes into force, and what does not fit stays out.

#![allow(
    clippy::tests_outside_test_module,
    clippy::unwrap_used,
    reason = "a test may stop at a surprise"
)]

#[expect(dead_code, reason = "other tests use the rest")]
mod titan;

use rustix::process::Signal;
use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;
use titan::{Titan, output};
use titan_testkit::waits_until;

/// What is served: status, fields and body by path.
type Served = HashMap<String, (u16, String, Vec<u8>)>;

/// A server whose documents a test changes.
struct Origin {
    address: String,
    served: Arc<Mutex<Served>>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Origin {
    fn start() -> Origin {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (served, requests) = (Arc::default(), Arc::default());
        let origin = Origin { address, served, requests };
        let (served, requests) = (Arc::clone(&origin.served), Arc::clone(&origin.requests));
        thread::spawn(move || {
            for stream in listener.incoming() {
                respond(stream.unwrap(), &served, &requests);
            }
        });
        origin
    }

    /// Serves that document from now on, with an entity tag of its own.
    fn serves(&self, path: &str, text: &str) {
        let tag = format!(
            "ETag: \"{:x}\"\r\n",
            text.len() * 31 + text.bytes().map(usize::from).sum::<usize>()
        );
        self.responds(path, (200, &tag), text.as_bytes());
    }

    fn responds(&self, path: &str, (status, fields): (u16, &str), body: &[u8]) {
        let response = (status, fields.to_owned(), body.to_owned());
        self.served.lock().unwrap().insert(path.to_owned(), response);
    }

    /// The requests so far, their heads whole.
    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    /// A main file with one source, whose document is at that path.
    fn main(&self, path: &str, more: &str) -> String {
        let url = format!("http://{}{path}", self.address);
        format!("{MAIN}sources: {{ shop: {{ http: {{ url: '{url}', interval: 1s{more} }} }} }}\n")
    }
}

fn respond(mut stream: TcpStream, served: &Mutex<Served>, requests: &Mutex<Vec<String>>) {
    let mut head = String::new();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).unwrap_or(0) == 0 {
            return;
        }
    }
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    let response = served.lock().unwrap().get(&path).cloned();
    let (mut status, fields, mut body) = response.unwrap_or((404, String::new(), Vec::new()));
    let tag = fields.strip_prefix("ETag: ").map(str::trim_end);
    if tag.is_some_and(|tag| head.to_lowercase().contains(&format!("if-none-match: {tag}"))) {
        (status, body) = (304, Vec::new());
    }
    requests.lock().unwrap().push(head);
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status} X\r\n{fields}Content-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    // One that reads too much of it may have gone.
    let _ = stream.write_all(&[head.as_bytes(), &body].concat());
}

const MAIN: &str = "workers: 1\nlisteners: [127.0.0.1:0]\nadmin: 127.0.0.1:0\nroutes: [{ path: /own, respond: 204 }]\n";

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

fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("sources-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

const DELIVERED: &str = "what the source shop has delivered is in force";

// field: file.sources, source.http, http_source.url, http_source.interval, http_source.headers
#[test]
fn what_a_source_delivers_is_served_and_followed() {
    let origin = Origin::start();
    origin.serves("/shop.yaml", &route("/a", 201));
    let mut titan =
        Titan::start("followed", &origin.main("/shop.yaml", ", headers: { x-team: shop }"));
    titan.waits_for(DELIVERED);
    assert_eq!(
        [status(&titan, "/own"), status(&titan, "/a"), status(&titan, "/b")],
        [204, 201, 404]
    );
    origin.serves("/shop.yaml", &route("/b", 202));
    titan.waits_for(DELIVERED);
    assert_eq!(
        [status(&titan, "/own"), status(&titan, "/a"), status(&titan, "/b")],
        [204, 404, 202]
    );
    let requests = origin.requests();
    assert!(requests[0].contains("x-team: shop\r\n"), "{}", requests[0]);
    assert!(!requests[0].contains("if-none-match"), "{}", requests[0]);
    assert!(requests[1].to_lowercase().contains("if-none-match: \""), "{}", requests[1]);
    let (_, history) = titan.call("GET", "/history", &[], "");
    assert!(history.contains(r#""author":{"source":"shop"}"#), "{history}");
    assert!(history.contains(r#""source":"delivery""#), "{history}");
}

#[test]
fn a_document_that_does_not_fit_is_held_back_until_it_does() {
    let origin = Origin::start();
    origin.serves("/shop.yaml", &route("/a", 201));
    let mut titan = Titan::start("held", &origin.main("/shop.yaml", ""));
    titan.waits_for(DELIVERED);
    origin.serves("/shop.yaml", "rutes: []\n");
    let told = titan.waits_for("source://shop/shop.yaml is held back: ");
    assert!(told.starts_with("1:1: unknown key `rutes`"), "{told}");
    assert_eq!(status(&titan, "/a"), 201);
    let (_, shown) = titan.call("GET", "/sources", &[], "");
    assert!(shown.contains(r#""document":"shop.yaml","reason":"1:1: unknown key"#), "{shown}");
    origin.serves("/shop.yaml", &route("/b", 202));
    titan.waits_for("source://shop/shop.yaml is not held back any more");
    titan.waits_for(DELIVERED);
    assert_eq!([status(&titan, "/a"), status(&titan, "/b")], [404, 202]);
}

// field: source.local_files
#[test]
fn documents_read_local_files_only_where_that_is_allowed() {
    let folder = folder("local");
    fs::write(folder.join("page"), "4711").unwrap();
    let origin = Origin::start();
    let text = format!("routes: {{ path: /page, files: {} }}\n", folder.display());
    origin.serves("/shop.yaml", &text);
    let main = origin.main("/shop.yaml", "");
    let mut titan = Titan::start("local", &main);
    let why = titan.waits_for("source://shop/shop.yaml is held back: ");
    assert!(why.contains("cannot use a file of this machine"), "{why}");
    assert_eq!(status(&titan, "/page"), 404);
    let main = main.replace("sources: { shop: {", "sources: { shop: { local_files: true,");
    fs::write(&titan.file, main).unwrap();
    titan.signal(Signal::HUP);
    titan.waits_for(DELIVERED);
    assert_eq!(status(&titan, "/page"), 200);
}

#[test]
fn a_start_without_the_source_serves_what_was_in_force() {
    let folder = folder("kept");
    let origin = Origin::start();
    origin.serves("/shop.yaml", &route("/a", 201));
    let main = origin.main("/shop.yaml", "") + &format!("state: {}\n", folder.display());
    let mut titan = Titan::start("kept", &main);
    titan.waits_for(DELIVERED);
    let kept = folder.join("sources/shop.json");
    waits_until("it is kept", || kept.exists());
    // It is in force before the next process serves, though the source has nothing for it.
    origin.responds("/shop.yaml", (503, "Retry-After: 1\r\n"), b"");
    // Until it knows that all is written, it refuses.
    waits_until("it upgrades", || titan.call("POST", "/upgrade", &[], "").0 == 200);
    titan.is_succeeded();
    assert_eq!(status(&titan, "/a"), 201);
    drop(titan);
    let mut titan = Titan::start("kept", &main);
    assert_eq!(status(&titan, "/a"), 201);
    let why =
        titan.waits_for("the source shop cannot be asked, and what is in force of it stays: ");
    assert!(why.contains("/shop.yaml: the server responds with 503"), "{why}");
    origin.serves("/shop.yaml", &route("/b", 202));
    titan.waits_for("the source shop can be asked again");
    titan.waits_for(DELIVERED);
    assert_eq!(status(&titan, "/b"), 202);
    let says_b = || fs::read_to_string(&kept).is_ok_and(|text| text.contains("/b"));
    waits_until("it is kept", says_b);
    drop(titan);
    // What somebody has changed is not used.
    let changed = fs::read_to_string(&kept).unwrap().replace("/b", "/c");
    fs::write(&kept, changed).unwrap();
    origin.responds("/shop.yaml", (503, ""), b"");
    let mut titan = Titan::start("kept", &main);
    let why = titan.waits_for("what was in force of the source shop cannot be used: ");
    assert!(why.contains("its digest does not fit"), "{why}");
    assert_eq!([status(&titan, "/own"), status(&titan, "/c")], [204, 404]);
}

#[test]
fn a_trial_holds_deliveries_back_until_it_ends() {
    let origin = Origin::start();
    origin.serves("/shop.yaml", &route("/a", 201));
    let main = origin.main("/shop.yaml", "");
    let mut titan = Titan::start("trial", &main);
    titan.waits_for(DELIVERED);
    let trial = main.replace("respond: 204", "respond: 205");
    let yaml = ["Content-Type: application/yaml"];
    let (code, said) = titan.call("PUT", "/config?confirm=10m", &yaml, &trial);
    assert_eq!(code, 200, "{said}");
    assert_eq!([status(&titan, "/own"), status(&titan, "/a")], [205, 201]);
    origin.serves("/shop.yaml", &route("/b", 202));
    let seen = origin.requests().len();
    waits_until("it is asked again", || origin.requests().len() > seen + 2);
    assert_eq!([status(&titan, "/a"), status(&titan, "/b")], [201, 404]);
    let (code, said) = titan.call("POST", "/confirm", &[], "");
    assert_eq!(code, 200, "{said}");
    titan.waits_for(DELIVERED);
    assert_eq!(
        [status(&titan, "/own"), status(&titan, "/a"), status(&titan, "/b")],
        [205, 404, 202]
    );
}

#[test]
fn a_rollback_brings_back_what_was_delivered() {
    let origin = Origin::start();
    origin.serves("/shop.yaml", &route("/a", 201));
    let mut titan = Titan::start("rollback", &origin.main("/shop.yaml", ""));
    titan.waits_for(DELIVERED);
    origin.serves("/shop.yaml", &route("/b", 202));
    titan.waits_for(DELIVERED);
    let (code, said) = titan.call("POST", "/rollback", &[], "");
    assert_eq!(code, 200, "{said}");
    assert_eq!([status(&titan, "/a"), status(&titan, "/b")], [201, 404]);
    origin.serves("/shop.yaml", &route("/c", 203));
    titan.waits_for(DELIVERED);
    assert_eq!([status(&titan, "/a"), status(&titan, "/c")], [404, 203]);
}

// field: http_source.max_size, http_source.timeout
#[test]
fn what_a_server_sends_is_bounded() {
    let origin = Origin::start();
    let large = format!("{}{}", route("/a", 201), "#".repeat(8 << 10));
    origin.serves("/large.yaml", &large);
    let main = origin.main("/large.yaml", ", max_size: 4KiB");
    let mut titan = Titan::start("bounded", &main);
    let why = titan.waits_for("the source shop cannot be asked");
    assert!(why.contains("it is larger than 4096 bytes"), "{why}");
    // It accepts connections, and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let main = main.replace(&origin.address, &address).replace("max_size: 4KiB", "timeout: 50ms");
    let mut titan = Titan::start("bounded", &main);
    let why = titan.waits_for("the source shop cannot be asked");
    assert!(why.contains("no response within 50ms"), "{why}");
}

// field: http_source.tls
#[test]
fn a_source_is_asked_over_tls() {
    let folder = folder("tls");
    let at = folder.to_str().unwrap();
    let (code, said, _) = output(["cert", "--out", at]);
    assert_eq!(code, Some(0), "{said}");
    fs::write(folder.join("shop.yaml"), route("/a", 201)).unwrap();
    let server = format!(
        "workers: 1\nadmin: 127.0.0.1:0\nroutes: {{ files: {at} }}\nlisteners:\n- address: 127.0.0.1:0\n  tls: \
         {{ certificates: {{ cert: {at}/localhost.pem, key: {at}/localhost.key }} }}\n"
    );
    let mut server = Titan::launch("tls-server", &server);
    let address = server.next_output("listening on https://");
    let http = |tls: &str| {
        format!("{{ http: {{ url: 'https://{address}/shop.yaml', interval: 1s{tls} }} }}")
    };
    let trusting = http(&format!(", tls: {{ ca: {at}/ca.pem }}"));
    let main = format!("{MAIN}sources: {{ shop: {} }}\n", http(""));
    let mut titan = Titan::start("tls", &main);
    let why = titan.waits_for("the source shop cannot be asked");
    assert!(why.contains("certificate"), "{why}");
    fs::write(&titan.file, format!("{MAIN}sources: {{ shop: {trusting} }}\n")).unwrap();
    titan.signal(Signal::HUP);
    titan.waits_for(DELIVERED);
    assert_eq!(status(&titan, "/a"), 201);
}

#[test]
fn redirects_lead_to_no_other_server() {
    let (origin, other) = (Origin::start(), Origin::start());
    origin.serves("/v2.yaml", &route("/a", 201));
    other.serves("/v2.yaml", &route("/evil", 201));
    origin.responds("/shop.yaml", (302, "Location: /v2.yaml\r\n"), b"");
    let mut titan = Titan::start("redirects", &origin.main("/shop.yaml", ""));
    titan.waits_for(DELIVERED);
    assert_eq!(status(&titan, "/a"), 201);
    let away = format!("Location: http://{}/v2.yaml\r\n", other.address);
    origin.responds("/shop.yaml", (302, &away), b"");
    let why = titan.waits_for("the source shop cannot be asked");
    assert!(why.contains("it redirects to another server"), "{why}");
    assert!(other.requests().is_empty());
    assert_eq!([status(&titan, "/a"), status(&titan, "/evil")], [201, 404]);
}

/// Signs a file with the key in that directory; the time is written as minisign does, unless another one is given.
fn sign(folder: &Path, text: &str, comment: Option<&str>) -> Vec<u8> {
    let (file, key) = (folder.join("document"), folder.join("key"));
    fs::write(&file, text).unwrap();
    let mut command = Command::new("minisign");
    command.arg("-SH").arg("-m").arg(&file).arg("-s").arg(&key);
    command.args(comment.into_iter().flat_map(|comment| ["-t", comment]));
    let signed = command.output().expect("scripts/install-peers.sh installs minisign");
    assert!(signed.status.success(), "{}", String::from_utf8_lossy(&signed.stderr));
    fs::read(folder.join("document.minisig")).unwrap()
}

// field: http_source.public_key
#[test]
fn only_what_is_signed_is_taken_and_nothing_older() {
    let folder = folder("signed");
    let (public, secret) = (folder.join("key.pub"), folder.join("key"));
    let mut make = Command::new("minisign");
    make.args(["-GWf", "-p"]).arg(&public).arg("-s").arg(&secret);
    let made = make.output().expect("scripts/install-peers.sh installs minisign");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let origin = Origin::start();
    let serves = |text: &str, signature: &[u8]| {
        origin.responds("/shop.yaml.minisig", (200, ""), signature);
        origin.serves("/shop.yaml", text);
    };
    // What its comment says is signed, too.
    let (old, new) = (route("/old", 201), route("/new", 202));
    let signed_old = sign(&folder, &old, Some("timestamp:1000"));
    let signed_new = sign(&folder, &new, Some("timestamp:2000\tfile:x"));
    serves(&new, &signed_new);
    let key = format!(", public_key: '${{file:{}}}'", public.display());
    let state = format!("state: {}\n", folder.join("state").display());
    let main = origin.main("/shop.yaml", &key) + &state;
    let mut titan = Titan::start("signed", &main);
    titan.waits_for(DELIVERED);
    assert_eq!(status(&titan, "/new"), 202);
    let failed = "the source shop cannot be asked, and what is in force of it stays: ";
    let recovered = "the source shop can be asked again";
    let mut refuses = |text: &str, signature: &[u8], wanted: &str| {
        serves(text, signature);
        let why = titan.waits_for(failed);
        assert!(why.contains(wanted), "{wanted}: {why}");
        serves(&new, &signed_new);
        titan.waits_for(recovered);
    };
    refuses(&old, &signed_new, "its signature is not that of `public_key`");
    refuses(&old, &signed_old, "it was signed 1000 s before the document in force");
    refuses(&old, b"untrusted comment: x\n", "its signature cannot be read");
    refuses(&old, &sign(&folder, &old, Some("whenever")), "its trusted comment says no time");
    origin.responds("/shop.yaml.minisig", (404, ""), b"");
    origin.serves("/shop.yaml", &old);
    let why = titan.waits_for(failed);
    assert!(why.contains("its signature: the server responds with 404"), "{why}");
    assert_eq!([status(&titan, "/new"), status(&titan, "/old")], [202, 404]);
    // The next process knows how old the document in force is.
    drop(titan);
    serves(&old, &signed_old);
    let mut titan = Titan::start("signed", &main);
    let why = titan.waits_for(failed);
    assert!(why.contains("it was signed 1000 s before"), "{why}");
    assert_eq!([status(&titan, "/new"), status(&titan, "/old")], [202, 404]);
    // As minisign writes it.
    let now = route("/now", 203);
    serves(&now, &sign(&folder, &now, None));
    titan.waits_for(DELIVERED);
    assert_eq!(status(&titan, "/now"), 203);
}

#[test]
fn a_check_asks_no_source() {
    let origin = Origin::start();
    let file = titan::config("checked", &origin.main("/shop.yaml", ""));
    let (code, said, complaints) = output(["check".as_ref(), file.as_os_str()]);
    assert_eq!((code, complaints.as_str()), (Some(0), ""), "{said}");
    assert!(origin.requests().is_empty());
}
