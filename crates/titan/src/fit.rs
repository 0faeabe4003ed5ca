//! Which documents of sources fit together: those that do not are held back, and take none of the others with them.
//!
//! ```text
//! all that has changed is tried
//!   errors at changed documents -> these stay as they were, or away     } until it fits,
//!   errors where such a one has stayed as it was -> it is left out      } or too often
//!   errors elsewhere -> one half of the changes, then the other one, and so on down to single ones
//! ```

use crate::delivered::{DocumentName, Texts};
use crate::failure::Failure;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use titan_config::{Label, Location, Severity};

/// The documents that are held back, each with the reason.
pub(crate) type Held = BTreeMap<DocumentName, String>;

/// What has come of trying documents.
#[derive(Debug)]
pub(crate) struct Fitted<T> {
    /// What fits, and what came of trying it; nothing where all stays as it was.
    pub(crate) made: Option<(Texts, T)>,
    pub(crate) held: Held,
    /// Why nothing could be tried, which is the fault of no document.
    pub(crate) failure: Option<Failure>,
}

/// More often than this documents are not tried at once: each takes as long as a reload.
const MAX_ATTEMPTS: usize = 64;
/// Characters of a reason.
const MAX_REASON: usize = 500;

/// Tries to make of `base`, which has fitted, what is wanted.
pub(crate) fn fit<T>(
    base: &Texts,
    wanted: &Texts,
    attempt: impl FnMut(&Texts) -> Result<T, Failure>,
) -> Fitted<T> {
    let changes = changes(base, wanted);
    let fitting =
        Fitting { now: base.clone(), changes, held: Held::new(), attempt, left: MAX_ATTEMPTS };
    fitting.run(base)
}

/// The documents that are new or others, and, as `None`, those that are gone.
fn changes(base: &Texts, wanted: &Texts) -> BTreeMap<DocumentName, Option<Arc<str>>> {
    let is_other = |(name, text): &(&DocumentName, &Arc<str>)| base.get(*name) != Some(*text);
    let put =
        wanted.iter().filter(is_other).map(|(name, text)| (name.clone(), Some(Arc::clone(text))));
    let gone = base.keys().filter(|name| !wanted.contains_key(name));
    put.chain(gone.map(|name| (name.clone(), None))).collect()
}

struct Fitting<F> {
    /// What stays whatever comes of the changes.
    now: Texts,
    /// What is still to be tried.
    changes: BTreeMap<DocumentName, Option<Arc<str>>>,
    held: Held,
    attempt: F,
    /// Attempts that are left.
    left: usize,
}

impl<F> Fitting<F> {
    fn run<T>(mut self, base: &Texts) -> Fitted<T>
    where
        F: FnMut(&Texts) -> Result<T, Failure>,
    {
        while !self.changes.is_empty() || self.now != *base {
            let names: Vec<_> = self.changes.keys().cloned().collect();
            let texts = self.with(&names);
            let failure = match self.attempt(&texts) {
                Some(Ok(made)) => {
                    return Fitted { made: Some((texts, made)), held: self.held, failure: None };
                }
                Some(Err(failure)) => failure,
                None => break,
            };
            if !self.hold_blamed(&failure) {
                return self.search(base, &names, failure);
            }
        }
        self.give_up();
        Fitted { made: None, held: self.held, failure: None }
    }

    /// Holds back what the places of errors point to; whether they do.
    fn hold_blamed(&mut self, failure: &Failure) -> bool {
        let mut blamed = BTreeMap::new();
        for Blame { documents, reason } in blame(failure) {
            let has_stayed =
                |name: &&DocumentName| self.held.contains_key(name) && self.now.contains_key(name);
            let has_changed = |name: &&DocumentName| self.changes.contains_key(name);
            let found =
                documents.iter().find(has_stayed).or_else(|| documents.iter().find(has_changed));
            if let Some(name) = found {
                blamed.entry(name.clone()).or_insert(reason);
            }
        }
        for (name, reason) in &blamed {
            if self.changes.remove(name).is_none() {
                self.now.remove(name);
            }
            self.held.entry(name.clone()).or_insert_with(|| reason.clone());
        }
        !blamed.is_empty()
    }

