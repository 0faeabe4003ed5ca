//! The endpoints that sources know of, in the state directory: a start without an API server, Consul or Docker finds them.
//!
//! ```text
//! endpoints/local.json   {"local/shop":[{"address":"10.0.0.1:80","weight":1}]}
//! ```
//!
//! What the directory is on may never respond, and endpoints come and go all the time: one thread for each source writes, the newest
//! alone, and nobody waits for it.

use crate::kept;
use crate::regular_file;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use titan_config::{LogArea, LogLevel};
use titan_observe::events::{Event, Log};
use titan_sources::endpoints::{self, Endpoints};

/// Our part of the state directory.
const ENDPOINTS: &str = "endpoints";
/// Bytes of a file.
const MAX_BYTES: usize = 64 << 20;
/// How long after one write the next one follows at the earliest.
const PAUSE: Duration = Duration::from_secs(5);
/// The same after one that has failed.
const RETRY: Duration = Duration::from_secs(10);

/// Where the endpoints of a source are kept.
pub(crate) fn file_of(state: &Path, source: &str) -> PathBuf {
    state.join(ENDPOINTS).join(format!("{source}.json"))
}

/// What is kept there; nothing where there is no such file.
pub(crate) fn read(file: &Path) -> io::Result<Option<Endpoints>> {
    let read = {
        let file = file.to_owned();
        kept::patiently(move || regular_file::read(&file, MAX_BYTES))
    };
    match read.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into())) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => serde_json::from_slice(&read?).map_err(io::Error::other),
    }
}

/// Keeps the endpoints of one source, as long as it lives.
pub(crate) struct Keeper(Arc<Slot>);

#[derive(Default)]
struct Slot {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// What is to be written.
    latest: Option<Endpoints>,
    /// Since when something is being written.
    writing: Option<Instant>,
    /// Why it could not be written last.
    fault: Option<String>,
    is_over: bool,
}

impl Keeper {
    /// Starts the thread that writes `file`.
    pub(crate) fn start(file: PathBuf, log: Log) -> io::Result<Keeper> {
        Keeper::started(file, log, (PAUSE, RETRY))
    }

    fn started(file: PathBuf, log: Log, pauses: (Duration, Duration)) -> io::Result<Keeper> {
        let slot = Arc::<Slot>::default();
        let worked = Arc::clone(&slot);
        let work = move || worked.work(&file, &log, pauses);
        thread::Builder::new().name("endpoints".to_owned()).spawn(work)?;
        Ok(Keeper(slot))
    }

    /// Why a process that takes over would not know them, where that is so. Some seconds that are missing are none: it asks the source
    /// itself.
    pub(crate) fn fault(&self) -> Option<String> {
        let state = self.0.lock();
        let hangs = state.writing.is_some_and(|since| since.elapsed() >= kept::PATIENCE);
        state.fault.clone().or_else(|| hangs.then(|| "the directory does not respond".to_owned()))
    }
}

impl endpoints::Keeper for Keeper {
    /// Has them written as soon as it is their turn.
    fn keep(&self, endpoints: Endpoints) {
        self.0.lock().latest = Some(endpoints);
        self.0.changed.notify_all();
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.0.lock().is_over = true;
        self.0.changed.notify_all();
    }
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self, file: &Path, log: &Log, (pause, retry): (Duration, Duration)) {
        while let Some(endpoints) = self.next() {
            let text = serde_json::to_vec(&endpoints).map_err(io::Error::other);
            let fault = text.and_then(|text| kept::replace(file, &text)).err();
            let pause = if fault.is_some() { retry } else { pause };
            self.note_written(
                endpoints,
                fault.map(|error| format!("{}: {error}", file.display())),
                log,
            );
            self.rest(pause);
        }
    }

    /// What is to be written, once there is something; nothing at the end.
    fn next(&self) -> Option<Endpoints> {
        let is_idle = |state: &mut State| state.latest.is_none() && !state.is_over;
        let waited = self.changed.wait_while(self.lock(), is_idle);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        if state.is_over {
            return None;
        }
        state.writing = Some(Instant::now());
        state.latest.take()
    }

    fn note_written(&self, endpoints: Endpoints, fault: Option<String>, log: &Log) {
        let mut state = self.lock();
        state.writing = None;
        if let Some(fault) = &fault {
            // What was told since is newer.
            state.latest.get_or_insert(endpoints);
            if state.fault.is_none() {
                let what = format!("the endpoints of a source are not kept: {fault}");
                let event = Event::new((LogArea::Config, LogLevel::Warn), "source_not_kept", what);
                log.tell(event);
            }
        }
        state.fault = fault;
    }

    /// Waits that long, or until the end.
    fn rest(&self, pause: Duration) {
        drop(self.changed.wait_timeout_while(self.lock(), pause, |state| !state.is_over));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::num::NonZeroU16;
    use titan_sources::endpoints::{Endpoint, Keeper as _};
    use titan_testkit::waits_until;

    fn folder(name: &str) -> PathBuf {
        let folder =
            std::env::temp_dir().join(format!("titan-endpoints-{name}-{}", std::process::id()));
        drop(fs::remove_dir_all(&folder));
        folder
    }

    fn endpoints(port: u16) -> Endpoints {
        let weight = NonZeroU16::new(3).unwrap();
        let endpoint = Endpoint { address: ([127, 0, 0, 1], port).into(), weight };
        Endpoints::from([("kubernetes/a/b/80".to_owned(), vec![endpoint])])
    }

    #[test]
    fn the_newest_is_kept_and_read_again() {
        let state = folder("newest");
        let file = file_of(&state, "s");
        assert_eq!(read(&file).unwrap(), None);
        let pauses = (Duration::ZERO, Duration::ZERO);
        let keeper = Keeper::started(file.clone(), Log::default(), pauses).unwrap();
        for port in 1..100 {
            keeper.keep(endpoints(port));
        }
        waits_until("it is kept", || read(&file).unwrap() == Some(endpoints(99)));
        fs::write(&file, b"{").unwrap();
        assert!(read(&file).is_err());
        fs::remove_dir_all(state).unwrap();
    }

    #[test]
    fn what_cannot_be_written_is_tried_again_and_told_of() {
        let state = folder("again");
        fs::write(&state, b"").unwrap();
        let file = file_of(&state, "s");
        let pauses = (Duration::ZERO, Duration::from_millis(1));
        let keeper = Keeper::started(file.clone(), Log::default(), pauses).unwrap();
        assert_eq!(keeper.fault(), None);
        keeper.keep(endpoints(1));
        waits_until("it fails", || keeper.fault().is_some_and(|why| why.contains("s.json: ")));
        fs::remove_file(&state).unwrap();
        waits_until("it is kept", || keeper.fault().is_none());
        assert_eq!(read(&file).unwrap(), Some(endpoints(1)));
        fs::remove_dir_all(state).unwrap();
    }
}
