//! A Kubernetes cluster as a source: what Gateway API says there.

use crate::bounds::{MAX_CLUSTER_ADDRESSES, MAX_HOST, MAX_NAMESPACES};
use crate::cidr::{Cidr, cidr};
use crate::diagnostic::Diagnostic;
use crate::node::Node;
use crate::problem::Problem;
use crate::read::{At, Read, Reading, at, default, optional};
use crate::readers::{one_or_list, text};
use crate::section::{section, section_of};
use crate::shape::TextShape;
use crate::tls::file;
use std::net::IpAddr;
use std::path::PathBuf;

section! {
    "kubernetes_source", "what Gateway API says in a Kubernetes cluster", Any;
    /// What Gateway API says in a Kubernetes cluster: its gateways, routes and policies are watched, and their statuses tell what has
    /// come of them. `titan kubernetes` is this source alone, with a configuration that it writes itself. Certificates and keys of
    /// the cluster are written to the state directory, which only its owner can read, or to a temporary one.
    pub struct KubernetesSource {
        /// The name by which classes name this controller (`GatewayClass.spec.controllerName`).
        pub controller_name: String = default("titan.test/gateway", controller_name()),
        /// The namespaces that are read; none: all of them.
        pub namespaces: Vec<String> = default("[]", one_or_list(namespace(), 0..=MAX_NAMESPACES)),
        /// What statuses name as addresses of gateways, which listen on all addresses of this machine: addresses or host names.
        pub addresses: Vec<String> = default("[]", one_or_list(address(), 0..=MAX_CLUSTER_ADDRESSES)),
        /// A network of this machine, in which each gateway listens on an address of its own: IPv4, from `/16` to `/31`. Only
        /// without `addresses`.
        pub network: Option<Cidr> = optional("none: all gateways listen on all addresses", network()),
        /// A file that says how to reach the API server.
        pub kubeconfig: Option<PathBuf> = optional(
            "`$KUBECONFIG`, then `~/.kube/config`, then the service account of the pod",
            file(),
        ),
    }
}

pub(crate) fn kubernetes_source() -> impl Read<Value = KubernetesSource> {
    section_of::<KubernetesSource>().then(check)
}

fn check(source: KubernetesSource, node: &Node, to: &mut Reading<'_>) -> Option<KubernetesSource> {
    if source.network.is_some() && !source.addresses.is_empty() {
        let error = Diagnostic::error(node.key_span("addresses"), "addresses, and a network too");
        let error = error.label("remove it: gateways have addresses of the network");
        return to.fail(error.also(node.key_span("network"), "the network"));
    }
    Some(source)
}

fn controller_name() -> impl Read<Value = String> {
    let shape = TextShape {
        what: "the name of a controller",
        examples: "`example.com/gateway`: a domain, and a path below it",
        pattern: Some("^[a-z0-9.-]+/[A-Za-z0-9/._~%!$&'()*+,;=:-]+$"),
        max: MAX_HOST,
    };
    text(shape, |text| {
        let is_domain = |domain: &str| !domain.is_empty() && domain.bytes().all(is_of_domain);
        let is_path = |path: &str| !path.is_empty() && path.bytes().all(|it| it.is_ascii_graphic());
        match text.split_once('/') {
            Some((domain, path)) if is_domain(domain) && is_path(path) => Ok(text.to_owned()),
            _ => Err(Problem::new("it is no domain with a path")),
        }
    })
}

fn namespace() -> impl Read<Value = String> {
    let shape = TextShape {
        what: "a namespace",
        examples: "`shop`: at most 63 small letters, digits and `-`",
        pattern: Some("^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"),
        max: 63,
    };
    text(shape, |text| {
        let is_taken = |byte| byte != b'.' && is_of_domain(byte);
        let is_label = text.bytes().all(is_taken) && !text.starts_with('-') && !text.ends_with('-');
        match is_label && !text.is_empty() {
            true => Ok(text.to_owned()),
            false => Err(Problem::new("no namespace has such a name")),
        }
    })
}

fn address() -> impl Read<Value = String> {
    let shape = TextShape {
        what: "an address or a host name",
        examples: "`192.0.2.1` or `gateway.example.com`",
        pattern: Some("^[A-Za-z0-9.:-]+$"),
        max: MAX_HOST,
    };
    text(shape, |text| {
        let is_name = !text.is_empty() && text.to_ascii_lowercase().bytes().all(is_of_domain);
        match is_name || text.parse::<IpAddr>().is_ok() {
            true => Ok(text.to_owned()),
            false => Err(Problem::new("it is neither an address nor a host name")),
        }
    })
}

fn network() -> impl Read<Value = Cidr> {
    at(cidr()).then(|At { value, span }, _, to| {
        if value.has_addresses_for_gateways() {
            return Some(value);
        }
        let error = Diagnostic::error(span, "a network of this size or kind is not used");
        to.fail(error.label("expected IPv4, from `/16` to `/31`, as in `127.64.0.0/16`"))
    })
}

fn is_of_domain(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-".contains(&byte)
}
