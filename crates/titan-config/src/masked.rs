//! A document without its secrets, to be kept or shown.

use crate::check::Composed;
use crate::location::Location;
use crate::visible::Visible;

/// A document with stars in place of its secrets, and without what comments say: they may be secrets that were commented out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Masked {
    /// In place of each secret three stars, which tell nothing of its length.
    pub text: String,
    /// What the stars stand for, in the document as it was.
    pub secrets: Vec<SecretPlace>,
}

/// Where a secret stood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretPlace {
    /// Its first character.
    pub location: Location,
    /// The keys that lead to it.
    pub path: String,
}

impl Composed {
    /// What its files say, the first one first. What variables bring is in none of them.
    pub fn masked(&self) -> Vec<Masked> {
        let nothing = Visible::default();
        let masked = self.sources.iter().map(|source| {
            let here = || self.hidden.iter().filter(|it| it.span.start.file == source.file);
            let secrets =
                here().map(|it| SecretPlace { location: it.span.start, path: it.path.clone() });
            let visible = self.visible.get(&source.file).unwrap_or(&nothing);
            let text = source.without_comments(visible).replacing(here().map(|it| it.span), "***");
            Masked { text, secrets: secrets.collect() }
        });
        masked.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::surroundings::{Alone, Document};

    #[test]
    fn secrets_are_stars_and_the_rest_is_as_written() {
        let text = "routes: [{ respond: 200 }]\nlisteners: [\"127.0.0.1:0\"] # here\napply: [p]\npolicies:\n  p:\n    jwt:\n      \
            providers: { algorithms: HS256, keys: { secret: forty bytes that nobody but us can guess } }\n";
        let composed = Composed::read(Document::alone("a.yaml", text), &mut Alone).unwrap();
        let [Masked { text: masked, secrets }] = &composed.masked()[..] else { panic!("one file") };
        let wanted = text.replace("forty bytes that nobody but us can guess", "***");
        let wanted = wanted.replace("# here", "#");
        assert_eq!(*masked, wanted);
        let [secret] = &secrets[..] else { panic!("{secrets:?}") };
        assert_eq!(secret.location.to_string(), "7:55");
        assert!(secret.path.ends_with("keys.secret"), "{}", secret.path);
    }
}
