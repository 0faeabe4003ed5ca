//! What the annotations of ingress-nginx ask for, in the terms of Titan's routes.

use super::values::{self, auth_service, flag, list, networks, redirect, seconds, size};
use crate::objects::{Cors, More};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use titan_config::bounds::MAX_ORIGINS;

/// What annotations of ingress-nginx begin with.
const PREFIX: &str = "nginx.ingress.kubernetes.io/";
/// Those that keep requests away. An Ingress is not served without what they ask for.
const PROTECTIVE: [&str; 18] = [
    "auth-type",
    "auth-secret",
    "auth-secret-type",
    "auth-tls-secret",
    "auth-tls-verify-client",
    "enable-modsecurity",
    "enable-owasp-core-rules",
    "modsecurity-snippet",
    "proxy-ssl-verify",
    // What a snippet does nobody knows: `deny all` is among it.
    "configuration-snippet",
    "server-snippet",
    "auth-snippet",
    "auth-url",
    "whitelist-source-range",
    "allowlist-source-range",
    "denylist-source-range",
    "backend-protocol",
    "proxy-body-size",
];
/// What those begin with that limit clients over all gateways.
const GLOBAL_LIMIT: &str = "global-rate-limit";
/// Switches among what protects: turned off, they ask for nothing.
const SWITCHES: [&str; 4] =
    ["auth-tls-verify-client", "enable-modsecurity", "enable-owasp-core-rules", "proxy-ssl-verify"];
/// Those that say how nginx does something and change nothing else.
const WITHOUT_MEANING: [&str; 11] = [
    // A client stays with its pod as long as that is there and healthy.
    "affinity-mode",
    "affinity-canary-behavior",
    "session-cookie-change-on-failure",
    "proxy-buffering",
    "proxy-buffer-size",
    "proxy-buffers-number",
    "proxy-request-buffering",
    "proxy-http-version",
    "service-upstream",
    "client-body-buffer-size",
    "enable-access-log",
];
/// The most methods, or names of fields, of CORS.
const MAX_NAMES: usize = 32;
/// The statuses of redirects.
const REDIRECTS: [u16; 5] = [301, 302, 303, 307, 308];
/// The cookie that ties clients to pods.
const COOKIE: &str = "INGRESSCOOKIE";
/// How many times a rate may be exceeded at once.
const BURST: u64 = 5;

/// What is spoken to the pods of an Ingress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Speaks {
    /// HTTP without TLS.
    #[default]
    Http,
    /// With TLS, whose certificates nobody checks.
    Https,
    /// gRPC without TLS.
    Grpc,
}

/// What annotations ask for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wishes {
    pub(crate) more: More,
    pub(crate) cors: Option<Cors>,
    pub(crate) speaks: Speaks,
    pub(crate) rewrite: Option<String>,
    /// Whether paths are regular expressions.
    pub(crate) is_regex: bool,
    /// Whether requests without TLS are sent to TLS: where there is a certificate, unless it says otherwise.
    pub(crate) redirects: Option<bool>,
    /// The same whoever has the certificate, and whatever `redirects` says.
    pub(crate) is_forced: bool,
    /// The response to requests for `/`.
    pub(crate) app_root: Option<Value>,
    pub(crate) aliases: Vec<String>,
    pub(crate) canary: Option<Canary>,
    /// Why nothing of it may be served.
    pub(crate) refusal: Option<String>,
    /// What has no effect.
    pub(crate) warnings: Vec<String>,
}

/// Which requests an Ingress takes from another one with the same hosts and paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Canary {
    /// Its share of all.
    pub(crate) weight: u32,
    pub(crate) total: Option<u32>,
    pub(crate) header: Option<String>,
    pub(crate) value: Option<String>,
    pub(crate) pattern: Option<String>,
    pub(crate) cookie: Option<String>,
    /// What of it cannot be read.
    pub(crate) problem: Option<String>,
}

