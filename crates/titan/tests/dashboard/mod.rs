//! What the dashboard calls, of the program.

use crate::admin::hash_of;
use crate::titan::{Titan, call, output};
use rcgen::{CertificateParams, KeyPair};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use titan_testkit::waits_until;

/// A gateway that responds itself, with these keys of its admin interface.
fn serving(admin: &str) -> String {
    format!(
        "workers: 1\nlisteners: [127.0.0.1:0]\nadmin: {{ address: 127.0.0.1:0{admin} }}\n\
         routes: [{{ name: all, respond: 200 }}]\n"
    )
}

fn serves(titan: &Titan) {
    let stream = TcpStream::connect(&titan.address).unwrap();
    assert_eq!(call(stream, "GET", "/", &[], "").0, 200);
}

/// What a call over the Unix socket responds.
fn shown(titan: &Titan, (method, target): (&str, &str), body: &Value) -> (u16, Value) {
    let fields = ["Content-Type: application/json"];
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let (status, text) = titan.call(method, target, &fields, &body);
    (status, serde_json::from_str(&text).unwrap())
}

/// The response to a request over TCP that closes its connection, as it comes.
fn responds(titan: &Titan, request: &str, fields: &[&str], body: &str) -> String {
    let mut stream = TcpStream::connect(titan.admin.as_ref().unwrap()).unwrap();
    let fields: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
    let length = body.len();
    let head = format!("{request} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{fields}");
    write!(stream, "{head}Content-Length: {length}\r\n\r\n{body}").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

// field: admin.dashboard
#[test]
fn a_browser_has_a_page_and_a_session_unless_that_is_off() {
    let token = format!(", tokens: {{ ops: {{ sha256: {}, rights: full }} }}", hash_of("all"));
    let titan = Titan::start("dashboard", &serving(&token));
    let index = responds(&titan, "GET /", &["Accept: text/html,*/*"], "");
    assert!(
        index.starts_with("HTTP/1.1 303 ") && index.contains("\r\nLocation: dashboard/\r\n"),
        "{index}"
    );
    let page = responds(&titan, "GET /dashboard/", &["Sec-Fetch-Site: cross-site"], "");
    assert!(page.starts_with("HTTP/1.1 200 ") && page.contains("<!doctype html>"), "{page}");
    assert!(page.contains("\r\nContent-Security-Policy: default-src 'none'; "), "{page}");
    let same = "Sec-Fetch-Site: same-origin";
    let json = "Content-Type: application/json";
    let signed = responds(&titan, "POST /session", &[same, json], "{\"token\":\"all\"}");
    let cookie = signed.lines().find_map(|line| line.strip_prefix("Set-Cookie: ")).unwrap();
    let cookie = format!("Cookie: {}", cookie.split(';').next().unwrap());
    let who: Value = serde_json::from_str(signed.lines().last().unwrap()).unwrap();
    let csrf = format!("X-CSRF-Token: {}", who["csrf"].as_str().unwrap());
    assert_eq!((who["user"].as_str(), who["rights"].as_str()), (Some("ops"), Some("full")));
    serves(&titan);
    let status = |request: &str, fields: &[&str]| {
        responds(&titan, request, fields, "")[9..12].parse::<u16>().unwrap()
    };
    assert_eq!(status("GET /figures/now", &[same]), 401);
    assert_eq!(status("GET /figures/now", &[same, &cookie]), 200);
    assert_eq!(status("POST /reload", &[same, &cookie]), 403);
    assert_eq!(status("POST /reload", &[same, &cookie, &csrf]), 200);
    fs::write(&titan.file, serving(&format!("{token}, dashboard: false"))).unwrap();
    assert_eq!(status("POST /reload", &[same, &cookie, &csrf]), 200);
    assert_eq!(status("GET /dashboard/", &[]), 404);
    assert_eq!(status("GET /", &["Accept: text/html"]), 200);
    assert_eq!(status("POST /session", &[same, json]), 404);
    assert_eq!(status("GET /figures/now", &[same, &cookie]), 401, "it has ended");
    let mut titan = titan;
    let said = titan.events_up_to_that(|line| line.contains("POST /reload: done"));
    assert!(said.contains(" POST /session: done (200): as ops"), "{said}");
    assert!(said.contains("caller=\"session ops from 127.0.0.1:"), "{said}");
}

// field: admin.trace_url
#[test]
fn the_page_is_told_where_traces_are_shown() {
    let url = "https://jaeger.example/trace/{trace_id}";
    let titan = Titan::start("traces", &serving(&format!(", trace_url: \"{url}\"")));
    assert_eq!(shown(&titan, ("GET", "/session"), &Value::Null).1["trace_url"], url);
    fs::write(&titan.file, serving("")).unwrap();
    assert_eq!(titan.call("POST", "/reload", &[], "").0, 200);
    assert_eq!(shown(&titan, ("GET", "/session"), &Value::Null).1["trace_url"], Value::Null);
}

#[test]
fn figures_are_read_as_they_come_until_the_gateway_drains() {
    let mut titan = Titan::start("figures", &serving(""));
    let mut stream = UnixStream::connect(&titan.socket).unwrap();
    write!(stream, "GET /figures/live HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    let mut now = || {
        lines.by_ref().find(|line| line == "event: now").unwrap();
        let data = lines.next().unwrap();
        serde_json::from_str::<Value>(data.strip_prefix("data: ").unwrap()).unwrap()
    };
    let first = now();
    serves(&titan);
    // The first sample may be the one that has the request.
    let rates = [now(), now()].map(|now| now["rate"].as_f64().unwrap_or_default());
    assert!(rates.into_iter().any(|rate| rate > 0.2), "{rates:?}");
    assert_eq!(first["version"], env!("CARGO_PKG_VERSION"));
    titan.signal(Signal::TERM);
    assert!(lines.last().is_some(), "it ends");
    titan.ends();
}

#[test]
fn a_request_is_explained_as_the_configuration_in_force_has_it() {
    let titan = Titan::start("explained", &serving(""));
    let request =
        json!({ "method": "GET", "url": "http://a.example/x", "headers": [["Accept", "*/*"]] });
    let (status, told) = shown(&titan, ("POST", "/explain"), &request);
    assert_eq!((status, &told["route"], &told["status"]), (200, &json!("all"), &json!(200)));
    assert_eq!(told["received"], json!([["Accept", "*/*"]]));
    let text = told["text"].as_str().unwrap().to_owned();
    let file = titan.file.to_str().unwrap();
    let asked = ["explain", "GET", "http://a.example/x", "-H", "Accept: */*", "-c", file];
    assert_eq!(output(asked), (Some(0), text, String::new()));
    let (code, out, _) = output([&asked[..], &["--json"]].concat());
    let printed: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, printed.get("text")), (Some(0), None));
    for (key, value) in printed.as_object().unwrap() {
        assert_eq!(told[key], *value, "{key}");
    }
    fs::write(&titan.file, serving("").replace("name: all", "name: none, path: /none")).unwrap();
    assert_eq!(titan.call("POST", "/reload", &[], "").0, 200);
    let (_, told) = shown(&titan, ("POST", "/explain"), &request);
    assert_eq!((&told["route"], &told["status"]), (&Value::Null, &json!(404)));
    for bad in [
        json!({ "method": "GET", "url": "x" }),
        json!({ "method": "GET", "url": "http://a/", "headers": [["A\r\nB", "c"]] }),
        json!({ "method": "GET", "url": "http://a/", "client": "nobody" }),
        json!({ "method": "GET" }),
    ] {
        let (status, problem) = shown(&titan, ("POST", "/explain"), &bad);
        assert_eq!((status, problem["status"].as_u64()), (400, Some(400)), "{bad}: {problem}");
    }
}

