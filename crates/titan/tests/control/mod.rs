//! Changes of a running gateway, and the history that it keeps of them.

use super::titan::{Titan, config, output};
use super::{FIXED, ask};
use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};
use rustix::process::Signal;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use titan_testkit::waits_until;

/// A configuration that keeps its history in a new directory, which is returned too.
fn with_history(name: &str) -> (String, PathBuf) {
    let directory = config(name, "").with_extension("state");
    // An earlier run may have left one.
    let _ = fs::remove_dir_all(&directory);
    let text = FIXED.replace("admin: off", "admin: 127.0.0.1:0");
    (format!("{text}state: {}\n", directory.display()), directory)
}

fn metric(titan: &Titan, name: &str) -> String {
    let metrics = ask(titan.admin.as_ref().unwrap(), "/metrics");
    let line = metrics.lines().find(|line| line.starts_with(name));
    line.unwrap_or_default().to_owned()
}

// field: file.state, state.directory
#[test]
fn each_configuration_that_was_in_force_is_on_the_disk() {
    let (text, directory) = with_history("kept");
    let mut titan = Titan::start("kept", &text);
    fs::write(&titan.file, text.replace("200", "204")).unwrap();
    titan.signal(Signal::HUP);
    titan.waits_for(&format!("{} was read again and is in force", titan.file.display()));
    let file = |id: u8| directory.join(format!("history/{id}.jsonl"));
    waits_until("the entry to be written", || file(2).exists());
    titan.signal(Signal::KILL);
    assert_eq!(titan.exit_code(), None);
    let entry = |id: u8| fs::read_to_string(file(id)).unwrap();
    assert!(entry(1).contains("\"source\":\"start\""), "{}", entry(1));
    assert!(entry(2).contains("\"source\":\"signal\"") && entry(2).contains("respond: 204"));
}

#[test]
fn a_plan_compares_with_what_is_in_force() {
    let text = FIXED.replace("admin: off", "admin: 127.0.0.1:0");
    let titan = Titan::start("plan-running", &text);
    let new = config("plan-running-new", &text);
    let plans = |more: &[&str]| command(&titan, &[&["plan", new.to_str().unwrap()], more].concat());
    let (code, out, _) = plans(&[]);
    assert_eq!((code, out.as_str()), (Some(0), "nothing changes\n"));
    fs::write(&new, text.replace("200", "204")).unwrap();
    let (code, out, _) = plans(&["--json"]);
    assert_eq!(code, Some(3), "{out}");
    assert!(out.contains("\"result\": \"changed\"") && !out.contains("\"text\""), "{out}");
    fs::write(&new, text.replace("routes", "rutes")).unwrap();
    let (code, _, err) = plans(&[]);
    assert!(code == Some(2) && err.contains("did you mean `routes`?"), "{err}");
}

// field: state.history
#[test]
fn as_many_configurations_are_kept_as_configured() {
    let (text, directory) = with_history("few");
    let state = format!("state: {}", directory.display());
    let few = format!("state: {{ directory: {}, history: 2 }}", directory.display());
    let mut titan = Titan::start("few", &text.replace(&state, &few));
    for id in [2, 3] {
        titan.signal(Signal::HUP);
        titan.waits_for(&format!("{} was read again and is in force", titan.file.display()));
        let file = directory.join(format!("history/{id}.jsonl"));
        waits_until("the entry to be written", || file.exists());
    }
    let names = || {
        let files = fs::read_dir(directory.join("history")).unwrap();
        let mut names: Vec<_> = files.map(|it| it.unwrap().file_name()).collect();
        names.sort();
        names
    };
    // The one that repeats the first goes once the newest is there.
    waits_until("an entry to go", || names().len() <= 3);
    assert_eq!(names(), ["1.jsonl", "3.jsonl", "lock"]);
}

