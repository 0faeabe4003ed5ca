//! The machine a run was made on, and how its cores are shared out.

use std::fmt;
use std::fs;
use std::io;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::sched_getaffinity;

/// Kept back of the descriptor limit for everything but connections.
const SPARE_DESCRIPTORS: u64 = 200;

/// A load average from which on others are in the way.
const BUSY: f64 = 0.7;

/// What the figures depend on besides the programs.
pub struct Machine {
    /// What the processor calls itself.
    pub model: String,
    /// The cores that this process may use.
    pub cores: usize,
    /// The release of Linux.
    pub kernel: String,
    /// How TCP paces what it sends; it applies to all engines alike.
    pub congestion_control: String,
    /// UTC, as 2026-01-31.
    pub date: String,
    /// The core of what is measured.
    pub proxy_core: usize,
    /// The core of the load generator.
    pub load_core: usize,
    /// The core of the service behind what is measured.
    pub origin_core: usize,
    /// Connections that one process may hold open.
    pub descriptors: usize,
}

impl Machine {
    /// Looks at this machine and raises the descriptor limit as far as it goes.
    pub fn inspect() -> io::Result<Self> {
        raise_descriptor_limit()?;
        Self::look()
    }

    /// Looks at this machine.
    pub fn look() -> io::Result<Self> {
        let allowed = sched_getaffinity(None)?;
        let usable: Vec<usize> = (0..1024).filter(|core| allowed.is_set(*core)).collect();
        let &[load_core, proxy_core, ..] = usable.as_slice() else {
            return Err(io::Error::other("the proxy needs a core of its own: two cores at least"));
        };
        Ok(Self {
            model: cpu_model()?,
            cores: usable.len(),
            kernel: kernel_setting("kernel/osrelease")?,
            congestion_control: kernel_setting("net/ipv4/tcp_congestion_control")?,
            date: today(),
            proxy_core,
            load_core,
            // With a third core the origin and the load no longer wait for each other.
            origin_core: usable.get(2).copied().unwrap_or(load_core),
            descriptors: descriptor_limit()?,
        })
    }

    /// How busy the machine is: processes that run or want to, on average of the last minute.
    pub fn load() -> io::Result<String> {
        let averages = fs::read_to_string("/proc/loadavg")?;
        Ok(averages.split(' ').next().unwrap_or_default().to_owned())
    }

    /// Other programs make every engine's rate and latency worse, and their costs noisier.
    pub fn warn_when_busy(&self) -> io::Result<()> {
        let last_minute = Self::load()?;
        if last_minute.parse::<f64>().is_ok_and(|load| load > BUSY) {
            eprintln!(
                "warning: other programs are running (load average {last_minute}): figures will be noisy"
            );
        }
        Ok(())
    }

    /// Which core does what.
    pub fn shares(&self) -> String {
        let Self { proxy_core, load_core, origin_core, .. } = self;
        format!("proxy on core {proxy_core}, load on {load_core}, origin on {origin_core}")
    }

    /// The name of a result: the date and the machine, in letters that any file system takes.
    pub fn file_name(&self) -> String {
        let model: String = self.model.chars().map(plain_letter).collect();
        let words: Vec<&str> = model.split('-').filter(|word| !word.is_empty()).collect();
        format!("{}-{}-{}-cores", self.date, words.join("-"), self.cores)
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { model, cores, kernel, congestion_control, date, .. } = self;
        write!(f, "{date}, {model}, {cores} cores, Linux {kernel}, TCP {congestion_control}")
    }
}

fn plain_letter(letter: char) -> char {
    if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' }
}

fn kernel_setting(name: &str) -> io::Result<String> {
    Ok(fs::read_to_string(format!("/proc/sys/{name}"))?.trim().to_owned())
}

fn cpu_model() -> io::Result<String> {
    let info = fs::read_to_string("/proc/cpuinfo")?;
    let field = |line: &str| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == "model name").then(|| value.replace("(R)", "").trim().to_owned())
    };
    Ok(info.lines().find_map(field).unwrap_or_else(|| std::env::consts::ARCH.to_owned()))
}

/// Children inherit it. Where the hard limit cannot be raised, it stays what it is.
fn raise_descriptor_limit() -> io::Result<()> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let wanted = Some(65_536.max(maximum.unwrap_or(u64::MAX)));
    let higher = Rlimit { current: wanted, maximum: wanted };
    if setrlimit(Resource::Nofile, higher).is_err() {
        setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?;
    }
    Ok(())
}

fn descriptor_limit() -> io::Result<usize> {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(limit - SPARE_DESCRIPTORS.min(limit)).map_err(io::Error::other)
}

fn today() -> String {
    civil_date(seconds_of_unix() / 86_400)
}

/// UTC, as 2026-01-31 09:05.
pub fn now() -> String {
    let seconds = seconds_of_unix();
    let minute = seconds / 60;
    format!("{} {:02}:{:02}", civil_date(seconds / 86_400), minute / 60 % 24, minute % 60)
}

fn seconds_of_unix() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// The Gregorian date of a day since 1970-01-01. Years are counted from March, so that the leap day is
/// the last one.
fn civil_date(days: u64) -> String {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_around_leap_days() {
        let rows = [
            (0, "1970-01-01"),
            (11_016, "2000-02-29"),
            (11_017, "2000-03-01"),
            (20_513, "2026-03-01"),
        ];
        for (days, date) in rows {
            assert_eq!(civil_date(days), date);
        }
    }
}
