//! Threads for what may take long: each takes batches of lines from a queue that is bounded, and ends in bounded time.

use super::figures::DestinationFigures;
use super::lines::Lines;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Writes lines where that may take long.
pub trait Sink {
    /// Writes lines, and counts each of them as written or as dropped. It may wait, as long as `end` is not over. It may also keep
    /// some of them back, until it is flushed or closed.
    fn write(&mut self, lines: &Lines, end: &End);
    /// How long it can wait for more lines before it wants to be flushed; `None` for as long as there are none.
    fn patience(&self) -> Option<Duration> {
        None
    }
    /// Writes what it has kept back.
    fn flush(&mut self, _end: &End) {}
    /// Opens anew what has a name.
    fn reopen(&mut self) {}
    /// Nothing follows: what it has kept back is written, or counted as dropped.
    fn close(&mut self, _end: &End) {}
}

/// Lines on their way to a [`Sink`], which has a thread of its own.
#[derive(Debug)]
pub(super) struct Queue {
    /// `None` when no more lines come.
    sender: Option<SyncSender<Lines>>,
    shared: Arc<Shared>,
    figures: Arc<DestinationFigures>,
    grace: Duration,
    /// Disconnected when the thread has ended.
    ended: Receiver<()>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Bytes that wait.
    bytes: AtomicUsize,
    /// Batches that wait.
    batches: AtomicUsize,
    is_to_reopen: AtomicBool,
    end: End,
}

/// When a [`Sink`] has to end, once that is known.
#[derive(Debug, Default)]
pub struct End {
    at: Mutex<Option<Instant>>,
    is_known: Condvar,
}

/// Batches that may wait.
const MOST_BATCHES: usize = 64;
/// Bytes that may wait.
const MOST_BYTES: usize = 8 << 20;
/// How long writing goes on after the last line has come.
const GRACE: Duration = Duration::from_secs(3);
/// How often a thread that waits for a descriptor looks whether it has to end.
const LOOK: Duration = Duration::from_millis(50);

impl Queue {
    /// Starts the thread, with that name. There the sink is made.
    pub(super) fn start<S: Sink>(
        name: &str,
        make: impl FnOnce() -> S + Send + 'static,
        figures: Arc<DestinationFigures>,
    ) -> io::Result<Queue> {
        Queue::with_grace(GRACE, name, make, figures)
    }

    pub(super) fn with_grace<S: Sink>(
        grace: Duration,
        name: &str,
        make: impl FnOnce() -> S + Send + 'static,
        figures: Arc<DestinationFigures>,
    ) -> io::Result<Queue> {
        let (sender, receiver) = sync_channel(MOST_BATCHES);
        let (end, ended) = sync_channel(0);
        let shared = Arc::new(Shared::default());
        let own = Arc::clone(&shared);
        thread::Builder::new().name(name.to_owned()).spawn(move || {
            own.run(&receiver, &mut make());
            drop(end);
        })?;
        Ok(Queue { sender: Some(sender), shared, figures, grace, ended })
    }

    /// Puts lines into the queue, or drops and counts them. Never waits.
    pub(super) fn write(&self, lines: &Lines) {
        let Some(sender) = self.sender.as_ref().filter(|_| !lines.is_empty()) else {
            return self.figures.add_dropped(lines.len());
        };
        let Shared { bytes, batches, .. } = &*self.shared;
        let size = lines.text.len();
        let queued = bytes.fetch_add(size, Ordering::Relaxed) + size;
        let count = batches.fetch_add(1, Ordering::Relaxed) + 1;
        if queued > MOST_BYTES || sender.try_send(lines.clone()).is_err() {
            self.shared.forget(size);
            self.figures.add_unqueued(lines.len());
            self.figures.fall_behind();
        } else if queued < MOST_BYTES / 2 && count < MOST_BATCHES / 2 {
            self.figures.catch_up();
        }
    }

    /// Opens anew what has a name, before the next lines.
    pub(super) fn reopen(&self) {
        self.shared.is_to_reopen.store(true, Ordering::Relaxed);
    }

    /// No more lines come. Those that wait are written within the time of grace, or dropped and counted. Does not wait for that.
    pub(super) fn finish(&mut self) {
        if self.sender.take().is_some() {
            self.shared.end.set(Instant::now() + self.grace);
        }
    }

    /// The same, and waits until all is written or dropped, unless the system keeps the thread from ending.
    pub(super) fn wait(&mut self) {
        self.finish();
        let slack = 2 * LOOK;
        let _ = self.ended.recv_timeout(self.shared.end.left().unwrap_or_default() + slack);
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.finish();
    }
}

impl Shared {
    fn run(&self, receiver: &Receiver<Lines>, sink: &mut impl Sink) {
        while let Some(lines) = self.next(receiver, sink) {
            if self.is_to_reopen.swap(false, Ordering::Relaxed) {
                sink.reopen();
            }
            sink.write(&lines, &self.end);
            self.forget(lines.text.len());
        }
        sink.close(&self.end);
    }

