//! The life of a worker: it accepts and serves, from other configurations when there are some, until it is told to drain,
//! and then finishes what runs.

use crate::listener::{Done, LentSocket, Listener, ListenerOrder};
use crate::listener_id::ListenerId;
use crate::snapshot::Snapshot;
use crate::worker::Worker;
use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::sync::{Arc, mpsc as std_mpsc};
use titan_io::io::Phase;
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinError, JoinSet};

/// What a worker does otherwise from now on.
pub(crate) struct Change {
    /// What it serves from.
    pub(crate) snapshot: Arc<Snapshot>,
    /// What it accepts at besides.
    pub(crate) opened: Vec<Listener>,
    /// What it accepts at no longer.
    pub(crate) closed: Vec<ListenerId>,
    /// Dropped when all of that is so.
    pub(crate) done: Done,
}

/// What a worker is told.
pub(crate) enum Order {
    /// Serve otherwise.
    Change(Change),
    /// Send duplicates of all sockets there.
    Lend(std_mpsc::SyncSender<LentSocket>),
    /// Close the sockets of these listeners, and leave what waits there to the process that has them too.
    Leave(Vec<ListenerId>, Done),
}

/// The tasks that accept connections.
#[derive(Default)]
struct Accepting {
    tasks: JoinSet<io::Result<()>>,
    /// The ways to them.
    open: HashMap<ListenerId, Vec<mpsc::Sender<ListenerOrder>>>,
    /// The ways to those that are closed, and may still serve connections with their socket.
    closed: HashMap<ListenerId, Vec<mpsc::Sender<ListenerOrder>>>,
}

/// Accepts and serves until told to drain, then finishes what runs, for as long as the configuration
/// gives it.
///
/// Without ticks there are no timeouts, and without a listener no clients: a panic in either ends the
/// worker, which the others then learn of.
pub(crate) async fn run(
    worker: Rc<Worker>,
    listeners: Vec<Listener>,
    orders: mpsc::Receiver<Order>,
    phase: watch::Receiver<Phase>,
) {
    tokio::select! {
        never = worker.tick() => match never {},
        () = serve(&worker, listeners, orders, phase) => {}
    }
}

async fn serve(
    worker: &Rc<Worker>,
    listeners: Vec<Listener>,
    mut orders: mpsc::Receiver<Order>,
    mut phase: watch::Receiver<Phase>,
) {
    let mut accepting = Accepting::default();
    listeners.into_iter().for_each(|listener| accepting.begin(worker, listener));
    loop {
        tokio::select! {
            // An error means that the main thread is gone, which is as good a reason to stop.
            _ = phase.wait_for(|phase| *phase == Phase::Drain) => break,
            Some(order) = orders.recv() => accepting.follow(worker, order),
            Some(ended) = accepting.tasks.join_next() => check(ended),
        }
    }
    // Nobody waits for what is not done any more.
    drop(orders);
    accepting.end().await;
    worker.drain().await;
}

impl Accepting {
    fn begin(&mut self, worker: &Rc<Worker>, listener: Listener) {
        let id = listener.id.clone();
        let orders = self.reopen(&id).unwrap_or_else(|| {
            let (orders, received) = mpsc::channel(1);
            self.tasks.spawn_local(listener.serve(Rc::clone(worker), received));
            orders
        });
        self.open.entry(id).or_default().push(orders);
    }

    /// Has one go on that has closed and not ended. What it serves could not be served by another one at the same socket.
    fn reopen(&mut self, id: &ListenerId) -> Option<mpsc::Sender<ListenerOrder>> {
        let closed = self.closed.get_mut(id)?;
        while let Some(orders) = closed.pop() {
            if orders.try_send(ListenerOrder::Open).is_ok() {
                return Some(orders);
            }
        }
        None
    }

    fn follow(&mut self, worker: &Rc<Worker>, order: Order) {
        match order {
            Order::Change(change) => self.apply(worker, change),
            Order::Lend(borrower) => {
                for listener in self.open.values().flatten() {
                    // What is not lent is noticed: the sender is gone.
                    let _ = listener.try_send(ListenerOrder::Lend(borrower.clone()));
                }
            }
            Order::Leave(left, done) => self.tell(&left, || ListenerOrder::Leave(done.clone())),
        }
    }

    fn apply(&mut self, worker: &Rc<Worker>, change: Change) {
        let Change { snapshot, opened, closed, done } = change;
        worker.switch_to(snapshot);
        opened.into_iter().for_each(|listener| self.begin(worker, listener));
        self.tell(&closed, || ListenerOrder::Close(done.clone()));
    }

    /// Tells listeners something after which they accept nothing more.
    fn tell(&mut self, listeners: &[ListenerId], order: impl Fn() -> ListenerOrder) {
        self.closed.retain(|_, all| all.iter().any(|orders| !orders.is_closed()));
        for id in listeners {
            let Some(told) = self.open.remove(id) else { continue };
            for listener in &told {
                // One that has failed ends the worker anyway. The end of its orders is the order to close.
                let _ = listener.try_send(order());
            }
            self.closed.entry(id.clone()).or_default().extend(told);
        }
    }

    async fn end(mut self) {
        self.open.clear();
        self.closed.clear();
        while let Some(ended) = self.tasks.join_next().await {
            check(ended);
        }
    }
}

fn check(ended: Result<io::Result<()>, JoinError>) {
    let ended = ended.expect("a listener that has panicked ends its worker");
    ended.expect("the system lets a socket into the runtime and out of it");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listener::PreparedListener;
    use crate::socket::{BoundSocket, ListenSocket};
    use std::fs::File;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixListener;
    use std::sync::mpsc::sync_channel;
    use std::time::Duration;
    use titan_config::Config;
    use titan_io::registry::Registry;
    use titan_observe::ring::Ring;
    use titan_policies::credentials::PolicyCredentials;
    use titan_upstream::reclaim::Reclaim;
    use tokio::runtime::{Builder, LocalOptions};

    #[test]
    #[should_panic = "the system lets a socket into the runtime"]
    fn a_listener_that_fails_ends_its_worker() {
        let text = "{ listeners: ['127.0.0.1:0'], workers: 1, routes: [{ respond: 204 }] }";
        let config = Config::parse("test", text).unwrap();
        // No runtime can wait for a file.
        let file = UnixListener::from(OwnedFd::from(File::open("/dev/null").unwrap()));
        file.set_nonblocking(true).unwrap();
        let socket = BoundSocket::Listening(ListenSocket::Unix(file));
        let id = ListenerId::all(&config.listeners).remove(0);
        let (files, registry) = (crate::Files::default(), Registry::default());
        let prepared =
            PreparedListener::new(&config.listeners[0], id.clone(), &files, &registry).unwrap();
        let listener = Listener { id, socket, state: Arc::clone(prepared.state()) };
        let runtime =
            Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
        let runtime = runtime.unwrap();
        let snapshot =
            Arc::new(Snapshot::unconnected(&config, &PolicyCredentials::unread(&config)));
        let metrics = Arc::new(snapshot.metrics(1, &titan_observe::events::Log::default()));
        let reclaim = Arc::new(Reclaim::new(1));
        let (_phase, watched) = watch::channel(Phase::Serve);
        let (_orders, received) = mpsc::channel(1);
        runtime.block_on(async {
            let worker = Worker::new(0, snapshot, metrics, reclaim, Ring::new(sync_channel(1).0));
            let run = run(worker, vec![listener], received, watched);
            let _ = tokio::time::timeout(Duration::from_secs(10), run).await;
        });
    }
}
