//! What gathers records and sends them to a collector, on a thread of its own: many in a message, one message after the other, each again
//! for a while if the collector may accept it later.

use crate::collector::{Collector, Way};
use crate::figures::{ExporterFigures, Reason};
use crate::message::Envelope;
use crate::verdict::Verdict;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use titan_observe::destination::{
    BadDestination, Destination, DestinationFigures, End, Lines, Sink,
};
use tokio::runtime::{Builder, Runtime};
use tokio::task::LocalSet;

/// Sends records. Each of the lines that it is given is one, as a field of the message.
pub(crate) struct Exporter {
    collector: Arc<Collector>,
    figures: Arc<ExporterFigures>,
    envelope: Envelope,
    /// Where connections live; without it nothing can be sent.
    engine: Option<Engine>,
    batch: Batch,
    pace: Pace,
    /// How long the next attempt waits if this one fails.
    delay: Duration,
    /// Before that time nothing is sent.
    rests_until: Option<Instant>,
}

/// What requests are made in.
struct Engine {
    runtime: Runtime,
    local: LocalSet,
    way: Rc<Way>,
}

/// Records for one message.
#[derive(Default)]
struct Batch {
    records: Vec<u8>,
    count: usize,
    /// When the first of them came.
    began: Option<Instant>,
    /// Whether the next record did not fit.
    is_sealed: bool,
}

/// How fast messages follow each other.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// How long records wait for others.
    pub(crate) gather: Duration,
    /// Between two attempts, the first time; doubled with each failure.
    pub(crate) first: Duration,
    /// Between two attempts, at most.
    pub(crate) most: Duration,
    /// How long a message is sent again.
    pub(crate) give_up: Duration,
}

const PACE: Pace = Pace {
    gather: Duration::from_secs(1),
    first: Duration::from_millis(250),
    most: Duration::from_secs(30),
    give_up: Duration::from_secs(60),
};

/// Records of one message, at most.
const MOST_RECORDS: usize = 1_024;
/// Bytes of the records of one message; a single record may be larger. Collectors take 4 MiB.
const MOST_BYTES: usize = 1 << 20;
/// How often a request looks whether it has to end.
const LOOK: Duration = Duration::from_millis(50);

/// A destination whose lines are records for that collector. It has a thread of its own.
///
/// # Errors
///
/// [`BadDestination`] if there is none.
pub fn start(
    collector: &Arc<Collector>,
    figures: &Arc<ExporterFigures>,
) -> Result<Destination, BadDestination> {
    let (collector, own) = (Arc::clone(collector), Arc::clone(figures));
    let name = format!("otlp-{}", figures.signal.name());
    let make = move || Exporter::new(collector, own, PACE);
    Destination::start(&name, make, Arc::clone(&figures.destination))
}

impl Exporter {
    pub(crate) fn new(
        collector: Arc<Collector>,
        figures: Arc<ExporterFigures>,
        pace: Pace,
    ) -> Exporter {
        let engine = Engine::new(&collector, &figures);
        let engine = engine.map_err(|error| {
            figures.destination.fail(format!("cannot send to {}: {error}", figures.collector));
        });
        Exporter {
            envelope: Envelope::new(collector.config()),
            collector,
            figures,
            engine: engine.ok(),
            batch: Batch::default(),
            pace,
            delay: pace.first,
            rests_until: None,
        }
    }

    fn figures(&self) -> &DestinationFigures {
        &self.figures.destination
    }

    /// Sends what has been gathered, until it is accepted, refused or given up.
    fn send(&mut self, end: &End) {
        let Batch { records, count, .. } = std::mem::take(&mut self.batch);
        if count == 0 {
            return;
        }
        let body = self.envelope.body(&records);
        let began = Instant::now();
        loop {
            self.rest(end);
            let Some(verdict) = self.attempt(&body, end) else {
                return self.figures.drop_records(Reason::Ended, count);
            };
            match verdict {
                Verdict::Accepted { rejected, why } => {
                    return self.accepted((count, body.len()), rejected, &why);
                }
                Verdict::Refused { why } => {
                    self.fail(&why);
                    return self.figures.drop_records(Reason::Refused, count);
                }
                Verdict::Later { after, why } => {
                    self.fail(&why);
                    self.back_off(after);
                    if began.elapsed() >= self.pace.give_up {
                        return self.figures.drop_records(Reason::Unreachable, count);
                    }
                    self.figures.add_retry();
                }
            }
        }
    }

