//! All that is known of a cluster, kept by one task alone.

use crate::objects::{
    BackendTlsPolicy, ConfigMap, EndpointSlice, Gateway, GatewayClass, GrpcRoute, HttpRoute,
    Ingress, IngressClass, Key, ListenerSet, Meta, Namespace, Object, ReferenceGrant, Secret,
    Service, TcpRoute, TitanPolicy, TlsRoute,
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// A kind of object that is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// `GatewayClass`.
    GatewayClass,
    /// `Gateway`.
    Gateway,
    /// `ListenerSet`.
    ListenerSet,
    /// `IngressClass`.
    IngressClass,
    /// `Ingress`.
    Ingress,
    /// `HTTPRoute`.
    HttpRoute,
    /// `GRPCRoute`.
    GrpcRoute,
    /// `TLSRoute`.
    TlsRoute,
    /// `TCPRoute`.
    TcpRoute,
    /// `ReferenceGrant`.
    ReferenceGrant,
    /// `BackendTLSPolicy`.
    BackendTlsPolicy,
    /// `TitanPolicy`.
    TitanPolicy,
    /// `Namespace`.
    Namespace,
    /// `Service`.
    Service,
    /// `EndpointSlice`.
    EndpointSlice,
    /// `Secret` of the type `kubernetes.io/tls`.
    Secret,
    /// `Secret` with the label [`FOR_POLICIES`].
    PolicySecret,
    /// `ConfigMap`.
    ConfigMap,
}

/// The group of Gateway API.
pub const GATEWAY_GROUP: &str = "gateway.networking.k8s.io";
/// The group of our own objects.
pub const TITAN_GROUP: &str = "gateway.titan.test";
/// The label, with the value `true`, of secrets that a TitanPolicy may name: no others are read.
pub const FOR_POLICIES: &str = "gateway.titan.test/for-policies";

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 18] = [
        Kind::GatewayClass,
        Kind::Gateway,
        Kind::ListenerSet,
        Kind::IngressClass,
        Kind::Ingress,
        Kind::HttpRoute,
        Kind::GrpcRoute,
        Kind::TlsRoute,
        Kind::TcpRoute,
        Kind::ReferenceGrant,
        Kind::BackendTlsPolicy,
        Kind::TitanPolicy,
        Kind::Namespace,
        Kind::Service,
        Kind::EndpointSlice,
        Kind::Secret,
        Kind::PolicySecret,
        Kind::ConfigMap,
    ];

    /// What the API calls it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::GatewayClass => "GatewayClass",
            Kind::Gateway => "Gateway",
            Kind::ListenerSet => "ListenerSet",
            Kind::IngressClass => "IngressClass",
            Kind::Ingress => "Ingress",
            Kind::HttpRoute => "HTTPRoute",
            Kind::GrpcRoute => "GRPCRoute",
            Kind::TlsRoute => "TLSRoute",
            Kind::TcpRoute => "TCPRoute",
            Kind::ReferenceGrant => "ReferenceGrant",
            Kind::BackendTlsPolicy => "BackendTLSPolicy",
            Kind::TitanPolicy => "TitanPolicy",
            Kind::Namespace => "Namespace",
            Kind::Service => "Service",
            Kind::EndpointSlice => "EndpointSlice",
            Kind::Secret | Kind::PolicySecret => "Secret",
            Kind::ConfigMap => "ConfigMap",
        }
    }

    /// The group and the version that it is read in.
    pub fn group_version(self) -> (&'static str, &'static str) {
        match self {
            Kind::ReferenceGrant => (GATEWAY_GROUP, "v1beta1"),
            Kind::EndpointSlice => ("discovery.k8s.io", "v1"),
            Kind::Ingress | Kind::IngressClass => ("networking.k8s.io", "v1"),
            Kind::TitanPolicy => (TITAN_GROUP, "v1alpha1"),
            Kind::Namespace
            | Kind::Service
            | Kind::Secret
            | Kind::PolicySecret
            | Kind::ConfigMap => ("", "v1"),
            Kind::GatewayClass
            | Kind::Gateway
            | Kind::ListenerSet
            | Kind::HttpRoute
            | Kind::GrpcRoute
            | Kind::TlsRoute
            | Kind::TcpRoute
            | Kind::BackendTlsPolicy => (GATEWAY_GROUP, "v1"),
        }
    }

    /// The name of its list in paths of the API.
    pub fn plural(self) -> String {
        let name = self.name().to_ascii_lowercase();
        match self {
            Kind::GatewayClass | Kind::Ingress | Kind::IngressClass => format!("{name}es"),
            Kind::BackendTlsPolicy | Kind::TitanPolicy => name.replace("policy", "policies"),
            _ => format!("{name}s"),
        }
    }

    /// Whether its objects are in no namespace.
    pub fn is_of_cluster(self) -> bool {
        matches!(self, Kind::GatewayClass | Kind::IngressClass | Kind::Namespace)
    }
}

