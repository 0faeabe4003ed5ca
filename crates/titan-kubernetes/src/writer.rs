//! Writes statuses.

use crate::statuses::StatusChange;
use crate::watch::resource;
use futures_util::stream::{self, StreamExt};
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::json;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// How many statuses are written at a time.
const AT_ONCE: usize = 8;
/// How long one may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// After how long what failed is tried again.
const AGAIN: Duration = Duration::from_secs(5);

/// Writes what is to be written, the newest list alone, until there is nobody any more who says it, while this gateway is the one of
/// several that `leads`. `complain` tells what goes wrong.
pub(crate) async fn write(
    client: Client,
    mut wanted: watch::Receiver<Vec<StatusChange>>,
    mut leads: watch::Receiver<bool>,
    complain: impl Fn(String),
) {
    while wanted.changed().await.is_ok() {
        loop {
            if leads.wait_for(|it| *it).await.is_err() {
                return;
            }
            let changes = wanted.borrow_and_update().clone();
            let failures: Vec<_> = stream::iter(changes)
                .map(|change| write_one(&client, change))
                .buffer_unordered(AT_ONCE)
                .filter_map(|outcome| async { outcome.err() })
                .collect()
                .await;
            let Some(first) = failures.into_iter().next() else { break };
            complain(first);
            tokio::select! {
                // What failed is in the next list too, unless it is not wanted any more.
                changed = wanted.changed() => if changed.is_err() { return },
                () = sleep(AGAIN) => {}
            }
        }
    }
}

async fn write_one(client: &Client, change: StatusChange) -> Result<(), String> {
    let StatusChange { kind, key, resource_version, status } = change;
    let resource = resource(kind);
    let api: Api<DynamicObject> = match key.namespace.as_str() {
        "" => Api::all_with(client.clone(), &resource),
        namespace => Api::namespaced_with(client.clone(), namespace, &resource),
    };
    let patch = json!({ "metadata": { "resourceVersion": resource_version }, "status": status });
    let patch = Patch::Merge(patch);
    let parameters = PatchParams::default();
    let written = timeout(PATIENCE, api.patch_status(&key.name, &parameters, &patch)).await;
    match written {
        Ok(Ok(_)) => Ok(()),
        // It has changed or is gone: news of that come, and it is judged anew.
        Ok(Err(kube::Error::Api(status))) if matches!(status.code, 404 | 409) => Ok(()),
        Ok(Err(error)) => {
            Err(format!("the status of {} {key} cannot be written: {error}", kind.name()))
        }
        Err(_) => Err(format!(
            "the status of {} {key} cannot be written: no response in {PATIENCE:?}",
            kind.name()
        )),
    }
}
