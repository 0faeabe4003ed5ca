//! The program as its users see it: arguments, output, exit codes, signals.

#![allow(
    clippy::tests_outside_test_module,
    clippy::unwrap_used,
    dead_code,
    reason = "a test may stop at a surprise, and uses a part of what tests have in common"
)]

mod admin;
mod control;
mod dashboard;
mod events;
mod recorder;
mod revocations;
mod titan;
mod top;

use rustix::process::Signal;
use std::fs::File;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};
use titan::{Titan, config, output, output_to};
use titan_testkit::waits_until;

/// A listener on a free port, and an upstream.
fn gateway_to(upstream: &TcpListener) -> String {
    let address = upstream.local_addr().unwrap();
    format!(
        "workers: 1\nlisteners: [127.0.0.1:0]\nadmin: 127.0.0.1:0\n\
         routes: [{{ upstream: it }}]\nupstreams: {{ it: \"{address}\" }}\n"
    )
}

/// The same with probes, and with the admin interface at that address.
fn gateway_with_probes_to(upstream: &TcpListener, admin: &str) -> String {
    let both = format!("admin: {{ address: {admin}, probes: 127.0.0.1:0 }}");
    gateway_to(upstream).replace("admin: 127.0.0.1:0", &both)
}

/// Responds to everything without an upstream.
const FIXED: &str =
    "workers: 1\nlisteners: [127.0.0.1:0]\nadmin: off\nroutes: [{ respond: 200 }]\n";

fn free_port() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}

/// Reads up to the end of a head.
fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.extend(byte);
    }
    String::from_utf8(head).unwrap()
}

fn ask(address: &str, path: &str) -> String {
    ask_with(address, path, "")
}

/// The same with more field lines.
fn ask_with(address: &str, path: &str, fields: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n{fields}Connection: close\r\n\r\n")
        .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// A request that has reached the upstream: the client's side and the upstream's.
fn in_flight(titan: &Titan, upstream: &TcpListener) -> (TcpStream, TcpStream) {
    let mut client = TcpStream::connect(&titan.address).unwrap();
    client.write_all(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let (mut served, _) = upstream.accept().unwrap();
    assert!(read_head(&mut served).starts_with("GET /slow HTTP/1.1\r\n"));
    (client, served)
}

// field: file.admin, admin.address
#[test]
fn a_request_goes_through_and_the_metrics_show_it() {
    let upstream = free_port();
    let mut titan = Titan::start("through", &gateway_to(&upstream));
    let (mut client, mut served) = in_flight(&titan, &upstream);
    served.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
    assert!(read_head(&mut client).starts_with("HTTP/1.1 200 OK\r\n"));
    // Counted once all of it is sent, which the end of the connection shows.
    client.shutdown(Shutdown::Write).unwrap();
    client.read_to_end(&mut Vec::new()).unwrap();
    let admin = titan.admin.clone().unwrap();
    assert!(ask(&admin, "/readyz").contains("200 OK"));
    let metrics = ask(&admin, "/metrics");
    let line = "titan_requests_total{route=\"root\",class=\"2xx\"} 1\n";
    assert!(metrics.contains(line), "{metrics}");
    titan.signal(Signal::TERM);
    assert_eq!(titan.exit_code(), Some(0));
}

// field: admin.probes
#[test]
fn a_signal_lets_what_runs_finish() {
    for signal in [Signal::TERM, Signal::INT] {
        let upstream = free_port();
        let mut titan = Titan::start("drain", &gateway_with_probes_to(&upstream, "127.0.0.1:0"));
        let probes = titan.probes();
        assert!(ask(&probes, "/readyz").contains("200 OK"));
        assert!(ask(&probes, "/jwt/revocations").contains("404"));
        let (mut client, mut served) = in_flight(&titan, &upstream);
        titan.signal(signal);
        titan.waits_for("draining");
        assert!(ask(&probes, "/readyz").contains("503"));
        assert!(ask(&probes, "/healthz").contains("200 OK"));
        assert!(TcpStream::connect(titan.admin.as_ref().unwrap()).is_err());
        // The workers close their sockets when they next have a moment; until then clients get in.
        waits_until("the listener to close", || TcpStream::connect(&titan.address).is_err());
        served.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
        assert!(read_head(&mut client).starts_with("HTTP/1.1 200 OK\r\n"));
        assert_eq!(titan.exit_code(), Some(0));
    }
}

// field: timeouts.drain_delay
#[test]
fn a_drain_may_be_announced_while_the_listeners_are_still_open() {
    let text = FIXED.replace("admin: off", "admin: { address: 127.0.0.1:0, probes: 127.0.0.1:0 }");
    for (delay, signal, code) in [("1h", Some(Signal::TERM), 143), ("1ms", None, 0)] {
        let text = format!("{text}timeouts: {{ drain_delay: {delay} }}\n");
        let mut titan = Titan::start("announced", &text);
        let (probes, admin) = (titan.probes(), titan.admin.clone().unwrap());
        assert!(ask(&probes, "/readyz").contains("200 OK"));
        titan.signal(Signal::TERM);
        titan.waits_for("not ready any more; draining in ");
        if let Some(second) = signal {
            for address in [&probes, &admin] {
                assert!(ask(address, "/readyz").contains("503"), "{address}");
            }
            assert!(ask(&titan.address, "/").starts_with("HTTP/1.1 200 OK\r\n"));
            let (code, _, err) = output(["reload", "--socket", titan.socket.to_str().unwrap()]);
            assert!(code == Some(1) && err.contains("draining"), "{err}");
            titan.signal(second);
        }
        assert_eq!(titan.exit_code(), Some(code));
    }
}

#[test]
fn a_successor_starts_while_its_predecessor_drains() {
    // No other process binds there, so that the port stays free in between.
    const ADMIN: &str = "127.84.84.1";
    const REVOCATIONS: &str = "jwt_revocations: { file: succession }\n\
        policies: { p: { jwt: { providers: { algorithms: HS256, keys: { secret: forty bytes that nobody but us can guess } } } } }\n";
    let upstream = free_port();
    let text = |admin: &str| gateway_with_probes_to(&upstream, admin) + REVOCATIONS;
    let mut old = Titan::start("old", &text(&format!("{ADMIN}:0")));
    let probes = old.probes();
    let (mut client, mut served) = in_flight(&old, &upstream);
    old.signal(Signal::TERM);
    old.waits_for("draining");
    let admin = old.admin.clone().unwrap();
    let new = Titan::start("new", &text(&admin));
    assert_eq!(new.admin.as_ref(), Some(&admin));
    assert!(ask(&admin, "/readyz").contains("200 OK"));
    assert!(old.is_running());
    assert!(ask(&probes, "/readyz").contains("503"));
    served.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
    assert!(read_head(&mut client).starts_with("HTTP/1.1 200 OK\r\n"));
    assert_eq!(old.exit_code(), Some(0));
}

#[test]
fn a_second_signal_stops_at_once() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let upstream = free_port();
        let mut titan = Titan::start("second", &gateway_to(&upstream));
        let _in_flight = in_flight(&titan, &upstream);
        titan.signal(Signal::TERM);
        titan.waits_for("draining");
        titan.signal(signal);
        assert_eq!(titan.exit_code(), Some(code));
    }
}

