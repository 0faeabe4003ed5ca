//! Chores of this repository: `cargo xtask tidy`, `cargo xtask dependencies`, `cargo xtask reference [--check]`.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may stop at a surprise"))]

mod tree;

mod dependencies;

mod reference;

mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "\
cargo xtask tidy                  checks the rules that neither rustc nor clippy knows
cargo xtask dependencies          checks dependencies against deny.toml
cargo xtask reference             writes docs/configuration.md and docs/access-log.schema.json from the field docs
cargo xtask reference --check     fails if that would change something";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match arguments.as_slice() {
        ["tidy"] => tidy::run(&root()),
        ["dependencies"] => dependencies::check(&root()),
        ["reference"] => reference::write(&root()),
        ["reference", "--check"] => reference::check(&root()),
        _ => Err(USAGE.to_owned()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            complain(&message);
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stderr, reason = "this program reports to a person")]
fn complain(message: &str) {
    eprintln!("{message}");
}

fn root() -> PathBuf {
    let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().expect("xtask lies in the repository").to_owned()
}
