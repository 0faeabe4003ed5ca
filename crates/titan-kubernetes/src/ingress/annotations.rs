//! What the annotations of ingress-nginx ask for, in the terms of Titan's routes.

use crate::objects::{AuthService, Cors, More};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// What annotations of ingress-nginx begin with.
const PREFIX: &str = "nginx.ingress.kubernetes.io/";
/// Those that keep requests away. An Ingress is not served without what they ask for.
const PROTECTIVE: [&str; 9] = [
    "auth-type",
    "auth-secret",
    "auth-secret-type",
    "auth-tls-secret",
    "auth-tls-verify-client",
    "enable-modsecurity",
    "enable-owasp-core-rules",
    "modsecurity-snippet",
    "proxy-ssl-verify",
];
/// Those that say how nginx does something and change nothing else.
const WITHOUT_MEANING: [&str; 8] = [
    "proxy-buffering",
    "proxy-buffer-size",
    "proxy-buffers-number",
    "proxy-request-buffering",
    "proxy-http-version",
    "service-upstream",
    "client-body-buffer-size",
    "enable-access-log",
];
/// The statuses of redirects.
const REDIRECTS: [u16; 5] = [301, 302, 303, 307, 308];
/// How many times a rate may be exceeded at once.
const BURST: u64 = 5;
/// The longest time of anything, in seconds.
const MAX_SECONDS: u64 = 86_400;

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
    /// The same without a certificate, which something in front of the gateway may have.
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
                Err(why) => wishes.warnings.push(format!("`{name}`: {why}, and has no effect")),
            }
        }
        if named.get("canary").is_none_or(|it| *it != "true") {
            wishes.canary = None;
        }
        wishes.limit(&named);
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
            "server-alias" => self.aliases = list(value),
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
            "auth-url" => self.more.auth = Some(auth_service(value, all).ok_or("it is no URL")?),
            "canary-weight" => {
                self.canary().weight = value.parse().map_err(|_| "it is no number")?;
            }
            "canary-weight-total" => {
                self.canary().total = Some(value.parse().map_err(|_| "it is no number")?);
            }
            "canary-by-header" => self.canary().header = Some(value.to_owned()),
            "canary-by-header-value" => self.canary().value = Some(value.to_owned()),
            "canary-by-header-pattern" => self.canary().pattern = Some(value.to_owned()),
            "canary-by-cookie" => self.canary().cookie = Some(value.to_owned()),
            // Read together with others.
            "canary"
            | "permanent-redirect-code"
            | "auth-method"
            | "auth-response-headers"
            | "limit-rps"
            | "limit-rpm"
            | "limit-connections"
            | "limit-burst-multiplier"
            | "limit-whitelist"
            | "enable-cors" => {}
            name if name.starts_with("cors-") => {}
            name if WITHOUT_MEANING.contains(&name) => {}
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
        if let Some(networks) = all.get("limit-whitelist").and_then(|it| networks(it)) {
            limit.insert("exempt".to_owned(), json!({ "addresses": networks }));
        }
        self.more.policies.insert("rate_limit".to_owned(), Value::Object(limit));
    }

    fn share(&mut self, all: &BTreeMap<&str, &str>) {
        if all.get("enable-cors").is_none_or(|it| *it != "true") {
            return;
        }
        let given = |name: &str, usual: &str| list(all.get(name).copied().unwrap_or(usual));
        self.cors = Some(Cors {
            allow_origins: given("cors-allow-origin", "*"),
            allow_credentials: Some(
                all.get("cors-allow-credentials").is_none_or(|it| *it == "true"),
            ),
            allow_methods: given("cors-allow-methods", "GET,PUT,POST,DELETE,PATCH,OPTIONS"),
            allow_headers: given(
                "cors-allow-headers",
                "DNT,Keep-Alive,User-Agent,X-Requested-With,If-Modified-Since,Cache-Control,Content-Type,Range,Authorization",
            ),
            expose_headers: given("cors-expose-headers", ""),
            max_age: Some(
                all.get("cors-max-age").and_then(|it| it.parse().ok()).unwrap_or(1_728_000),
            ),
        });
    }
}

