//! The sources of a gateway that runs: what they have delivered, what of it is held back, and what is kept of it.

use super::storage::Storage;
use crate::delivered::{self, DocumentName, Texts};
use crate::fit::Held;
use crate::kept::{self, Kept, Restored};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use titan_admin::SourceStatus;
use titan_config::{LogArea, LogLevel, RemoteSource};
use titan_observe::events::{Event, Log};
use titan_proxy::Feeds;
use titan_sources::delivery::Delivery;
use titan_sources::outlet::{Health, Inlet, Verdict};
use titan_sources::source::{Program, Source};
use tokio::sync::oneshot;
use tokio::time::Instant;

/// The sources of the configuration in force.
pub(crate) struct Sources {
    /// What the program does for them.
    program: Arc<dyn Program>,
    /// Whether it is known which they are.
    has_begun: bool,
    known: BTreeMap<String, Known>,
    /// What is in force of them.
    in_force: Texts,
    /// The one that has delivered something which was not tried yet, or is to be tried again.
    due: Option<String>,
    /// When what is held back is tried again: what was in its way outside of it may have passed.
    again: Option<Instant>,
    /// Where they tell of endpoints.
    feeds: Feeds,
    keeping: Keeping,
}

/// A source that is asked.
struct Known {
    source: Source,
    inlet: Inlet,
    /// Whether it delivers nothing more: its thread has ended.
    is_over: bool,
    latest: Option<Arc<Delivery>>,
    /// What was tried last of it, or is being tried: what comes meanwhile is not judged by that.
    tried: Option<Arc<Delivery>>,
    /// Documents that are held back, each with the reason.
    held: BTreeMap<String, String>,
    revision: Option<String>,
    /// When the documents were signed that are in force.
    signed_at: Option<u64>,
    /// Whether it was told that it cannot be asked.
    is_failing: bool,
    /// The warning that was told last.
    warned: Option<String>,
}

/// What is kept in the state directory, and what should be.
#[derive(Default)]
struct Keeping {
    directory: Option<PathBuf>,
    /// What is there, or about to be.
    kept: BTreeMap<String, Kept>,
    /// What is not there yet; nothing where it is to be removed.
    unsaved: BTreeMap<String, Option<Kept>>,
    saving: Option<Saving>,
    /// When it is tried again, after it has failed.
    retry: Option<Instant>,
    complaint: Option<String>,
}

/// Something that is being written.
struct Saving {
    outcome: oneshot::Receiver<Result<(), String>>,
    written: BTreeMap<String, Option<Kept>>,
}

/// What there is to note.
pub(super) enum News {
    /// What a source has delivered; nothing if it will not any more.
    Delivered(String, Option<Arc<Delivery>>),
    /// What has come of writing.
    Written(Result<(), String>),
}

/// After how long what has failed is tried again.
const RETRY: Duration = Duration::from_secs(10);
/// After how long documents that are held back are tried again.
const AGAIN: Duration = Duration::from_secs(60);

/// How they fare before they are asked.
pub(crate) fn before(sources: &[Source], restored: &Restored) -> Vec<SourceStatus> {
    let status = |source: &Source| {
        let kept = restored.kept.get(source.config().name.as_str());
        let known = (kept.map(|it| it.revision.clone()), Health::default());
        status(source, known, &Texts::new(), &BTreeMap::new())
    };
    sources.iter().map(status).collect()
}

fn status(
    source: &Source,
    (revision, health): (Option<String>, Health),
    in_force: &Texts,
    held: &BTreeMap<String, String>,
) -> SourceStatus {
    let RemoteSource { name, local_files, kind } = source.config();
    SourceStatus {
        name: name.to_string(),
        kind: kind.name(),
        local_files: *local_files,
        revision,
        succeeded: health.succeeded,
        failure: health.failure,
        documents: delivered::of_source(in_force, name.as_str()).count(),
        held_back: held.iter().map(|(name, why)| (name.clone(), why.clone())).collect(),
    }
}

impl Sources {
    /// None yet.
    pub(super) fn none(program: Arc<dyn Program>, feeds: Feeds) -> Sources {
        Sources {
            program,
            feeds,
            has_begun: false,
            known: BTreeMap::new(),
            in_force: Texts::new(),
            due: None,
            again: None,
            keeping: Keeping::default(),
        }
    }

    /// Begins to ask these. What was in force of them is kept in that directory.
    pub(super) fn begin(
        &mut self,
        sources: Vec<Source>,
        restored: Restored,
        directory: Option<PathBuf>,
        log: &Log,
    ) {
        self.has_begun = true;
        self.keeping = Keeping { directory, kept: restored.kept, ..Keeping::default() };
        self.follow(sources, log);
    }

