//! Which documents of sources fit together: those that do not are held back, and take none of the others with them.
//!
//! ```text
//! all that has changed is tried
//!   errors at changed documents -> these stay as they were, or away     } until it fits
//!   errors where such a one has stayed as it was -> it is left out      }
//!   errors elsewhere -> the changes of each source, then of these one half and the other one, down to single ones
//! ```
//!
//! Each source has its share of the attempts. One that has used it up stays as it was, and the others go on without its changes.

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

/// So often documents that do not fit are tried at once, for each attempt takes as long as a reload. Sources that have changed share
/// them: one that is all wrong must not hold back the others.
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
    let left = shares(&changes);
    Fitting { now: base.clone(), changes, held: Held::new(), attempt, left }.run(base)
}

/// The attempts that may fail because of each source.
fn shares(changes: &BTreeMap<DocumentName, Option<Arc<str>>>) -> BTreeMap<String, usize> {
    let sources: BTreeSet<_> = changes.keys().map(|name| &name.source).collect();
    let share = MAX_ATTEMPTS / sources.len().clamp(1, MAX_ATTEMPTS);
    sources.into_iter().map(|source| (source.clone(), share)).collect()
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
    /// What is still to be tried: nothing of a source without attempts.
    changes: BTreeMap<DocumentName, Option<Arc<str>>>,
    held: Held,
    attempt: F,
    /// Attempts that are left to each source.
    left: BTreeMap<String, usize>,
}

impl<F> Fitting<F> {
    /// Each round has fewer changes, or an attempt less is left to a source.
    fn run<T>(mut self, base: &Texts) -> Fitted<T>
    where
        F: FnMut(&Texts) -> Result<T, Failure>,
    {
        while !self.changes.is_empty() || self.now != *base {
            let names: Vec<_> = self.changes.keys().cloned().collect();
            let texts = self.with(&names);
            let failure = match (self.attempt)(&texts) {
                Ok(made) => {
                    return Fitted { made: Some((texts, made)), held: self.held, failure: None };
                }
                Err(failure) => failure,
            };
            if !self.hold_blamed(&failure, None) {
                return self.search(base, &names, failure);
            }
        }
        Fitted { made: None, held: self.held, failure: None }
    }

