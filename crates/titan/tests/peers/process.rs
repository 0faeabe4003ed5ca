//! What Linux knows of a process: its descriptors, its memory, the states of its sockets.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::collections::HashSet;
use std::fs;

/// How many descriptors it has open.
pub(crate) fn descriptors(id: u32) -> usize {
    fs::read_dir(format!("/proc/{id}/fd")).unwrap().count()
}

/// The names of its threads, in order.
pub(crate) fn threads(id: u32) -> Vec<String> {
    let entries = fs::read_dir(format!("/proc/{id}/task")).unwrap().flatten();
    // One that has just ended has no name.
    let names = entries.filter_map(|entry| fs::read_to_string(entry.path().join("comm")).ok());
    let mut names: Vec<_> = names.map(|name| name.trim_end().to_owned()).collect();
    names.sort();
    names
}

/// How much memory it has, in bytes.
pub(crate) fn resident(id: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim_end_matches("kB").trim().parse::<u64>().unwrap() * 1024
}

/// How many TCP connections it has, in whatever state. Sockets that listen are none.
pub(crate) fn connections(id: u32) -> usize {
    let own = sockets(id);
    let tables = ["tcp", "tcp6"].map(|table| fs::read_to_string(format!("/proc/net/{table}")));
    let text: String = tables.into_iter().flatten().collect();
    text.lines().filter(|line| is_connection(line, &own)).count()
}

/// The inodes of its sockets.
fn sockets(id: u32) -> HashSet<String> {
    let entries = fs::read_dir(format!("/proc/{id}/fd")).unwrap().flatten();
    let links = entries.filter_map(|entry| fs::read_link(entry.path()).ok());
    let inode = |link: &str| Some(link.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned());
    links.filter_map(|link| inode(link.to_str()?)).collect()
}

/// Whether a line of /proc/net/tcp is about one of these sockets, and does not listen.
fn is_connection(line: &str, sockets: &HashSet<String>) -> bool {
    const LISTEN: &str = "0A";
    let columns: Vec<_> = line.split_whitespace().collect();
    columns.get(3) != Some(&LISTEN) && columns.get(9).is_some_and(|id| sockets.contains(*id))
}

/// More descriptors for this process and its children, as many as it may have.
pub(crate) fn raise_descriptors() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
}
