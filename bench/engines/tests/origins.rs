//! The driver from end to end, in front of each origin: every response through a proxy is checked byte for byte.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Every body and every way to ask for one in HTTP/1.1.
const SCENARIOS: [&str; 7] = [
    "small-64",
    "body-30k",
    "body-1m",
    "connection-per-request",
    "pipelined-16",
    "post-16k",
    "ws-echo",
];

#[test]
fn a_run_in_front_of_the_built_in_origin_has_no_errors() {
    let folder = folder("built-in", &["bench", "floor", "load", "origin"]);
    assert_right(&run(&folder, "built-in"), "built-in");
}

#[test]
fn a_run_in_front_of_shockwave_has_no_errors() {
    // It opens no tunnels: the built-in origin stands in for it there.
    let folder = folder("shockwave", &["bench", "floor", "load", "origin"]);
    build_shockwave_origin(&folder);
    assert_right(&run(&folder, "shockwave"), "shockwave");
}

/// Copies of these programs by themselves: the driver starts what lies beside it, and finds no other
/// origins there.
fn folder(name: &str, programs: &[&str]) -> PathBuf {
    let built = Path::new(env!("CARGO_BIN_EXE_bench")).parent().expect("it lies in a folder");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("origins").join(name);
    fs::create_dir_all(&folder).expect("the folder is cargo's for tests");
    for program in programs {
        fs::copy(built.join(program), folder.join(program)).expect("cargo built it for this test");
    }
    folder
}

/// What a run prints that is as short as it can be for the floor to get some time of a busy core. The floor needs
/// neither Titan nor peers.
fn run(folder: &Path, origin: &str) -> String {
    let output = Command::new(folder.join("bench"))
        .args(["--no-build", "--engine", "floor", "--rounds", "1", "--seconds", "0.5"])
        .args(["--scenario", &SCENARIOS.join(","), "--origin", origin])
        .output()
        .expect("the driver starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", output.status);
    String::from_utf8(output.stdout).expect("tables are text")
}

fn assert_right(printed: &str, origin: &str) {
    assert!(printed.contains(&format!("\norigin: {origin}\n")), "{printed}");
    let rows: Vec<&str> = printed.lines().filter(|line| line.starts_with("floor ")).collect();
    assert_eq!(rows.len(), SCENARIOS.len(), "{printed}");
    assert!(rows.iter().all(|row| row.ends_with(" 0")), "{printed}");
}

fn build_shockwave_origin(folder: &Path) {
    let status = Command::new("go")
        .args(["build", "-o"])
        .arg(folder.join("origin-shockwave"))
        .arg("./origin")
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("go"))
        .status()
        .expect("go is installed");
    assert!(status.success(), "{status}");
}
