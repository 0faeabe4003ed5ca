//! Hosts that listeners and routes are for.

use titan_config::HostPattern;

/// Checks that Titan can serve a host, which in TLS has to be one that clients can ask for. The empty one is for all.
pub(crate) fn check(host: &str, has_tls: bool) -> Result<(), String> {
    if host.is_empty() {
        return Ok(());
    }
    match HostPattern::parse(host) {
        Ok(pattern) if has_tls && !pattern.is_server_name() => {
            Err(format!("the host `{host}`: over TLS clients ask for names, and not for addresses"))
        }
        Ok(_) => Ok(()),
        Err(why) => {
            Err(format!("the host `{}`: {why}", host.chars().take(SHOWN).collect::<String>()))
        }
    }
}

/// So much of a host is told.
const SHOWN: usize = 100;

/// The hosts that both of two are for, where there are some. Without a name both take all.
pub(crate) fn intersection<'h>(listener: &'h str, route: &'h str) -> Option<&'h str> {
    if covers(listener, route) {
        return Some(route);
    }
    covers(route, listener).then_some(listener)
}

/// Whether the first is for all hosts that the second is for. The empty one is for all.
pub(crate) fn covers(wide: &str, narrow: &str) -> bool {
    if wide.is_empty() || wide.eq_ignore_ascii_case(narrow) {
        return true;
    }
    let Some(suffix) = wide.strip_prefix('*') else { return false };
    let narrow = narrow.strip_prefix('*').unwrap_or(narrow);
    let at = narrow.len().checked_sub(suffix.len());
    at.is_some_and(|at| {
        at > 0 && narrow.is_char_boundary(at) && narrow[at..].eq_ignore_ascii_case(suffix)
    })
}

/// How specific it is: exact names come before wildcards, longer ones before shorter ones.
pub(crate) fn specificity(host: &str) -> (bool, usize) {
    (!host.is_empty() && !host.starts_with('*'), host.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_intersect() {
        for (listener, route, both) in [
            ("", "", Some("")),
            ("", "a.example.com", Some("a.example.com")),
            ("a.example.com", "", Some("a.example.com")),
            ("*.example.com", "a.example.com", Some("a.example.com")),
            ("a.example.com", "*.example.com", Some("a.example.com")),
            ("*.example.com", "a.b.example.com", Some("a.b.example.com")),
            ("*.example.com", "*.example.com", Some("*.example.com")),
            ("*.example.com", "*.b.example.com", Some("*.b.example.com")),
            ("*.com", "*.example.com", Some("*.example.com")),
            ("*.example.com", "example.com", None),
            ("*.example.com", "badexample.com", None),
            ("*.example.com", "*.com", Some("*.example.com")),
            ("a.example.com", "b.example.com", None),
            ("A.example.com", "a.EXAMPLE.com", Some("a.EXAMPLE.com")),
        ] {
            assert_eq!(intersection(listener, route), both, "{listener} {route}");
        }
    }

    #[test]
    fn hosts_are_those_that_the_configuration_takes() {
        let long = format!("{}.io", "a".repeat(64));
        for (host, plain, with_tls) in [
            ("", true, true),
            ("shop.io", true, true),
            ("*.shop.io", true, true),
            ("10.0.0.1", true, false),
            ("~^shop", false, false),
            ("a.123", false, false),
            ("*", false, false),
            (&long, false, false),
        ] {
            let found = (check(host, false).is_ok(), check(host, true).is_ok());
            assert_eq!(found, (plain, with_tls), "{host}");
        }
    }

    #[test]
    fn exact_hosts_come_first() {
        let mut hosts = ["", "*.com", "a.io", "*.example.com", "b.example.com"];
        hosts.sort_by_key(|host| specificity(host));
        assert_eq!(hosts, ["", "*.com", "*.example.com", "a.io", "b.example.com"]);
    }
}
