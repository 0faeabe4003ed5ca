//! Host names (RFC 1123), alone or as part of something.

use crate::bounds::MAX_HOST;
use crate::problem::Problem;
use crate::token::unexpected;
use std::net::Ipv4Addr;

/// A name or an IPv4 address, in lower case and without a dot at its end.
pub(crate) fn parse_host_name(text: &str) -> Result<String, Problem> {
    if text.len() > MAX_HOST {
        return Err(Problem::new(format!("a host name has at most {MAX_HOST} bytes")));
    }
    let name = text.strip_suffix('.').unwrap_or(text);
    let mut start = 0;
    for label in name.split('.') {
        check_label(label, start)?;
        start += label.len() + 1;
    }
    let last = name.rsplit('.').next().unwrap_or(name);
    let is_number = last.bytes().all(|byte| byte.is_ascii_digit());
    if is_number && name.parse::<Ipv4Addr>().is_err() {
        return Err(Problem::new("this is neither a host name nor an IPv4 address"));
    }
    Ok(name.to_ascii_lowercase())
}

/// Underscores are in no host name by the book (RFC 1123), and in many by use.
fn check_label(label: &str, start: usize) -> Result<(), Problem> {
    const MAX_LABEL: usize = 63;
    let part = start..start + label.len();
    if label.is_empty() {
        return Err(Problem::new("a label between dots is empty"));
    }
    if label.len() > MAX_LABEL {
        let reason = format!("a label has at most {MAX_LABEL} bytes");
        return Err(Problem::new(reason).part(part));
    }
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if let Some((at, c)) = label.char_indices().find(|(_, c)| !allowed(*c)) {
        let problem = unexpected(start + at, c);
        return Err(match c.is_ascii() {
            true => problem,
            false => problem.help("write an international name in its ASCII form, `xn--...`"),
        });
    }
    if label.starts_with('-') || label.ends_with('-') {
        return Err(Problem::new("a label must start and end with a letter or digit").part(part));
    }
    Ok(())
}