    fn accepted(&mut self, (count, bytes): (usize, usize), rejected: u64, why: &str) {
        self.delay = self.pace.first;
        let rejected = usize::try_from(rejected).map_or(count, |rejected| rejected.min(count));
        self.figures().add_written(count - rejected);
        self.figures().add_bytes(bytes);
        if rejected == 0 {
            return self.figures().recover();
        }
        self.fail(&format!("it has rejected {rejected} of {count} records: {why}"));
        self.figures.drop_records(Reason::Rejected, rejected);
    }

    fn fail(&self, why: &str) {
        let url = &self.collector.config().endpoint.text;
        self.figures().fail(format!("cannot send to {url}: {why}"));
    }

    /// Waits until something may be sent.
    fn rest(&mut self, end: &End) {
        let left = |until: Instant| until.saturating_duration_since(Instant::now());
        while let Some(left) = self.rests_until.map(left).filter(|left| !left.is_zero()) {
            if end.is_over() {
                return;
            }
            end.pause(left);
        }
        self.rests_until = None;
    }

    /// Lets the collector rest: for as long as it asks, or twice as long as the last time. Gateways that have lost it at the same
    /// moment do not all come back at the same moment.
    fn back_off(&mut self, after: Option<Duration>) {
        let chance = self.engine.as_ref().map_or(0, |engine| engine.way.random() % 512);
        let share = 0.5 + f64::from(u16::try_from(chance).unwrap_or_default()) / 1024.0;
        let pause = after.unwrap_or_else(|| self.delay.mul_f64(share));
        self.delay = (self.delay * 2).min(self.pace.most);
        self.rests_until = Instant::now().checked_add(pause);
    }

    /// Sends a message once; nothing where there is no time for that.
    fn attempt(&self, body: &[u8], end: &End) -> Option<Verdict> {
        let Engine { runtime, local, way } = self.engine.as_ref()?;
        if end.is_over() {
            return None;
        }
        runtime.block_on(local.run_until(async {
            tokio::select! {
                verdict = way.send(body) => Some(verdict),
                () = over(end) => None,
            }
        }))
    }
}

/// Waits until no time is left.
async fn over(end: &End) {
    while !end.is_over() {
        tokio::time::sleep(LOOK).await;
    }
}

impl Engine {
    fn new(collector: &Arc<Collector>, figures: &ExporterFigures) -> std::io::Result<Engine> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let way = Way::new(Arc::clone(collector), figures.signal);
        Ok(Engine { runtime, local: LocalSet::new(), way })
    }
}

impl Sink for Exporter {
    fn write(&mut self, lines: &Lines, end: &End) {
        let mut from = 0;
        while from < lines.len() {
            from += self.batch.take(lines, from);
            if self.batch.is_full() {
                self.send(end);
            }
        }
        if self.patience() == Some(Duration::ZERO) {
            self.send(end);
        }
    }

    fn patience(&self) -> Option<Duration> {
        let began = self.batch.began?;
        Some(self.pace.gather.saturating_sub(began.elapsed()))
    }

    fn flush(&mut self, end: &End) {
        self.send(end);
    }

    fn close(&mut self, end: &End) {
        self.send(end);
    }
}

impl Batch {
    /// Takes as many lines from that one on as there is room for. How many.
    fn take(&mut self, lines: &Lines, from: usize) -> usize {
        let room = MOST_BYTES.saturating_sub(self.records.len()) as u64;
        let count = lines.fitting(from, room).min(MOST_RECORDS - self.count);
        // One that is too large goes alone.
        let count = if count == 0 && self.count == 0 { 1 } else { count };
        if count > 0 {
            self.began.get_or_insert_with(Instant::now);
        }
        self.records.extend_from_slice(lines.bytes(from..from + count));
        self.count += count;
        self.is_sealed = from + count < lines.len();
        count
    }

    /// Whether nothing more fits.
    fn is_full(&self) -> bool {
        self.is_sealed || self.count == MOST_RECORDS || self.records.len() >= MOST_BYTES
    }
}

#[cfg(test)]
mod tests;
