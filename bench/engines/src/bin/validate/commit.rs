//! What is validated: a commit, and how the files differ from it.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The state of the repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    pub id: String,
    /// A line of `git status` for each file that is not as in the commit.
    pub changes: Vec<String>,
}

impl Commit {
    pub fn look(root: &Path) -> io::Result<Self> {
        let changes = git(root, &["status", "--porcelain"])?;
        Ok(Self {
            id: git(root, &["rev-parse", "HEAD"])?,
            changes: changes.lines().map(str::to_owned).collect(),
        })
    }

    /// Outcomes of changed files are nothing to build on: they may have changed since.
    pub fn is_clean(&self) -> bool {
        self.changes.is_empty()
    }

    /// What has changed since.
    pub fn changed_since(&self, earlier: &Self) -> Vec<String> {
        let is_news = |change: &&String| !earlier.changes.contains(change);
        self.changes.iter().filter(is_news).cloned().collect()
    }
}

/// The root of the repository that this program was started in.
pub fn root() -> io::Result<PathBuf> {
    git(Path::new("."), &["rev-parse", "--show-toplevel"]).map(PathBuf::from)
}

fn git(root: &Path, arguments: &[&str]) -> io::Result<String> {
    let output = Command::new("git").args(arguments).current_dir(root).output();
    let output = output.map_err(|error| io::Error::other(format!("git: {error}")))?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        return Err(io::Error::other(format!("git {}: {error}", arguments.join(" "))));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}