#[test]
fn a_full_disk_keeps_nothing_from_changing() {
    let (text, directory) = with_history("full-disk");
    fs::create_dir_all(directory.join("history")).unwrap();
    let mut titan = Titan::start_without_space("full-disk", &text);
    fs::write(&titan.file, text.replace("200", "204")).unwrap();
    titan.signal(Signal::HUP);
    titan.waits_for(&format!("{} was read again and is in force", titan.file.display()));
    assert!(ask(&titan.address, "/").starts_with("HTTP/1.1 204 No Content\r\n"));
    let complaint = titan.next_complaint();
    let wanted =
        format!("warn config cannot use {}/history for the history: ", directory.display());
    assert!(complaint.starts_with(&wanted), "{complaint}");
    waits_until("both entries to be counted", || {
        metric(&titan, "titan_history_unsaved") == "titan_history_unsaved 2"
    });
    assert_eq!(
        metric(&titan, "titan_config_last_reload_successful"),
        "titan_config_last_reload_successful 1"
    );
}

/// Runs a command against a gateway: exit code, standard output, standard error.
fn command(titan: &Titan, arguments: &[&str]) -> (Option<i32>, String, String) {
    let to = ["--socket", titan.socket.to_str().unwrap()];
    output(arguments.iter().copied().chain(to))
}

/// The same for a command that succeeds: what it prints.
fn done(titan: &Titan, arguments: &[&str]) -> (String, String) {
    let (code, out, err) = command(titan, arguments);
    assert_eq!(code, Some(0), "{arguments:?}: {out}{err}");
    (out, err)
}

/// A file with another configuration.
fn other(name: &str, text: &str) -> String {
    config(name, text).to_str().unwrap().to_owned()
}

fn is(titan: &Titan, status: &str) -> bool {
    ask(&titan.address, "/").starts_with(&format!("HTTP/1.1 {status} "))
}

/// The history without what differs each time: ids with marks, sources and outcomes.
fn entries(titan: &Titan) -> Vec<String> {
    let (out, _) = done(titan, &["history"]);
    let columns = |line: &str| {
        let source = line[30..40].trim();
        let outcome = line.rsplit("  ").next().unwrap();
        format!("{}|{source}|{outcome}", line[..6].replace(' ', ""))
    };
    out.lines().skip(1).map(columns).collect()
}

/// What it says when it takes a configuration back.
fn taken_back(titan: &mut Titan) -> String {
    loop {
        let line = titan.next_complaint();
        if line.contains("taken back") {
            return line;
        }
    }
}

#[test]
fn what_cannot_be_put_in_force_is_refused_as_what_is_wrong_is() {
    let (text, _) = with_history("refused");
    let titan = Titan::start("refused", &text);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let more = format!("listeners: ['{address}', ");
    for (text, why) in [
        (text.replace("listeners: [", &more), format!("cannot listen on {address}: ")),
        (text.replace("200", "99"), "expected ".to_owned()),
        (
            format!("{text}---\nroutes: []\n"),
            "a configuration must be a single document".to_owned(),
        ),
    ] {
        let (code, _, err) = command(&titan, &["apply", &other("refused", &text)]);
        assert_eq!(code, Some(2), "{err}");
        assert!(err.contains(&why), "{err}");
        assert!(err.ends_with("the previous configuration stays in force\n"), "{err}");
        assert!(is(&titan, "200"));
    }
}

#[test]
fn what_is_applied_can_be_confirmed_and_rolled_back() {
    let (text, _) = with_history("confirmed");
    let titan = Titan::start("confirmed", &text);
    let (code, _, err) = command(&titan, &["confirm"]);
    assert_eq!((code, err.as_str()), (Some(2), "error: no configuration waits to be confirmed\n"));
    let new = other("new", &text.replace("200", "204"));
    let (out, err) = done(&titan, &["apply", &new, "--confirm", "10m"]);
    assert!(out.starts_with("configuration 2 is in force (sha256 "), "{out}");
    let file = titan.file.display();
    assert!(
        err.contains(&format!("{file} says something else: a reload or a restart takes that")),
        "{err}"
    );
    assert!(err.contains("unless `titan confirm` comes before"), "{err}");
    assert!(is(&titan, "204"));
    assert_eq!(metric(&titan, "titan_config_on_trial"), "titan_config_on_trial 1");
    for other in [&["reload"][..], &["apply", &new], &["rollback", "2"]] {
        let (code, _, err) = command(&titan, other);
        assert_eq!(code, Some(2), "{err}");
        assert!(err.starts_with("error: configuration 2 is on trial until "), "{err}");
    }
    done(&titan, &["confirm"]);
    assert_eq!(metric(&titan, "titan_config_on_trial"), "titan_config_on_trial 0");
    done(&titan, &["rollback"]);
    assert!(is(&titan, "200"));
    let history = entries(&titan);
    assert_eq!(history[0], "*3|rollback|in force (as 1)");
    assert!(history[1].starts_with("2|admin|superseded (confirmed by uid "), "{history:?}");
    assert_eq!(history[2], "1|start|superseded");
}

