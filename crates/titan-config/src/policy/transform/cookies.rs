//! Attributes of cookies that responses set (RFC 6265 section 4.1.2).

use crate::balance::{SameSite, same_site};
use crate::bounds::{MAX_HEADERS, MAX_VALUE};
use crate::diagnostic::Diagnostic;
use crate::node::Node;
use crate::problem::Problem;
use crate::read::{Read, Reading, optional};
use crate::readers::{boolean, one_or_list, text, word_or};
use crate::section::{section, section_of};
use crate::shape::TextShape;
use crate::token::{Token, cookie_name};

section! {
    "cookie_rule", "a cookie rule", Any;
    /// The attributes of cookies that responses set (`Set-Cookie`). Those that are not given stay as they are.
    pub struct CookieRule {
        /// The cookies by name. Case matters.
        pub names: Option<Vec<Token>> = optional("all cookies", one_or_list(cookie_name(), 1..=MAX_HEADERS)),
        /// Whether browsers send them over TLS only.
        pub secure: Option<bool> = optional("unchanged", boolean()),
        /// Whether to hide them from scripts.
        pub http_only: Option<bool> = optional("unchanged", boolean()),
        /// Whether requests caused by another site carry them: `strict` never, `lax` with navigation, `none` always,
        /// which browsers accept only with `secure: true`.
        pub same_site: Option<SameSite> = optional("unchanged", same_site()),
        /// The path below which browsers send them.
        pub path: Option<String> = optional("unchanged", text(PATH, parse_path)),
        /// The domain to whose hosts browsers send them; `host` for only the host that sets them, which is safest.
        pub domain: Option<CookieDomain> = optional("unchanged", domain()),
    }
}

/// Which hosts a cookie is sent to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CookieDomain {
    /// The one that has set it.
    Host,
    /// All of this domain.
    Below(String),
}

const PATH: TextShape = TextShape {
    what: "a cookie path",
    examples: "`/`",
    pattern: Some("^/[!-:<-~]*$"),
    max: MAX_VALUE,
};

const DOMAIN: TextShape = TextShape {
    what: "a domain",
    examples: "`example.com`",
    pattern: Some("^[A-Za-z0-9.-]+$"),
    max: 253,
};

pub(super) fn cookie_rule() -> impl Read<Value = CookieRule> {
    section_of::<CookieRule>().then(check)
}

fn check(rule: CookieRule, node: &Node, to: &mut Reading<'_>) -> Option<CookieRule> {
    let CookieRule { names: _, secure, http_only, same_site, path, domain } = &rule;
    if secure.is_none()
        && http_only.is_none()
        && same_site.is_none()
        && path.is_none()
        && domain.is_none()
    {
        let error = Diagnostic::error(node.span, "this rule changes nothing");
        return to.fail(error.label("set an attribute, such as `secure: true`"));
    }
    if *same_site == Some(SameSite::None) && *secure != Some(true) {
        let message = "browsers drop a cookie with `same_site: none` that is not `secure`";
        let error = Diagnostic::error(node.key_span("same_site"), message);
        return to.fail(error.label("needs `secure: true` in this rule"));
    }
    Some(rule)
}

fn parse_path(text: &str) -> Result<String, Problem> {
    if !text.starts_with('/') {
        return Err(Problem::new("it does not start with a slash"));
    }
    match text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b';') {
        true => Ok(text.to_owned()),
        false => Err(Problem::new("it contains characters that an attribute cannot have")),
    }
}

fn domain() -> impl Read<Value = CookieDomain> {
    let below = text(DOMAIN, |text| {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
        match text.bytes().all(is_name) && text.bytes().any(|byte| byte != b'.') {
            true => Ok(text.to_owned()),
            false => Err(Problem::new("it is not a domain name")),
        }
    });
    word_or("host", CookieDomain::Host, below.map(CookieDomain::Below))
}
