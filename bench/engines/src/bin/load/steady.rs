//! The steady run: a fixed number of connections, each of which asks again as soon as it is answered.

use std::io;
use std::time::{Duration, Instant};

use titan_bench::poll::{Poller, Ready};
use titan_bench::report::{Job, Report, Stop};

use crate::answer::KnownHead;
use crate::coded::KnownBody;
use crate::conn::{Conn, Shared, Step};
use crate::fault::Fault;
use crate::script::Script;
use crate::tally::Tally;
use crate::transport::Dial;
use crate::{Usage, usage};

/// One read takes at most this much.
const BUFFER: usize = 256 * 1024;
/// How often the clock is looked at when nothing is ready.
const TICK: Duration = Duration::from_millis(10);
/// Without any answer for so long, the run ends and what is owed counts as errors.
const STALLED: Duration = Duration::from_secs(10);
/// How long the responses that are owed at the end may take.
const DRAIN: Duration = Duration::from_secs(5);

/// Where a run stands.
enum Phase {
    Warming {
        until: Instant,
    },
    Measuring {
        since: Instant,
        before: Usage,
    },
    /// The measurement is over; answers under way are still verified.
    Draining {
        until: Instant,
    },
}

struct Steady<'a> {
    job: &'a Job,
    poller: Poller,
    conns: Vec<Option<Conn>>,
    shared: Shared,
    /// Requests sent since the measurement began, for a job that counts them.
    asked: u64,
    /// How many responses there were when their number was last seen to change, and when that was.
    progress: (u64, Instant),
}

/// State that all connections of a run share, empty.
pub fn shared(job: &Job) -> io::Result<Shared> {
    Ok(Shared {
        dial: Dial::lay_out(job)?,
        script: Script::lay_out(job)?,
        tally: Tally::default(),
        known: KnownHead::default(),
        known_body: KnownBody::default(),
        buffer: vec![0; BUFFER].into_boxed_slice(),
    })
}

/// Runs a job whose connections are all busy.
pub fn run(job: &Job) -> io::Result<Report> {
    let mut steady = Steady {
        job,
        poller: Poller::new()?,
        conns: Vec::new(),
        shared: shared(job)?,
        asked: 0,
        progress: (0, Instant::now()),
    };
    steady.conns.resize_with(job.connections, || None);
    // Spread over all batches there are, so that all of them come early.
    let apart = (steady.shared.script.count() / job.connections.max(1)).max(1);
    for token in 0..job.connections {
        steady.open(token, token * apart);
    }
    steady.run()
}

impl Steady<'_> {
    fn run(mut self) -> io::Result<Report> {
        let mut phase = Phase::Warming { until: after(Instant::now(), self.job.warm_up) };
        let mut report = Report::default();
        loop {
            let now = Instant::now();
            phase = self.advance(phase, now, &mut report)?;
            if self.done(&phase, now) {
                return Ok(self.finish(&report));
            }
            self.poller.wait(Some(TICK))?;
            let sending = !matches!(phase, Phase::Draining { .. });
            for index in 0..self.poller.count() {
                self.on_ready(self.poller.ready(index), sending);
            }
        }
    }

    fn advance(&mut self, phase: Phase, now: Instant, report: &mut Report) -> io::Result<Phase> {
        match phase {
            Phase::Warming { until } if now >= until => self.start_measuring(),
            Phase::Measuring { since, before } if self.over(now, since) => {
                self.shared.tally.measuring = false;
                report.seconds = now.duration_since(since).as_secs_f64();
                Usage::report(&before, &usage(self.job)?, report);
                Ok(Phase::Draining { until: now + DRAIN })
            }
            same => Ok(same),
        }
    }

    /// Whether the run ends: as it should, or because no responses come, or too many wrong ones.
    fn done(&mut self, phase: &Phase, now: Instant) -> bool {
        let answered = self.shared.tally.answered;
        if answered != self.progress.0 {
            self.progress = (answered, now);
        }
        let drained =
            matches!(phase, Phase::Draining { until } if now >= *until || self.all_quiet());
        drained || now - self.progress.1 > STALLED || self.shared.tally.hopeless()
    }

    fn start_measuring(&mut self) -> io::Result<Phase> {
        let before = usage(self.job)?;
        self.shared.tally.measuring = true;
        let busy = self.conns.iter().flatten().filter(|conn| conn.busy()).count();
        self.asked = (busy * self.shared.script.depth) as u64;
        Ok(Phase::Measuring { since: Instant::now(), before })
    }

    fn over(&self, now: Instant, since: Instant) -> bool {
        match self.job.stop {
            Stop::Seconds(seconds) => now >= after(since, seconds),
            Stop::Requests(count) => self.shared.tally.requests >= count,
        }
    }

    /// Whether another batch may be sent.
    fn wants_more(&self) -> bool {
        match self.job.stop {
            Stop::Seconds(_) => true,
            Stop::Requests(count) => !self.shared.tally.measuring || self.asked < count,
        }
    }

    fn all_quiet(&self) -> bool {
        !self.conns.iter().flatten().any(Conn::busy)
    }

    fn on_ready(&mut self, ready: Ready, sending: bool) {
        let Some(conn) = self.conns[ready.token].as_mut() else { return };
        let batch = conn.batch();
        match conn.on_ready(ready, &mut self.shared) {
            Ok(Step::Pending) => {}
            Ok(step) if !(sending && self.wants_more()) => {
                if step == Step::Ended {
                    self.conns[ready.token] = None;
                }
            }
            Ok(Step::Answered) => self.send_next(ready.token),
            Ok(Step::Ended) => {
                self.shared.tally.reconnects += u64::from(!self.shared.script.fresh);
                self.open(ready.token, batch + 1);
            }
            Err(fault) => {
                self.shared.tally.fault(&fault);
                self.conns[ready.token] = None;
                if sending {
                    self.open(ready.token, batch + 1);
                }
            }
        }
    }

    fn send_next(&mut self, token: usize) {
        let Some(conn) = self.conns[token].as_mut() else { return };
        self.asked += self.shared.script.depth as u64;
        if let Err(fault) = conn.send_next(&self.shared.script) {
            self.shared.tally.fault(&fault);
            self.conns[token] = None;
        }
    }

    /// Puts a new connection in place of what was there, its first batch under way.
    fn open(&mut self, token: usize, batch: usize) {
        // The old socket goes first: its descriptor must not outlive it under the same token.
        self.conns[token] = None;
        self.asked += self.shared.script.depth as u64;
        let opened = Conn::open(&self.shared.dial, &self.poller, token, batch)
            .and_then(|mut conn| conn.send_first(&self.shared.script).map(|()| conn));
        match opened {
            Ok(conn) => self.conns[token] = Some(conn),
            Err(fault) => self.shared.tally.fault(&fault),
        }
    }

    fn finish(mut self, measured: &Report) -> Report {
        for _ in self.conns.iter().flatten().filter(|conn| conn.busy()) {
            self.shared.tally.fault(&Fault::Unanswered);
        }
        let full = self.shared.tally.full_handshakes;
        if full > self.shared.script.full_handshakes {
            self.shared.tally.fault(&Fault::NotResumed(full));
        }
        let Report {
            seconds, cpu_ns, whole_cpu_ns, worker_cpu_ns, resident_before, resident, ..
        } = *measured;
        let counted = self.shared.tally.report(Duration::from_secs_f64(seconds));
        Report { cpu_ns, whole_cpu_ns, worker_cpu_ns, resident_before, resident, ..counted }
    }
}

fn after(start: Instant, seconds: f64) -> Instant {
    start + Duration::from_secs_f64(seconds)
}
