//! The rules of a listener for all its connections, which hold them for as long as they live.

use arc_swap::{ArcSwap, ArcSwapOption};
use std::num::NonZeroU16;
use std::sync::Arc;
use titan_config::Hsts;
use titan_io::tls::ServerTls;

/// What a listener requires of its connections.
#[derive(Default)]
pub(crate) struct ListenerPolicy {
    /// The port of HTTPS that requests are sent to instead of being served.
    pub(crate) https: Option<NonZeroU16>,
    /// The value of Strict-Transport-Security.
    pub(crate) hsts: Option<Box<str>>,
    /// What handshakes are held with; `None` without TLS.
    pub(crate) tls: Option<Arc<ArcSwap<ServerTls>>>,
    /// Why the last client certificate was refused, until it is reported.
    refusal: ArcSwapOption<String>,
}

impl ListenerPolicy {
    /// That of a listener which holds handshakes with `tls`.
    pub(crate) fn new(
        listener: &titan_config::Listener,
        tls: Option<Arc<ArcSwap<ServerTls>>>,
    ) -> ListenerPolicy {
        let hsts = listener.tls.as_ref().and_then(|tls| tls.hsts.as_ref()).map(hsts);
        ListenerPolicy {
            https: listener.redirect_to_https,
            hsts,
            tls,
            refusal: ArcSwapOption::empty(),
        }
    }

    /// Notes why the certificate that a client has presented is refused.
    pub(crate) fn note_refusal(&self, why: String) {
        self.refusal.store(Some(Arc::new(why)));
    }

    /// Why the last one was not, if one was not since this was asked last.
    pub(crate) fn take_refusal(&self) -> Option<Arc<String>> {
        self.refusal.swap(None)
    }

    /// Warnings about the files with which clients are verified.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.tls.as_ref().map_or_else(Vec::new, |tls| tls.load().warnings())
    }
}

fn hsts(hsts: &Hsts) -> Box<str> {
    let Hsts { max_age, include_subdomains, preload } = hsts;
    let subdomains = if *include_subdomains { "; includeSubDomains" } else { "" };
    let preload = if *preload { "; preload" } else { "" };
    format!("max-age={}{subdomains}{preload}", max_age.as_secs()).into()
}
