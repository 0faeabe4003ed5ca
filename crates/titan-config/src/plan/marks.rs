//! In which direction each field is weaker. A field without an entry fails a test: whoever adds a field decides.

/// How a change of a field bears on what the gateway lets pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// Not at all.
    Neutral,
    /// As the fields inside say.
    Inside,
    /// A larger number is weaker, and none is the largest.
    Larger,
    /// A smaller number is weaker, and none is the smallest.
    Smaller,
    /// Of these words, of which the empty one is that there is none, a later one is weaker.
    Scale(&'static [&'static str]),
    /// Something that is needed: without it, or with fewer of a list, the gateway is weaker.
    Need,
    /// Something that is allowed: with it, or with more of a list, the gateway is weaker.
    Grant,
    /// A list of which one is needed: weaker with more, and with none at all.
    OneOf,
    /// A list that is everything where it is not given: weaker with fewer.
    AllOf,
    /// Any other value may be weaker, and so may none. The first one is not.
    Unknown,
    /// Any change may be weaker.
    Other,
    /// A list of which one is needed, where none stands for something else: weaker with more, with the first, and with none.
    Among,
    /// Rules of which the first that fits counts: weaker with fewer, with one that comes before others, and in another order.
    Rules,
    /// What is asked of the client's certificate: weaker with less of it.
    Certificate,
    /// Fields that responses get by name: of those that protect, any change may be weaker, and of others none.
    Protections,
    /// The same where the field of an upstream stays: the first value is not weaker.
    AddedProtections,
    /// Fields that are hidden from clients: weaker with fewer, and with one that protects.
    Hidden,
    /// A rate, or several that must all be kept: weaker unless each is replaced by one that is as strict.
    Rates,
    /// An address that more clients can reach is weaker.
    Exposure,
    /// Other files, which are joined with this one: what they say is compared.
    Joined,
    /// Which requests a route matches: the requests are compared.
    Request,
    /// The policies that apply: those in force are compared, request by request.
    Chain,
}

/// The mark of a field.
pub(super) fn mark(section: &str, key: &str) -> Mark {
    let section = MARKS.iter().find(|(name, _)| *name == section);
    let field = section.and_then(|(_, fields)| fields.iter().find(|(name, _)| *name == key));
    // What is not known may be anything; the test below sees to it that all are known.
    field.map_or(Mark::Unknown, |(_, mark)| *mark)
}

impl Mark {
    /// The mark of one entry of a mapping.
    pub(super) fn of_entry(self, key: &str) -> Mark {
        match self {
            Mark::Protections if protects(key) => Mark::Other,
            Mark::AddedProtections if protects(key) => Mark::Unknown,
            Mark::Protections | Mark::AddedProtections => Mark::Neutral,
            mark => mark,
        }
    }
}

/// Whether a field of responses tells browsers and caches what they may not do, or grants them something.
pub(super) fn protects(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let is_of = |family: &&str| name.starts_with(*family);
    PROTECTIVE.contains(&name.as_str()) || PROTECTIVE_FAMILIES.iter().any(is_of)
}

const PROTECTIVE: &[&str] = &[
    "cache-control",
    "clear-site-data",
    "content-disposition",
    "content-security-policy",
    "content-type",
    "expires",
    "origin-agent-cluster",
    "permissions-policy",
    "pragma",
    "referrer-policy",
    "service-worker-allowed",
    "set-cookie",
    "strict-transport-security",
    "vary",
    "x-content-type-options",
    "x-download-options",
    "x-frame-options",
    "x-permitted-cross-domain-policies",
    "x-robots-tag",
    "x-xss-protection",
];
const PROTECTIVE_FAMILIES: &[&str] = &["access-control-", "cross-origin-"];

/// Whether the order of a list means something.
pub(super) fn is_ordered(section: &str, key: &str) -> bool {
    ORDERED.contains(&(section, key))
}

const ON: &[&str] = &["true", "false"];
const OFF: &[&str] = &["false", "true"];
/// What is written less of leaves less to find out what has happened. An area without a level has that of the others, which is `info` by
/// default.
const LEVELS: &[&str] = &["debug", "info", "", "warn", "error"];
const ON_OR_LEFT: &[&str] = &["true", "", "false"];

