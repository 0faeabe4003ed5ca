//! What requests get in place of an upstream whose circuit breaker is open.

use titan_config::{Config, FallbackFile, HeaderValue, Location, Respond, Upstream};
use titan_http::Status;
use titan_io::tls::{BadCredentials, Files};

/// What requests get in place of an upstream, ready to be sent.
pub(crate) enum Fallback {
    /// What the upstream at this place responds.
    Upstream(usize),
    /// A response of the gateway's own.
    Own(OwnFallback),
}

/// A response of the gateway's own in place of an upstream's.
pub(crate) enum OwnFallback {
    /// One from the configuration.
    Respond(Box<Respond>),
    /// One with a file.
    File { status: Status, content_type: HeaderValue, body: Box<[u8]> },
}

impl Fallback {
    /// That of an upstream, if it has one. Its file has been read.
    pub(crate) fn of(upstream: &Upstream, files: &Files) -> Option<Fallback> {
        Some(match upstream.fallback()? {
            titan_config::Fallback::Upstream(id) => Fallback::Upstream(id.index()),
            titan_config::Fallback::Respond(respond) => {
                Fallback::Own(OwnFallback::Respond(respond.clone()))
            }
            titan_config::Fallback::File(FallbackFile { path, status, content_type }) => {
                let body = files.get(path).unwrap_or_default().into();
                let (status, content_type) = (*status, content_type.clone());
                Fallback::Own(OwnFallback::File { status, content_type, body })
            }
        })
    }
}

/// Every file of a fallback that cannot be read, with the place of its upstream.
pub(crate) fn unreadable(
    config: &Config,
    files: &Files,
) -> impl Iterator<Item = (Location, BadCredentials)> {
    config.upstreams.iter().filter_map(|upstream| {
        let bad = files.get(&upstream.fallback_file()?.path).err()?;
        Some((upstream.location, bad))
    })
}
