//! A response that is held in memory as a whole.

use titan_http::ResponseHead;

/// A response as a whole.
#[derive(Clone, Default)]
pub struct BufferedResponse {
    /// Its head.
    pub head: ResponseHead,
    /// Empty where the status is one of 2xx: what matters is the status.
    pub body: Vec<u8>,
}