#[test]
fn what_is_not_confirmed_in_time_is_taken_back() {
    let (text, _) = with_history("unconfirmed");
    let mut titan = Titan::start("unconfirmed", &text);
    let new = other("new", &text.replace("200", "204"));
    done(&titan, &["apply", &new, "--confirm", "1s"]);
    let line = taken_back(&mut titan);
    let wanted = "warn config configuration 2 was taken back: it was not confirmed in time; configuration 1 is in force again";
    assert_eq!(line, wanted);
    assert!(is(&titan, "200"));
    let wanted = "titan_config_taken_back_total{cause=\"unconfirmed\"} 1";
    assert_eq!(metric(&titan, "titan_config_taken_back_total{cause=\"unconfirmed\"}"), wanted);
    assert_eq!(command(&titan, &["confirm"]).0, Some(2));
}

#[test]
fn what_fails_under_a_guard_is_taken_back() {
    let (text, _) = with_history("guarded");
    let mut titan = Titan::start("guarded", &text);
    let ask_often = |count| (0..count).for_each(|_| drop(ask(&titan.address, "/")));
    ask_often(100);
    // Nobody listens there, and nobody else can.
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&socket, &SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let address = SocketAddr::try_from(getsockname(&socket).unwrap()).unwrap();
    let failing = text.replace("{ respond: 200 }", "{ name: root, upstream: it }");
    let failing = format!("{failing}upstreams: {{ it: \"{address}\" }}\n");
    let new = other("failing", &failing);
    let (_, err) = done(&titan, &["apply", &new, "--guard", "--guard-window", "10m"]);
    assert!(err.contains("it is taken back if requests fare worse than before"), "{err}");
    assert!(is(&titan, "502"));
    let ask_often = |count| (0..count).for_each(|_| drop(ask(&titan.address, "/")));
    ask_often(99);
    let wanted = "warn config configuration 2 was taken back: route `root`: 5xx 100.0 % of 100 requests, before 0.0 % of ";
    let line = taken_back(&mut titan);
    assert!(line.starts_with(wanted), "{line}");
    assert!(is(&titan, "200"));
    assert!(entries(&titan)[1].starts_with("2|admin|taken back (route `root`: 5xx"));
}

#[test]
fn the_history_is_there_after_a_restart() {
    let (text, directory) = with_history("restart");
    let mut titan = Titan::start("restart", &text);
    let new = other("new", &text.replace("200", "204"));
    done(&titan, &["apply", &new]);
    let secret = text.replace("200", "202")
        + "apply: [p]\npolicies: { p: { jwt: { required: false, providers: { algorithms: HS256, \
           keys: { secret: forty bytes that nobody but us can guess } } } } }\n";
    done(&titan, &["apply", &other("secret", &secret), "--confirm", "1h"]);
    titan.signal(Signal::TERM);
    assert_eq!(titan.exit_code(), Some(0));
    let written = fs::read_to_string(directory.join("history/3.jsonl")).unwrap();
    assert!(!written.contains("forty bytes"), "{written}");
    let titan = Titan::start("restart", &text);
    assert!(is(&titan, "200"));
    let wanted = [
        "*4|start|in force",
        "3|admin|not confirmed before the process ended",
        "2|admin|superseded",
        "1|start|superseded",
    ];
    assert_eq!(entries(&titan), wanted);
    let (code, _, err) = command(&titan, &["rollback", "3"]);
    assert_eq!(code, Some(2));
    assert!(
        err.contains("`policies.p.jwt.providers.keys.secret`") && err.contains("${file:PATH}"),
        "{err}"
    );
    done(&titan, &["rollback", "2"]);
    assert!(is(&titan, "204"));
    let (out, _) = done(&titan, &["history", "--json"]);
    let document: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (&document["entries"][0]["id"], &document["entries"][0]["repeats"]),
        (&5.into(), &2.into())
    );
}

