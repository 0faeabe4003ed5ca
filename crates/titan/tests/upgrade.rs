//! Another process takes over, with connections open and new ones coming.

#![allow(
    clippy::tests_outside_test_module,
    clippy::unwrap_used,
    dead_code,
    reason = "a test may stop at a surprise, and uses a part of what tests have in common"
)]

mod titan;

use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use titan::{Titan, output, program};
use titan_testkit::waits_until;

/// Two workers that respond, with everything beside them that a process has.
const FIXED: &str = "workers: 2\nlisteners: [127.0.0.1:0]\n\
    admin: { address: 127.0.0.1:0, probes: 127.0.0.1:0 }\nroutes: [{ respond: { body: x } }]\n";

/// Clients that come one after another, each with a connection for one request.
struct Load {
    clients: Vec<JoinHandle<()>>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    is_over: AtomicBool,
    done: Mutex<Done>,
    changed: Condvar,
}

#[derive(Default)]
struct Done {
    served: usize,
    failed: Vec<String>,
}

impl Load {
    fn on(address: &str, clients: usize) -> Load {
        let shared = Arc::new(Shared::default());
        let client = |_| {
            let (address, shared) = (address.to_owned(), Arc::clone(&shared));
            thread::spawn(move || {
                while !shared.is_over.load(Ordering::Relaxed) {
                    shared.note(ask(&address, "/"));
                }
            })
        };
        Load { clients: (0..clients).map(client).collect(), shared }
    }

    /// Waits until so many more are served.
    fn waits_for(&self, more: usize) {
        let mut done = self.shared.done.lock().unwrap();
        let enough = done.served + more;
        while done.served < enough && done.failed.is_empty() {
            done = self.shared.changed.wait(done).unwrap();
        }
    }

    /// Ends it; none may have failed. How many were served.
    fn ends(self) -> usize {
        self.shared.is_over.store(true, Ordering::Relaxed);
        self.clients.into_iter().for_each(|client| client.join().unwrap());
        let done = self.shared.done.lock().unwrap();
        assert!(
            done.failed.is_empty(),
            "{} of {}: {:?}",
            done.failed.len(),
            done.served,
            done.failed
        );
        done.served
    }
}

impl Shared {
    fn note(&self, response: std::io::Result<String>) {
        let mut done = self.done.lock().unwrap();
        match response {
            Ok(text) if text.starts_with("HTTP/1.1 200 OK\r\n") && text.ends_with("\r\n\r\nx") => {
                done.served += 1;
            }
            Ok(text) => done.failed.push(text),
            Err(error) => done.failed.push(error.to_string()),
        }
        self.changed.notify_all();
    }
}

fn ask(address: &str, path: &str) -> std::io::Result<String> {
    ask_over(TcpStream::connect(address)?, path)
}

fn ask_over(mut stream: impl Read + Write, path: &str) -> std::io::Result<String> {
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

/// Runs `titan upgrade` against a gateway: exit code, standard output, standard error.
fn upgrade(titan: &Titan, more: &[&str]) -> (Option<i32>, String, String) {
    let to = ["upgrade", "--socket", titan.socket.to_str().unwrap()];
    output(to.iter().chain(more))
}

/// `make soak` asks for more.
fn amount(variable: &str, usual: usize) -> usize {
    std::env::var(variable).map_or(usual, |count| count.parse().unwrap())
}

#[test]
fn no_request_fails_while_processes_take_over() {
    let (count, between) = (amount("SOAK_UPGRADES", 3), amount("SOAK_REQUESTS", 20));
    let mut titan = Titan::start("upgrades", FIXED);
    let probes = titan.probes();
    let admin = titan.admin.clone().unwrap();
    let load = Load::on(&titan.address, 4);
    for number in 0..count {
        load.waits_for(between);
        match number % 2 {
            0 => titan.signal(Signal::USR2),
            _ => assert_eq!(upgrade(&titan, &[]).0, Some(0)),
        }
        titan.is_succeeded();
        for address in [&admin, &probes] {
            assert!(ask(address, "/readyz").unwrap().starts_with("HTTP/1.1 200 OK\r\n"));
        }
    }
    load.waits_for(between);
    let served = load.ends();
    println!("{count} upgrades, {served} requests, none of them failed");
    titan.signal(Signal::TERM);
    titan.ends();
}

#[test]
fn a_request_and_a_tunnel_that_run_are_finished_by_the_old_process() {
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = upstream.local_addr().unwrap();
    let mut titan = Titan::start(
        "running",
        &format!(
            "workers: 1\nlisteners: [127.0.0.1:0]\nadmin: off\n\
             routes: [{{ upstream: it, upgrades: websocket }}]\nupstreams: {{ it: \"{address}\" }}\n"
        ),
    );
    let mut client = TcpStream::connect(&titan.address).unwrap();
    client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let (mut served, _) = upstream.accept().unwrap();
    titan.upgrades();
    titan.waits_for("draining");
    served.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx").unwrap();
    let mut text = String::new();
    client.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n") && text.ends_with("\r\n\r\nx"), "{text}");
    titan.signal(Signal::TERM);
    titan.ends();
}

/// A path that leads to a program; which one, a test can change.
struct Link(PathBuf);

impl Link {
    fn new(name: &str) -> Link {
        let link = Link(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name));
        link.leads_to(&program());
        link
    }

    fn leads_to(&self, program: &Path) {
        let _ = std::fs::remove_file(&self.0);
        std::os::unix::fs::symlink(program, &self.0).unwrap();
    }
}

