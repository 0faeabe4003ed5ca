//! Servers that the gateway itself asks or tells something: how a URL becomes an upstream, and what is odd about it.

use crate::credentials::is_credential;
use crate::diagnostic::Diagnostic;
use crate::location::Span;
use crate::node::{Entry, Kind, Node, Text};
use crate::policy::Url;
use crate::read::{At, Read, Reading};
use crate::tls::UpstreamTls;
use crate::token::{HeaderName, HeaderValue};
use crate::upstream::{Protocol, UpstreamFields, upstream};

/// Such a server, as a section of the file has it.
pub(crate) struct Server<'f> {
    /// What messages call it: `collector`.
    pub(crate) what: &'static str,
    /// The key of its URL.
    pub(crate) key: &'static str,
    pub(crate) url: &'f At<Url>,
    /// How TLS is spoken with it, where the section says so under `tls`.
    pub(crate) tls: Option<&'f UpstreamTls>,
}

impl Server<'_> {
    /// The upstream that connections to it are those of: all that is not said here is as for others.
    pub(crate) fn upstream(
        &self,
        protocol: Protocol,
        to: &mut Reading<'_>,
    ) -> Option<UpstreamFields> {
        let At { value: Url { host, port, is_https, .. }, span } = self.url;
        let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        let address = Text::written(format!("{host}:{port}"), true);
        let value = Node { span: *span, kind: Kind::Text(address) };
        let entry = Entry { key: "endpoints".to_owned(), key_span: *span, value };
        let node = Node { span: *span, kind: Kind::Map(vec![entry]) };
        let mut upstream = upstream().read(&node, to)?;
        upstream.protocol = protocol;
        upstream.tls = is_https.then(|| self.tls.cloned().unwrap_or(UpstreamTls::ON));
        Some(upstream)
    }

    /// Whether there is TLS where the file says how it is spoken.
    pub(crate) fn check_tls(&self, node: &Node, to: &mut Reading<'_>) -> bool {
        let At { value: url, span } = self.url;
        let Some(tls) = self.tls else { return true };
        let place = node.key_span("tls");
        if !url.is_https {
            let error = Diagnostic::error(place, "`tls` has no effect");
            let error = error.also(*span, "there is no TLS with `http`");
            to.add(error.help(format!("write `https` in `{}`, or remove `tls`", self.key)));
            return false;
        }
        if !tls.verify {
            self.warn_unverified(place, to);
        }
        true
    }

    fn warn_unverified(&self, span: Span, to: &mut Reading<'_>) {
        let message = format!("any certificate of this {} is accepted", self.what);
        let warning = Diagnostic::warning(span, message);
        let warning = warning.label("anyone on the network path can read and change what is sent");
        to.add(
            warning.help("for certificates that you issued yourself, set `ca` to their authority"),
        );
    }

    /// Whether a key in these fields goes over a network in the clear.
    pub(crate) fn check_headers(
        &self,
        headers: &[(HeaderName, HeaderValue)],
        node: &Node,
        to: &mut Reading<'_>,
    ) {
        let has_some = headers.iter().any(|(name, _)| is_credential(name.as_str()));
        if self.is_private() || !has_some {
            return;
        }
        let warning = Diagnostic::warning(node.key_span("headers"), "a key is sent without TLS");
        let warning = warning.label("anyone on the network path can read it");
        let here = format!("the {} is here", self.what);
        to.add(warning.also(self.url.span, here).help("use `https`"));
    }

    /// Whether nobody on a network can read or change what is said.
    pub(crate) fn is_private(&self) -> bool {
        let Url { host, is_https, .. } = &self.url.value;
        let is_loopback = |it: std::net::IpAddr| it.is_loopback();
        *is_https || host == "localhost" || host.parse().is_ok_and(is_loopback)
    }
}
