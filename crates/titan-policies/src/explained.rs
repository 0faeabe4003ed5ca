//! What a policy says of a request that nobody has made.

use titan_io::error::Kind;

/// What would be decided of a request, and why.
#[derive(Default)]
pub struct Explained {
    /// The reasons.
    pub lines: Vec<String>,
    /// What it would be refused with first.
    pub refused: Option<Kind>,
    /// Whether what its token says counts for nothing behind it.
    pub forgets_token: bool,
}

impl Explained {
    /// Adds a reason for which it would be refused.
    pub fn refuse(&mut self, kind: Kind, why: String) {
        self.lines.push(why);
        self.refused = self.refused.or(Some(kind));
    }
}
