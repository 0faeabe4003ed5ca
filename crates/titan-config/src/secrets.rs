//! What was taken from files, so that it is shown nowhere.

use crate::node::SHOWN;
use std::collections::HashSet;
use std::fmt;

/// What stands in the place of a secret.
pub(crate) const MASK: &str = "***";

/// What was taken from files for values.
#[derive(Clone, Default)]
pub(crate) struct Secrets {
    known: HashSet<String>,
    /// Also as they are shown when they are long or have characters to escape; longer ones first.
    texts: Vec<String>,
}

/// Without the secrets.
impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secrets").finish_non_exhaustive()
    }
}

impl Secrets {
    /// Takes another one.
    pub(crate) fn add(&mut self, secret: &str) {
        if secret.is_empty() || !self.known.insert(secret.to_owned()) {
            return;
        }
        let start = secret.char_indices().nth(SHOWN).map_or(secret, |(end, _)| &secret[..end]);
        for text in [secret.to_owned(), start.to_owned(), secret.escape_debug().to_string()] {
            let place = self.texts.partition_point(|other| other.len() >= text.len());
            self.texts.insert(place, text);
        }
    }

    /// Puts `***` in the place of each secret in a text.
    pub(crate) fn mask(&self, text: &mut String) {
        for secret in &self.texts {
            if text.contains(secret) {
                *text = text.replace(secret, MASK);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_masked_also_where_it_is_escaped_or_cut() {
        let long = "k".repeat(SHOWN + 1);
        let mut secrets = Secrets::default();
        ["a\"b", "a\"bc", &long].into_iter().for_each(|secret| secrets.add(secret));
        for (text, shown) in [
            ("x a\"bc a\"b y", "x *** *** y"),
            ("Name(\"a\\\"b\")", "Name(\"***\")"),
            (&format!("`{}…`", &long[1..]), "`***…`"),
        ] {
            let mut text = text.to_owned();
            secrets.mask(&mut text);
            assert_eq!(text, shown);
        }
        assert!(!format!("{secrets:?}").contains('b'));
    }
}
