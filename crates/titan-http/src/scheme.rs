//! How a client is connected.

/// How a client connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Without TLS.
    Http,
    /// With TLS.
    Https,
}

impl Scheme {
    /// The scheme as URIs write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }

    /// The scheme that a proxy names.
    pub fn parse(text: &[u8]) -> Option<Scheme> {
        let is = |scheme: &Scheme| text.eq_ignore_ascii_case(scheme.as_str().as_bytes());
        [Scheme::Http, Scheme::Https].into_iter().find(is)
    }
}
