//! What other documents would change in the configuration in force, found beside whatever else is done.

use super::attempts::InForce;
use crate::check;
use crate::config_file;
use crate::failure::Failure;
use crate::plan;
use std::sync::{Arc, Mutex};
use std::thread;
use titan_admin::orders::{Document, Findings, NotApplied, Planned};
use titan_config::Plan;
use tokio::sync::oneshot;

/// Makes plans, one at a time: each takes a core for a while.
#[derive(Default)]
pub(super) struct Planning {
    /// Locked by the plan that is made.
    turn: Arc<Mutex<()>>,
}

impl Planning {
    /// Compares these documents with those in force, on a thread of its own.
    pub(super) fn begin(
        &self,
        in_force: InForce,
        documents: Vec<Document>,
        done: oneshot::Sender<Result<Planned, NotApplied>>,
    ) {
        let turn = Arc::clone(&self.turn);
        let job = move || {
            let _turn = turn.lock();
            let name = documents.first().map_or_else(String::new, |first| first.name.clone());
            let planned = compare(&in_force, &documents);
            drop(done.send(planned.map_err(|failure| {
                let json = check::failed(&name, &failure);
                NotApplied::Refused(Findings { text: failure.text(false), json })
            })));
        };
        // Where there is no thread nobody hears of it, which is told.
        drop(thread::Builder::new().name("plan".to_owned()).spawn(job));
    }
}

/// What these documents would change in the configuration in force. Both are read as if they stood in place of its file.
fn compare(in_force: &InForce, documents: &[Document]) -> Result<Planned, Failure> {
    let InForce { file, documents: old, .. } = in_force;
    let new = config_file::resolve_new(documents, file)?;
    let old = config_file::resolve_past(&old.texts, file)?;
    Ok(plan::shown(&Plan::new(&old, &new)))
}
