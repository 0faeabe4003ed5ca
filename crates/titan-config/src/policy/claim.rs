//! Claims of tokens, and where they are found.

use crate::bounds::MAX_CLAIM;
use crate::pointer::{escaped, parse_pointer};
use crate::problem::Problem;
use crate::read::Read;
use crate::readers::text;
use crate::shape::TextShape;
use std::fmt;

/// The place of a claim: the names that lead to it, from the outermost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim(Vec<String>);

impl Claim {
    /// The one with that name.
    pub(super) fn named(name: &str) -> Claim {
        Claim(vec![name.to_owned()])
    }

    /// The names that lead to it, at least one.
    pub fn path(&self) -> &[String] {
        &self.0
    }
}

/// Written as in a file.
impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [name] if !name.starts_with('/') => f.write_str(name),
            names => names.iter().try_for_each(|name| write!(f, "/{}", escaped(name))),
        }
    }
}

pub(super) const CLAIM: TextShape = TextShape {
    what: "a claim",
    examples: "`sub`, or a JSON pointer such as `/realm_access/roles`",
    pattern: None,
    max: MAX_CLAIM,
};

/// The place of a claim.
pub(crate) fn claim() -> impl Read<Value = Claim> {
    text(CLAIM, parse_claim)
}

/// A name, or a JSON pointer.
pub(crate) fn parse_claim(text: &str) -> Result<Claim, Problem> {
    if text.is_empty() {
        return Err(Problem::new("it is empty"));
    }
    let Some(pointer) = text.strip_prefix('/') else { return Ok(Claim(vec![text.to_owned()])) };
    parse_pointer(pointer).map(Claim)
}