impl Wishes {
    /// Reads annotations; those of others are passed over.
    pub(crate) fn read(annotations: &BTreeMap<String, String>) -> Wishes {
        let all = annotations.iter();
        let all = all.filter_map(|(name, value)| Some((name.strip_prefix(PREFIX)?, value.trim())));
        let named: BTreeMap<&str, &str> = all.collect();
        let mut wishes = Wishes::default();
        for (name, value) in &named {
            match wishes.note(name, value, &named) {
                Ok(()) => {}
                Err(why) if is_protective(name) => {
                    wishes.refusal =
                        Some(format!("`{name}`: {why}, and nothing is served without it"));
                }
                Err(why) if name.starts_with("canary-") => {
                    wishes.canary().problem = Some(format!("`{name}`: {why}"));
                }
                Err(why) => wishes.warnings.push(format!("`{name}`: {why}, and has no effect")),
            }
        }
        if is_on(&named, "canary") {
            wishes.canary();
        } else {
            wishes.canary = None;
        }
        wishes.limit(&named);
        wishes.stick(&named);
        wishes.share(&named);
        wishes
    }

    fn note(
        &mut self,
        name: &str,
        value: &str,
        all: &BTreeMap<&str, &str>,
    ) -> Result<(), &'static str> {
        match name {
            "rewrite-target" => self.rewrite = Some(value.to_owned()),
            "use-regex" => self.is_regex = flag(value)?,
            "ssl-redirect" => self.redirects = Some(flag(value)?),
            "force-ssl-redirect" => self.is_forced = flag(value)?,
            "app-root" if value.starts_with('/') => self.app_root = Some(redirect(value, 302)?),
            "app-root" => return Err("it is no path"),
            "server-alias" => {
                let (hosts, bad) = list(value).into_iter().partition(|it| values::is_host(it));
                self.aliases = hosts;
                let bad: Vec<String> = bad;
                if !bad.is_empty() {
                    return Err("what is no host is not served");
                }
            }
            "permanent-redirect" => {
                let status = all.get("permanent-redirect-code").and_then(|it| it.parse().ok());
                let status = status.filter(|it| REDIRECTS.contains(it)).unwrap_or(301);
                self.more.respond = Some(redirect(value, status)?);
            }
            "temporal-redirect" => self.more.respond = Some(redirect(value, 302)?),
            "proxy-body-size" => {
                let size = size(value).ok_or("it is no size")?;
                self.put("limits", "body", size);
            }
            "proxy-connect-timeout" => self.put("timeouts", "connect", seconds(value)?),
            "proxy-read-timeout" => {
                let time = seconds(value)?;
                self.put("timeouts", "response", time.clone());
                self.put("timeouts", "response_body", time);
            }
            "backend-protocol" => {
                self.speaks = match value.to_ascii_uppercase().as_str() {
                    "HTTP" | "AUTO_HTTP" => Speaks::Http,
                    "HTTPS" => Speaks::Https,
                    "GRPC" => Speaks::Grpc,
                    _ => return Err("HTTP, HTTPS and GRPC are spoken"),
                }
            }
            "whitelist-source-range" | "allowlist-source-range" => {
                let networks = networks(value).ok_or("it is no list of networks")?;
                self.policy("authorise")["allow"] = networks;
            }
            "denylist-source-range" => {
                let networks = networks(value).ok_or("it is no list of networks")?;
                self.policy("authorise")["deny"] = networks;
            }
            "auth-url" => self.more.auth = Some(auth_service(value, all)?),
            "canary" => drop(flag(value)?),
            "canary-weight" => self.canary().weight = values::weight(value)?,
            "canary-weight-total" => self.canary().total = Some(values::weight(value)?),
            "canary-by-header" => self.canary().header = Some(values::token(value)?),
            "canary-by-header-value" => self.canary().value = Some(values::field_value(value)?),
            "canary-by-header-pattern" => self.canary().pattern = Some(values::pattern(value)?),
            "canary-by-cookie" => self.canary().cookie = Some(values::token(value)?),
            "enable-cors" | "cors-allow-credentials" => drop(flag(value)?),
            "affinity" if value == "cookie" => {}
            "affinity" => return Err("clients are tied to pods by `cookie` alone"),
            "session-cookie-name" => drop(values::token(value)?),
            "session-cookie-max-age" | "session-cookie-expires" => drop(values::age(value)?),
            "session-cookie-secure" => drop(flag(value)?),
            "session-cookie-samesite" => {
                let _ = values::same_site(value, is_on(all, "session-cookie-secure"))?;
            }
            "session-cookie-path" if value != "/" => return Err("the cookie is for all paths"),
            // Read together with others.
            "permanent-redirect-code"
            | "auth-method"
            | "auth-response-headers"
            | "limit-rps"
            | "limit-rpm"
            | "limit-connections"
            | "limit-burst-multiplier"
            | "limit-whitelist"
            | "session-cookie-path" => {}
            name if name.starts_with("cors-") => {}
            name if WITHOUT_MEANING.contains(&name) => {}
            name if SWITCHES.contains(&name) && values::is_off(value) => {}
            _ => return Err("it is not supported"),
        }
        Ok(())
    }

    fn put(&mut self, section: &str, key: &str, value: Value) {
        let section = self.more.fields.entry(section).or_insert_with(|| json!({}));
        section[key] = value;
    }

    fn policy(&mut self, kind: &str) -> &mut Value {
        self.more.policies.entry(kind).or_insert_with(|| json!({}))
    }

    fn canary(&mut self) -> &mut Canary {
        self.canary.get_or_insert_default()
    }

    fn limit(&mut self, all: &BTreeMap<&str, &str>) {
        let number = |name: &str| all.get(name).and_then(|it| it.parse::<u64>().ok());
        let burst = number("limit-burst-multiplier").unwrap_or(BURST).clamp(1, 1_000);
        let mut limit = Map::new();
        let mut rates = Vec::new();
        for (name, unit) in [("limit-rps", "s"), ("limit-rpm", "m")] {
            let Some(text) = all.get(name) else { continue };
            match number(name) {
                Some(0) => {}
                Some(rate) if rate <= 1_000_000 => {
                    rates.push(json!({ "rate": format!("{rate}/{unit}"), "burst": rate * burst }));
                }
                _ => self.refusal = Some(format!("`{name}`: {text} is no rate")),
            }
        }
        if !rates.is_empty() {
            limit.insert("rates".to_owned(), rates.into());
        }
        if let Some(text) = all.get("limit-connections") {
            match number("limit-connections") {
                Some(0) => {}
                Some(most) if most <= 1_000_000 => {
                    limit.insert("concurrency".to_owned(), most.into());
                }
                _ => self.refusal = Some(format!("`limit-connections`: {text} is no number")),
            }
        }
        if limit.is_empty() {
            return;
        }
        match all.get("limit-whitelist").map(|it| networks(it)) {
            None => {}
            Some(Some(networks)) => {
                limit.insert("exempt".to_owned(), json!({ "addresses": networks }));
            }
            Some(None) => self
                .warnings
                .push("`limit-whitelist`: it is no list of networks, and has no effect".to_owned()),
        }
        self.more.policies.insert("rate_limit".to_owned(), Value::Object(limit));
    }

    /// Ties clients to pods by a cookie.
    fn stick(&mut self, all: &BTreeMap<&str, &str>) {
        if all.get("affinity") != Some(&"cookie") {
            return;
        }
        let given = |name: &str| all.get(name).copied();
        let is_secure = is_on(all, "session-cookie-secure");
        let name = given("session-cookie-name").and_then(|it| values::token(it).ok());
        let mut cookie = json!({ "name": name.as_deref().unwrap_or(COOKIE) });
        let ages = ["session-cookie-max-age", "session-cookie-expires"];
        if let Some(age) = ages.into_iter().filter_map(given).find_map(|it| values::age(it).ok()) {
            cookie["max_age"] = age;
        }
        if is_secure {
            cookie["secure"] = true.into();
        }
        let site = given("session-cookie-samesite").map(|it| values::same_site(it, is_secure));
        if let Some(Ok(site)) = site {
            cookie["same_site"] = site.into();
        }
        self.more.balance = Some(json!({ "sticky_cookie": cookie }));
    }

    fn share(&mut self, all: &BTreeMap<&str, &str>) {
        if !is_on(all, "enable-cors") {
            return;
        }
        let mut given = |name: &str, usual: &str, is_good: fn(&str) -> bool, most: usize| {
            let mut items = list(all.get(name).copied().unwrap_or(usual));
            for bad in items.extract_if(.., |it| !is_good(it)) {
                self.warnings.push(format!("`{name}`: {bad} cannot be served, and has no effect"));
            }
            items.truncate(most);
            items
        };
        let is_name = |text: &str| values::token(text).is_ok();
        let allow_origins = given("cors-allow-origin", "*", values::is_origin, MAX_ORIGINS);
        let usual = "GET,PUT,POST,DELETE,PATCH,OPTIONS";
        let allow_methods = given("cors-allow-methods", usual, values::is_method, MAX_NAMES);
        let usual = "DNT,Keep-Alive,User-Agent,X-Requested-With,If-Modified-Since,Cache-Control,Content-Type,Range,Authorization";
        let allow_headers = given("cors-allow-headers", usual, is_name, MAX_NAMES);
        let expose_headers = given("cors-expose-headers", "", is_name, MAX_NAMES);
        if allow_origins.is_empty() {
            return;
        }
        // Any website could read what its visitor may.
        let is_for_all = allow_origins.iter().any(|it| it == "*");
        let asked = all.get("cors-allow-credentials").map(|it| flag(it) == Ok(true));
        if is_for_all && asked == Some(true) {
            let why = "with `*` among the origins every website could read what its visitors may";
            self.warnings.push(format!("`cors-allow-credentials`: {why}, and it has no effect"));
        }
        self.cors = Some(Cors {
            allow_origins,
            allow_credentials: Some(asked.unwrap_or(true) && !is_for_all),
            allow_methods,
            allow_headers,
            expose_headers,
            max_age: Some(
                all.get("cors-max-age").and_then(|it| it.parse().ok()).unwrap_or(1_728_000),
            ),
        });
    }
}