fn is_protective(name: &str) -> bool {
    PROTECTIVE.contains(&name)
        || matches!(
            name,
            "auth-url"
                | "whitelist-source-range"
                | "allowlist-source-range"
                | "denylist-source-range"
                | "backend-protocol"
                | "proxy-body-size"
        )
}

fn flag(text: &str) -> Result<bool, &'static str> {
    match text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err("it is neither `true` nor `false`"),
    }
}

/// Items with commas between them.
fn list(text: &str) -> Vec<String> {
    let items = text.split(',').map(str::trim);
    items.filter(|it| !it.is_empty()).map(str::to_owned).collect()
}

fn networks(text: &str) -> Option<Value> {
    let is_network = |it: &String| {
        let (address, length) = it.split_once('/').unwrap_or((it, "0"));
        address.parse::<std::net::IpAddr>().is_ok() && length.parse::<u8>().is_ok()
    };
    let networks = list(text);
    (!networks.is_empty() && networks.iter().all(is_network)).then(|| json!(networks))
}

/// A redirect to a URL, or to a path, without variables of nginx or of Titan.
fn redirect(to: &str, status: u16) -> Result<Value, &'static str> {
    match to.contains(['{', '}', '$']) {
        true => Err("it has variables"),
        false => Ok(json!({ "redirect": { "to": to, "status": status } })),
    }
}

/// Seconds, as nginx has them.
fn seconds(text: &str) -> Result<Value, &'static str> {
    let seconds = text.strip_suffix('s').unwrap_or(text).parse::<u64>();
    let seconds = seconds.ok().filter(|it| (1..=MAX_SECONDS).contains(it));
    seconds.map(|it| format!("{it}s").into()).ok_or("it is no number of seconds")
}

/// A size of nginx: `8m`; `0` is any.
fn size(text: &str) -> Option<Value> {
    let digits = text.find(|char: char| !char.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let unit = match text[digits..].to_ascii_lowercase().as_str() {
        "" => "B",
        "k" => "KiB",
        "m" => "MiB",
        "g" => "GiB",
        _ => return None,
    };
    Some(if number == 0 { "unlimited".into() } else { format!("{number}{unit}").into() })
}

/// The service of a URL, which decides about requests.
fn auth_service(url: &str, all: &BTreeMap<&str, &str>) -> Option<AuthService> {
    let (scheme, rest) = url.split_once("://")?;
    let has_tls = match scheme {
        "http" => false,
        "https" => true,
        _ => return None,
    };
    let at = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(at);
    // A variable of nginx, or a user.
    if authority.is_empty() || authority.contains(['$', '@']) || path.contains('$') {
        return None;
    }
    let usual = if has_tls { 443 } else { 80 };
    let endpoint = match authority.rsplit_once(':') {
        Some((_, port)) if port.parse::<u16>().is_ok() => authority.to_owned(),
        _ => format!("{authority}:{usual}"),
    };
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    let mut policy = json!({ "path": path });
    if let Some(method) = all.get("auth-method") {
        policy["method"] = (*method).into();
    }
    let told = list(all.get("auth-response-headers").copied().unwrap_or_default());
    if !told.is_empty() {
        policy["upstream_headers"] = json!(told);
    }
    Some(AuthService { endpoint, has_tls, policy })
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn what_protects_is_not_left_out() {
        for (text, is_refused, is_warned) in [
            ("auth-type: basic", true, false),
            ("whitelist-source-range: office", true, false),
            ("auth-url: https://$host/auth", true, false),
            ("limit-rps: many", true, false),
            ("backend-protocol: FCGI", true, false),
            ("configuration-snippet: deny all;", false, true),
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
