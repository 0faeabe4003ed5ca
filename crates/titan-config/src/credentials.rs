//! What proves who somebody is where a file says it outright: under a name that tells so, or as a part of a URL.

use std::ops::Range;

/// Whether a field of a message, a parameter of a query or a member of a document carries what proves who somebody is, by
/// its name.
pub fn is_credential(name: &str) -> bool {
    const PARTS: [&str; 8] = [
        "apikey",
        "authorization",
        "cookie",
        "credential",
        "passwd",
        "password",
        "secret",
        "token",
    ];
    let name = name.to_ascii_lowercase().replace('_', "-");
    let joined = name.replace('-', "");
    name == "key" || name.ends_with("-key") || PARTS.iter().any(|part| joined.contains(part))
}

/// Whether a value says something of a credential itself, and not only which variables bring it. A word in front of them
/// tells nothing: `Bearer {header:X-Auth}`, `session={claim:sid}`.
pub(crate) fn is_literal(value: &str) -> bool {
    let is_word = |text: &str| text.chars().all(|c| c.is_ascii_alphabetic() || "-_".contains(c));
    match variable(value) {
        // The beginning that a condition asks for may be the word alone.
        None => !value.is_empty() && !value.strip_suffix(' ').is_some_and(is_word),
        Some(Range { start, end }) => {
            let before = &value[..start];
            let is_plain =
                before.is_empty() || before.strip_suffix([' ', '=']).is_some_and(is_word);
            !is_plain || says_something(&value[end..])
        }
    }
}

/// Where a URL, or the target of a request, says a credential: its user information (RFC 3986 section 3.2.1), and the
/// values of parameters with such names.
pub(crate) fn in_target(text: &str) -> Vec<Range<usize>> {
    if !text.contains(['@', '=']) {
        return Vec::new();
    }
    let mut found: Vec<_> = users(text).collect();
    if text.starts_with(['/', '{']) || text.contains("://") {
        found.extend(parameters(text));
    }
    found
}

/// A text with `***` in place of these parts.
pub(crate) fn without(text: &str, parts: &[Range<usize>], mask: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut at = 0;
    for Range { start, end } in parts {
        shown.push_str(&text[at..*start]);
        shown.push_str(mask);
        at = *end;
    }
    shown.push_str(&text[at..]);
    shown
}

fn users(text: &str) -> impl Iterator<Item = Range<usize>> {
    let slashes = text.match_indices("//").map(|(at, _)| at);
    let starts = slashes.filter(|at| *at == 0 || text[..*at].ends_with(':')).map(|at| at + 2);
    starts.filter_map(|start| {
        let rest = &text[start..];
        let user = &rest[..rest.find(is_behind("/?#")).unwrap_or(rest.len())];
        let user = &user[..user.rfind('@')?];
        let password = user.split_once(':').map_or(user, |(_, password)| password);
        says_something(password).then(|| start..start + user.len())
    })
}

fn parameters(text: &str) -> impl Iterator<Item = Range<usize>> {
    let starts = text.match_indices(['?', '&', '#', ';']).map(|(at, _)| at + 1);
    starts.filter_map(|start| {
        let pair = &text[start..];
        let pair = &pair[..pair.find(is_behind("?&#;")).unwrap_or(pair.len())];
        let (name, value) = pair.split_once('=')?;
        let start = start + name.len() + 1;
        (is_credential(name) && is_literal(value)).then(|| start..start + value.len())
    })
}

/// What is no part of a URL any more, or of a part of it that one of these ends.
fn is_behind(ends: &str) -> impl Fn(char) -> bool {
    move |c| c.is_whitespace() || "\"'<>".contains(c) || ends.contains(c)
}

/// Whether something stands between the variables of a text that is more than a separator.
fn says_something(text: &str) -> bool {
    let has_more = |text: &str| text.contains(|c: char| !c.is_whitespace() && !":;,=".contains(c));
    match variable(text) {
        None => has_more(text),
        Some(Range { start, end }) => has_more(&text[..start]) || says_something(&text[end..]),
    }
}

/// The first variable of a template; doubled braces are none.
fn variable(text: &str) -> Option<Range<usize>> {
    let mut at = 0;
    loop {
        let open = at + text[at..].find('{')?;
        if !text[open..].starts_with("{{") {
            return Some(open..open + text[open..].find('}')? + 1);
        }
        at = open + 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_what_carries_credentials() {
        for name in [
            "Authorization",
            "proxy-authorization",
            "COOKIE",
            "Set-Cookie",
            "X-Api-Key",
            "api_key",
            "apikey",
            "key",
            "access_token",
            "X-Client-Secret",
            "db_password",
            "X-Credentials",
            "X-Signing-Key",
        ] {
            assert!(is_credential(name), "{name}");
        }
        for name in ["X-Tenant", "keys", "monkey", "Accept", "v", "X-Keyboard"] {
            assert!(!is_credential(name), "{name}");
        }
    }

    #[test]
    fn variables_are_no_credentials_and_words_in_front_of_them_neither() {
        for value in
            ["", "{claim:sub}", "Bearer {header:X-Auth}", "sid={claim:sid}", "{a}:{b}", "Basic "]
        {
            assert!(!is_literal(value), "{value}");
        }
        for value in
            ["a", "Basic YTpi", "{claim:sub}x", "Basic {x}:pw", "a b {x}", "{{x}}", "{x", "dGVzdA="]
        {
            assert!(is_literal(value), "{value}");
        }
    }

    #[test]
    fn targets_are_shown_without_their_credentials() {
        for (text, shown) in [
            ("https://u:p@a/b", "https://***@a/b"),
            ("https://t0ken@a", "https://***@a"),
            ("//u:p@a/b@c", "//***@a/b@c"),
            ("https://u:{pw}@a/?key={k}&v=1", "https://u:{pw}@a/?key={k}&v=1"),
            (
                "/verify?realm=a&api_key=b&c=d#access_token=e",
                "/verify?realm=a&api_key=***&c=d#access_token=***",
            ),
            ("{path}?token=a b", "{path}?token=*** b"),
            (
                "see https://a/?secret=b, or http://u:p@c",
                "see https://a/?secret=*** or http://***@c",
            ),
            ("token=a", "token=a"),
            ("a@b", "a@b"),
            ("https://a/b?token=", "https://a/b?token="),
        ] {
            let mut parts = in_target(text);
            parts.sort_by_key(|part| part.start);
            assert_eq!(without(text, &parts, "***"), shown, "{text}");
        }
    }
}
