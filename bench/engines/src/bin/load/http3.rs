//! HTTP/3: as HTTP/2, but over QUIC; a connection for each request; and connections that only cost memory.
//!
//! The h3 crate speaks the protocol over quinn: HTTP/3 and QPACK are judged by an implementation that is none of those
//! measured. QUIC is not: what is under quinn is under Titan as well.

use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use h3::client::SendRequest;
use h3_quinn::OpenStreams;
use http::Version;
use quinn::{Connection, VarInt};
use titan_bench::quic::{self, Dial};
use titan_bench::report::{Job, Manner, Report, Stop};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::fault::Fault;
use crate::places::{self, Client, Load};
use crate::{Usage, usage};

/// So many idle connections get a request at a time. As many are there before memory is first read: the upstream
/// connections and buffers that a proxy keeps for them are not those of idle clients.
const WINDOW: usize = 64;
/// How long a request on one of them may take, with its handshake.
const VISIT: Duration = Duration::from_secs(10);
/// How often a handshake that was not read is tried again, before there is load.
const TRIES: u64 = 20;
/// H3_NO_ERROR (RFC 9114 section 8.1).
const NO_ERROR: VarInt = VarInt::from_u32(0x100);

/// Runs a job over QUIC.
pub fn run(job: &Job) -> io::Result<Report> {
    let Some(tls) = &job.tls else {
        return Err(io::Error::other("HTTP/3 needs a certificate"));
    };
    let dial = Rc::new(Dial::new(job.to, &tls.certificate)?);
    places::run(job, async |load| match load.job.manner {
        Manner::Streams(streams) => {
            let lines = open_all(&dial, &load).await;
            places::measure(load, &lines, streams).await
        }
        Manner::Fresh => {
            let fresh = vec![Fresh { dial: Rc::clone(&dial) }; load.job.connections];
            places::measure(load, &fresh, 1).await
        }
        Manner::Idle => idle(dial, load).await,
        Manner::Pipelined(_) | Manner::Messages => {
            Err(io::Error::other("not a manner of HTTP/3: streams, fresh or idle"))
        }
    })
}

/// A connection.
#[derive(Clone)]
struct Line {
    connection: Connection,
    sender: SendRequest<OpenStreams, Bytes>,
}

/// A connection for each request, which the client closes: no field of HTTP/3 asks the proxy to.
#[derive(Clone)]
struct Fresh {
    dial: Rc<Dial>,
}

impl Client for Line {
    async fn exchange(&mut self, load: &Load, variant: usize) -> Result<(), Fault> {
        let (request, body) = (load.requests[variant].clone(), &load.bodies[variant]);
        let mut stream = self.sender.send_request(request).await?;
        if !body.is_empty() {
            stream.send_data(body.clone()).await?;
        }
        stream.finish().await?;
        let answer = stream.recv_response().await?;
        let expected = &load.answers[variant];
        places::check_status(&answer, Version::HTTP_3)?;
        places::check_length(&answer, expected.len())?;
        let mut done = 0;
        while let Some(mut piece) = stream.recv_data().await? {
            while piece.has_remaining() {
                done = places::check_piece(expected, done, piece.chunk())?;
                piece.advance(piece.chunk().len());
            }
        }
        places::check_end(expected, done)?;
        match stream.recv_trailers().await? {
            None => Ok(()),
            Some(fields) => Err(Fault::Trailers(format!("{fields:?}"))),
        }
    }

    fn survives(&self, _: &Fault) -> bool {
        self.connection.close_reason().is_none()
    }
}

impl Client for Fresh {
    async fn exchange(&mut self, load: &Load, variant: usize) -> Result<(), Fault> {
        let mut line = Line::open(&self.dial, load).await?;
        let answered = line.exchange(load, variant).await;
        line.connection.close(NO_ERROR, b"");
        answered
    }

    fn survives(&self, _: &Fault) -> bool {
        true
    }
}

impl Line {
    async fn open(dial: &Dial, load: &Load) -> Result<Self, Fault> {
        let (_, connection) = dial.connect().await.map_err(Fault::Connect)?;
        load.tally.borrow_mut().full_handshakes += 1;
        let opened = h3::client::builder()
            .send_grease(false)
            .build(h3_quinn::Connection::new(connection.clone()))
            .await;
        let (mut driver, sender) = opened.map_err(|error| Fault::Http3(error.to_string()))?;
        // When it fails, so do its streams, and they report it.
        tokio::task::spawn_local(async move { driver.wait_idle().await });
        Ok(Self { connection, sender })
    }

