//! How long the body of a message is, whatever protocol carries it.

/// How long a body is, as far as its head says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BodyLength {
    /// There is no body and can be none.
    #[default]
    None,
    /// That many bytes.
    Known(u64),
    /// It shows when it ends.
    Unknown,
}

impl BodyLength {
    /// Whether no byte of a body follows the head.
    pub fn is_empty(self) -> bool {
        matches!(self, BodyLength::None | BodyLength::Known(0))
    }
}