fn script(name: &str, text: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

// field: timeouts.upgrade
#[test]
fn a_successor_that_fails_leaves_the_old_process_serving() {
    let link = Link::new("upgrade-failing");
    let text = FIXED.to_owned() + "timeouts: { upgrade: 20s }\n";
    let mut titan = Titan::start_from(&link.0, "failing", &text);
    let own = &*program();
    let silent = script("upgrade-silent", "#!/bin/sh\nexec sleep 100\n");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = format!("127.0.0.1:0, \"{}\"]", taken.local_addr().unwrap());
    let quick = text.replace("20s", "100ms");
    for (program, text, reload, why) in [
        (Path::new("/bin/false"), &*text, false, "it ended before it served (exit status: 1)"),
        (Path::new("/nowhere"), &text, false, "it cannot be executed: No such file or directory"),
        (own, &text.replace("respond", "respnd"), false, "did you mean `respond`?"),
        (own, &text.replace("127.0.0.1:0]", &taken), false, "another process uses this address"),
        (&silent, &quick, true, "it did not serve within 100ms (`timeouts.upgrade`)"),
    ] {
        std::fs::write(&titan.file, text).unwrap();
        if reload {
            titan.signal(Signal::HUP);
            titan.waits_for(&format!("{} was read again", titan.file.display()));
        }
        link.leads_to(program);
        titan.signal(Signal::USR2);
        let told = titan.waits_for("error upgrade this process goes on: ");
        let start = format!("cannot upgrade to {}: ", link.0.display());
        assert!(told.starts_with(&start) && told.contains(why), "{told}");
        assert!(ask(&titan.address, "/").unwrap().starts_with("HTTP/1.1 200 OK\r\n"));
    }
    std::fs::write(&titan.file, &text).unwrap();
    titan.signal(Signal::HUP);
    titan.waits_for(&format!("{} was read again", titan.file.display()));
    link.leads_to(own);
    titan.upgrades();
    assert!(ask(&titan.address, "/").unwrap().starts_with("HTTP/1.1 200 OK\r\n"));
    titan.signal(Signal::TERM);
    titan.ends();
}

/// The same path from the directory of this process.
fn relative(path: &Path) -> String {
    let up = "../".repeat(std::env::current_dir().unwrap().components().count() - 1);
    format!("{up}{}", path.strip_prefix("/").unwrap().display())
}

#[test]
fn the_command_tells_which_process_serves() {
    let link = Link::new("upgrade-by-command");
    let mut titan = Titan::start("by-command", FIXED);
    let named = relative(&link.0);
    let cases: [(&[&str], PathBuf, &str); 2] = [
        (&[], program(), "the program that runs"),
        (&[&named], std::path::absolute(&named).unwrap(), "program /"),
    ];
    for (more, program, noted) in cases {
        let (code, out, err) = upgrade(&titan, more);
        assert_eq!((code, err.as_str()), (Some(0), ""));
        // It is the new process that is asked now.
        assert_eq!(titan.call("GET", "/readyz", &[], ""), (200, "ready\n".to_owned()));
        titan.is_succeeded();
        let (pid, version) = (titan.pid().as_raw_nonzero(), env!("CARGO_PKG_VERSION"));
        let program = program.display();
        let wanted = format!(
            "process {pid} (titan {version}) serves now, started from {program}\nthe process before it drains\n"
        );
        assert_eq!(out, wanted);
        assert!(ask(&titan.address, "/").unwrap().starts_with("HTTP/1.1 200 OK\r\n"));
        let line = titan.events_up_to_that(|line| line.contains(" admin "));
        assert!(line.contains(&format!(" POST /upgrade: done (200): {noted}")), "{line}");
    }
    assert_eq!(titan.exit_code(), Some(0), "the first has ended");
    titan.signal(Signal::TERM);
    titan.ends();
}

#[test]
fn a_program_whose_file_was_replaced_is_started_anew() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("upgrade-replaced");
    let install = || {
        let _ = std::fs::remove_file(&path);
        std::fs::hard_link(program(), &path)
            .or_else(|_| std::fs::copy(program(), &path).map(drop))
            .unwrap();
    };
    install();
    let mut titan = Titan::start_from(&path, "replaced", FIXED);
    install();
    let (code, out, err) = upgrade(&titan, &[]);
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains(&format!("started from {}\n", path.display())), "{out}");
    titan.is_succeeded();
    titan.signal(Signal::TERM);
    titan.ends();
}