    /// Asks these from now on. Those that are the same go on.
    pub(super) fn follow(&mut self, sources: Vec<Source>, log: &Log) {
        let mut before = std::mem::take(&mut self.known);
        for source in sources {
            let name = source.config().name.to_string();
            let same = before.remove(&name).filter(|known| known.source.takes_over(&source));
            match same.map_or_else(|| self.start(source), Ok) {
                Ok(known) => drop(self.known.insert(name, known)),
                Err(error) => {
                    let what = format!("the source {name} cannot be asked: {error}");
                    log.tell(event(LogLevel::Error, "source_failed", what));
                }
            }
        }
        let is_known = |name: &String| self.known.contains_key(name);
        let gone = self.keeping.kept.keys().filter(|name| !is_known(name));
        let gone: Vec<_> = gone.map(|name| (name.clone(), None)).collect();
        self.keeping.kept.retain(|name, _| self.known.contains_key(name));
        self.keeping.unsaved.extend(gone);
    }

    fn start(&self, source: Source) -> std::io::Result<Known> {
        let kept = self.keeping.kept.get(source.config().name.as_str());
        let signed_at = kept.and_then(|kept| kept.signed_at);
        Ok(Known {
            inlet: source.start(signed_at, (&self.program, &self.feeds))?,
            source,
            is_over: false,
            latest: None,
            tried: None,
            held: BTreeMap::new(),
            revision: kept.map(|kept| kept.revision.clone()),
            signed_at,
            is_failing: false,
            warned: None,
        })
    }

