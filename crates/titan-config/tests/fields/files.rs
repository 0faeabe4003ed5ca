//! The fields of routes that response with files.

use super::Row;

pub(super) const ROWS: &[Row] = &[
    ("route", "files", "routes: [{ files: www }]", "action: Files(StaticFiles { root: \"www\""),
    ("files", "root", "routes: [{ files: { root: /srv/www } }]", "root: \"/srv/www\""),
    (
        "files",
        "index",
        "routes: [{ files: { root: w, index: [a.html, .b] } }]",
        "index: [\"a.html\", \".b\"]",
    ),
    (
        "files",
        "strip_prefix",
        "routes: [{ prefix: /w, files: { root: w, strip_prefix: false } }]",
        "strip_prefix: false",
    ),
    (
        "files",
        "precompressed",
        "routes: [{ files: { root: w, precompressed: [br, gzip] } }]",
        "precompressed: [Brotli, Gzip]",
    ),
    ("files", "dotfiles", "routes: [{ files: { root: w, dotfiles: true } }]", "dotfiles: true"),
    (
        "files",
        "cache_control",
        "routes: [{ files: { root: w, cache_control: no-cache } }]",
        "cache_control: Some(HeaderValue(\"no-cache\"))",
    ),
    (
        "files",
        "cache_rules",
        "routes: [{ files: { root: w, cache_rules: { name: a, cache_control: b } } }]",
        "cache_rules: [CacheRule {",
    ),
    (
        "cache_rule",
        "name",
        "routes: [{ files: { root: w, cache_rules: { name: ^a, cache_control: b } } }]",
        "name: Some(Pattern(Regex(\"^a\")))",
    ),
    (
        "cache_rule",
        "types",
        "routes: [{ files: { root: w, cache_rules: { types: text/html, cache_control: b } } }]",
        "types: Some([MediaRange { before: \"text/html\"",
    ),
    (
        "cache_rule",
        "cache_control",
        "routes: [{ files: { root: w, cache_rules: { name: a, cache_control: no-cache } } }]",
        "value: HeaderValue(\"no-cache\") }]",
    ),
    (
        "files",
        "fallback",
        "routes: [{ files: { root: w, fallback: app/index.html } }]",
        "fallback: Some(\"app/index.html\")",
    ),
    (
        "files",
        "error_pages",
        "routes: [{ files: { root: w, error_pages: { 404: errors/404.html } } }]",
        "error_pages: [(Status(404), \"errors/404.html\")]",
    ),
    (
        "files",
        "types",
        "routes: [{ files: { root: w, types: { mjs: a/b, \"\": c/d } } }]",
        "types: [(\"mjs\", HeaderValue(\"a/b\")), (\"\", HeaderValue(\"c/d\"))]",
    ),
];
