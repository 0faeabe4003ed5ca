//! The thread that decides about the health of endpoints, and measures what the process uses.

use super::error::LoadError;
use super::threads::{End, start_thread};
use crate::metrics::Metrics;
use crate::snapshot::Snapshot;
use arc_swap::ArcSwap;
use std::sync::Arc;
use std::thread::JoinHandle;
use titan_io::io::Phase;
use titan_upstream::monitor::{HealthMonitor, Monitored};
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::watch;

/// Watches over endpoints until the gateway drains: what comes then is only the end of what runs. One that ends before that takes
/// the workers along: what it has decided would hold for ever.
pub(super) fn watch_health(
    monitored: Monitored,
    mut phase: watch::Receiver<Phase>,
    (metrics, current): (Arc<Metrics>, Arc<ArcSwap<Snapshot>>),
    end: End,
) -> Result<JoinHandle<()>, LoadError> {
    start_thread("health".to_owned(), move || {
        let _end = end;
        let runtime =
            Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
        let runtime = runtime.expect("the process has descriptors left for a runtime");
        runtime.block_on(async {
            tokio::select! {
                _ = phase.wait_for(|phase| *phase == Phase::Drain) => {}
                never = HealthMonitor::new(monitored).run() => match never {},
                never = metrics.pressure.watch(|| current.load().pressure.clone()) => match never {},
            }
        });
    })
}
