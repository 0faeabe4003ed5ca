//! What a destination counts, and what is wrong with it.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use titan_config::{LogDestination, LogTarget};

/// What a destination counts, and what is wrong with it. Any thread may read it.
#[derive(Debug)]
pub struct DestinationFigures {
    name: String,
    written: AtomicU64,
    dropped: AtomicU64,
    /// Those of them that came while the queue was full.
    unqueued: AtomicU64,
    bytes: AtomicU64,
    /// Whether `trouble` has something that is wrong now; read without the lock.
    is_in_trouble: AtomicBool,
    trouble: Mutex<Trouble>,
}

#[derive(Debug, Default)]
struct Trouble {
    /// Why it fails now.
    fault: Option<String>,
    /// Whether it takes lines more slowly than they come.
    is_behind: bool,
    /// What is to be said.
    untaken: Option<String>,
    /// Whether anything was said since it worked last.
    is_told: bool,
}

impl Trouble {
    fn is_over(&self) -> bool {
        self.fault.is_none() && !self.is_behind
    }
}

impl DestinationFigures {
    /// All zero, for each of them in their order. No name is there twice: where one repeats, the later ones have a number.
    pub fn of_all<'t>(
        destinations: impl Iterator<Item = &'t LogDestination>,
    ) -> impl Iterator<Item = DestinationFigures> {
        let mut names = HashSet::new();
        destinations.map(move |destination| {
            let mut figures = match destination {
                LogDestination::Lines(target) => DestinationFigures::new(target),
                LogDestination::Otlp(collector) => {
                    DestinationFigures::named(format!("otlp {collector}"))
                }
            };
            let first = figures.name.clone();
            let mut number = 1;
            while !names.insert(figures.name.clone()) {
                number += 1;
                figures.name = format!("{first} ({number})");
            }
            figures
        })
    }

    /// All zero.
    pub fn new(target: &LogTarget) -> DestinationFigures {
        DestinationFigures::named(match target {
            LogTarget::Stdout => "stdout".to_owned(),
            LogTarget::File { path, .. } => format!("file {}", path.display()),
            LogTarget::Syslog { address, .. } => format!("syslog {address}"),
        })
    }

    /// All zero, of what has that name.
    pub fn named(name: String) -> DestinationFigures {
        DestinationFigures {
            name,
            written: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            unqueued: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            is_in_trouble: AtomicBool::new(false),
            trouble: Mutex::default(),
        }
    }

    /// The destination as the configuration has it: `stdout`, `file /var/log/titan/access.log`, `syslog udp://10.0.0.1:514`, and
    /// for a second log to the same server `syslog udp://10.0.0.1:514 (2)`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Lines that the system has taken as a whole.
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Lines that will never be written, or not as a whole.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Those of them that came while too many waited.
    pub fn unqueued(&self) -> u64 {
        self.unqueued.load(Ordering::Relaxed)
    }

    /// Bytes that the system has taken, with what the protocol of the destination adds.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether lines are being dropped, or would be.
    pub fn is_in_trouble(&self) -> bool {
        self.is_in_trouble.load(Ordering::Relaxed)
    }

    /// Why it fails, if it does.
    pub fn fault(&self) -> Option<String> {
        self.lock().fault.clone()
    }

    /// What last went wrong, unless it was taken before: `cannot write to /var/log/a: No space left on device (os error 28)`. What
    /// goes on being wrong in the same way is told once.
    pub fn take_trouble(&self) -> Option<String> {
        let mut trouble = self.lock();
        let untaken = trouble.untaken.take();
        trouble.is_told |= untaken.is_some();
        untaken
    }

    /// Whether all that was told of is over, which is said once.
    pub fn take_recovery(&self) -> bool {
        let mut trouble = self.lock();
        let is_over = trouble.is_told && trouble.is_over();
        trouble.is_told &= !is_over;
        is_over
    }

    /// Counts lines that were written.
    pub fn add_written(&self, lines: usize) {
        self.written.fetch_add(lines as u64, Ordering::Relaxed);
    }

    /// Counts lines that will never be.
    pub fn add_dropped(&self, lines: usize) {
        self.dropped.fetch_add(lines as u64, Ordering::Relaxed);
    }

    pub(super) fn add_unqueued(&self, lines: usize) {
        self.unqueued.fetch_add(lines as u64, Ordering::Relaxed);
        self.add_dropped(lines);
    }

    /// Counts bytes that were written.
    pub fn add_bytes(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// It fails, for that reason.
    pub fn fail(&self, reason: String) {
        let mut trouble = self.lock();
        if trouble.fault.as_ref() != Some(&reason) {
            trouble.untaken = Some(reason.clone());
            trouble.fault = Some(reason);
        }
        self.is_in_trouble.store(true, Ordering::Relaxed);
    }

    /// It fails no more.
    pub fn recover(&self) {
        if self.is_in_trouble() {
            self.settle(|trouble| trouble.fault = None);
        }
    }

    /// It takes lines more slowly than they come. Of one that fails that is no news.
    pub(super) fn fall_behind(&self) {
        let mut trouble = self.lock();
        if !trouble.is_behind && trouble.fault.is_none() {
            trouble.untaken =
                Some(format!("lines for {} are dropped: it does not take them in time", self.name));
        }
        trouble.is_behind = true;
        self.is_in_trouble.store(true, Ordering::Relaxed);
    }

    /// It has taken most of what there was.
    pub(super) fn catch_up(&self) {
        if self.is_in_trouble() {
            self.settle(|trouble| trouble.is_behind = false);
        }
    }

    fn settle(&self, change: impl FnOnce(&mut Trouble)) {
        let mut trouble = self.lock();
        change(&mut trouble);
        self.is_in_trouble.store(!trouble.is_over(), Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Trouble> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use titan_config::{Facility, SyslogAddress};

    #[test]
    fn what_is_wrong_is_told_once_until_it_changes() {
        let figures = DestinationFigures::new(&LogTarget::Stdout);
        assert!(!figures.is_in_trouble());
        for _ in 0..2 {
            figures.fail("a".to_owned());
        }
        assert_eq!(figures.take_trouble().as_deref(), Some("a"));
        figures.fail("a".to_owned());
        assert_eq!(figures.take_trouble(), None);
        figures.fail("b".to_owned());
        figures.fall_behind();
        assert_eq!(figures.take_trouble().as_deref(), Some("b"));
        assert_eq!(figures.fault().as_deref(), Some("b"));
        figures.recover();
        assert_eq!(figures.fault(), None);
        assert!(figures.is_in_trouble(), "it is behind still");
        figures.catch_up();
        assert!(!figures.is_in_trouble());
        figures.fail("b".to_owned());
        assert_eq!(figures.take_trouble().as_deref(), Some("b"));
    }

    #[test]
    fn that_it_works_again_is_told_once_and_only_of_what_was_told() {
        let figures = DestinationFigures::new(&LogTarget::Stdout);
        assert!(!figures.take_recovery(), "nothing was wrong");
        figures.fail("a".to_owned());
        figures.fall_behind();
        assert!(figures.take_trouble().is_some() && !figures.take_recovery());
        figures.recover();
        assert!(!figures.take_recovery(), "it is behind still");
        figures.catch_up();
        assert!(figures.take_recovery() && !figures.take_recovery());
        figures.fail("a".to_owned());
        figures.recover();
        assert!(!figures.take_recovery(), "nobody has heard of it");
        assert!(figures.take_trouble().is_some() && figures.take_recovery());
    }

    #[test]
    fn no_two_have_the_same_name() {
        let unix = |path: &str| LogTarget::Syslog {
            address: SyslogAddress::Unix(path.into()),
            facility: Facility::USER,
            tag: "titan".to_owned(),
        };
        let targets = [unix("/a"), unix("/b"), unix("/a"), unix("/a (2)"), unix("/a")];
        let targets = targets.map(LogDestination::Lines);
        let figures = DestinationFigures::of_all(targets.iter());
        let names: Vec<_> = figures.map(|figures| figures.name().to_owned()).collect();
        let wanted = ["/a", "/b", "/a (2)", "/a (2) (2)", "/a (3)"];
        assert_eq!(names, wanted.map(|path| format!("syslog unix://{path}")));
    }

    #[test]
    fn falling_behind_is_told_of_what_does_not_fail() {
        let figures = DestinationFigures::new(&LogTarget::Stdout);
        figures.fall_behind();
        let told = figures.take_trouble().unwrap();
        assert_eq!(told, "lines for stdout are dropped: it does not take them in time");
        figures.fall_behind();
        assert_eq!(figures.take_trouble(), None);
        assert!(figures.is_in_trouble());
    }
}
