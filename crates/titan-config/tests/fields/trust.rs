//! The fields that say what is believed, and what is taken for something else.

use super::Row;

pub(super) const ROWS: &[Row] = &[
    (
        "route",
        "head",
        "routes: [{ methods: GET, head: false, respond: 204 }]",
        "methods: [GET], head: false",
    ),
    ("file", "pressure", "pressure: off", "pressure: None"),
    (
        "route",
        "listeners",
        "listeners: [{ name: a, address: ':1' }, ':2', ':3']\nroutes: [{ listeners: [a, ':3'], respond: 204 }]",
        "listeners: ListenerSet(5)",
    ),
    (
        "file",
        "error_pages",
        "error_pages: { 404: gone }",
        "error_pages: ErrorPages([(Status(Status(404)), ErrorPage {",
    ),
    (
        "route",
        "error_pages",
        "routes: [{ respond: 204, error_pages: { 5xx: sorry } }]",
        "error_pages: ErrorPages([(Class(5), ErrorPage {",
    ),
    ("error_page", "body", "error_pages: { 404: { body: gone } }", "body: \"gone\""),
    (
        "error_page",
        "content_type",
        "error_pages: { 404: { body: gone, content_type: text/plain } }",
        "content_type: HeaderValue(\"text/plain\")",
    ),
    ("file", "paths", "paths: { case: keep }", "case: Some(Keep)"),
    (
        "paths",
        "encoded_slashes",
        "paths: { encoded_slashes: refuse }",
        "encoded_slashes: Some(Refuse)",
    ),
    ("paths", "parameters", "paths: { parameters: refuse }", "parameters: Some(Refuse)"),
    ("paths", "case", "paths: { case: refuse }", "case: Some(Refuse)"),
    (
        "route",
        "paths",
        "paths: { case: refuse, parameters: refuse }\nroutes: [{ respond: 204, paths: { case: keep } }]",
        "parameters: Some(Refuse), case: Some(Keep)",
    ),
    ("forwarding", "x_real_ip", "forwarding: { x_real_ip: true }", "x_real_ip: true"),
    (
        "forwarding",
        "trusted_field",
        "forwarding: { trusted_field: forwarded }",
        "trusted_field: Forwarded",
    ),
    (
        "api_keys",
        "query",
        "policies: { p: { authorise: { api_keys: { query: k, \
         keys: { a: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa } } } } }",
        "query: Some(\"k\")",
    ),
    (
        "api_keys",
        "keys",
        "policies: { p: { authorise: { api_keys: { keys: { a: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa } } } } }",
        "keys: [ApiKey { name: Name(\"a\"), hash: KeyHash(aaaa..) }]",
    ),
    (
        "api_keys",
        "identity_header",
        "policies: { p: { authorise: { api_keys: { identity_header: X-C, \
         keys: { a: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa } } } } }",
        "identity_header: Some(HeaderName(\"X-C\"))",
    ),
];