#[test]
fn a_signal_ends_a_start_that_waits_for_names() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let text = format!(
        "workers: 1\nlisteners: [127.0.0.1:0]\nadmin: off\nroutes: [{{ upstream: it }}]\n\
         upstreams: {{ it: 'backend.test:1' }}\n\
         resolver: {{ nameservers: ['{address}'], timeout: 1m }}\n"
    );
    let started = Instant::now();
    let mut titan = Titan::launch("names", &text);
    silent.recv(&mut [0; 512]).unwrap();
    titan.signal(Signal::TERM);
    assert_eq!(titan.exit_code(), Some(0));
    assert!(started.elapsed() < Duration::from_secs(30), "it has waited for the name");
}

#[test]
fn a_hangup_puts_the_file_in_force() {
    let text = FIXED.replace("admin: off", "admin: 127.0.0.1:0");
    let mut titan = Titan::start("hangup", &text);
    let admin = titan.admin.clone().unwrap();
    let config = || {
        let metrics = ask(&admin, "/metrics");
        let of_config = |line: &&str| line.starts_with("titan_config_");
        metrics.lines().filter(of_config).map(str::to_owned).collect::<Vec<_>>()
    };
    let before = config();
    std::fs::write(&titan.file, text.replace("200", "204")).unwrap();
    titan.signal(Signal::HUP);
    titan.waits_for(&format!("{} was read again and is in force", titan.file.display()));
    assert!(ask(&titan.address, "/").starts_with("HTTP/1.1 204 No Content\r\n"));
    let after = config();
    assert_ne!(before[0], after[0], "the digest of the file");
    assert_eq!(after[1], "titan_config_reloads_total{outcome=\"applied\"} 1");
    titan.signal(Signal::TERM);
    assert_eq!(titan.exit_code(), Some(0));
}

