//! The objects of the API, as far as they are read here: fields that nobody reads are not declared.

mod meta;

mod service;

mod gateway;

mod route;

mod ingress;

mod policy;

pub use gateway::{
    AllowedListeners, AllowedRoutes, CertificateValidation, FrontendTls, Gateway, GatewayAddress,
    GatewayClass, GatewayClassSpec, GatewaySpec, GatewayTls, Listener, ListenerSet,
    ListenerSetSpec, ListenerTls, Namespaces, PortTls, RouteKind, TlsConfig,
};
pub use ingress::{
    Annotated, Ingress, IngressBackend, IngressClass, IngressClassSpec, IngressPath, IngressPaths,
    IngressPort, IngressRule, IngressService, IngressSpec, IngressTls,
};
pub use meta::{Key, LabelSelector, Meta, Object, Requirement};
pub use policy::{
    BackendTlsPolicy, BackendTlsPolicySpec, GrantFrom, GrantTo, ReferenceGrant, ReferenceGrantSpec,
    SubjectAltName, TargetRef, TitanPolicy, TitanPolicySpec, TlsValidation,
};
pub use route::{
    AuthService, BackendRef, Cors, Filter, Fraction, GrpcMatch, GrpcMethod, GrpcRoute,
    HeaderChanges, HttpMatch, HttpRoute, Mirror, More, NameValue, ParentRef, PathMatch,
    PathModifier, Redirect, ReferenceTo, Retry, Rewrite, RouteSpec, Rule, TcpRoute, Timeouts,
    TlsRoute, ValueMatch,
};
pub use service::{
    ConfigMap, EndpointConditions, EndpointPort, EndpointSlice, Namespace, Secret, Service,
    ServiceEndpoint, ServicePort, ServiceSpec,
};
