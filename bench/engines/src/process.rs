//! What a proxy costs, read from /proc: processor time and resident memory of a process and its children.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

/// The process `root` and all its descendants: nginx's worker is a child of its master.
pub fn tree(root: u32) -> io::Result<Vec<u32>> {
    let mut parents = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        if let Some(parent) = parent(pid) {
            parents.push((pid, parent));
        }
    }
    let mut tree = vec![root];
    let mut next = 0;
    while let Some(&parent) = tree.get(next) {
        tree.extend(parents.iter().filter(|child| child.1 == parent).map(|child| child.0));
        next += 1;
    }
    Ok(tree)
}

/// User and system time of all threads of `pids` so far.
///
/// It is the scheduler's own run time in nanoseconds: what utime + stime of /proc/PID/stat say, which
/// are cut to ticks of 10 ms. A thread that has ended no longer counts, also when it ends while this reads.
pub fn cpu_time(pids: &[u32]) -> io::Result<Duration> {
    time_of_threads(pids, "")
}

/// The same of the threads whose names begin so.
pub fn time_of_threads(pids: &[u32], beginning: &str) -> io::Result<Duration> {
    let mut total = Duration::ZERO;
    for pid in pids {
        for task in fs::read_dir(format!("/proc/{pid}/task"))? {
            let task = task?.path();
            match name_of(&task).and_then(|name| Ok((name, run_time(&task)?))) {
                Err(error) if has_ended(&error) => {}
                Ok((name, _)) if !name.starts_with(beginning) => {}
                read => total += read?.1,
            }
        }
    }
    Ok(total)
}

/// User and system time of `pids` so far, with that of threads that have ended, in ticks of 10 ms.
pub fn whole_cpu_time(pids: &[u32]) -> io::Result<Duration> {
    const TICK: Duration = Duration::from_millis(10);
    let mut total = Duration::ZERO;
    for pid in pids {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        // Behind the name, which may contain anything: utime and stime are the 14th and the 15th field.
        let behind = stat.rsplit(')').next().unwrap_or_default();
        let times: Vec<&str> = behind.split_whitespace().skip(11).take(2).collect();
        for time in times {
            let ticks = u32::try_from(first_number(time)?).map_err(io::Error::other)?;
            total += TICK * ticks;
        }
    }
    Ok(total)
}

/// Resident memory of `pids` in bytes. Pages that a master and its worker share count twice.
pub fn resident(pids: &[u32]) -> io::Result<u64> {
    pids.iter().map(|pid| Ok(status_field(*pid, "VmRSS:")? * 1024)).sum()
}

/// The most memory that `pids` have had resident, each at its own time, in bytes.
pub fn peak(pids: &[u32]) -> io::Result<u64> {
    pids.iter().map(|pid| Ok(status_field(*pid, "VmHWM:")? * 1024)).sum()
}

/// The parent of a process; none when it has just ended.
fn parent(pid: u32) -> Option<u32> {
    u32::try_from(status_field(pid, "PPid:").ok()?).ok()
}

fn status_field(pid: u32, name: &str) -> io::Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    first_number(line)
}

fn name_of(task: &Path) -> io::Result<String> {
    fs::read_to_string(task.join("comm"))
}

fn run_time(task: &Path) -> io::Result<Duration> {
    first_number(&fs::read_to_string(task.join("schedstat"))?).map(Duration::from_nanos)
}

/// The file was gone when it was opened, or its thread ended between open and read.
fn has_ended(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        || error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
}

fn first_number(text: &str) -> io::Result<u64> {
    let word = text.split_whitespace().next().unwrap_or_default();
    word.parse().map_err(|_| io::Error::other(format!("/proc: no number in {text:?}")))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::sync::atomic::Ordering::Relaxed;
    use std::thread;

    use super::*;

    #[test]
    fn this_process_has_memory_and_is_its_own_tree_root() {
        let own = std::process::id();
        assert_eq!(tree(own).expect("/proc is readable")[0], own);
        assert!(resident(&[own]).expect("status is readable") > 100_000);
    }

    #[test]
    fn threads_count_by_name_and_those_that_have_ended_in_the_whole() {
        let own = [std::process::id()];
        let busy = || (0..200_000_000_u64).map(std::hint::black_box).sum::<u64>();
        let ran = thread::scope(|scope| {
            let named = thread::Builder::new().name("busy-one".to_owned());
            let run = || {
                std::hint::black_box(busy());
                time_of_threads(&own, "busy-").expect("/proc is readable")
            };
            named.spawn_scoped(scope, run).expect("there is a thread left").join().expect("it ends")
        });
        assert!(ran > Duration::from_millis(1), "{ran:?}");
        assert_eq!(time_of_threads(&own, "busy-").expect("/proc is readable"), Duration::ZERO);
        let whole = whole_cpu_time(&own).expect("/proc is readable");
        assert!(whole + Duration::from_millis(20) >= ran, "{whole:?}, {ran:?}");
    }

    #[test]
    fn a_thread_that_ends_while_its_time_is_read_does_not_count() {
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Relaxed) {
                    thread::scope(|short| drop(short.spawn(|| {})));
                }
            });
            let readings: Vec<_> = (0..2_000).map(|_| cpu_time(&[std::process::id()])).collect();
            stop.store(true, Relaxed);
            for reading in readings {
                reading.expect("no thread that ended is a failure");
            }
        });
    }
}
