//! The request to explain, as the bytes that a client would send.

use std::fmt;

/// A request to explain.
pub(super) struct Question {
    bytes: Vec<u8>,
    first_line: String,
    port: Option<u16>,
    is_https: bool,
}

/// Why something cannot be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadQuestion {
    /// The URL is neither absolute nor a path.
    Url(String),
    /// A header field has no colon.
    Field(String),
    /// What should be a certificate is none; with the reason.
    Certificate(String),
    /// A line end in one of the arguments would make another request of it.
    LineEnd(String),
}

/// A URL taken apart as a client does before it sends a request.
struct Url<'u> {
    authority: Option<&'u str>,
    target: String,
    default_port: u16,
}

impl Question {
    pub(super) fn parse(
        method: &str,
        url: &str,
        fields: &[String],
    ) -> Result<Question, BadQuestion> {
        let arguments = [method, url].into_iter().chain(fields.iter().map(String::as_str));
        for argument in arguments {
            if argument.contains(['\r', '\n']) {
                return Err(BadQuestion::LineEnd(argument.to_owned()));
            }
        }
        if let Some(field) = fields.iter().find(|field| !field.contains(':')) {
            return Err(BadQuestion::Field(field.clone()));
        }
        let url = Url::parse(method, url)?;
        let first_line = format!("{method} {}", url.target);
        let mut text = format!("{first_line} HTTP/1.1\r\n");
        let host = url.authority.filter(|_| !fields.iter().any(|field| is_host(field)));
        let host = host.map(|authority| format!("Host: {authority}"));
        for line in host.iter().chain(fields) {
            text.push_str(line);
            text.push_str("\r\n");
        }
        text.push_str("\r\n");
        Ok(Question {
            bytes: text.into_bytes(),
            first_line,
            port: url.port(),
            is_https: url.default_port == 443,
        })
    }

    /// The whole head.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Method and target.
    pub(super) fn first_line(&self) -> &str {
        &self.first_line
    }

    /// Whether the URL is one of HTTPS.
    pub(super) fn is_https(&self) -> bool {
        self.is_https
    }

    /// The port that a client with this URL would connect to.
    pub(super) fn port(&self) -> Option<u16> {
        self.port
    }
}

impl<'u> Url<'u> {
    fn parse(method: &str, url: &'u str) -> Result<Url<'u>, BadQuestion> {
        if method == "CONNECT" {
            return Ok(Url { authority: Some(url), target: url.to_owned(), default_port: 443 });
        }
        // The fragment is the client's own affair.
        let sent = url.split('#').next().unwrap_or(url);
        if sent.starts_with('/') || sent == "*" {
            return Ok(Url { authority: None, target: sent.to_owned(), default_port: 80 });
        }
        let (rest, default_port) = [("http://", 80), ("https://", 443)]
            .into_iter()
            .find_map(|(scheme, port)| Some((without_scheme(sent, scheme)?, port)))
            .ok_or_else(|| BadQuestion::Url(url.to_owned()))?;
        let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let slash = if target.starts_with('/') { "" } else { "/" };
        Ok(Url { authority: Some(authority), target: format!("{slash}{target}"), default_port })
    }

    fn port(&self) -> Option<u16> {
        let (_, after) = self.authority?.rsplit_once(':').unwrap_or_default();
        Some(after.parse().unwrap_or(self.default_port))
    }
}

fn without_scheme<'u>(url: &'u str, scheme: &str) -> Option<&'u str> {
    let start = url.get(..scheme.len())?;
    start.eq_ignore_ascii_case(scheme).then(|| &url[scheme.len()..])
}

fn is_host(field: &str) -> bool {
    field.split(':').next().is_some_and(|name| name.trim().eq_ignore_ascii_case("host"))
}

impl fmt::Display for BadQuestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadQuestion::Url(url) => write!(
                f,
                "`{url}` is neither an absolute URL such as `http://host/path` nor a path such as `/path`"
            ),
            BadQuestion::Field(field) => {
                write!(f, "`{field}` is not a header: write it as `Name: value`")
            }
            BadQuestion::Certificate(reason) => {
                write!(f, "the client's certificate cannot be used: {reason}")
            }
            BadQuestion::LineEnd(argument) => {
                write!(
                    f,
                    "{argument:?} contains a line break, which no part of a request may contain"
                )
            }
        }
    }
}

impl std::error::Error for BadQuestion {}
