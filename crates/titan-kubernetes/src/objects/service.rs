//! Services, where they run, and what names of Gateway API's objects lead to.

use super::meta::{Meta, Object};
use serde::Deserialize;
use std::collections::BTreeMap;

/// A service.
pub type Service = Object<ServiceSpec>;

/// What a service offers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServiceSpec {
    /// Its ports.
    pub ports: Vec<ServicePort>,
}

/// A port of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServicePort {
    /// Its name, which EndpointSlices call it by; none where it is the only one.
    pub name: String,
    /// Its number, which routes call it by.
    pub port: u16,
    /// What is spoken on it, such as `kubernetes.io/h2c`.
    pub app_protocol: Option<String>,
}

/// Where some of the pods of a service are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct EndpointSlice {
    /// What the API server knows of it; the label `kubernetes.io/service-name` says whose it is.
    pub metadata: Meta,
    /// The pods. `null` where there are none.
    pub endpoints: Option<Vec<ServiceEndpoint>>,
    /// The ports that all of them have.
    pub ports: Option<Vec<EndpointPort>>,
}

/// A pod of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ServiceEndpoint {
    /// Its addresses; the first one counts.
    pub addresses: Vec<String>,
    /// Whether it can be used.
    pub conditions: EndpointConditions,
    /// Where it runs.
    pub zone: Option<String>,
}

/// Whether a pod can be used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct EndpointConditions {
    /// Whether it may get new connections; unknown counts as yes.
    pub ready: Option<bool>,
    /// Whether it is there and responds, be it about to end.
    pub serving: Option<bool>,
    /// Whether it is about to end.
    pub terminating: Option<bool>,
}

/// A port of pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct EndpointPort {
    /// That of the service's port.
    pub name: Option<String>,
    /// Its number.
    pub port: Option<u16>,
}

/// Certificates and keys.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Secret {
    /// What the API server knows of it.
    pub metadata: Meta,
    /// What is in it, in base64.
    pub data: BTreeMap<String, String>,
}

/// Authorities to trust.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ConfigMap {
    /// What the API server knows of it.
    pub metadata: Meta,
    /// What is in it.
    pub data: BTreeMap<String, String>,
}

/// A namespace; routes are let in by its labels.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Namespace {
    /// What the API server knows of it.
    pub metadata: Meta,
}

impl EndpointSlice {
    /// The service whose pods these are.
    pub fn service(&self) -> Option<&str> {
        self.metadata.labels.get("kubernetes.io/service-name").map(String::as_str)
    }
}
