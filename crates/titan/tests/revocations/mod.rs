//! Revoked tokens at the admin interface.

use crate::titan::{Titan, config, output};
use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rustix::process::Signal;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

const SECRET: &str = "forty bytes that nobody but us can guess";

/// A file that does not exist yet, and a gateway of two workers that remembers there what is revoked.
fn remembering(name: &str, more: &str) -> (PathBuf, String) {
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("revocations-{name}"));
    let _ = fs::remove_file(&file);
    let text = format!(
        "workers: 2\nlisteners: [127.0.0.1:0]\nadmin: 127.0.0.1:0\nroutes: [{{ respond: 200 }}]\napply: [p]\n\
         policies: {{ p: {{ jwt: {{ providers: {{ algorithms: HS256, keys: {{ secret: {SECRET} }} }} }} }} }}\n\
         jwt_revocations: {{ file: revocations-{name}{more} }}\n"
    );
    (file, text)
}

/// In seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// In an hour.
fn later() -> u64 {
    now() + 3600
}

fn token(name: &str) -> String {
    token_until(name, later())
}

fn token_until(name: &str, ends: u64) -> String {
    let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
    let claims = format!("{{\"jti\":\"{name}\",\"exp\":{ends}}}");
    let signed = format!("{}.{}", part("{\"alg\":\"HS256\"}"), part(&claims));
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes()), signed.as_bytes());
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(tag))
}

/// Asks the admin interface: status and body.
fn admin(titan: &Titan, method: &str, target: &str, body: &str) -> (u16, String) {
    titan.call(method, target, &["Content-Type: application/json"], body)
}

fn revokes(titan: &Titan, name: &str) -> (u16, String) {
    let body = format!("{{\"jti\":\"{name}\",\"exp\":{}}}", later());
    admin(titan, "POST", "/jwt/revocations", &body)
}

/// A client with a connection that stays.
struct Client(BufReader<TcpStream>);

impl Client {
    fn connects(titan: &Titan) -> Client {
        Client(BufReader::new(TcpStream::connect(&titan.address).unwrap()))
    }

    /// The status of what it gets with that token.
    fn shows(&mut self, token: &str) -> u16 {
        write!(
            self.0.get_mut(),
            "GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\r\n"
        )
        .unwrap();
        let (mut status, mut length) = (None, 0);
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).unwrap();
            if line == "\r\n" {
                break;
            }
            status = status.or_else(|| line.get(9..12)?.parse().ok());
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        self.0.read_exact(&mut vec![0; length]).unwrap();
        status.unwrap()
    }
}

// field: file.jwt_revocations, jwt_revocations.file
#[test]
fn a_token_that_is_revoked_stays_so_after_the_process_was_killed() {
    let (file, text) = remembering("killed", "");
    let mut titan = Titan::start("killed", &text);
    let (bad, good) = (token("bad"), token("good"));
    // The kernel deals connections out: each worker has some, and remembers both tokens.
    let mut clients: Vec<Client> = (0..24).map(|_| Client::connects(&titan)).collect();
    for client in &mut clients {
        assert_eq!([client.shows(&bad), client.shows(&good), client.shows(&bad)], [200; 3]);
    }
    assert_eq!(revokes(&titan, "bad").0, 201);
    for client in &mut clients {
        assert_eq!((client.shows(&bad), client.shows(&good)), (401, 200));
    }
    let (status, metrics) = admin(&titan, "GET", "/metrics", "");
    assert_eq!(status, 200);
    // Two workers have checked two tokens each.
    for line in [
        "titan_jwt_revocations 1\n",
        "titan_jwt_refused_total{policy=\"p\",reason=\"revoked\"} 24\n",
        "titan_jwt_cache_misses_total{policy=\"p\"} 4\n",
    ] {
        assert!(metrics.contains(line), "{metrics}");
    }
    drop(clients);
    titan.signal(Signal::KILL);
    assert_eq!(titan.exit_code(), None);
    // What a crash of the machine leaves of a line that was never acknowledged.
    fs::OpenOptions::new().append(true).open(&file).unwrap().write_all(b"0123456789ab").unwrap();
    let titan = Titan::start("killed", &text);
    let mut client = Client::connects(&titan);
    assert_eq!((client.shows(&bad), client.shows(&good)), (401, 200));
    let (_, list) = admin(&titan, "GET", "/jwt/revocations", "");
    assert!(list.contains("\"jti\":\"bad\"") && list.contains("\"count\":1"), "{list}");
    assert_eq!(admin(&titan, "DELETE", "/jwt/revocations/1", "").0, 204);
    assert_eq!(client.shows(&bad), 200);
}

