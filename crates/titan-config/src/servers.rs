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

/// Such a server, or several that are as one, as a section of the file has it.
pub(crate) struct Server<'f> {
    /// What messages call it: `collector`.
    pub(crate) what: &'static str,
    /// The key of its URL.
    pub(crate) key: &'static str,
    /// Where it is; at least one.
    pub(crate) urls: &'f [At<Url>],
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
        let span = self.urls.first()?.span;
        let address = |At { value: Url { host, port, .. }, span }: &At<Url>| {
            let host = if host.contains(':') { format!("[{host}]") } else { host.clone() };
            let address = Text::written(format!("{host}:{port}"), true);
            Node { span: *span, kind: Kind::Text(address) }
        };
        let value = Node { span, kind: Kind::List(self.urls.iter().map(address).collect()) };
        let entry = Entry { key: "endpoints".to_owned(), key_span: span, value };
        let node = Node { span, kind: Kind::Map(vec![entry]) };
        let mut upstream = upstream().read(&node, to)?;
        upstream.protocol = protocol;
        upstream.tls = self.is_https().then(|| self.tls.cloned().unwrap_or(UpstreamTls::ON));
        Some(upstream)
    }

    /// Whether there is TLS, at all of its addresses if at any.
    fn is_https(&self) -> bool {
        self.urls.iter().all(|url| url.value.is_https)
    }

    /// Whether there is TLS where the file says how it is spoken.
    pub(crate) fn check_tls(&self, node: &Node, to: &mut Reading<'_>) -> bool {
        let first = self.urls.first().is_some_and(|url| url.value.is_https);
        if let Some(other) = self.urls.iter().find(|url| url.value.is_https != first) {
            let error =
                Diagnostic::error(other.span, "some addresses are with TLS and some without");
            let error = error.label("unlike the first one");
            to.add(error.help("write `https` in all of them, or `http`"));
            return false;
        }
        let Some(tls) = self.tls else { return true };
        let place = node.key_span("tls");
        if let Some(url) = self.urls.iter().find(|url| !url.value.is_https) {
            let error = Diagnostic::error(place, "`tls` has no effect");
            let error = error.also(url.span, "there is no TLS with `http`");
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
        if has_some {
            self.check_exposed("headers", "a key is sent without TLS", node, to);
        }
    }

    /// Whether what stands under `key`, which is secret, goes over a network in the clear.
    pub(crate) fn check_exposed(
        &self,
        key: &str,
        message: &'static str,
        node: &Node,
        to: &mut Reading<'_>,
    ) {
        let Some(url) = self.exposed() else { return };
        let warning = Diagnostic::warning(node.key_span(key), message);
        let warning = warning.label("anyone on the network path can read it");
        let here = format!("the {} is here", self.what);
        to.add(warning.also(url.span, here).help("use `https`"));
    }

    /// An address at which others on a network can read and change what is said.
    pub(crate) fn exposed(&self) -> Option<&At<Url>> {
        self.urls.iter().find(|url| !is_private(&url.value))
    }
}

/// Whether nobody on a network can read or change what is said there.
fn is_private(url: &Url) -> bool {
    let Url { host, is_https, .. } = url;
    let is_loopback = |it: std::net::IpAddr| it.is_loopback();
    *is_https || host == "localhost" || host.parse().is_ok_and(is_loopback)
}
