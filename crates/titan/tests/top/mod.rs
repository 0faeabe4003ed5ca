//! `titan top`: beside gateways that serve, as text and on a terminal.

mod fake;
mod pty;

use super::admin::hash_of;
use super::ask;
use super::titan::{Titan, output};
use fake::Fake;
use pty::Pty;
use rustix::process::Signal;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use titan_testkit::certificate;

/// From one sample to the next.
const INTERVAL: Duration = Duration::from_millis(300);

/// Responds itself, fails, and has an endpoint that nobody listens at; an admin interface with these keys.
fn serving(admin: &str) -> String {
    format!(
        "workers: 1\nlisteners: [127.0.0.1:0]\nadmin: {{ address: 127.0.0.1:0{admin} }}\n\
         routes:\n- {{ name: fixed, path: /fixed, respond: 200 }}\n- {{ name: lost, path: /lost, upstream: nobody }}\n\
         upstreams: {{ nobody: 'unix:/nowhere/at-all' }}\n"
    )
}

/// Runs `titan top` while requests are sent: what it prints.
fn top(titan: &Titan, arguments: &[&str]) -> (Option<i32>, String, String) {
    let (is_done, address) = (AtomicBool::new(false), titan.address.as_str());
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                ask(address, "/fixed");
                ask(address, "/lost");
            }
        });
        let interval = format!("{INTERVAL:?}");
        let output = output(["top", "--interval", &interval].iter().chain(arguments));
        is_done.store(true, Ordering::Relaxed);
        output
    })
}

/// The words of the line that begins so.
fn row<'t>(text: &'t str, name: &str) -> Vec<&'t str> {
    let of = |line: &'t str| line.split_whitespace().collect::<Vec<_>>();
    let found = text.lines().map(of).find(|words| words.first() == Some(&name));
    found.unwrap_or_else(|| panic!("{name}: {text}"))
}

fn is_rate(word: &str) -> bool {
    word != "0" && word.starts_with(|c: char| c.is_ascii_digit())
}

