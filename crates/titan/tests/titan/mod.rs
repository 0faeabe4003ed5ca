//! The program as a child process, ended with the test at the latest.

mod lines;

use lines::Lines;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// The program of this build, unless another one is to be tested.
pub(crate) fn program() -> PathBuf {
    std::env::var_os("TITAN_PROGRAM").unwrap_or(env!("CARGO_BIN_EXE_titan").into()).into()
}

/// A gateway that serves.
pub(crate) struct Titan {
    child: Child,
    /// The process that serves.
    pid: Pid,
    output: Lines,
    events: Lines,
    /// Complaints that were read while the test waited for something else.
    passed: VecDeque<String>,
    /// Its configuration.
    pub(crate) file: PathBuf,
    /// Where its listener is.
    pub(crate) address: String,
    /// Where its admin interface is.
    pub(crate) admin: Option<String>,
    /// Where the Unix socket of that is, unless its configuration says otherwise.
    pub(crate) socket: PathBuf,
}

impl Titan {
    /// Starts a gateway with that configuration and waits until it listens.
    pub(crate) fn start(name: &str, text: &str) -> Titan {
        Titan::launch(name, text).listens()
    }

    fn listens(mut self) -> Titan {
        self.admin = loop {
            let line = self.output.next().expect("the gateway tells where it listens");
            if let Some(listening) = line.strip_prefix("listening on http://") {
                self.address = listening.to_owned();
            } else if let Some(admin) = line.strip_prefix("admin ") {
                let on = |scheme| admin.strip_prefix(scheme).map(str::to_owned);
                break on("on http://").or_else(|| on("on https://"));
            }
        };
        self
    }

    /// Where its probes are, which its configuration has to name.
    pub(crate) fn probes(&mut self) -> String {
        let line = self.output.next().expect("the gateway tells where its probes are");
        line.strip_prefix("probes on http://").unwrap().to_owned()
    }

    /// Whether it has not ended.
    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Starts a gateway with that configuration. It is not known when it listens, and where.
    pub(crate) fn launch(name: &str, text: &str) -> Titan {
        Titan::launch_as(&[], name, text)
    }

    /// Starts a gateway that watches its configuration.
    pub(crate) fn start_watching(name: &str, text: &str) -> Titan {
        Titan::launch_as(&["--watch"], name, text).listens()
    }

