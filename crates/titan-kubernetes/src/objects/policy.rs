//! ReferenceGrant, BackendTLSPolicy and TitanPolicy.

use super::meta::Object;
use super::route::ReferenceTo;
use serde::Deserialize;
use serde_json::{Map, Value};

/// Lets objects of other namespaces name objects of its own.
pub type ReferenceGrant = Object<ReferenceGrantSpec>;

/// Who may name what.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ReferenceGrantSpec {
    /// Who.
    pub from: Vec<GrantFrom>,
    /// What.
    pub to: Vec<GrantTo>,
}

/// Objects that may name others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct GrantFrom {
    /// Their group; empty for the core of the API.
    pub group: String,
    /// Their kind.
    pub kind: String,
    /// Their namespace.
    pub namespace: String,
}

/// Objects that may be named.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct GrantTo {
    /// Their group; empty for the core of the API.
    pub group: String,
    /// Their kind.
    pub kind: String,
    /// The only one; none: all of that kind.
    pub name: Option<String>,
}

/// TLS to the pods of a service.
pub type BackendTlsPolicy = Object<BackendTlsPolicySpec>;

/// Which services, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BackendTlsPolicySpec {
    /// The services.
    pub target_refs: Vec<TargetRef>,
    /// How their certificates are checked.
    pub validation: TlsValidation,
}

/// Policies of Titan's configuration, and the objects that they are attached to.
pub type TitanPolicy = Object<TitanPolicySpec>;

/// Where which policies hold.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TitanPolicySpec {
    /// The objects, in its own namespace.
    pub target_refs: Vec<TargetRef>,
    /// The policies, in the words of the configuration language.
    #[serde(flatten)]
    pub said: Map<String, Value>,
}

/// What a policy is attached to: an object, or a part of one.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TargetRef {
    /// Its group.
    pub group: String,
    /// Its kind.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// The name of the port, the listener or the rule; none: all of it.
    pub section_name: Option<String>,
}

/// How certificates of pods are checked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TlsValidation {
    /// Where the authorities are.
    pub ca_certificate_refs: Vec<ReferenceTo>,
    /// `System` for those of the system.
    #[serde(rename = "wellKnownCACertificates")]
    pub well_known_ca_certificates: Option<String>,
    /// The name to send, which the certificate must cover unless there are `subject_alt_names`.
    pub hostname: String,
    /// Names of which the certificate must have one.
    pub subject_alt_names: Vec<SubjectAltName>,
}

/// A name of a certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct SubjectAltName {
    /// `Hostname` or `URI`.
    #[serde(rename = "type")]
    pub of_type: String,
    /// A host.
    pub hostname: String,
    /// A URI.
    pub uri: String,
}
