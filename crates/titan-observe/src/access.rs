//! The access log: which records are written, and as what.

use crate::destination::{Destination, Lines};
use crate::format::{Formatter, WriteRecord};
use crate::observer::Subscriber;
use crate::record::{Recorded, Text};
use crate::ring::Batch;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;
use titan_config::{AccessLog, LogAlways, LogOnly, Percent};

/// One destination of the access log, with what it wants to have.
pub struct AccessLogWriter {
    only: LogOnly,
    share: Percent,
    always: LogAlways,
    writer: Box<dyn WriteRecord>,
    lines: Lines,
    destination: Arc<Mutex<Destination>>,
    /// What the next number of chance follows from.
    chance: u64,
}

impl AccessLogWriter {
    /// What a configuration says, to that destination. The next configuration may go on with the same one; only the thread of the
    /// observer, which tells one configuration after the other, locks it.
    pub fn new(log: &AccessLog, destination: Arc<Mutex<Destination>>) -> AccessLogWriter {
        let formatter = Formatter::new(&log.format, &log.captures);
        AccessLogWriter::with(log, Box::new(formatter), destination)
    }

    /// The same with records as that writes them.
    pub fn with(
        log: &AccessLog,
        writer: Box<dyn WriteRecord>,
        destination: Arc<Mutex<Destination>>,
    ) -> AccessLogWriter {
        let AccessLog { to: _, format: _, captures: _, only, share, always, location: _ } = log;
        AccessLogWriter {
            only: only.clone(),
            share: *share,
            always: always.clone(),
            writer,
            lines: Lines::default(),
            destination,
            // Never 0, which would stay.
            chance: RandomState::new().build_hasher().finish() | 1,
        }
    }

    fn destination(&self) -> MutexGuard<'_, Destination> {
        self.destination.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a record is written.
    fn wants(&mut self, record: &Recorded<'_>) -> bool {
        is_always(&self.always, record) || is_among(&self.only, record) && self.is_drawn()
    }

    /// Whether the next one belongs to the share that is written.
    fn is_drawn(&mut self) -> bool {
        if self.share == Percent::ALL {
            return true;
        }
        // Xorshift: what is drawn has to be spread, not unforeseeable.
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        self.share.takes(self.chance)
    }
}

fn is_always(always: &LogAlways, record: &Recorded<'_>) -> bool {
    let LogAlways { failures, statuses, slower_than } = always;
    let facts = &record.facts;
    *failures && facts.caused_by.is_some()
        || facts.status.is_some_and(|status| statuses.contains(status))
        || slower_than.is_some_and(|limit| facts.took > limit)
}

fn is_among(only: &LogOnly, record: &Recorded<'_>) -> bool {
    let LogOnly { routes, statuses, slower_than } = only;
    let (facts, route) = (&record.facts, record.text(Text::Route));
    let is_its_route = || routes.iter().any(|name| name.as_str().as_bytes() == route);
    (routes.is_empty() || is_its_route())
        && (statuses.is_empty() || facts.status.is_some_and(|status| statuses.contains(status)))
        && slower_than.is_none_or(|limit| facts.took > limit)
}

impl Subscriber for AccessLogWriter {
    fn take(&mut self, batch: &Arc<Batch>) {
        let mut records = batch.records();
        self.lines.clear();
        while let Some((record, rest)) = Recorded::first_of(records) {
            if self.wants(&record) {
                let AccessLogWriter { writer, lines, .. } = self;
                writer.write(&record, &mut lines.text);
                lines.end(record.facts.started);
            }
            records = rest;
        }
        if !self.lines.is_empty() {
            self.destination().write(&self.lines, SystemTime::now());
        }
    }

    fn reopen(&mut self) {
        self.destination().reopen();
    }

    fn finish(&mut self) {
        self.destination().finish();
    }

    fn wait(self: Box<Self>) {
        self.destination().wait();
    }
}
