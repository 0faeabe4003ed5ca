//! The state directory, in which one thread alone works. What it is on may never respond: then nobody else waits for it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, SyncSender};
use std::thread;
use std::time::Duration;
use titan_admin::history::{Directory, Stored};
use tokio::sync::oneshot;

/// The way to the thread that works in the state directory. It ends with the last of these.
#[derive(Clone)]
pub(crate) struct Storage {
    jobs: SyncSender<Job>,
    path: Arc<Path>,
}

type Job = Box<dyn FnOnce(&mut Directory) + Send>;

/// How long others wait for the directory.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// More jobs than this do not wait: one that writes, and those that nobody waits for any more.
const WAITING: usize = 4;

impl Storage {
    /// Starts a thread for the directory at `path`, which need not exist.
    pub(super) fn new(path: PathBuf) -> Storage {
        let (jobs, todo) = mpsc::sync_channel::<Job>(WAITING);
        let shown = Arc::from(path.as_path());
        let work = move || {
            let mut directory = Directory::new(path);
            todo.into_iter().for_each(|job| job(&mut directory));
        };
        // Where there is no thread no job is done, which is told.
        drop(thread::Builder::new().name("history".to_owned()).spawn(work));
        Storage { jobs, path: shown }
    }

    /// Has a job done behind those that wait. Nothing comes of one that cannot be done.
    pub(super) fn begin<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Directory) -> T + Send + 'static,
    ) -> oneshot::Receiver<T> {
        let (done, outcome) = oneshot::channel();
        // Where nobody waits any more nothing is to be told.
        self.send(move |directory| drop(done.send(job(directory))));
        outcome
    }

    /// What the configuration with that id said.
    pub(super) fn load(&self, id: u64) -> Result<Stored, String> {
        let loaded = self.wait_for(move |directory| directory.load(id), PATIENCE)?;
        loaded.map_err(|error| error.to_string())
    }

    /// Lets another process write there, until there is something to write again. Where the directory does not respond it does
    /// so as soon as it does.
    pub(crate) fn release(&self) {
        // The other process tries again until it may write.
        let _ = self.wait_for(Directory::release, PATIENCE);
    }

    /// That the directory does not respond.
    pub(super) fn silence(&self) -> String {
        format!("the state directory {} has not responded for {PATIENCE:?}", self.path.display())
    }

    /// Has a job done, and waits for it; not on a runtime's thread.
    fn wait_for<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Directory) -> T + Send + 'static,
        patience: Duration,
    ) -> Result<T, String> {
        let (done, outcome) = mpsc::sync_channel(1);
        self.send(move |directory| drop(done.send(job(directory))));
        outcome.recv_timeout(patience).map_err(|_| self.silence())
    }

    /// A job that finds no room is dropped, and whoever waits for it hears that.
    fn send(&self, job: impl FnOnce(&mut Directory) + Send + 'static) {
        let _ = self.jobs.try_send(Box::new(job));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_for_long_where_a_job_hangs() {
        let storage = Storage::new(PathBuf::from("/nowhere"));
        let (resume, hang) = mpsc::sync_channel::<()>(0);
        let hangs = storage.begin(move |_| hang.recv());
        for _ in 0..2 * WAITING {
            let told = storage.wait_for(|_| (), Duration::ZERO).unwrap_err();
            assert_eq!(told, "the state directory /nowhere has not responded for 5s");
        }
        drop(resume);
        assert!(hangs.blocking_recv().unwrap().is_err());
        // What waits is done first, and has no room for more until then.
        while storage.wait_for(|_| (), PATIENCE).is_err() {
            thread::yield_now();
        }
    }
}