    /// The same before there is load, when a proxy may fail to read what it was sent.
    async fn open_patiently(dial: &Dial, load: &Load) -> Result<Self, Fault> {
        for _ in 1..TRIES {
            match Self::open(dial, load).await {
                Err(Fault::Connect(error)) if quic::is_unread(&error) => {
                    load.tally.borrow_mut().unread_handshakes += 1;
                }
                opened => return opened,
            }
        }
        Self::open(dial, load).await
    }
}

/// All are open before the first request, so that none is alone with the proxy.
async fn open_all(dial: &Dial, load: &Load) -> Vec<Line> {
    let mut lines = Vec::new();
    for _ in 0..load.job.connections {
        match Line::open_patiently(dial, load).await {
            Ok(line) => lines.push(line),
            Err(fault) => load.tally.borrow_mut().fault(&fault),
        }
    }
    lines
}

/// Opens the connections, each with one verified request; holds them; then asks each once more.
async fn idle(dial: Rc<Dial>, load: Rc<Load>) -> io::Result<Report> {
    let Stop::Seconds(hold) = load.job.stop else {
        return Err(io::Error::other("an idle job stops after seconds"));
    };
    let begun = Instant::now();
    let mut idle = Idle { dial, load, lines: vec![None; WINDOW] };
    for _ in 0..2 {
        idle.visit_all().await;
    }
    let before = usage(&idle.load.job)?;
    idle.load.tally.borrow_mut().measuring = true;
    idle.lines.resize(WINDOW + idle.load.job.connections, None);
    idle.visit_all().await;
    idle.hold(Duration::from_secs_f64(hold)).await;
    let after = usage(&idle.load.job)?;
    idle.visit_all().await;
    let mut report = idle.load.tally.take().report(begun.elapsed());
    Usage::report(&before, &after, &mut report);
    Ok(report)
}

struct Idle {
    dial: Rc<Dial>,
    load: Rc<Load>,
    /// None where no connection is open.
    lines: Vec<Option<Line>>,
}

impl Idle {
    /// Sends one request on every connection, opening those that are not there, and waits for the responses.
    async fn visit_all(&mut self) {
        let mut under_way = JoinSet::new();
        for place in 0..self.lines.len() {
            if under_way.len() == WINDOW {
                self.settle_one(&mut under_way).await;
            }
            if self.load.tally.borrow().hopeless() {
                return;
            }
            let (dial, load) = (Rc::clone(&self.dial), Rc::clone(&self.load));
            let line = self.lines[place].take();
            under_way.spawn_local(async move {
                let visited = timeout(VISIT, visit(&dial, &load, line, place)).await;
                (place, visited.unwrap_or(Err(Fault::Unanswered)))
            });
        }
        while !under_way.is_empty() {
            self.settle_one(&mut under_way).await;
        }
    }

    async fn settle_one(&mut self, under_way: &mut JoinSet<(usize, Result<Line, Fault>)>) {
        match under_way.join_next().await {
            Some(Ok((place, Ok(line)))) => self.lines[place] = Some(line),
            Some(Ok((_, Err(fault)))) => self.load.tally.borrow_mut().fault(&fault),
            Some(Err(_)) => self.load.tally.borrow_mut().fault(&Fault::Unanswered),
            None => {}
        }
    }

    /// Lets the connections be silent; one that closes meanwhile is a fault.
    async fn hold(&mut self, time: Duration) {
        tokio::time::sleep(time).await;
        let closed = |line: &&Line| line.connection.close_reason().is_some();
        let dropped = self.lines.iter().flatten().filter(closed).count();
        (0..dropped).for_each(|_| self.load.tally.borrow_mut().fault(&Fault::Dropped));
    }
}

/// One request on a connection, or on a new one where there is none.
async fn visit(dial: &Dial, load: &Load, line: Option<Line>, place: usize) -> Result<Line, Fault> {
    let mut line = match line {
        Some(line) => line,
        None => Line::open_patiently(dial, load).await?,
    };
    let (variant, sent) = (place % load.requests.len(), Instant::now());
    line.exchange(load, variant).await?;
    load.tally.borrow_mut().answer(sent, Instant::now(), load.answers[variant].len());
    Ok(line)
}
