//! Foreign programs as child processes.

use crate::place::Folder;
use crate::wait::until;
use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;

/// A program that runs; killed when dropped.
pub(crate) struct Program {
    child: Child,
    /// What it writes to standard error; shown when the test fails.
    log: PathBuf,
}

impl Program {
    /// Starts `command`, with its standard error in `folder`.
    pub(crate) fn start(command: &mut Command, folder: &Folder) -> Program {
        let log = folder.path().join("stderr");
        let stderr = File::options().create(true).append(true).open(&log).unwrap();
        let child = command.stdin(Stdio::null()).stderr(stderr).spawn();
        let child = child.unwrap_or_else(|error| panic!("{command:?}: {error}"));
        Program { child, log }
    }

    /// Waits until it accepts connections there.
    pub(crate) fn listens_on(mut self, address: SocketAddr) -> Program {
        until(&format!("a listener on {address}"), || {
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none(), "ended with {ended:?}");
            TcpStream::connect(address).is_ok()
        });
        self
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    /// Ends it as a crash would.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.wait();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            let log = fs::read_to_string(&self.log).unwrap_or_default();
            eprintln!("--- {}\n{log}", self.log.display());
        }
    }
}

/// The command of a peer that has to be installed.
pub(crate) fn peer(name: &str) -> Command {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // Daemons live in sbin, which not every PATH has.
    let extra = ["/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/local/go/bin"];
    // What `go install` brings is at home.
    let gopath = std::env::home_dir().map(|home| home.join("go/bin"));
    let folders = std::env::split_paths(&path).chain(extra.map(PathBuf::from)).chain(gopath);
    let found = folders.map(|folder| folder.join(name)).find(|path| path.is_file());
    Command::new(found.unwrap_or_else(|| panic!("{name} is not installed: {}", hint(name))))
}

/// The interpreter of Debian: another one does not have the modules that Debian packages.
const PYTHON: &str = "/usr/bin/python3";

/// The Python program of that name in a folder next to this file.
pub(crate) fn python(folder: &str, name: &str, modules: &[&str]) -> Command {
    script(Command::new(PYTHON), folder, name, modules)
}

/// The same with a module that Debian does not have, or too old: install-peers.sh puts it into a folder of its name.
pub(crate) fn python_with(module: &str, folder: &str, name: &str) -> Command {
    let packages = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name(module);
    let mut command = Command::new(PYTHON);
    command.env("PYTHONPATH", packages);
    script(command, folder, name, &[module])
}

fn script(mut command: Command, folder: &str, name: &str, modules: &[&str]) -> Command {
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    let mut look = Command::new(command.get_program());
    look.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let found = look.args(["-c", &format!("import {}", modules.join(", "))]).output();
    let is_there = found.is_ok_and(|output| output.status.success());
    assert!(is_there, "{modules:?} of {PYTHON} are not installed: {}", hint("python3"));
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers").join(folder);
    command.arg(place.join(name));
    command
}

fn hint(name: &str) -> String {
    match name {
        "go" => "see https://go.dev/dl/".to_owned(),
        _ => format!("run {}", scripts().join("install-peers.sh").display()),
    }
}

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts")
}

/// Runs `command` to its end; what it wrote to standard output, if it succeeded.
pub(crate) fn output_of(command: &mut Command) -> Vec<u8> {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    let status = output.status;
    assert!(
        status.success(),
        "{command:?}: {status}\n{errors}\n{}",
        String::from_utf8_lossy(&output.stdout)
    );
    output.stdout
}
