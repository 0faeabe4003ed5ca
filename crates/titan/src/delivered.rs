//! Documents of sources: their names beside those of files, and their texts.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The documents of all sources, in the order in which they are read.
pub(crate) type Texts = BTreeMap<DocumentName, Arc<str>>;

/// Which document of which source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DocumentName {
    pub(crate) source: String,
    pub(crate) document: String,
}

/// What such names begin with. No path of a file has two slashes in a row: they are taken out of it.
const SCHEME: &str = "source://";

impl DocumentName {
    pub(crate) fn new(source: &str, document: &str) -> DocumentName {
        DocumentName { source: source.to_owned(), document: document.to_owned() }
    }

    /// The one that messages and the history call so.
    pub(crate) fn parse(name: &str) -> Option<DocumentName> {
        let (source, document) = name.strip_prefix(SCHEME)?.split_once('/')?;
        Some(DocumentName::new(source, document))
    }
}

/// As messages and the history call it.
impl fmt::Display for DocumentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/{}", self.source, self.document)
    }
}

/// Those of one source.
pub(crate) fn of_source<'t>(
    texts: &'t Texts,
    source: &'t str,
) -> impl Iterator<Item = (&'t DocumentName, &'t Arc<str>)> {
    let first = DocumentName::new(source, "");
    texts.range(first..).take_while(move |(name, _)| name.source == source)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_no_file() {
        let name = DocumentName::new("shop", "httproute/shop/front");
        assert_eq!(name.to_string(), "source://shop/httproute/shop/front");
        assert_eq!(DocumentName::parse(&name.to_string()), Some(name));
        for file in ["shop.yaml", "/etc/titan.yaml", "source:/shop/a", "source://shop"] {
            assert_eq!(DocumentName::parse(file), None, "{file}");
        }
    }

    #[test]
    fn those_of_one_source_are_found() {
        let names = [("a", "x"), ("b", "x"), ("b", "y"), ("ba", "x")];
        let texts = names.map(|(source, name)| (DocumentName::new(source, name), Arc::from("")));
        let texts = Texts::from(texts);
        let found: Vec<_> =
            of_source(&texts, "b").map(|(name, _)| name.document.as_str()).collect();
        assert_eq!(found, ["x", "y"]);
    }
}