/// The lists in which something comes first.
const ORDERED: &[(&str, &str)] = &[
    ("tls", "certificates"),
    ("resolver", "nameservers"),
    ("files", "index"),
    ("files", "precompressed"),
    ("files", "cache_rules"),
    ("authorise", "any_of"),
    ("compress", "algorithms"),
    ("request_transform", "path"),
    ("response_transform", "cookies"),
];

/// What is neutral, and why:
///
/// - **names**, and how requests are described: what they mean is compared where they are used, request by request;
/// - **credentials** of clients, and certificates of the gateway: who has a key or a password is not how much is asked of
///   them, and they are replaced as a matter of course. What verifies tokens is not among these;
/// - **where a service is**: endpoints, balance, retries and how long the gateway waits for upstreams. How requests get there
///   is compared;
/// - **what the gateway says**: bodies, pages, redirects, realms, and fields of responses that protect nothing;
/// - **where access logs go**, and how their files are begun anew: which exchanges are logged, and with what, is compared;
/// - **figures that bound nothing a client can use up**, such as pools of connections to upstreams and caches.
#[rustfmt::skip]
const MARKS: &[(&str, &[(&str, Mark)])] = &[
    ("file", &[
        ("sources", Mark::Inside), ("include", Mark::Joined),
        ("workers", Mark::Inside), ("listeners", Mark::Inside), ("routes", Mark::Inside),
        ("upstreams", Mark::Inside), ("policies", Mark::Inside), ("apply", Mark::Chain),
        ("jwt_revocations", Mark::Need), ("state", Mark::Neutral), ("pressure", Mark::Need), ("zone", Mark::Neutral),
        ("stores", Mark::Inside), ("otlp", Mark::Inside), ("tracing", Mark::Neutral), ("access_log", Mark::Need),
        ("recorder", Mark::Need),
        ("log", Mark::Inside),
        ("limits", Mark::Inside),
        ("error_pages", Mark::Neutral),
        ("paths", Mark::Inside), ("timeouts", Mark::Inside), ("forwarding", Mark::Inside), ("resolver", Mark::Inside),
        ("admin", Mark::Inside),
    ]),
    ("workers", &[("threads", Mark::Neutral), ("pin", Mark::Neutral)]),
    ("listener", &[
        ("name", Mark::Neutral), ("address", Mark::Exposure), ("proxy_protocol", Mark::Other), ("tls", Mark::Need),
        ("tls_routes", Mark::Other), ("tcp", Mark::Other), ("redirect_to_https", Mark::Need), ("protocols", Mark::Grant),
        ("alt_svc", Mark::Neutral), ("retry_above", Mark::Larger), ("early_data", Mark::Scale(OFF)),
        ("max_connections", Mark::Larger), ("max_connections_per_client", Mark::Larger),
    ]),
    ("proxy_protocol", &[("from", Mark::Grant)]),
    ("alt_svc", &[("max_age", Mark::Neutral), ("port", Mark::Neutral)]),
    ("tls_route", &[("names", Mark::Other), ("mode", Mark::Other), ("upstream", Mark::Neutral)]),
    ("tls", &[
        ("certificates", Mark::Neutral), ("unknown_name", Mark::Scale(&["refuse", "default"])),
        ("min_version", Mark::Scale(&["1.3", "1.2"])), ("ciphers", Mark::OneOf), ("hsts", Mark::Need),
        ("client_certificates", Mark::Need),
    ]),
    ("certificate", &[
        ("cert", Mark::Neutral), ("key", Mark::Neutral), ("hosts", Mark::Neutral),
    ]),
    ("hsts", &[
        ("max_age", Mark::Smaller), ("include_subdomains", Mark::Scale(ON)), ("preload", Mark::Scale(ON)),
    ]),
    ("client_certificates", &[
        ("mode", Mark::Scale(&["required", "optional", "ignore_invalid"])), ("ca", Mark::Unknown), ("crl", Mark::Need),
    ]),
    ("route", &[
        ("name", Mark::Neutral), ("host", Mark::Request), ("path", Mark::Request), ("prefix", Mark::Request),
        ("methods", Mark::Request), ("head", Mark::Request), ("headers", Mark::Request), ("query", Mark::Request),
        ("client_certificate", Mark::Certificate), ("listeners", Mark::OneOf), ("priority", Mark::Request),
        ("upstream", Mark::Neutral),
        ("importance", Mark::Neutral), ("trace_share", Mark::Neutral),
        ("record_bodies", Mark::Larger), ("redirect", Mark::Neutral), ("respond", Mark::Neutral),
        ("files", Mark::Neutral), ("rewrite", Mark::Other),
        ("send_host", Mark::Other), ("retries", Mark::Inside), ("upgrades", Mark::Grant), ("apply", Mark::Chain),
        ("without", Mark::Chain), ("grpc_web", Mark::Scale(OFF)), ("mirror", Mark::Grant), ("error_pages", Mark::Neutral),
        ("paths", Mark::Inside), ("timeouts", Mark::Inside), ("limits", Mark::Inside),
    ]),
    ("retries", &[
        ("attempts", Mark::Neutral), ("on", Mark::Neutral), ("statuses", Mark::Neutral), ("grpc", Mark::Neutral),
        ("header", Mark::Neutral), ("methods", Mark::Neutral), ("idempotency_key", Mark::Neutral),
        ("per_try_timeout", Mark::Neutral), ("backoff", Mark::Inside), ("max_retry_after", Mark::Neutral),
    ]),
    ("backoff", &[
        ("base", Mark::Neutral), ("max", Mark::Neutral),
    ]),
    ("mirror", &[
        ("upstream", Mark::Other), ("share", Mark::Neutral), ("body", Mark::Larger), ("concurrent", Mark::Larger),
        ("timeout", Mark::Larger), ("compare", Mark::Inside),
    ]),
    ("comparison", &[
        ("headers", Mark::Grant), ("body", Mark::Larger), ("ignore", Mark::Neutral), ("show", Mark::Grant),
        ("samples", Mark::Larger),
    ]),
    ("condition", &[
        ("present", Mark::Unknown), ("prefix", Mark::Unknown), ("regex", Mark::Unknown),
    ]),
    ("certificate_condition", &[
        ("subject", Mark::Unknown), ("dns", Mark::Unknown), ("uri", Mark::Unknown), ("email", Mark::Unknown),
        ("ip", Mark::Unknown), ("fingerprint", Mark::Unknown),
    ]),
    ("redirect", &[
        ("to", Mark::Neutral), ("status", Mark::Neutral),
    ]),
    ("respond", &[
        ("status", Mark::Neutral), ("body", Mark::Neutral), ("template", Mark::Neutral),
        ("content_type", Mark::Neutral), ("headers", Mark::Protections),
    ]),
    ("error_page", &[
        ("body", Mark::Neutral), ("content_type", Mark::Neutral),
    ]),
    ("files", &[
        ("root", Mark::Unknown), ("index", Mark::Neutral), ("strip_prefix", Mark::Other),
        ("precompressed", Mark::Neutral), ("dotfiles", Mark::Scale(OFF)), ("cache_control", Mark::Unknown),
        ("cache_rules", Mark::Rules), ("fallback", Mark::Neutral), ("error_pages", Mark::Neutral),
        ("types", Mark::Other),
    ]),
    ("cache_rule", &[
        ("name", Mark::Other), ("types", Mark::Other), ("cache_control", Mark::Other),
    ]),
    ("rewrite", &[
        ("prefix", Mark::Other), ("path", Mark::Other),
    ]),
    ("paths", &[
        ("encoded_slashes", Mark::Scale(&["refuse", "keep"])), ("parameters", Mark::Scale(&["refuse", "keep"])),
        ("case", Mark::Scale(&["refuse", "keep"])),
    ]),
    ("route_timeouts", &[
        ("body", Mark::Larger), ("write", Mark::Larger), ("connect", Mark::Neutral), ("response", Mark::Neutral),
        ("response_body", Mark::Neutral), ("tunnel", Mark::Larger), ("total", Mark::Larger),
        ("deadline_header", Mark::Neutral),
    ]),
    ("route_limits", &[
        ("body", Mark::Larger), ("retry_body", Mark::Neutral),
    ]),
    ("upstream", &[
        ("endpoints", Mark::Neutral), ("balance", Mark::Neutral), ("spill_below", Mark::Neutral), ("tls", Mark::Need),
        ("protocol", Mark::Neutral),
        ("max_connections", Mark::Larger), ("max_idle", Mark::Neutral), ("idle_timeout", Mark::Neutral),
        ("queue", Mark::Inside), ("retry_budget", Mark::Inside),
        ("hedge", Mark::Neutral), ("health", Mark::Neutral), ("ejection", Mark::Neutral),
        ("panic_below", Mark::Neutral),
        ("slow_start", Mark::Neutral), ("circuit_breaker", Mark::Neutral), ("concurrency", Mark::Need),
    ]),
    ("circuit_breaker", &[
        ("failure_share", Mark::Neutral), ("consecutive_failures", Mark::Neutral), ("slow_share", Mark::Neutral),
        ("slow_after", Mark::Neutral), ("window", Mark::Neutral), ("min_requests", Mark::Neutral),
        ("open_time", Mark::Neutral), ("max_open_time", Mark::Neutral), ("half_open_requests", Mark::Neutral),
        ("close_after", Mark::Neutral), ("failures", Mark::Neutral), ("statuses", Mark::Neutral), ("per", Mark::Neutral),
        ("fallback", Mark::Neutral),
    ]),
    ("fallback", &[
        ("respond", Mark::Neutral), ("upstream", Mark::Neutral), ("file", Mark::Neutral),
    ]),
    ("fallback_file", &[
        ("path", Mark::Neutral), ("status", Mark::Neutral), ("content_type", Mark::Neutral),
    ]),
    ("health", &[
        ("probe", Mark::Neutral), ("port", Mark::Neutral), ("interval", Mark::Neutral),
        ("unhealthy_interval", Mark::Neutral), ("jitter", Mark::Neutral), ("timeout", Mark::Neutral), ("unhealthy_after", Mark::Neutral),
        ("healthy_after", Mark::Neutral), ("initial", Mark::Neutral),
    ]),
    ("probe", &[
        ("http", Mark::Neutral), ("grpc", Mark::Neutral),
    ]),
    ("http_probe", &[
        ("path", Mark::Neutral), ("method", Mark::Neutral), ("host", Mark::Neutral), ("headers", Mark::Neutral),
        ("statuses", Mark::Neutral), ("contains", Mark::Neutral),
    ]),
    ("grpc_probe", &[
        ("service", Mark::Neutral),
    ]),
    ("ejection", &[
        ("consecutive_failures", Mark::Neutral), ("consecutive_errors", Mark::Neutral), ("failure_share", Mark::Neutral),
        ("statuses", Mark::Neutral), ("slower_than_others", Mark::Neutral), ("window", Mark::Neutral),
        ("min_requests", Mark::Neutral), ("time", Mark::Neutral), ("max_time", Mark::Neutral),
        ("max_share", Mark::Neutral),
    ]),
    ("retry_budget", &[
        ("share", Mark::Neutral), ("floor", Mark::Neutral),
    ]),
    ("hedge", &[
        ("after", Mark::Neutral), ("min_delay", Mark::Neutral), ("methods", Mark::Neutral),
    ]),
    ("concurrency", &[
        ("min", Mark::Neutral), ("max", Mark::Larger), ("initial", Mark::Neutral), ("queue", Mark::Larger),
        ("delay_target", Mark::Neutral),
    ]),
    ("endpoint", &[
        ("address", Mark::Neutral), ("weight", Mark::Neutral), ("priority", Mark::Neutral),
        ("zone", Mark::Neutral), ("drain", Mark::Neutral),
    ]),
    ("balance", &[
        ("consistent_hash", Mark::Neutral), ("sticky_cookie", Mark::Neutral),
    ]),
    ("hash_key", &[
        ("header", Mark::Neutral), ("cookie", Mark::Neutral), ("query", Mark::Neutral),
    ]),
    ("sticky_cookie", &[
        ("name", Mark::Neutral), ("max_age", Mark::Neutral), ("secure", Mark::Scale(ON)),
        ("http_only", Mark::Scale(ON)), ("same_site", Mark::Scale(&["strict", "lax", "none"])),
    ]),
    ("upstream_tls", &[
        ("ca", Mark::Other), ("name", Mark::Other), ("alt_names", Mark::Other), ("certificate", Mark::Neutral), ("verify", Mark::Scale(ON)),
    ]),
    ("queue", &[
        ("length", Mark::Neutral), ("timeout", Mark::Neutral),
    ]),
    ("policy", &[
        ("cors", Mark::Grant), ("maintenance", Mark::Need), ("early_limit", Mark::Need),
        ("failure_limit", Mark::Need), ("jwt", Mark::Need), ("authorise", Mark::Need), ("rate_limit", Mark::Need),
        ("fault", Mark::Neutral), ("transform", Mark::Inside), ("compress", Mark::Inside),
    ]),
    ("fault", &[
        ("share", Mark::Neutral), ("header", Mark::Neutral), ("addresses", Mark::Grant), ("api_keys", Mark::Grant),
        ("delay", Mark::Neutral), ("status", Mark::Neutral), ("abort", Mark::Neutral), ("truncate_after", Mark::Neutral),
    ]),
    ("cors", &[
        ("origins", Mark::OneOf), ("methods", Mark::OneOf), ("headers", Mark::OneOf), ("expose", Mark::Grant),
        ("credentials", Mark::Scale(OFF)), ("max_age", Mark::Larger), ("private_network", Mark::Scale(OFF)),
        ("websockets", Mark::Scale(ON)),
    ]),
    ("cors_origin", &[("regex", Mark::Unknown)]),
    ("maintenance", &[
        ("enabled", Mark::Scale(ON)), ("message", Mark::Neutral), ("allow", Mark::Grant),
        ("retry_after", Mark::Neutral),
    ]),
    ("rate_limit", &[
        ("key", Mark::Grant), ("ipv6_prefix", Mark::Larger), ("rates", Mark::Rates), ("plans", Mark::Grant),
        ("concurrency", Mark::Larger), ("costs", Mark::Smaller), ("max_delay", Mark::Neutral),
        ("exempt", Mark::Grant), ("shadow", Mark::Scale(OFF)), ("capacity", Mark::Neutral), ("shared", Mark::Need),
    ]),
    ("rate_key", &[
        ("header", Mark::Unknown), ("cookie", Mark::Unknown), ("query", Mark::Unknown), ("claim", Mark::Unknown),
        ("param", Mark::Unknown),
    ]),
    ("rate", &[
        ("rate", Mark::Unknown), ("burst", Mark::Larger),
    ]),
    ("rate_plans", &[("claim", Mark::Unknown), ("rates", Mark::Rates)]),
    ("exempt", &[
        ("addresses", Mark::Grant), ("claims", Mark::Grant), ("api_keys", Mark::Grant),
    ]),
    ("claim_rule", &[
        ("equals", Mark::Unknown), ("any", Mark::OneOf), ("all", Mark::Need), ("none", Mark::Need),
        ("only", Mark::OneOf),
    ]),
    ("failure_limit", &[
        ("by_client", Mark::Rates), ("by_name", Mark::Rates), ("ipv6_prefix", Mark::Larger),
        ("shadow", Mark::Scale(OFF)), ("capacity", Mark::Neutral),
    ]),
    ("jwt", &[
        ("providers", Mark::OneOf), ("token", Mark::Grant), ("forward", Mark::Scale(OFF)),
        ("headers", Mark::Unknown), ("require", Mark::Need), ("required", Mark::Scale(ON)), ("leeway", Mark::Larger),
        ("max_age", Mark::Larger), ("types", Mark::OneOf), ("realm", Mark::Neutral), ("cache", Mark::Neutral),
    ]),
    ("jwt_provider", &[
        ("issuer", Mark::Unknown), ("audience", Mark::Among), ("algorithms", Mark::OneOf), ("keys", Mark::Unknown),
    ]),
    ("jwt_keys", &[
        ("pem", Mark::OneOf), ("secret", Mark::Unknown), ("secret_file", Mark::Unknown), ("jwks", Mark::Unknown),
        ("jwks_url", Mark::Unknown),
    ]),
    ("jwks_url", &[
        ("url", Mark::Unknown), ("ca", Mark::Other), ("refresh", Mark::Larger), ("pause", Mark::Neutral),
        ("max_stale", Mark::Larger),
    ]),
    ("jwt_token", &[
        ("scheme", Mark::Neutral), ("cookie", Mark::Neutral), ("query", Mark::Neutral),
    ]),
    ("authorise", &[
        ("allow", Mark::OneOf), ("deny", Mark::Need), ("client_certificate", Mark::OneOf), ("api_keys", Mark::Need),
        ("any_of", Mark::Grant), ("scopes", Mark::Need), ("roles", Mark::Need), ("claims", Mark::Need),
        ("rules", Mark::Need), ("tell_missing", Mark::Scale(OFF)), ("basic", Mark::Need),
        ("forward_auth", Mark::Need),
    ]),
    ("api_keys", &[
        ("header", Mark::Neutral), ("query", Mark::Grant), ("identity_header", Mark::Unknown),
        ("keys", Mark::Neutral), ("file", Mark::Neutral),
    ]),
    ("granted", &[("all", Mark::Need), ("any", Mark::OneOf), ("claim", Mark::Other)]),
    ("basic", &[
        ("users", Mark::Neutral), ("file", Mark::Neutral), ("realm", Mark::Neutral),
        ("identity_header", Mark::Unknown), ("forward", Mark::Scale(OFF)),
    ]),
    ("forward_auth", &[
        ("upstream", Mark::Unknown), ("path", Mark::Unknown), ("method", Mark::Other),
        ("request_headers", Mark::Other), ("upstream_headers", Mark::Other), ("response_headers", Mark::Grant),
        ("timeout", Mark::Neutral), ("body_limit", Mark::Neutral), ("cache", Mark::Grant),
    ]),
    ("auth_cache", &[("ttl", Mark::Larger), ("key", Mark::AllOf), ("capacity", Mark::Neutral)]),
    ("auth_key", &[("header", Mark::Unknown)]),
    ("transform", &[
        ("request", Mark::Inside), ("response", Mark::Inside),
    ]),
    ("request_transform", &[
        ("when", Mark::Other), ("path", Mark::Other), ("query", Mark::Inside), ("headers", Mark::Inside),
        ("replace", Mark::Other),
    ]),
    ("path_rule", &[
        ("regex", Mark::Other), ("replace", Mark::Other),
    ]),
    ("value_rule", &[
        ("regex", Mark::Other), ("replace", Mark::Other),
    ]),
    ("query_changes", &[
        ("remove", Mark::Need), ("rename", Mark::Other), ("set", Mark::Unknown), ("append", Mark::Other),
        ("set_if_absent", Mark::Other),
    ]),
    ("request_headers", &[
        ("remove", Mark::Need), ("rename", Mark::Other), ("set", Mark::Unknown), ("append", Mark::Other),
        ("set_if_absent", Mark::Other),
    ]),
    ("response_headers", &[
        ("remove", Mark::Hidden), ("rename", Mark::Other), ("set", Mark::Protections),
        ("append", Mark::AddedProtections), ("set_if_absent", Mark::AddedProtections),
    ]),
    ("response_transform", &[
        ("when", Mark::Other), ("status", Mark::Neutral), ("security", Mark::Scale(ON)), ("headers", Mark::Inside),
        ("replace", Mark::Other), ("cookies", Mark::Rules),
    ]),
    ("cookie_rule", &[
        ("names", Mark::AllOf), ("secure", Mark::Scale(ON_OR_LEFT)), ("http_only", Mark::Scale(ON_OR_LEFT)),
        ("same_site", Mark::Scale(&["strict", "lax", "", "none"])), ("path", Mark::Other),
        ("domain", Mark::Other),
    ]),
    ("compress", &[
        ("algorithms", Mark::Neutral), ("types", Mark::Grant), ("min_size", Mark::Neutral),
        ("gzip_level", Mark::Neutral), ("brotli_level", Mark::Neutral), ("zstd_level", Mark::Neutral),
        ("cookies", Mark::Scale(OFF)), ("except", Mark::Need), ("padding", Mark::Smaller), ("events", Mark::Scale(OFF)),
        ("requests", Mark::Need),
    ]),
    ("compress_requests", &[
        ("decode", Mark::Need), ("max_size", Mark::Larger), ("max_ratio", Mark::Larger),
        ("max_window", Mark::Larger), ("unsupported", Mark::Scale(&["refuse", "pass"])),
    ]),
    ("jwt_revocations", &[
        ("file", Mark::Unknown), ("capacity", Mark::Smaller), ("store", Mark::Need),
        ("without_store", Mark::Scale(&["deny", "", "keep"])), ("stale_after", Mark::Larger),
    ]),
    ("state", &[("directory", Mark::Neutral), ("history", Mark::Neutral)]),
    ("access_log", &[
        ("stdout", Mark::Neutral), ("file", Mark::Inside), ("syslog", Mark::Inside), ("otlp", Mark::Neutral),
        ("format", Mark::Other),
        ("request_headers", Mark::Grant), ("response_headers", Mark::Grant), ("claims", Mark::Grant),
        ("only", Mark::Inside), ("share", Mark::Smaller), ("always", Mark::Inside),
    ]),
    ("store", &[
        ("address", Mark::Neutral), ("cluster", Mark::Neutral), ("sentinel", Mark::Neutral),
        ("hash_key", Mark::Neutral), ("username", Mark::Neutral), ("password", Mark::Neutral),
        ("database", Mark::Neutral), ("tls", Mark::Need), ("timeout", Mark::Neutral),
    ]),
    ("shared_limit", &[("store", Mark::Neutral), ("mode", Mark::Scale(&["exact", "", "lease"])),
        ("without_store", Mark::Scale(&["deny", "local", "", "allow"]))]),
    ("collector", &[
        ("endpoint", Mark::Neutral), ("protocol", Mark::Neutral), ("headers", Mark::Neutral), ("tls", Mark::Need),
        ("compression", Mark::Neutral), ("timeout", Mark::Neutral), ("service", Mark::Neutral), ("resource", Mark::Neutral),
    ]),
    ("source", &[
        ("local_files", Mark::Scale(OFF)), ("http", Mark::Inside), ("kubernetes", Mark::Inside), ("etcd", Mark::Inside),
        ("consul", Mark::Inside), ("docker", Mark::Inside),
    ]),
    ("consul_service", &[("name", Mark::Neutral), ("tags", Mark::Neutral), ("datacenter", Mark::Neutral), ("feed", Mark::Neutral)]),
    ("docker_source", &[("endpoint", Mark::Neutral), ("network", Mark::Neutral), ("tls", Mark::Need),
        ("interval", Mark::Neutral), ("timeout", Mark::Neutral)]),
    ("kubernetes_source", &[
        ("controller_name", Mark::Neutral), ("namespaces", Mark::Neutral), ("addresses", Mark::Neutral),
        ("network", Mark::Neutral), ("kubeconfig", Mark::Neutral),
    ]),
    ("consul_source", &[
        ("endpoints", Mark::Neutral), ("prefix", Mark::Neutral), ("services", Mark::Inside), ("token", Mark::Neutral),
        ("tls", Mark::Need), ("interval", Mark::Neutral), ("timeout", Mark::Neutral),
    ]),
    ("etcd_source", &[
        ("endpoints", Mark::Neutral), ("prefix", Mark::Neutral), ("username", Mark::Neutral), ("password", Mark::Neutral),
        ("tls", Mark::Need), ("interval", Mark::Neutral), ("timeout", Mark::Neutral),
    ]),
    ("http_source", &[
        ("url", Mark::Neutral), ("interval", Mark::Neutral), ("timeout", Mark::Neutral), ("headers", Mark::Neutral),
        ("tls", Mark::Need), ("public_key", Mark::Need), ("max_size", Mark::Neutral),
    ]),
    ("tracing", &[
        ("collector", Mark::Neutral), ("share", Mark::Neutral), ("rate", Mark::Neutral), ("parent", Mark::Neutral),
        ("always", Mark::Neutral), ("propagation", Mark::Neutral),
    ]),
    ("trace_always", &[("failures", Mark::Neutral), ("slower_than", Mark::Neutral)]),
    ("log_file", &[("path", Mark::Neutral), ("rotate", Mark::Inside)]),
    ("log_rotation", &[("size", Mark::Neutral), ("age", Mark::Neutral), ("keep", Mark::Smaller)]),
    ("syslog", &[("address", Mark::Neutral), ("facility", Mark::Neutral), ("tag", Mark::Neutral)]),
    ("log_only", &[
        ("routes", Mark::AllOf), ("statuses", Mark::AllOf), ("slower_than", Mark::Other),
    ]),
    ("log_always", &[
        ("failures", Mark::Scale(ON)), ("statuses", Mark::Need), ("slower_than", Mark::Larger),
    ]),
    ("limits", &[
        ("head", Mark::Larger), ("target", Mark::Larger), ("fields", Mark::Larger), ("body", Mark::Larger),
        ("field_names", Mark::Scale(&["strict", "lenient"])), ("chunk_line", Mark::Larger),
        ("trailers", Mark::Larger), ("requests_per_connection", Mark::Larger), ("pipeline", Mark::Larger),
        ("streams", Mark::Larger), ("stream_window", Mark::Larger), ("connection_window", Mark::Larger),
        ("tunnels", Mark::Larger), ("decoding_memory", Mark::Larger), ("body_rate", Mark::Smaller),
        ("request_buffer", Mark::Larger), ("retry_body", Mark::Neutral), ("request_memory", Mark::Larger),
        ("response_rate", Mark::Smaller), ("response_buffer", Mark::Larger), ("response_memory", Mark::Larger),
        ("mirror_memory", Mark::Larger),
        ("response_head", Mark::Larger), ("response_fields", Mark::Larger), ("response_trailers", Mark::Larger),
    ]),
    ("timeouts", &[
        ("handshake", Mark::Larger), ("head", Mark::Larger), ("idle", Mark::Larger), ("body", Mark::Larger),
        ("write", Mark::Larger), ("connect", Mark::Neutral), ("response", Mark::Neutral),
        ("response_body", Mark::Neutral), ("tunnel", Mark::Larger), ("total", Mark::Larger),
        ("deadline_header", Mark::Neutral), ("drain", Mark::Neutral), ("upgrade", Mark::Neutral),
        ("drain_delay", Mark::Neutral),
    ]),
    ("forwarding", &[
        ("trusted_proxies", Mark::Grant), ("trusted_field", Mark::Unknown), ("x_forwarded", Mark::Scale(ON)),
        ("x_real_ip", Mark::Scale(ON)), ("forwarded", Mark::Scale(ON)), ("request_id", Mark::Unknown),
        ("respond_with_id", Mark::Neutral),
        ("via", Mark::Need), ("client_cert", Mark::Scale(&["chain", "leaf", "off"])),
        ("server", Mark::Scale(&["remove", "", "pass"])),
    ]),
    ("pressure", &[
        ("stop_keep_alive", Mark::Neutral), ("shed", Mark::Neutral), ("stop_accepting", Mark::Larger),
        ("max_memory", Mark::Neutral), ("max_lag", Mark::Neutral),
    ]),
    ("recorder", &[
        ("memory", Mark::Neutral),
    ]),
    ("log", &[
        ("level", Mark::Scale(LEVELS)), ("areas", Mark::Scale(LEVELS)), ("format", Mark::Neutral),
    ]),
    ("resolver", &[
        ("nameservers", Mark::Other), ("min_ttl", Mark::Neutral), ("max_ttl", Mark::Neutral),
        ("timeout", Mark::Neutral),
    ]),
    ("admin", &[
        ("address", Mark::Exposure), ("probes", Mark::Exposure),
        ("socket", Mark::Neutral), ("tls", Mark::Need), ("tokens", Mark::Grant),
        ("metrics_series", Mark::Neutral), ("dashboard", Mark::Scale(OFF)),
        ("trace_url", Mark::Neutral),
    ]),
    ("admin_token", &[
        ("sha256", Mark::Neutral), ("rights", Mark::Scale(&["read", "full"])),
    ]),
];

#[cfg(test)]
mod tests;