#[test]
fn a_token_that_is_valid_only_by_its_leeway_can_be_revoked() {
    let (_file, text) = remembering("leeway", "");
    // As much leeway as there can be.
    let text = text.replace("jwt: { providers", "jwt: { leeway: 5m, providers");
    let titan = Titan::start("leeway", &text);
    let ends = now() - 1;
    let (mut client, token) = (Client::connects(&titan), token_until("late", ends));
    assert_eq!(client.shows(&token), 200);
    let body = format!("{{\"jti\":\"late\",\"exp\":{ends}}}");
    assert_eq!(admin(&titan, "POST", "/jwt/revocations", &body).0, 201);
    assert_eq!(client.shows(&token), 401);
}

// field: jwt_revocations.capacity
#[test]
fn there_are_as_many_entries_as_configured() {
    let (_file, text) = remembering("full", ", capacity: 2");
    let titan = Titan::start("full", &text);
    let statuses = ["a", "b", "c", "a"].map(|name| revokes(&titan, name).0);
    assert_eq!(statuses, [201, 201, 409, 200]);
    let mut client = Client::connects(&titan);
    assert_eq!(["a", "b", "c"].map(|name| client.shows(&token(name))), [401, 401, 200]);
}

#[test]
fn a_file_that_cannot_be_trusted_or_is_in_use_keeps_the_gateway_from_starting() {
    let (file, text) = remembering("refused", "");
    let written = config("refused", &text);
    let written = written.to_str().unwrap();
    assert_eq!(output(["check", written]).0, Some(0));
    assert!(!file.exists(), "a check has made it");
    let titan = Titan::start("refused", &text);
    revokes(&titan, "a");
    revokes(&titan, "b");
    assert_eq!(output(["check", written]).0, Some(0), "a check does not need it alone");
    let (code, out, err) = output(["--config", written]);
    assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
    assert!(err.starts_with("error: another process uses "), "{err}");
    drop(titan);
    let lines = fs::read_to_string(&file).unwrap();
    fs::write(&file, lines.replace("\"jti\":\"a\"", "\"jti\":\"x\"")).unwrap();
    for arguments in [["--config", written], ["check", written]] {
        let (code, _, err) = output(arguments);
        assert_eq!(code, Some(2), "{err}");
        let place = format!("error: {}:2: the line is damaged; ", file.display());
        assert!(err.starts_with(&place), "{err}");
    }
}

#[test]
fn what_is_revoked_stays_so_in_an_upgrade_and_in_one_that_fails() {
    let (_, text) = remembering("upgrade", "");
    let mut titan = Titan::start("revocations-upgrade", &text);
    assert_eq!(revokes(&titan, "before").0, 201);
    // The new process finds that out when the old one has closed its own file.
    fs::write(&titan.file, text.replace("file: revocations-upgrade", "file: /nowhere/x")).unwrap();
    titan.signal(Signal::USR2);
    let told = titan.waits_for("this process goes on: ");
    assert!(told.contains("its directory does not exist"), "{told}");
    assert_eq!(revokes(&titan, "between").0, 201);
    fs::write(&titan.file, text).unwrap();
    titan.upgrades();
    assert_eq!(revokes(&titan, "after").0, 201);
    for (name, status) in [("before", 401), ("between", 401), ("after", 401), ("never", 200)] {
        assert_eq!(Client::connects(&titan).shows(&token(name)), status, "{name}");
    }
    titan.signal(Signal::TERM);
    titan.ends();
}
