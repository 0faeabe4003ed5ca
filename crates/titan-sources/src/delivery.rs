//! All that a source has at one moment: documents, and a name for this state of them.

use std::collections::{BTreeMap, HashSet};
use std::fmt;

/// Documents of one delivery.
pub const MAX_DOCUMENTS: usize = 50_000;
/// Bytes of all documents of one delivery.
pub const MAX_TEXTS: usize = 16 << 20;
/// Bytes of the name of a document.
pub const MAX_NAME: usize = 512;
/// Of so many things that are no documents each is told.
pub const MAX_SKIPPED: usize = 100;
/// Bytes of a revision.
pub const MAX_REVISION: usize = 256;

/// A part of a configuration, in its language.
#[derive(Clone, PartialEq, Eq)]
pub struct Document {
    /// Tells it from the other documents of its source, now and in every later delivery: `shop.yaml`,
    /// `httproute/shop/front`. Letters, digits, `.`, `_`, `-`, `:` and `/`, at most [`MAX_NAME`] bytes.
    pub name: String,
    /// What it says.
    pub text: String,
}

/// Without the text, which may have secrets in it.
impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} bytes)", self.name, self.text.len())
    }
}

/// All that a source has at one moment. What is not in it is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    revision: String,
    documents: Vec<Document>,
    signed_at: Option<u64>,
    skipped: BTreeMap<String, String>,
}

impl Delivery {
    /// These documents, in the order of their names, which is that in which they are read. The revision is what the source
    /// itself calls this state of them (an entity tag, a number), for people to compare: printable, at most
    /// [`MAX_REVISION`] bytes.
    pub fn new(
        revision: impl Into<String>,
        mut documents: Vec<Document>,
    ) -> Result<Delivery, BadDelivery> {
        let revision = revision.into();
        if revision.len() > MAX_REVISION || !revision.chars().all(is_printable) {
            return Err(BadDelivery::Revision);
        }
        if documents.len() > MAX_DOCUMENTS {
            return Err(BadDelivery::TooMany(documents.len()));
        }
        if documents.iter().map(|it| it.text.len()).sum::<usize>() > MAX_TEXTS {
            return Err(BadDelivery::TooLarge);
        }
        let mut names = HashSet::with_capacity(documents.len());
        for Document { name, .. } in &documents {
            if !is_name(name) {
                return Err(BadDelivery::Name(shortened(name)));
            }
            if !names.insert(name.as_str()) {
                return Err(BadDelivery::Twice(name.clone()));
            }
        }
        documents.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Delivery { revision, documents, signed_at: None, skipped: BTreeMap::new() })
    }

    /// The same, signed at that time, in seconds since 1970: one that was signed before is not to take its place.
    pub fn signed_at(self, time: Option<u64>) -> Delivery {
        Delivery { signed_at: time, ..self }
    }

    /// The same, without what the source has besides and what is no document, each with the reason. Of more than [`MAX_SKIPPED`] only
    /// the number is told.
    pub fn without(self, skipped: impl IntoIterator<Item = (Vec<u8>, String)>) -> Delivery {
        let mut skipped = skipped.into_iter();
        let shown = skipped.by_ref().take(MAX_SKIPPED);
        let mut told: BTreeMap<_, _> = shown.map(|(name, why)| (harmless(&name), why)).collect();
        let more = skipped.count();
        if more > 0 {
            told.insert("...".to_owned(), format!("{more} more are no documents either"));
        }
        Delivery { skipped: told, ..self }
    }

    /// What the source has besides and what is no document: what messages call it, and why.
    pub fn skipped(&self) -> &BTreeMap<String, String> {
        &self.skipped
    }

    /// What the source calls this state of its documents.
    pub fn revision(&self) -> &str {
        &self.revision
    }

    /// When it was signed, in seconds since 1970, where it was.
    pub fn signing_time(&self) -> Option<u64> {
        self.signed_at
    }

    /// The documents, by name.
    pub fn documents(&self) -> &[Document] {
        &self.documents
    }
}

/// Why documents are no delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadDelivery {
    /// The revision is too long, or is not printable.
    Revision,
    /// That many documents.
    TooMany(usize),
    /// Too many bytes.
    TooLarge,
    /// A name that a document cannot have, shortened.
    Name(String),
    /// Two documents have this name.
    Twice(String),
}

