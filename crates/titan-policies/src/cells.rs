//! What policies count.

pub use crate::authorise::{ForwardAuthCells, PasswordCells};
pub use crate::jwt::JwtCells;
pub use crate::rate_limit::RateLimitCells;

/// What the policies of one worker count.
pub struct PolicyCells {
    /// Tokens that policies judged.
    pub jwt: JwtCells,
    /// Passwords that policies judged.
    pub passwords: PasswordCells,
    /// Decisions of services about requests, where they are remembered.
    pub forward_auth: ForwardAuthCells,
    /// What rate limits have decided.
    pub rate_limits: Vec<RateLimitCells>,
}

impl PolicyCells {
    /// Cells for so many rate limits.
    pub fn new(rate_limits: usize) -> PolicyCells {
        PolicyCells {
            jwt: JwtCells::default(),
            passwords: PasswordCells::default(),
            forward_auth: ForwardAuthCells::default(),
            rate_limits: std::iter::repeat_with(RateLimitCells::default)
                .take(rate_limits)
                .collect(),
        }
    }
}
