//! Whether the upstreams of TLS routes can take what these send them.

use crate::diagnostic::Diagnostic;
use crate::listener::ListenerDraft;
use crate::read::Reading;
use crate::readers::Named;
use crate::tls_route::{TlsMode, TlsRouteDraft};
use crate::token::Name;
use crate::upstream::{Protocol, UpstreamFields};

pub(super) fn check_tls_routes(
    listeners: &[&ListenerDraft],
    upstreams: &[Named<Name, Option<UpstreamFields>>],
    to: &mut Reading<'_>,
) {
    for draft in listeners.iter().flat_map(|listener| &listener.tls_routes) {
        for share in &draft.route.shares {
            let Named { key, key_span, value } = &upstreams[share.upstream.index()];
            let Some(upstream) = value else { continue };
            if draft.route.mode == TlsMode::Passthrough && upstream.tls.is_some() {
                let message = format!("the gateway cannot encrypt for the upstream `{key}` here");
                let error = Diagnostic::error(draft.upstream_span, message);
                let error = error.label("what passes through is encrypted by the client");
                let error = error.also(*key_span, "this upstream has `tls`");
                to.add(error.help("use an upstream without `tls`, or `mode: terminate`"));
            }
            if upstream.protocol.is_always_shared() {
                to.add(meaningless_protocol(draft, key, upstream.protocol));
            }
        }
    }
}

fn meaningless_protocol(draft: &TlsRouteDraft, upstream: &Name, protocol: Protocol) -> Diagnostic {
    let spoken = protocol.in_words(true).trim_start_matches([',', ' ']);
    let message = format!("connections of this TLS route are not {spoken} to `{upstream}`");
    let warning = Diagnostic::warning(draft.upstream_span, message);
    warning.label("its `protocol` is for requests of routes: what clients send goes there as it is")
}