#[test]
fn configurations_of_the_history_are_compared() {
    let titan = Titan::start("compared", &serving(""));
    for text in ["respond: 204", "respond: 404"] {
        fs::write(&titan.file, serving("").replace("respond: 200", text)).unwrap();
        assert_eq!(titan.call("POST", "/reload", &[], "").0, 200);
    }
    let compares = |target: &str| {
        let (status, plan) = shown(&titan, ("GET", target), &Value::Null);
        let field = plan["changes"][0]["fields"][0].clone();
        (status, [field["old"].clone(), field["new"].clone()])
    };
    assert_eq!(compares("/history/3/plan"), (200, [json!("204"), json!("404")]));
    assert_eq!(compares("/history/2/plan"), (200, [json!("200"), json!("204")]));
    assert_eq!(compares("/history/3/plan?against=1"), (200, [json!("200"), json!("404")]));
    assert_eq!(compares("/history/1/plan?against=3"), (200, [json!("404"), json!("200")]));
    let (status, same) = shown(&titan, ("GET", "/history/2/plan?against=2"), &Value::Null);
    assert_eq!((status, &same["result"]), (200, &json!("same")));
    for (target, status) in [
        ("/history/1/plan", 404),
        ("/history/4/plan", 404),
        ("/history/3/plan?against=9", 404),
        ("/history/x/plan", 400),
        ("/history/3/plan?against=", 400),
        ("/history/3/plan?with=1", 400),
        ("/history//plan", 404),
    ] {
        assert_eq!(shown(&titan, ("GET", target), &Value::Null).0, status, "{target}");
    }
}

