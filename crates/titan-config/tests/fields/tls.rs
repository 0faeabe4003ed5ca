//! The fields about TLS.

use crate::Row;

/// A listener with that about TLS beside its certificate.
macro_rules! tls {
    ($setting:literal) => {
        concat!(
            "listeners: [{ address: \":1\", tls: { certificates: [{ cert: a.pem, key: a.key }], ",
            $setting,
            " } }]"
        )
    };
}

/// A listener of HTTP/3 with that.
macro_rules! h3 {
    ($setting:literal) => {
        concat!(
            "listeners: [{ address: \":1\", tls: { certificates: [{ cert: a.pem, key: a.key }] }, protocols: [h3, h1], ",
            $setting,
            " }]"
        )
    };
}

/// A listener with a TLS route.
macro_rules! passing {
    ($route:literal) => {
        concat!(
            "listeners: [{ address: \":1\", tls: { certificates: [{ cert: a.pem, key: a.key }] }, tls_routes: { ",
            $route,
            " } }]\nupstreams: { u: \"u:1\", v: \"v:1\" }"
        )
    };
}

/// A listener that asks clients for certificates, and what follows.
macro_rules! asking {
    ($rest:literal) => {
        concat!(tls!("client_certificates: { ca: b.pem }"), "\n", $rest)
    };
}

/// A route with that condition on the client's certificate.
macro_rules! condition {
    ($condition:literal) => {
        concat!(
            tls!("client_certificates: { ca: b.pem }"),
            "\nroutes: [{ client_certificate: { ",
            $condition,
            " }, respond: 204 }]"
        )
    };
}

/// An upstream with that about TLS.
macro_rules! upstream {
    ($tls:literal) => {
        concat!("upstreams: { b: { endpoints: [\"b:1\"], tls: ", $tls, " } }")
    };
}

