//! Runs with many requests under way at once, whatever protocol carries them: each place for one is a task that asks,
//! verifies, and asks again.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Request, Response, StatusCode, Version};
use titan_bench::payload::{Ask, Target};
use titan_bench::report::{Job, Report, Stop};
use titan_bench::tls;
use tokio::task::{JoinSet, LocalSet};

use crate::fault::Fault;
use crate::tally::Tally;
use crate::{Usage, usage};

/// How often the clock is looked at.
const TICK: Duration = Duration::from_millis(10);
/// Without any answer for so long, the run ends.
const STALLED: Duration = Duration::from_secs(10);
/// How long the responses that are owed at the end may take.
const DRAIN: Duration = Duration::from_secs(5);

/// What requests are sent by: a connection, or what opens one for each of them.
pub trait Client: Clone + 'static {
    /// Sends the request of that variant and verifies its response.
    async fn exchange(&mut self, load: &Load, variant: usize) -> Result<(), Fault>;

    /// Whether it can send another one after that fault.
    fn survives(&self, fault: &Fault) -> bool;
}

/// What all places of a run share.
pub struct Load {
    pub job: Job,
    pub requests: Vec<Request<()>>,
    /// What is posted, by variant.
    pub bodies: Vec<Bytes>,
    pub answers: Vec<Vec<u8>>,
    pub tally: RefCell<Tally>,
    /// Requests sent, for a job that counts them.
    asked: Cell<u64>,
    /// Nothing more is asked.
    over: Cell<bool>,
    /// Requests under way.
    owed: Cell<u64>,
}

/// Runs a job on this thread alone.
pub fn run<F>(job: &Job, measure: impl FnOnce(Rc<Load>) -> F) -> io::Result<Report>
where
    F: Future<Output = io::Result<Report>>,
{
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let load = Rc::new(Load::lay_out(job.clone())?);
    LocalSet::new().block_on(&runtime, measure(load))
}

/// Keeps so many requests under way by each client.
pub async fn measure<C: Client>(
    load: Rc<Load>,
    clients: &[C],
    places: usize,
) -> io::Result<Report> {
    let mut tasks = JoinSet::new();
    for (first, client) in clients.iter().enumerate() {
        for place in 0..places {
            let (load, client) = (Rc::clone(&load), client.clone());
            tasks.spawn_local(async move { load.ask_by(client, first + place).await });
        }
    }
    let begun = Instant::now();
    load.watch(&tasks, begun + Duration::from_secs_f64(load.job.warm_up), |_| false).await;
    let before = usage(&load.job)?;
    load.tally.borrow_mut().measuring = true;
    let since = Instant::now();
    let (end, enough) = load.end(since);
    load.watch(&tasks, end, enough).await;
    load.tally.borrow_mut().measuring = false;
    let seconds = since.elapsed();
    let after = usage(&load.job)?;
    load.over.set(true);
    load.watch(&tasks, Instant::now() + DRAIN, |load| load.owed.get() == 0).await;
    let mut report = load.report(seconds);
    Usage::report(&before, &after, &mut report);
    Ok(report)
}

impl Load {
    fn lay_out(job: Job) -> io::Result<Self> {
        let variants = 0..job.target.variants();
        let scheme = if job.tls.is_some() { "https" } else { "http" };
        let asks: Vec<Ask> = variants.clone().map(|variant| job.target.ask(variant)).collect();
        let requests: Result<_, _> =
            asks.iter().map(|ask| request(job.target, scheme, ask)).collect();
        Ok(Self {
            requests: requests.map_err(io::Error::other)?,
            bodies: asks.into_iter().map(|ask| ask.body.into()).collect(),
            answers: variants.map(|variant| job.target.answer(variant)).collect(),
            tally: RefCell::default(),
            asked: Cell::new(0),
            over: Cell::new(false),
            owed: Cell::new(0),
            job,
        })
    }

