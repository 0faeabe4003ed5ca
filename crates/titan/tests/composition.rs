//! A configuration of several files with variables, as the program reads it: at the start, on a signal, when it changes.

#![allow(
    clippy::tests_outside_test_module,
    clippy::unwrap_used,
    reason = "a test may stop at a surprise"
)]

#[expect(dead_code, reason = "other tests use the rest")]
mod titan;

use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::Signal;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use titan::Titan;

/// A directory that no other test uses.
fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("composition-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("conf.d")).unwrap();
    folder
}

/// What `titan check OPTIONS` says of a file with these variables: exit code, output, errors.
fn check(
    file: &PathBuf,
    options: &[&str],
    variables: &[(&str, &str)],
) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_titan"));
    let command = command.arg("check").arg(file).args(options).envs(variables.iter().copied());
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

fn ask(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

const MAIN: &str = "listeners: [127.0.0.1:0]\nworkers: 1\nadmin: 127.0.0.1:0\n";

#[test]
fn a_path_that_comes_from_a_file_is_not_shown_when_it_leads_nowhere() {
    let folder = folder("path");
    let file = folder.join("titan.yaml");
    fs::write(folder.join("where"), "n0where.pem\n").unwrap();
    let text = "listeners: { address: ':443', tls: { certificates: { cert: '${file:where}', key: k } } }\n\
                routes: { respond: 204 }\n";
    fs::write(&file, text).unwrap();
    for options in [&[][..], &["--json"], &["--resolved"]] {
        let (code, out, err) = check(&file, options, &[]);
        assert_eq!(code, Some(2), "{err}");
        assert!(format!("{out}{err}").contains("***"), "{out}{err}");
        assert!(!format!("{out}{err}").contains("n0where"), "{out}{err}");
    }
}

// field: file.include
#[test]
fn files_and_variables_become_one_configuration() {
    let folder = folder("check");
    let file = folder.join("titan.yaml");
    fs::write(&file, "include: [conf.d/*.yaml]\nlisteners: [\":${PORT:-8080}\"]\n").unwrap();
    fs::write(folder.join("token"), "t0ken\n").unwrap();
    let shop = folder.join("conf.d/shop.yaml");
    let text = "routes: { name: shop, prefix: /shop, upstream: shop, apply: key }\n\
                upstreams: { shop: '${SHOP}' }\n\
                policies: { key: { transform: { request_headers: { set: { Authorization: 'Bearer ${file:../token}' } } } } }\n";
    let text = text.replace("request_headers: { set", "request: { headers: { set");
    let text = text.replace("' } } } } }", "' } } } } } }");
    fs::write(&shop, &text).unwrap();
    let variables = [("SHOP", "10.0.0.1:9000"), ("PORT", "81")];
    let (code, out, err) = check(&file, &[], &variables);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(out.contains(":81") && out.contains("shop: 10.0.0.1:9000"), "{out}");
    let (code, out, err) = check(&file, &["--list-routes", "--json"], &variables);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["routes"][0]["file"], shop.to_str().unwrap());

    let (code, resolved, err) = check(&file, &["--resolved"], &variables);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(
        resolved.contains("    endpoints:\n") && resolved.contains("10.0.0.1:9000"),
        "{resolved}"
    );
    assert!(resolved.contains("\"***\"") && !resolved.contains("t0ken"), "{resolved}");
    let again = folder.join("resolved.yaml");
    fs::write(&again, &resolved).unwrap();
    assert_eq!(check(&again, &["--resolved"], &[]).1, resolved);

    let (code, _, err) = check(&file, &[], &[]);
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("the variable `SHOP` has no value"), "{err}");
    assert!(err.contains(&format!("{}:2:21", shop.display())), "{err}");
    let (_, out, _) = check(&file, &["--json"], &[]);
    let report: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["diagnostics"][0]["file"], shop.to_str().unwrap());

    let mut explain = Command::new(env!("CARGO_BIN_EXE_titan"));
    let explain = explain.args(["explain", "GET", "http://a/shop", "-c"]).arg(&file);
    let explained = explain.envs(variables).output().unwrap();
    let explained = String::from_utf8(explained.stdout).unwrap();
    assert!(explained.contains("Bearer ***") && !explained.contains("t0ken"), "{explained}");
    assert!(explained.contains(&format!("shop, {}:1", shop.display())), "{explained}");
}

