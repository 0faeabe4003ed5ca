//! What clients get in place of an upstream that is left alone.

use crate::diagnostic::Diagnostic;
use crate::node::Node;
use crate::read::{Read, Reading, default, optional, required};
use crate::readers::short_for;
use crate::respond::{Respond, respond, status};
use crate::section::{section, section_of};
use crate::tls::file;
use crate::token::{HeaderValue, header_value};
use crate::upstream_id::{UpstreamId, upstream_name};
use std::path::PathBuf;
use titan_http::Status;

/// What clients get in place of an upstream that is left alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fallback {
    /// A response from the configuration, without a template.
    Respond(Box<Respond>),
    /// What another upstream responds.
    Upstream(UpstreamId),
    /// A file.
    File(FallbackFile),
}

section! {
    "fallback", "a fallback", One;
    /// What requests get while a circuit breaker is open, in place of 503. gRPC calls, and WebSockets over HTTP/2, get only
    /// the response of another upstream. Requests that policies make, as `forward_auth` does, get none: what stands in must not
    /// decide who may pass.
    pub(crate) struct FallbackFields {
        /// A fixed response, without a `template`.
        pub(crate) respond: Option<Box<Respond>> = optional("", respond().map(Box::new)),
        /// Another upstream, which gets the request just as this one would have. If its own breaker is open, its own
        /// fallback counts.
        pub(crate) upstream: Option<UpstreamId> = optional("", upstream_name()),
        /// A file. It is read at the start and with each reload.
        pub(crate) file: Option<FallbackFile> = optional("", short_for("path", section_of::<FallbackFile>())),
    }
}

section! {
    "fallback_file", "a fallback file", Any;
    /// A file in place of an upstream's response. A plain string sets `path` alone.
    pub struct FallbackFile {
        /// The file, up to 16 MiB. A relative path starts at the directory of the file that says it.
        pub path: PathBuf = required(file()),
        /// The status of the response.
        pub status: Status = default("200", status()),
        /// Its media type.
        pub content_type: HeaderValue = default("text/html; charset=utf-8", header_value()),
    }
}

pub(crate) fn fallback() -> impl Read<Value = Fallback> {
    section_of::<FallbackFields>().then(check)
}

fn check(fields: FallbackFields, node: &Node, to: &mut Reading<'_>) -> Option<Fallback> {
    let FallbackFields { respond, upstream, file } = fields;
    if respond.as_ref().is_some_and(|respond| respond.template.is_some()) {
        let error = Diagnostic::error(node.span, "a fallback cannot have a `template`");
        let error =
            error.label("a template needs a route, and this is for the requests of all routes");
        return to.fail(error.help("write the `body` itself"));
    }
    let upstream = upstream.map(Fallback::Upstream);
    respond.map(Fallback::Respond).or(upstream).or_else(|| file.map(Fallback::File))
}
