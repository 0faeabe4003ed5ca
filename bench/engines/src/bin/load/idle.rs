//! The idle run: connections that were answered once and then only cost memory.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use titan_bench::poll::Poller;
use titan_bench::report::{Job, Report, Stop};

use crate::conn::{Conn, Shared, Step};
use crate::fault::Fault;
use crate::{Usage, steady, usage};

/// So many requests are under way at a time: a proxy's pool of upstream connections stays this small,
/// and what is measured is the client connections.
const WINDOW: usize = 64;
/// A visit to all connections ends after so long, finished or not.
const VISIT: Duration = Duration::from_secs(60);
const TICK: Duration = Duration::from_millis(10);

struct Idle {
    poller: Poller,
    conns: Vec<Option<Conn>>,
    shared: Shared,
}

/// Opens the connections, each with one verified request; holds them; then asks each once more.
///
/// Memory is read before the first is opened (after a little load, so that what a proxy sets up once
/// does not count) and at the end of the silence.
pub fn run(job: &Job) -> io::Result<Report> {
    let Stop::Seconds(hold) = job.stop else {
        return Err(io::Error::other("an idle job stops after seconds"));
    };
    let begun = Instant::now();
    let mut idle = Idle { poller: Poller::new()?, conns: Vec::new(), shared: steady::shared(job)? };
    idle.conns.push(None);
    for _ in 0..WINDOW {
        idle.visit_all()?;
    }
    let before = usage(job)?;
    idle.shared.tally.measuring = true;
    idle.conns.resize_with(job.connections + 1, || None);
    idle.visit_all()?;
    idle.hold(Duration::from_secs_f64(hold))?;
    let after = usage(job)?;
    idle.visit_all()?;
    let mut report = idle.shared.tally.report(begun.elapsed());
    Usage::report(&before, &after, &mut report);
    Ok(report)
}

impl Idle {
    /// Sends one request on every connection, opening those that are not there, and waits for the responses.
    fn visit_all(&mut self) -> io::Result<()> {
        let deadline = Instant::now() + VISIT;
        let mut waiting: VecDeque<usize> = (0..self.conns.len()).collect();
        let mut under_way = 0;
        while (under_way > 0 || !waiting.is_empty()) && !self.shared.tally.hopeless() {
            while under_way < WINDOW
                && let Some(token) = waiting.pop_front()
            {
                under_way += usize::from(self.visit(token));
            }
            self.poller.wait(Some(TICK))?;
            under_way -= self.settle_events();
            if Instant::now() > deadline {
                (0..under_way + waiting.len())
                    .for_each(|_| self.shared.tally.fault(&Fault::Unanswered));
                break;
            }
        }
        Ok(())
    }

    /// Begins a request; false when that fails.
    fn visit(&mut self, token: usize) -> bool {
        let Shared { dial, script, tally, .. } = &mut self.shared;
        let sent = match self.conns[token].take() {
            Some(mut conn) => conn.send_next(script).map(|()| conn),
            None => Conn::open(dial, &self.poller, token, token)
                .and_then(|mut conn| conn.send_first(script).map(|()| conn)),
        };
        match sent {
            Ok(conn) => {
                self.conns[token] = Some(conn);
                true
            }
            Err(fault) => {
                tally.fault(&fault);
                false
            }
        }
    }

    /// Works off the last wait's events; returns how many requests ended, well or not.
    fn settle_events(&mut self) -> usize {
        let mut ended = 0;
        for index in 0..self.poller.count() {
            let ready = self.poller.ready(index);
            let Some(conn) = self.conns[ready.token].as_mut() else { continue };
            let was_busy = conn.busy();
            match conn.on_ready(ready, &mut self.shared) {
                Ok(Step::Pending) => continue,
                Ok(Step::Answered) => {}
                Ok(Step::Ended) => self.drop_conn(ready.token, &Fault::Dropped),
                Err(fault) => self.drop_conn(ready.token, &fault),
            }
            ended += usize::from(was_busy);
        }
        ended
    }

    fn drop_conn(&mut self, token: usize, fault: &Fault) {
        self.shared.tally.fault(fault);
        self.conns[token] = None;
    }

    /// Lets the connections be silent; one that closes meanwhile is a fault.
    fn hold(&mut self, time: Duration) -> io::Result<()> {
        let until = Instant::now() + time;
        while Instant::now() < until {
            self.poller.wait(Some(TICK))?;
            self.settle_events();
        }
        Ok(())
    }
}
