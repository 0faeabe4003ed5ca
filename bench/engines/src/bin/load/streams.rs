//! The HTTP/2 run: a few connections, on each of which many requests are under way at once.
//!
//! The h2 crate speaks the protocol: an implementation that is none of those measured is the better judge of
//! them. Each place for a stream is a task that asks, verifies, and asks again.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::client::SendRequest;
use h2::{RecvStream, client};
use http::{HeaderMap, Request, Response, StatusCode, Version};
use titan_bench::payload::{Ask, Target};
use titan_bench::report::{Job, Report, Stop};
use titan_bench::tls;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::{JoinSet, LocalSet};
use tokio_rustls::TlsConnector;

use crate::fault::Fault;
use crate::tally::Tally;
use crate::{Usage, usage};

/// How often the clock is looked at.
const TICK: Duration = Duration::from_millis(10);
/// Without any answer for so long, the run ends.
const STALLED: Duration = Duration::from_secs(10);
/// How long the responses that are owed at the end may take.
const DRAIN: Duration = Duration::from_secs(5);

/// What all streams of a run share.
struct Load {
    job: Job,
    requests: Vec<Request<()>>,
    /// What is posted, by variant.
    bodies: Vec<Bytes>,
    answers: Vec<Vec<u8>>,
    tally: RefCell<Tally>,
    /// Requests sent, for a job that counts them.
    asked: Cell<u64>,
    /// Nothing more is asked.
    over: Cell<bool>,
    /// Requests under way.
    owed: Cell<u64>,
}

/// Runs a job with that many streams on each connection.
pub fn run(job: &Job, streams: usize) -> io::Result<Report> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let load = Rc::new(Load::lay_out(job.clone())?);
    LocalSet::new().block_on(&runtime, measure(load, streams))
}