    /// Holds back what the places of errors point to; whether they do. Where only some changes were tried, only these: another one that
    /// is to come may be what makes good what is wrong with what stays.
    fn hold_blamed(&mut self, failure: &Failure, tried: Option<&[DocumentName]>) -> bool {
        let mut blamed = BTreeMap::new();
        for Blame { documents, reason } in blame(failure) {
            let has_stayed = |name: &&DocumentName| {
                tried.is_none()
                    && self.held.contains_key(name)
                    && self.now.contains_key(name)
                    && self.has_left(name)
            };
            let has_changed = |name: &&DocumentName| {
                self.changes.contains_key(name) && tried.is_none_or(|tried| tried.contains(name))
            };
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
        let sources: BTreeSet<_> = blamed.keys().map(|name| name.source.as_str()).collect();
        sources.into_iter().for_each(|source| self.charge(source));
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
        match (self.attempt)(&now) {
            Ok(done) => made = (now != *base).then_some((now, done)),
            Err(failure) => return Fitted { made, held: self.held, failure: Some(failure) },
        }
        let mut todo = match names {
            [name] => {
                self.hold(name, reason_of(&failure));
                Vec::new()
            }
            names => parts(names),
        };
        while let Some(names) = todo.pop() {
            let [first, ..] = &names[..] else { continue };
            // Its source may have used up its attempts.
            if !self.changes.contains_key(first) {
                continue;
            }
            let source = first.source.clone();
            let texts = self.with(&names);
            match (self.attempt)(&texts) {
                Ok(done) => {
                    names.iter().for_each(|name| drop(self.changes.remove(name)));
                    self.now.clone_from(&texts);
                    made = Some((texts, done));
                }
                // What is left of them is tried again.
                Err(failure) if self.hold_blamed(&failure, Some(&names)) => {
                    let is_left = |name: &DocumentName| self.changes.contains_key(name);
                    todo.push(names.into_iter().filter(is_left).collect());
                    continue;
                }
                Err(failure) => match &names[..] {
                    [name] => self.hold(name, reason_of(&failure)),
                    names => todo.extend(halves(names)),
                },
            }
            self.charge(&source);
        }
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

    /// Whether there are attempts left to the source of a document.
    fn has_left(&self, name: &DocumentName) -> bool {
        self.left.get(&name.source).is_some_and(|left| *left > 0)
    }

    /// Counts an attempt against a source. With its last one, what it has changed and was not tried to the end is held back.
    fn charge(&mut self, source: &str) {
        let Some(left) = self.left.get_mut(source) else { return };
        *left = left.saturating_sub(1);
        if *left > 0 {
            return;
        }
        let untried: Vec<_> =
            self.changes.keys().filter(|name| name.source == source).cloned().collect();
        for name in untried {
            let reason = "it was not tried: too much of what its source has changed does not fit";
            self.hold(&name, reason.to_owned());
        }
    }
}

/// The parts of changes that are searched: those of each source, or halves if there is one. Popped from the back, in their order.
fn parts(names: &[DocumentName]) -> Vec<Vec<DocumentName>> {
    let sources = names.chunk_by(|one, other| one.source == other.source);
    let parts: Vec<_> = sources.map(<[DocumentName]>::to_vec).rev().collect();
    if parts.len() == 1 { halves(names) } else { parts }
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
        Failure::Bind { file, .. } => {
            let documents: Vec<_> = DocumentName::parse(file).into_iter().collect();
            vec![Blame { documents, reason: reason_of(failure) }]
        }
        Failure::BadInput(_) | Failure::Runtime(_) => Vec::new(),
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
    use crate::delivered::of_source;
    use std::io;
    use std::path::{Path, PathBuf};
    use titan_config::{Composed, Document, Surroundings};

    /// A main file with two sources, `s` and `t`, and these documents of them.
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

        fn delivered(&mut self, source: &str) -> Vec<Document> {
            let document =
                |(name, text): (&DocumentName, &Arc<str>)| Document::alone(&name.to_string(), text);
            of_source(self.0, source).map(document).collect()
        }
    }

    const MAIN: &str =
        "sources: { s: { http: 'https://a/b' }, t: { http: 'https://a/b' } }\nlisteners: ':80'";

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
    fn a_port_in_use_holds_back_the_document_of_its_listener() {
        let names: Vec<String> = (0..64).map(|number| format!("d{number:02}")).collect();
        let pairs: Vec<_> = names.iter().map(|name| (name.as_str(), "")).collect();
        // Others can do nothing without the one that has the listeners of all.
        let mut attempts = 0;
        let fitted = fit(&Texts::new(), &texts(&pairs), |texts| {
            attempts += 1;
            let has = |name: &str| texts.contains_key(&DocumentName::new("s", name));
            let bind = |name: &str| Failure::Bind {
                address: "127.0.0.1:80".to_owned(),
                what: "",
                file: DocumentName::new("s", name).to_string(),
                error: io::ErrorKind::AddrInUse.into(),
            };
            match () {
                () if has("d07") => Err(Failure::Runtime("no".to_owned())),
                () if has("d41") => Err(bind("d41")),
                () => Ok(()),
            }
        });
        let reason = &fitted.held[&DocumentName::new("s", "d41")];
        assert_eq!(reason, "cannot listen on 127.0.0.1:80: address in use");
        let (now, held) = outcome(&Texts::new(), fitted);
        assert_eq!((now.len(), held), (62, vec!["d07".to_owned(), "d41".to_owned()]));
        assert!(attempts < 20, "{attempts}");
    }

    /// Documents of `s`, and one of `t`.
    fn of_two_sources(count: usize, text: impl Fn(usize) -> String) -> Texts {
        let of_s = (0..count)
            .map(|number| (DocumentName::new("s", &format!("d{number:03}")), text(number)));
        let of_t = (DocumentName::new("t", "d"), route("/t"));
        of_s.chain([of_t]).map(|(name, text)| (name, Arc::from(text))).collect()
    }

    #[test]
    fn attempts_are_bounded_and_what_was_not_tried_is_told() {
        let wanted = of_two_sources(200, |_| String::new());
        let mut attempts = 0;
        let fitted = fit(&Texts::new(), &wanted, |texts| {
            attempts += 1;
            if texts.is_empty() { Ok(()) } else { Err(Failure::Runtime("no".to_owned())) }
        });
        // Beside what all want together, and nothing: half of them for the many, and for the one the only one that it takes.
        assert_eq!((attempts, fitted.held.len()), (2 + MAX_ATTEMPTS / 2 + 1, 201));
        assert!(fitted.made.is_none() && fitted.held.values().any(|why| why.contains("not tried")));
    }

    #[test]
    fn a_source_that_is_all_wrong_holds_back_no_other() {
        let wanted = of_two_sources(200, |_| "rutes: []".to_owned());
        let wrong = |texts: &Texts| {
            let first = texts.iter().find(|(name, _)| name.source == "s")?;
            Some(Texts::from([(first.0.clone(), Arc::clone(first.1))]))
        };
        // Errors that point to one document at a time, and errors that point to none.
        let pointing =
            fit(&Texts::new(), &wanted, |texts| wrong(texts).map_or(Ok(()), |it| read(&it)));
        let vague = fit(&Texts::new(), &wanted, |texts| match wrong(texts) {
            Some(_) => Err(Failure::Runtime("no".to_owned())),
            None => Ok(()),
        });
        for fitted in [pointing, vague] {
            let (now, held) = outcome(&Texts::new(), fitted);
            assert_eq!((now, held.len()), (documents(&[("d", &route("/t"))]), 200));
        }
    }

    #[test]
    fn routes_beyond_those_of_a_path_are_left_out_at_once() {
        let wanted = of_two_sources(330, |number| {
            format!("routes: {{ headers: {{ X: '{number}' }}, respond: 204 }}")
        });
        let mut attempts = 0;
        let fitted = fit(&Texts::new(), &wanted, |texts| {
            attempts += 1;
            read(texts)
        });
        let (now, held) = outcome(&Texts::new(), fitted);
        assert_eq!((attempts, now.len(), held.len()), (2, 257, 74));
        assert_eq!(held[0], "d256");
    }

    #[test]
    fn where_nothing_fits_without_them_documents_are_not_to_blame() {
        let fail = |_: &Texts| Err::<(), _>(Failure::Runtime("no memory".to_owned()));
        let fitted = fit(&Texts::new(), &texts(&[("a", "")]), fail);
        assert!(fitted.failure.is_some() && fitted.held.is_empty());
    }
}
