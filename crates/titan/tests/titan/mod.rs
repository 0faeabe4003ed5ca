//! The program as a child process, ended with the test at the latest.

use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Lines};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

const PROGRAM: &str = env!("CARGO_BIN_EXE_titan");

/// A gateway that serves.
pub(crate) struct Titan {
    child: Child,
    output: Lines<BufReader<ChildStdout>>,
    /// Its configuration.
    pub(crate) file: PathBuf,
    /// Where its listener is.
    pub(crate) address: String,
    /// Where its admin interface is.
    pub(crate) admin: Option<String>,
}

impl Titan {
    /// Starts a gateway with that configuration and waits until it listens.
    pub(crate) fn start(name: &str, text: &str) -> Titan {
        Titan::launch(name, text).listens()
    }

    fn listens(mut self) -> Titan {
        self.admin = loop {
            let line = self.output.next().expect("the gateway tells where it listens").unwrap();
            if let Some(listening) = line.strip_prefix("listening on http://") {
                self.address = listening.to_owned();
            } else if let Some(admin) = line.strip_prefix("admin ") {
                break admin.strip_prefix("on http://").map(str::to_owned);
            }
        };
        self
    }

    /// Where its probes are, which its configuration has to name.
    pub(crate) fn probes(&mut self) -> String {
        let line = self.output.next().expect("the gateway tells where its probes are").unwrap();
        line.strip_prefix("probes on http://").unwrap().to_owned()
    }

    /// Whether it has not ended.
    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// The same where [`Titan::next_complaint`] is to be asked.
    pub(crate) fn start_told(name: &str, text: &str) -> Titan {
        Titan::launch_with(name, text, Stdio::piped()).listens()
    }

    /// Starts a gateway with that configuration. It is not known when it listens, and where.
    pub(crate) fn launch(name: &str, text: &str) -> Titan {
        Titan::launch_with(name, text, Stdio::inherit())
    }

    /// Starts a gateway that watches its configuration.
    pub(crate) fn start_watching(name: &str, text: &str) -> Titan {
        Titan::launch_as(&["--watch"], name, text, Stdio::inherit()).listens()
    }

    fn launch_with(name: &str, text: &str, errors: Stdio) -> Titan {
        Titan::launch_as(&[], name, text, errors)
    }

    fn launch_as(options: &[&str], name: &str, text: &str, errors: Stdio) -> Titan {
        let mut command = Command::new(PROGRAM);
        let file = config(name, text);
        command.args(options).arg("--config").arg(&file).stdout(Stdio::piped()).stderr(errors);
        let mut child = command.spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        Titan { child, output, file, address: String::new(), admin: None }
    }

    /// The next line that it writes to standard error.
    pub(crate) fn next_complaint(&mut self) -> String {
        let errors = self.child.stderr.take().expect("it was started with `start_told`");
        BufReader::new(errors).lines().next().expect("it writes one").unwrap()
    }

    /// What it writes to standard error up to a line that is this one, and that one too.
    pub(crate) fn complaints_up_to(&mut self, last: &str) -> String {
        let errors = self.child.stderr.take().expect("it was started with `start_told`");
        let mut text = String::new();
        for line in BufReader::new(errors).lines() {
            let line = line.unwrap();
            text += &line;
            text += "\n";
            if line == last {
                return text;
            }
        }
        panic!("the gateway ended before it said `{last}`: {text}");
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).unwrap();
    }

    /// Reads its output up to a line that starts so.
    pub(crate) fn wait_for(&mut self, start: &str) {
        let is_it = |line: std::io::Result<String>| line.unwrap().starts_with(start);
        assert!(self.output.any(is_it), "the gateway ended before it said `{start}`");
    }

    pub(crate) fn exit_code(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

impl Drop for Titan {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A configuration file that no other test uses.
pub(crate) fn config(name: &str, text: &str) -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{number}.yaml"));
    std::fs::write(&path, text).unwrap();
    path
}

/// Runs the program to its end: exit code, standard output, standard error.
pub(crate) fn output<A: AsRef<OsStr>>(
    arguments: impl IntoIterator<Item = A>,
) -> (Option<i32>, String, String) {
    let output = Command::new(PROGRAM).args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Runs the program to its end with its standard output elsewhere: exit code, standard error.
pub(crate) fn output_to(out: impl Into<Stdio>, arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(PROGRAM).args(arguments).stdout(out).stderr(Stdio::piped()).output();
    let output = output.unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}