#[test]
fn the_command_says_why_a_program_does_not_take_over() {
    let titan = Titan::start("refused", FIXED);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let plain = folder.join("upgrade-plain");
    std::fs::write(&plain, "a text").unwrap();
    let text = script("upgrade-text", "neither a script nor a program");
    for (program, why) in [
        (Path::new("/nowhere/titan"), "it cannot be executed: No such file or directory"),
        (folder, "it is a directory, not a program"),
        (&plain, "it is not executable: `chmod +x /"),
        (Path::new("/dev/null"), "it is not a regular file"),
        (&text, "it cannot be executed: Exec format error"),
        (
            Path::new("/bin/false"),
            "it ended before it served (exit status: 1): is it Titan? What it printed is in the gateway's log",
        ),
    ] {
        let program = program.to_str().unwrap();
        let (code, out, err) = upgrade(&titan, &[program]);
        assert_eq!((code, out.as_str()), (Some(2), ""), "{err}");
        assert!(err.starts_with(&format!("error: cannot upgrade to {program}: {why}")), "{err}");
        assert!(err.ends_with("\nthe process that serves goes on\n"), "{err}");
        assert!(ask(&titan.address, "/").unwrap().starts_with("HTTP/1.1 200 OK\r\n"));
    }
    std::fs::write(&titan.file, FIXED.replace("respond", "respnd")).unwrap();
    let (code, _, err) = upgrade(&titan, &[]);
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains(": it could not start:\nerror: "), "{err}");
    assert!(err.contains("did you mean `respond`?"), "{err}");
    let body = "{\"program\":\"bin/titan\"}";
    let json = ["Content-Type: application/json"];
    let (status, told) = titan.call("POST", "/upgrade", &json, body);
    assert!(status == 400 && told.contains("absolute path"), "{told}");
}

#[test]
fn nothing_changes_while_an_upgrade_is_under_way() {
    let link = Link::new("upgrade-waiting");
    let mut titan = Titan::start_from(&link.0, "waiting", FIXED);
    link.leads_to(&script("upgrade-waits", "#!/bin/sh\nexec sleep 100\n"));
    titan.signal(Signal::USR2);
    titan.waits_for("starting ");
    let (code, _, err) = output(["reload", "--socket", titan.socket.to_str().unwrap()]);
    assert_eq!(code, Some(2), "{err}");
    assert!(err.starts_with("error: an upgrade is under way: "), "{err}");
    let (code, _, err) = upgrade(&titan, &[]);
    assert_eq!(code, Some(2), "{err}");
    assert!(err.starts_with("error: another upgrade is under way\n"), "{err}");
    titan.signal(Signal::TERM);
    assert_eq!(titan.exit_code(), Some(0));
}

