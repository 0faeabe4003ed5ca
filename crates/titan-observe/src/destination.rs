//! Destinations of the access log: where lines go, each at its own speed, and what is counted there.
//!
//! One thread writes to all of them, and must not wait for any. A regular file is written at once. Whatever may wait for somebody (a
//! pipe, a terminal, a server) has a thread of its own (`Queue`), to which lines go through a queue that is bounded: what does not
//! fit is dropped and counted.

mod figures;
mod file;
mod lines;
mod pace;
mod queue;
mod stream;
mod syslog;
#[cfg(test)]
mod trial;
mod whole;

pub use figures::DestinationFigures;
pub use lines::Lines;
pub use queue::{End, Sink};

use file::{LogFile, Opened};
use queue::Queue;
use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;
use stream::Stream;
use syslog::Syslog;
use titan_config::{LogTarget, Rotation};

/// Where the lines of an access log go. When it is dropped, what waits is written by its thread in the next three seconds, or
/// dropped and counted; nobody waits for that but [`Destination::wait`].
#[derive(Debug)]
pub struct Destination(Kind);

#[derive(Debug)]
enum Kind {
    File(LogFile),
    Queue(Queue),
}

/// Why there is no destination.
#[derive(Debug)]
pub enum BadDestination {
    /// The file cannot be opened.
    File(PathBuf, io::Error),
    /// The standard output is not open.
    Stdout(io::Error),
    /// The system has no thread for it.
    Thread(io::Error),
}

impl Destination {
    /// Opens what the configuration names; relative paths start at `folder`. Servers are connected to when there are lines.
    ///
    /// # Errors
    ///
    /// [`BadDestination`] if a file cannot be opened for writing, is a FIFO that no process reads, or is something that takes no
    /// lines, such as a directory; or if there is no thread.
    pub fn open(
        target: &LogTarget,
        folder: &Path,
        figures: Arc<DestinationFigures>,
    ) -> Result<Destination, BadDestination> {
        match target {
            LogTarget::Stdout => open_stdout(figures),
            LogTarget::File { path, rotate } => {
                open_file(folder.join(path), rotate.clone(), figures)
            }
            LogTarget::Syslog { address, facility, tag } => {
                let sink = Syslog::new(address, *facility, tag, Arc::clone(&figures));
                Destination::start("log-syslog", || sink, figures)
            }
        }
    }

    /// What a sink writes, on a thread of its own with that name, where it is made.
    ///
    /// # Errors
    ///
    /// [`BadDestination`] if there is no thread.
    pub fn start<S: Sink>(
        name: &str,
        make: impl FnOnce() -> S + Send + 'static,
        figures: Arc<DestinationFigures>,
    ) -> Result<Destination, BadDestination> {
        let queue = Queue::start(name, make, figures).map_err(BadDestination::Thread)?;
        Ok(Destination(Kind::Queue(queue)))
    }

    /// Writes lines to a file, or gives them to the thread that writes them. What cannot be written is dropped and counted. `now` is
    /// the time that rotations, and pauses after failures, go by.
    pub fn write(&mut self, lines: &Lines, now: SystemTime) {
        match &mut self.0 {
            Kind::File(file) => file.write(lines, now),
            Kind::Queue(queue) => queue.write(lines),
        }
    }

    /// Opens the path of a file anew, as after somebody has moved it. Others have nothing to open.
    pub fn reopen(&mut self) {
        match &mut self.0 {
            Kind::File(file) => file.reopen(),
            Kind::Queue(queue) => queue.reopen(),
        }
    }

    /// No more lines come: from now on it has three seconds for what waits. Does not wait for that; later lines are lost. Several
    /// destinations end at the same time if all are told before the first is waited for.
    pub fn finish(&mut self) {
        match &mut self.0 {
            Kind::File(_) => {}
            Kind::Queue(queue) => queue.finish(),
        }
    }

    /// [`Destination::finish`], and waits until everything is written, or dropped and counted.
    pub fn wait(&mut self) {
        match &mut self.0 {
            Kind::File(_) => {}
            Kind::Queue(queue) => queue.wait(),
        }
    }
}

fn open_stdout(figures: Arc<DestinationFigures>) -> Result<Destination, BadDestination> {
    let stdout = rustix::stdio::stdout().try_clone_to_owned().map_err(BadDestination::Stdout)?;
    let stream = Stream::new(None, File::from(stdout), Arc::clone(&figures));
    Destination::start("log-stdout", || stream, figures)
}

fn open_file(
    path: PathBuf,
    rotation: Option<Rotation>,
    figures: Arc<DestinationFigures>,
) -> Result<Destination, BadDestination> {
    let bad = |error| BadDestination::File(path.clone(), error);
    match file::open(&path).map_err(bad)? {
        Opened::Regular(file) => {
            let file = LogFile::new(path.clone(), rotation, file, figures).map_err(bad)?;
            Ok(Destination(Kind::File(file)))
        }
        Opened::Stream(file) => {
            let stream = Stream::new(Some(path), file, Arc::clone(&figures));
            Destination::start("log-stream", || stream, figures)
        }
    }
}

impl fmt::Display for BadDestination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadDestination::File(path, error) => {
                write!(f, "cannot open the access log {}: {error}", path.display())
            }
            BadDestination::Stdout(error) => {
                write!(f, "cannot use the standard output as access log: {error}")
            }
            BadDestination::Thread(error) => {
                write!(f, "cannot start a thread for the access log: {error}")
            }
        }
    }
}

impl std::error::Error for BadDestination {}

#[cfg(test)]
mod tests;
