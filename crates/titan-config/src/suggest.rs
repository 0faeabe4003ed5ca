//! "Did you mean": the candidate that is nearest to what was written.

/// What other gateways call it.
const OTHER_WORDS: &[(&str, &str)] = &[
    ("listen", "listeners"),
    ("listen", "address"),
    ("bind", "address"),
    ("port", "address"),
    ("url", "address"),
    ("server_name", "host"),
    ("domain", "host"),
    ("domains", "host"),
    ("hostname", "host"),
    ("retry", "retries"),
    ("sticky", "sticky_cookie"),
    ("location", "prefix"),
    ("path_prefix", "prefix"),
    ("uri", "path"),
    ("proxy_pass", "upstream"),
    ("backend", "upstream"),
    ("cluster", "upstream"),
    ("service", "upstream"),
    ("backends", "upstreams"),
    ("clusters", "upstreams"),
    ("services", "upstreams"),
    ("servers", "endpoints"),
    ("targets", "endpoints"),
    ("backends", "endpoints"),
    ("lb_policy", "balance"),
    ("load_balancing", "balance"),
    ("algorithm", "balance"),
    ("return", "respond"),
    ("response", "respond"),
    ("static_response", "respond"),
    ("rules", "routes"),
    ("connect_timeout", "connect"),
    ("read_timeout", "body"),
    ("least_conn", "least_requests"),
    ("least_connections", "least_requests"),
    ("ip_hash", "consistent_hash"),
    ("threads", "workers"),
    ("worker_processes", "workers"),
    ("client_max_body_size", "body"),
    ("max_body_size", "body"),
    ("dns", "resolver"),
    ("ip", "client_address"),
    ("client_ip", "client_address"),
    ("remote_ip", "client_address"),
    ("remote_addr", "client_address"),
    ("$remote_addr", "client_address"),
    ("$binary_remote_addr", "client_address"),
    ("remote_addr", "client"),
    ("$remote_addr", "client"),
    ("client_ip", "client"),
    ("ip", "client"),
    ("timestamp", "time"),
    ("time_local", "time"),
    ("request_time", "duration_ms"),
    ("duration", "duration_ms"),
    ("latency", "duration_ms"),
    ("body_bytes_sent", "response_bytes"),
    ("bytes_sent", "response_bytes"),
    ("request_length", "request_bytes"),
    ("uri", "path"),
    ("request_uri", "path"),
    ("request_method", "method"),
    ("upstream_addr", "endpoint"),
    ("http_user_agent", "user_agent"),
    ("http_referer", "referer"),
    ("no", "off"),
    ("none", "off"),
    ("disabled", "off"),
    ("yes", "on"),
    ("true", "on"),
    ("false", "off"),
    ("warning", "warn"),
    ("notice", "info"),
    ("trace", "debug"),
    ("verbose", "debug"),
    ("http/1.1", "h1"),
    ("http1", "h1"),
    ("http/2", "h2"),
    ("http2", "h2"),
    ("h2c", "h2"),
    ("grpc", "h2"),
];

/// Texts longer than this are not compared: they are not typing errors, and the comparison is quadratic.
const MAX_COMPARED: usize = 64;
/// Candidates that are looked at.
const MAX_CANDIDATES: usize = 1_000;

/// The candidate that `written` was probably meant to be.
pub(crate) fn nearest<'a>(
    written: &str,
    candidates: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    if !written.contains(char::is_alphabetic) || written.len() > MAX_COMPARED {
        return None;
    }
    let plain = normal(written);
    let candidates: Vec<&str> =
        candidates.filter(|it| it.len() <= MAX_COMPARED).take(MAX_CANDIDATES).collect();
    let scored = candidates.iter().filter_map(|it| {
        if it.len() <= 2 && written.len() <= 2 {
            // `h3` is not a slip for `h1`.
            return None;
        }
        let allowed = written.len().max(it.len()).div_ceil(3).clamp(2, 4);
        Some((distance_below(allowed, &plain, &normal(it))?, *it))
    });
    let best = scored.min_by_key(|(score, _)| *score);
    best.map(|(_, it)| it).or_else(|| synonym(&plain, &candidates))
}

/// "did you mean `x`?", if there is something to suggest.
pub(crate) fn did_you_mean<'a>(
    written: &str,
    candidates: impl Iterator<Item = &'a str>,
) -> Option<String> {
    nearest(written, candidates).map(|it| format!("did you mean `{it}`?"))
}

fn synonym<'a>(written: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let meant = |candidate: &str| OTHER_WORDS.contains(&(written, candidate));
    candidates.iter().copied().find(|it| meant(it))
}

/// Upper and lower case, `-` and `_` are no difference.
fn normal(text: &str) -> String {
    text.to_lowercase().replace('-', "_")
}

/// Edits from one text to the other, if they are fewer than `limit`: insert, delete, replace, swap two
/// neighbours.
fn distance_below(limit: usize, from: &str, to: &str) -> Option<usize> {
    let from: Vec<char> = from.chars().collect();
    let to: Vec<char> = to.chars().collect();
    let mut before = vec![0; to.len() + 1];
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for i in 1..=from.len() {
        let mut row = vec![i; to.len() + 1];
        for j in 1..=to.len() {
            let replaced = last[j - 1] + usize::from(from[i - 1] != to[j - 1]);
            row[j] = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        before = std::mem::replace(&mut last, row);
        // Rows never get smaller by more than a swap saves.
        if last.iter().min() > Some(&limit) {
            return None;
        }
    }
    Some(last[to.len()]).filter(|distance| *distance < limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: [&str; 5] = ["listeners", "routes", "upstreams", "limits", "timeouts"];

    #[test]
    fn slips_are_found() {
        for (written, meant) in [
            ("listenrs", "listeners"),
            ("Routes", "routes"),
            ("route", "routes"),
            ("upsteams", "upstreams"),
            ("timeuots", "timeouts"),
            ("backends", "upstreams"),
        ] {
            assert_eq!(nearest(written, KEYS.into_iter()), Some(meant), "{written}");
        }
    }

    #[test]
    fn of_two_letters_each_counts() {
        let nearest = |written| nearest(written, ["h1", "h2"].into_iter());
        assert_eq!(nearest("h3"), None);
        assert_eq!(nearest("http2"), Some("h2"));
    }

    #[test]
    fn what_is_far_from_everything_gets_no_suggestion() {
        for written in ["", "tls", "plugins", "x", "lists_of_things"] {
            assert_eq!(nearest(written, KEYS.into_iter()), None, "{written}");
        }
    }

    #[test]
    fn distance_counts_edits() {
        assert_eq!(distance_below(9, "", "abc"), Some(3));
        assert_eq!(distance_below(9, "abcd", "abdc"), Some(1));
        assert_eq!(distance_below(9, "kitten", "sitting"), Some(3));
        assert_eq!(distance_below(3, "kitten", "sitting"), None);
    }
}