#[test]
fn what_was_applied_under_another_name_comes_back_with_its_parts() {
    let (text, directory) = with_history("parts");
    let mut titan = Titan::start("parts", &text);
    let parts = directory.with_extension("d");
    fs::create_dir_all(parts.join("elsewhere")).unwrap();
    fs::write(parts.join("a.yaml"), "routes: { prefix: /part, respond: 203 }\n").unwrap();
    fs::write(parts.join("page"), "no such page").unwrap();
    let new = parts.join("elsewhere/new.yaml");
    let name = parts.file_name().unwrap().to_str().unwrap();
    let whole = format!(
        "{text}include: [{name}/*.yaml]\nerror_pages: {{ 404: '${{file:{name}/page}}' }}\n"
    );
    fs::write(&new, whole).unwrap();
    let has_part = |titan: &Titan| ask(&titan.address, "/part").starts_with("HTTP/1.1 203 ");
    done(&titan, &["apply", new.to_str().unwrap()]);
    assert!(has_part(&titan));
    let back = |titan: &Titan| {
        done(titan, &["apply", &other("new", &text.replace("200", "204"))]);
        assert!(!has_part(titan));
        done(titan, &["rollback", "2"]);
        assert!(has_part(titan));
    };
    back(&titan);
    titan.signal(Signal::TERM);
    assert_eq!(titan.exit_code(), Some(0));
    back(&Titan::start("parts", &text));
}

#[test]
fn what_cannot_be_applied_changes_nothing() {
    let (text, _) = with_history("wrong");
    let titan = Titan::start("wrong", &text);
    let wrong = other("wrong", &text.replace("respond", "respnd"));
    let (code, out, err) = command(&titan, &["apply", &wrong]);
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert!(err.contains(&format!("{wrong}:")) && err.contains("did you mean `respond`?"), "{err}");
    for (arguments, wanted) in [
        (&["apply", &wrong, "--confirm", "5"][..], "`confirm` is not a duration"),
        (&["apply", &wrong, "--guard", "--guard-factor", "1"], "`factor` is not a number above 1"),
        (&["apply", "/nowhere/new.yaml"], "cannot read /nowhere/new.yaml: "),
        (&["rollback"], "the history has no earlier configuration"),
        (&["rollback", "7"], "the history has no configuration 7"),
    ] {
        let (code, _, err) = command(&titan, arguments);
        assert_eq!(code, Some(2), "{arguments:?}: {err}");
        assert!(err.contains(wanted), "{arguments:?}: {err}");
    }
    assert!(is(&titan, "200"));
    let (code, _, err) = output(["history", "--socket", "/nowhere/admin.sock"]);
    assert_eq!(code, Some(1), "{err}");
}

#[test]
fn no_process_takes_over_during_a_trial() {
    let (text, _) = with_history("no-upgrade");
    let mut titan = Titan::start("no-upgrade", &text);
    done(&titan, &["apply", &other("new", &text.replace("200", "204")), "--confirm", "1h"]);
    titan.signal(Signal::USR2);
    titan.waits_for("error upgrade no upgrade: configuration 2 is on trial until ");
    let (code, _, err) = command(&titan, &["upgrade"]);
    assert_eq!(code, Some(2), "{err}");
    assert!(err.starts_with("error: configuration 2 is on trial until "), "{err}");
    assert!(is(&titan, "204"));
}
