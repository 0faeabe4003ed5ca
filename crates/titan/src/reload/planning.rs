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
use tokio::sync::{Semaphore, oneshot};

/// Plans that are made or wait for their turn; each holds two configurations.
const MAX_PLANS: usize = 4;

/// How far plans stand behind the workers.
const NICE: i32 = 10;

/// Makes plans, one at a time: each takes a core for a while.
pub(super) struct Planning {
    /// Locked by the plan that is made.
    pub(super) turn: Arc<Mutex<()>>,
    pub(super) places: Arc<Semaphore>,
}

/// The way back to whoever asked.
type Done = oneshot::Sender<Result<Planned, NotApplied>>;

impl Default for Planning {
    fn default() -> Planning {
        Planning { turn: Arc::default(), places: Arc::new(Semaphore::new(MAX_PLANS)) }
    }
}

impl Planning {
    /// Compares these documents with those in force, on a thread of its own, as long as somebody waits for that.
    pub(super) fn begin(&self, in_force: InForce, documents: Vec<Document>, done: Done) {
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            let why = format!("{MAX_PLANS} plans are being made or wait: try again in a while");
            return drop(done.send(Err(NotApplied::Conflict(why))));
        };
        let turn = Arc::clone(&self.turn);
        let job = move || {
            let _place = place;
            // Nobody's requests wait for it. That may be forbidden, and works without.
            let _ = rustix::process::nice(NICE);
            let _turn = turn.lock();
            let is_wanted = || !done.is_closed();
            let name = documents.first().map_or_else(String::new, |first| first.name.clone());
            let planned = match is_wanted() {
                true => compare(&in_force, &documents, &is_wanted),
                false => Ok(None),
            };
            let planned = planned.map_err(|failure| {
                let json = check::failed(&name, &failure);
                NotApplied::Refused(Findings { text: failure.text(false), json })
            });
            let Some(planned) = planned.transpose() else { return };
            drop(done.send(planned));
        };
        // Where there is no thread nobody hears of it, which is told.
        drop(thread::Builder::new().name("plan".to_owned()).spawn(job));
    }
}

/// What these documents would change in the configuration in force, if that is wanted to the end. Both are read as if they
/// stood in place of its file.
fn compare(
    in_force: &InForce,
    documents: &[Document],
    is_wanted: &dyn Fn() -> bool,
) -> Result<Option<Planned>, Failure> {
    let InForce { file, documents: old, .. } = in_force;
    let new = config_file::resolve_new(documents, file)?;
    let old = config_file::resolve_past(&old.texts, file)?;
    let plan = Plan::while_wanted(&old, &new, is_wanted);
    Ok(plan.as_ref().map(plan::shown))
}
