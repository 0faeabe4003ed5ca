//! What policies count.

use crate::jwt::Refusal;
use titan_io::counter::Counter;

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

/// What is counted of passwords.
#[derive(Default)]
pub struct PasswordCells {
    /// Those that were remembered to be right or wrong.
    pub remembered: Counter,
    /// Those that were compared with a hash.
    pub checked: Counter,
}

/// What is counted of the decisions of services.
#[derive(Default)]
pub struct ForwardAuthCells {
    /// Those that were remembered.
    pub hits: Counter,
    /// Those that were asked for because they were not.
    pub misses: Counter,
}

/// What is counted for a rate limit.
#[derive(Default)]
pub struct RateLimitCells {
    /// Requests that it let through.
    pub allowed: Counter,
    /// Requests that it let through when they had waited for their turn, or lets wait.
    pub delayed: Counter,
    /// Requests that it refused.
    pub limited: Counter,
    /// Requests that it refused for want of room for their keys.
    pub full: Counter,
    /// Requests that it does not count.
    pub exempt: Counter,
    /// Requests that it let through alone because it only watches.
    pub shadowed: Counter,
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

impl JwtCells {
    /// Tokens that are no good by the reason.
    pub fn refused_by_reason(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Refusal::WORDS.iter().copied().zip(self.refused.iter().map(Counter::get))
    }
}
