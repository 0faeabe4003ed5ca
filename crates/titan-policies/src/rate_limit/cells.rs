//! What is counted for a rate limit.

use titan_io::counter::Counter;

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
