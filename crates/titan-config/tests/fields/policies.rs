//! The fields of policies.

use super::Row;

/// A file whose requests have tokens, with these fields of an authorisation.
macro_rules! tokens {
    ($fields:literal) => {
        concat!(
            "policies:\n  t: { jwt: { providers: { algorithms: HS256, keys: { secret_file: k } } } }\n  p: { authorise: { ",
            $fields,
            " } }\napply: [t, p]"
        )
    };
}

pub(super) const ROWS: &[Row] = &[
    (
        "authorise",
        "scopes",
        tokens!("scopes: [a, b]"),
        "scopes: Some(Granted { claim: Claim([\"scope\"]), all: [\"a\", \"b\"], any: [] })",
    ),
    (
        "authorise",
        "roles",
        tokens!("roles: a"),
        "roles: Some(Granted { claim: Claim([\"roles\"]), all: [\"a\"], any: [] })",
    ),
    (
        "authorise",
        "client_certificate",
        "listeners: [{ address: \":1\", tls: { certificates: [{ cert: c, key: k }], client_certificates: { ca: a } } }]
policies: { p: { authorise: { client_certificate: [present, { dns: A }] } } }",
        "client_certificate: Some([[CertificateMatch { part: Any, value: Present }], [",
    ),
    ("authorise", "claims", tokens!("claims: { /a/b: 7 }"), "claim: Claim([\"a\", \"b\"])"),
    (
        "authorise",
        "rules",
        "policies: { p: { authorise: { rules: \"request.path == '/'\" } } }",
        "rules: [Rule(\"request.path == '/'\")]",
    ),
    ("authorise", "tell_missing", tokens!("scopes: a, tell_missing: true"), "tell_missing: true"),
    ("granted", "all", tokens!("scopes: { all: [a] }"), "all: [\"a\"], any: []"),
    ("granted", "any", tokens!("scopes: { any: a }"), "all: [], any: [\"a\"]"),
    ("granted", "claim", tokens!("roles: { any: a, claim: /r/s }"), "Claim([\"r\", \"s\"])"),
    (
        "claim_rule",
        "equals",
        tokens!("claims: { a: { equals: true } }"),
        "equals: Some(Bool(true))",
    ),
    ("claim_rule", "any", tokens!("claims: { a: [x, 7] }"), "any: Some([Text(\"x\"), Number(7)])"),
    ("claim_rule", "all", tokens!("claims: { a: { all: ['7'] } }"), "all: Some([Text(\"7\")])"),
    ("claim_rule", "none", tokens!("claims: { a: { none: [x] } }"), "none: Some([Text(\"x\")])"),
    ("claim_rule", "only", tokens!("claims: { a: { only: [x] } }"), "only: Some([Text(\"x\")])"),
    ("file", "policies", "policies: { p: { cors: { origins: \"*\" } } }", "policies: [NamedPolicy"),
    (
        "file",
        "apply",
        "policies: { p: { cors: { origins: \"*\" } } }\napply: [p]",
        "policies: Policies { cors: Some(PolicyId(0))",
    ),
    (
        "route",
        "apply",
        "policies: { p: { cors: { origins: \"*\" } } }\nroutes: [{ respond: 204, apply: [p] }]",
        "policies: Policies { cors: Some(PolicyId(0))",
    ),
    (
        "route",
        "without",
        "policies: { p: { cors: { origins: \"*\" } } }\napply: [p]\n\
         routes: [{ respond: 204, priority: 7, without: [cors] }, { path: /p, respond: 204 }]",
        "priority: 7, importance: Default, trace_share: None, record_bodies: ByteSize(0), policies: Policies { cors: None",
    ),
    ("policy", "cors", "policies: { p: { cors: { origins: \"*\" } } }", "policy: Cors(Cors {"),
    (
        "cors",
        "origins",
        "policies: { p: { cors: { origins: [https://a, https://*.b:8] } } }",
        "origins: [Exact(\"https://a\"), Below { before: \"https://\", behind: \".b:8\" }]",
    ),
    (
        "cors",
        "methods",
        "policies: { p: { cors: { origins: \"*\", methods: [PUT] } } }",
        "methods: These([PUT])",
    ),
    (
        "cors",
        "headers",
        "policies: { p: { cors: { origins: \"*\", headers: [x-a] } } }",
        "headers: These([HeaderName(\"x-a\")])",
    ),
    (
        "cors",
        "expose",
        "policies: { p: { cors: { origins: \"*\", expose: x-a } } }",
        "expose: [HeaderName(\"x-a\")]",
    ),
    (
        "cors",
        "credentials",
        "policies: { p: { cors: { origins: https://a, credentials: true } } }",
        "credentials: true",
    ),
    (
        "cors",
        "max_age",
        "policies: { p: { cors: { origins: \"*\", max_age: 1m } } }",
        "max_age: 60s",
    ),
    (
        "cors",
        "private_network",
        "policies: { p: { cors: { origins: \"*\", private_network: true } } }",
        "private_network: true",
    ),
    (
        "cors",
        "websockets",
        "policies: { p: { cors: { origins: https://a, websockets: true } } }",
        "credentials: false, max_age: 600s, private_network: false, websockets: true",
    ),
    (
        "cors_origin",
        "regex",
        "policies: { p: { cors: { origins: { regex: \"https://a[0-9]\" } } } }",
        "origins: [Regex(",
    ),
    (
        "policy",
        "early_limit",
        "policies: { p: { early_limit: { rates: 5/s } } }",
        "policy: EarlyLimit(RateLimit {",
    ),
    (
        "policy",
        "failure_limit",
        "policies: { p: { failure_limit: { by_client: 5/m } } }",
        "policy: FailureLimit(FailureLimit {",
    ),
    ("policy", "maintenance", "policies: { p: { maintenance: {  } } }", "policy: Maintenance(Maintenance { enabled: true,"),
    ("maintenance", "enabled", "policies: { p: { maintenance: { enabled: false } } }", "enabled: false"),
    ("maintenance", "message", "policies: { p: { maintenance: { message: Back soon } } }", "message: Some(\"Back soon\")"),
    ("maintenance", "allow", "policies: { p: { maintenance: { allow: 192.0.2.0/24 } } }", "allow: [Cidr"),
    ("maintenance", "retry_after", "policies: { p: { maintenance: { retry_after: 90m } } }", "retry_after: Some(5400s)"),
    ("policy", "fault", "policies: { p: { fault: { abort: true } } }", "policy: Fault(Fault { share: Percent(10000),"),
    ("fault", "share", "policies: { p: { fault: { abort: true, share: 5% } } }", "share: Percent(500)"),
    (
        "fault",
        "header",
        "policies: { p: { fault: { abort: true, header: X-Fault, addresses: 192.0.2.1 } } }",
        "header: Some(HeaderName(\"X-Fault\"))",
    ),
    ("fault", "addresses", "policies: { p: { fault: { abort: true, addresses: 192.0.2.1 } } }", "addresses: [Cidr"),
    (
        "fault",
        "api_keys",
        "policies: { p: { fault: { abort: true, api_keys: [tests] } } }",
        "api_keys: [Name(\"tests\")]",
    ),
    ("fault", "delay", "policies: { p: { fault: { delay: 300ms } } }", "delay: Some(300ms)"),
    ("fault", "status", "policies: { p: { fault: { status: 503 } } }", "effect: Some(Status(Status(503)))"),
    ("fault", "abort", "policies: { p: { fault: { delay: 1s, abort: true } } }", "effect: Some(Abort)"),
    (
        "fault",
        "truncate_after",
        "policies: { p: { fault: { truncate_after: 1KiB } } }",
        "effect: Some(Truncate(ByteSize(1024)))",
    ),
    (
        "failure_limit",
        "by_client",
        "policies: { p: { failure_limit: { by_client: 5/m } } }",
        "by_client: Some(Rate { count: 5, window: 60s, burst: 5 })",
    ),
    (
        "failure_limit",
        "by_name",
        "policies: { p: { failure_limit: { by_name: { rate: 5/m, burst: 9 } } } }",
        "by_name: Some(Rate { count: 5, window: 60s, burst: 9 })",
    ),
    (
        "failure_limit",
        "ipv6_prefix",
        "policies: { p: { failure_limit: { by_client: 5/m, ipv6_prefix: 48 } } }",
        "ipv6_prefix: 48",
    ),
    (
        "failure_limit",
        "shadow",
        "policies: { p: { failure_limit: { by_client: 5/m, shadow: true } } }",
        "shadow: true",
    ),
    (
        "failure_limit",
        "capacity",
        "policies: { p: { failure_limit: { by_client: 5/m, capacity: 100 } } }",
        "capacity: 100",
    ),
    (
        "policy",
        "rate_limit",
        "policies: { p: { rate_limit: { rates: 5/s } } }",
        "policy: RateLimit(RateLimit {",
    ),
    (
        "rate_limit",
        "key",
        "policies: { p: { rate_limit: { rates: 5/s, key: [route, { header: x-a }, { cookie: b }] } } }",
        "key: [Route, Header(HeaderName(\"x-a\")), Cookie(Token(\"b\"))]",
    ),
    (
        "rate_limit",
        "ipv6_prefix",
        "policies: { p: { rate_limit: { rates: 5/s, ipv6_prefix: 48 } } }",
        "ipv6_prefix: 48",
    ),
    (
        "rate_limit",
        "rates",
        "policies: { p: { rate_limit: { rates: [5/s, 100/m] } } }",
        "rates: [Rate { count: 5, window: 1s, burst: 5 }, Rate { count: 100, window: 60s, burst: 100 }]",
    ),
    (
        "rate_limit",
        "concurrency",
        "policies: { p: { rate_limit: { concurrency: 7 } } }",
        "concurrency: Some(7)",
    ),
    (
        "rate_limit",
        "shadow",
        "policies: { p: { rate_limit: { rates: 5/s, shadow: true } } }",
        "shadow: true",
    ),
    (
        "rate_limit",
        "capacity",
        "policies: { p: { rate_limit: { rates: 5/s, capacity: 100 } } }",
        "capacity: 100",
    ),
    (
        "rate_limit",
        "shared",
        "stores: { s: { address: \"redis://h\", hash_key: 0123456789abcdef } }\npolicies: { p: { rate_limit: { rates: 5/s, shared: s } } }",
        "shared: Some(SharedLimit { store: Name(\"s\"), mode: Exact, without_store: Local })",
    ),
    (
        "shared_limit",
        "store",
        "stores: { s: { address: \"redis://h\", hash_key: 0123456789abcdef } }\n\
         policies: { p: { rate_limit: { rates: 5/s, shared: { store: s } } } }",
        "SharedLimit { store: Name(\"s\")",
    ),
    (
        "shared_limit",
        "mode",
        "stores: { s: { address: \"redis://h\", hash_key: 0123456789abcdef } }\n\
         policies: { p: { rate_limit: { rates: 5/s, shared: { store: s, mode: lease } } } }",
        "mode: Lease",
    ),
    (
        "shared_limit",
        "without_store",
        "stores: { s: { address: \"redis://h\", hash_key: 0123456789abcdef } }\n\
         policies: { p: { rate_limit: { rates: 5/s, shared: { store: s, without_store: deny } } } }",
        "without_store: Deny",
    ),
    (
        "rate",
        "rate",
        "policies: { p: { rate_limit: { rates: [{ rate: 20/10s }] } } }",
        "rates: [Rate { count: 20, window: 10s, burst: 20 }]",
    ),
    (
        "rate",
        "burst",
        "policies: { p: { rate_limit: { rates: { rate: 5/s, burst: 9 } } } }",
        "burst: 9",
    ),
    (
        "rate_key",
        "header",
        "policies: { p: { rate_limit: { rates: 5/s, key: { header: x-a } } } }",
        "key: [Header(HeaderName(\"x-a\"))]",
    ),
    (
        "rate_key",
        "query",
        "policies: { p: { rate_limit: { rates: 5/s, key: { query: b } } } }",
        "key: [Query(\"b\")]",
    ),
    (
        "rate_key",
        "cookie",
        "policies: { p: { rate_limit: { rates: 5/s, key: { cookie: b } } } }",
        "key: [Cookie(Token(\"b\"))]",
    ),
    (
        "rate_key",
        "claim",
        "apply: [j]\npolicies: { j: { jwt: { providers: { algorithms: HS256, keys: { secret_file: k } } } }, \
         p: { rate_limit: { rates: 5/s, key: { claim: /a/b } } } }",
        "key: [Claim(Claim([\"a\", \"b\"]))]",
    ),
    (
        "rate_limit",
        "plans",
        "apply: [j, p]\npolicies: { j: { jwt: { providers: { algorithms: HS256, keys: { secret_file: k } } } }, \
         p: { rate_limit: { rates: 5/s, plans: { claim: plan, rates: { gold: 9/s } } } } }",
        "plans: Some(RatePlans {",
    ),
    (
        "rate_plans",
        "claim",
        "apply: [j, p]\npolicies: { j: { jwt: { providers: { algorithms: HS256, keys: { secret_file: k } } } }, \
         p: { rate_limit: { rates: 5/s, plans: { claim: /a/plan, rates: { gold: 9/s } } } } }",
        "claim: Claim([\"a\", \"plan\"])",
    ),
    (
        "rate_plans",
        "rates",
        "apply: [j, p]\npolicies: { j: { jwt: { providers: { algorithms: HS256, keys: { secret_file: k } } } }, \
         p: { rate_limit: { rates: 5/s, plans: { claim: plan, rates: { gold: 9/s } } } } }",
        "plans: [RatePlan { name: Name(\"gold\"), rates: [Rate { count: 9, window: 1s, burst: 9 }] }]",
    ),
    (
        "rate_limit",
        "max_delay",
        "policies: { p: { rate_limit: { rates: 5/s, max_delay: 500ms } } }",
        "max_delay: Some(500ms)",
    ),
    (
        "rate_limit",
        "exempt",
        "policies: { p: { rate_limit: { rates: 5/s, exempt: { addresses: 10.0.0.0/8 } } } }",
        "exempt: Some(Exempt {",
    ),
    (
        "exempt",
        "addresses",
        "policies: { p: { rate_limit: { rates: 5/s, exempt: { addresses: 10.0.0.0/8 } } } }",
        "addresses: [Cidr { address: 10.0.0.0, bits: 8 }]",
    ),
    (
        "exempt",
        "claims",
        "apply: [j, p]\npolicies: { j: { jwt: { providers: { algorithms: HS256, keys: { secret_file: k } } } }, \
         p: { rate_limit: { rates: 5/s, exempt: { claims: { role: batch } } } } }",
        "exempt: Some(Exempt { addresses: [], claims: [ClaimRule { claim: Claim([\"role\"])",
    ),
    (
        "exempt",
        "api_keys",
        "apply: [a, p]\npolicies: { a: { authorise: { api_keys: { file: keys } } }, \
         p: { rate_limit: { rates: 5/s, exempt: { api_keys: ours } } } }",
        "api_keys: [Name(\"ours\")]",
    ),
    (
        "rate_key",
        "param",
        "apply: [p]\npolicies: { p: { rate_limit: { rates: 5/s, key: { param: id } } } }\n\
         routes: [{ path: \"/a/{id}\", respond: 204 }]",
        "key: [Param(\"id\")]",
    ),
    (
        "rate_limit",
        "costs",
        "policies: { p: { rate_limit: { rates: 5/s, costs: { search: 3 } } } }\napply: [p]\n\
         routes: [{ name: search, respond: 204 }]",
        "costs: [RouteCost { route: Name(\"search\"), cost: 3",
    ),
    ("policy", "compress", "policies: { p: { compress: {} } }", "policy: Compress(Compress {"),
    (
        "compress",
        "algorithms",
        "policies: { p: { compress: { algorithms: [br, gzip] } } }",
        "algorithms: [Brotli, Gzip]",
    ),
    (
        "compress",
        "types",
        "policies: { p: { compress: { types: [text/html, application/*+json] } } }",
        "types: [MediaRange { before: \"text/html\", behind: None }, MediaRange { before: \"application/\", behind: Some(\"+json\") }]",
    ),
    (
        "compress",
        "min_size",
        "policies: { p: { compress: { min_size: 7KiB } } }",
        "min_size: ByteSize(7168)",
    ),
    ("compress", "gzip_level", "policies: { p: { compress: { gzip_level: 7 } } }", "gzip_level: 7"),
    (
        "compress",
        "brotli_level",
        "policies: { p: { compress: { brotli_level: 7 } } }",
        "brotli_level: 7",
    ),
    ("compress", "zstd_level", "policies: { p: { compress: { zstd_level: 7 } } }", "zstd_level: 7"),
    ("compress", "cookies", "policies: { p: { compress: { cookies: true } } }", "cookies: true"),
    (
        "compress",
        "except",
        "policies: { p: { compress: { except: [/a/b, /] } } }",
        "except: [\"/a/b\", \"\"]",
    ),
    (
        "compress",
        "padding",
        "policies: { p: { compress: { padding: 100B } } }",
        "padding: ByteSize(100)",
    ),
    (
        "compress",
        "requests",
        "policies: { p: { compress: { requests: {} } } }",
        "requests: Some(CodedRequests {",
    ),
    (
        "compress_requests",
        "decode",
        "policies: { p: { compress: { requests: { decode: [br] } } } }",
        "decode: [Brotli]",
    ),
    (
        "compress_requests",
        "max_size",
        "policies: { p: { compress: { requests: { max_size: 7KiB } } } }",
        "max_size: ByteSize(7168)",
    ),
    (
        "compress_requests",
        "max_ratio",
        "policies: { p: { compress: { requests: { max_ratio: 7 } } } }",
        "max_ratio: 7",
    ),
    (
        "compress_requests",
        "max_window",
        "policies: { p: { compress: { requests: { max_window: 64KiB } } } }",
        "max_window: ByteSize(65536)",
    ),
    (
        "compress_requests",
        "unsupported",
        "policies: { p: { compress: { requests: { unsupported: refuse } } } }",
        "unsupported: Refuse",
    ),
    ("compress", "events", "policies: { p: { compress: { events: true } } }", "events: true"),
    (
        "policy",
        "authorise",
        "policies: { p: { authorise: { deny: ::1 } } }",
        "policy: Authorise(Authorise {",
    ),
    (
        "authorise",
        "allow",
        "policies: { p: { authorise: { allow: [10.0.0.0/8] } } }",
        "allow: Some([Cidr { address: 10.0.0.0, bits: 8 }])",
    ),
    (
        "api_keys",
        "file",
        "policies: { p: { authorise: { api_keys: { file: keys } } } }",
        "keys: [], file: Some(\"keys\")",
    ),
    (
        "authorise",
        "any_of",
        "policies: { p: { authorise: { any_of: [basic, client_certificate], client_certificate: present, basic: { file: f } } } }\n\
         listeners: [{ address: \":1\", tls: { certificates: [{ cert: c, key: k }], client_certificates: { ca: a } } }]",
        "any_of: [Basic, ClientCertificate]",
    ),
    (
        "authorise",
        "deny",
        "policies: { p: { authorise: { deny: 192.0.2.1 } } }",
        "deny: [Cidr { address: 192.0.2.1, bits: 32 }]",
    ),
    (
        "authorise",
        "api_keys",
        "policies: { p: { authorise: { api_keys: { keys: { a: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa } } } } }",
        "api_keys: Some(ApiKeys { header: HeaderName(\"X-API-Key\"), query: None",
    ),
    (
        "api_keys",
        "header",
        "policies: { p: { authorise: { api_keys: { header: X-K, \
         keys: { a: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa } } } } }",
        "header: HeaderName(\"X-K\")",
    ),
];
