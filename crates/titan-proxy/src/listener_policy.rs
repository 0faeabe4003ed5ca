//! The rules of a listener for all its connections. These hold it for as long as they live, and a reload changes it.

use crate::listener_id::ListenerId;
use crate::refused::{RefusalLog, RefusedHandshakes};
use arc_swap::{ArcSwap, ArcSwapOption, Guard};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use titan_config::{AltSvc, Hsts};
use titan_io::tls::{Refused, ServerTls};

/// What a listener requires of its connections.
#[derive(Default)]
pub(crate) struct ListenerPolicy {
    /// Which one it is; `None` for a connection that no listener has accepted, as explain has it.
    id: Option<ListenerId>,
    /// The name of the listener.
    name: ArcSwap<Box<str>>,
    /// The port of HTTPS that requests are sent to instead of being served; 0 where they are served.
    https: AtomicU16,
    /// The value of Strict-Transport-Security.
    hsts: ArcSwapOption<Box<str>>,
    /// The value of Alt-Svc.
    alt_svc: ArcSwapOption<Box<str>>,
    /// Which connections are encrypted, and how.
    encryption: ArcSwap<Encryption>,
    /// Grows when there are other rules.
    edition: AtomicU64,
    /// Handshakes that have not succeeded, until they are reported.
    refused: RefusalLog,
}

/// Which connections are encrypted, and how. Read as one: a listener that has lost its certificates, and has TLS routes since then, must
/// at no moment look like one of plain HTTP.
#[derive(Default)]
struct Encryption {
    /// What handshakes are held with; `None` where the gateway holds none.
    tls: Option<Arc<ServerTls>>,
    /// Whether there are TLS routes.
    has_routes: bool,
}

impl ListenerPolicy {
    /// That listener's, without rules yet.
    pub(crate) fn of(id: ListenerId) -> ListenerPolicy {
        ListenerPolicy { id: Some(id), ..ListenerPolicy::default() }
    }

    /// Which listener's they are.
    pub(crate) fn id(&self) -> Option<&ListenerId> {
        self.id.as_ref()
    }

    /// Has these rules hold from now on, also for connections that are open.
    pub(crate) fn set(&self, listener: &titan_config::Listener, tls: Option<ServerTls>) {
        self.name.store(Arc::new(listener.name.as_str().into()));
        self.redirect_to(listener.redirect_to_https);
        let hsts = listener.tls.as_ref().and_then(|tls| tls.hsts.as_ref()).map(hsts);
        self.hsts.store(hsts.map(Arc::new));
        self.alt_svc.store(alt_svc(listener).map(Arc::new));
        let has_routes = !listener.tls_routes.is_empty();
        self.encryption.store(Arc::new(Encryption { tls: tls.map(Arc::new), has_routes }));
        self.edition.fetch_add(1, Ordering::Release);
    }

    /// The name of the listener.
    pub(crate) fn name(&self) -> Guard<Arc<Box<str>>> {
        self.name.load()
    }

    /// Sends all requests to that port of HTTPS.
    pub(crate) fn redirect_to(&self, port: Option<NonZeroU16>) {
        self.https.store(port.map_or(0, NonZeroU16::get), Ordering::Relaxed);
    }

    /// The port of HTTPS that requests are sent to instead of being served.
    pub(crate) fn https(&self) -> Option<NonZeroU16> {
        NonZeroU16::new(self.https.load(Ordering::Relaxed))
    }

    /// The value of Strict-Transport-Security.
    pub(crate) fn hsts(&self) -> Guard<Option<Arc<Box<str>>>> {
        self.hsts.load()
    }

    /// The value of Alt-Svc.
    pub(crate) fn alt_svc(&self) -> Guard<Option<Arc<Box<str>>>> {
        self.alt_svc.load()
    }

    /// What handshakes are held with; `None` without TLS.
    pub(crate) fn tls(&self) -> Option<Arc<ServerTls>> {
        self.encryption.load().tls.clone()
    }

    /// Whether some connections go to upstreams by the name that the client asks for in TLS.
    pub(crate) fn has_tls_routes(&self) -> bool {
        self.encryption.load().has_routes
    }

    /// Whether connections without TLS are served.
    pub(crate) fn admits_plain(&self) -> bool {
        let encryption = self.encryption.load();
        encryption.tls.is_none() && !encryption.has_routes
    }

    /// Which rules hold: another number for others.
    pub(crate) fn edition(&self) -> u64 {
        self.edition.load(Ordering::Acquire)
    }

    /// Notes a handshake that has not succeeded.
    pub(crate) fn note_refused(&self, refused: &Refused) {
        self.refused.note(refused);
    }

    /// Takes what was noted of handshakes at the listener of that name.
    pub(crate) fn take_refused(&self, listener: &str) -> Vec<RefusedHandshakes> {
        self.refused.take(listener)
    }

    /// Warnings about the files with which clients are verified.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.tls().map_or_else(Vec::new, |tls| tls.warnings())
    }
}

/// RFC 7838 section 3. None where the port is chosen by the kernel: nobody reaches that by a name.
fn alt_svc(listener: &titan_config::Listener) -> Option<Box<str>> {
    let AltSvc { max_age, port } = listener.alt_svc.as_ref()?;
    let own = || listener.address.port().and_then(NonZeroU16::new);
    let port = port.or_else(own)?;
    Some(format!("h3=\":{port}\"; ma={}", max_age.as_secs()).into())
}

fn hsts(hsts: &Hsts) -> Box<str> {
    let Hsts { max_age, include_subdomains, preload } = hsts;
    let subdomains = if *include_subdomains { "; includeSubDomains" } else { "" };
    let preload = if *preload { "; preload" } else { "" };
    format!("max-age={}{subdomains}{preload}", max_age.as_secs()).into()
}