/// All that is known of a cluster.
#[derive(Clone, Default)]
pub struct Cluster {
    /// Classes of gateways.
    pub classes: BTreeMap<Key, GatewayClass>,
    /// Gateways.
    pub gateways: BTreeMap<Key, Gateway>,
    /// More listeners for gateways.
    pub listener_sets: BTreeMap<Key, ListenerSet>,
    /// Classes of Ingresses.
    pub ingress_classes: BTreeMap<Key, IngressClass>,
    /// Ingresses.
    pub ingresses: BTreeMap<Key, Ingress>,
    /// Routes for HTTP.
    pub http_routes: BTreeMap<Key, HttpRoute>,
    /// Routes for gRPC.
    pub grpc_routes: BTreeMap<Key, GrpcRoute>,
    /// Routes for connections with TLS.
    pub tls_routes: BTreeMap<Key, TlsRoute>,
    /// Routes for connections.
    pub tcp_routes: BTreeMap<Key, TcpRoute>,
    /// Who may name what.
    pub grants: BTreeMap<Key, ReferenceGrant>,
    /// TLS to pods.
    pub backend_tls: BTreeMap<Key, BackendTlsPolicy>,
    /// Titan's own policies.
    pub policies: BTreeMap<Key, TitanPolicy>,
    /// Namespaces.
    pub namespaces: BTreeMap<Key, Namespace>,
    /// Services.
    pub services: BTreeMap<Key, Service>,
    /// Where their pods are.
    pub slices: BTreeMap<Key, EndpointSlice>,
    /// Certificates and keys.
    pub secrets: BTreeMap<Key, Secret>,
    /// What policies may name.
    pub policy_secrets: BTreeMap<Key, Secret>,
    /// Authorities to trust, and what policies name.
    pub config_maps: BTreeMap<Key, ConfigMap>,
}

impl Cluster {
    /// Notes an object as it is now. One that cannot be read is as if it were not there.
    pub fn note(&mut self, kind: Kind, key: Key, object: Value) -> Result<(), String> {
        match kind {
            Kind::GatewayClass => noted(&mut self.classes, key, object),
            Kind::Gateway => noted(&mut self.gateways, key, object),
            Kind::ListenerSet => noted(&mut self.listener_sets, key, object),
            Kind::IngressClass => noted(&mut self.ingress_classes, key, object),
            Kind::Ingress => noted(&mut self.ingresses, key, object),
            Kind::HttpRoute => noted(&mut self.http_routes, key, object),
            Kind::GrpcRoute => noted(&mut self.grpc_routes, key, object),
            Kind::TlsRoute => noted(&mut self.tls_routes, key, object),
            Kind::TcpRoute => noted(&mut self.tcp_routes, key, object),
            Kind::ReferenceGrant => noted(&mut self.grants, key, object),
            Kind::BackendTlsPolicy => noted(&mut self.backend_tls, key, object),
            Kind::TitanPolicy => noted(&mut self.policies, key, object),
            Kind::Namespace => noted(&mut self.namespaces, key, object),
            Kind::Service => noted(&mut self.services, key, object),
            Kind::EndpointSlice => noted(&mut self.slices, key, object),
            Kind::Secret => noted(&mut self.secrets, key, object),
            Kind::PolicySecret => noted(&mut self.policy_secrets, key, object),
            Kind::ConfigMap => noted(&mut self.config_maps, key, object),
        }
    }

