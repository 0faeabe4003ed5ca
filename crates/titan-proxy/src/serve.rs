//! The life of a worker: it accepts and serves until it is told to drain, and then finishes what runs.

use crate::listener::Listener;
use crate::worker::Worker;
use std::rc::Rc;
use titan_io::io::Phase;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Accepts and serves until told to drain, then finishes what runs, for as long as the configuration
/// gives it.
///
/// Without ticks there are no timeouts, and without a listener no clients: a panic in either ends the
/// worker, which the others then learn of.
pub(crate) async fn run(
    worker: Rc<Worker>,
    listeners: Vec<Listener>,
    phase: watch::Receiver<Phase>,
) {
    tokio::select! {
        never = worker.tick() => match never {},
        () = serve(&worker, listeners, phase) => {}
    }
}

async fn serve(worker: &Rc<Worker>, listeners: Vec<Listener>, mut phase: watch::Receiver<Phase>) {
    let mut accepting = JoinSet::new();
    for listener in listeners {
        accepting.spawn_local(listener.serve(Rc::clone(worker), phase.clone()));
    }
    // Each ends when the drain begins.
    while let Some(ended) = accepting.join_next().await {
        let ended = ended.expect("a listener that has panicked ends its worker");
        ended.expect("the system lets a socket into the runtime and out of it");
    }
    // An error means that the main thread is gone, which is as good a reason to stop.
    let _ = phase.wait_for(|phase| *phase == Phase::Drain).await;
    worker.drain().await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listener::{ListenSocket, ListenerState};
    use crate::snapshot::Snapshot;
    use std::fs::File;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixListener;
    use std::sync::Arc;
    use std::time::Duration;
    use titan_config::Config;
    use titan_io::registry::Registry;
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
        let socket = ListenSocket::Unix(file);
        let listener = Listener {
            socket,
            state: ListenerState::new(
                &config.listeners[0],
                &crate::Files::default(),
                &Registry::default(),
            )
            .unwrap(),
        };
        let runtime =
            Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
        let runtime = runtime.unwrap();
        let snapshot =
            Arc::new(Snapshot::unconnected(&config, &PolicyCredentials::unread(&config)));
        let metrics = Arc::new(snapshot.metrics(1));
        let reclaim = Arc::new(Reclaim::new(1));
        let (_phase, watched) = watch::channel(Phase::Serve);
        runtime.block_on(async {
            let run = run(Worker::new(0, snapshot, metrics, reclaim), vec![listener], watched);
            let _ = tokio::time::timeout(Duration::from_secs(10), run).await;
        });
    }
}
