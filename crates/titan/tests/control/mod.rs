//! Changes of a running gateway, and the history that it keeps of them.

use super::titan::{Titan, config};
use super::{FIXED, ask};
use rustix::process::Signal;
use std::fs;
use std::path::PathBuf;

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
    titan.wait_for(&format!("{} was read again and is in force", titan.file.display()));
    let file = |id: u8| directory.join(format!("history/{id}.jsonl"));
    while !file(2).exists() {}
    titan.signal(Signal::KILL);
    assert_eq!(titan.exit_code(), None);
    let entry = |id: u8| fs::read_to_string(file(id)).unwrap();
    assert!(entry(1).contains("\"source\":\"start\""), "{}", entry(1));
    assert!(entry(2).contains("\"source\":\"signal\"") && entry(2).contains("respond: 204"));
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
        titan.wait_for(&format!("{} was read again and is in force", titan.file.display()));
        while !directory.join(format!("history/{id}.jsonl")).exists() {}
    }
    let names = || {
        let files = fs::read_dir(directory.join("history")).unwrap();
        let mut names: Vec<_> = files.map(|it| it.unwrap().file_name()).collect();
        names.sort();
        names
    };
    // The oldest goes once the newest is there.
    while names().len() > 3 {}
    assert_eq!(names(), ["2.jsonl", "3.jsonl", "lock"]);
}

#[test]
fn a_full_disk_keeps_nothing_from_changing() {
    let (text, directory) = with_history("full-disk");
    fs::create_dir_all(directory.join("history")).unwrap();
    let mut titan = Titan::start_without_space("full-disk", &text);
    fs::write(&titan.file, text.replace("200", "204")).unwrap();
    titan.signal(Signal::HUP);
    titan.wait_for(&format!("{} was read again and is in force", titan.file.display()));
    assert!(ask(&titan.address, "/").starts_with("HTTP/1.1 204 No Content\r\n"));
    let complaint = titan.next_complaint();
    let wanted = format!("warning: cannot use {}/history for the history: ", directory.display());
    assert!(complaint.starts_with(&wanted), "{complaint}");
    while metric(&titan, "titan_history_unsaved") != "titan_history_unsaved 2" {}
    assert_eq!(
        metric(&titan, "titan_config_last_reload_successful"),
        "titan_config_last_reload_successful 1"
    );
}
