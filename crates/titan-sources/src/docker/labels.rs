//! What the labels of one container say.

use super::rule::Rule;
use crate::message::shown;
use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::str::FromStr;

/// What a container says of itself.
#[derive(Debug, Default)]
pub(crate) struct Labels {
    /// The network in which it is reached.
    pub(crate) network: Option<String>,
    pub(crate) routers: BTreeMap<String, Router>,
    pub(crate) services: BTreeMap<String, Service>,
}

/// A route.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Router {
    pub(crate) rule: Option<Rule>,
    /// Names of listeners; none for any.
    pub(crate) listeners: Vec<String>,
    pub(crate) service: Option<String>,
    /// Up to [`MAX_PRIORITY`].
    pub(crate) priority: u32,
    /// Names of policies.
    pub(crate) policies: Vec<String>,
}

/// What serves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Service {
    /// The only exposed one where it is not given.
    pub(crate) port: Option<NonZeroU16>,
    pub(crate) settings: Settings,
}

/// What all containers of a service have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) scheme: Scheme,
    /// The path of probes.
    pub(crate) probe: Option<String>,
    /// The time between probes, in milliseconds.
    pub(crate) probe_interval: Option<u64>,
}

/// What endpoints speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Scheme {
    #[default]
    Http,
    Https,
    H2c,
}

/// Whether there is something to be served, which the engine is asked for.
pub(crate) const ENABLE: &str = "titan.enable";
/// The highest priority of a router.
pub(crate) const MAX_PRIORITY: u32 = 999_999;
/// What the labels begin with that are for Titan.
pub(crate) const OURS: &str = "titan.";
/// Labels of a container that are for Titan.
const MAX_LABELS: usize = 128;
/// Bytes of the value of such a label.
const MAX_VALUE: usize = 4_096;
/// Bytes of the name of a router or a service.
const MAX_NAME: usize = 63;
/// Listeners, and policies, of a router.
const MAX_LISTED: usize = 32;
/// Milliseconds between probes, which take up to a second.
const PROBE_INTERVALS: std::ops::RangeInclusive<u64> = 1_000..=3_600_000;

impl Labels {
    /// What they say; otherwise why that is not understood.
    pub(crate) fn parse(all: &BTreeMap<String, String>) -> Result<Labels, String> {
        let ours = all.iter().filter(|(key, _)| key.starts_with(OURS));
        if ours.clone().count() > MAX_LABELS {
            return Err(format!("it has more than {MAX_LABELS} labels that begin with `{OURS}`"));
        }
        let mut labels = Labels::default();
        for (key, value) in ours {
            if value.len() > MAX_VALUE {
                return Err(format!("the label `{}` has more than {MAX_VALUE} bytes", shown(key)));
            }
            labels.add(key, value).map_err(|why| format!("the label `{}`: {why}", shown(key)))?;
        }
        Ok(labels)
    }

    fn add(&mut self, key: &str, value: &str) -> Result<(), String> {
        let parts: Vec<&str> = key.split('.').skip(1).collect();
        // The names of routers and services are as they are, all others may be written as Traefik's users like to.
        let lower: Vec<String> = parts.iter().map(|it| it.to_ascii_lowercase()).collect();
        let lower: Vec<&str> = lower.iter().map(String::as_str).collect();
        match lower[..] {
            ["enable"] => Ok(()),
            ["docker", "network"] => {
                self.network = Some(value.to_owned());
                Ok(())
            }
            ["http", "routers", _, field] => {
                self.routers.entry(name(parts[2])?).or_default().set(field, value)
            }
            ["http", "services", _, "loadbalancer", part, field] => {
                self.services.entry(name(parts[2])?).or_default().set((part, field), value)
            }
            _ => Err("no such label is known".to_owned()),
        }
    }
}

/// Whether the value of [`ENABLE`] says yes.
pub(crate) fn is_enabled(value: &str) -> bool {
    matches!(value, "true" | "True" | "TRUE" | "1")
}

impl Router {
    fn set(&mut self, field: &str, value: &str) -> Result<(), String> {
        match field {
            "rule" => self.rule = Some(Rule::parse(value)?),
            "entrypoints" => self.listeners = list(value, |it| !it.is_empty())?,
            "service" => self.service = Some(name(value)?),
            "priority" => {
                let priority = value.parse().ok().filter(|it| *it <= MAX_PRIORITY);
                let wanted = || format!("it is no whole number from 0 to {MAX_PRIORITY}");
                self.priority = priority.ok_or_else(wanted)?;
            }
            "middlewares" => {
                self.policies = list(value, is_policy).map_err(|why| {
                    format!("{why}; it names policies of Titan's files, without `@file`")
                })?;
            }
            _ => {
                return Err(
                    "a router has `rule`, `entrypoints`, `service`, `priority` and `middlewares`"
                        .to_owned(),
                );
            }
        }
        Ok(())
    }
}

impl Service {
    fn set(&mut self, field: (&str, &str), value: &str) -> Result<(), String> {
        match field {
            ("server", "port") => {
                self.port = Some(value.parse().map_err(|_| "it is no port from 1 to 65535")?);
            }
            ("server", "scheme") => self.settings.scheme = value.parse()?,
            ("healthcheck", "path") => {
                let is_path =
                    value.starts_with('/') && value.bytes().all(|it| it.is_ascii_graphic());
                let is_path = is_path && !value.contains('#');
                self.settings.probe = Some(value.to_owned()).filter(|_| is_path);
                self.settings.probe.as_ref().ok_or("it is no path, which begins with `/`")?;
            }
            ("healthcheck", "interval") => {
                let interval = milliseconds(value).filter(|it| PROBE_INTERVALS.contains(it));
                self.settings.probe_interval = interval;
                interval.ok_or("it is no time from `1s` to `1h`")?;
            }
            _ => {
                return Err("a service has `loadbalancer.server.port`, `loadbalancer.server.scheme`, `loadbalancer.healthcheck.path` and \
                    `loadbalancer.healthcheck.interval`"
                    .to_owned());
            }
        }
        Ok(())
    }
}

