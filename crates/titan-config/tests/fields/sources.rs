//! The fields of sources.

use super::Row;

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    ("file", "sources", "sources: { s: { http: 'https://a/b.yaml' } }", "sources: [RemoteSource { name: Name(\"s\")"),
    ("source", "local_files", "sources: { s: { http: 'https://a/b', local_files: true } }", "local_files: true"),
    ("source", "http", "sources: { s: { http: 'https://a/b' } }", "kind: Http(HttpSource {"),
    (
        "source", "kubernetes",
        "sources: { s: { kubernetes: {} } }",
        "kind: Kubernetes(KubernetesSource { controller_name: \"titan.test/gateway\"",
    ),
    ("kubernetes_source", "controller_name", "sources: { s: { kubernetes: { controller_name: a.b/c } } }", "controller_name: \"a.b/c\""),
    ("kubernetes_source", "namespaces", "sources: { s: { kubernetes: { namespaces: [a, b-c] } } }", "namespaces: [\"a\", \"b-c\"]"),
    ("kubernetes_source", "addresses", "sources: { s: { kubernetes: { addresses: [a.b, '::1'] } } }", "addresses: [\"a.b\", \"::1\"]"),
    (
        "kubernetes_source", "network",
        "sources: { s: { kubernetes: { network: 127.64.0.0/16 } } }",
        "network: Some(Cidr { address: 127.64.0.0, bits: 16 })",
    ),
    ("kubernetes_source", "kubeconfig", "sources: { s: { kubernetes: { kubeconfig: k.yaml } } }", "kubeconfig: Some(\"k.yaml\")"),
    ("http_source", "url", "sources: { s: { http: { url: 'http://[::1]:81/b' } } }", "endpoints: [Endpoint { address: Ip([::1]:81)"),
    ("http_source", "interval", "sources: { s: { http: { url: 'https://a/b', interval: 7s } } }", "interval: 7s"),
    ("http_source", "timeout", "sources: { s: { http: { url: 'https://a/b', timeout: 7s } } }", "timeout: 7s"),
    (
        "http_source", "headers", "sources: { s: { http: { url: 'https://a/b', headers: { X-Team: k } } } }",
        "headers: [(HeaderName(\"X-Team\"), HeaderValue(\"k\"))]",
    ),
    (
        "http_source", "tls", "sources: { s: { http: { url: 'https://a/b', tls: { ca: ca.pem } } } }",
        "tls: Some(UpstreamTls { ca: Some(\"ca.pem\")",
    ),
    (
        "http_source", "public_key",
        "sources: { s: { http: { url: 'https://a/b', public_key: RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3 } } }",
        "public_key: Some(PublicKey(RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3))",
    ),
    ("http_source", "max_size", "sources: { s: { http: { url: 'https://a/b', max_size: 7KiB } } }", "max_size: ByteSize(7168)"),
    ("source", "etcd", "sources: { s: { etcd: 'https://a:2379' } }", "kind: Etcd(EtcdSource {"),
    (
        "etcd_source", "endpoints", "sources: { s: { etcd: { endpoints: ['http://[::1]:81', 'http://127.0.0.1:82'] } } }",
        "address: Ip(127.0.0.1:82)",
    ),
    ("etcd_source", "prefix", "sources: { s: { etcd: { endpoints: 'https://a', prefix: /x/ } } }", "prefix: \"/x/\""),
    (
        "etcd_source", "username", "sources: { s: { etcd: { endpoints: 'https://a', username: titan, password: p } } }",
        "user: Some((\"titan\", Secret))",
    ),
    (
        "etcd_source", "password", "sources: { s: { etcd: { endpoints: 'https://a', username: titan, password: p } } }",
        "user: Some((\"titan\", Secret))",
    ),
    (
        "etcd_source", "tls", "sources: { s: { etcd: { endpoints: 'https://a', tls: { ca: ca.pem } } } }",
        "tls: Some(UpstreamTls { ca: Some(\"ca.pem\")",
    ),
    ("etcd_source", "interval", "sources: { s: { etcd: { endpoints: 'https://a', interval: 7s } } }", "interval: 7s"),
    ("etcd_source", "timeout", "sources: { s: { etcd: { endpoints: 'https://a', timeout: 7s } } }", "timeout: 7s"),
    ("source", "consul", "sources: { s: { consul: { endpoints: 'https://a', prefix: x/ } } }", "kind: Consul(ConsulSource {"),
    (
        "consul_source", "endpoints", "sources: { s: { consul: { endpoints: 'http://127.0.0.1:82', prefix: x/ } } }",
        "address: Ip(127.0.0.1:82)",
    ),
    ("consul_source", "prefix", "sources: { s: { consul: { endpoints: 'https://a', prefix: x/ } } }", "prefix: Some(\"x/\")"),
    (
        "consul_source", "services", "sources: { s: { consul: { endpoints: 'https://a', services: [a, b] } } }",
        "services: [ConsulService { name: ServiceName(\"a\"), tags: [], datacenter: None, feed: ServiceName(\"a\") }, ConsulService",
    ),
    ("consul_source", "token", "sources: { s: { consul: { endpoints: 'https://a', prefix: x/, token: t } } }", "token: Some(Secret)"),
    ("consul_source", "interval", "sources: { s: { consul: { endpoints: 'https://a', prefix: x/, interval: 7s } } }", "interval: 7s"),
    ("consul_source", "timeout", "sources: { s: { consul: { endpoints: 'https://a', prefix: x/, timeout: 7s } } }", "timeout: 7s"),
    (
        "consul_source", "tls", "sources: { s: { consul: { endpoints: 'https://a', prefix: x/, tls: { ca: ca.pem } } } }",
        "tls: Some(UpstreamTls { ca: Some(\"ca.pem\")",
    ),
    ("source", "docker", "sources: { s: { docker: {} } }", "kind: Docker(DockerSource {"),
    ("docker_source", "endpoint", "sources: { s: { docker: 'unix:///a.sock' } }", "endpoints: [Endpoint { address: Unix(\"/a.sock\")"),
    ("docker_source", "network", "sources: { s: { docker: { network: web } } }", "network: Some(\"web\")"),
    (
        "docker_source", "tls", "sources: { s: { docker: { endpoint: 'https://a:2376', tls: { ca: ca.pem } } } }",
        "tls: Some(UpstreamTls { ca: Some(\"ca.pem\")",
    ),
    ("docker_source", "interval", "sources: { s: { docker: { interval: 7s } } }", "interval: 7s"),
    ("docker_source", "timeout", "sources: { s: { docker: { timeout: 7s } } }", "timeout: 7s"),
    (
        "consul_service", "name", "sources: { s: { consul: { endpoints: 'https://a', services: { name: a } } } }",
        "name: ServiceName(\"a\")",
    ),
    (
        "consul_service", "tags", "sources: { s: { consul: { endpoints: 'https://a', services: { name: a, tags: [b, c] } } } }",
        "tags: [\"b\", \"c\"]",
    ),
    (
        "consul_service", "datacenter", "sources: { s: { consul: { endpoints: 'https://a', services: { name: a, datacenter: b } } } }",
        "datacenter: Some(\"b\")",
    ),
    (
        "consul_service", "feed", "sources: { s: { consul: { endpoints: 'https://a', services: { name: a, feed: b } } } }",
        "feed: ServiceName(\"b\")",
    ),
];