    /// Finds out which changes do not fit, where nothing points to them.
    fn search<T>(mut self, base: &Texts, names: &[DocumentName], failure: Failure) -> Fitted<T>
    where
        F: FnMut(&Texts) -> Result<T, Failure>,
    {
        let mut made = None;
        // Without any change it may not fit either: then none of them is to blame.
        if names.is_empty() {
            return Fitted { made, held: self.held, failure: Some(failure) };
        }
        let now = self.now.clone();
        match self.attempt(&now) {
            Some(Ok(done)) => made = (now != *base).then_some((now, done)),
            Some(Err(failure)) => return Fitted { made, held: self.held, failure: Some(failure) },
            None => {}
        }
        let mut todo = match names {
            [name] => {
                self.hold(name, reason_of(&failure));
                Vec::new()
            }
            names => halves(names),
        };
        while let Some(names) = todo.pop() {
            let texts = self.with(&names);
            match self.attempt(&texts) {
                None => break,
                Some(Ok(done)) => {
                    names.iter().for_each(|name| drop(self.changes.remove(name)));
                    self.now.clone_from(&texts);
                    made = Some((texts, done));
                }
                Some(Err(failure)) => match &names[..] {
                    [name] => self.hold(name, reason_of(&failure)),
                    names => todo.extend(halves(names)),
                },
            }
        }
        self.give_up();
        Fitted { made, held: self.held, failure: None }
    }

    fn hold(&mut self, name: &DocumentName, reason: String) {
        self.changes.remove(name);
        self.held.insert(name.clone(), reason);
    }

    /// What stays, with these changes.
    fn with(&self, names: &[DocumentName]) -> Texts {
        let mut texts = self.now.clone();
        for name in names {
            match self.changes.get(name) {
                Some(Some(text)) => drop(texts.insert(name.clone(), Arc::clone(text))),
                Some(None) => drop(texts.remove(name)),
                None => {}
            }
        }
        texts
    }

    /// Nothing where there were too many attempts.
    fn attempt<T>(&mut self, texts: &Texts) -> Option<Result<T, Failure>>
    where
        F: FnMut(&Texts) -> Result<T, Failure>,
    {
        self.left = self.left.checked_sub(1)?;
        Some((self.attempt)(texts))
    }

    /// Holds back what was not tried to the end.
    fn give_up(&mut self) {
        for name in std::mem::take(&mut self.changes).into_keys() {
            let reason = format!(
                "it was not tried: of what has changed with it too much does not fit ({MAX_ATTEMPTS} attempts)"
            );
            self.held.entry(name).or_insert(reason);
        }
    }
}

/// The second half, and the first one, which is tried first.
fn halves(names: &[DocumentName]) -> Vec<Vec<DocumentName>> {
    let (first, second) = names.split_at(names.len() / 2);
    vec![second.to_vec(), first.to_vec()]
}

/// Documents to which one error points, where it stands first, and what it says.
struct Blame {
    documents: Vec<DocumentName>,
    reason: String,
}

fn blame(failure: &Failure) -> Vec<Blame> {
    match failure {
        Failure::Config(report) => {
            let errors = report.diagnostics().iter().filter(|it| it.severity == Severity::Error);
            let blame = errors.map(|error| {
                let labels = std::iter::once(&error.at).chain(&error.also);
                let names = labels
                    .filter_map(|Label { span, .. }| DocumentName::parse(report.file(span.start)));
                let remark = if error.at.text.is_empty() { "" } else { ": " };
                let reason =
                    format!("{}: {}{remark}{}", error.at.span.start, error.message, error.at.text);
                Blame { documents: distinct(names), reason: shortened(&reason) }
            });
            blame.collect()
        }
        Failure::Credentials { files, faults } => {
            let blame = faults.iter().map(|(place, bad): &(Location, _)| Blame {
                documents: DocumentName::parse(files.of(*place)).into_iter().collect(),
                reason: shortened(&format!("{place}: {bad}")),
            });
            blame.collect()
        }
        Failure::BadInput(_) | Failure::Bind { .. } | Failure::Runtime(_) => Vec::new(),
    }
}

