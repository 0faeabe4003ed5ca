//! `titan recorder` and `titan tap`, of a gateway that serves.

use super::admin::hash_of;
use super::titan::{Titan, config, output, program};
use super::{FIXED, ask, ask_with, read_head};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::thread;
use titan_testkit::h2::{Client, Head};
use titan_testkit::{Peer, authority, certificate};

fn start(name: &str) -> Titan {
    Titan::start(name, &FIXED.replace("admin: off", "admin: 127.0.0.1:0"))
}

/// The code, output and complaints of a command about that gateway.
fn command(titan: &Titan, arguments: &[&str]) -> (Option<i32>, String, String) {
    let to = ["--socket", titan.socket.to_str().unwrap()];
    output(arguments.iter().copied().chain(to))
}

/// The id of a request for that path.
fn asks(titan: &Titan, path: &str) -> String {
    let response = ask(&titan.address, path);
    let id = response.lines().find_map(|line| line.strip_prefix("X-Request-Id: "));
    id.unwrap_or_else(|| panic!("{response}")).to_owned()
}

#[test]
fn what_became_of_a_request_is_told_by_its_id() {
    let titan = start("recorder");
    let id = asks(&titan, "/a?token=hushhush");
    let (code, out, err) = command(&titan, &["recorder", &id]);
    assert_eq!(code, Some(0), "{err}");
    let begins = out.starts_with("GET http://") && out.contains("/a?token=***\n");
    assert!(begins && !out.contains("hush"), "{out}");
    assert!(out.contains("\nwhat happened\n       0.000 ms  route `"), "{out}");
    assert!(out.contains(&format!("\n  id {id}\n")), "{out}");
    let (code, out, _) = command(&titan, &["recorder", "--path", "/a", "--json"]);
    let listing: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &listing["exchanges"][0]["request_id"]), (Some(0), &id.clone().into()));
    let (code, out, _) = command(&titan, &["recorder", "--since", "1h", "--path", "/none"]);
    assert!(code == Some(0) && out.starts_with("no such exchange; every exchange since "), "{out}");
    let (code, _, err) = command(&titan, &["recorder", "--since", "5m", "--until", "10m"]);
    assert!(code == Some(2) && err.contains("error: --until is before --since"), "{err}");
    assert_eq!(command(&titan, &["recorder", "--since", "10m", "--until", "5m"]).0, Some(0));
    let (code, out, err) = command(&titan, &["explain", "--id", &id]);
    assert_eq!(code, Some(0), "{err}");
    let why = "\nwhat the configuration makes of it, which was in force then \
               (stars stand for secrets in the query)\n";
    let (_, explained) = out.split_once(why).unwrap_or_else(|| panic!("{out}"));
    assert!(explained.contains("route ") && !out.contains("hush"), "{out}");
    let (code, _, err) = command(&titan, &["recorder", "0123"]);
    assert!(code == Some(1) && err.contains("no such exchange is recorded"), "{err}");
}

#[test]
fn an_id_that_a_trusted_proxy_has_sent_is_found_as_it_is() {
    let text = FIXED.replace("admin: off", "admin: 127.0.0.1:0");
    let trusting = format!("{text}forwarding: {{ trusted_proxies: [127.0.0.1] }}\n");
    let titan = Titan::start("trusted-id", &trusting);
    let id = "..:a/b+c=@~";
    ask_with(&titan.address, "/a", &format!("X-Request-Id: {id}\r\n"));
    let (code, out, err) = command(&titan, &["recorder", id]);
    assert!(code == Some(0) && out.contains(&format!("\n  id {id}\n")), "{out}{err}");
    let (code, _, err) = command(&titan, &["recorder", "a/b%2F"]);
    assert!(code == Some(2) && err.contains("no request has such an id"), "{err}");
}

/// The ids of heads that cannot be read, over HTTP/1.1 and over HTTP/2, and the status that each has got.
fn asks_wrongly(titan: &Titan) -> [(String, u16); 4] {
    let address = titan.address.parse().unwrap();
    let sends = |head: &str| Peer::connects(address).sends(head).response();
    let refuses = |head: &Head| {
        let mut client = Client::begins(Peer::connects(address), &[]);
        let stream = client.asks(head);
        client.response(stream)
    };
    let long = format!("/typed?{}", "a".repeat(64));
    let fields = (0..6).fold(Head::post("/typed"), |head, _| head.with("typed", "1"));
    [
        sends("POST /typed HTTP/1.1\r\nHost: typed.example\r\nHost: b\r\n\r\n"),
        sends(&format!("POST {long} HTTP/1.1\r\nHost: typed.example\r\n\r\n")),
        refuses(&Head::post(&long)),
        refuses(&fields),
    ]
    .map(|response| (response.request_id(), response.status))
}

