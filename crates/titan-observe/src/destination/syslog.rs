//! Servers of syslog: a message for each line, as datagrams or over a connection that is opened again when it ends.

mod link;
mod message;
#[cfg(test)]
mod tests;

use super::figures::DestinationFigures;
use super::lines::Lines;
use super::queue::{End, Sink};
use link::Link;
use message::{Framing, Header};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};
use titan_config::{Facility, SyslogAddress};

/// A server of syslog.
pub(super) struct Syslog {
    address: SyslogAddress,
    header: Header,
    figures: Arc<DestinationFigures>,
    link: Option<Link>,
    pace: Pace,
    /// When the last attempt to connect began, and how long the next one waits after it.
    connected: Option<Instant>,
    delay: Duration,
    /// When it last failed, unless it has recovered.
    failed: Option<Instant>,
    /// The messages of the lines that are being sent.
    messages: Lines,
}

/// How fast it tries again.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// Between two attempts to connect, the first time; doubled with each failure.
    first: Duration,
    /// Between two attempts to connect, at most.
    most: Duration,
    /// After how long without failure it counts as recovered.
    calm: Duration,
}

const PACE: Pace = Pace {
    first: Duration::from_secs(1),
    most: Duration::from_secs(30),
    calm: Duration::from_secs(3),
};

impl Syslog {
    /// Connects when there are lines.
    pub(super) fn new(
        address: &SyslogAddress,
        facility: Facility,
        tag: &str,
        figures: Arc<DestinationFigures>,
    ) -> Syslog {
        Syslog::with(address, Header::new(facility, tag), PACE, figures)
    }

    fn with(
        address: &SyslogAddress,
        header: Header,
        pace: Pace,
        figures: Arc<DestinationFigures>,
    ) -> Syslog {
        Syslog {
            address: address.clone(),
            header,
            figures,
            link: None,
            pace,
            connected: None,
            delay: Duration::ZERO,
            failed: None,
            messages: Lines::default(),
        }
    }

    fn framing(&self) -> Framing {
        match self.address {
            SyslogAddress::Udp(_) | SyslogAddress::Unix(_) => Framing::Datagram,
            SyslogAddress::Tcp(_) => Framing::Counted,
        }
    }

    /// The connection, after as many attempts as that takes; `None` at the end.
    fn connect(&mut self, end: &End) -> Option<&mut Link> {
        if self.link.as_mut().is_some_and(|link| !link.is_usable()) {
            self.link = None;
            self.delay = self.delay.max(self.pace.first);
        }
        while self.link.is_none() {
            let since = self.connected.map_or(Duration::MAX, |at| at.elapsed());
            if since < self.delay {
                end.pause(self.delay - since);
            }
            if end.is_over() {
                return None;
            }
            self.connected = Some(Instant::now());
            match Link::open(&self.address, end) {
                Ok(link) => self.link = Some(link),
                Err(error) => self.fail("connect", &error),
            }
        }
        self.link.as_mut()
    }

    /// Sends the messages of that range. How many were sent before it failed.
    fn send(&mut self, range: Range<usize>, end: &End) -> Option<usize> {
        self.connect(end)?;
        let link = self.link.as_mut()?;
        let (count, result) = link.send(&self.messages, range.clone(), end);
        let size = self.messages.bytes(range.start..range.start + count).len();
        self.figures.add_bytes(size);
        self.figures.add_written(count);
        if count > 0 {
            self.delay = Duration::ZERO;
        }
        match result {
            Ok(()) => self.recover(),
            // That there is no time left is not the fault of the server.
            Err(_) if end.is_over() => self.link = None,
            Err(error) => {
                self.link = None;
                self.fail("send", &error);
            }
        }
        Some(count)
    }

    fn fail(&mut self, verb: &str, error: &io::Error) {
        self.failed = Some(Instant::now());
        self.delay = (self.delay * 2).clamp(self.pace.first, self.pace.most);
        self.figures.fail(format!("cannot {verb} to {}: {error}", self.address));
    }

    /// It has sent something: of datagrams an error may still be to come.
    fn recover(&mut self) {
        if self.failed.is_some_and(|at| at.elapsed() >= self.pace.calm) {
            self.failed = None;
            self.figures.recover();
        }
    }
}

impl Sink for Syslog {
    fn write(&mut self, lines: &Lines, end: &End) {
        self.header.messages(lines, self.framing(), &mut self.messages);
        let mut done = 0;
        while done < lines.len() && !end.is_over() {
            let Some(count) = self.send(done..lines.len(), end) else { break };
            done += count;
        }
        self.figures.add_dropped(lines.len() - done);
    }
}
