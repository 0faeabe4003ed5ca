//! How near the gateway is to its own limits, and which steps that calls for.
//!
//! Descriptors and memory are those of the process, and measured beside the workers ([`Pressure::watch`]). Lag is a worker's own:
//! each measures it by its ticks.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::time::Duration;
use std::{fmt, fs, io};
use titan_config::{LogArea, LogLevel};
use titan_io::error::is_shortage;
use titan_observe::events::{Event, Field, Log, Repeat};

/// What of the process is near its limit, and how near: one for all workers.
#[derive(Default)]
pub struct Pressure {
    level: AtomicU8,
    /// In hundredths of a percent.
    descriptors: AtomicU32,
    memory: AtomicU32,
    log: Log,
}

/// The steps, each with those before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum PressureLevel {
    /// Nothing to do.
    #[default]
    None,
    /// Connections close after their response.
    StopKeepAlive,
    /// Requests that matter least are refused.
    Shed,
    /// No connection is accepted.
    StopAccepting,
}

/// A part of the whole in hundredths of a percent; more than the whole where a limit is exceeded.
type Share = u32;

const ALL: Share = 10_000;

/// A step ends when the share is that much below its threshold.
const MARGIN: Share = 500;
/// The time between two measurements.
const PAUSE: Duration = Duration::from_millis(500);

impl PressureLevel {
    const ALL: [PressureLevel; 4] = [
        PressureLevel::None,
        PressureLevel::StopKeepAlive,
        PressureLevel::Shed,
        PressureLevel::StopAccepting,
    ];

    /// The level that follows this one at that share.
    fn next(self, share: Share, settings: Option<&titan_config::Pressure>) -> PressureLevel {
        let Some(settings) = settings else { return PressureLevel::None };
        let titan_config::Pressure { stop_keep_alive, shed, stop_accepting, .. } = settings;
        let steps = [stop_keep_alive, shed, stop_accepting].map(|step| step.as_hundredths().into());
        let reached = |threshold: &dyn Fn(Share) -> Share| {
            steps.iter().take_while(|step| share >= threshold(**step)).count()
        };
        // One that is lower than the margin could never end.
        let ends = |step: Share| step - MARGIN.min(step / 2);
        let (rises, stays) = (reached(&|step| step), reached(&ends));
        PressureLevel::ALL[rises.max(stays.min(self as usize))]
    }

    /// What the operator is told where it has come to this, from a lower level or from a higher one.
    fn event(self, rises: bool, what: impl fmt::Display) -> Event {
        let kind = match self {
            PressureLevel::None => "pressure_ended",
            PressureLevel::StopKeepAlive => "pressure_stop_keep_alive",
            PressureLevel::Shed => "pressure_shed",
            PressureLevel::StopAccepting => "pressure_stop_accepting",
        };
        let level = if rises { LogLevel::Warn } else { LogLevel::Info };
        Event::new((LogArea::Pressure, level), kind, what)
            .state_of("pressure")
            .once(Repeat::ByMinute)
    }

    fn words(self) -> &'static str {
        match self {
            PressureLevel::None => "all requests are served again",
            PressureLevel::StopKeepAlive => "connections close after their response",
            PressureLevel::Shed => "sheddable requests are refused",
            PressureLevel::StopAccepting => "no connection is accepted",
        }
    }
}

impl Pressure {
    /// No pressure yet; `log` is told when that changes.
    pub(crate) fn new(log: Log) -> Pressure {
        Pressure { log, ..Pressure::default() }
    }

    /// The level of the process.
    pub fn level(&self) -> PressureLevel {
        PressureLevel::ALL[usize::from(self.level.load(Ordering::Relaxed))]
    }

    /// The descriptors in use, and the memory, as parts of what there may be.
    pub fn shares(&self) -> [f64; 2] {
        let share = |share: &AtomicU32| f64::from(share.load(Ordering::Relaxed)) / 1e4;
        [share(&self.descriptors), share(&self.memory)]
    }