#[test]
fn of_a_head_that_could_not_be_read_nothing_is_made_up() {
    let both = "listeners: [{ address: '127.0.0.1:0', protocols: [h1, h2] }]";
    let text = FIXED.replace("admin: off", "admin: 127.0.0.1:0");
    let text = text.replace("listeners: [127.0.0.1:0]", both);
    let limited = format!("{text}limits: {{ target: 64B, fields: 5 }}\n");
    let titan = Titan::start("refused-heads", &limited);
    for (id, status) in asks_wrongly(&titan) {
        let (code, out, err) = command(&titan, &["recorder", &id]);
        assert_eq!(code, Some(0), "{err}");
        assert!(out.starts_with("no request head\n  HTTP/"), "{out}");
        let route = "0.000 ms  no route: the head of the request could not be read\n";
        assert!(out.contains(route) && !out.contains("\nrequest\n"), "{out}");
        assert!(out.contains("fails with `malformed`, caused by the client\n"), "{out}");
        assert!(out.contains(&format!("the client gets {status}, ")), "{out}");
        let (code, out, err) = command(&titan, &["explain", "--id", &id]);
        assert_eq!(code, Some(1), "{out}{err}");
        assert!(out.starts_with("no request head\n") && !out.contains("makes of it"), "{out}");
        let why = "error: this request cannot be judged: its head could not be read, \
                   so it is not known what it asked for\n";
        assert_eq!(err, why);
        let (code, out, _) = command(&titan, &["explain", "--json", "--id", &id]);
        let document: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!((code, &document["explanation"]["outcome"]), (Some(1), &().into()));
        for name in ["method", "host", "path", "query"] {
            assert_eq!(document.get(name), None, "{out}");
        }
        assert_eq!(
            (&document["status"], &document["request_head"].to_string()[..]),
            (&status.into(), "[]")
        );
    }
    let (_, out, _) = command(&titan, &["recorder", "--status", "4xx"]);
    let told: Vec<_> = out.lines().filter(|line| line.contains(" - - ")).collect();
    assert_eq!(told.len(), 4, "{out}");
    assert!(!out.contains(" GET ") && !out.contains("typed"), "{out}");
    let (_, out, _) = command(&titan, &["recorder", "--method", "GET"]);
    assert!(out.starts_with("no such exchange; "), "{out}");
}

#[test]
fn the_beginning_of_bodies_is_told_where_it_is_kept() {
    let text = FIXED.replace("admin: off", "admin: 127.0.0.1:0");
    let route = "{ respond: { body: \"a page\\nof two lines\" }, record_bodies: 10B }";
    let titan = Titan::start("recorded-bodies", &text.replace("{ respond: 200 }", route));
    let id = asks(&titan, "/a");
    let (code, out, err) = command(&titan, &["recorder", &id]);
    assert_eq!(code, Some(0), "{err}");
    assert!(!out.contains("request body"), "there was none: {out}");
    let shown = "\nresponse body, the first 10 of 19 bytes\n  a page\n  of\n";
    assert!(out.contains(shown), "{out}");
    let (_, out, _) = command(&titan, &["recorder", "--path", "/a", "--json"]);
    assert!(!out.contains("a page"), "lists have none: {out}");
}

#[test]
fn a_recorder_that_is_off_has_nothing_to_show() {
    let text = FIXED.replace("admin: off", "admin: 127.0.0.1:0\nrecorder: off");
    let titan = Titan::start("recorder-off", &text);
    for arguments in [&["recorder"][..], &["recorder", "--json"], &["recorder", "4f2a"], &["tap"]] {
        let (code, out, err) = command(&titan, arguments);
        assert_eq!((code, out.as_str()), (Some(1), ""), "{arguments:?}");
        assert!(err.starts_with("error: the recorder is off"), "{err}");
        assert!(err.contains("remove `recorder: off` from the configuration"), "{err}");
    }
}