    /// Starts a gateway that can write to no file, as on a full disk.
    pub(crate) fn start_without_space(name: &str, text: &str) -> Titan {
        let file = config(name, text);
        let mut command = Command::new("sh");
        // Ignored, the signal becomes an error of the write.
        command.args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$@\"", "sh"]).arg(program());
        command.process_group(0).arg("--config").arg(&file);
        Titan::spawn(command, file, &runtime_directory()).listens()
    }

    /// Starts a gateway whose socket would be where that of another one is. With what it complains of first.
    pub(crate) fn start_beside(other: &Titan, text: &str) -> (Titan, String) {
        let directory = other.socket.parent().unwrap().to_owned();
        let mut titan = Titan::launch_in(&directory, &program(), &[], config("beside", text));
        titan = titan.listens();
        let complaint = titan.next_complaint();
        // The directory is the other one's.
        titan.socket = runtime_directory().join("admin.sock");
        (titan, complaint)
    }

    fn launch_as(options: &[&str], name: &str, text: &str) -> Titan {
        Titan::launch_from(&program(), options, config(name, text))
    }

    /// Starts a gateway from another path, and waits until it listens.
    pub(crate) fn start_from(program: &Path, name: &str, text: &str) -> Titan {
        Titan::launch_from(program, &[], config(name, text)).listens()
    }

    /// Starts a gateway with that command, and waits until it listens.
    pub(crate) fn start_by(command: Command, name: &str, text: &str) -> Titan {
        Titan::launch_by(command, name, text).listens()
    }

    /// Starts a gateway with that command.
    pub(crate) fn launch_by(mut command: Command, name: &str, text: &str) -> Titan {
        let file = config(name, text);
        command.process_group(0).arg("--config").arg(&file);
        Titan::spawn(command, file, &runtime_directory())
    }

    /// The process that serves.
    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    /// Starts a gateway that reads its configuration from its standard input, and waits until it listens.
    pub(crate) fn start_from_input(name: &str, text: &str) -> Titan {
        let file = File::open(config(name, text)).unwrap();
        let mut command = Command::new(program());
        command.args(["--config", "-"]).stdin(file);
        let directory = runtime_directory();
        Titan::spawn(command, PathBuf::from("-"), &directory).listens()
    }

    fn launch_from(program: &Path, options: &[&str], file: PathBuf) -> Titan {
        Titan::launch_in(&runtime_directory(), program, options, file)
    }

    fn launch_in(directory: &Path, program: &Path, options: &[&str], file: PathBuf) -> Titan {
        let mut command = Command::new(program);
        command.args(options).arg("--config").arg(&file);
        Titan::spawn(command, file, directory)
    }

    fn spawn(mut command: Command, file: PathBuf, directory: &Path) -> Titan {
        // Successors are in its group, and end with it.
        command.process_group(0).env("RUNTIME_DIRECTORY", directory);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let output = Lines::of(child.stdout.take().unwrap());
        let events = Lines::of(child.stderr.take().unwrap());
        let (pid, socket) = (Pid::from_child(&child), directory.join("admin.sock"));
        let (address, passed) = (String::new(), VecDeque::new());
        Titan { child, pid, output, events, passed, file, address, admin: None, socket }
    }

    /// The next event, without its time.
    fn next_event(&mut self) -> Option<String> {
        self.events.next().map(|line| without_time(&line).to_owned())
    }

    /// The next event that is a warning or worse, or the next line that is no event.
    pub(crate) fn next_complaint(&mut self) -> String {
        if let Some(line) = self.passed.pop_front() {
            return line;
        }
        loop {
            let line = self.next_event().expect("it complains");
            if is_complaint(&line) {
                return line;
            }
        }
    }

    /// The events up to one that ends so, and that one too.
    pub(crate) fn events_up_to(&mut self, last: &str) -> String {
        self.events_up_to_that(|line| line.ends_with(last))
    }

    /// The same for an event that is so.
    pub(crate) fn events_up_to_that(&mut self, is_last: impl Fn(&str) -> bool) -> String {
        let mut text = String::new();
        while let Some(line) = self.next_event() {
            text += &line;
            text += "\n";
            if is_last(&line) {
                return text;
            }
        }
        panic!("the gateway ended before it said that: {text}");
    }

    /// Makes a call at the Unix socket of its admin interface: status and body.
    pub(crate) fn call(
        &self,
        method: &str,
        target: &str,
        fields: &[&str],
        body: &str,
    ) -> (u16, String) {
        call(UnixStream::connect(&self.socket).unwrap(), method, target, fields, body)
    }

    /// What it and its successors complain of until they have ended.
    pub(crate) fn all_complaints(&mut self) -> String {
        let events = std::iter::from_fn(|| self.next_event());
        events.filter(|line| is_complaint(line)).map(|line| line + "\n").collect()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid, signal).unwrap();
    }

    /// Has a successor start and serve; it gets the next signals.
    pub(crate) fn upgrades(&mut self) {
        self.signal(Signal::USR2);
        self.is_succeeded();
    }

    /// Waits until it says that a successor serves; that gets the next signals.
    pub(crate) fn is_succeeded(&mut self) {
        let pid = self.waits_for("info upgrade process=");
        let pid = pid.split(' ').next().and_then(|pid| pid.parse().ok()).and_then(Pid::from_raw);
        self.pid = pid.unwrap();
    }

    /// Waits until it has ended, and its successors too.
    pub(crate) fn ends(&mut self) {
        self.output.by_ref().for_each(drop);
    }

    /// Waits for an event with these words; what stands behind them.
    pub(crate) fn waits_for(&mut self, words: &str) -> String {
        let mut told = String::new();
        while let Some(line) = self.next_event() {
            if let Some((_, rest)) = line.split_once(words) {
                return rest.to_owned();
            }
            told += &line;
            told += "\n";
            if is_complaint(&line) {
                self.passed.push_back(line);
            }
        }
        panic!("the gateway ended before it said `{words}`: {told}")
    }

    /// What stands in the next line of its output behind that start.
    pub(crate) fn next_output(&mut self, start: &str) -> String {
        let rest = |line: String| line.strip_prefix(start).map(str::to_owned);
        let found = self.output.find_map(rest);
        found.unwrap_or_else(|| panic!("the gateway ended before it said `{start}`"))
    }

    pub(crate) fn exit_code(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

impl Drop for Titan {
    fn drop(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(self.socket.parent().unwrap());
    }
}

/// The line of an event without the time, which each begins with.
fn without_time(line: &str) -> &str {
    let is_time = |text: &str| text.starts_with("20") && text.ends_with('Z') && text.contains('T');
    match line.split_once(' ') {
        Some((time, rest)) if is_time(time) => rest,
        _ => line,
    }
}

fn is_complaint(line: &str) -> bool {
    !line.starts_with("info ") && !line.starts_with("debug ")
}

/// Makes a call of an admin interface over that connection: status and body.
pub(crate) fn call(
    mut stream: impl Read + Write,
    method: &str,
    target: &str,
    fields: &[&str],
    body: &str,
) -> (u16, String) {
    let fields: String = fields.iter().map(|field| format!("{field}\r\n")).collect();
    let length = body.len();
    write!(
        stream,
        "{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{fields}Content-Length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    (head[9..12].parse().unwrap(), body.to_owned())
}

/// A directory for the socket of one process, with a short path: that of a socket has at most 107 bytes.
fn runtime_directory() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("titan-run-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// A configuration file that no other test uses.
pub(crate) fn config(name: &str, text: &str) -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{number}.yaml"));
    // An earlier run may have left a link there, which leads elsewhere.
    let _ = std::fs::remove_file(&path);
    std::fs::write(&path, text).unwrap();
    path
}

/// Runs the program to its end: exit code, standard output, standard error.
pub(crate) fn output<A: AsRef<OsStr>>(
    arguments: impl IntoIterator<Item = A>,
) -> (Option<i32>, String, String) {
    let directory = runtime_directory();
    let mut command = Command::new(program());
    let output = command.args(arguments).env("RUNTIME_DIRECTORY", &directory).output().unwrap();
    std::fs::remove_dir_all(directory).unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Runs the program to its end with its standard output elsewhere: exit code, standard error.
pub(crate) fn output_to(out: impl Into<Stdio>, arguments: &[&str]) -> (Option<i32>, String) {
    let output =
        Command::new(program()).args(arguments).stdout(out).stderr(Stdio::piped()).output();
    let output = output.unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}