fn distinct(names: impl Iterator<Item = DocumentName>) -> Vec<DocumentName> {
    let mut seen = BTreeSet::new();
    names.filter(|name| seen.insert(name.clone())).collect()
}

/// What is wrong, in one line.
fn reason_of(failure: &Failure) -> String {
    let text = failure.text(false);
    let first = text.lines().next().unwrap_or_default();
    shortened(first.trim_start_matches("error: "))
}

fn shortened(reason: &str) -> String {
    reason.chars().take(MAX_REASON).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::{Path, PathBuf};
    use titan_config::{Composed, Document, Surroundings};

    /// A main file with one source, `s`, and these documents of it.
    struct Around<'t>(&'t Texts);

    impl Surroundings for Around<'_> {
        fn matching(&mut self, _: &Path, _: &str) -> Result<Vec<PathBuf>, String> {
            Ok(Vec::new())
        }

        fn document(&mut self, _: &Path) -> Result<Document, String> {
            Err(String::new())
        }

        fn variable(&mut self, _: &str) -> Result<Option<String>, String> {
            Ok(None)
        }

        fn secret(&mut self, _: &Path) -> Result<String, String> {
            Err(String::new())
        }

        fn delivered(&mut self, _: &str) -> Vec<Document> {
            let document =
                |(name, text): (&DocumentName, &Arc<str>)| Document::alone(&name.to_string(), text);
            self.0.iter().map(document).collect()
        }
    }

    const MAIN: &str = "sources: { s: { http: 'https://a/b' } }\nlisteners: ':80'";

    fn read(texts: &Texts) -> Result<(), Failure> {
        let main = Document::alone("titan.yaml", MAIN);
        Ok(Composed::read(main, &mut Around(texts)).map(drop)?)
    }

    fn texts(documents: &[(&str, &str)]) -> Texts {
        let named = |(name, text): &(&str, &str)| (DocumentName::new("s", name), Arc::from(*text));
        documents.iter().map(named).collect()
    }

    fn route(path: &str) -> String {
        format!("routes: {{ path: {path}, respond: 204 }}")
    }

    /// What is in force afterwards, and what is held back.
    fn outcome<T>(base: &Texts, fitted: Fitted<T>) -> (Vec<String>, Vec<String>) {
        assert!(fitted.failure.is_none(), "{:?}", fitted.failure);
        let now = fitted.made.map_or_else(|| base.clone(), |(texts, _)| texts);
        let named = |(name, text): (&DocumentName, &Arc<str>)| format!("{}: {text}", name.document);
        (
            now.iter().map(named).collect(),
            fitted.held.keys().map(|it| it.document.clone()).collect(),
        )
    }

    fn documents(pairs: &[(&str, &str)]) -> Vec<String> {
        pairs.iter().map(|(name, text)| format!("{name}: {text}")).collect()
    }

    #[test]
    fn what_fits_is_taken_at_once() {
        let (mut attempts, a, b) = (0, route("/a"), route("/b"));
        let wanted = texts(&[("a", &a), ("b", &b)]);
        let fitted = fit(&Texts::new(), &wanted, |texts| {
            attempts += 1;
            read(texts)
        });
        assert_eq!(fitted.made.map(|(texts, ())| texts), Some(wanted));
        assert_eq!((attempts, fitted.held.len()), (1, 0));
    }

    #[test]
    fn a_document_that_does_not_fit_stays_as_it_was() {
        let (a, b, new) = (route("/a"), route("/b"), route("/new"));
        let base = texts(&[("a", &a), ("b", &b)]);
        let wanted =
            texts(&[("a", "routes: ["), ("b", &new), ("c", "rutes: []"), ("d", "admin: off")]);
        let fitted = fit(&base, &wanted, read);
        let reason = &fitted.held[&DocumentName::new("s", "d")];
        assert_eq!(
            reason,
            "1:1: a document of a source cannot set `admin`: this belongs to the gateway"
        );
        let (now, held) = outcome(&base, fitted);
        assert_eq!(now, documents(&[("a", &a), ("b", &new)]));
        assert_eq!(held, ["a", "c", "d"]);
    }

    #[test]
    fn of_two_that_exclude_each_other_the_one_in_force_stays() {
        let (old, new) = (route("/same"), route("/same"));
        let base = texts(&[("b", &old)]);
        let (now, held) = outcome(&base, fit(&base, &texts(&[("a", &new), ("b", &old)]), read));
        assert_eq!((now, held), (documents(&[("b", &old)]), vec!["a".to_owned()]));
    }

    #[test]
    fn what_does_not_fit_any_more_is_left_out_for_what_does() {
        let (old, new) = (route("/moved"), route("/moved"));
        let base = texts(&[("a", &old)]);
        let (now, held) =
            outcome(&base, fit(&base, &texts(&[("a", "routes: ["), ("b", &new)]), read));
        assert_eq!((now, held), (documents(&[("b", &new)]), vec!["a".to_owned()]));
    }

    #[test]
    fn what_others_need_is_not_taken_away() {
        let (user, used) = ("routes: { path: /, upstream: u }", "upstreams: { u: 'u:1' }");
        let base = texts(&[("user", user), ("used", used)]);
        let fresh = route("/fresh");
        let fitted = fit(&base, &texts(&[("user", user), ("fresh", &fresh)]), read);
        let reason = &fitted.held[&DocumentName::new("s", "used")];
        assert!(reason.contains('u'), "{reason}");
        let (now, held) = outcome(&base, fitted);
        assert_eq!(now, documents(&[("fresh", &fresh), ("used", used), ("user", user)]));
        assert_eq!(held, ["used"]);
    }

    #[test]
    fn where_no_place_tells_the_changes_are_halved() {
        let names: Vec<String> = (0..16).map(|number| format!("d{number:02}")).collect();
        let pairs: Vec<_> = names.iter().map(|name| (name.as_str(), "")).collect();
        let bad =
            |texts: &Texts| texts.keys().any(|it| ["d03", "d12"].contains(&it.document.as_str()));
        let attempt = |texts: &Texts| match bad(texts) {
            true => Err(Failure::Runtime("cannot listen".to_owned())),
            false => Ok(()),
        };
        let fitted = fit(&Texts::new(), &texts(&pairs), attempt);
        assert_eq!(fitted.held[&DocumentName::new("s", "d03")], "cannot listen");
        let (now, held) = outcome(&Texts::new(), fitted);
        assert_eq!((now.len(), held), (14, vec!["d03".to_owned(), "d12".to_owned()]));
    }

    #[test]
    fn attempts_are_bounded_and_what_was_not_tried_is_told() {
        let names: Vec<String> = (0..200).map(|number| format!("d{number:03}")).collect();
        let pairs: Vec<_> = names.iter().map(|name| (name.as_str(), "")).collect();
        let mut attempts = 0;
        let fitted = fit(&Texts::new(), &texts(&pairs), |texts| {
            attempts += 1;
            if texts.is_empty() { Ok(()) } else { Err(Failure::Runtime("no".to_owned())) }
        });
        assert_eq!((attempts, fitted.held.len()), (MAX_ATTEMPTS, 200));
        assert!(fitted.made.is_none() && fitted.held.values().any(|why| why.contains("not tried")));
    }

    #[test]
    fn where_nothing_fits_without_them_documents_are_not_to_blame() {
        let fail = |_: &Texts| Err::<(), _>(Failure::Runtime("no memory".to_owned()));
        let fitted = fit(&Texts::new(), &texts(&[("a", "")]), fail);
        assert!(fitted.failure.is_some() && fitted.held.is_empty());
    }
}