#[test]
fn certificates_are_told_with_their_names_and_days() {
    let key = KeyPair::generate().unwrap();
    let names = vec!["a.example".to_owned(), "127.0.0.1".to_owned()];
    let mut params = CertificateParams::new(names).unwrap();
    params.not_after = rcgen::date_time_ymd(2999, 1, 1);
    let certificate = params.self_signed(&key).unwrap();
    let text = serving("").replace(
        "listeners: [127.0.0.1:0]",
        "listeners: [{ name: web, address: 127.0.0.1:0, tls: { certificates: { cert: dash.pem, key: dash.key } } }]",
    );
    let directory = crate::config("certificates", "").parent().unwrap().to_owned();
    fs::write(directory.join("dash.pem"), certificate.pem()).unwrap();
    fs::write(directory.join("dash.key"), key.serialize_pem()).unwrap();
    let titan = Titan::start("certificates", &text);
    let (status, told) = shown(&titan, ("GET", "/certificates"), &Value::Null);
    let told = &told["certificates"][0];
    assert_eq!((status, &told["listener"]), (200, &json!("web")));
    assert_eq!(told["names"], json!(["a.example", "127.0.0.1"]));
    assert_eq!(told["issuer"], "CN=rcgen self signed cert");
    assert!(told["days_left"].as_i64().unwrap() > 300_000, "{told}");
    assert_eq!((&told["file"], &told["problem"]), (&json!("dash.pem"), &Value::Null));
}

#[test]
fn a_thousand_streams_leave_room_for_calls_and_for_traffic() {
    let titan = Titan::start("thousand", &serving(""));
    let mut streams = Vec::new();
    let mut refused = 0;
    for _ in 0..1000 {
        let mut stream = UnixStream::connect(&titan.socket).unwrap();
        let asked = write!(stream, "GET /figures/live HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let mut status = [0; 12];
        match asked.and_then(|()| stream.read_exact(&mut status)) {
            Ok(()) if status.ends_with(b"200") => streams.push(stream),
            // No room for a stream, or not even for the connection.
            Ok(()) => {
                assert!(status.ends_with(b"503"), "{status:?}");
                refused += 1;
            }
            Err(_) => refused += 1,
        }
    }
    assert_eq!((streams.len(), refused), (16, 984));
    assert_eq!(titan.call("GET", "/readyz", &[], "").0, 200);
    assert_eq!(titan.call("GET", "/figures/now", &[], "").0, 200);
    serves(&titan);
    // Those that have one go on, and those that go make room.
    let mut next = [0; 4096];
    assert!(streams.iter_mut().all(|stream| stream.read(&mut next).unwrap() > 0));
    streams.pop();
    waits_until("there to be room for one", || {
        let mut stream = UnixStream::connect(&titan.socket).unwrap();
        write!(stream, "GET /figures/live HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let mut status = [0; 12];
        stream.read_exact(&mut status).unwrap();
        status.ends_with(b"200")
    });
}
