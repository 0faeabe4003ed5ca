//! Who moves what goes over a connection that exchanges share.

use super::{QuicConnection, SharedConnection, SharedConnections};
use crate::connection::Connection;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;
use titan_h2::{Code, Connection as H2, Event};
use titan_io::clock::{Clock, CoarseInstant};
use titan_io::io::Io;
use titan_io::mux::{Mux, Progress, Wire};
use titan_io::stream::Inbox;

/// What a connection is driven with.
pub(super) struct Driver {
    connections: Rc<SharedConnections>,
    io: Rc<Io>,
    shared: Rc<SharedConnection>,
    /// Until when it is kept without an exchange, while it has none.
    idle_until: Option<CoarseInstant>,
}

impl Driver {
    pub(super) fn new(
        connections: &Rc<SharedConnections>,
        io: &Rc<Io>,
        shared: &Rc<SharedConnection>,
    ) -> Driver {
        Driver {
            connections: Rc::clone(connections),
            io: Rc::clone(io),
            shared: Rc::clone(shared),
            idle_until: None,
        }
    }

    /// Moves what exchanges send and receive over a connection of HTTP/2, until it cannot be used any more.
    pub(super) async fn drive_h2(
        mut self,
        mux: Rc<Mux<H2>>,
        mut connection: Connection,
        timeout: Duration,
    ) {
        let (io, shared) = (Rc::clone(&self.io), Rc::clone(&self.shared));
        let timer = io.clock.timer();
        let (mut inbox, mut progress) = (Inbox::default(), Progress::new(&io.clock));
        poll_fn(|cx| {
            let clock = timer.clock();
            let mut wire = Wire {
                mux: &mux,
                stream: &mut connection.stream,
                inbox: &mut inbox,
                buffers: &io.buffers,
                clock,
                timeout,
                progress: &mut progress,
            };
            let on_event = |event| {
                if matches!(event, Event::Pong) {
                    shared.note_alive(clock);
                }
            };
            if wire.poll(cx, on_event).is_ready() {
                return Poll::Ready(());
            }
            shared.heard.set(wire.progress.heard());
            let Some(next) = self.next_look(clock) else {
                mux.connection().go_away(Code::NoError);
                let _ = wire.write(cx);
                return Poll::Ready(());
            };
            timer.wake_at(cx, next.min(wire.progress.deadline()));
            Poll::Pending
        })
        .await;
        shared.retire();
        mux.lose();
        connection.stream.say_goodbye();
        drop(connection);
        self.connections.remove(&shared);
    }

    /// The same over one of QUIC.
    pub(super) async fn drive_quic(mut self, mut connection: QuicConnection) {
        let (io, shared) = (Rc::clone(&self.io), Rc::clone(&self.shared));
        let timer = io.clock.timer();
        let dialed = &mut connection.dialed;
        poll_fn(|cx| {
            let clock = timer.clock();
            let moved = dialed.poll(cx, clock, drop);
            if dialed.take_heard() {
                shared.note_heard(clock);
            }
            if moved.is_ready() {
                return Poll::Ready(());
            }
            let Some(next) = self.next_look(clock) else { return Poll::Ready(()) };
            timer.wake_at(cx, next);
            Poll::Pending
        })
        .await;
        shared.retire();
        dialed.mux().lose();
        poll_fn(|cx| {
            dialed.say_goodbye(cx);
            Poll::Ready(())
        })
        .await;
        drop(connection);
        self.connections.remove(&shared);
    }

    /// When to look at a connection again although nothing moves; none where it is of no more use.
    fn next_look(&mut self, clock: &Clock) -> Option<CoarseInstant> {
        let shared = &self.shared;
        let SharedConnection { mux, endpoint, is_retired, .. } = &**shared;
        let asked = shared.judge(clock);
        let is_idle = mux.handles() == 0;
        let is_over = || mux.with(|connection| connection.is_over());
        let is_useless = is_retired.get() || is_over() || endpoint.is_gone();
        let until = || clock.deadline(endpoint.idle_timeout());
        self.idle_until = is_idle.then(|| self.idle_until.unwrap_or_else(until));
        let last = self.idle_until.unwrap_or(CoarseInstant::NEVER);
        if is_idle && (is_useless || clock.is_past(last)) {
            return None;
        }
        self.connections.offer(endpoint.id);
        Some(last.min(asked))
    }
}