async fn measure(load: Rc<Load>, streams: usize) -> io::Result<Report> {
    // All are open before the first request, so that none is alone with the proxy.
    let mut senders = Vec::new();
    for _ in 0..load.job.connections {
        match connect(&load.job).await {
            Ok(sender) => senders.push(sender),
            Err(fault) => load.tally.borrow_mut().fault(&fault),
        }
    }
    let mut slots = JoinSet::new();
    for (first, sender) in senders.iter().enumerate() {
        for stream in 0..streams {
            let (load, sender) = (Rc::clone(&load), sender.clone());
            slots.spawn_local(async move { load.ask_on(sender, first + stream).await });
        }
    }
    let begun = Instant::now();
    load.watch(&slots, begun + Duration::from_secs_f64(load.job.warm_up), |_| false).await;
    let before = usage(&load.job)?;
    load.tally.borrow_mut().measuring = true;
    let since = Instant::now();
    let (end, enough) = load.end(since);
    load.watch(&slots, end, enough).await;
    load.tally.borrow_mut().measuring = false;
    let seconds = since.elapsed();
    let after = usage(&load.job)?;
    load.over.set(true);
    load.watch(&slots, Instant::now() + DRAIN, |load| load.owed.get() == 0).await;
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
    async fn watch(&self, slots: &JoinSet<()>, until: Instant, enough: impl Fn(&Self) -> bool) {
        let mut progress = (0, Instant::now());
        while Instant::now() < until && !enough(self) && !slots.is_empty() {
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

    /// One place for a stream, until the run ends or the connection fails.
    async fn ask_on(&self, mut sender: SendRequest<Bytes>, first: usize) {
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
            let answered = self.exchange(&mut sender, variant).await;
            self.owed.set(self.owed.get() - 1);
            match answered {
                Ok(()) => self.tally.borrow_mut().answer(
                    sent,
                    Instant::now(),
                    self.answers[variant].len(),
                ),
                Err(fault) => {
                    self.tally.borrow_mut().fault(&fault);
                    if matches!(fault, Fault::Stream(_)) {
                        return;
                    }
                }
            }
        }
    }

    async fn exchange(&self, sender: &mut SendRequest<Bytes>, variant: usize) -> Result<(), Fault> {
        poll_fn(|context| sender.poll_ready(context)).await.map_err(Fault::Stream)?;
        let (request, body) = (self.requests[variant].clone(), &self.bodies[variant]);
        let (answer, mut stream) =
            sender.send_request(request, body.is_empty()).map_err(Fault::Stream)?;
        if !body.is_empty() {
            stream.send_data(body.clone(), true).map_err(Fault::Stream)?;
        }
        let answer = answer.await.map_err(Fault::Stream)?;
        let expected = &self.answers[variant];
        let call = self.job.target == Target::Call;
        check_head(&answer, (!call).then_some(expected.len()))?;
        let mut body = answer.into_body();
        check_body(&mut body, expected).await?;
        let trailers = body.trailers().await.map_err(Fault::Stream)?;
        check_trailers(trailers.as_ref(), call)
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

/// Opens a connection and lets it be driven beside the requests.
async fn connect(job: &Job) -> Result<SendRequest<Bytes>, Fault> {
    let socket = TcpStream::connect(job.to).await.map_err(Fault::Connect)?;
    socket.set_nodelay(true).map_err(Fault::Connect)?;
    let Some(tls) = &job.tls else { return shake_hands(socket).await };
    let config = tls::client(&tls.certificate, tls::HTTP2, tls.resume).map_err(Fault::Connect)?;
    let connected = TlsConnector::from(Arc::clone(&config)).connect(tls::name(), socket).await;
    let stream = connected.map_err(|error| Fault::Tls(error.to_string()))?;
    if stream.get_ref().1.alpn_protocol() != Some(tls::HTTP2) {
        return Err(Fault::Tls("the proxy does not choose HTTP/2".to_owned()));
    }
    shake_hands(stream).await
}

async fn shake_hands<T>(io: T) -> Result<SendRequest<Bytes>, Fault>
where
    T: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let (sender, connection) = client::Builder::new().handshake(io).await.map_err(Fault::Stream)?;
    // When it fails, so do its streams, and they report it.
    tokio::task::spawn_local(async { drop(connection.await) });
    Ok(sender)
}

fn check_head(answer: &Response<RecvStream>, length: Option<usize>) -> Result<(), Fault> {
    if answer.status() != StatusCode::OK || answer.version() != Version::HTTP_2 {
        return Err(Fault::Status(format!("{:?} {}", answer.version(), answer.status())));
    }
    let field = |name| answer.headers().get(name).and_then(|value| value.to_str().ok());
    let Some(expected) = length else {
        return match field("content-type") {
            Some("application/grpc") => Ok(()),
            other => Err(Fault::BadHead(format!("content-type {other:?}"))),
        };
    };
    let announced = field("content-length").and_then(|value| value.parse().ok());
    if announced == Some(expected) { Ok(()) } else { Err(Fault::Length { announced, expected }) }
}

async fn check_body(body: &mut RecvStream, expected: &[u8]) -> Result<(), Fault> {
    let mut done = 0;
    while let Some(piece) = body.data().await {
        let piece = piece.map_err(Fault::Stream)?;
        body.flow_control().release_capacity(piece.len()).map_err(Fault::Stream)?;
        if expected.get(done..done + piece.len()) != Some(&piece[..]) {
            return Err(Fault::Body { near: done });
        }
        done += piece.len();
    }
    if done == expected.len() { Ok(()) } else { Err(Fault::Body { near: done }) }
}

/// A call ends with its status; nothing else has trailers.
fn check_trailers(trailers: Option<&HeaderMap>, call: bool) -> Result<(), Fault> {
    let status = trailers.and_then(|fields| fields.get("grpc-status"));
    let right = match (call, trailers) {
        (true, Some(_)) => status.is_some_and(|status| status == "0"),
        (false, None) => true,
        _ => false,
    };
    if right { Ok(()) } else { Err(Fault::Trailers(format!("{trailers:?}"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trailers(value: &'static str) -> HeaderMap {
        [(http::HeaderName::from_static("grpc-status"), http::HeaderValue::from_static(value))]
            .into_iter()
            .collect()
    }

    #[test]
    fn a_call_needs_its_status_and_a_get_none() {
        assert!(check_trailers(Some(&trailers("0")), true).is_ok());
        assert!(check_trailers(None, false).is_ok());
        assert!(check_trailers(Some(&trailers("14")), true).is_err());
        assert!(check_trailers(None, true).is_err());
        assert!(check_trailers(Some(&trailers("0")), false).is_err());
    }
}
