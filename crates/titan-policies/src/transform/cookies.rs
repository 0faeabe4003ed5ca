//! Attributes of cookies that responses set (RFC 6265 section 4.1.1).

use titan_config::{CookieDomain, CookieRule, SameSite};
use titan_http::{BadField, FieldName, Fields};

/// Gives the cookies of a response the attributes that the first rule for each wants.
pub(super) fn change(rules: &[CookieRule], fields: &mut Fields) -> Result<(), BadField> {
    if rules.is_empty() || fields.get(FieldName::SetCookie).is_none() {
        return Ok(());
    }
    let lines: Vec<_> = fields.all(FieldName::SetCookie).map(|line| changed(rules, line)).collect();
    fields.remove(FieldName::SetCookie);
    lines.iter().try_for_each(|line| fields.append(FieldName::SetCookie, line))
}

/// The cookie as it goes out: its own attributes but for those that the rule gives, and then these.
fn changed(rules: &[CookieRule], line: &[u8]) -> Vec<u8> {
    let mut parts = line.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
    let pair = parts.next().unwrap_or_default();
    let Some(rule) = rules.iter().find(|rule| is_for(rule, name(pair))) else {
        return line.to_vec();
    };
    let mut out = pair.to_vec();
    for part in parts.filter(|part| !part.is_empty() && !is_given(rule, name(part))) {
        add(&mut out, part, b"");
    }
    let CookieRule { names: _, secure, http_only, same_site, path, domain } = rule;
    if let Some(path) = path {
        add(&mut out, b"Path=", path.as_bytes());
    }
    if let Some(CookieDomain::Below(domain)) = domain {
        add(&mut out, b"Domain=", domain.as_bytes());
    }
    if *secure == Some(true) {
        add(&mut out, b"Secure", b"");
    }
    if *http_only == Some(true) {
        add(&mut out, b"HttpOnly", b"");
    }
    match same_site {
        None => {}
        Some(SameSite::Strict) => add(&mut out, b"SameSite=Strict", b""),
        Some(SameSite::Lax) => add(&mut out, b"SameSite=Lax", b""),
        Some(SameSite::None) => add(&mut out, b"SameSite=None", b""),
    }
    out
}

fn is_for(rule: &CookieRule, name: &[u8]) -> bool {
    let names = rule.names.as_ref();
    names.is_none_or(|names| names.iter().any(|it| it.as_str().as_bytes() == name))
}

/// Whether the rule says what happens to that attribute.
fn is_given(rule: &CookieRule, attribute: &[u8]) -> bool {
    let CookieRule { names: _, secure, http_only, same_site, path, domain } = rule;
    let given = [
        (secure.is_some(), "Secure"),
        (http_only.is_some(), "HttpOnly"),
        (same_site.is_some(), "SameSite"),
        (path.is_some(), "Path"),
        (domain.is_some(), "Domain"),
    ];
    given
        .iter()
        .any(|(is_given, name)| *is_given && attribute.eq_ignore_ascii_case(name.as_bytes()))
}

/// What stands in front of the `=`.
fn name(part: &[u8]) -> &[u8] {
    part.split(|&byte| byte == b'=').next().unwrap_or_default().trim_ascii()
}

fn add(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    for part in [b"; ".as_slice(), name, value] {
        out.extend_from_slice(part);
    }
}
