//! What takes a while to find out of configurations, and changes nothing: found beside whatever else is done.

use super::attempts::{InForce, Past};
use crate::check;
use crate::config_file;
use crate::explained;
use crate::failure::Failure;
use crate::plan;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;
use titan_admin::orders::{Document, Explained, Findings, NotApplied, Planned, Question};
use titan_config::Plan;
use titan_proxy::Asking;
use tokio::sync::{Semaphore, oneshot};

/// How many are made or wait for their turn; each holds up to two configurations.
const MAX_PLANS: usize = 4;

/// How far these stand behind the workers.
const NICE: i32 = 10;

/// Makes plans and the like, one at a time: each takes a core for a while.
pub(super) struct Planning {
    /// Locked by the one that is made.
    pub(super) turn: Arc<Mutex<()>>,
    pub(super) places: Arc<Semaphore>,
}

/// The way back to whoever asked.
type Done<T> = oneshot::Sender<Result<T, NotApplied>>;

/// Something of which nothing comes where nobody waits for it any more.
type Wanted<T> = Result<Option<T>, NotApplied>;

impl Default for Planning {
    fn default() -> Planning {
        Planning { turn: Arc::default(), places: Arc::new(Semaphore::new(MAX_PLANS)) }
    }
}

impl Planning {
    /// Compares these documents with those in force, as long as somebody waits for that.
    pub(super) fn plan(&self, in_force: InForce, documents: Vec<Document>, done: Done<Planned>) {
        let name = documents.first().map_or_else(String::new, |first| first.name.clone());
        self.begin(done, move |is_wanted| {
            let planned = compare(&in_force, &documents, is_wanted);
            planned.map_err(|failure| refused(&name, &failure))
        });
    }

    /// Compares two configurations of the past, the older one first. Paths in them start at the folder of `file`.
    pub(super) fn compare(&self, [old, new]: [(u64, Past); 2], file: PathBuf, done: Done<Planned>) {
        let resolve = move |(id, past): (u64, Past)| {
            let resolved = past.read().and_then(|past| config_file::resolve_past(&past, &file));
            resolved.map_err(|failure| refused(&format!("configuration {id}"), &failure))
        };
        self.begin(done, move |is_wanted| {
            let (old, new) = (resolve(old)?, resolve(new)?);
            Ok(Plan::while_wanted(&old, &new, is_wanted).as_ref().map(plan::shown))
        });
    }

    /// Explains a request under the configuration in force.
    pub(super) fn explain(&self, in_force: InForce, question: Question, done: Done<Explained>) {
        self.begin(done, move |_| {
            let InForce { config, file, .. } = &in_force;
            let Question { method, url, fields, client: from } = &question;
            let asking = Asking { method, url, fields, certificate: None, from: *from };
            let files = config_file::read_named(config, file);
            match titan_proxy::explain(config, &files, &asking) {
                Ok(explanation) => Ok(Some(explained::shown(&explanation, config))),
                Err(bad) => {
                    let text = format!("{bad}\n");
                    Err(NotApplied::Refused(Findings { text, json: Vec::new() }))
                }
            }
        });
    }

    /// Does that on a thread of its own, when it is its turn.
    fn begin<T: Send + 'static>(
        &self,
        done: Done<T>,
        work: impl FnOnce(&dyn Fn() -> bool) -> Wanted<T> + Send + 'static,
    ) {
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            let why = format!("{MAX_PLANS} others are being made or wait: try again in a while");
            return drop(done.send(Err(NotApplied::Conflict(why))));
        };
        let turn = Arc::clone(&self.turn);
        let job = move || {
            let _place = place;
            // Nobody's requests wait for it. That may be forbidden, and works without.
            let _ = rustix::process::nice(NICE);
            let _turn = turn.lock();
            let is_wanted = || !done.is_closed();
            let made = if is_wanted() { work(&is_wanted) } else { Ok(None) };
            let Some(made) = made.transpose() else { return };
            drop(done.send(made));
        };
        // Where there is no thread nobody hears of it, which is told.
        drop(thread::Builder::new().name("plan".to_owned()).spawn(job));
    }
}

fn refused(name: &str, failure: &Failure) -> NotApplied {
    let json = check::failed(name, failure);
    NotApplied::Refused(Findings { text: failure.text(false), json })
}

/// What these documents would change in the configuration in force, if that is wanted to the end. Both are read as if they
/// stood in place of its file.
fn compare(
    in_force: &InForce,
    documents: &[Document],
    is_wanted: &dyn Fn() -> bool,
) -> Result<Option<Planned>, Failure> {
    let InForce { file, documents: old, .. } = in_force;
    let new = config_file::resolve_new(documents, file, &old.delivered())?;
    let old = config_file::resolve_past(&old.texts, file)?;
    let plan = Plan::while_wanted(&old, &new, is_wanted);
    Ok(plan.as_ref().map(plan::shown))
}