    /// Measures for ever.
    pub(crate) async fn watch(
        &self,
        settings: impl Fn() -> Option<titan_config::Pressure>,
    ) -> Infallible {
        let mut pause = tokio::time::interval(PAUSE);
        pause.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            pause.tick().await;
            self.measure(settings().as_ref());
        }
    }

    fn measure(&self, settings: Option<&titan_config::Pressure>) {
        let most = settings.and_then(|it| it.max_memory).map(titan_config::ByteSize::bytes);
        let [descriptors, memory] =
            [&self.descriptors, &self.memory].map(|it| it.load(Ordering::Relaxed));
        let descriptors = share_of_descriptors(open_descriptors(), descriptors);
        let memory = resident_memory()
            .map_or(memory, |resident| share(resident, most.or_else(memory_limit)));
        self.descriptors.store(descriptors, Ordering::Relaxed);
        self.memory.store(memory, Ordering::Relaxed);
        let before = self.level();
        let level = before.next(descriptors.max(memory), settings);
        self.level.store(level as u8, Ordering::Relaxed);
        if level != before {
            let [descriptors, memory] = [descriptors, memory].map(|share| share / 100);
            let what = format!(
                "{descriptors}% of the descriptors and {memory}% of the memory are in use: {}",
                level.words()
            );
            self.log.tell(level.event(level > before, what));
        }
    }

    /// The level of a worker whose ticks are that late, after `before`.
    pub(crate) fn of_lag(
        &self,
        worker: usize,
        lag: Duration,
        before: PressureLevel,
        settings: Option<&titan_config::Pressure>,
    ) -> PressureLevel {
        let most = settings.map_or(Duration::MAX, |settings| settings.max_lag);
        let micros = |duration: Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let level = before.next(share(micros(lag), Some(micros(most))), settings);
        // New connections would cost a worker that is late more than those that it has.
        let acts = |level| level > PressureLevel::StopKeepAlive;
        if level != before && (acts(level) || acts(before)) {
            let words = if acts(level) { level.words() } else { PressureLevel::None.words() };
            let event =
                level.event(level > before, format!("the worker is {lag:.1?} late: {words}"));
            self.log.tell(event.with(Field::Worker, worker));
        }
        level
    }
}

/// What is not known does not count.
fn share(used: u64, most: Option<u64>) -> Share {
    let share = most.map_or(0, |most| u128::from(used) * u128::from(ALL) / u128::from(most.max(1)));
    Share::try_from(share).unwrap_or(Share::MAX)
}

/// Counting them may take one itself: where there is none left, that says enough. Another failure is no relief either.
fn share_of_descriptors(open: io::Result<u64>, before: Share) -> Share {
    match open {
        Ok(open) => share(open, most_descriptors()),
        Err(error) if is_shortage(&error) => ALL,
        Err(_) => before,
    }
}

/// Since Linux 6.2 the size of the directory is their number.
pub(crate) fn open_descriptors() -> io::Result<u64> {
    let folder = Path::new("/proc/self/fd");
    match fs::metadata(folder).map_or(0, |it| it.len()) {
        0 => Ok(fs::read_dir(folder)?.count() as u64),
        count => Ok(count),
    }
}

pub(crate) fn most_descriptors() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current
}

pub(crate) fn resident_memory() -> io::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    Ok(kilobytes.unwrap_or(0) * 1024)
}

/// The least that the control group of the process, and those around it, may have.
fn memory_limit() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    least_limit(Path::new("/sys/fs/cgroup"), &groups)
}

