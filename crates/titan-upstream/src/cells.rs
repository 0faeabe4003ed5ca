//! What is counted for an upstream.

use titan_io::counter::Counter;

/// What is counted for an upstream.
#[derive(Default)]
pub struct UpstreamCells {
    /// Attempts to get a response to a request, retries among them.
    pub attempts: Counter,
    /// Attempts that repeated a failed one.
    pub retries: Counter,
    /// Connections opened.
    pub connects: Counter,
    /// Attempts over a connection that was open already.
    pub reuses: Counter,
    /// Attempts that failed.
    pub failures: Counter,
}