pub(crate) const ROWS: &[Row] = &[
    (
        "upstream",
        "tls",
        upstream!("on"),
        "tls: Some(UpstreamTls { ca: None, name: None, alt_names: [], certificate: None, verify: true })",
    ),
    ("upstream_tls", "ca", upstream!("{ ca: a.pem }"), "ca: Some(\"a.pem\")"),
    (
        "upstream_tls",
        "name",
        upstream!("{ name: A.example }"),
        "name: Some(ServerName(\"a.example\"))",
    ),
    (
        "upstream_tls",
        "alt_names",
        upstream!("{ alt_names: [A.example, 'spiffe://a.b/C'] }"),
        "alt_names: [Server(ServerName(\"a.example\")), Uri(\"spiffe://a.b/C\")]",
    ),
    (
        "upstream_tls",
        "certificate",
        upstream!("{ certificate: { cert: a.pem, key: a.key } }"),
        "certificate: Some(Certificate { cert: \"a.pem\", key: \"a.key\", hosts: None })",
    ),
    ("upstream_tls", "verify", upstream!("{ verify: false }"), "verify: false"),
    (
        "listener",
        "tls",
        "listeners: [{ address: \":1\", tls: { certificates: [{ cert: a.pem, key: a.key }] } }]",
        "tls: Some(",
    ),
    (
        "tls",
        "certificates",
        "listeners: [{ address: \":1\", tls: { certificates: [{ cert: a.pem, key: a.key }] } }]",
        "certificates: [Certificate {",
    ),
    (
        "certificate",
        "cert",
        "listeners: [{ address: \":1\", tls: { certificates: [{ cert: a.pem, key: a.key }] } }]",
        "cert: \"a.pem\"",
    ),
    (
        "certificate",
        "key",
        "listeners: [{ address: \":1\", tls: { certificates: [{ cert: a.pem, key: a.key }] } }]",
        "key: \"a.key\"",
    ),
    (
        "certificate",
        "hosts",
        "listeners: [{ address: \":1\", tls: { certificates: [{ cert: a.pem, key: a.key, hosts: [A.io, '*.b.io'] }] } }]",
        "hosts: Some([Exact(\"a.io\"), Under(\".b.io\")])",
    ),
    ("tls", "unknown_name", tls!("unknown_name: refuse"), "unknown_name: Refuse"),
    ("tls", "min_version", tls!("min_version: 1.3"), "min_version: Tls13"),
    (
        "tls",
        "ciphers",
        tls!("ciphers: [TLS_AES_128_GCM_SHA256], min_version: 1.3"),
        "ciphers: Some([Cipher { name: \"TLS_AES_128_GCM_SHA256\", version: Tls13 }])",
    ),
    (
        "tls",
        "hsts",
        tls!("hsts: 7d"),
        "hsts: Some(Hsts { max_age: 604800s, include_subdomains: false, preload: false })",
    ),
    ("hsts", "max_age", tls!("hsts: { max_age: 0s }"), "Hsts { max_age: 0ns"),
    (
        "hsts",
        "include_subdomains",
        tls!("hsts: { max_age: 7d, include_subdomains: true }"),
        "include_subdomains: true",
    ),
    (
        "hsts",
        "preload",
        tls!("hsts: { max_age: 365d, include_subdomains: true, preload: true }"),
        "preload: true",
    ),
    ("listener", "alt_svc", h3!("alt_svc: false"), "h3: true }, alt_svc: None"),
    ("listener", "retry_above", h3!("retry_above: 0"), "retry_above: 0,"),
    ("listener", "early_data", h3!("early_data: true"), "early_data: true"),
    (
        "alt_svc",
        "max_age",
        h3!("alt_svc: { max_age: 10m }"),
        "alt_svc: Some(AltSvc { max_age: 600s, port: None })",
    ),
    (
        "alt_svc",
        "port",
        h3!("alt_svc: { port: 443 }"),
        "alt_svc: Some(AltSvc { max_age: 86400s, port: Some(443) })",
    ),
    (
        "listener",
        "redirect_to_https",
        "listeners: [{ address: \":1\", redirect_to_https: true }, { address: \":2\", redirect_to_https: 8443 }]",
        "redirect_to_https: Some(8443)",
    ),
    (
        "listener",
        "tls_routes",
        passing!("names: a.b, mode: passthrough, upstream: u"),
        "tls_routes: [TlsRoute { names: [Exact(\"a.b\")], mode: Passthrough, shares: [Share { ",
    ),
    (
        "listener",
        "tcp",
        "listeners: [{ address: \":1\", tcp: { u: 3, v: 1 } }]\nupstreams: { u: \"u:1\", v: \"v:1\" }",
        "tls_routes: [TlsRoute { names: [], mode: Tcp, shares: [Share { upstream: UpstreamId(0), weight: 3 }",
    ),
    (
        "tls_route",
        "names",
        passing!("names: [A.b, '*.c'], mode: passthrough, upstream: u"),
        "names: [Exact(\"a.b\"), Under(\".c\")]",
    ),
    ("tls_route", "mode", passing!("mode: terminate, upstream: u"), "mode: Terminate"),
    ("tls_route", "mode", passing!("mode: passthrough, upstream: u"), "mode: Passthrough"),
    (
        "tls_route",
        "upstream",
        passing!("mode: passthrough, upstream: { u: 3, v: 1 }"),
        "weight: 3 }, Share { upstream: UpstreamId(1), weight: 1 }",
    ),
    (
        "tls",
        "client_certificates",
        tls!("client_certificates: { ca: b.pem }"),
        "client_certificates: Some(ClientCertificates { mode: Required, ca: \"b.pem\", crl: [] })",
    ),
    (
        "client_certificates",
        "mode",
        tls!("client_certificates: { ca: b.pem, mode: optional }"),
        "mode: Optional",
    ),
    (
        "client_certificates",
        "mode",
        tls!("client_certificates: { ca: b.pem, mode: ignore_invalid }"),
        "mode: IgnoreInvalid",
    ),
    ("client_certificates", "ca", tls!("client_certificates: { ca: b.pem }"), "ca: \"b.pem\""),
    (
        "client_certificates",
        "crl",
        tls!("client_certificates: { ca: b.pem, crl: c.pem }"),
        "crl: [\"c.pem\"]",
    ),
    (
        "route",
        "client_certificate",
        asking!("routes: [{ client_certificate: absent, respond: 204 }]"),
        "certificate: [CertificateMatch { part: Any, value: Absent }]",
    ),
    (
        "certificate_condition",
        "subject",
        condition!("subject: { prefix: CN=a }"),
        "part: Any, value: Present }, CertificateMatch { part: Subject, value: Prefix(\"CN=a\") }",
    ),
    (
        "certificate_condition",
        "dns",
        condition!("dns: A.example"),
        "part: Dns, value: Exact(\"a.example\")",
    ),
    (
        "certificate_condition",
        "uri",
        condition!("uri: { present: false }"),
        "part: Uri, value: Absent",
    ),
    (
        "certificate_condition",
        "email",
        condition!("email: A@b"),
        "part: Email, value: Exact(\"A@b\")",
    ),
    (
        "certificate_condition",
        "ip",
        condition!("ip: \"2001:DB8::0:1\""),
        "part: Ip, value: Exact(\"2001:db8::1\")",
    ),
    (
        "certificate_condition",
        "fingerprint",
        condition!("fingerprint: ABABABABABABABABABABABABABABABABABABABABABABABABABABABABABABABAB"),
        "part: Fingerprint, value: Exact(\"abababababababababababababababababababababababababababababababab\")",
    ),
    (
        "forwarding",
        "client_cert",
        asking!("forwarding: { client_cert: chain }"),
        "client_cert: Chain",
    ),
];
