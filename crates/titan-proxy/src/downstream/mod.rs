//! What an exchange sees of its client, whatever protocol the client speaks.

mod h1;
mod h2;
pub(crate) mod h3;
pub(crate) mod raw;
mod streams;

use crate::origin::Origin;
use crate::worker::Worker;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;
use titan_config::Protocols;
use titan_io::body::BodySource;
use titan_io::buffer::SMALL;
use titan_io::clock::{CoarseInstant, Timer};
use titan_io::tls::H2;
use titan_io::transport::Transport;

/// How long a closed connection is still read, so that a client that is sending sees its response.
const LINGER: Duration = Duration::from_secs(2);
/// How a connection begins that speaks HTTP/2 (RFC 9113 section 3.4); no method of HTTP/1.1 is `PRI`.
const PREFACE: &[u8] = b"PRI ";

/// A client's connection, whatever it speaks. Lives in a box of its own: what is passed around and
/// kept by the thousands of tasks that wait is a pointer.
pub(crate) struct Client {
    pub(crate) worker: Rc<Worker>,
    pub(crate) transport: Transport,
    pub(crate) origin: Origin,
    /// Whether a response is under way: then the connection must not end as if that were complete.
    pub(crate) is_responding: bool,
}

/// Serves a client until the connection ends, in the protocol that it begins to speak, or has agreed on.
pub(crate) async fn serve(client: &mut Client, protocols: &Protocols) {
    let (idle, head) = client.first_deadlines();
    let is_h2 = match client.transport.stream.alpn() {
        Some(name) => name == H2,
        // A client that speaks anything else gets the response of an HTTP/2 server.
        None if !protocols.h1 => true,
        None => {
            protocols.h2 && client.transport.stream.is_plain() && client.begins_as_h2(idle).await
        }
    };
    match is_h2 {
        // Boxed: connections of HTTP/1.1, which wait in their thousands, need no room for it.
        true => Box::pin(h2::serve(client, head)).await,
        false => h1::serve(client, idle).await,
    }
}

impl Client {
    /// Until when the first request must have begun, and until when what comes first must be whole.
    fn first_deadlines(&self) -> (CoarseInstant, CoarseInstant) {
        let (clock, snapshot) = (&self.transport.io.clock, self.worker.snapshot());
        let timeouts = &snapshot.timeouts;
        (clock.deadline(timeouts.idle), clock.deadline(timeouts.head))
    }

    /// Whether the client begins as one of HTTP/2 does that knows what to expect here. Until `idle` it must have begun.
    async fn begins_as_h2(&mut self, idle: CoarseInstant) -> bool {
        let Client { worker, transport, .. } = self;
        let Transport { io, stream, inbox, timer, grace } = transport;
        let (reader, _) = stream.split();
        let mut head = None;
        poll_fn(|cx| {
            loop {
                let begun = inbox.unread();
                let length = begun.len().min(PREFACE.len());
                if begun[..length] != PREFACE[..length] || length == PREFACE.len() {
                    return Poll::Ready(begun.starts_with(PREFACE));
                }
                match inbox.poll_fill(cx, &reader, &io.buffers, SMALL) {
                    Poll::Ready(Ok(count)) if count > 0 => {}
                    Poll::Ready(_) => return Poll::Ready(false),
                    Poll::Pending => {
                        let begun = || timer.clock().deadline(worker.snapshot().timeouts.head);
                        let head = (!inbox.is_empty()).then(|| *head.get_or_insert_with(begun));
                        let deadline = idle.min(io.idle_until(*grace));
                        let deadline = deadline.min(head.unwrap_or(CoarseInstant::NEVER));
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
            self.is_responding = false;
            return self.linger().await;
        }
        let Client { worker, transport, .. } = self;
        let deadline = transport.io.clock.deadline(worker.snapshot().timeouts.write);
        transport.await_taken(deadline).await;
    }

    /// Closes in two steps, so that the client sees its response.
    async fn linger(&mut self) {
        let deadline = self.transport.io.clock.deadline(LINGER);
        self.transport.close_in_turn(deadline).await;
    }
}

/// Creates a future in its box. `Box::pin` takes one that was made elsewhere and copies all of its room, of which only
/// the arguments are in use by then.
fn boxed<F: Future>(make: impl FnOnce() -> F) -> Pin<Box<F>> {
    Box::into_pin(Box::write(Box::new_uninit(), make()))
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
        match self.is_responding {
            true => self.transport.stream.reset(),
            false => self.transport.stream.say_goodbye(),
        }
    }
}