#[test]
fn a_unix_socket_and_a_new_listener_are_there_afterwards() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("upgrade.sock");
    let text = format!(
        "workers: 2\nlisteners: [127.0.0.1:0, \"unix:{}\"]\nadmin: off\nroutes: [{{ respond: 200 }}]\n",
        path.display()
    );
    let mut titan = Titan::start("unix", &text);
    let more = text.replace("[127.0.0.1:0,", "[127.0.0.1:0, 127.83.83.1:0,").replace("200", "204");
    std::fs::write(&titan.file, more.replace("workers: 2", "workers: 3")).unwrap();
    titan.signal(Signal::USR2);
    let new = titan.next_output("listening on http://127.83.83.1:");
    titan.is_succeeded();
    titan.waits_for("draining");
    assert!(titan.exit_code() == Some(0), "the old one has ended");
    for _ in 0..4 {
        let response = ask_over(UnixStream::connect(&path).unwrap(), "/").unwrap();
        assert!(response.starts_with("HTTP/1.1 204 "), "{response}");
    }
    for address in [titan.address.clone(), format!("127.83.83.1:{new}")] {
        assert!(ask(&address, "/").unwrap().starts_with("HTTP/1.1 204 "), "{address}");
    }
    titan.signal(Signal::TERM);
    titan.ends();
    assert!(!path.exists(), "its file goes with the last process");
}

#[test]
fn the_history_goes_on_in_the_successor() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("upgrade-state");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir(&folder).unwrap();
    let text = FIXED.to_owned() + "state: { directory: upgrade-state }\n";
    let mut titan = Titan::start("state", &text);
    let has = |id: u32| folder.join(format!("history/{id}.jsonl")).exists();
    waits_until("the start to be noted", || has(1));
    std::fs::write(&titan.file, text.replace("respond", "respnd")).unwrap();
    titan.signal(Signal::USR2);
    titan.waits_for("this process goes on");
    std::fs::write(&titan.file, &text).unwrap();
    titan.signal(Signal::HUP);
    waits_until("the reload to be noted", || has(2));
    titan.upgrades();
    waits_until("the start of the successor to be noted", || has(3));
    titan.signal(Signal::TERM);
    assert_eq!(titan.all_complaints(), "", "nobody has waited for the directory");
}

#[test]
fn orders_that_end_with_a_process_are_told() {
    let text = "listeners: [127.0.0.1:0]\nadmin: { address: 127.0.0.1:0 }\nroutes: [{ upstream: u }]\n\
        upstreams: { u: { endpoints: [127.0.0.1:1, 127.0.0.1:2], circuit_breaker: { per: endpoint } } }\n";
    let mut titan = Titan::start("orders", text);
    for action in ["open_breaker", "drain", "eject"] {
        let body = format!("{{\"action\": \"{action}\", \"endpoint\": \"127.0.0.1:1\"}}");
        let fields = ["Content-Type: application/json"];
        assert_eq!(titan.call("POST", "/upstreams/u", &fields, &body).0, 204, "{action}");
        let (_, shown) = titan.call("GET", "/upstreams/u", &[], "");
        assert!(
            shown.contains("{\"state\":\"breaker-open\",\"why\":\"its circuit breaker is open: "),
            "{shown}"
        );
    }
    titan.events_up_to_that(|line| line.contains("127.0.0.1:1 is ejected"));
    titan.upgrades();
    let told = titan.events_up_to_that(|line| line.contains("is drained by"));
    for what in [
        ": its breaker is held open by an operator until 20",
        " is ejected by an operator until 20",
        " is drained by an operator until 20",
    ] {
        let line = format!("warn upgrade upstream `u`: 127.0.0.1:1{what}");
        assert!(told.contains(&line), "{told}");
    }
}

#[test]
fn standard_input_cannot_be_read_by_a_successor() {
    let mut titan = Titan::start_from_input("input", FIXED);
    titan.signal(Signal::USR2);
    let told = titan.next_complaint();
    assert!(told.contains("no upgrade: the configuration came from standard input"), "{told}");
    assert!(ask(&titan.address, "/").unwrap().starts_with("HTTP/1.1 200 OK\r\n"));
}
