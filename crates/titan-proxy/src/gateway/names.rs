//! The thread that follows the names of upstreams.

use super::error::LoadError;
use super::threads::start_thread;
use crate::snapshot::Snapshot;
use std::sync::Arc;
use std::time::Duration;
use titan_config::Config;
use titan_io::io::Phase;
use titan_upstream::resolve::{self, NameResolver};
use tokio::runtime::Builder;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

/// What the first round of questions may take beyond the time that one question has.
const LATE: Duration = Duration::from_millis(500);

/// Resolves the names of upstreams that are not being resolved yet, on a thread of their own, for as long as any of
/// these upstreams lives. It is waited for until each was queried once, but no longer than one query may take.
pub(super) fn resolve_names(
    config: &Config,
    snapshot: &Snapshot,
    mut phase: watch::Receiver<Phase>,
) -> Result<(), LoadError> {
    let named = snapshot.upstreams.iter().filter(|upstream| resolve::has_names(upstream));
    let named: Vec<_> = named.filter(|upstream| upstream.begin_to_follow()).cloned().collect();
    if named.is_empty() {
        return Ok(());
    }
    let config = config.resolver.clone();
    let (done, first_round) = std::sync::mpsc::sync_channel(1);
    start_thread("resolver".to_owned(), move || {
        let runtime =
            Builder::new_current_thread().enable_all().build().expect("a runtime for names");
        runtime.block_on(async {
            let names = match NameResolver::new(&config) {
                Ok(names) => Arc::new(names),
                Err(error) => return drop(done.send(Err(error.to_string()))),
            };
            // Each name was queried once when all tasks have dropped their ends of this.
            let (asked, mut all_asked) = mpsc::channel::<()>(1);
            let mut tasks = JoinSet::new();
            for upstream in named {
                let (names, asked) = (Arc::clone(&names), asked.clone());
                tasks.spawn(async move {
                    let again = names.refresh(&upstream).await;
                    drop(asked);
                    names.keep_fresh(upstream, again).await;
                });
            }
            drop(asked);
            // Many names and a silent server: what has not answered by now may do so while others are served. A little
            // more than one query may take, so that an answer for one family counts.
            let _ = tokio::time::timeout(config.timeout + LATE, all_asked.recv()).await;
            let _ = done.send(Ok(()));
            tokio::select! {
                _ = phase.wait_for(|phase| *phase == Phase::Drain) => {}
                () = async { while tasks.join_next().await.is_some() {} } => {}
            }
        });
    })?;
    let failed = |_| Err("the resolver thread ended".to_owned());
    first_round.recv().unwrap_or_else(failed).map_err(LoadError::Resolver)
}
