//! Forwarding: what the gateway tells upstreams and clients about each other.

use crate::bounds::MAX_NETWORKS;
use crate::cidr::{Cidr, cidr};
use crate::diagnostic::Diagnostic;
use crate::node::Node;
use crate::read::{Read, Reading, default};
use crate::readers::{boolean, one_or_list, word_or, words, words_or};
use crate::section::{section, section_of};
use crate::token::{HeaderName, HeaderValue, Token, header_name, header_value, token};
use titan_http::{FieldName, fold_name};

section! {
    "forwarding", "the forwarding settings", Any;
    /// What the gateway tells upstreams and clients about each other.
    pub struct Forwarding {
        /// Peers whose request id and `trusted_field` are trusted and extended. From any other client, X-Forwarded-For
        /// and all other X-Forwarded fields, Forwarded and X-Real-IP are removed.
        pub trusted_proxies: Vec<Cidr> = default("[]", one_or_list(cidr(), 0..=MAX_NETWORKS)),
        /// The one field in which trusted proxies name the client. A proxy that writes one of the two passes on what
        /// its client sent in the other, so the other is removed. `x_forwarded_for`: X-Forwarded-For, and with it all
        /// other X-Forwarded fields and X-Real-IP, which proxies must write or remove too; Forwarded is removed.
        /// `forwarded`: Forwarded (RFC 7239); all X-Forwarded fields and X-Real-IP are removed, and upstreams get
        /// fields made from Forwarded. A malformed line and all lines before it become `for=unknown`. If a trusted
        /// proxy names a client without an address, the client has none: it is in no network of `allow`, and any `deny`
        /// refuses it.
        pub trusted_field: TrustedField = default("x_forwarded_for", words(&[
            ("x_forwarded_for", TrustedField::XForwardedFor),
            ("forwarded", TrustedField::Forwarded),
        ])),
        /// Whether upstreams get X-Forwarded-For, X-Forwarded-Proto and X-Forwarded-Host.
        pub x_forwarded: bool = default("true", boolean()),
        /// Whether upstreams get X-Real-IP: the address of the client behind all trusted proxies, replacing any
        /// X-Real-IP of the request. Otherwise, that of trusted proxies passes.
        pub x_real_ip: bool = default("false", boolean()),
        /// Whether upstreams get Forwarded (RFC 7239).
        pub forwarded: bool = default("false", boolean()),
        /// The field that carries the request's id to the upstream; error responses of the gateway have the id too.
        /// `off`: requests have none.
        pub request_id: Option<HeaderName> = default("X-Request-Id", request_id()),
        /// Whether clients get the id in the same field of each response, in place of what the upstream has there. `titan recorder`
        /// and logs find the request by it.
        pub respond_with_id: bool = default("true", boolean()),
        /// The pseudonym of this gateway in Via (RFC 9110 section 7.6.3). `off`: Via is not extended, and request loops
        /// are not detected.
        pub via: Option<Token> = default("titan", word_or("off", None, token().map(Some))),
        /// Whether upstreams get the certificate that the client presented, in Client-Cert (RFC 9440): `leaf` sends
        /// only that one, `chain` also the rest of its chain in Client-Cert-Chain. What clients and proxies send in
        /// these fields is always removed.
        pub client_cert: ClientCert = default("off", words(&[
            ("off", ClientCert::Off),
            ("leaf", ClientCert::Leaf),
            ("chain", ClientCert::Chain),
        ])),
        /// The Server field of responses: `pass` keeps the upstream's, `remove` removes it, any other string replaces
        /// it.
        pub server: ServerField = default("pass", server()),
    }
}

/// The field in which trusted proxies say whose request it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrustedField {
    /// X-Forwarded-For, and those that belong to it.
    XForwardedFor,
    /// Forwarded.
    Forwarded,
}

/// What an upstream gets of the client's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCert {
    /// Nothing.
    Off,
    /// The certificate.
    Leaf,
    /// The certificate and those that were sent with it.
    Chain,
}

/// What happens to the Server field of responses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerField {
    /// The upstream's stays.
    Pass,
    /// No response has one.
    Remove,
    /// Every response has this one.
    Replace(HeaderValue),
}

pub(crate) fn forwarding() -> impl Read<Value = Forwarding> {
    section_of::<Forwarding>().then(|forwarding, node, to| {
        warn_of_trust(&forwarding, node, to);
        Some(forwarding)
    })
}

/// Warns if every client is trusted, or none.
fn warn_of_trust(forwarding: &Forwarding, node: &Node, to: &mut Reading<'_>) {
    let proxies = &forwarding.trusted_proxies;
    if let Some(all) = proxies.iter().find(|block| block.is_everybody()) {
        let warning = Diagnostic::warning(
            node.key_span("trusted_proxies"),
            "every client could forge its own address",
        );
        let warning = warning.label(format!("`{all}` is every address"));
        to.add(warning.help("list just the networks of the proxies in front of the gateway"));
    }
    // The default has none either, and may be written out.
    let is_idle = proxies.is_empty() && forwarding.trusted_field != TrustedField::XForwardedFor;
    if let Some(entry) = node.entry("trusted_field").filter(|_| is_idle) {
        let warning = Diagnostic::warning(entry.key_span, "there are no trusted proxies");
        let warning = warning.label("has no effect without `trusted_proxies`");
        to.add(
            warning.help(
                "list the networks of the proxies in front of the gateway in `trusted_proxies`",
            ),
        );
    }
}

fn request_id() -> impl Read<Value = Option<HeaderName>> {
    word_or("off", None, header_name().then(refuse_known).map(Some))
}

/// A field with a meaning of its own would be overwritten with ids.
fn refuse_known(name: HeaderName, node: &Node, to: &mut Reading<'_>) -> Option<HeaderName> {
    let folded = fold_name(name.as_str());
    match FieldName::of(folded.as_bytes()) {
        FieldName::Other if !is_claim(&folded) && !folded.starts_with("sec-websocket-") => {
            Some(name)
        }
        FieldName::XRequestId => Some(name),
        _ => {
            let message = format!("`{}` cannot carry the request id", name.as_str());
            let error =
                Diagnostic::error(node.span, message).label("this header has another meaning");
            to.fail(error.help("use a header such as `X-Request-Id` or `X-Correlation-Id`"))
        }
    }
}

/// Whether the gateway, or a proxy in front, says something of the client in a field of that name, as servers read it
/// that tell few names apart.
pub(crate) fn is_claim(folded: &str) -> bool {
    folded.starts_with("x-forwarded-")
        || matches!(folded, "forwarded" | "x-real-ip" | "client-cert" | "client-cert-chain")
}

/// The key that controls a field, which policies cannot change; `folded` is its name as `is_claim` takes it. None for
/// what no key says anything of.
pub(crate) fn key_of(folded: &str) -> Option<&'static str> {
    match folded {
        "x-forwarded-for" | "x-forwarded-proto" | "x-forwarded-host" => {
            Some("forwarding.x_forwarded")
        }
        "x-real-ip" => Some("forwarding.x_real_ip"),
        "forwarded" => Some("forwarding.forwarded"),
        "via" => Some("forwarding.via"),
        "x-request-id" => Some("forwarding.request_id"),
        "client-cert" | "client-cert-chain" => Some("forwarding.client_cert"),
        "server" => Some("forwarding.server"),
        _ => None,
    }
}

fn server() -> impl Read<Value = ServerField> {
    let other = header_value().map(ServerField::Replace);
    words_or(&[("pass", ServerField::Pass), ("remove", ServerField::Remove)], other)
}
