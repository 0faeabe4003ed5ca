//! What tests of destinations share.

use super::figures::DestinationFigures;
use super::lines::Lines;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use titan_config::LogTarget;

/// A temporary folder; removed when dropped.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("titan-destination-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Folder(path)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The names of what is in it, in order.
    pub(super) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// How long a thing may take that should take a moment.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Looks until it is so.
pub(super) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !is_so() {
        assert!(Instant::now() < deadline, "not within {TIMEOUT:?}: {what}");
        thread::park_timeout(Duration::from_millis(2));
    }
}

pub(super) fn figures() -> Arc<DestinationFigures> {
    Arc::new(DestinationFigures::new(&LogTarget::Stdout))
}

/// Numbered lines of different lengths: each says where it ends, so that half of one is none.
pub(super) fn numbered(from: usize, count: usize) -> Lines {
    let texts: Vec<_> = (from..from + count).map(text).collect();
    Lines::of(&texts)
}

/// The line of that number, without its line feed.
pub(super) fn text(number: usize) -> String {
    format!("<{number}{}>", "x".repeat(number % 23))
}

/// The numbers of whole lines; of anything else it panics.
pub(super) fn numbers(bytes: &[u8]) -> Vec<usize> {
    let lines = str::from_utf8(bytes).unwrap().lines();
    let number = |line: &str| {
        let digits = line.trim_start_matches('<').trim_end_matches('>').trim_end_matches('x');
        let number = digits.parse().unwrap_or_else(|_| panic!("no line: {line}"));
        assert_eq!(line, text(number));
        number
    };
    lines.map(number).collect()
}
