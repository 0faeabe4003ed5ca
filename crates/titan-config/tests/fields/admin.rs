//! The fields of the admin interface.

use super::Row;

pub(super) const ROWS: &[Row] = &[
    ("admin", "address", "admin: { address: \"unix:/run/a\" }", "address: Unix(\"/run/a\")"),
    ("admin", "dashboard", "admin: { dashboard: false }", "dashboard: false"),
    ("admin", "metrics_series", "admin: { metrics_series: 1000 }", "metrics_series: 1000"),
    ("admin", "probes", "admin: { probes: \":91\" }", "probes: Some(Any(91))"),
    ("admin", "socket", "admin: { socket: /run/t/a.sock }", "socket: At(\"/run/t/a.sock\")"),
    (
        "admin",
        "tls",
        "admin: { tls: { certificates: { cert: c, key: k } } }",
        "tls: Some(Tls { certificates: [Certificate { cert: \"c\", key: \"k\", hosts: None }]",
    ),
    (
        "admin",
        "trace_url",
        "admin: { trace_url: \"https://a/{trace_id}\" }",
        "trace_url: Some(\"https://a/{trace_id}\")",
    ),
    (
        "admin",
        "tokens",
        "admin: { tokens: { ci: a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1 } }",
        "AdminToken { name: Name(\"ci\")",
    ),
    (
        "admin_token",
        "sha256",
        "admin: { tokens: { ci: { sha256: a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1 } } }",
        "sha256: KeyHash(a1a1..), rights: Read",
    ),
    (
        "admin_token",
        "rights",
        "admin: { tokens: { ci: { sha256: a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1, rights: full } } }",
        "rights: Full",
    ),
];
