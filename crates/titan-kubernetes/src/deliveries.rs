//! What was delivered, what came of it, and which files that needs.
//!
//! ```text
//! sent -> verdict: what was not refused is in force, with its files
//!      -> no verdict for long: the next one is sent all the same
//! ```

use crate::standing::{Form, Standing};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;
use titan_sources::outlet::Verdict;
use tokio::time::Instant;

/// The files that documents name.
pub(crate) type Files = BTreeMap<String, BTreeSet<String>>;

/// How long the next delivery waits for the verdict on the one before.
const OVERDUE: Duration = Duration::from_secs(30);
/// Deliveries that may be without a verdict at a time.
const MAX_SENT: usize = 2;

/// What was delivered.
#[derive(Default)]
pub(crate) struct Deliveries {
    /// That of the last one.
    pub(crate) number: u64,
    /// Those without a verdict, and the last one in any case; the oldest first, at most [`MAX_SENT`].
    pub(crate) sent: VecDeque<Sent>,
    /// The files of documents that are in force.
    pub(crate) in_force: Files,
}

/// A delivery.
pub(crate) struct Sent {
    pub(crate) number: u64,
    pub(crate) documents: BTreeMap<String, String>,
    pub(crate) forms: BTreeMap<String, Form>,
    pub(crate) files: Files,
    pub(crate) at: Instant,
    pub(crate) is_judged: bool,
}

impl Deliveries {
    /// Whether the last delivery is another one than this, or there was none.
    pub(crate) fn is_news(&self, documents: &BTreeMap<String, String>) -> bool {
        self.sent.back().is_none_or(|last| last.documents != *documents)
    }

    /// Until when the next delivery waits.
    pub(crate) fn overdue(&self) -> Option<Instant> {
        self.sent.back().filter(|last| !last.is_judged).map(|last| last.at + OVERDUE)
    }

    pub(crate) fn note_sent(&mut self, sent: Sent) {
        self.number = sent.number;
        self.sent.retain(|it| !it.is_judged);
        self.sent.push_back(sent);
        while self.sent.len() > MAX_SENT {
            self.sent.pop_front();
        }
    }

    /// Notes the verdict on one of them, in `standing` as far as the last one says the same. Returns whether it was one of them.
    pub(crate) fn note_verdict(&mut self, verdict: &Verdict, standing: &mut Standing) -> bool {
        let is_meant = |it: &Sent| it.number.to_string() == verdict.revision;
        let Some(at) = self.sent.iter().position(is_meant) else { return false };
        let judged = &self.sent[at];
        if verdict.in_force {
            let held = verdict.refused.keys().filter_map(|name| {
                let before = self.in_force.get(name)?;
                Some((name.clone(), before.clone()))
            });
            let mut in_force: Files = judged.files.clone();
            in_force.retain(|name, _| !verdict.refused.contains_key(name));
            in_force.extend(held.collect::<Vec<_>>());
            self.in_force = in_force;
        }
        let names = judged.documents.keys().map(String::as_str);
        match self.sent.back().filter(|last| last.number != judged.number) {
            None => standing.note(names, &verdict.refused, verdict.in_force),
            Some(last) => {
                let is_same =
                    |name: &&str| last.documents.get(*name) == judged.documents.get(*name);
                standing.note_some(names.filter(is_same), &verdict.refused, verdict.in_force);
            }
        }
        self.sent[at].is_judged = true;
        // Those before it were replaced before they were tried.
        self.sent.drain(..at);
        true
    }

    /// The names of all files of what is in force, and of what may come into force.
    pub(crate) fn files(&self) -> BTreeSet<String> {
        let sent = self.sent.iter().map(|it| &it.files);
        sent.chain([&self.in_force]).flat_map(BTreeMap::values).flatten().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credentials::named_in;
    use crate::standing::Became;

    /// A file that a document may name.
    fn file(digit: char) -> String {
        format!("{}.policy", String::from(digit).repeat(64))
    }

    impl Deliveries {
        /// Sends these documents, each of which names one file.
        fn send(&mut self, documents: &[(&str, char)]) {
            let number = self.number + 1;
            let texts = documents.iter().map(|(name, digit)| ((*name).to_owned(), file(*digit)));
            let documents: BTreeMap<_, _> = texts.collect();
            let files = documents.iter().map(|(name, text)| (name.clone(), named_in(text)));
            let (files, forms) = (files.collect(), BTreeMap::new());
            let at = Instant::now();
            self.note_sent(Sent { number, documents, forms, files, at, is_judged: false });
        }

        fn judge(&mut self, standing: &mut Standing, number: u64, refused: &[&str]) -> bool {
            let refused = refused.iter().map(|it| ((*it).to_owned(), "why".to_owned()));
            let revision = number.to_string();
            let verdict = Verdict { revision, refused: refused.collect(), in_force: true };
            self.note_verdict(&verdict, standing)
        }

        fn digits(&self) -> String {
            self.files().iter().filter_map(|it| it.chars().next()).collect()
        }
    }

    #[test]
    fn files_stay_as_long_as_something_in_force_names_them() {
        let (mut all, mut standing) = (Deliveries::default(), Standing::default());
        all.in_force = BTreeMap::from([("old".to_owned(), BTreeSet::from([file('0')]))]);
        all.send(&[("a", '1'), ("b", '2')]);
        assert_eq!(all.digits(), "012");
        assert!(all.judge(&mut standing, 1, &[]));
        assert_eq!(all.digits(), "12");
        // One is refused for ever, and what it said before is in force. Others change often.
        for digit in ['4', '5', '6'] {
            all.send(&[("a", '3'), ("b", digit)]);
            assert!(all.overdue().is_some());
            let number = all.number;
            assert!(all.judge(&mut standing, number, &["a"]));
            assert_eq!(all.digits(), format!("13{digit}"));
            assert!(all.overdue().is_none());
        }
        all.send(&[("b", '6')]);
        // That it is gone may be refused as well.
        assert!(all.judge(&mut standing, 5, &["a"]));
        assert_eq!(all.digits(), "16");
        assert!(all.judge(&mut standing, 5, &[]));
        assert_eq!(all.digits(), "6");
    }

    #[test]
    fn a_verdict_that_was_overtaken_says_what_it_can() {
        let (mut all, mut standing) = (Deliveries::default(), Standing::default());
        all.send(&[("same", '1'), ("other", '2')]);
        all.send(&[("same", '1'), ("other", '3')]);
        assert!(all.judge(&mut standing, 1, &["same", "other"]));
        assert_eq!(standing.of("same"), Became::Refused("why"));
        assert_eq!(standing.of("other"), Became::Pending);
        assert!(all.judge(&mut standing, 2, &["same"]));
        assert_eq!(standing.of("other"), Became::InForce);
        // That one was replaced.
        assert!(!all.judge(&mut standing, 1, &[]));
        // Nothing piles up where no verdict comes.
        for _ in 0..10 {
            all.send(&[("same", '1')]);
        }
        assert_eq!(all.sent.len(), MAX_SENT);
    }
}
