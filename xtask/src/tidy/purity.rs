//! titan-http, titan-h1 and titan-h2 do no I/O, read no clock and start nothing: bytes in, bytes out. titan-config reads
//! neither files nor the environment: its caller does (`Surroundings`).

use super::Finding;
use crate::tree::Tree;

const PURE: &[&str] = &["crates/titan-http/src/", "crates/titan-h1/src/", "crates/titan-h2/src/"];

/// What they must not name. Addresses of `std::net` are values, not sockets.
const IMPURE: &[&str] = &[
    "std::fs",
    "std::io::",
    "std::net::Tcp",
    "std::net::Udp",
    "std::os",
    "std::process",
    "std::sync::M",
    "std::thread",
    "std::time",
    "tokio",
    "Instant::now",
    "SystemTime",
];

const CONFIG: &str = "crates/titan-config/src/";

/// What titan-config must not name.
const AROUND_CONFIG: &[&str] = &["std::fs", "std::env", "std::process", "tokio"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, text) in tree.texts(&[".rs"]) {
        let names = match &file.path {
            path if PURE.iter().any(|folder| path.starts_with(folder)) => IMPURE,
            path if path.starts_with(CONFIG) => AROUND_CONFIG,
            _ => continue,
        };
        for (index, line) in text.lines().enumerate().filter(|(_, line)| !is_comment(line)) {
            let named = names.iter().find(|name| line.contains(*name));
            findings
                .extend(named.map(|it| {
                    Finding::line(file, index, format!("`{it}` in a crate without I/O"))
                }));
        }
    }
    findings
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with("//")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_or_a_socket_is_found() {
        let count = |path, line| check(&Tree::of(&[(path, line)])).len();
        for line in ["use std::time::Instant;", "use tokio::net::TcpStream;", "std::fs::read(path)"]
        {
            assert_eq!(count("crates/titan-h1/src/a.rs", line), 1, "{line}");
            assert_eq!(count("crates/titan-proxy/src/a.rs", line), 0, "{line}");
        }
        for line in ["std::env::var(name)", "use std::fs;"] {
            assert_eq!(count("crates/titan-config/src/a.rs", line), 1, "{line}");
        }
        for line in ["use std::net::Ipv6Addr;", "//! Reads no std::time."] {
            assert_eq!(count("crates/titan-h1/src/a.rs", line), 0, "{line}");
        }
    }
}