    /// Where the pods of a service are.
    pub(crate) fn slices_of<'c>(
        &'c self,
        service: &'c Key,
    ) -> impl Iterator<Item = &'c EndpointSlice> + Clone {
        let first = Key::new(&service.namespace, "");
        let here =
            self.slices.range(first..).take_while(|(key, _)| key.namespace == service.namespace);
        here.map(|(_, slice)| slice).filter(|it| it.service() == Some(service.name.as_str()))
    }

    /// Forgets an object.
    pub fn forget(&mut self, kind: Kind, key: &Key) {
        self.retain(kind, |it| it != key);
    }

    /// Forgets those objects of a namespace, or of the whole cluster, that are not among these.
    pub fn keep(&mut self, kind: Kind, namespace: Option<&str>, keys: &BTreeSet<Key>) {
        let is_elsewhere = |key: &Key| namespace.is_some_and(|it| it != key.namespace);
        self.retain(kind, |key| is_elsewhere(key) || keys.contains(key));
    }

    fn retain(&mut self, kind: Kind, is_kept: impl Fn(&Key) -> bool) {
        match kind {
            Kind::GatewayClass => self.classes.retain(|key, _| is_kept(key)),
            Kind::Gateway => self.gateways.retain(|key, _| is_kept(key)),
            Kind::ListenerSet => self.listener_sets.retain(|key, _| is_kept(key)),
            Kind::IngressClass => self.ingress_classes.retain(|key, _| is_kept(key)),
            Kind::Ingress => self.ingresses.retain(|key, _| is_kept(key)),
            Kind::HttpRoute => self.http_routes.retain(|key, _| is_kept(key)),
            Kind::GrpcRoute => self.grpc_routes.retain(|key, _| is_kept(key)),
            Kind::TlsRoute => self.tls_routes.retain(|key, _| is_kept(key)),
            Kind::TcpRoute => self.tcp_routes.retain(|key, _| is_kept(key)),
            Kind::ReferenceGrant => self.grants.retain(|key, _| is_kept(key)),
            Kind::BackendTlsPolicy => self.backend_tls.retain(|key, _| is_kept(key)),
            Kind::TitanPolicy => self.policies.retain(|key, _| is_kept(key)),
            Kind::Namespace => self.namespaces.retain(|key, _| is_kept(key)),
            Kind::Service => self.services.retain(|key, _| is_kept(key)),
            Kind::EndpointSlice => self.slices.retain(|key, _| is_kept(key)),
            Kind::Secret => self.secrets.retain(|key, _| is_kept(key)),
            Kind::PolicySecret => self.policy_secrets.retain(|key, _| is_kept(key)),
            Kind::ConfigMap => self.config_maps.retain(|key, _| is_kept(key)),
        }
    }

    /// What the API server knows of an object that has a status, and the status as it is there.
    pub fn with_status(&self, kind: Kind, key: &Key) -> Option<(&Meta, &Value)> {
        fn both<S>(object: &Object<S>) -> (&Meta, &Value) {
            (&object.metadata, &object.status)
        }
        match kind {
            Kind::GatewayClass => self.classes.get(key).map(both),
            Kind::Gateway => self.gateways.get(key).map(both),
            Kind::ListenerSet => self.listener_sets.get(key).map(both),
            Kind::Ingress => self.ingresses.get(key).map(|it| (&it.metadata.meta, &it.status)),
            Kind::HttpRoute => self.http_routes.get(key).map(both),
            Kind::GrpcRoute => self.grpc_routes.get(key).map(both),
            Kind::TlsRoute => self.tls_routes.get(key).map(both),
            Kind::TcpRoute => self.tcp_routes.get(key).map(both),
            Kind::BackendTlsPolicy => self.backend_tls.get(key).map(both),
            Kind::TitanPolicy => self.policies.get(key).map(both),
            _ => None,
        }
    }
}

fn noted<T: DeserializeOwned>(
    objects: &mut BTreeMap<Key, T>,
    key: Key,
    object: Value,
) -> Result<(), String> {
    match serde_json::from_value(object) {
        Ok(object) => {
            objects.insert(key, object);
            Ok(())
        }
        Err(error) => {
            objects.remove(&key);
            Err(error.to_string())
        }
    }
}