#[test]
fn a_file_that_is_watched_is_in_force_when_it_has_changed() {
    let mut titan = Titan::start_watching("watched", FIXED);
    let is_in_force = format!("{} was read again and is in force", titan.file.display());
    std::fs::write(&titan.file, FIXED.replace("200", "204")).unwrap();
    titan.waits_for(&is_in_force);
    assert!(ask(&titan.address, "/").starts_with("HTTP/1.1 204 No Content\r\n"));
    // As editors and Kubernetes replace files: by another one under the same name, and by a link.
    let other = config("watched-other", &FIXED.replace("200", "205"));
    std::fs::rename(&other, &titan.file).unwrap();
    titan.waits_for(&is_in_force);
    assert!(ask(&titan.address, "/").starts_with("HTTP/1.1 205 "));
    let target = config("watched-target", &FIXED.replace("200", "202"));
    let link = target.with_extension("link");
    std::os::unix::fs::symlink(&target, &link).unwrap();
    std::fs::rename(&link, &titan.file).unwrap();
    titan.waits_for(&is_in_force);
    assert!(ask(&titan.address, "/").starts_with("HTTP/1.1 202 "));
}

#[test]
fn what_cannot_be_watched_is_told() {
    for arguments in [&["run", "--watch"][..], &["--watch", "-"]] {
        let (code, _, err) = output(arguments);
        assert_eq!(code, Some(2));
        assert!(err.contains("`--watch` needs a configuration file"), "{err}");
    }
}

#[test]
fn what_is_wrong_with_a_file_that_is_read_again_is_told_and_changes_nothing() {
    let text = FIXED.replace("admin: off", "admin: 127.0.0.1:0");
    for (changed, wanted) in [
        (text.replace("respond", "respnd"), "did you mean `respond`?"),
        (
            text.replace("workers: 1", "workers: 2"),
            "`workers` cannot change while the gateway runs",
        ),
        (text.replace("admin: 127.0.0.1:0", "admin: off"), "`admin` cannot change"),
        (text.replace("127.0.0.1:0]", "192.0.2.1:1]"), "cannot listen on 192.0.2.1:1"),
        ("routes:".to_owned(), "error config "),
        ("x".repeat((16 << 20) + 1), "it is larger than 16777216 bytes"),
    ] {
        let mut titan = Titan::start("refused", &text);
        std::fs::write(&titan.file, changed).unwrap();
        titan.signal(Signal::HUP);
        let told = titan.events_up_to("the previous configuration stays in force");
        assert!(told.contains(wanted), "{told}");
        assert!(ask(&titan.address, "/").starts_with("HTTP/1.1 200 OK\r\n"));
        let metrics = ask(&titan.admin.clone().unwrap(), "/metrics");
        assert!(metrics.contains("titan_config_last_reload_successful 0\n"), "{metrics}");
        assert!(metrics.contains("titan_config_reloads_total{outcome=\"refused\"} 1\n"));
    }
}

