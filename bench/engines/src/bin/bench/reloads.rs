//! Other configurations for an engine under load.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::launch::Running;

/// The routes of a configuration that is reloaded, beside the one that is asked for.
const ROUTES: usize = 9_999;
const EVERY: Duration = Duration::from_millis(100);
/// What the gateway says of a reload, and of one that it refuses.
const DONE: &str = "is in force";
const REFUSED: &str = "stays in force";

/// Reloads until it is ended.
pub struct Reloading {
    stop: SyncSender<()>,
    thread: JoinHandle<io::Result<()>>,
    begin: Instant,
    done: usize,
}

/// The place of definitions that stands for routes, and these.
pub fn routes() -> (&'static str, String) {
    let line = |number: usize| {
        let (tenant, service) = (number % 100, number / 100);
        format!(
            "  - {{ name: route-{number}, path: /tenants/{tenant}/services/{service}, upstream: origin }}\n"
        )
    };
    ("{{routes}}", (0..ROUTES).map(line).collect())
}

impl Reloading {
    /// Puts another configuration in place of the engine's ten times a second, and tells it.
    pub fn start(engine: &Running, file: &Path) -> io::Result<Self> {
        let id = i32::try_from(engine.id()).ok().and_then(Pid::from_raw);
        let id = id.ok_or_else(|| io::Error::other("the engine has no process"))?;
        let variants = variants(file)?;
        let link = file.to_path_buf();
        let (stop, stopped) = sync_channel(0);
        let thread = thread::spawn(move || {
            for variant in variants.iter().cycle() {
                if stopped.recv_timeout(EVERY) != Err(RecvTimeoutError::Timeout) {
                    break;
                }
                let next = link.with_extension("next");
                symlink(variant, &next)?;
                fs::rename(&next, &link)?;
                kill_process(id, Signal::HUP)?;
            }
            Ok(())
        });
        let done = engine.log()?.matches(DONE).count();
        Ok(Self { stop, thread, begin: Instant::now(), done })
    }

    /// Ends it; how many reloads there were in a second. What was told faster than it could be done was done once.
    pub fn end(self, engine: &Running) -> io::Result<f64> {
        let Self { stop, thread, begin, done } = self;
        drop(stop);
        thread.join().map_err(|_| io::Error::other("the reloading thread panicked"))??;
        let (took, log) = (begin.elapsed(), engine.log()?);
        let reloads = log.matches(DONE).count() - done;
        if reloads == 0 || log.contains(REFUSED) {
            return Err(io::Error::other(format!("{reloads} reloads:\n{log}")));
        }
        Ok(reloads as f64 / took.as_secs_f64())
    }
}

/// Two files like that one: the second has a route at another path.
fn variants(file: &Path) -> io::Result<[PathBuf; 2]> {
    let text = fs::read_to_string(file)?;
    let other = text.replace("/tenants/0/services/0,", "/tenants/0/services/other,");
    let paths = ["first", "second"].map(|ending| file.with_extension(ending));
    for (path, text) in paths.iter().zip([text, other]) {
        fs::write(path, text)?;
    }
    Ok(paths)
}
