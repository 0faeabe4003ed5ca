//! Which connections go to an upstream without HTTP.

use super::question::Question;
use super::{Explainer, words};
use crate::listener_id::ListenerId;
use std::net::IpAddr;
use titan_http::RequestHead;

impl Explainer<'_> {
    /// Whether a TLS route takes the connection of a client that asks for that host: then nothing in it is a request.
    pub(super) fn tls_route(&mut self, question: &Question, head: &RequestHead) -> bool {
        let ids = ListenerId::all(&self.config.listeners);
        let mut listeners = self.config.listeners.iter().zip(ids);
        let reached = listeners.find(|(it, _)| words::is_at(it, question.port()));
        let Some((listener, id)) = reached else { return false };
        if listener.tls_routes.iter().any(titan_config::TlsRoute::is_tcp) {
            self.page.tell(
                "response",
                "none: the listener sends connections on as they come".to_owned(),
            );
            return true;
        }
        if !question.is_https() {
            return false;
        }
        let name = head.authority().map(words::text).and_then(server_name);
        let routes = self.snapshot.tls_routes(&id);
        let Some(taken) = routes.and_then(|it| it.find(name.as_deref())) else { return false };
        let Some(route) = listener.tls_routes.iter().find(|it| it.name() == taken.id.route) else {
            return false;
        };
        let upstreams = route
            .shares
            .iter()
            .map(|share| words::code(self.config.upstreams[share.upstream.index()].name.as_str()));
        let upstreams: Vec<_> = upstreams.collect();
        self.page.tell("tls route", format!("{route}: to {}", upstreams.join(", ")));
        self.page.tell("response", "from there: the connection is no HTTP here".to_owned());
        true
    }
}

/// The name that a client of that host asks for: none for an address.
fn server_name(authority: String) -> Option<String> {
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host.to_owned(),
        _ => authority,
    };
    let is_address = host.starts_with('[') || host.parse::<IpAddr>().is_ok();
    (!is_address).then(|| host.trim_end_matches('.').to_ascii_lowercase())
}