#[test]
fn all_files_of_a_configuration_are_watched() {
    let folder = folder("watched");
    fs::write(folder.join("body"), "one\n").unwrap();
    let text = format!(
        "{MAIN}include: composition-watched/conf.d/*.yaml\n\
         routes: {{ prefix: /a, respond: {{ body: '${{file:composition-watched/body}}' }} }}\n"
    );
    let mut titan = Titan::start_watching("composition-watched", &text);
    let is_in_force = format!("{} was read again and is in force", titan.file.display());
    let admin = titan.admin.clone().unwrap();
    let digest = || {
        let metrics = ask(&admin, "/metrics");
        let (_, rest) = metrics.split_once("titan_config_info{sha256=\"").unwrap();
        rest.split('"').next().unwrap().to_owned()
    };
    assert!(ask(&titan.address, "/a").ends_with("one"));
    let mut digests = vec![digest()];
    fs::write(folder.join("body"), "two\n").unwrap();
    titan.waits_for(&is_in_force);
    assert!(ask(&titan.address, "/a").ends_with("two"));
    digests.push(digest());
    let new = folder.join("conf.d/new.yaml");
    for status in ["202", "203"] {
        fs::write(&new, format!("routes: {{ prefix: /b, respond: {status} }}\n")).unwrap();
        titan.waits_for(&is_in_force);
        assert!(ask(&titan.address, "/b").starts_with(&format!("HTTP/1.1 {status} ")));
        digests.push(digest());
    }
    fs::remove_file(&new).unwrap();
    titan.waits_for(&is_in_force);
    assert!(ask(&titan.address, "/b").starts_with("HTTP/1.1 404 "));
    assert_eq!(digest(), digests[1]);
    assert_eq!(digests[0], digests[1], "what a value brings is told to nobody");
    digests.dedup();
    assert_eq!(digests.len(), 3, "{digests:?}");
}

/// What stands in the place of a configuration.
enum Instead {
    Text(String),
    Bytes(Vec<u8>),
    Directory,
    Pipe,
    Nothing,
}

#[test]
fn what_cannot_be_a_configuration_is_refused_and_changes_nothing() {
    let folder = folder("refused");
    let text = format!("{MAIN}routes: [{{ respond: 200 }}]\n");
    let circle = "include: composition-refused/conf.d/*.yaml\n";
    fs::write(folder.join("conf.d/a.yaml"), "include: a.yaml\n").unwrap();
    let half = text.len() - 3;
    for (instead, wanted) in [
        (Instead::Text(text[..half].to_owned()), "not valid YAML: a `{` is not closed"),
        (Instead::Bytes([text.as_bytes(), b"# \xe2\x82"].concat()), "it may be half-written"),
        (Instead::Text(format!("{text}#{}", "x".repeat(16 << 20))), "it is larger than 16777216"),
        (Instead::Text(format!("{text}{circle}")), "files include each other in a circle"),
        (Instead::Text(format!("{text}include: gone.yaml\n")), "cannot include `gone.yaml`"),
        (
            Instead::Text(format!("{text}include: composition-refused\n")),
            "it is a directory, not a regular file",
        ),
        (
            Instead::Text(text.replace("200", "'${TITAN_TEST_UNSET}'")),
            "the variable `TITAN_TEST_UNSET` has no value",
        ),
        (Instead::Directory, "it is a directory, not a regular file"),
        (Instead::Pipe, "it is a named pipe, not a regular file"),
        (Instead::Nothing, "No such file"),
    ] {
        let mut titan = Titan::start("composition-refused", &text);
        let file = titan.file.clone();
        fs::remove_file(&file).unwrap();
        match instead {
            Instead::Text(text) => fs::write(&file, text).unwrap(),
            Instead::Bytes(bytes) => fs::write(&file, bytes).unwrap(),
            Instead::Directory => fs::create_dir(&file).unwrap(),
            Instead::Pipe => mknodat(CWD, &file, FileType::Fifo, Mode::RUSR, 0).unwrap(),
            Instead::Nothing => {}
        }
        titan.signal(Signal::HUP);
        let told = titan.events_up_to("the previous configuration stays in force");
        assert!(told.contains(wanted), "{wanted}: {told}");
        assert!(ask(&titan.address, "/").starts_with("HTTP/1.1 200 OK\r\n"));
        let metrics = ask(&titan.admin.clone().unwrap(), "/metrics");
        assert!(metrics.contains("titan_config_reloads_total{outcome=\"refused\"} 1\n"));
        let (code, _, err) = check(&file, &[], &[]);
        assert_eq!(code, Some(2));
        assert!(err.contains(wanted), "{wanted}: {err}");
        drop(titan);
        let _ = fs::remove_dir_all(&file).or_else(|_| fs::remove_file(&file));
    }
}