#[test]
fn what_is_no_gateway_is_told_apart() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", server.local_addr().unwrap());
    let commands = [
        &["recorder"][..],
        &["recorder", "--json"],
        &["recorder", "4f2a"],
        &["explain", "--id", "4f2a"],
        &["tap"],
    ];
    for (body, command) in ["ok", "{\"status\":\"ok\"}\n"]
        .into_iter()
        .flat_map(|body| commands.iter().map(move |command| (body, command)))
    {
        let (code, out, err) = thread::scope(|scope| {
            scope.spawn(|| responds(&server, body));
            output(command.iter().copied().chain(["--url", &url]))
        });
        assert_eq!((code, out.as_str()), (Some(1), ""), "{command:?}");
        let wanted = format!("error: this is no admin interface of Titan: {url} responds with");
        assert!(err.starts_with(&wanted), "{err}");
    }
}

#[test]
fn what_keeps_another_gateway_from_responding_comes_with_a_remedy() {
    let own = certificate(&["127.0.0.1"]);
    let [cert, key] = [config("remote-cert", &own.cert), config("remote-key", &own.key)];
    let admin = |tls: &str| {
        let hash = hash_of("look");
        format!("admin: {{ address: 127.0.0.1:0, tokens: {{ look: {hash} }}{tls} }}")
    };
    let files = format!("{{ cert: {}, key: {} }}", cert.display(), key.display());
    let tls = admin(&format!(", tls: {{ certificates: {files} }}"));
    let [plain, secure] = [("remote", admin("")), ("remote-tls", tls)]
        .map(|(name, admin)| Titan::start(name, &FIXED.replace("admin: off", &admin)));
    let told = |titan: &Titan, scheme: &str, command: &str, more: &[&str]| {
        let url = format!("{scheme}://{}", titan.admin.as_ref().unwrap());
        let (code, _, err) = output([&[command, "--url", &url], more].concat());
        assert_eq!(code, Some(1), "{err}");
        err
    };
    let token = config("remote-token", "guess");
    let token = ["--token-file", token.to_str().unwrap()];
    let other = config("remote-ca", &authority("other").cert);
    let ca = ["--ca", other.to_str().unwrap()];
    for command in ["recorder", "tap"] {
        let err = told(&plain, "http", command, &[]);
        assert!(err.contains("this needs a token") && err.contains("`--token-file`"), "{err}");
        let err = told(&plain, "http", command, &token);
        assert!(err.contains("none of the tokens") && err.contains("`--token-file`"), "{err}");
        let err = told(&plain, "https", command, &ca);
        assert!(err.contains("\nhelp: it does not speak TLS: use http://"), "{err}");
        let err = told(&secure, "https", command, &ca);
        assert!(err.contains("UnknownIssuer\nhelp: ") && err.contains("`--ca FILE`"), "{err}");
    }
}

/// Responds to one request.
fn responds(server: &TcpListener, body: &str) {
    let (mut stream, _) = server.accept().unwrap();
    read_head(&mut stream);
    let length = body.len();
    write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}").unwrap();
}

/// A tap that has begun, and what it prints.
fn tap(titan: &Titan, options: &[&str]) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut command = Command::new(program());
    command.arg("tap").args(options).arg("--socket").arg(&titan.socket).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    (child, out)
}

#[test]
fn exchanges_are_told_as_they_end_until_nobody_reads() {
    let mut titan = start("tap");
    let (mut child, mut out) = tap(&titan, &["--path", "/a"]);
    let line = first_line(&titan, &mut out);
    assert!(line.contains(" 200 GET ") && line.contains("/a ") && !line.contains("/b"), "{line}");
    drop(out);
    // The first line that it cannot write ends it.
    while child.try_wait().unwrap().is_none() {
        asks(&titan, "/a");
    }
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let (mut child, mut out) = tap(&titan, &["--json"]);
    let line = first_line(&titan, &mut out);
    let exchange: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(exchange["status"], 200);
    titan.signal(rustix::process::Signal::TERM);
    titan.exit_code();
    // It ends with the gateway.
    out.lines().for_each(drop);
    assert!(child.wait().unwrap().code().is_some());
}

/// The first line of a tap. When it has begun is not known: it is given something to tell until then.
fn first_line(titan: &Titan, out: &mut BufReader<std::process::ChildStdout>) -> String {
    while !is_readable(out) {
        asks(titan, "/b");
        let id = asks(titan, "/a");
        // The gateway has told of both by then.
        assert_eq!(command(titan, &["recorder", &id]).0, Some(0));
    }
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    line
}

/// Whether something has been printed.
fn is_readable(out: &BufReader<std::process::ChildStdout>) -> bool {
    use rustix::event::{PollFd, PollFlags, poll};
    let mut fds = [PollFd::new(out.get_ref(), PollFlags::IN)];
    let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
    !out.buffer().is_empty() || poll(&mut fds, Some(&now)).is_ok_and(|count| count > 0)
}
