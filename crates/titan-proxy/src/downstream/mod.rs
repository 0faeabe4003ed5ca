//! What an exchange sees of its client, whatever protocol the client speaks.

mod h1;
mod h2;

use crate::buffer::SMALL;
use crate::clock::{Moment, Timer};
use crate::error::Error;
use crate::forwarding::Origin;
use crate::relay::{BodySink, BodySource};
use crate::stream::{Inbox, Stream};
use crate::tls::H2;
use crate::worker::Worker;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;
use titan_config::Protocols;
use titan_h1::Framing;
use titan_http::ResponseHead;

/// How long a closed connection is still read, so that a client that is sending sees its answer.
const LINGER: Duration = Duration::from_secs(2);
/// How much of that is read; what comes then waits in the kernel, and its sender with it.
const LINGER_OCTETS: usize = 1 << 20;
/// How a connection begins that speaks HTTP/2 (RFC 9113 section 3.4); no method of HTTP/1.1 is `PRI`.
const PREFACE: &[u8] = b"PRI ";

/// A client's connection, whatever it speaks. Lives in a box of its own: what is passed around and
/// kept by the thousands of tasks that wait is a pointer.
pub(crate) struct Client {
    pub(crate) worker: Rc<Worker>,
    pub(crate) stream: Stream,
    pub(crate) inbox: Inbox,
    pub(crate) timer: Timer,
    pub(crate) origin: Origin,
    /// Whether an answer is under way: then the connection must not end as if that were complete.
    pub(crate) is_answering: bool,
}

/// Serves a client until the connection ends, in the protocol that it begins to speak, or has agreed on.
pub(crate) async fn serve(client: &mut Client, protocols: &Protocols) {
    let (clock, timeouts) = (client.timer.clock(), &client.worker.snapshot().timeouts);
    let (idle, head) = (clock.deadline(timeouts.idle), clock.deadline(timeouts.head));
    let is_h2 = match client.stream.alpn() {
        Some(name) => name == H2,
        // Whoever speaks anything else is told so as an HTTP/2 server does.
        None if !protocols.h1 => true,
        None => protocols.h2 && client.stream.is_plain() && client.begins_as_h2(idle).await,
    };
    match is_h2 {
        true => h2::serve(client, head).await,
        false => h1::serve(client, idle).await,
    }
}

impl Client {
    /// Whether the client begins as one of HTTP/2 does that knows what to expect here. Until `idle` it must have begun.
    async fn begins_as_h2(&mut self, idle: Moment) -> bool {
        let Client { worker, stream, inbox, timer, .. } = self;
        let (reader, _) = stream.split();
        let mut head = None;
        poll_fn(|cx| {
            loop {
                let begun = inbox.unread();
                let length = begun.len().min(PREFACE.len());
                if begun[..length] != PREFACE[..length] || length == PREFACE.len() {
                    return Poll::Ready(begun.starts_with(PREFACE));
                }
                match inbox.poll_fill(cx, &reader, &worker.buffers, SMALL) {
                    Poll::Ready(Ok(count)) if count > 0 => {}
                    Poll::Ready(_) => return Poll::Ready(false),
                    Poll::Pending => {
                        let begun = || timer.clock().deadline(worker.snapshot().timeouts.head);
                        let head = (!inbox.is_empty()).then(|| *head.get_or_insert_with(begun));
                        let deadline = idle.min(worker.idle_until());
                        let deadline = deadline.min(head.unwrap_or(Moment::NEVER));
                        return timer.poll(cx, deadline).map(|()| false);
                    }
                }
            }
        })
        .await
    }

