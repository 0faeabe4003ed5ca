//! TLS routes of a listener: connections that go to an upstream as they are, without HTTP.

use crate::bounds::{MAX_HOSTS, MAX_TLS_ROUTES};
use crate::diagnostic::Diagnostic;
use crate::host::{HostPattern, server_name};
use crate::location::Span;
use crate::node::Node;
use crate::read::{At, Read, Reading, at, default, optional, required};
use crate::readers::{one_or_list, words};
use crate::section::{section, section_of};
use crate::share::{Share, shares};
use std::collections::HashMap;
use std::fmt;

/// TLS connections with certain names, which go to an upstream without HTTP, or are HTTPS although others do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsRoute {
    /// The names that it takes (SNI); empty for whatever no other one takes.
    pub names: Vec<HostPattern>,
    /// Who speaks TLS with the client.
    pub mode: TlsMode,
    /// The upstreams with their weights, none of which is 0; at least one, but with [`TlsMode::Https`], which has none.
    pub shares: Vec<Share>,
}

/// Who speaks TLS with the clients of a TLS route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsMode {
    /// The endpoint: the gateway reads the ClientHello, and passes it on with all that follows.
    Passthrough,
    /// The gateway: what it has decrypted goes to the endpoint.
    Terminate,
    /// The gateway, and what it has decrypted is HTTP: requests go by the routes of the file, as where no TLS route takes a connection.
    Https,
    /// Nobody here has to: all connections of the listener go on as they come, and nothing of them is read. The only route of a listener
    /// with `tcp`; none of `tls_routes` has it.
    Tcp,
}

impl TlsMode {
    /// As the file says it.
    pub fn name(self) -> &'static str {
        match self {
            TlsMode::Passthrough => "passthrough",
            TlsMode::Terminate => "terminate",
            TlsMode::Https => "https",
            TlsMode::Tcp => "tcp",
        }
    }
}

impl TlsRoute {
    /// Whether it takes connections before anything of them is read.
    pub fn is_tcp(&self) -> bool {
        self.mode == TlsMode::Tcp
    }

    /// What the gateway calls it: its first name, or `*` where it has none. Unique on its listener.
    pub fn name(&self) -> String {
        self.names.first().map_or_else(|| "*".to_owned(), HostPattern::to_string)
    }
}

impl fmt::Display for TlsRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.names.iter().map(HostPattern::to_string).collect();
        let names = if names.is_empty() { "*".to_owned() } else { names.join(", ") };
        write!(f, "{names}, {}", self.mode.name())
    }
}

section! {
    "tls_route", "a TLS route", Any;
    /// TLS connections that go to an upstream as they are, whatever is spoken in them. The name that the client asks for (SNI) decides:
    /// the exact name first, then the longest wildcard, then the route without names. TLS comes first: a protocol that begins in the clear
    /// and switches to it, with STARTTLS or the SSLRequest of PostgreSQL, is not served.
    pub(crate) struct TlsRouteFields {
        /// The names: `db.example.com`, or `"*.example.com"` for all names with one label more or several. Without any, the route takes
        /// all connections that no other one on the listener takes, also those that ask for no name; nothing is left for HTTPS then.
        pub(crate) names: Vec<At<HostPattern>> = default("[]", one_or_list(at(server_name(UNNAMED)), 0..=MAX_HOSTS)),
        /// Who speaks TLS with the client. `passthrough`: the endpoint does; the gateway reads the name, has no key, and passes on what
        /// comes as it is, client certificates included. `terminate`: the gateway does, by the listener's `tls` and without
        /// ALPN; the endpoint gets what was decrypted, encrypted anew if the upstream has `tls`. `https`: the gateway does, and serves
        /// HTTPS, for names among those that another TLS route would take; there is no `upstream` then.
        pub(crate) mode: At<TlsMode> = required(at(words(&[
            ("passthrough", TlsMode::Passthrough),
            ("terminate", TlsMode::Terminate),
            ("https", TlsMode::Https),
        ]))),
        /// The upstream, or several with weights, as in a route. Balancing, health, ejection, circuit breakers, `max_connections` and
        /// the timeouts of the file apply: `timeouts.connect`, and `timeouts.tunnel` while nothing moves. An endpoint that accepts no
        /// connection counts as failed, and another one is tried.
        pub(crate) upstream: Option<At<Vec<Share>>> = optional("none, which `mode: https` alone can do", at(shares())),
    }
}

/// What connections to an address are for.
const UNNAMED: &str = "a TLS route without `names` takes connections that ask for none";

/// A TLS route with the places that errors point to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TlsRouteDraft {
    pub(crate) route: TlsRoute,
    /// Of each name.
    name_spans: Vec<Span>,
    /// Of all of it.
    span: Span,
    pub(crate) mode_span: Span,
    pub(crate) upstream_span: Span,
}

impl TlsRouteDraft {
    /// The only route of a listener whose connections go to these upstreams as they come.
    pub(crate) fn tcp(At { value: shares, span }: At<Vec<Share>>) -> TlsRouteDraft {
        let route = TlsRoute { names: Vec::new(), mode: TlsMode::Tcp, shares };
        let name_spans = Vec::new();
        TlsRouteDraft { route, name_spans, span, mode_span: span, upstream_span: span }
    }
}

/// The TLS routes of a listener, of which no two take the same name.
pub(crate) fn tls_routes() -> impl Read<Value = Vec<TlsRouteDraft>> {
    let one = section_of::<TlsRouteFields>().then(draft);
    one_or_list(one, 0..=MAX_TLS_ROUTES).then(|routes, _, to| {
        check_names(&routes, to);
        Some(routes)
    })
}

fn draft(fields: TlsRouteFields, node: &Node, to: &mut Reading<'_>) -> Option<TlsRouteDraft> {
    let TlsRouteFields { names, mode, upstream } = fields;
    let name_spans = names.iter().map(|name| name.span).collect();
    let names = names.into_iter().map(|name| name.value).collect();
    let upstream = match (mode.value, upstream) {
        (TlsMode::Https, None) => At { value: Vec::new(), span: mode.span },
        (TlsMode::Https, Some(upstream)) => {
            let error = Diagnostic::error(upstream.span, "HTTPS goes by the routes of the file");
            let error = error.label("remove it").also(mode.span, "because of this");
            return to
                .fail(error.help("`mode: terminate` sends what was decrypted to an upstream"));
        }
        (_, Some(upstream)) => upstream,
        (_, None) => {
            let error = Diagnostic::error(node.span, "`upstream` is missing");
            return to.fail(error.label("these connections would go nowhere"));
        }
    };
    Some(TlsRouteDraft {
        route: TlsRoute { names, mode: mode.value, shares: upstream.value },
        name_spans,
        span: node.span,
        mode_span: mode.span,
        upstream_span: upstream.span,
    })
}

fn check_names(routes: &[TlsRouteDraft], to: &mut Reading<'_>) {
    let mut seen: HashMap<&HostPattern, Span> = HashMap::new();
    let mut rest: Option<Span> = None;
    for TlsRouteDraft { route, name_spans, span, .. } in routes {
        for (name, span) in route.names.iter().zip(name_spans) {
            if let Some(first) = seen.insert(name, *span) {
                let error = Diagnostic::error(*span, format!("the name `{name}` is taken twice"));
                to.add(error.label("here again").also(first, "first here"));
            }
        }
        if route.names.is_empty()
            && let Some(first) = rest.replace(*span)
        {
            let error = Diagnostic::error(*span, "two TLS routes of the listener have no `names`");
            let error = error.label("this takes all connections that no other one takes");
            to.add(error.also(first, "and so does this"));
        }
    }
}
