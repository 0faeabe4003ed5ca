//! `validate` itself, with sections of its own in a repository of its own: interrupted, gone on with, begun again.

use std::fs;
use std::io::{self, Read};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::process::{Pid, Signal, kill_process};

/// A repository with one commit, and beside it the folders that sections and the program write to.
struct Site {
    folder: PathBuf,
    /// Sections connect to it, and wait there.
    door: TcpListener,
}

impl Site {
    fn new(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("validate").join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("repository")).expect("the folder is cargo's for tests");
        let door = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        set_socket_timeout(&door, Timeout::Recv, Some(PATIENCE)).expect("it is a socket");
        let site = Self { folder, door };
        site.git(&["init", "--quiet"]);
        site.commit();
        site
    }

    fn commit(&self) {
        let who = ["-c", "user.name=a", "-c", "user.email=a@a.example"];
        self.git(&[&who[..], &["commit", "--quiet", "--allow-empty", "--message", "a"]].concat());
    }

    fn git(&self, arguments: &[&str]) {
        let status = Command::new("git").args(arguments).current_dir(self.repository()).status();
        assert!(status.expect("git is installed").success(), "{arguments:?}");
    }

    fn repository(&self) -> PathBuf {
        self.folder.join("repository")
    }

    /// A command that tells how often it has run.
    fn counted(&self) -> String {
        format!("echo run >> {}/runs", self.folder.display())
    }

    fn runs(&self) -> usize {
        fs::read_to_string(self.folder.join("runs")).map_or(0, |runs| runs.lines().count())
    }

    /// A command that connects to the door, as does a child of it, and ends when both connections do.
    fn waits(&self) -> String {
        let port = self.door.local_addr().expect("it is bound").port();
        let one = format!("exec 3<>/dev/tcp/127.0.0.1/{port}; cat <&3");
        format!("({one}) & {one}; wait")
    }

    /// Both connections of a section that waits.
    fn entered(&self) -> [TcpStream; 2] {
        [(); 2].map(|()| self.door.accept().expect("the section connects").0)
    }

    fn start(&self, sections: &serde_json::Value, options: &[&str]) -> Child {
        let file = self.folder.join("sections.json");
        fs::write(&file, sections.to_string()).expect("the folder is there");
        Command::new(env!("CARGO_BIN_EXE_validate"))
            .arg("--sections")
            .arg(file)
            .args(options)
            .current_dir(self.repository())
            .env("CARGO_TARGET_DIR", self.folder.join("target"))
            .stdout(Stdio::piped())
            .spawn()
            .expect("the program starts")
    }

    fn run(&self, sections: &serde_json::Value, options: &[&str]) -> Output {
        self.start(sections, options).wait_with_output().expect("the program ends")
    }

    /// What it wrote, in both formats.
    fn pages(&self) -> [String; 2] {
        ["report.html", "report.md"].map(|name| {
            let file = self.folder.join("target/validation").join(name);
            fs::read_to_string(file).expect("it is written")
        })
    }

    fn assert_told(&self, texts: &[&str]) {
        for page in self.pages() {
            let page = page.replace('\\', "");
            texts.iter().for_each(|text| assert!(page.contains(text), "{text} in {page}"));
        }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn section(id: &str, command: &str, proof: &str, seconds: u64) -> serde_json::Value {
    serde_json::json!({
        "id": id, "title": id, "command": command, "expected": "it ends well", "proof": proof,
        "budget": [seconds, seconds],
    })
}

/// More than any section here takes.
const AMPLE: u64 = 600;
/// What does not come for so long does not come at all.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for the end of a connection, which comes when all have gone that held its other end.
fn wait_for_the_end(mut connection: TcpStream) {
    connection.set_read_timeout(Some(PATIENCE)).expect("it is a socket");
    match connection.read(&mut [0]) {
        Ok(0) => {}
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
        other => panic!("{other:?}"),
    }
}

fn terminate(child: &Child) {
    let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("it has an id");
    kill_process(id, Signal::TERM).expect("it runs");
}

#[test]
fn an_interrupted_run_has_a_report_and_goes_on_where_it_stopped() {
    let site = Site::new("interrupted");
    let sections = serde_json::json!([
        section("good", &site.counted(), "exit-code", AMPLE),
        section("bad", "echo it is broken; false", "exit-code", AMPLE),
        section("missing", "no-such-program", "exit-code", AMPLE),
        section("idle", "true", "tests", AMPLE),
        section("waits", &site.waits(), "exit-code", AMPLE),
    ]);
    let first = site.start(&sections, &[]);
    let connections = site.entered();
    terminate(&first);
    connections.into_iter().for_each(wait_for_the_end);
    let first = first.wait_with_output().expect("it ends");
    assert_eq!(first.status.code(), Some(130));
    site.assert_told(&[
        "of 5 sections 1 have passed, 3 have failed, and 1 have not run",
        "bad: exit code 1",
        "it is broken",
        "missing: exit code 127: a command is not installed",
        "idle: no test has passed",
        "waits: has not run",
    ]);

    let second = site.start(&sections, &[]);
    site.entered().into_iter().for_each(drop);
    let second = second.wait_with_output().expect("it ends");
    assert_eq!(second.status.code(), Some(1));
    assert_eq!(site.runs(), 1);
    site.assert_told(&["of 5 sections 2 have passed, 3 have failed, and 0 have not run"]);
}

#[test]
fn a_section_ends_with_its_budget_and_so_do_its_children() {
    let site = Site::new("budget");
    let sections = serde_json::json!([section("waits", &site.waits(), "exit-code", 1)]);
    let run = site.start(&sections, &[]);
    site.entered().into_iter().for_each(wait_for_the_end);
    let run = run.wait_with_output().expect("it ends");
    assert_eq!(run.status.code(), Some(1));
    site.assert_told(&["waits: ended after 1.0 s, its budget"]);
}

#[test]
fn outcomes_are_those_of_a_commit_a_command_and_unchanged_files() {
    let site = Site::new("kept");
    let sections = serde_json::json!([
        section("one", &site.counted(), "exit-code", AMPLE),
        section("two", &site.counted(), "exit-code", AMPLE),
    ]);
    let runs_of = |options: &[&str]| {
        let before = site.runs();
        assert!(site.run(&sections, options).status.success());
        site.runs() - before
    };
    assert_eq!(runs_of(&["--only", "two"]), 1);
    assert_eq!(runs_of(&[]), 1);
    assert_eq!(runs_of(&["--full"]), 0);
    assert_eq!(runs_of(&["--only", "one", "--again"]), 1);
    assert_eq!(runs_of(&[]), 0);
    site.commit();
    assert_eq!(runs_of(&[]), 2);
    fs::write(site.repository().join("draft"), "").expect("the folder is there");
    assert_eq!(runs_of(&[]), 2);
    assert_eq!(runs_of(&[]), 2);
    site.assert_told(&["1: this is not the commit, and outcomes were not kept"]);
    fs::remove_file(site.repository().join("draft")).expect("it is there");
    assert_eq!(runs_of(&[]), 0);
}

#[test]
fn results_become_tables_and_a_file_in_the_repository_is_a_fault() {
    let site = Site::new("results");
    let sections = serde_json::json!([
        section(
            "measures",
            "(echo a,b; echo '1,<x>'; echo 2,y) > {raw}/it.csv",
            "exit-code",
            AMPLE
        ),
        section("judges", "echo 'bar met: small 0.8'; echo 'bar MISSED: large 1.2'", "bars", AMPLE),
        section("litters", "touch stray", "exit-code", AMPLE),
    ]);
    assert_eq!(site.run(&sections, &[]).status.code(), Some(1));
    site.assert_told(&[
        "of 3 sections 1 have passed",
        "judges: 1 of 2 bars are missed",
        "judges: missed: large 1.2",
        "litters: the repository has changed meanwhile: ?? stray",
    ]);
    let [html, markdown] = site.pages();
    assert!(html.contains("<td>1</td><td>&lt;x&gt;</td>"), "{html}");
    assert!(markdown.contains("| 1 | \\<x\\> |"), "{markdown}");
}

#[test]
fn two_runs_do_not_measure_each_other() {
    let site = Site::new("alone");
    let sections = serde_json::json!([section("waits", &site.waits(), "exit-code", AMPLE)]);
    let first = site.start(&sections, &[]);
    let connections = site.entered();
    let second = site.run(&sections, &[]);
    assert_eq!(second.status.code(), Some(1));
    drop(connections);
    assert!(first.wait_with_output().expect("it ends").status.success());
}
