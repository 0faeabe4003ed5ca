//! The configuration reference. titan-config's own test generates and compares it; this only runs it.

use std::path::Path;
use std::process::Command;

/// Writes `docs/configuration.md` anew.
pub(crate) fn write(root: &Path) -> Result<(), String> {
    run(test(root).env("UPDATE", "1"))
}

/// Fails where [`write`] would change something.
pub(crate) fn check(root: &Path) -> Result<(), String> {
    run(test(root).env_remove("UPDATE"))
}

fn test(root: &Path) -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(root).args([
        "test",
        "--quiet",
        "--package",
        "titan-config",
        "--test",
        "generated",
        "reference",
    ]);
    cargo
}

fn run(command: &mut Command) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => {
            Err("the reference does not match the field docs: run `cargo xtask reference`"
                .to_owned())
        }
        Err(error) => Err(format!("cannot run cargo: {error}")),
    }
}
