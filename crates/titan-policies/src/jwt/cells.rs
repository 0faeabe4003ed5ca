//! What is counted of tokens.

use super::Refusal;
use titan_io::counter::Counter;

/// What is counted of tokens.
#[derive(Default)]
pub struct JwtCells {
    /// Good ones that were known already.
    pub hits: Counter,
    /// Good ones whose signature had to be checked.
    pub misses: Counter,
    /// Others, by why they are no good; [`JwtCells::refused_by_reason`] names the reasons.
    pub refused: [Counter; Refusal::WORDS.len()],
}

impl JwtCells {
    /// Tokens that are no good by the reason.
    pub fn refused_by_reason(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Refusal::WORDS.iter().copied().zip(self.refused.iter().map(Counter::get))
    }
}