impl FromStr for Scheme {
    type Err = String;

    fn from_str(text: &str) -> Result<Scheme, String> {
        match text {
            "http" => Ok(Scheme::Http),
            "https" => Ok(Scheme::Https),
            "h2c" => Ok(Scheme::H2c),
            _ => Err("it is none of `http`, `https` and `h2c`".to_owned()),
        }
    }
}

/// The name of a router or a service.
pub(crate) fn name(text: &str) -> Result<String, String> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    let begins = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    match begins && text.len() <= MAX_NAME && text.bytes().all(is_part) {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "names have 1 to {MAX_NAME} letters, digits, `_`, `.` and `-`, and begin with one of the first two"
        )),
    }
}

fn is_policy(text: &str) -> bool {
    name(text).is_ok()
}

/// Items with commas between them.
fn list(text: &str, is_item: impl Fn(&str) -> bool) -> Result<Vec<String>, String> {
    let items: Vec<_> = text.split(',').map(|it| it.trim().to_owned()).collect();
    match items.len() <= MAX_LISTED && items.iter().all(|it| is_item(it)) {
        true => Ok(items),
        false => {
            Err(format!("it is no list of at most {MAX_LISTED} names with commas between them"))
        }
    }
}

/// A time with one unit, as `10s`.
fn milliseconds(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(labels: &[(&str, &str)]) -> Result<Labels, String> {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        Labels::parse(&labels.iter().map(owned).collect())
    }

    #[test]
    fn labels_are_written_as_traefik_has_them() {
        let labels = parsed(&[
            ("titan.enable", "true"),
            ("titan.docker.network", "web"),
            ("titan.http.routers.Shop.rule", "Host(`a`)"),
            ("titan.http.routers.Shop.entryPoints", "web, websecure"),
            ("titan.http.routers.Shop.priority", "7"),
            ("titan.http.routers.Shop.middlewares", "login"),
            ("titan.http.routers.Shop.service", "shop"),
            ("titan.http.services.shop.loadBalancer.server.port", "8080"),
            ("titan.http.services.shop.loadbalancer.server.scheme", "h2c"),
            ("titan.http.services.shop.loadbalancer.healthCheck.path", "/up"),
            ("titan.http.services.shop.loadbalancer.healthcheck.interval", "2m"),
            ("com.example.titan", "x"),
        ])
        .unwrap();
        assert_eq!(labels.network.as_deref(), Some("web"));
        assert_eq!(
            labels.routers["Shop"],
            Router {
                rule: Some(Rule::parse("Host(`a`)").unwrap()),
                listeners: vec!["web".to_owned(), "websecure".to_owned()],
                service: Some("shop".to_owned()),
                priority: 7,
                policies: vec!["login".to_owned()],
            }
        );
        assert_eq!(
            labels.services["shop"],
            Service {
                port: NonZeroU16::new(8080),
                settings: Settings {
                    scheme: Scheme::H2c,
                    probe: Some("/up".to_owned()),
                    probe_interval: Some(120_000),
                },
            }
        );
    }

    #[test]
    fn what_is_not_understood_is_said() {
        let long = "x".repeat(MAX_VALUE + 1);
        for (key, value, wanted) in [
            ("titan.htp.routers.a.rule", "Host(`a`)", "no such label is known"),
            ("titan.http.routers.a.rle", "Host(`a`)", "a router has `rule`"),
            ("titan.http.routers.a.tls", "true", "a router has `rule`"),
            ("titan.http.routers.a.rule", "Host(a)", "in backticks"),
            ("titan.http.routers.a/b.rule", "Host(`a`)", "names have"),
            ("titan.http.routers.a.service", "..", "names have"),
            ("titan.http.routers.a.priority", "-1", "whole number from 0"),
            ("titan.http.routers.a.middlewares", "login@file", "policies of Titan's files"),
            ("titan.http.routers.a.entrypoints", "a,,b", "no list"),
            ("titan.http.services.a.loadbalancer.server.port", "0", "no port"),
            ("titan.http.services.a.loadbalancer.server.scheme", "ftp", "none of `http`"),
            ("titan.http.services.a.loadbalancer.sticky.cookie", "x", "a service has"),
            ("titan.http.services.a.loadbalancer.healthcheck.path", "up", "no path"),
            ("titan.http.services.a.loadbalancer.healthcheck.interval", "10", "no time"),
            ("titan.http.services.a.loadbalancer.healthcheck.interval", "100ms", "no time"),
            ("titan.docker.network", &long, "more than 4096 bytes"),
        ] {
            let why = parsed(&[(key, value)]).unwrap_err();
            assert!(why.contains(wanted) && why.contains(key), "{key}: {why}");
        }
        let many: BTreeMap<_, _> =
            (0..=MAX_LABELS).map(|it| (format!("titan.{it}"), String::new())).collect();
        assert!(Labels::parse(&many).unwrap_err().contains("more than 128 labels"));
    }
}