fn is_protective(name: &str) -> bool {
    PROTECTIVE.contains(&name) || name.starts_with(GLOBAL_LIMIT)
}

/// Whether a switch is there, and on.
fn is_on(all: &BTreeMap<&str, &str>, name: &str) -> bool {
    all.get(name).is_some_and(|it| flag(it) == Ok(true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::AuthService;

    fn read(text: &str) -> Wishes {
        let all = text.lines().filter_map(|line| line.trim().split_once(": "));
        let all = all.map(|(name, value)| (format!("{PREFIX}{name}"), value.to_owned()));
        Wishes::read(&all.collect())
    }

    #[test]
    fn annotations_become_fields_and_policies() {
        for (text, fields, policies) in [
            ("proxy-body-size: 8m", json!({ "limits": { "body": "8MiB" } }), json!({})),
            ("proxy-body-size: 0", json!({ "limits": { "body": "unlimited" } }), json!({})),
            (
                "proxy-connect-timeout: 5\nproxy-read-timeout: 60s",
                json!({ "timeouts": { "connect": "5s", "response": "60s", "response_body": "60s" } }),
                json!({}),
            ),
            (
                "whitelist-source-range: 10.0.0.0/8, 192.0.2.1\ndenylist-source-range: 10.1.0.0/16",
                json!({}),
                json!({ "authorise": { "allow": ["10.0.0.0/8", "192.0.2.1"], "deny": ["10.1.0.0/16"] } }),
            ),
            (
                "limit-rps: 10\nlimit-rpm: 100\nlimit-burst-multiplier: 2\nlimit-connections: 7\nlimit-whitelist: 10.0.0.0/8",
                json!({}),
                json!({ "rate_limit": {
                    "rates": [{ "rate": "10/s", "burst": 20 }, { "rate": "100/m", "burst": 200 }],
                    "concurrency": 7, "exempt": { "addresses": ["10.0.0.0/8"] },
                } }),
            ),
        ] {
            let Wishes { more, refusal, warnings, .. } = read(text);
            assert_eq!(
                (Value::Object(more.fields), Value::Object(more.policies)),
                (fields, policies),
                "{text}"
            );
            assert_eq!((refusal, warnings), (None, Vec::new()), "{text}");
        }
    }

    #[test]
    fn a_cookie_ties_clients_to_pods() {
        for (text, expected, is_warned) in [
            ("affinity: cookie", Some(json!({ "name": "INGRESSCOOKIE" })), false),
            (
                "affinity: cookie\nsession-cookie-name: route\nsession-cookie-max-age: 3600\nsession-cookie-secure: true\n\
                 session-cookie-samesite: None\naffinity-mode: persistent\nsession-cookie-path: /",
                Some(
                    json!({ "name": "route", "max_age": "3600s", "secure": true, "same_site": "none" }),
                ),
                false,
            ),
            // A browser would drop it.
            (
                "affinity: cookie\nsession-cookie-samesite: None",
                Some(json!({ "name": "INGRESSCOOKIE" })),
                true,
            ),
            (
                "affinity: cookie\nsession-cookie-name: a b\nsession-cookie-path: /shop",
                Some(json!({ "name": "INGRESSCOOKIE" })),
                true,
            ),
            ("affinity: ip", None, true),
            ("session-cookie-name: route", None, false),
        ] {
            let Wishes { more, refusal, warnings, .. } = read(text);
            let expected = expected.map(|cookie| json!({ "sticky_cookie": cookie }));
            assert_eq!(more.balance, expected, "{text}");
            assert_eq!((refusal, !warnings.is_empty()), (None, is_warned), "{text}: {warnings:?}");
        }
    }

    #[test]
    fn what_protects_is_not_left_out() {
        for (text, is_refused, is_warned) in [
            ("auth-type: basic", true, false),
            ("whitelist-source-range: office", true, false),
            ("auth-url: https://$host/auth", true, false),
            ("auth-url: http://sso/\nauth-method: PUT", true, false),
            ("denylist-source-range: 10.0.0.0/33", true, false),
            ("proxy-body-size: 9999999999g", true, false),
            ("server-alias: ~^www", false, true),
            ("limit-rps: many", true, false),
            ("backend-protocol: FCGI", true, false),
            ("configuration-snippet: deny all;", true, false),
            ("server-snippet: deny all;", true, false),
            ("auth-snippet: deny all;", true, false),
            ("modsecurity-snippet: SecRuleEngine On", true, false),
            ("global-rate-limit: 10", true, false),
            ("global-rate-limit-window: 1s", true, false),
            ("denylist-source-range: office", true, false),
            ("enable-modsecurity: true", true, false),
            ("enable-modsecurity: false", false, false),
            ("enable-owasp-core-rules: False", false, false),
            ("proxy-ssl-verify: on", true, false),
            ("proxy-ssl-verify: off", false, false),
            ("auth-tls-verify-client: off", false, false),
            ("proxy-send-timeout: 5", false, true),
            ("ssl-redirect: perhaps", false, true),
            ("permanent-redirect: https://other.io$request_uri", false, true),
            ("proxy-buffering: off", false, false),
        ] {
            let Wishes { refusal, warnings, .. } = read(text);
            assert_eq!(
                (refusal.is_some(), !warnings.is_empty()),
                (is_refused, is_warned),
                "{text}"
            );
        }
    }

    #[test]
    fn a_service_decides_about_requests() {
        let auth = read(
            "auth-url: http://auth.sso.svc/oauth2/auth?a=b\nauth-response-headers: X-User, X-Email",
        );
        let expected = AuthService {
            endpoint: "auth.sso.svc:80".to_owned(),
            has_tls: false,
            policy: json!({ "path": "/oauth2/auth?a=b", "upstream_headers": ["X-User", "X-Email"] }),
        };
        assert_eq!(auth.more.auth, Some(expected));
    }
}
