//! Builds the programs of a run, or finds them.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder that holds definitions and results.
pub fn bench_directory() -> PathBuf {
    let engines = Path::new(env!("CARGO_MANIFEST_DIR"));
    engines.parent().unwrap_or(engines).to_path_buf()
}

/// The path of an installed program; daemons live in sbin, which may not be on PATH.
pub fn installed(name: &str) -> io::Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from))
        .map(|directory| directory.join(name))
        .find(|file| file.is_file())
        .ok_or_else(|| {
            io::Error::other(format!("{name} is not installed: run scripts/install-peers.sh"))
        })
}

/// The folder of the whole project.
pub fn repository() -> PathBuf {
    bench_directory().join("..")
}

/// A program that cargo has built in the root's workspace.
pub fn built(profile: &str, name: &str) -> PathBuf {
    target().join(profile).join(name)
}

/// The path of a program as `scripts/install-http3-peers.sh` installs it.
pub fn installed_for_http3(name: &str) -> io::Result<PathBuf> {
    let path = target().join("sid/bin").join(name);
    if path.is_file() {
        return Ok(path);
    }
    Err(io::Error::other(format!(
        "{} is not there: run scripts/install-http3-peers.sh",
        path.display()
    )))
}

fn target() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR");
    target.map_or_else(|| repository().join("target"), PathBuf::from)
}

/// The folder of the program that asks.
pub fn own_directory() -> io::Result<PathBuf> {
    let own = std::env::current_exe()?;
    own.parent()
        .map(Path::to_path_buf)
        .ok_or_else(|| io::Error::other("this program has no folder"))
}

/// Builds in a workspace, with the versions of its lock file.
pub fn cargo_build(workspace: &Path, arguments: &[&str]) -> io::Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--locked"]).args(arguments).current_dir(workspace);
    if command.status()?.success() {
        return Ok(());
    }
    Err(io::Error::other(format!("cargo build failed in {}", workspace.display())))
}

/// Builds a package of `go/`.
pub fn go_build(package: &str, program: &Path) -> io::Result<()> {
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("go");
    let mut command = Command::new("go");
    command.args(["build", "-o"]).arg(program).arg(package).current_dir(&module);
    let status =
        command.status().map_err(|error| io::Error::other(format!("go build: {error}")))?;
    if status.success() {
        return Ok(());
    }
    Err(io::Error::other(format!("go build failed in {}", module.display())))
}

/// The first word with a digit in front or after a slash: `nginx/1.22.1`, `HAProxy version 2.6.12`.
pub fn first_version(path: &Path, flag: impl AsRef<OsStr>) -> io::Result<String> {
    let output = Command::new(path)
        .arg(flag)
        .output()
        .map_err(|error| io::Error::other(format!("{}: {error}", path.display())))?;
    // nginx answers on its standard error.
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let mut numbers = text.split_whitespace().map(|word| word.rsplit('/').next().unwrap_or(word));
    let version = numbers.find(|word| word.starts_with(|first: char| first.is_ascii_digit()));
    Ok(version.unwrap_or("unknown").to_owned())
}
