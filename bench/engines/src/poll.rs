//! Edge-triggered epoll over tokens: the shared polling call of the floor, the origin and the load.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};

/// One response of epoll takes at most this many events; more wait for the next call.
const EVENTS_PER_WAIT: usize = 512;

/// An epoll instance; a token names the descriptor that an event belongs to.
pub struct Poller {
    epoll: OwnedFd,
    events: Vec<Event>,
}

/// What happened to the descriptor behind `token`.
#[derive(Clone, Copy)]
pub struct Ready {
    /// The token given to [`Poller::add`].
    pub token: usize,
    flags: EventFlags,
}

impl Ready {
    /// There is something to read: bytes, the end, or an error.
    pub fn readable(self) -> bool {
        self.flags
            .intersects(EventFlags::IN | EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR)
    }

    /// The peer has sent its last byte, so that a short read is not yet the end of what is there.
    pub fn ended(self) -> bool {
        self.flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR)
    }

    /// There is room to write again.
    pub fn writable(self) -> bool {
        self.flags.contains(EventFlags::OUT)
    }
}

impl Poller {
    /// A fresh epoll instance.
    pub fn new() -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        Ok(Self { epoll, events: Vec::with_capacity(EVENTS_PER_WAIT) })
    }

    /// Watches a connection, edge-triggered, for reading and writing, until it is closed.
    ///
    /// One registration serves its whole life: the kernel wakes for room to write only after a write
    /// came up short, so asking for it always costs nothing.
    pub fn add(&self, fd: impl AsFd, token: usize) -> io::Result<()> {
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        Ok(epoll::add(&self.epoll, fd, EventData::new_u64(token as u64), flags)?)
    }

    /// Watches a listening socket, level-triggered: what one round does not accept, the next one sees.
    pub fn add_listener(&self, fd: impl AsFd, token: usize) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, fd, EventData::new_u64(token as u64), EventFlags::IN)?)
    }

    /// Waits for events, at most `timeout` when one is given.
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let timeout = timeout.map(|time| Timespec {
            tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: time.subsec_nanos().into(),
        });
        self.events.clear();
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// How many events the last wait brought.
    pub fn count(&self) -> usize {
        self.events.len()
    }

    /// One of the last wait's events; `index < count()`.
    pub fn ready(&self, index: usize) -> Ready {
        let event = self.events[index];
        Ready { token: event.data.u64() as usize, flags: event.flags }
    }
}
