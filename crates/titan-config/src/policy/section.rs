//! What the rest of the file needs to know of a policy.

use crate::token::HeaderName;
use std::path::Path;

/// What the rest of the file must know about a policy; by default nothing.
pub(in crate::policy) trait PolicySection {
    /// The fields of requests that identify clients to upstreams: clients may not write them, on any route.
    fn identity_fields(&self) -> Vec<&HeaderName> {
        Vec::new()
    }

    /// The fields of requests that it changes. Upstreams believe what these say.
    fn changed_fields(&self) -> Vec<&HeaderName> {
        self.identity_fields()
    }

    /// The request fields that it reads or changes.
    fn request_fields(&self) -> Vec<&HeaderName> {
        self.identity_fields()
    }

    /// The files that it names.
    fn files(&self) -> Vec<&Path> {
        Vec::new()
    }

    /// Whether it connects to a server that it verifies with the system's authorities.
    fn needs_system_authorities(&self) -> bool {
        false
    }
}