#[test]
fn a_wrong_configuration_starts_nothing() {
    let file = config("wrong", &FIXED.replace("respond: 200", "respnd: 200"));
    for arguments in [&["run", "--config"][..], &["--config"], &["check"]] {
        let (code, out, err) = output(arguments.iter().copied().chain([file.to_str().unwrap()]));
        assert_eq!((code, out.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(err.contains("did you mean `respond`?"), "{err}");
        assert!(!err.contains('\x1b'), "colours without a terminal");
    }
    let (code, _, err) = output(["check", "/nowhere/titan.yaml"]);
    assert_eq!(code, Some(2));
    assert!(err.starts_with("error: cannot read /nowhere/titan.yaml: "), "{err}");
    let (code, _, err) = output(["check", "/dev/zero"]);
    assert_eq!(code, Some(2), "{err}");
}

#[test]
fn a_port_in_use_is_reported_with_what_to_do() {
    let taken = free_port();
    let address = taken.local_addr().unwrap().to_string();
    let admin = FIXED.replace("admin: off", &format!("admin: \"{address}\""));
    for text in [FIXED.replace("127.0.0.1:0", &address), admin] {
        let file = config("busy", &text);
        let (code, out, err) = output(["--config", file.to_str().unwrap()]);
        assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
        assert!(err.starts_with(&format!("error: cannot listen on {address}")), "{err}");
        assert!(err.contains("help: another process uses this address"), "{err}");
    }
}

#[test]
fn a_valid_file_is_summarised() {
    let file = config("valid", FIXED);
    let (code, out, err) = output(["check", file.to_str().unwrap()]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    insta::assert_snapshot!(out.replace(file.to_str().unwrap(), "titan.yaml"), @r"
    titan.yaml is valid

    workers    1
    admin      off
    listeners  1
               127.0.0.1:0
    routes     1
               root: /… -> respond 200
    upstreams  0
    ");
}

#[test]
fn a_directory_of_files_has_to_be_there() {
    let text = FIXED.replace("respond: 200", "files: titan-no-such-folder");
    let file = config("no-root", &text);
    let root = file.with_file_name("titan-no-such-folder");
    for arguments in [["check"], ["--config"]] {
        let (code, out, err) = output(arguments.into_iter().chain([file.to_str().unwrap()]));
        assert_eq!((code, out.as_str()), (Some(2), ""), "{err}");
        let place = format!("error: {}:4:10: {} cannot be used: ", file.display(), root.display());
        assert!(err.starts_with(&place), "{err}");
    }
}

#[test]
fn a_request_is_explained() {
    let file = config("explained", FIXED);
    let url = "http://a.example/x";
    let (code, out, _) = output(["explain", "GET", url, "-c", file.to_str().unwrap()]);
    assert_eq!(code, Some(0));
    assert!(out.ends_with("response  200 OK\n"), "{out}");
    let (code, _, err) = output(["explain", "GET", "x"]);
    assert_eq!(code, Some(2));
    assert!(err.starts_with("error: `x` is neither an absolute URL"), "{err}");
    let (code, out, _) = output(["explain", "GET", url]);
    assert_eq!(code, Some(0));
    assert!(out.starts_with("The built-in configuration"), "{out}");
}

#[test]
fn the_other_commands_print_and_exit() {
    let (code, out, _) = output(["--version"]);
    assert_eq!((code, out), (Some(0), format!("titan {}\n", env!("CARGO_PKG_VERSION"))));
    let (code, out, _) = output(["schema"]);
    assert_eq!(code, Some(0));
    assert!(serde_json::from_str::<serde_json::Value>(&out).is_ok());
    assert_eq!(output(["--help"]).0, Some(0));
    let (code, out, err) = output(["--no-such-option"]);
    assert_eq!((code, out.as_str()), (Some(2), ""), "{err}");
}

#[test]
fn output_that_cannot_be_written_is_a_failure() {
    let file = config("full", FIXED);
    let file = file.to_str().unwrap();
    let explain = ["explain", "GET", "http://a.example/", "-c", file];
    for arguments in [&["schema"][..], &["check", file], &explain, &explain[..3]] {
        let (code, err) = output_to(File::create("/dev/full").unwrap(), arguments);
        assert_eq!(code, Some(1), "{arguments:?}: {err}");
        assert!(err.starts_with("error: cannot write to standard output: "), "{err}");
    }
}

#[test]
fn a_reader_that_has_gone_is_no_failure() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    assert_eq!(output_to(writer, &["schema"]), (Some(0), String::new()));
}

#[test]
fn tokens_that_are_refused_are_reported_in_one_line() {
    let text = FIXED.replace(
        "routes: [{ respond: 200 }]",
        "routes: [{ respond: 200 }]\napply: [p]\npolicies: { p: { jwt: { providers: { algorithms: HS256, \
         keys: { secret: a secret of 32 bytes at the very least } } } } }",
    );
    let mut titan = Titan::start("refused-tokens", &text);
    for _ in 0..5 {
        let response = ask_with(&titan.address, "/", "Authorization: Bearer a.b.c\r\n");
        assert!(response.starts_with("HTTP/1.1 401 Unauthorized\r\n"), "{response}");
    }
    let line = titan.next_complaint();
    assert!(line.starts_with("warn policy policy `p` refused tokens (`malformed`): "), "{line}");
}

#[test]
fn a_limit_in_shadow_mode_is_reported_in_one_line() {
    let text = FIXED.replace(
        "routes: [{ respond: 200 }]",
        "routes: [{ respond: 200 }]\napply: [p]\npolicies: { p: { rate_limit: { rates: 1/h, shadow: true } } }",
    );
    let mut titan = Titan::start("shadow", &text);
    for _ in 0..5 {
        assert!(ask(&titan.address, "/").starts_with("HTTP/1.1 200 OK\r\n"));
    }
    let line = titan.next_complaint();
    // How many of them had come by then is a matter of time.
    assert!(
        line.starts_with(
            "warn policy policy `p` is in shadow mode; requests it would have refused: "
        ),
        "{line}"
    );
}
