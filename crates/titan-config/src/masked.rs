//! A document without its secrets, to be kept or shown.

use crate::check;
use crate::location::Location;
use crate::report::{Findings, Hidden};
use crate::source::Source;
use crate::yaml;

/// A document with stars in place of its secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Masked {
    /// As many characters as it had.
    pub text: String,
    /// What the stars stand for.
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

impl Masked {
    /// Masks a document that [`Config::parse`](crate::Config::parse) accepts.
    pub fn new(name: &str, text: &str) -> Masked {
        let source = Source::new(name, text);
        let mut findings = Findings::default();
        let root = yaml::read(&source, &mut findings);
        let _ = root.and_then(|root| check::read(&root, &source, &mut findings));
        let hidden = findings.hidden();
        let spans: Vec<_> = hidden.iter().map(|it| it.span).collect();
        let secret = |Hidden { span, path }: &_| SecretPlace {
            location: span.start,
            path: String::clone(path),
        };
        Masked {
            text: source.without(&spans).text().to_owned(),
            secrets: hidden.iter().map(secret).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_stars_and_the_rest_is_as_written() {
        let text = "routes: [{ respond: 200 }]\nlisteners: [\"127.0.0.1:0\"] # here\napply: [p]\npolicies:\n  p:\n    jwt:\n      \
            providers: { algorithms: HS256, keys: { secret: forty bytes that nobody but us can guess } }\n";
        let Masked { text: masked, secrets } = Masked::new("a.yaml", text);
        assert_eq!(
            masked,
            text.replace("forty bytes that nobody but us can guess", &"*".repeat(40))
        );
        let [secret] = &secrets[..] else { panic!("{secrets:?}") };
        assert_eq!(secret.location.to_string(), "7:55");
        assert!(secret.path.ends_with("keys.secret"), "{}", secret.path);
    }
}
