//! Stores that gateways count together in.

use super::Row;

pub(super) const ROWS: &[Row] = &[
    (
        "file",
        "stores",
        "stores: { s: { address: \"redis://h\", hash_key: 0123456789abcdef } }",
        "stores: [Store { name: Name(\"s\")",
    ),
    (
        "store",
        "address",
        "stores: { s: { address: \"redis://h:7\", hash_key: 0123456789abcdef } }",
        "addresses: [Dns { host: \"h\", port: 7 }]",
    ),
    (
        "store",
        "cluster",
        "stores: { s: { address: \"redis://10.0.0.1:6379\", cluster: true, hash_key: 0123456789abcdef } }",
        "is_cluster: true",
    ),
    (
        "store",
        "sentinel",
        "stores: { s: { address: [\"redis://10.0.0.1:26379\", \"redis://b:26379\"], sentinel: m, hash_key: 0123456789abcdef } }",
        "sentinel: Some(SentinelName(\"m\"))",
    ),
    (
        "store",
        "hash_key",
        "stores: { s: { address: \"redis://h\", hash_key: 0123456789abcdef } }",
        "hash_key: Secret",
    ),
    (
        "store",
        "username",
        "stores: { s: { address: \"redis://h\", hash_key: 0123456789abcdef, username: titan } }",
        "username: Some(\"titan\")",
    ),
    (
        "store",
        "password",
        "stores: { s: { address: \"redis://h\", hash_key: 0123456789abcdef, password: abc } }",
        "password: Some(Secret)",
    ),
    (
        "store",
        "database",
        "stores: { s: { address: \"redis://h\", hash_key: 0123456789abcdef, database: 7 } }",
        "database: 7",
    ),
    (
        "store",
        "tls",
        "stores: { s: { address: \"rediss://h\", hash_key: 0123456789abcdef, tls: { ca: ca.pem } } }",
        "tls: Some(UpstreamTls { ca: Some(\"ca.pem\")",
    ),
    (
        "store",
        "timeout",
        "stores: { s: { address: \"redis://h\", hash_key: 0123456789abcdef, timeout: 7ms } }",
        "timeout: 7ms",
    ),
];