    /// Waits until a source has delivered something, or something was written; for ever without sources.
    pub(super) async fn next(&mut self) -> News {
        let Sources { known, keeping, .. } = self;
        let asked = known.iter_mut().filter(|(_, known)| !known.is_over);
        // These live as long as the wait: it would hear of nothing that comes after the one that was dropped.
        let mut waits: Vec<_> =
            asked.map(|(name, known)| (name, Box::pin(known.inlet.next()))).collect();
        poll_fn(|cx| {
            if let Some(Saving { outcome, .. }) = &mut keeping.saving
                && let Poll::Ready(outcome) = Pin::new(outcome).poll(cx)
            {
                let silence = |_| Err("the state directory does not respond".to_owned());
                return Poll::Ready(News::Written(outcome.unwrap_or_else(silence)));
            }
            for (name, wait) in &mut waits {
                if let Poll::Ready(delivery) = wait.as_mut().poll(cx) {
                    return Poll::Ready(News::Delivered(name.clone(), delivery));
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Notes it.
    pub(super) fn take(&mut self, news: News, log: &Log) {
        match news {
            News::Delivered(name, delivery) => {
                let Some(known) = self.known.get_mut(&name) else { return };
                known.is_over = delivery.is_none();
                if delivery.is_some() {
                    known.latest = delivery;
                    self.due = Some(name);
                }
            }
            News::Written(outcome) => self.keeping.note_written(outcome.err(), log),
        }
    }

    /// Has what they have delivered tried again: what it is to fit is another configuration now.
    pub(super) fn try_again(&mut self) {
        let is_waiting = |known: &Known| known.latest.is_some();
        let first = self.known.iter().find(|(_, known)| is_waiting(known));
        self.due = self.due.take().or_else(|| first.map(|(name, _)| name.clone()));
    }

    /// What they want to be in force, and whose delivery that is, where that was not tried yet.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<(String, Texts)> {
        if self.again.is_some_and(|at| now >= at) {
            self.again = None;
            self.try_again();
        }
        let name = self.due.take()?;
        let mut wanted = Texts::new();
        for (source, known) in &mut self.known {
            known.tried.clone_from(&known.latest);
            match &known.latest {
                Some(delivery) => wanted.extend(delivery.documents().iter().map(|document| {
                    let name = DocumentName::new(source, &document.name);
                    (name, Arc::from(document.text.as_str()))
                })),
                None => wanted.extend(
                    delivered::of_source(&self.in_force, source)
                        .map(|(name, text)| (name.clone(), Arc::clone(text))),
                ),
            }
        }
        Some((name, wanted))
    }

    /// Notes that what they have delivered was tried: these are held back, all others are in force. What there is to tell of it.
    pub(super) fn note_tried(&mut self, held: &Held, now: Instant) -> Vec<Event> {
        self.again = (!held.is_empty()).then(|| now + AGAIN);
        let mut events = Vec::new();
        for (source, known) in &mut self.known {
            let Some(tried) = known.tried.clone() else { continue };
            let of_source = held.iter().filter(|(name, _)| name.source == *source);
            let refused = of_source.map(|(name, why)| (name.document.clone(), why.clone()));
            let mut refused: BTreeMap<_, _> = refused.collect();
            refused.extend(tried.skipped().clone());
            events.extend(held_back(source, (&known.held, &refused)));
            if refused.is_empty() {
                known.signed_at = tried.signing_time();
            }
            known.revision = Some(tried.revision().to_owned());
            known.held.clone_from(&refused);
            known.inlet.judge(Verdict {
                revision: tried.revision().to_owned(),
                refused,
                in_force: true,
            });
        }
        events
    }

    /// Notes that nothing could be tried, for a reason that is in no document.
    pub(super) fn note_failed(&mut self, now: Instant) {
        self.again = Some(now + RETRY);
        for known in self.known.values() {
            let Some(tried) = &known.tried else { continue };
            let revision = tried.revision().to_owned();
            known.inlet.judge(Verdict { revision, ..Verdict::default() });
        }
    }

    /// Notes what is in force of them now, which is to be kept.
    pub(super) fn note_in_force(&mut self, in_force: Texts) {
        self.in_force = in_force;
        for (name, known) in &self.known {
            let revision = known.revision.as_deref().unwrap_or_default();
            let kept = Kept::new(revision, known.signed_at, name, &self.in_force);
            let is_new = known.revision.is_some() && self.keeping.kept.get(name) != Some(&kept);
            if is_new {
                self.keeping.kept.insert(name.clone(), kept.clone());
                self.keeping.unsaved.insert(name.clone(), Some(kept));
            }
        }
    }

    /// Begins to write what is to be kept. What there is to tell: which of them cannot be asked, and which can again.
    pub(super) fn look(&mut self, storage: Option<&Storage>, now: Instant) -> Vec<Event> {
        let mut events = Vec::new();
        for (name, known) in &mut self.known {
            let failure = known.failure();
            match (&failure, known.is_failing) {
                (Some(why), false) => {
                    let what = format!(
                        "the source {name} cannot be asked, and what is in force of it stays: {why}"
                    );
                    events.push(event(LogLevel::Warn, "source_failed", what));
                }
                (None, true) => {
                    let what = format!("the source {name} can be asked again");
                    events.push(event(LogLevel::Info, "source_recovered", what));
                }
                _ => {}
            }
            known.is_failing = failure.is_some();
            let Health { warning, .. } = known.inlet.health();
            if let Some(what) = warning.as_ref().filter(|_| warning != known.warned) {
                let what = format!("the source {name}: {what}");
                events.push(event(LogLevel::Warn, "source_warned", what));
            }
            known.warned = warning;
        }
        self.keeping.save(storage, now);
        events
    }

    /// Why a process that takes over would begin without what they have delivered, where that is so.
    pub(super) fn before_upgrade(&self) -> Option<String> {
        let Keeping { unsaved, saving, .. } = &self.keeping;
        let is_kept = unsaved.is_empty() && saving.is_none();
        let unkept = (!self.in_force.is_empty() && !is_kept).then(|| {
            "what sources have delivered is not in the state directory, so that the next process would begin without it: set \
                `state.directory`, or try again when the directory can be written"
                .to_owned()
        });
        unkept.or_else(|| self.program.before_upgrade())
    }

    /// How they fare; nothing before it is known which they are.
    pub(super) fn told(&self) -> Option<Vec<SourceStatus>> {
        let told = |known: &Known| {
            let health = Health { failure: known.failure(), ..known.inlet.health() };
            status(&known.source, (known.revision.clone(), health), &self.in_force, &known.held)
        };
        self.has_begun.then(|| self.known.values().map(told).collect())
    }
}

impl Known {
    /// Why it cannot be asked.
    fn failure(&self) -> Option<String> {
        let Health { failure, .. } = self.inlet.health();
        failure.or_else(|| self.is_over.then(|| "its thread has ended unexpectedly".to_owned()))
    }
}

impl Keeping {
    /// Notes what has come of writing.
    fn note_written(&mut self, fault: Option<String>, log: &Log) {
        let Some(Saving { written, .. }) = self.saving.take() else { return };
        if fault.is_some() {
            // What has changed since is newer.
            let newer = std::mem::replace(&mut self.unsaved, written);
            self.unsaved.extend(newer);
        }
        self.retry = fault.is_some().then(|| Instant::now() + RETRY);
        if fault != self.complaint
            && let Some(fault) = &fault
        {
            let what = format!("what is in force of sources cannot be kept: {fault}");
            log.tell(event(LogLevel::Warn, "source_not_kept", what));
        }
        self.complaint = fault;
    }

    /// Begins to write what is not there yet, where nothing is being written.
    fn save(&mut self, storage: Option<&Storage>, now: Instant) {
        let (Some(storage), Some(directory)) = (storage, &self.directory) else { return };
        let is_due = self.saving.is_none() && self.retry.is_none_or(|at| now >= at);
        if self.unsaved.is_empty() || !is_due {
            return;
        }
        let (todo, directory) = (std::mem::take(&mut self.unsaved), directory.clone());
        let written = todo.clone();
        let write = move |_: &mut _| {
            for (source, kept) in &todo {
                kept::write(&directory, source, kept.as_ref())
                    .map_err(|error| format!("{}: {error}", directory.display()))?;
            }
            Ok(())
        };
        self.saving = Some(Saving { outcome: storage.begin(write), written });
    }
}

/// What there is to tell of the documents of a source that are held back and were not, or for another reason, and of those that
/// are not any more.
fn held_back(
    source: &str,
    (before, now): (&BTreeMap<String, String>, &BTreeMap<String, String>),
) -> Vec<Event> {
    let held =
        now.iter().filter(|(name, why)| before.get(*name) != Some(*why)).map(|(name, why)| {
            let name = DocumentName::new(source, name);
            event(LogLevel::Warn, "document_held_back", format!("{name} is held back: {why}"))
        });
    let accepted = before.keys().filter(|name| !now.contains_key(*name)).map(|name| {
        let name = DocumentName::new(source, name);
        event(LogLevel::Info, "document_accepted", format!("{name} is not held back any more"))
    });
    held.chain(accepted).collect()
}

fn event(level: LogLevel, kind: &'static str, what: String) -> Event {
    Event::new((LogArea::Config, level), kind, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::sync::Mutex;
    use titan_config::{Config, KubernetesSource};
    use titan_proxy::Files;
    use titan_sources::endpoints::{Endpoints, Keeper};
    use titan_sources::outlet::Outlet;

    /// A cluster that delivers what it is given.
    struct Given(Mutex<Option<oneshot::Receiver<Delivery>>>);

    impl Program for Given {
        fn watch<'a>(
            &'a self,
            _: &'a str,
            _: &'a KubernetesSource,
            outlet: Outlet,
        ) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
            let given = self.0.lock().unwrap().take().unwrap();
            Box::pin(async move {
                outlet.deliver(given.await.unwrap());
                outlet.closed().await;
            })
        }

        fn keeper(&self, _: &str) -> Option<Arc<dyn Keeper>> {
            None
        }

        fn kept(&self, _: &str) -> Endpoints {
            Endpoints::new()
        }
    }

    #[test]
    fn what_comes_during_an_attempt_is_not_judged_by_it() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let (program, log) = (Arc::new(Given(Mutex::new(None))), Log::default());
        let mut sources = Sources::none(program, Feeds::default());
        let (mut outlet, inlet) = titan_sources::outlet::outlet("s");
        let text = "listeners: ':80'\nroutes: { respond: 404 }\nsources: { s: { kubernetes: {} } }";
        let config = Config::parse("titan.yaml", text).unwrap();
        let source = Source::new(&config.sources[0], &config.resolver, &Files::default()).unwrap();
        let known = Known {
            source,
            inlet,
            is_over: false,
            latest: None,
            tried: None,
            held: BTreeMap::new(),
            revision: None,
            signed_at: None,
            is_failing: false,
            warned: None,
        };
        sources.known.insert("s".to_owned(), known);
        let now = Instant::now();
        let deliver = |sources: &mut Sources, revision: &str| {
            let delivery = Arc::new(Delivery::new(revision, Vec::new()).unwrap());
            sources.take(News::Delivered("s".to_owned(), Some(delivery)), &log);
        };
        deliver(&mut sources, "1");
        sources.take_due(now).unwrap();
        deliver(&mut sources, "2");
        sources.note_tried(&Held::new(), now);
        let verdict = runtime.block_on(outlet.verdicts()).unwrap();
        assert_eq!((verdict.revision.as_str(), verdict.in_force), ("1", true));
        sources.take_due(now).unwrap();
        sources.note_failed(now);
        let verdict = runtime.block_on(outlet.verdicts()).unwrap();
        assert_eq!((verdict.revision.as_str(), verdict.in_force), ("2", false));
    }

    #[test]
    fn a_delivery_ends_the_wait_for_it() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let text = "listeners: ':80'\nroutes: { respond: 404 }\nsources: { s: { kubernetes: {} } }";
        let config = Config::parse("titan.yaml", text).unwrap();
        let source = Source::new(&config.sources[0], &config.resolver, &Files::default()).unwrap();
        let (give, given) = oneshot::channel();
        let mut sources = Sources::none(Arc::new(Given(Mutex::new(Some(given)))), Feeds::default());
        let log = Log::default();
        sources.begin(vec![source], Restored::default(), None, &log);
        runtime.block_on(async {
            let mut next = pin!(sources.next());
            let is_waiting = poll_fn(|cx| Poll::Ready(next.as_mut().poll(cx).is_pending())).await;
            assert!(is_waiting);
            give.send(Delivery::new("1", Vec::new()).unwrap()).unwrap();
            let news = tokio::time::timeout(Duration::from_secs(10), next).await.unwrap();
            assert!(matches!(news, News::Delivered(name, Some(_)) if name == "s"));
        });
    }
}