    /// When the measurement ends at the latest, and what ends it before that.
    fn end(&self, since: Instant) -> (Instant, fn(&Self) -> bool) {
        match self.job.stop {
            Stop::Seconds(seconds) => (since + Duration::from_secs_f64(seconds), |_| false),
            Stop::Requests(_) => (since + Duration::from_secs(3600), Self::asked_and_answered),
        }
    }

    fn asked_and_answered(&self) -> bool {
        self.owed.get() == 0 && !self.wants_more()
    }

    /// Waits for `until`, for `enough`, or until the run is in vain.
    async fn watch(&self, tasks: &JoinSet<()>, until: Instant, enough: impl Fn(&Self) -> bool) {
        let mut progress = (0, Instant::now());
        while Instant::now() < until && !enough(self) && !tasks.is_empty() {
            tokio::time::sleep(TICK.min(until - Instant::now())).await;
            let tally = self.tally.borrow();
            if tally.answered != progress.0 {
                progress = (tally.answered, Instant::now());
            }
            if tally.hopeless() || progress.1.elapsed() > STALLED {
                break;
            }
        }
    }

    fn wants_more(&self) -> bool {
        match self.job.stop {
            _ if self.over.get() || self.tally.borrow().hopeless() => false,
            Stop::Seconds(_) => true,
            Stop::Requests(count) => !self.tally.borrow().measuring || self.asked.get() < count,
        }
    }

    /// One place for a request, until the run ends or its client fails.
    async fn ask_by<C: Client>(&self, mut client: C, first: usize) {
        for place in first.. {
            if !self.wants_more() {
                return;
            }
            let variant = place % self.requests.len();
            if self.tally.borrow().measuring {
                self.asked.set(self.asked.get() + 1);
            }
            let sent = Instant::now();
            self.owed.set(self.owed.get() + 1);
            let answered = client.exchange(self, variant).await;
            self.owed.set(self.owed.get() - 1);
            match answered {
                Ok(()) => self.tally.borrow_mut().answer(
                    sent,
                    Instant::now(),
                    self.answers[variant].len(),
                ),
                Err(fault) => {
                    self.tally.borrow_mut().fault(&fault);
                    if !client.survives(&fault) {
                        return;
                    }
                }
            }
        }
    }

    fn report(&self, measured: Duration) -> Report {
        let mut tally = self.tally.take();
        (0..self.owed.get()).for_each(|_| tally.fault(&Fault::Unanswered));
        tally.report(measured)
    }
}

fn request(target: Target, scheme: &str, ask: &Ask) -> http::Result<Request<()>> {
    let request = Request::builder()
        .method(ask.method)
        .uri(format!("{scheme}://{}{}", tls::NAME, ask.path))
        .header("user-agent", "titan-bench");
    let request = if target == Target::Call {
        request.header("te", "trailers").header("content-type", "application/grpc")
    } else {
        request.header("accept", "*/*")
    };
    request.body(())
}

/// Whether it is status 200 in that version of HTTP.
pub fn check_status<B>(answer: &Response<B>, version: Version) -> Result<(), Fault> {
    if answer.status() == StatusCode::OK && answer.version() == version {
        return Ok(());
    }
    Err(Fault::Status(format!("{:?} {}", answer.version(), answer.status())))
}

/// Whether the length that is announced is the right one.
pub fn check_length<B>(answer: &Response<B>, expected: usize) -> Result<(), Fault> {
    let announced = answer.headers().get("content-length").and_then(|value| value.to_str().ok());
    let announced = announced.and_then(|value| value.parse().ok());
    if announced == Some(expected) { Ok(()) } else { Err(Fault::Length { announced, expected }) }
}

/// How much of the body is there with this piece, which has to be what follows the first `done` bytes.
pub fn check_piece(expected: &[u8], done: usize, piece: &[u8]) -> Result<usize, Fault> {
    let end = done + piece.len();
    if expected.get(done..end) == Some(piece) { Ok(end) } else { Err(Fault::Body { near: done }) }
}

/// Whether the body is whole.
pub fn check_end(expected: &[u8], done: usize) -> Result<(), Fault> {
    if done == expected.len() { Ok(()) } else { Err(Fault::Body { near: done }) }
}
