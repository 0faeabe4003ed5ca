//! The fields of mirrors.

use super::Row;

pub(super) const ROWS: &[Row] = &[
    (
        "route",
        "mirror",
        "upstreams: { a: a:1, b: b:1 }\nroutes: [{ upstream: a, mirror: b }]",
        "mirrors: [Mirror { upstream: UpstreamId(1), share: Percent(10000), body: ByteSize(65536), concurrent: 100, timeout: 10s",
    ),
    (
        "mirror",
        "upstream",
        "upstreams: { a: a:1, b: b:1 }\nroutes: [{ upstream: b, mirror: { upstream: a } }]",
        "mirrors: [Mirror { upstream: UpstreamId(0)",
    ),
    (
        "mirror",
        "share",
        "upstreams: { a: a:1, b: b:1 }\nroutes: [{ upstream: a, mirror: { upstream: b, share: 0.5% } }]",
        "share: Percent(50)",
    ),
    (
        "mirror",
        "body",
        "upstreams: { a: a:1, b: b:1 }\nroutes: [{ upstream: a, mirror: { upstream: b, body: 1KB } }]",
        "body: ByteSize(1000), concurrent",
    ),
    (
        "mirror",
        "concurrent",
        "upstreams: { a: a:1, b: b:1 }\nroutes: [{ upstream: a, mirror: { upstream: b, concurrent: 7 } }]",
        "concurrent: 7",
    ),
    (
        "mirror",
        "timeout",
        "upstreams: { a: a:1, b: b:1 }\nroutes: [{ upstream: a, mirror: { upstream: b, timeout: 7s } }]",
        "concurrent: 100, timeout: 7s",
    ),
    (
        "comparison",
        "headers",
        "upstreams: { a: a:1, b: b:1 }\nroutes: [{ upstream: a, mirror: { upstream: b, compare: { headers: [ETag, etag] } } }]",
        "headers: [HeaderName(\"ETag\")], body",
    ),
    (
        "comparison",
        "body",
        "upstreams: { a: a:1, b: b:1 }\nroutes: [{ upstream: a, mirror: { upstream: b, compare: { body: off } } }]",
        "body: None, ignore",
    ),
    (
        "comparison",
        "ignore",
        "upstreams: { a: a:1, b: b:1 }\nroutes: [{ upstream: a, mirror: { upstream: b, compare: { ignore: ['/a/*/b~1c'] } } }]",
        "ignore: [MemberPattern([Some(\"a\"), None, Some(\"b/c\")])]",
    ),
    (
        "comparison",
        "show",
        "upstreams: { a: a:1, b: b:1 }\nroutes: [{ upstream: a, mirror: { upstream: b, compare: { show: ['/*'] } } }]",
        "show: [MemberPattern([None])]",
    ),
    (
        "comparison",
        "samples",
        "upstreams: { a: a:1, b: b:1 }\nroutes: [{ upstream: a, mirror: { upstream: b, compare: { samples: 7 } } }]",
        "samples: 7",
    ),
    (
        "mirror",
        "compare",
        "upstreams: { a: a:1, b: b:1 }\nroutes: [{ upstream: a, mirror: { upstream: b, compare: {} } }]",
        "compare: Some(Comparison { headers: [HeaderName(\"Content-Type\")], body: Some(ByteSize(65536)), \
         ignore: [], show: [], samples: 20",
    ),
];
