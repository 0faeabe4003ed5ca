//! Ingress and IngressClass.

use super::meta::Meta;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// What the API server knows of an object, with its annotations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Annotated {
    /// What it knows of every object.
    #[serde(flatten)]
    pub meta: Meta,
    /// What tools and controllers read.
    pub annotations: BTreeMap<String, String>,
}

/// A class of Ingresses, which names its controller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct IngressClass {
    /// `ingressclass.kubernetes.io/is-default-class` makes it that of Ingresses without one.
    pub metadata: Annotated,
    /// Who serves it.
    pub spec: IngressClassSpec,
}

/// Who serves the Ingresses of a class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct IngressClassSpec {
    /// The controller's name.
    pub controller: String,
}

/// Hosts and paths, and the services for them.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Ingress {
    /// The annotations of ingress-nginx say more.
    pub metadata: Annotated,
    /// What is wanted.
    pub spec: IngressSpec,
    /// Where clients reach it.
    pub status: Value,
}

/// What an Ingress wants.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct IngressSpec {
    /// Its class.
    pub ingress_class_name: Option<String>,
    /// For what no rule takes.
    pub default_backend: Option<IngressBackend>,
    /// Certificates.
    pub tls: Vec<IngressTls>,
    /// Hosts and their paths.
    pub rules: Vec<IngressRule>,
}

/// A certificate for some hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct IngressTls {
    /// The hosts.
    pub hosts: Vec<String>,
    /// The secret.
    pub secret_name: Option<String>,
}

/// The paths of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct IngressRule {
    /// The host; empty: all.
    pub host: String,
    /// Its paths.
    pub http: IngressPaths,
}

/// Paths.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct IngressPaths {
    /// The paths.
    pub paths: Vec<IngressPath>,
}

/// A path, and who serves it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct IngressPath {
    /// The path; empty: `/`.
    pub path: String,
    /// `Exact`, `Prefix` or `ImplementationSpecific`.
    pub path_type: String,
    /// Who serves it.
    pub backend: IngressBackend,
}

/// A service, or something else, which is not served.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct IngressBackend {
    /// The service.
    pub service: Option<IngressService>,
}

/// A port of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct IngressService {
    /// Its name.
    pub name: String,
    /// The port.
    pub port: IngressPort,
}

/// A port, by name or by number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct IngressPort {
    /// Its name.
    pub name: Option<String>,
    /// Its number.
    pub number: Option<u16>,
}
