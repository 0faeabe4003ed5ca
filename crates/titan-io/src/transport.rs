//! A connection over a socket, as its server holds it.

use crate::buffer::SMALL;
use crate::clock::{CoarseInstant, Timer};
use crate::io::Io;
use crate::stream::{Inbox, Stream};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

/// A connected socket, what was read from it and is not used yet, and the timer of its server.
pub struct Transport {
    /// What its worker does input and output with.
    pub io: Rc<Io>,
    /// The socket.
    pub stream: Stream,
    /// What has come and was not used yet.
    pub inbox: Inbox,
    /// Wakes the task that serves it.
    pub timer: Timer,
    /// How long a drain waits for what the peer sends next, at least.
    pub grace: CoarseInstant,
}

impl Transport {
    /// A connection that nothing was read from.
    pub fn new(io: &Rc<Io>, stream: Stream) -> Transport {
        let (timer, grace) = (io.clock.timer(), io.grace());
        Transport { io: Rc::clone(io), stream, inbox: Inbox::default(), timer, grace }
    }

    /// Has a drain wait as long from now on as for a peer that has just connected: it can go on only now, after a handshake say.
    pub fn renew_grace(&mut self) {
        self.grace = self.io.grace();
    }

    /// Reads until `look` finds in what has come what it looks for; nothing is used up. `None` when the connection
    /// ends, or time is up, before that. A connection from which nothing has come does not hold up a drain.
    pub async fn read_until<T>(
        &mut self,
        deadline: CoarseInstant,
        mut look: impl FnMut(&[u8]) -> Option<T>,
    ) -> Option<T> {
        let Transport { io, stream, inbox, timer, grace } = self;
        let (reader, _) = stream.split();
        poll_fn(|cx| {
            loop {
                if let found @ Some(_) = look(inbox.unread()) {
                    return Poll::Ready(found);
                }
                match inbox.poll_fill(cx, &reader, &io.buffers, SMALL) {
                    Poll::Ready(Ok(count)) if count > 0 => {}
                    Poll::Ready(_) => return Poll::Ready(None),
                    Poll::Pending => {
                        let idle = match inbox.is_empty() {
                            true => io.idle_until(*grace),
                            false => CoarseInstant::NEVER,
                        };
                        return timer.poll(cx, deadline.min(idle)).map(|()| None);
                    }
                }
            }
        })
        .await
    }

    /// Waits until the peer's kernel has what was sent, or until then.
    pub async fn await_taken(&mut self, deadline: CoarseInstant) {
        let Transport { stream, timer, .. } = self;
        poll_fn(|cx| {
            if stream.is_taken() {
                return Poll::Ready(());
            }
            // The kernel does not signal this: it is asked at each tick.
            timer.wake_at(cx, timer.clock().deadline(Duration::ZERO));
            if timer.clock().is_past(deadline) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Closes in two steps (RFC 9112 section 9.6): first this side, then, when the peer has closed its own or time
    /// is up, the whole. A reset would take from the peer what it has not read.
    pub async fn close_in_turn(&mut self, deadline: CoarseInstant) {
        let Transport { stream, timer, .. } = self;
        stream.say_goodbye();
        let (_, writer) = stream.split();
        poll_fn(|cx| match writer.poll_flush(cx) {
            Poll::Ready(_) => Poll::Ready(()),
            Poll::Pending => timer.poll(cx, deadline),
        })
        .await;
        stream.shut_down();
        self.drop_rest(deadline).await;
    }

    /// Reads and drops what still comes, until the peer closes or time is up.
    pub async fn drop_rest(&mut self, deadline: CoarseInstant) {
        let Transport { io, stream, inbox, timer, .. } = self;
        let (reader, _) = stream.split();
        let mut left = DROPPED;
        poll_fn(|cx| {
            while left > 0 {
                inbox.clear();
                match inbox.poll_fill(cx, &reader, &io.buffers, SMALL) {
                    Poll::Ready(Ok(count)) if count > 0 => left = left.saturating_sub(count),
                    Poll::Ready(_) => return Poll::Ready(()),
                    Poll::Pending => return timer.poll(cx, deadline),
                }
            }
            // Not closed yet: the reset would overtake the response at a peer that writes more than it
            // reads. It cannot write on now, and so looks.
            inbox.clear();
            timer.poll(cx, deadline)
        })
        .await;
    }
}

/// How much of what still comes is read; the rest waits in the kernel, and its sender with it.
pub const DROPPED: usize = 1 << 20;
