//! The fields of JWT policies.

use super::Row;

pub(super) const ROWS: &[Row] = &[
    (
        "file",
        "jwt_revocations",
        "jwt_revocations: r\n\
         policies: { p: { jwt: { providers: { algorithms: HS256, keys: { secret_file: k } } } } }",
        "jwt_revocations: Some(JwtRevocations {",
    ),
    (
        "jwt_revocations",
        "file",
        "jwt_revocations: { file: a/r }\n\
         policies: { p: { jwt: { providers: { algorithms: HS256, keys: { secret_file: k } } } } }",
        "file: \"a/r\"",
    ),
    (
        "jwt_revocations",
        "capacity",
        "jwt_revocations: { file: r, capacity: 7 }\n\
         policies: { p: { jwt: { providers: { algorithms: HS256, keys: { secret_file: k } } } } }",
        "capacity: 7",
    ),
    (
        "jwt_revocations",
        "store",
        "stores: { s: { address: \"redis://127.0.0.1:1\", hash_key: 0123456789abcdef } }\n\
         jwt_revocations: { file: r, store: s }\n\
         policies: { p: { jwt: { providers: { algorithms: HS256, keys: { secret_file: k } } } } }",
        "store: Some(Name(\"s\")),",
    ),
    (
        "jwt_revocations",
        "without_store",
        "stores: { s: { address: \"redis://127.0.0.1:1\", hash_key: 0123456789abcdef } }\n\
         jwt_revocations: { file: r, store: s, without_store: deny }\n\
         policies: { p: { jwt: { providers: { algorithms: HS256, keys: { secret_file: k } } } } }",
        "without_store: Deny",
    ),
    (
        "jwt_revocations",
        "stale_after",
        "stores: { s: { address: \"redis://127.0.0.1:1\", hash_key: 0123456789abcdef } }\n\
         jwt_revocations: { file: r, store: s, stale_after: 7s }\n\
         policies: { p: { jwt: { providers: { algorithms: HS256, keys: { secret_file: k } } } } }",
        "stale_after: 7s",
    ),
    (
        "policy",
        "jwt",
        "policies: { p: { jwt: { providers: { algorithms: HS256, keys: { secret_file: k } } } } }",
        "policy: Jwt(Jwt {",
    ),
    (
        "jwt",
        "providers",
        "policies: { p: { jwt: { providers: { algorithms: HS256, keys: { secret_file: k } } } } }",
        "providers: [JwtProvider {",
    ),
    (
        "jwt",
        "token",
        "policies: { p: { jwt: { providers: { algorithms: HS256, keys: { secret_file: k } }, token: [{ cookie: t }] } } }",
        "token: [Cookie(Token(\"t\"))]",
    ),
    (
        "jwt",
        "forward",
        "policies: { p: { jwt: { providers: { algorithms: HS256, keys: { secret_file: k } }, forward: true } } }",
        "forward: true",
    ),
    (
        "jwt",
        "headers",
        "policies: { p: { jwt: { providers: { algorithms: HS256, keys: { secret_file: k } }, headers: { X-A: /a/b~1c } } } }",
        "headers: [ClaimHeader { name: HeaderName(\"X-A\"), claim: Claim([\"a\", \"b/c\"]) }]",
    ),
    (
        "jwt",
        "require",
        "policies: { p: { jwt: { providers: { algorithms: HS256, keys: { secret_file: k } }, require: [sub, exp] } } }",
        "require: [Claim([\"sub\"]), Claim([\"exp\"])]",
    ),
    (
        "jwt",
        "required",
        "policies: { p: { jwt: { providers: { algorithms: HS256, keys: { secret_file: k } }, required: false } } }",
        "required: false",
    ),
    (
        "jwt",
        "leeway",
        "policies: { p: { jwt: { providers: { algorithms: HS256, keys: { secret_file: k } }, leeway: 7s } } }",
        "leeway: 7s",
    ),
    (
        "jwt",
        "max_age",
        "policies: { p: { jwt: { providers: { algorithms: HS256, keys: { secret_file: k } }, max_age: 7h } } }",
        "max_age: Some(25200s)",
    ),
    (
        "jwt",
        "types",
        "policies: { p: { jwt: { providers: { algorithms: HS256, keys: { secret_file: k } }, types: at+jwt } } }",
        "types: Some([HeaderValue(\"at+jwt\")])",
    ),
    (
        "jwt",
        "realm",
        "policies: { p: { jwt: { providers: { algorithms: HS256, keys: { secret_file: k } }, realm: the shop } } }",
        "realm: HeaderValue(\"the shop\")",
    ),
    (
        "jwt",
        "cache",
        "policies: { p: { jwt: { providers: { algorithms: HS256, keys: { secret_file: k } }, cache: 7 } } }",
        "cache: 7 }",
    ),
    (
        "jwt_provider",
        "issuer",
        "policies: { p: { jwt: { providers: { issuer: i, algorithms: HS256, keys: { secret_file: k } } } } }",
        "issuer: Some(\"i\")",
    ),
    (
        "jwt_provider",
        "audience",
        "policies: { p: { jwt: { providers: { audience: a, algorithms: HS256, keys: { secret_file: k } } } } }",
        "audience: [\"a\"]",
    ),
    (
        "jwt_provider",
        "algorithms",
        "policies: { p: { jwt: { providers: { algorithms: [RS256, ES512, ES256K, EdDSA, Ed25519], keys: { jwks: k } } } } }",
        "algorithms: [Rs256, Es512, Es256K, EdDsa, Ed25519]",
    ),
    (
        "jwt_provider",
        "keys",
        "policies: { p: { jwt: { providers: { algorithms: RS256, keys: { jwks: k } } } } }",
        "keys: Jwks(\"k\")",
    ),
    (
        "jwt_keys",
        "pem",
        "policies: { p: { jwt: { providers: { algorithms: RS256, keys: { pem: k } } } } }",
        "keys: Pem([\"k\"])",
    ),
    (
        "jwt_keys",
        "secret",
        "policies: { p: { jwt: { providers: { algorithms: HS256, keys: { secret: a secret of at least 32 bytes please } } } } }",
        "keys: Secret(Secret)",
    ),
    (
        "jwt_keys",
        "secret_file",
        "policies: { p: { jwt: { providers: { algorithms: HS256, keys: { secret_file: k } } } } }",
        "keys: SecretFile(\"k\")",
    ),
    (
        "jwt_keys",
        "jwks",
        "policies: { p: { jwt: { providers: { algorithms: RS256, keys: { jwks: k } } } } }",
        "keys: Jwks(\"k\")",
    ),
    (
        "jwt_token",
        "scheme",
        "policies: { p: { jwt: { providers: { algorithms: HS256, keys: { secret_file: k } }, token: { scheme: T } } } }",
        "token: [Scheme(Token(\"T\"))]",
    ),
    (
        "jwt_token",
        "cookie",
        "policies: { p: { jwt: { providers: { algorithms: HS256, keys: { secret_file: k } }, token: { cookie: T } } } }",
        "token: [Cookie(Token(\"T\"))]",
    ),
    (
        "jwt_token",
        "query",
        "policies: { p: { jwt: { providers: { algorithms: HS256, keys: { secret_file: k } }, token: { query: T } } } }",
        "token: [Query(\"T\")]",
    ),
    (
        "jwt_keys",
        "jwks_url",
        "policies: { p: { jwt: { providers: { algorithms: RS256, keys: { jwks_url: https://a/b } } } } }",
        "keys: Url(JwksUrl {",
    ),
    (
        "jwks_url",
        "url",
        "policies: { p: { jwt: { providers: { algorithms: RS256, keys: { jwks_url: \"https://[::1]:8443?x\" } } } } }",
        "is_https: true, host: \"::1\", port: 8443, authority: \"[::1]:8443\", target: \"/?x\"",
    ),
    (
        "jwks_url",
        "ca",
        "policies: { p: { jwt: { providers: { algorithms: RS256, keys: { jwks_url: { url: https://a/b, ca: c } } } } } }",
        "ca: Some(\"c\")",
    ),
    (
        "jwks_url",
        "refresh",
        "policies: { p: { jwt: { providers: { algorithms: RS256, keys: { jwks_url: { url: https://a/b, refresh: 7h } } } } } }",
        "refresh: 25200s",
    ),
    (
        "jwks_url",
        "pause",
        "policies: { p: { jwt: { providers: { algorithms: RS256, keys: { jwks_url: { url: https://a/b, pause: 7s } } } } } }",
        "pause: 7s",
    ),
    (
        "jwks_url",
        "max_stale",
        "policies: { p: { jwt: { providers: { algorithms: RS256, keys: { jwks_url: { url: https://a/b, max_stale: 7h } } } } } }",
        "max_stale: AtMost(25200s)",
    ),
];
