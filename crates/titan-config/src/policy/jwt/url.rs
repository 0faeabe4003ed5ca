//! URLs that something is fetched from.

use crate::bounds::MAX_VALUE;
use crate::diagnostic::Diagnostic;
use crate::problem::Problem;
use crate::read::Read;
use crate::readers::text;
use crate::shape::TextShape;

/// An address of HTTP, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// As written.
    pub text: String,
    /// Whether TLS is spoken.
    pub is_https: bool,
    /// The host without brackets.
    pub host: String,
    /// The port, also where it is the usual one.
    pub port: u16,
    /// What `Host` has to say.
    pub authority: String,
    /// The path and the query.
    pub target: String,
}

impl Url {
    /// The URL that a text is, as in the file, or what is wrong with it.
    pub fn parse(text: &str) -> Result<Url, String> {
        parse_url(text).map_err(|Problem { reason, help: _, part: _ }| reason)
    }
}

const URL: TextShape = TextShape {
    what: "a URL",
    examples: "`https://id.example.com/keys`",
    pattern: None,
    max: MAX_VALUE,
};

pub(super) fn url() -> impl Read<Value = Url> {
    text(URL, parse_url).then(|url, node, to| {
        if !url.is_https {
            let message = "the keys are fetched without TLS";
            let warning = Diagnostic::warning(node.span, message);
            to.add(
                warning.label("anyone on the network path can forge tokens").help("use `https`"),
            );
        }
        Some(url)
    })
}

/// The URL that a text is.
pub(crate) fn parse_url(text: &str) -> Result<Url, Problem> {
    let (scheme, rest) = text.split_once("://").ok_or_else(|| Problem::new("it has no scheme"))?;
    let (is_https, usual) = match scheme {
        "https" => (true, 443),
        "http" => (false, 80),
        _ => return Err(Problem::new("its scheme is neither `https` nor `http`")),
    };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, target) = rest.split_at(end);
    let parsed = titan_http::Authority::parse(authority.as_bytes());
    let parsed = parsed.map_err(|_| Problem::new("its host is missing or malformed"))?;
    let is_plain = |byte: u8| (b'!'..=b'~').contains(&byte) && byte != b'#';
    if !target.bytes().all(is_plain) {
        return Err(Problem::new("its path contains characters that must be percent-encoded"));
    }
    let host = &authority[..parsed.host.len()];
    Ok(Url {
        text: text.to_owned(),
        is_https,
        host: host.trim_start_matches('[').trim_end_matches(']').to_owned(),
        port: parsed.port.unwrap_or(usual),
        authority: authority.to_owned(),
        target: if target.starts_with('/') { target.to_owned() } else { format!("/{target}") },
    })
}
