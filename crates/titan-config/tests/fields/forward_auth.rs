//! The fields of questions to other services.

use super::Row;

pub(super) const ROWS: &[Row] = &[
    (
        "authorise",
        "forward_auth",
        "policies: { p: { authorise: { forward_auth: { upstream: auth } } } }\nupstreams: { auth: a:1 }",
        "forward_auth: Some(ForwardAuth {",
    ),
    (
        "forward_auth",
        "upstream",
        "policies: { p: { authorise: { forward_auth: { upstream: auth } } } }\nupstreams: { auth: a:1 }",
        "forward_auth: Some(ForwardAuth { upstream: UpstreamId(",
    ),
    (
        "forward_auth",
        "path",
        "policies: { p: { authorise: { forward_auth: { upstream: auth, path: '/v?a' } } } }\nupstreams: { auth: a:1 }",
        "path: \"/v?a\"",
    ),
    (
        "forward_auth",
        "method",
        "policies: { p: { authorise: { forward_auth: { upstream: auth, method: HEAD } } } }\nupstreams: { auth: a:1 }",
        "method: HEAD",
    ),
    (
        "forward_auth",
        "request_headers",
        "policies: { p: { authorise: { forward_auth: { upstream: auth, request_headers: X-A } } } }\nupstreams: { auth: a:1 }",
        "request_headers: [HeaderName(\"X-A\")]",
    ),
    (
        "forward_auth",
        "upstream_headers",
        "policies: { p: { authorise: { forward_auth: { upstream: auth, upstream_headers: [X-A, X-B] } } } }\nupstreams: { auth: a:1 }",
        "upstream_headers: [HeaderName(\"X-A\"), HeaderName(\"X-B\")]",
    ),
    (
        "forward_auth",
        "response_headers",
        "policies: { p: { authorise: { forward_auth: { upstream: auth, response_headers: [] } } } }\nupstreams: { auth: a:1 }",
        "response_headers: []",
    ),
    (
        "forward_auth",
        "timeout",
        "policies: { p: { authorise: { forward_auth: { upstream: auth, timeout: 7s } } } }\nupstreams: { auth: a:1 }",
        "timeout: 7s",
    ),
    (
        "forward_auth",
        "body_limit",
        "policies: { p: { authorise: { forward_auth: { upstream: auth, body_limit: 7 } } } }\nupstreams: { auth: a:1 }",
        "body_limit: ByteSize(7)",
    ),
    (
        "forward_auth",
        "cache",
        "policies: { p: { authorise: { forward_auth: { upstream: auth, cache: { ttl: 7s } } } } }\nupstreams: { auth: a:1 }",
        "cache: Some(AuthCache {",
    ),
    (
        "auth_cache",
        "ttl",
        "policies: { p: { authorise: { forward_auth: { upstream: auth, cache: { ttl: 7s } } } } }\nupstreams: { auth: a:1 }",
        "ttl: 7s, key: None",
    ),
    (
        "auth_cache",
        "key",
        "policies: { p: { authorise: { forward_auth: { upstream: auth, \
         request_headers: Cookie, cache: { ttl: 7s, key: [method, { header: Cookie }] } } } } }\n\
         upstreams: { auth: a:1 }",
        "key: Some([Method, Header(HeaderName(\"Cookie\"))])",
    ),
    (
        "auth_cache",
        "capacity",
        "policies: { p: { authorise: { forward_auth: { upstream: auth, cache: { ttl: 7s, capacity: 9 } } } } }\nupstreams: { auth: a:1 }",
        "capacity: 9",
    ),
    (
        "auth_key",
        "header",
        "policies: { p: { authorise: { forward_auth: { upstream: auth, \
         request_headers: Cookie, cache: { ttl: 7s, key: { header: Cookie } } } } } }\n\
         upstreams: { auth: a:1 }",
        "key: Some([Header(HeaderName(\"Cookie\"))])",
    ),
];
