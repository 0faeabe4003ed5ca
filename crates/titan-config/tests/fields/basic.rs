//! The fields of names and passwords.

use super::Row;

pub(super) const ROWS: &[Row] = &[
    (
        "authorise",
        "basic",
        "policies: { p: { authorise: { basic: { file: users } } } }",
        "basic: Some(Basic {",
    ),
    (
        "basic",
        "users",
        "policies: { p: { authorise: { basic: { users: { eve: '$2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW' } } } } }",
        "users: [User { name: \"eve\", hash: Bcrypt(4) }]",
    ),
    (
        "basic",
        "file",
        "policies: { p: { authorise: { basic: { file: users } } } }",
        "file: Some(\"users\")",
    ),
    (
        "basic",
        "realm",
        "policies: { p: { authorise: { basic: { file: f, realm: staff } } } }",
        "realm: HeaderValue(\"staff\")",
    ),
    (
        "basic",
        "identity_header",
        "policies: { p: { authorise: { basic: { file: f, identity_header: X-U } } } }",
        "identity_header: Some(HeaderName(\"X-U\"))",
    ),
    (
        "basic",
        "forward",
        "policies: { p: { authorise: { basic: { file: f, forward: true } } } }",
        "forward: true",
    ),
];
