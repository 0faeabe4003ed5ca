//! What outcomes depend on besides the commit: the machine, and the versions of what is installed.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};
use titan_bench::machine::Machine;
use titan_bench::programs::installed;

/// In place of a version.
const NOT_INSTALLED: &str = "not installed";
/// What a program says of itself can be long.
const MAX_LENGTH: usize = 120;

/// Names with their values, in the order of the report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts(pub Vec<(String, String)>);

/// Programs, and what each is asked for its version with. testssl.sh takes seconds for that, and says it when it runs.
const PROGRAMS: [(&str, &str); 24] = [
    ("rustc", "--version"),
    ("cargo", "--version"),
    ("go", "version"),
    ("cc", "--version"),
    ("nginx", "-v"),
    ("haproxy", "-v"),
    ("lighttpd", "-v"),
    ("curl", "--version"),
    ("nghttp", "--version"),
    ("h2load", "--version"),
    ("h2spec", "--version"),
    ("wrk", "-v"),
    ("openssl", "version"),
    ("slowhttptest", "-h"),
    ("python3", "--version"),
    ("node", "--version"),
    ("chromium", "--version"),
    ("prometheus", "--version"),
    ("redis-server", "--version"),
    ("etcd", "--version"),
    ("dockerd", "--version"),
    ("rsyslogd", "-v"),
    ("strace", "--version"),
    ("cargo-deny", "--version"),
];

/// What the scripts put into the target folder.
const UNPACKED: [(&str, &str); 6] = [
    ("sid/bin/nginx", "-v"),
    ("sid/bin/haproxy", "-v"),
    ("sid/bin/curl", "--version"),
    ("chaos-peers/nginx", "-v"),
    ("chaos-peers/haproxy", "-v"),
    ("chaos-peers/envoy", "--version"),
];

impl Facts {
    /// Looks at this machine and at what is installed on it.
    pub fn look(target: &Path) -> io::Result<Self> {
        let Machine { model, cores, kernel, congestion_control, .. } = Machine::look()?;
        let machine = [
            ("processor", model),
            ("cores", cores.to_string()),
            ("kernel", format!("Linux {kernel}")),
            ("TCP", congestion_control),
        ];
        let mut facts: Vec<_> =
            machine.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        facts.extend(programs(target).map(|(name, path, flag)| (name, version(path, flag))));
        Ok(Self(facts))
    }

    /// Looks for what was not installed: a section may have done that.
    pub fn look_again(&mut self, target: &Path) {
        for (name, path, flag) in programs(target) {
            let is_missing =
                |fact: &&mut (String, String)| fact.0 == name && fact.1 == NOT_INSTALLED;
            if let Some((_, value)) = self.0.iter_mut().find(is_missing) {
                *value = version(path, flag);
            }
        }
    }

    /// Whether outcomes with those facts are outcomes with these. A program may have been installed since.
    pub fn continue_those(&self, earlier: &Self) -> bool {
        let names = |facts: &Self| facts.0.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        let agree = |((_, now), (_, then)): (&(String, String), &(String, String))| {
            now == then || then == NOT_INSTALLED
        };
        names(self) == names(earlier) && self.0.iter().zip(&earlier.0).all(agree)
    }
}

/// Each program's name in the report, its path if it has one, and what it is asked for its version with.
fn programs(target: &Path) -> impl Iterator<Item = (String, Option<PathBuf>, &'static str)> {
    let installed = PROGRAMS.into_iter().map(|(name, flag)| (name.to_owned(), find(name), flag));
    let unpacked = |(path, flag)| (format!("target/{path}"), Some(target.join(path)), flag);
    installed.chain(UNPACKED.into_iter().map(unpacked))
}

/// `go install` puts programs where the PATH need not lead.
fn find(name: &str) -> Option<PathBuf> {
    let of_go = || Some(std::env::home_dir()?.join("go/bin").join(name));
    installed(name).ok().or_else(of_go)
}

/// The first line of what a program says of itself.
fn version(program: Option<PathBuf>, flag: &str) -> String {
    let output = program.and_then(|program| Command::new(program).arg(flag).output().ok());
    let Some(output) = output else { return NOT_INSTALLED.to_owned() };
    // nginx answers on its standard error.
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let line =
        text.lines().map(str::trim).find(|line| line.contains(|it: char| it.is_ascii_digit()));
    let letters = line.unwrap_or("unknown").chars().filter(|letter| !letter.is_control());
    letters.take(MAX_LENGTH).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(nginx: &str, go: &str) -> Facts {
        let fact = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        Facts(vec![fact("nginx", nginx), fact("go", go)])
    }

    #[test]
    fn what_was_installed_since_changes_nothing_but_another_version_does() {
        let now = facts("1.22.1", "1.25");
        assert!(now.continue_those(&facts("1.22.1", "1.25")));
        assert!(now.continue_those(&facts(NOT_INSTALLED, "1.25")));
        assert!(!now.continue_those(&facts("1.22.0", "1.25")));
        assert!(!facts(NOT_INSTALLED, "1.25").continue_those(&now));
        assert!(!now.continue_those(&Facts::default()));
    }
}
