//! The fields of routes that answer with files.

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
        "types",
        "routes: [{ files: { root: w, types: { mjs: a/b, \"\": c/d } } }]",
        "types: [(\"mjs\", HeaderValue(\"a/b\")), (\"\", HeaderValue(\"c/d\"))]",
    ),
];
