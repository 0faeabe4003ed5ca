//! What the gateway tells of itself on standard error.

use crate::titan::{Titan, config, output, program};
use rcgen::{CertificateParams, KeyPair};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;
use time::OffsetDateTime;

/// A gateway with that section about its log.
fn logging(log: &str) -> String {
    format!(
        "workers: 1\nlisteners: [127.0.0.1:0]\nadmin: 127.0.0.1:0\nroutes: [{{ respond: 200 }}]\n{log}\n"
    )
}

/// Makes a call that is refused because nothing is on trial; it leaves a line that is a warning.
fn calls(titan: &Titan) {
    assert_eq!(titan.call("POST", "/confirm", &[], "").0, 409);
}

fn reload(titan: &Titan) {
    assert_eq!(titan.call("POST", "/reload", &[], "").0, 200);
}

// field: file.log, log.level
#[test]
fn a_level_leaves_out_what_is_less_important_until_a_reload_changes_it() {
    let mut titan = Titan::start("log-level", &logging("log: error"));
    calls(&titan);
    fs::write(&titan.file, logging("log: { level: warn }")).unwrap();
    reload(&titan);
    calls(&titan);
    fs::write(&titan.file, logging("log: debug")).unwrap();
    reload(&titan);
    let told = titan.events_up_to("POST /reload: done (200)");
    let told: Vec<_> = told.lines().collect();
    let [call, in_force, reload] = told.as_slice() else { panic!("{told:?}") };
    assert!(call.starts_with("warn admin caller=") && call.ends_with("refused (409)"), "{call}");
    assert!(in_force.ends_with("was read again and is in force"), "{in_force}");
    assert!(reload.starts_with("info admin caller=\"uid "), "{reload}");
}

// field: log.areas
#[test]
fn an_area_has_a_level_of_its_own() {
    let log = "log: { level: error, areas: { config: info } }";
    let mut titan = Titan::start("log-areas", &logging(log));
    calls(&titan);
    reload(&titan);
    let told = titan.events_up_to("was read again and is in force");
    assert_eq!(told.lines().count(), 1, "{told}");
}

// field: log.format
#[test]
fn events_are_objects_where_programs_read_them() {
    let mut titan = Titan::start("log-json", &logging("log: { format: json }"));
    calls(&titan);
    titan.signal(Signal::TERM);
    let told = titan.events_up_to_that(|line| line.contains("\"event\":\"stopped\""));
    let events: Vec<Value> = told.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    let names: Vec<_> = events.iter().map(|it| it["event"].as_str().unwrap()).collect();
    assert_eq!(names, ["started", "listening", "call", "draining", "stopped"]);
    let call = &events[2];
    assert_eq!((&call["level"], &call["area"]), (&"warn".into(), &"admin".into()));
    assert_eq!(call["message"], "POST /confirm: refused (409)");
    assert!(call["caller"].as_str().unwrap().starts_with("uid "));
    assert!(call["time"].as_str().unwrap().ends_with('Z'));
}

#[test]
fn the_command_changes_levels_for_a_while() {
    let mut titan = Titan::start("log-command", &logging("log: warn"));
    let log = |more: &[&str]| {
        let to = ["log", "--socket", titan.socket.to_str().unwrap()];
        output(to.iter().chain(more).copied())
    };
    let (code, out, err) = log(&["--area", "config", "--level", "info", "--for", "10m"]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(out.contains("* config    info\n") && out.contains("  admin     warn\n"), "{out}");
    assert!(out.contains("* for another 600 s"), "{out}");
    let (code, out, _) = log(&["--json"]);
    let shown: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &shown["changed"]), (Some(0), &serde_json::json!(["config"])));
    for (arguments, wanted) in [
        (["--area", "confg", "--level", "info"], "did you mean `config`?"),
        (["--level", "info", "--for", "3d"], "`for` is not between 1s and 24h"),
    ] {
        let (code, _, err) = log(&arguments);
        assert!(code == Some(2) && err.contains(wanted), "{err}");
    }
    reload(&titan);
    // The configuration that has come into force has its own levels.
    let (_, out, _) = log(&[]);
    assert!(out.contains("  config    warn\n"), "{out}");
    calls(&titan);
    let told = titan.events_up_to("POST /confirm: refused (409)");
    assert_eq!(told.matches(" PUT /log: ").count(), 2, "one was refused: {told}");
    assert_eq!(told.lines().count(), 3, "{told}");
}

#[test]
fn a_certificate_that_expires_soon_is_told_of() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("expires");
    fs::create_dir_all(&folder).unwrap();
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
    params.not_before = OffsetDateTime::now_utc() - time::Duration::days(30);
    params.not_after = OffsetDateTime::now_utc() + time::Duration::hours(1);
    fs::write(folder.join("a.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
    fs::write(folder.join("a.key"), key.serialize_pem()).unwrap();
    let tls =
        format!("tls: {{ certificates: {{ cert: {0}/a.pem, key: {0}/a.key }} }}", folder.display());
    let text =
        logging("").replace("[127.0.0.1:0]", &format!("[{{ address: 127.0.0.1:0, {tls} }}]"));
    let file = config("expires", &text);
    let (code, _, err) = output(["check", file.to_str().unwrap()]);
    assert!(code == Some(0) && err.contains("a.pem: the certificate expires at "), "{err}");
    let mut titan = Titan::launch("expires", &text);
    let told = titan.waits_for("warn tls ");
    assert!(told.contains("a.pem: the certificate expires at "), "{told}");
}

#[test]
fn each_probe_is_told_of_where_that_is_asked_for() {
    let upstreams =
        "upstreams: { u: { endpoints: ['127.0.0.1:1'], health: { probe: tcp, interval: 1s } } }";
    let text = logging("log: { areas: { health: debug } }").replace("respond: 200", "upstream: u");
    let mut titan = Titan::start("probes-told", &format!("{text}{upstreams}\n"));
    let told = titan.waits_for("debug health upstream=u endpoint=127.0.0.1:1 ");
    assert_eq!(told, "a probe has failed: Connection refused (os error 111)");
    titan.waits_for("warn health upstream=u endpoint=127.0.0.1:1 is unhealthy: ");
}

#[test]
fn the_journal_gets_the_level_and_no_time() {
    let mut command = Command::new("sh");
    let stream = "JOURNAL_STREAM=$(stat -L -c %d:%i /proc/self/fd/2) && export JOURNAL_STREAM";
    command.args(["-c", &format!("{stream} && exec \"$@\""), "sh"]).arg(program());
    let mut titan = Titan::start_by(command, "journal", &logging(""));
    assert!(titan.next_complaint().starts_with("<6>info start titan "));
    calls(&titan);
    titan.waits_for("<4>warn admin caller=");
}

/// Standard error is a pipe that nobody reads: it is full after a few hundred lines.
#[test]
fn whoever_does_not_read_holds_up_nothing() {
    let pipe = Path::new(env!("CARGO_TARGET_TMPDIR")).join("unread-events");
    let _ = fs::remove_file(&pipe);
    let mut command = Command::new("sh");
    command.args(["-c", "mkfifo \"$0\" && exec 3<>\"$0\" && exec \"$@\" 2>&3"]);
    command.arg(&pipe).arg(program());
    let mut titan = Titan::start_by(command, "unread", &logging(""));
    let long = format!("/confirm?{}", "x".repeat(300));
    for _ in 0..450 {
        assert_eq!(titan.call("POST", &long, &[], "").0, 400);
    }
    reload(&titan);
    titan.signal(Signal::TERM);
    assert_eq!(titan.exit_code(), Some(0));
}