    /// Ends the connection within a response, once the client has what came of it. Where its framing does not show that
    /// it is incomplete, a reset does.
    async fn break_off(&mut self, is_framed: bool) {
        if is_framed {
            self.is_answering = false;
            return self.linger().await;
        }
        let Client { worker, stream, timer, .. } = self;
        let deadline = timer.clock().deadline(worker.snapshot().timeouts.write);
        poll_fn(|cx| {
            if stream.is_taken() {
                return Poll::Ready(());
            }
            // The kernel tells nobody when: it is asked at each tick.
            timer.wake_at(cx, timer.clock().deadline(Duration::ZERO));
            if timer.clock().is_past(deadline) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Closes in two steps (RFC 9112 section 9.6): first this side, then, when the client has seen
    /// that or time is up, the whole. A reset would take the answer away from it.
    async fn linger(&mut self) {
        let Client { stream, timer, .. } = self;
        let deadline = timer.clock().deadline(LINGER);
        stream.say_goodbye();
        let (_, writer) = stream.split();
        poll_fn(|cx| match writer.poll_flush(cx) {
            Poll::Ready(_) => Poll::Ready(()),
            Poll::Pending => timer.poll(cx, deadline),
        })
        .await;
        stream.shut_down();
        self.read_off(deadline).await;
    }

    /// Reads what still comes, for nothing, until the client has closed its side or time is up.
    pub(crate) async fn read_off(&mut self, deadline: Moment) {
        let Client { worker, stream, inbox, timer, .. } = self;
        let (reader, _) = stream.split();
        let mut left = LINGER_OCTETS;
        poll_fn(|cx| {
            while left > 0 {
                inbox.clear();
                match inbox.poll_fill(cx, &reader, &worker.buffers, SMALL) {
                    Poll::Ready(Ok(count)) if count > 0 => left = left.saturating_sub(count),
                    Poll::Ready(_) => return Poll::Ready(()),
                    Poll::Pending => return timer.poll(cx, deadline),
                }
            }
            // Not closed yet: the reset would overtake the answer at a client that writes more than it
            // reads. It cannot write on now, and so looks.
            inbox.clear();
            timer.poll(cx, deadline)
        })
        .await;
    }
}

/// Reads what is left of a short body. False when it was not short, or did not come.
async fn drain(body: &mut impl BodySource, timer: &Timer, most: usize) -> bool {
    let deadline = timer.clock().deadline(LINGER);
    let mut left = most;
    poll_fn(|cx| {
        loop {
            let count = body.data().len();
            body.consume(count);
            left = left.saturating_sub(count);
            if body.is_done() || left == 0 {
                return Poll::Ready(body.is_done());
            }
            match body.poll_data(cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => return Poll::Ready(false),
                Poll::Pending => return timer.poll(cx, deadline).map(|()| false),
            }
        }
    })
    .await
}

impl Drop for Client {
    fn drop(&mut self) {
        match self.is_answering {
            true => self.stream.reset(),
            false => self.stream.say_goodbye(),
        }
    }
}

/// The body of a request, and with it the client's presence.
pub(crate) trait RequestBody: BodySource {
    /// Waits until so much of the body has come as it came over the wire, or all of it, or as much as can come
    /// before some is taken; takes nothing.
    fn poll_ahead(&mut self, cx: &mut Context<'_>, wanted: usize) -> Poll<Result<(), Error>>;
    /// How much of it has come and was not taken.
    fn ahead(&self) -> usize;
    /// Waits until there is something to say about the client. Only asked once the body is done.
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<Gone>;
    /// Waits until the client has given the request up, where that shows although nothing is read.
    fn poll_lost(&mut self, cx: &mut Context<'_>) -> Poll<()>;
    /// Whether the connection is broken, whatever has arrived before that. Asks the kernel.
    fn is_broken(&self) -> bool;
    /// Whether what is left of the body will not be read, so that nothing can follow it.
    fn is_abandoned(&self) -> bool;
    /// Lets the body have at most that many octets; fails at once where it is known to have more.
    fn set_limit(&mut self, octets: u64) -> Result<(), Error>;
    /// Octets of the request, its head included, that have arrived and been used.
    fn received(&self) -> u64;
}

/// Whether a client has gone, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gone {
    /// It will send nothing more, but may still read: some clients close that side early.
    HalfClosed,
    /// The connection is broken.
    Broken,
    /// It has not: its next request has arrived.
    Present,
}

/// The answer to a request.
pub(crate) trait Answer: BodySink {
    /// Sends an interim answer (1xx), if the client's protocol version knows such a thing.
    fn interim(&mut self, head: &ResponseHead);
    /// Starts the final answer. Its body will be as long as `content` says.
    fn start(&mut self, head: &ResponseHead, content: Content);
    /// Starts an answer that opens a tunnel.
    fn start_tunnel(&mut self, head: &ResponseHead);
    /// Whether the final answer has been started: it is too late for another one.
    fn is_started(&self) -> bool;
    /// Serves nothing more on this connection after this answer.
    fn close_after(&mut self);
    /// Octets that have gone out, or wait in a TLS session to do so.
    fn sent(&self) -> u64;
}

/// The body of an answer before it is framed for the client's protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    /// How long the body is that will be sent.
    pub(crate) framing: Framing,
    /// The length to declare where no body is sent: answers to HEAD, and 304.
    pub(crate) declared: Option<u64>,
}
