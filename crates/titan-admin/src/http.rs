//! A small HTTP/1.1 server: one thread, everything bounded. Requests are whole messages, and so are responses, except those that come
//! piece by piece.
//!
//! It serves rare requests; traffic goes through `titan-proxy`.

mod connection;
mod message;
mod pieces;
mod slots;
mod socket;
mod stream;
#[cfg(test)]
mod tests;
mod tls;

pub(crate) use message::media_type;
pub use message::{Bounds, Handler, Peer, Request, Response};
pub use pieces::{NotSent, PieceSender, Pieces, pieces};
pub use socket::{FileOwner, LentSocket, Socket};
pub use tls::Tls;

use connection::Connection;
use slots::{ConnectionSlots, Slot, What};
use socket::Accepted;
use std::convert::Infallible;
use std::io;
use std::sync::{Arc, mpsc as std_mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use titan_io::network::ClientNetwork;
use titan_proxy::SocketFile;
use tokio::runtime::Builder;
use tokio::sync::{Semaphore, oneshot};
use tokio_rustls::TlsAcceptor;

/// A server that runs; dropping it ends it, and cuts off what it was doing.
pub struct Server {
    stop: oneshot::Sender<Infallible>,
    thread: JoinHandle<()>,
    /// Until nothing is accepted any more.
    accepting: Option<Accepting>,
    slots: Arc<ConnectionSlots>,
    /// Of a Unix socket.
    file: Option<SocketFile>,
}

/// What a server is known to have while it accepts connections.
struct Accepting {
    /// Its socket once more.
    socket: LentSocket,
    /// Nothing is ever sent: its end is that of accepting.
    leave: oneshot::Sender<Infallible>,
    /// Ends when accepting has.
    left: std_mpsc::Receiver<Infallible>,
}

/// How long accepting rests when the process has no descriptor left.
const PAUSE: Duration = Duration::from_millis(100);

impl Server {
    /// Starts a thread of that name in which `handler` responds.
    pub fn start(
        name: &str,
        socket: Socket,
        bounds: Bounds,
        handler: impl Handler,
    ) -> io::Result<Server> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (lent, file) = (socket.lend()?, socket.file());
        let listening = {
            let _context = runtime.enter();
            socket.enter()?
        };
        let (stop, stopped) = oneshot::channel();
        let (leave, leaving) = oneshot::channel();
        let (done, left) = std_mpsc::sync_channel(0);
        let ends = (leaving, done);
        let slots = Arc::new(ConnectionSlots::new(bounds.connections, bounds.share));
        let accepting = accept(listening, (bounds, Arc::clone(&slots)), Arc::new(handler), ends);
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
            runtime.spawn(accepting);
            // Nothing is ever sent: this is the end of the sender.
            let _ = runtime.block_on(stopped);
        })?;
        let accepting = Some(Accepting { socket: lent, leave, left });
        Ok(Server { stop, thread, accepting, slots, file })
    }

    /// Its socket, for a successor of the process; `None` once it was left.
    pub fn lend(&self) -> Option<io::Result<LentSocket>> {
        let Accepting { socket: LentSocket { name, socket, owner }, .. } =
            self.accepting.as_ref()?;
        let (name, owner) = (name.clone(), *owner);
        Some(socket.try_clone().map(|socket| LentSocket { name, socket, owner }))
    }

    /// Leaves its socket, and what waits there, to a successor that has it too. Open connections are served until their next
    /// response.
    pub fn leave(&mut self) {
        let Some(Accepting { socket, leave, left }) = self.accepting.take() else { return };
        drop((socket, leave));
        let _ = left.recv();
    }

    /// Waits until the connections that were open when it has left its socket have ended. Returns at once where it has not left it.
    pub async fn finished(&self) {
        if self.accepting.is_none() {
            self.slots.are_free().await;
        }
    }

    /// Ends it, removes the file of a Unix socket, and waits until others can have its address: no longer than the response
    /// takes that is being made.
    pub fn end(self) {
        let Server { stop, thread, accepting, slots: _, file } = self;
        file.iter().for_each(SocketFile::remove);
        drop((stop, accepting));
        let _ = thread.join();
    }
}

async fn accept(
    listening: socket::Listening,
    (bounds, slots): (Bounds, Arc<ConnectionSlots>),
    handler: Arc<impl Handler>,
    (mut leaving, left): (oneshot::Receiver<Infallible>, std_mpsc::SyncSender<Infallible>),
) {
    let room = Arc::new(Semaphore::new(bounds.bodies));
    loop {
        let accepted = tokio::select! {
            biased;
            _ = &mut leaving => break,
            accepted = listening.accept() => accepted,
        };
        match accepted {
            Ok(accepted) => {
                // One that gets no slot is closed: its client has as many as it may, and as many that wait.
                if let Some(slot) = slots.enter(accepted.peer()) {
                    let (handler, acceptor) = (Arc::clone(&handler), listening.acceptor());
                    let room = Arc::clone(&room);
                    tokio::spawn(async move {
                        serve((accepted, acceptor), (bounds, slot, &room), &*handler).await;
                    });
                }
                // Those that are to leave do so before more come.
                tokio::task::yield_now().await;
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
    drop((listening, left));
    slots.close();
}

async fn serve(
    (accepted, acceptor): (Accepted, Option<TlsAcceptor>),
    (bounds, slot, room): (Bounds, Slot, &Semaphore),
    handler: &impl Handler,
) {
    slot.is_free().await;
    let secured = slot.waiting(What::Begin, accepted.secure(acceptor)).await;
    let Some(Ok(client)) = secured else { return };
    // An error means that the client has gone, and no response can reach it.
    let _ = Connection::new(client, bounds, &slot, room).serve(handler).await;
}
