//! Why a string is not valid.

use std::ops::Range;

/// Why a string is not valid, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// What is wrong, in words that go after "this is not ...:".
    pub(crate) reason: String,
    /// What can be done about it.
    pub(crate) help: Option<String>,
    /// The bytes of the text that are wrong; all of them when it is `None`.
    pub(crate) part: Option<Range<usize>>,
}

impl Problem {
    pub(crate) fn new(reason: impl Into<String>) -> Problem {
        Problem { reason: reason.into(), help: None, part: None }
    }

    /// What is wrong and what to write, in one sentence.
    pub(crate) fn told(&self) -> String {
        match &self.help {
            Some(help) => format!("{}: {help}", self.reason),
            None => self.reason.clone(),
        }
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Problem {
        self.help = Some(help.into());
        self
    }

    pub(crate) fn part(mut self, part: Range<usize>) -> Problem {
        self.part = Some(part);
        self
    }
}