fn least_limit(root: &Path, groups: &str) -> Option<u64> {
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let mut folder: PathBuf = root.join(group);
    let mut least = None;
    while folder.starts_with(root) {
        let limit = fs::read_to_string(folder.join("memory.max")).ok();
        let limit = limit.and_then(|limit| limit.trim().parse::<u64>().ok());
        least = least.into_iter().chain(limit).min();
        if !folder.pop() {
            break;
        }
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> titan_config::Pressure {
        let text = "listeners: [':80']\nroutes: [{ respond: 204 }]";
        titan_config::Config::parse("test", text).unwrap().pressure.unwrap()
    }

    #[test]
    fn a_step_begins_at_its_threshold_and_ends_below_it() {
        use PressureLevel::{None, Shed, StopAccepting, StopKeepAlive};
        let settings = settings();
        let mut level = None;
        for (percent, expected) in [
            (79, None),
            (80, StopKeepAlive),
            (90, Shed),
            (86, Shed),
            (97, StopAccepting),
            (93, StopAccepting),
            (91, Shed),
            (84, StopKeepAlive),
            (76, StopKeepAlive),
            (74, None),
            (400, StopAccepting),
            (0, None),
        ] {
            level = level.next(percent * 100, Some(&settings));
            assert_eq!(level, expected, "{percent}%");
        }
        assert_eq!(StopAccepting.next(10_000, Option::None), None, "off");
        let text =
            "listeners: [':80']\nroutes: [{ respond: 204 }]\npressure: { stop_keep_alive: 4% }";
        let low = titan_config::Config::parse("test", text).unwrap().pressure;
        assert_eq!(
            [300, 200, 100].map(|share| StopKeepAlive.next(share, low.as_ref())),
            [StopKeepAlive, StopKeepAlive, None]
        );
    }

    #[test]
    fn what_the_process_uses_is_measured() {
        let before = open_descriptors().unwrap();
        let files: Vec<_> = (0..200).map(|_| fs::File::open("/dev/null").unwrap()).collect();
        assert!(open_descriptors().unwrap() > before.saturating_sub(100) + 100, "{before}");
        drop(files);
        assert!(most_descriptors().is_none_or(|most| most > before));
        let memory = resident_memory().unwrap();
        assert!(memory > 1 << 20, "{memory}");
    }

    #[test]
    fn what_cannot_be_measured_is_no_relief() {
        let none_left = Err(rustix::io::Errno::MFILE.into());
        assert_eq!(share_of_descriptors(none_left, 9_600), ALL);
        assert_eq!(share_of_descriptors(Err(io::ErrorKind::NotFound.into()), 9_600), 9_600);
        assert!(share_of_descriptors(open_descriptors(), ALL) < ALL);
    }

    #[test]
    fn the_least_limit_of_the_groups_counts() {
        let root = std::env::temp_dir().join(format!("titan-pressure-{}", std::process::id()));
        let inner = root.join("a/b");
        fs::create_dir_all(&inner).unwrap();
        let groups = "1:name=systemd:/x\n0::/a/b\n";
        assert_eq!(least_limit(&root, groups), None);
        fs::write(inner.join("memory.max"), "max\n").unwrap();
        fs::write(root.join("a/memory.max"), "1000\n").unwrap();
        assert_eq!(least_limit(&root, groups), Some(1000));
        fs::write(inner.join("memory.max"), "300\n").unwrap();
        assert_eq!(least_limit(&root, groups), Some(300));
        assert_eq!(least_limit(&root, "4:memory:/a\n"), None);
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn a_worker_that_is_late_says_so_once() {
        let (pressure, settings) = (Pressure::default(), settings());
        let mut level = PressureLevel::None;
        for millis in [100, 4200, 4600, 4700, 0] {
            let lag = Duration::from_millis(millis);
            level = pressure.of_lag(1, lag, level, Some(&settings));
        }
        let events = pressure.log.take();
        let told: Vec<_> =
            events.iter().map(|it| (it.field(Field::Worker), it.message())).collect();
        let late = "the worker is 4.6s late: sheddable requests are refused";
        let back = "the worker is 0.0ns late: all requests are served again";
        assert_eq!(told, [(Some("1"), late), (Some("1"), back)]);
        assert!(events.iter().all(|it| it.subject() == "pressure"));
    }
}
