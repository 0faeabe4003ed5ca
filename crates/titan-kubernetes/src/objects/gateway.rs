//! GatewayClass and Gateway.

use super::meta::{LabelSelector, Object};
use super::route::ReferenceTo;
use serde::Deserialize;

/// A class of gateways, which names its controller.
pub type GatewayClass = Object<GatewayClassSpec>;

/// Who makes gateways of a class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct GatewayClassSpec {
    /// The controller's name.
    pub controller_name: String,
    /// Parameters of the class.
    pub parameters_ref: Option<ReferenceTo>,
}

/// A gateway.
pub type Gateway = Object<GatewaySpec>;

/// Where a gateway listens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct GatewaySpec {
    /// Its class.
    pub gateway_class_name: String,
    /// Its listeners.
    pub listeners: Vec<Listener>,
    /// Which ListenerSets may add to them.
    pub allowed_listeners: AllowedListeners,
    /// The addresses that it asks for.
    pub addresses: Vec<GatewayAddress>,
    /// TLS of all of its listeners.
    pub tls: Option<GatewayTls>,
}

/// The ListenerSets that may add listeners to a gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct AllowedListeners {
    /// The namespaces that they may be in; without `from` none.
    pub namespaces: Namespaces,
}

/// More listeners for a gateway.
pub type ListenerSet = Object<ListenerSetSpec>;

/// Listeners, and the gateway that they are for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ListenerSetSpec {
    /// The gateway.
    pub parent_ref: ReferenceTo,
    /// The listeners.
    pub listeners: Vec<Listener>,
}

/// An address that a gateway asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct GatewayAddress {
    /// `IPAddress`, the default, `Hostname`, or a name with a domain.
    #[serde(rename = "type")]
    pub of_type: Option<String>,
    /// The address; empty for any one.
    pub value: String,
}

/// TLS of all listeners of a gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct GatewayTls {
    /// To clients.
    pub frontend: Option<FrontendTls>,
    /// To pods.
    pub backend: Option<BackendTlsOfGateway>,
}

/// TLS from a gateway to pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BackendTlsOfGateway {
    /// The secret with the certificate that the gateway presents.
    pub client_certificate_ref: Option<ReferenceTo>,
}

/// TLS to clients, of all ports and of some.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct FrontendTls {
    /// Of ports that are not named.
    pub default: TlsConfig,
    /// Of one port each.
    pub per_port: Vec<PortTls>,
}

/// TLS to clients of one port.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PortTls {
    /// The port.
    pub port: u16,
    /// How TLS is there.
    pub tls: TlsConfig,
}

/// How clients are asked for certificates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct TlsConfig {
    /// None: they are not asked.
    pub validation: Option<CertificateValidation>,
}

impl FrontendTls {
    /// Whether clients with invalid certificates are let in somewhere.
    pub fn is_insecure(&self) -> bool {
        let all = self.per_port.iter().map(|it| &it.tls).chain([&self.default]);
        all.filter_map(|it| it.validation.as_ref()).any(CertificateValidation::is_insecure)
    }
}

impl CertificateValidation {
    /// Whether clients with invalid certificates are let in, as those without any.
    pub fn is_insecure(&self) -> bool {
        self.mode.as_deref() == Some("AllowInsecureFallback")
    }
}

/// Which certificates of clients are valid.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CertificateValidation {
    /// The authorities.
    pub ca_certificate_refs: Vec<ReferenceTo>,
    /// `AllowValidOnly`, the default, or `AllowInsecureFallback`.
    pub mode: Option<String>,
}

/// A listener of a gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Listener {
    /// Its name, unique in its gateway.
    pub name: String,
    /// The hosts that it is for; none: all.
    pub hostname: Option<String>,
    /// The port.
    pub port: u16,
    /// `HTTP`, `HTTPS`, `TLS`, `TCP` or `UDP`.
    pub protocol: String,
    /// Its certificates.
    pub tls: Option<ListenerTls>,
    /// The routes that may attach to it.
    pub allowed_routes: AllowedRoutes,
}

/// TLS of a listener.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ListenerTls {
    /// `Terminate`, the default, or `Passthrough`.
    pub mode: Option<String>,
    /// The secrets with its certificates.
    pub certificate_refs: Vec<ReferenceTo>,
}

/// The routes that may attach to a listener.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct AllowedRoutes {
    /// The namespaces that they may be in; without `from` that of the listener.
    pub namespaces: Namespaces,
    /// Their kinds; empty: all that the protocol takes.
    pub kinds: Vec<RouteKind>,
}

/// Namespaces of routes, or of ListenerSets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Namespaces {
    /// `Same`, `All`, `None` or `Selector`.
    pub from: Option<String>,
    /// For `Selector`.
    pub selector: Option<LabelSelector>,
}

/// A kind of route.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct RouteKind {
    /// The group; none: that of Gateway API.
    pub group: Option<String>,
    /// Its name.
    pub kind: String,
}