    /// The next lines, before which the sink is flushed if they are late; nothing where none follow.
    fn next(&self, receiver: &Receiver<Lines>, sink: &mut impl Sink) -> Option<Lines> {
        loop {
            let Some(patience) = sink.patience() else { return receiver.recv().ok() };
            match receiver.recv_timeout(patience) {
                Ok(lines) => return Some(lines),
                Err(RecvTimeoutError::Timeout) => sink.flush(&self.end),
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
    }

    fn forget(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.batches.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
impl End {
    /// There is only so much time from now on.
    pub(super) fn finish_within(&self, time: Duration) {
        self.set(Instant::now() + time);
    }
}

impl End {
    fn lock(&self) -> MutexGuard<'_, Option<Instant>> {
        self.at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, at: Instant) {
        *self.lock() = Some(at);
        self.is_known.notify_all();
    }

    /// The time that is left; `None` as long as nobody ends it.
    pub fn left(&self) -> Option<Duration> {
        self.lock().map(|at| at.saturating_duration_since(Instant::now()))
    }

    /// Whether no time is left.
    pub fn is_over(&self) -> bool {
        self.left() == Some(Duration::ZERO)
    }

    /// Waits so long, but not beyond the end, and not beyond the moment in which that becomes known.
    pub fn pause(&self, time: Duration) {
        let at = self.lock();
        let time = at.map_or(time, |at| time.min(at.saturating_duration_since(Instant::now())));
        let was_known = at.is_some();
        let wait = self.is_known.wait_timeout_while(at, time, |at| at.is_some() == was_known);
        drop(wait);
    }

    /// Waits until a descriptor can be written to or has failed, at most so long and not beyond the end. Whether it can.
    pub fn is_writable(&self, file: impl AsFd, most: Duration) -> io::Result<bool> {
        let until = Instant::now().checked_add(most);
        loop {
            let left = until.map_or(LOOK, |at| at.saturating_duration_since(Instant::now()));
            let time = left.min(LOOK).min(self.left().unwrap_or(LOOK));
            let time = Timespec::try_from(time).map_err(io::Error::other)?;
            let mut files = [PollFd::new(&file, PollFlags::OUT)];
            match poll(&mut files, Some(&time)) {
                Ok(0) if left.is_zero() || self.is_over() => return Ok(false),
                Ok(0) | Err(rustix::io::Errno::INTR) => {}
                Ok(_) => return Ok(true),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::trial::{figures, numbered, until};
    use super::*;
    use std::sync::Barrier;

    /// Takes a batch whenever the barrier lets it.
    struct Slow(Arc<Barrier>, Arc<DestinationFigures>);

    impl Sink for Slow {
        fn write(&mut self, lines: &Lines, _: &End) {
            self.0.wait();
            self.1.add_written(lines.len());
        }
    }

    #[test]
    fn what_does_not_fit_into_the_queue_is_dropped_and_counted() {
        let (barrier, figures) = (Arc::new(Barrier::new(2)), figures());
        let sink = Slow(Arc::clone(&barrier), Arc::clone(&figures));
        let mut queue = Queue::start("slow", || sink, Arc::clone(&figures)).unwrap();
        let lines = numbered(0, 3);
        for _ in 0..2 * MOST_BATCHES {
            queue.write(&lines);
        }
        // One may have been taken out already.
        let dropped = figures.dropped();
        let fitting = MOST_BATCHES as u64;
        assert!((3 * (fitting - 1)..=3 * fitting).contains(&dropped), "{dropped}");
        assert!(figures.take_trouble().unwrap().contains("not take them in time"));
        for _ in 0..2 * fitting - dropped / 3 {
            barrier.wait();
        }
        until("all is written", || figures.written() + figures.dropped() == 6 * fitting);
        assert!(figures.is_in_trouble(), "nothing has fitted since");
        until("what waited is forgotten", || queue.shared.batches.load(Ordering::Relaxed) == 0);
        queue.write(&lines);
        assert!(!figures.is_in_trouble());
        barrier.wait();
        queue.wait();
        assert_eq!(figures.written() + figures.dropped(), 6 * fitting + 3);
    }

    #[test]
    fn the_bytes_in_the_queue_have_a_bound() {
        let (barrier, figures) = (Arc::new(Barrier::new(2)), figures());
        let sink = Slow(Arc::clone(&barrier), Arc::clone(&figures));
        let mut queue = Queue::start("slow", || sink, Arc::clone(&figures)).unwrap();
        let half = Lines::of(&[vec![b'x'; MOST_BYTES / 2 - 1]]);
        for _ in 0..3 {
            queue.write(&half);
        }
        assert_eq!(figures.dropped(), 1);
        let large = Lines::of(&[vec![b'x'; MOST_BYTES]]);
        queue.write(&large);
        assert_eq!(figures.dropped(), 2);
        barrier.wait();
        barrier.wait();
        queue.wait();
        assert_eq!(figures.written(), 2);
    }

    #[test]
    fn a_pause_does_not_go_beyond_the_end() {
        let end = Arc::new(End::default());
        let own = Arc::clone(&end);
        let pause = Duration::from_secs(600);
        let (began, thread) = (Instant::now(), thread::spawn(move || own.pause(pause)));
        end.finish_within(Duration::from_millis(20));
        thread.join().unwrap();
        end.pause(pause);
        assert!(end.is_over());
        assert!(began.elapsed() < pause);
    }
}