#[test]
fn it_shows_what_was_served_between_two_samples() {
    let titan = Titan::start("top", &serving(""));
    let socket = titan.socket.to_str().unwrap();
    let (code, text, err) = top(&titan, &["--once", "--socket", socket]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(text.starts_with(&format!("titan top  unix:{socket}  ")), "{text}");
    let fixed = row(&text, "fixed");
    // Requests, the share of errors, percentiles, 2xx.
    assert!(is_rate(fixed[1]) && fixed[2] == "0%" && fixed[6] == fixed[1], "{text}");
    assert!(fixed[3].ends_with("us") || fixed[3].ends_with("ms"), "{text}");
    let lost = row(&text, "lost");
    assert!(is_rate(lost[1]) && lost[2] == "100%" && lost[6] == "0", "{text}");
    let nobody = row(&text, "nobody");
    // All fail, but one may be under way at either sample.
    let number = |word: &str| word.trim_end_matches('%').parse::<f64>().unwrap();
    let (requests, failed) = (number(nobody[2]) * INTERVAL.as_secs_f64(), number(nobody[3]));
    assert!(requests > 1.0 && requests * (100.0 - failed).abs() <= 100.0, "{text}");
    assert!(row(&text, "Failures").contains(&"connect"), "{text}");
    assert!(is_rate(row(&text, "0")[3]), "{text}");
    assert!(text.contains("unix:/nowhere/at-all"), "{text}");
    assert!(text.contains("Config     as at the start"), "{text}");
}

#[test]
fn it_says_how_the_last_reload_went() {
    let titan = Titan::start("top-reload", &serving(""));
    let socket = titan.socket.to_str().unwrap();
    fs::write(&titan.file, serving("").replace("respond", "respnd")).unwrap();
    assert_eq!(output(["reload", "--socket", socket]).0, Some(2));
    let (_, text, _) = top(&titan, &["--once", "-c", titan.file.to_str().unwrap()]);
    assert_eq!(text, "", "the file is wrong");
    let (_, text, _) = top(&titan, &["--once", "--socket", socket]);
    assert!(text.contains("refused: the one before is in force"), "{text}");
}

/// A file that only this process has.
fn file(name: &str, text: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("titan-top-{name}-{}", std::process::id()));
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn an_address_needs_a_token_to_tell_all() {
    let titan =
        Titan::start("top-token", &serving(&format!(", tokens: {{ look: {} }}", hash_of("look"))));
    let url = format!("http://{}", titan.admin.as_ref().unwrap());
    let token = file("token", "look\n");
    let (code, text, err) =
        top(&titan, &["--once", "--url", &url, "--token-file", token.to_str().unwrap()]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(is_rate(row(&text, "fixed")[1]) && !text.contains("are not known"), "{text}");
    let wrong = file("wrong-token", "guess\n");
    for more in [&[][..], &["--token-file", wrong.to_str().unwrap()]] {
        let (code, text, _) = top(&titan, &[&["--once", "--url", &url], more].concat());
        assert_eq!(code, Some(0));
        assert!(is_rate(row(&text, "fixed")[1]), "{text}");
        assert!(text.contains("states, reasons and breakers are not known: "), "{text}");
        assert!(text.contains("unix:/nowhere/at-all"), "{text}");
    }
    for file in [token, wrong] {
        fs::remove_file(file).unwrap();
    }
}

#[test]
fn an_address_with_tls_is_verified() {
    let own = certificate(&["127.0.0.1"]);
    let (cert, key) = (file("cert", &own.cert), file("key", &own.key));
    let admin = format!(
        ", tls: {{ certificates: {{ cert: {}, key: {} }} }}, tokens: {{ look: {} }}",
        cert.display(),
        key.display(),
        hash_of("look")
    );
    let titan = Titan::start("top-tls", &serving(&admin));
    let url = format!("https://{}", titan.admin.as_ref().unwrap());
    let token = file("tls-token", "look");
    let with = |ca: &Path| {
        let arguments = ["--once", "--url", &url, "--token-file", token.to_str().unwrap(), "--ca"];
        top(&titan, &[&arguments[..], &[ca.to_str().unwrap()]].concat())
    };
    let (code, text, err) = with(&cert);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(is_rate(row(&text, "fixed")[1]) && !text.contains("are not known"), "{text}");
    let other = file("other", &certificate(&["127.0.0.1"]).cert);
    let (code, text, err) = with(&other);
    assert_eq!((code, text.as_str()), (Some(1), ""));
    assert!(err.contains("invalid peer certificate"), "{err}");
    for file in [cert, key, token, other] {
        fs::remove_file(file).unwrap();
    }
}

#[test]
fn without_a_terminal_it_prints_once() {
    let titan = Titan::start("top-pipe", &serving(""));
    let (code, text, err) = top(&titan, &["--socket", titan.socket.to_str().unwrap()]);
    assert_eq!(
        (code, err.as_str()),
        (Some(0), "this is no terminal to draw on: printed once, as with --once\n")
    );
    assert!(is_rate(row(&text, "fixed")[1]), "{text}");
    assert!(!text.contains('\u{1b}'), "{text}");
}

#[test]
fn a_gateway_that_is_not_there_is_told() {
    let (code, text, err) = output(["top", "--once", "--socket", "/nowhere/admin.sock"]);
    assert_eq!((code, text.as_str()), (Some(1), ""));
    assert!(err.contains("no gateway can be reached: /nowhere/admin.sock"), "{err}");
    let (code, _, err) = output(["top", "--once", "--url", "http://127.0.0.1:1"]);
    assert_eq!(code, Some(1));
    assert!(err.contains("no gateway can be reached: http://127.0.0.1:1: "), "{err}");
}

#[test]
fn keys_lead_through_the_page_and_out_of_it() {
    let titan = Titan::start("top-keys", &serving(""));
    let mut pty = Pty::start(&titan.socket);
    pty.shows("[1 Overview]");
    pty.types("2");
    pty.shows("[2 Routes]");
    pty.shows("fixed");
    pty.types("/");
    pty.shows("/_");
    pty.types("los");
    pty.shows("s_");
    // Escape: the routes that do not contain it are back.
    pty.types("\u{1b}");
    pty.shows("(none)");
    pty.types("4");
    pty.shows("[4 Workers]");
    pty.types(" ");
    pty.shows("PAUSED");
    pty.types("q");
    assert_eq!(pty.ends(), 0);
    pty.is_as_before();
}

#[test]
fn a_gateway_that_goes_leaves_its_picture() {
    let mut titan = Titan::start("top-lost", &serving(""));
    let mut pty = Pty::start(&titan.socket);
    pty.shows("[1 Overview]");
    titan.signal(Signal::KILL);
    assert_eq!(titan.exit_code(), None);
    pty.shows("NO CONNECTION");
    pty.shows("no connection for ");
    // Ctrl-C.
    pty.types("\u{3}");
    assert_eq!(pty.ends(), 0);
    pty.is_as_before();
}

#[test]
fn a_signal_gives_the_terminal_back() {
    let titan = Titan::start("top-signal", &serving(""));
    let mut pty = Pty::start(&titan.socket);
    pty.shows("[1 Overview]");
    pty.signal(Signal::TERM);
    assert_eq!(pty.ends(), 143);
    pty.is_as_before();
}

#[test]
fn a_signal_ends_it_though_the_terminal_takes_nothing() {
    let titan = Titan::start("top-stalled", &serving(""));
    let mut pty = Pty::start(&titan.socket);
    pty.shows("[1 Overview]");
    pty.stalls();
    pty.is_gone_after(Signal::TERM);
    pty.goes_on();
    assert_eq!(pty.ends(), 143);
    pty.has_modes_as_before();
}

/// A route of that name that has served so much, of a process that has begun then.
fn metrics(route: &str, count: u32, start: u32) -> String {
    format!(
        "titan_process_start_time_seconds {start}\ntitan_build_info{{version=\"{route}\"}} 1\n\
         titan_requests_total{{route=\"{route}\",class=\"2xx\"}} {count}\n\
         titan_exchange_failures_total{{code=\"{route}\"}} {count}\n"
    )
}

fn once(fake: &Fake) -> (Option<i32>, String, String) {
    output(["top", "--once", "--interval", "100ms", "--socket", fake.socket.to_str().unwrap()])
}

#[test]
fn what_a_gateway_says_is_text() {
    let evil = "\u{1b}[2J\u{1b}]0;title\u{7}\u{9b}31m\u{202e}<b>&amp;\u{200b}\rx";
    let listing = serde_json::json!({ "upstreams": [{ "name": evil, "endpoints": [
        { "address": evil, "state": evil, "why": evil, "since": evil }
    ] }] });
    let samples = [metrics(evil, 1, 1), metrics(evil, 900, 1)];
    let fake = Fake::serves("evil", samples.into(), &listing.to_string());
    let (code, text, err) = once(&fake);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    let is_plain = |c: char| c == '\n' || c == '…' || c == ' ' || c.is_ascii_graphic();
    assert!(text.chars().all(is_plain), "{text:?}");
    // In the name of the route, the code, and the address.
    assert!(text.matches("\\u{1b}[2J\\u{1b}]0;title\\u{7}").count() >= 3, "{text}");
}

#[test]
fn another_process_has_no_rates_yet() {
    let rate = |samples: [String; 2]| {
        let fake = Fake::serves("restarted", samples.into(), r#"{"upstreams":[]}"#);
        let (_, text, _) = once(&fake);
        (row(&text, "it")[1].to_owned(), text.contains("another process responds than before"))
    };
    let (same, is_other) = rate([metrics("it", 1, 1), metrics("it", 900_000, 1)]);
    assert!(is_rate(&same) && !is_other, "{same}");
    for count in [0, 900_000] {
        assert_eq!(rate([metrics("it", 1, 1), metrics("it", count, 2)]), ("-".to_owned(), true));
    }
}

#[test]
fn what_is_no_gateway_is_told() {
    let problem = "HTTP/1.1 500 No\r\nContent-Length: 26\r\n\r\n{\"detail\":\"no \\u001b[2J\"} ";
    for (metrics, listing, what) in [
        ("<html>", "{}", "line 1 of its metrics is none of the text format"),
        ("a{b=\"\u{1b}[2J\"} 1\nc", "{}", "line 2 of its metrics is none of the text format"),
        (problem, "{}", "error: no \\u{1b}[2J\n"),
        ("a 1\n", "<html>", "what it says of its upstreams is not known here"),
    ] {
        let fake = Fake::serves("none", vec![metrics.to_owned()], listing);
        let (code, text, err) = once(&fake);
        assert_eq!((code, text.as_str()), (Some(1), ""));
        assert!(err.contains(what) && !err.contains('\u{1b}'), "{err}");
    }
}