impl fmt::Display for BadDelivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadDelivery::Revision => write!(
                f,
                "its revision has more than {MAX_REVISION} bytes or some that cannot be printed"
            ),
            BadDelivery::TooMany(many) => {
                write!(f, "{many} documents; at most {MAX_DOCUMENTS} are taken")
            }
            BadDelivery::TooLarge => {
                write!(f, "its documents are larger than {} MiB", MAX_TEXTS >> 20)
            }
            BadDelivery::Name(name) => write!(
                f,
                "a document is called {name:?}; names have 1 to {MAX_NAME} letters, digits, `.`, `_`, `-`, `:` and `/`, \
                 and no part that is empty, `.` or `..`"
            ),
            BadDelivery::Twice(name) => write!(f, "two documents are called {name:?}"),
        }
    }
}

impl std::error::Error for BadDelivery {}

/// A name goes into messages and into paths that are shown: it never leads out of a directory.
pub(crate) fn is_name(name: &str) -> bool {
    let is_taken = |byte: u8| byte.is_ascii_alphanumeric() || b"._-:/".contains(&byte);
    let is_part = |part: &str| !matches!(part, "" | "." | "..");
    name.len() <= MAX_NAME && name.bytes().all(is_taken) && name.split('/').all(is_part)
}

fn is_printable(char: char) -> bool {
    matches!(char, ' '..='~')
}

/// Any bytes, so that they can be shown.
fn harmless(name: &[u8]) -> String {
    shortened(&String::from_utf8_lossy(name)).escape_default().to_string()
}

/// A name that may be as long as whoever sent it liked.
fn shortened(name: &str) -> String {
    name.chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document(name: &str) -> Document {
        Document { name: name.to_owned(), text: "routes: []".to_owned() }
    }

    fn delivered(names: &[&str]) -> Result<Delivery, BadDelivery> {
        Delivery::new("1", names.iter().map(|name| document(name)).collect())
    }

    #[test]
    fn documents_are_in_the_order_of_their_names() {
        let delivery = delivered(&["b.yaml", "httproute/shop/front", "a.yaml"]).unwrap();
        let names: Vec<_> = delivery.documents().iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["a.yaml", "b.yaml", "httproute/shop/front"]);
        assert_eq!(delivery.revision(), "1");
    }

    #[test]
    fn names_are_unique_and_lead_nowhere() {
        let twice = delivered(&["a", "b", "a"]);
        assert_eq!(twice, Err(BadDelivery::Twice("a".to_owned())));
        let long = "a".repeat(MAX_NAME + 1);
        for name in ["", "/a", "a/", "a//b", "..", "a/../b", "./a", "a b", "a\n", "ä", &long] {
            let bad = delivered(&[name]);
            assert!(matches!(bad, Err(BadDelivery::Name(_))), "{name:?}: {bad:?}");
        }
    }

    #[test]
    fn all_of_it_is_bounded() {
        let long = "1".repeat(MAX_REVISION + 1);
        for revision in [long.as_str(), "a\nb", "\u{202e}"] {
            assert_eq!(Delivery::new(revision, Vec::new()), Err(BadDelivery::Revision));
        }
        let many = (0..=MAX_DOCUMENTS).map(|number| document(&number.to_string())).collect();
        assert_eq!(Delivery::new("1", many), Err(BadDelivery::TooMany(MAX_DOCUMENTS + 1)));
        let half = || "#".repeat(MAX_TEXTS / 2 + 1);
        let large = ["a", "b"].map(|name| Document { name: name.to_owned(), text: half() });
        assert_eq!(Delivery::new("1", large.into()), Err(BadDelivery::TooLarge));
    }

    #[test]
    fn what_is_no_document_is_told_within_bounds() {
        let skipped = (0..=100).map(|number: u8| (vec![b' ', 255, number], "why".to_owned()));
        let delivery = delivered(&["a"]).unwrap().without(skipped);
        assert_eq!(delivery.skipped().len(), MAX_SKIPPED + 1);
        assert_eq!(delivery.skipped()["..."], "1 more are no documents either");
        assert!(delivery.skipped().contains_key(" \\u{fffd}\\u{1}"), "{:?}", delivery.skipped());
    }

    #[test]
    fn what_a_document_says_is_not_printed() {
        let text = "api_key: 4711".to_owned();
        let printed = format!("{:?}", Document { name: "a".to_owned(), text });
        assert_eq!(printed, "a (13 bytes)");
    }
}
