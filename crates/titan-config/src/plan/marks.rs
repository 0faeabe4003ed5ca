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
    /// Any other value may be weaker, and so may none.
    Unknown,
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

/// Whether the order of a list means something.
pub(super) fn is_ordered(section: &str, key: &str) -> bool {
    ORDERED.contains(&(section, key))
}

const ON: &[&str] = &["true", "false"];
const OFF: &[&str] = &["false", "true"];
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

/// Credentials are neutral: who has a key or a password is not how much is asked of them.
#[rustfmt::skip]
const MARKS: &[(&str, &[(&str, Mark)])] = &[
    ("file", &[
        ("include", Mark::Joined), ("workers", Mark::Inside), ("listeners", Mark::Inside), ("routes", Mark::Inside),
        ("upstreams", Mark::Inside), ("policies", Mark::Inside), ("apply", Mark::Chain),
        ("jwt_revocations", Mark::Need), ("state", Mark::Neutral), ("limits", Mark::Inside), ("error_pages", Mark::Neutral),
        ("paths", Mark::Inside), ("timeouts", Mark::Inside), ("forwarding", Mark::Inside), ("resolver", Mark::Inside),
        ("admin", Mark::Inside),
    ]),
    ("workers", &[
        ("threads", Mark::Neutral), ("pin", Mark::Neutral),
    ]),
    ("listener", &[
        ("name", Mark::Neutral), ("address", Mark::Exposure), ("proxy_protocol", Mark::Grant), ("tls", Mark::Need),
        ("redirect_to_https", Mark::Need), ("protocols", Mark::Neutral), ("max_connections", Mark::Larger),
        ("max_connections_per_client", Mark::Larger),
    ]),
    ("proxy_protocol", &[
        ("from", Mark::Grant),
    ]),
    ("tls", &[
        ("certificates", Mark::Neutral), ("unknown_name", Mark::Scale(&["refuse", "default"])),
        ("min_version", Mark::Scale(&["1.3", "1.2"])), ("ciphers", Mark::OneOf), ("hsts", Mark::Need),
        ("client_certificates", Mark::Need),
    ]),
    ("certificate", &[
        ("cert", Mark::Neutral), ("key", Mark::Neutral),
    ]),
    ("hsts", &[
        ("max_age", Mark::Smaller), ("include_subdomains", Mark::Scale(ON)), ("preload", Mark::Scale(ON)),
    ]),
    ("client_certificates", &[
        ("mode", Mark::Scale(&["required", "optional"])), ("ca", Mark::Unknown), ("crl", Mark::Need),
    ]),
    ("route", &[
        ("name", Mark::Neutral), ("host", Mark::Request), ("path", Mark::Request), ("prefix", Mark::Request),
        ("methods", Mark::Request), ("headers", Mark::Request), ("query", Mark::Request),
        ("client_certificate", Mark::Need), ("priority", Mark::Request), ("upstream", Mark::Neutral),
        ("redirect", Mark::Neutral), ("respond", Mark::Neutral), ("files", Mark::Neutral), ("rewrite", Mark::Neutral),
        ("send_host", Mark::Neutral), ("retries", Mark::Neutral), ("upgrades", Mark::Neutral), ("apply", Mark::Chain),
        ("without", Mark::Chain), ("grpc_web", Mark::Neutral), ("error_pages", Mark::Neutral),
        ("paths", Mark::Inside), ("timeouts", Mark::Inside), ("limits", Mark::Inside),
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
        ("content_type", Mark::Neutral), ("headers", Mark::Neutral),
    ]),
    ("error_page", &[
        ("body", Mark::Neutral), ("content_type", Mark::Neutral),
    ]),
    ("files", &[
        ("root", Mark::Unknown), ("index", Mark::Neutral), ("strip_prefix", Mark::Neutral),
        ("precompressed", Mark::Neutral), ("dotfiles", Mark::Scale(OFF)), ("cache_control", Mark::Neutral),
        ("cache_rules", Mark::Neutral), ("fallback", Mark::Neutral), ("error_pages", Mark::Neutral),
        ("types", Mark::Neutral),
    ]),
    ("cache_rule", &[
        ("name", Mark::Neutral), ("types", Mark::Neutral), ("cache_control", Mark::Neutral),
    ]),
    ("rewrite", &[
        ("prefix", Mark::Neutral), ("path", Mark::Neutral),
    ]),
    ("paths", &[
        ("encoded_slashes", Mark::Scale(&["refuse", "keep"])), ("parameters", Mark::Scale(&["refuse", "keep"])),
        ("case", Mark::Scale(&["refuse", "keep"])),
    ]),
    ("route_timeouts", &[
        ("body", Mark::Larger), ("write", Mark::Larger), ("connect", Mark::Neutral), ("response", Mark::Neutral),
        ("response_body", Mark::Neutral), ("tunnel", Mark::Neutral),
    ]),
    ("route_limits", &[
        ("body", Mark::Larger), ("retry_body", Mark::Neutral),
    ]),
    ("upstream", &[
        ("endpoints", Mark::Neutral), ("balance", Mark::Neutral), ("tls", Mark::Need), ("protocol", Mark::Neutral),
        ("max_connections", Mark::Larger), ("max_idle", Mark::Neutral), ("idle_timeout", Mark::Neutral),
        ("queue", Mark::Inside),
    ]),
    ("endpoint", &[
        ("address", Mark::Neutral), ("weight", Mark::Neutral),
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
        ("ca", Mark::Unknown), ("name", Mark::Neutral), ("certificate", Mark::Neutral), ("verify", Mark::Scale(ON)),
    ]),
    ("queue", &[
        ("length", Mark::Neutral), ("timeout", Mark::Neutral),
    ]),
    ("policy", &[
        ("cors", Mark::Grant), ("maintenance", Mark::Neutral), ("early_limit", Mark::Need),
        ("failure_limit", Mark::Need), ("jwt", Mark::Need), ("authorise", Mark::Need), ("rate_limit", Mark::Need),
        ("transform", Mark::Neutral), ("compress", Mark::Neutral),
    ]),
    ("cors", &[
        ("origins", Mark::OneOf), ("methods", Mark::OneOf), ("headers", Mark::OneOf), ("expose", Mark::Grant),
        ("credentials", Mark::Scale(OFF)), ("max_age", Mark::Neutral), ("private_network", Mark::Scale(OFF)),
        ("websockets", Mark::Scale(ON)),
    ]),
    ("cors_origin", &[
        ("regex", Mark::Unknown),
    ]),
    ("maintenance", &[
        ("enabled", Mark::Neutral), ("message", Mark::Neutral), ("allow", Mark::Neutral),
        ("retry_after", Mark::Neutral),
    ]),
    ("rate_limit", &[
        ("key", Mark::Grant), ("ipv6_prefix", Mark::Larger), ("rates", Mark::Rates), ("plans", Mark::Grant),
        ("concurrency", Mark::Larger), ("costs", Mark::Smaller), ("max_delay", Mark::Neutral),
        ("exempt", Mark::Grant), ("shadow", Mark::Scale(OFF)), ("capacity", Mark::Neutral),
    ]),
    ("rate_key", &[
        ("header", Mark::Neutral), ("cookie", Mark::Neutral), ("query", Mark::Neutral), ("claim", Mark::Neutral),
        ("param", Mark::Neutral),
    ]),
    ("rate", &[
        ("rate", Mark::Unknown), ("burst", Mark::Larger),
    ]),
    ("rate_plans", &[
        ("claim", Mark::Unknown), ("rates", Mark::Rates),
    ]),
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
        ("providers", Mark::OneOf), ("token", Mark::Neutral), ("forward", Mark::Scale(OFF)),
        ("headers", Mark::Neutral), ("require", Mark::Need), ("required", Mark::Scale(ON)), ("leeway", Mark::Larger),
        ("max_age", Mark::Larger), ("types", Mark::OneOf), ("realm", Mark::Neutral), ("cache", Mark::Neutral),
    ]),
    ("jwt_provider", &[
        ("issuer", Mark::Unknown), ("audience", Mark::OneOf), ("algorithms", Mark::OneOf), ("keys", Mark::Unknown),
    ]),
    ("jwt_keys", &[
        ("pem", Mark::OneOf), ("secret", Mark::Neutral), ("secret_file", Mark::Neutral), ("jwks", Mark::Unknown),
        ("jwks_url", Mark::Unknown),
    ]),
    ("jwks_url", &[
        ("url", Mark::Unknown), ("ca", Mark::Unknown), ("refresh", Mark::Larger), ("pause", Mark::Neutral),
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
        ("header", Mark::Neutral), ("query", Mark::Grant), ("identity_header", Mark::Neutral),
        ("keys", Mark::Neutral), ("file", Mark::Neutral),
    ]),
    ("granted", &[
        ("all", Mark::Need), ("any", Mark::OneOf), ("claim", Mark::Unknown),
    ]),
    ("basic", &[
        ("users", Mark::Neutral), ("file", Mark::Neutral), ("realm", Mark::Neutral),
        ("identity_header", Mark::Neutral), ("forward", Mark::Scale(OFF)),
    ]),
    ("forward_auth", &[
        ("upstream", Mark::Unknown), ("path", Mark::Unknown), ("method", Mark::Neutral),
        ("request_headers", Mark::Neutral), ("upstream_headers", Mark::Neutral), ("response_headers", Mark::Neutral),
        ("timeout", Mark::Neutral), ("body_limit", Mark::Neutral), ("cache", Mark::Grant),
    ]),
    ("auth_cache", &[
        ("ttl", Mark::Larger), ("key", Mark::AllOf), ("capacity", Mark::Neutral),
    ]),
    ("auth_key", &[
        ("header", Mark::Neutral),
    ]),
    ("transform", &[
        ("request", Mark::Inside), ("response", Mark::Inside),
    ]),
    ("request_transform", &[
        ("when", Mark::Neutral), ("path", Mark::Neutral), ("query", Mark::Inside), ("headers", Mark::Inside),
        ("replace", Mark::Neutral),
    ]),
    ("path_rule", &[
        ("regex", Mark::Neutral), ("replace", Mark::Neutral),
    ]),
    ("value_rule", &[
        ("regex", Mark::Neutral), ("replace", Mark::Neutral),
    ]),
    ("query_changes", &[
        ("remove", Mark::Need), ("rename", Mark::Neutral), ("set", Mark::Neutral), ("append", Mark::Neutral),
        ("set_if_absent", Mark::Neutral),
    ]),
    ("request_headers", &[
        ("remove", Mark::Need), ("rename", Mark::Neutral), ("set", Mark::Neutral), ("append", Mark::Neutral),
        ("set_if_absent", Mark::Neutral),
    ]),
    ("response_headers", &[
        ("remove", Mark::Need), ("rename", Mark::Neutral), ("set", Mark::Neutral), ("append", Mark::Neutral),
        ("set_if_absent", Mark::Neutral),
    ]),
    ("response_transform", &[
        ("when", Mark::Neutral), ("status", Mark::Neutral), ("security", Mark::Scale(ON)), ("headers", Mark::Inside),
        ("replace", Mark::Neutral), ("cookies", Mark::Neutral),
    ]),
    ("cookie_rule", &[
        ("names", Mark::Neutral), ("secure", Mark::Scale(ON_OR_LEFT)), ("http_only", Mark::Scale(ON_OR_LEFT)),
        ("same_site", Mark::Scale(&["strict", "lax", "", "none"])), ("path", Mark::Neutral),
        ("domain", Mark::Neutral),
    ]),
    ("compress", &[
        ("algorithms", Mark::Neutral), ("types", Mark::Neutral), ("min_size", Mark::Neutral),
        ("gzip_level", Mark::Neutral), ("brotli_level", Mark::Neutral), ("zstd_level", Mark::Neutral),
        ("cookies", Mark::Scale(OFF)), ("except", Mark::Need), ("padding", Mark::Smaller), ("events", Mark::Neutral),
        ("requests", Mark::Neutral),
    ]),
    ("compress_requests", &[
        ("decode", Mark::Neutral), ("max_size", Mark::Larger), ("max_ratio", Mark::Larger),
        ("max_window", Mark::Larger), ("unsupported", Mark::Scale(&["refuse", "pass"])),
    ]),
    ("jwt_revocations", &[
        ("file", Mark::Unknown), ("capacity", Mark::Neutral),
    ]),
    ("state", &[
        ("directory", Mark::Neutral), ("history", Mark::Neutral),
    ]),
    ("limits", &[
        ("head", Mark::Larger), ("target", Mark::Larger), ("fields", Mark::Larger), ("body", Mark::Larger),
        ("field_names", Mark::Scale(&["strict", "lenient"])), ("chunk_line", Mark::Larger),
        ("trailers", Mark::Larger), ("requests_per_connection", Mark::Neutral), ("pipeline", Mark::Larger),
        ("streams", Mark::Larger), ("stream_window", Mark::Neutral), ("connection_window", Mark::Neutral),
        ("tunnels", Mark::Larger), ("decoding_memory", Mark::Larger), ("body_rate", Mark::Smaller),
        ("request_buffer", Mark::Neutral), ("retry_body", Mark::Neutral), ("request_memory", Mark::Larger),
        ("response_rate", Mark::Smaller), ("response_buffer", Mark::Neutral), ("response_memory", Mark::Larger),
        ("response_head", Mark::Larger), ("response_fields", Mark::Larger), ("response_trailers", Mark::Larger),
    ]),
    ("timeouts", &[
        ("handshake", Mark::Larger), ("head", Mark::Larger), ("idle", Mark::Neutral), ("body", Mark::Larger),
        ("write", Mark::Larger), ("connect", Mark::Neutral), ("response", Mark::Neutral),
        ("response_body", Mark::Neutral), ("tunnel", Mark::Neutral), ("drain", Mark::Neutral), ("upgrade", Mark::Neutral),
        ("drain_delay", Mark::Neutral),
    ]),
    ("forwarding", &[
        ("trusted_proxies", Mark::Grant), ("trusted_field", Mark::Unknown), ("x_forwarded", Mark::Neutral),
        ("x_real_ip", Mark::Neutral), ("forwarded", Mark::Neutral), ("request_id", Mark::Neutral),
        ("via", Mark::Neutral), ("client_cert", Mark::Neutral), ("server", Mark::Neutral),
    ]),
    ("resolver", &[
        ("nameservers", Mark::Neutral), ("min_ttl", Mark::Neutral), ("max_ttl", Mark::Neutral),
        ("timeout", Mark::Neutral),
    ]),
    ("admin", &[
        ("address", Mark::Exposure), ("probes", Mark::Exposure),
        ("socket", Mark::Neutral), ("tls", Mark::Need), ("tokens", Mark::Grant),
    ]),
    ("admin_token", &[
        ("sha256", Mark::Neutral), ("rights", Mark::Scale(&["read", "full"])),
    ]),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language::sections;
    use crate::shape::Shape;
    use std::collections::BTreeSet;

    fn words(shape: &Shape) -> Vec<&str> {
        match shape {
            Shape::Words(words) => words.clone(),
            Shape::Boolean => vec!["true", "false"],
            Shape::Either(shapes) => shapes.iter().flat_map(words).collect(),
            _ => Vec::new(),
        }
    }

    #[test]
    fn each_field_says_when_it_is_weaker() {
        let declared = sections()
            .iter()
            .flat_map(|section| section.fields.iter().map(|it| (section.name, it.key)));
        let declared = BTreeSet::from_iter(declared);
        let marked: Vec<_> = MARKS
            .iter()
            .flat_map(|(section, fields)| fields.iter().map(|(key, _)| (*section, *key)))
            .collect();
        let marked = BTreeSet::from_iter(marked);
        let missing: Vec<_> = declared.difference(&marked).collect();
        let gone: Vec<_> = marked.difference(&declared).collect();
        assert!(
            missing.is_empty() && gone.is_empty(),
            "decide in plan/marks.rs when these fields are weaker (`Mark::Neutral`: never): {missing:?}; \
             entries of fields that are gone: {gone:?}"
        );
        assert!(ORDERED.iter().all(|field| declared.contains(field)));
    }

    #[test]
    fn scales_have_all_words_of_their_fields() {
        for section in sections() {
            for field in &section.fields {
                let Mark::Scale(scale) = mark(section.name, field.key) else { continue };
                let missing: Vec<_> =
                    words(&field.shape).into_iter().filter(|word| !scale.contains(word)).collect();
                assert!(missing.is_empty(), "{}.{}: {missing:?}", section.name, field.key);
            }
        }
    }
}
