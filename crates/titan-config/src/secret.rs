//! Texts that nobody is shown.

use crate::problem::Problem;
use std::fmt;

/// A shared secret. It is shown nowhere.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The bytes that it is.
    pub fn bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

pub(crate) fn parse_secret(text: &str) -> Result<Secret, Problem> {
    match text {
        "" => Err(Problem::new("it is empty")),
        text => Ok(Secret(text.to_owned())),
    }
}
