//! Where exchanges are logged, and which.

use super::Row;

#[rustfmt::skip]
pub(super) const ROWS: &[Row] = &[
    ("file", "access_log", "access_log: stdout", "access_log: [AccessLog { to: Lines(Stdout), format: Json"),
    ("access_log", "stdout", "access_log: { stdout: {} }", "AccessLog { to: Lines(Stdout)"),
    ("access_log", "file", "access_log: [{ file: a.log }]", "to: Lines(File { path: \"a.log\", rotate: None })"),
    (
        "access_log",
        "syslog",
        "access_log: { syslog: 'udp://127.0.0.1:514' }",
        "to: Lines(Syslog { address: Udp(SyslogServer { host: \"127.0.0.1\", port: 514 }), facility: Facility(16), tag: \"titan\" }",
    ),
    ("access_log", "format", "access_log: { stdout: {}, format: combined }", "format: Combined"),
    (
        "access_log",
        "request_headers",
        "access_log: { stdout: {}, request_headers: [X-A, x-a, X-B] }",
        "request_headers: [HeaderName(\"X-A\"), HeaderName(\"X-B\")], response_headers: []",
    ),
    (
        "access_log",
        "response_headers",
        "access_log: { stdout: {}, response_headers: X-A }",
        "response_headers: [HeaderName(\"X-A\")]",
    ),
    (
        "access_log",
        "claims",
        "access_log: { stdout: {}, claims: [sub, /a/b] }\n\
         policies: { j: { jwt: { providers: { issuer: a, audience: b, algorithms: [HS256], \
         keys: { secret: 01234567890123456789012345678901 } } } } }\napply: j",
        "claims: [Claim([\"sub\"]), Claim([\"a\", \"b\"])] }, only",
    ),
    (
        "access_log",
        "only",
        "access_log: { stdout: {}, only: { statuses: 404 } }",
        "only: LogOnly { routes: [], statuses: Statuses(404), slower_than: None }",
    ),
    ("access_log", "share", "access_log: { stdout: {}, share: 0.5% }", "share: Percent(50)"),
    ("access_log", "always", "access_log: { stdout: {}, always: { failures: true } }", "always: LogAlways { failures: true"),
    ("log_file", "path", "access_log: { file: { path: /var/log/a.log } }", "File { path: \"/var/log/a.log\""),
    (
        "log_file",
        "rotate",
        "access_log: { file: { path: a, rotate: { size: 1MiB } } }",
        "rotate: Some(Rotation { size: Some(ByteSize(1048576)), age: None, keep: 7 })",
    ),
    ("log_rotation", "size", "access_log: { file: { path: a, rotate: { size: 1GB } } }", "size: Some(ByteSize(1000000000))"),
    ("log_rotation", "age", "access_log: { file: { path: a, rotate: { age: 24h } } }", "age: Some(86400s)"),
    ("log_rotation", "keep", "access_log: { file: { path: a, rotate: { age: 1d, keep: 3 } } }", "keep: 3"),
    (
        "syslog",
        "address",
        "access_log: [{ syslog: { address: 'tcp://Logs.example:601' } }, { syslog: unix:///dev/log }]",
        "address: Tcp(SyslogServer { host: \"logs.example\", port: 601 })",
    ),
    ("syslog", "facility", "access_log: { syslog: { address: 'udp://a:1', facility: daemon } }", "facility: Facility(3)"),
    ("syslog", "tag", "access_log: { syslog: { address: 'udp://a:1', tag: edge } }", "tag: \"edge\""),
    (
        "log_only",
        "routes",
        "routes: [{ name: r, respond: 204 }]\naccess_log: { stdout: {}, only: { routes: r } }",
        "LogOnly { routes: [Name(\"r\")]",
    ),
    ("log_only", "statuses", "access_log: { stdout: {}, only: { statuses: [5xx, 404] } }", "statuses: Statuses(404, 5xx)"),
    ("log_only", "slower_than", "access_log: { stdout: {}, only: { slower_than: 500ms } }", "slower_than: Some(500ms)"),
    ("log_always", "failures", "access_log: { stdout: {}, always: { failures: true } }", "failures: true"),
    (
        "log_always",
        "statuses",
        "access_log: { stdout: {}, always: { statuses: 5xx } }",
        "failures: false, statuses: Statuses(5xx)",
    ),
    ("log_always", "slower_than", "access_log: { stdout: {}, always: { slower_than: 7s } }", "slower_than: Some(7s)"),
    ("file", "otlp", "otlp: { c: 'http://a:4317' }", "otlp: [Collector { name: Name(\"c\")"),
    ("access_log", "otlp", "otlp: { c: 'http://a:4317' }\naccess_log: { otlp: c }", "to: Otlp(Name(\"c\"))"),
    ("collector", "endpoint", "otlp: { c: { endpoint: 'http://[::1]:4317' } }", "endpoints: [Endpoint { address: Ip([::1]:4317)"),
    (
        "collector",
        "protocol",
        "otlp: { c: { endpoint: 'http://a:4318/', protocol: http } }",
        "target: \"\" }, protocol: Http",
    ),
    (
        "collector",
        "headers",
        "otlp: { c: { endpoint: 'https://a', headers: { X-Key: k } } }",
        "headers: [(HeaderName(\"X-Key\"), HeaderValue(\"k\"))]",
    ),
    (
        "collector",
        "tls",
        "otlp: { c: { endpoint: 'https://a', tls: { ca: ca.pem } } }",
        "tls: Some(UpstreamTls { ca: Some(\"ca.pem\")",
    ),
    ("collector", "compression", "otlp: { c: { endpoint: 'https://a', compression: none } }", "compression: None"),
    ("collector", "timeout", "otlp: { c: { endpoint: 'https://a', timeout: 7s } }", "timeout: 7s"),
    ("collector", "service", "otlp: { c: { endpoint: 'https://a', service: edge } }", "service: \"edge\""),
    (
        "collector",
        "resource",
        "otlp: { c: { endpoint: 'https://a', resource: { k8s.pod.name: p } } }",
        "resource: [(AttributeName(\"k8s.pod.name\"), \"p\")]",
    ),
];
