//! TLS on listeners and to upstreams: certificates, versions and cipher suites.

use crate::bounds::{MAX_CERTIFICATES, MAX_CERTIFIED, MAX_CRLS, MAX_PATH_BYTES};
use crate::diagnostic::Diagnostic;
use crate::host::{HostPattern, server_name};
use crate::node::Node;
use crate::problem::Problem;
use crate::read::{Read, Reading, default, optional, required};
use crate::readers::{boolean, duration, one_or_list, short_for, text, word_or, words, words_or};
use crate::section::{section, section_of};
use crate::shape::TextShape;
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

section! {
    "tls", "TLS settings", Any;
    /// HTTPS on a listener: TLS 1.3 and 1.2, with session tickets. Requests without TLS get 400.
    pub struct Tls {
        /// The certificates with their keys. The name that the client asks for (SNI) chooses among them, by their `hosts`
        /// and then by the names in the others; a client that sends no name gets the first one. A name may have an ECDSA and
        /// an RSA certificate.
        pub certificates: Vec<Certificate> =
            required(one_or_list(section_of::<Certificate>(), 1..=MAX_CERTIFICATES)),
        /// What a client gets whose name (SNI) is in none of the certificates: the first certificate, or no connection.
        pub unknown_name: UnknownName = default("default", words(&[
            ("default", UnknownName::Default),
            ("refuse", UnknownName::Refuse),
        ])),
        /// The oldest version of TLS that is accepted.
        pub min_version: TlsVersion = default("1.2", words(&[
            ("1.2", TlsVersion::Tls12),
            ("1.3", TlsVersion::Tls13),
        ])),
        /// The allowed cipher suites, by their IANA names; TLS 1.3 and 1.2 each have their own. All suites here have
        /// forward secrecy and authenticated encryption, so there are no weak ones to leave out: this is for rules that
        /// demand fewer.
        pub ciphers: Option<Vec<Cipher>> =
            optional("all of them", one_or_list(words(Cipher::ALL), 1..=Cipher::ALL.len())),
        /// Strict-Transport-Security (RFC 6797) in every response, in place of an upstream's; a `transform` runs later
        /// and can change it. Browsers use HTTPS only from then on. Start with a short time: it cannot be undone before
        /// it has passed.
        pub hsts: Option<Hsts> = optional("not sent", hsts()),
        /// Asks clients for certificates. Routes can match on them (`client_certificate`), and upstreams can get them
        /// (`forwarding.client_cert`).
        pub client_certificates: Option<ClientCertificates> =
            optional("no certificate is requested", section_of::<ClientCertificates>()),
    }
}

pub(crate) fn tls() -> impl Read<Value = Option<Tls>> {
    word_or("off", None, section_of::<Tls>().then(has_ciphers_for_its_versions).map(Some))
}

fn has_ciphers_for_its_versions(tls: Tls, node: &Node, to: &mut Reading<'_>) -> Option<Tls> {
    let of = |version| tls.ciphers.iter().flatten().any(|cipher| cipher.version == version);
    let missing = match tls.min_version {
        _ if tls.ciphers.is_none() => None,
        _ if !of(TlsVersion::Tls13) => Some("the list has no cipher suite for TLS 1.3"),
        TlsVersion::Tls12 if !of(TlsVersion::Tls12) => {
            Some("the list has no cipher suite for TLS 1.2")
        }
        TlsVersion::Tls13 if of(TlsVersion::Tls12) => {
            Some("cipher suites for TLS 1.2 have no effect with `min_version: 1.3`")
        }
        _ => None,
    };
    let Some(message) = missing else { return Some(tls) };
    let error = Diagnostic::error(node.key_span("ciphers"), message);
    let help = "suites named `TLS_ECDHE_...` are for TLS 1.2, the others for TLS 1.3; `min_version` \
            sets the versions in use";
    to.fail(error.help(help))
}

impl Tls {
    /// The files that it names.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        let Tls {
            certificates,
            unknown_name: _,
            min_version: _,
            ciphers: _,
            hsts: _,
            client_certificates,
        } = self;
        let theirs = client_certificates.iter().flat_map(ClientCertificates::files);
        certificates.iter().flat_map(Certificate::files).chain(theirs)
    }
}

/// A suite of ciphers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cipher {
    /// Its name at IANA.
    pub name: &'static str,
    /// The version of TLS that it is for.
    pub version: TlsVersion,
}

impl Cipher {
    /// All that there are, the preferred ones first.
    pub const ALL: &[(&'static str, Cipher)] = &[
        Cipher::of("TLS_AES_256_GCM_SHA384", TlsVersion::Tls13),
        Cipher::of("TLS_AES_128_GCM_SHA256", TlsVersion::Tls13),
        Cipher::of("TLS_CHACHA20_POLY1305_SHA256", TlsVersion::Tls13),
        Cipher::of("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", TlsVersion::Tls12),
        Cipher::of("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", TlsVersion::Tls12),
        Cipher::of("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", TlsVersion::Tls12),
        Cipher::of("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", TlsVersion::Tls12),
        Cipher::of("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", TlsVersion::Tls12),
        Cipher::of("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", TlsVersion::Tls12),
    ];

    const fn of(name: &'static str, version: TlsVersion) -> (&'static str, Cipher) {
        (name, Cipher { name, version })
    }
}

section! {
    "hsts", "HSTS settings", Any;
    /// Strict-Transport-Security, which makes browsers use HTTPS. A plain duration sets `max_age` alone.
    pub struct Hsts {
        /// How long after each response browsers use HTTPS only. `365d` is usual, `0s` ends it.
        pub max_age: Duration = required(duration(Duration::ZERO..=MOST)),
        /// Whether it also covers all hosts below this one.
        pub include_subdomains: bool = default("false", boolean()),
        /// Whether browsers may include this host in their built-in lists. Needs `include_subdomains` and a `max_age`
        /// of at least 365d, and takes months to undo.
        pub preload: bool = default("false", boolean()),
    }
}

/// What lists of hosts that are built into browsers ask for.
const YEAR: Duration = Duration::from_secs(365 * 86_400);
const MOST: Duration = Duration::from_secs(10 * 365 * 86_400);

fn hsts() -> impl Read<Value = Hsts> {
    short_for("max_age", section_of::<Hsts>()).then(|hsts, node, to| {
        if !hsts.preload || hsts.include_subdomains && hsts.max_age >= YEAR {
            return Some(hsts);
        }
        let message = "browsers' preload lists do not accept this";
        let error = Diagnostic::error(node.key_span("preload"), message);
        to.fail(
            error.help("they require `include_subdomains: true` and a `max_age` of at least 365d"),
        )
    })
}

section! {
    "client_certificates", "client certificate settings", Any;
    /// Certificates that clients present in the handshake. An invalid one ends it, unless `mode` says otherwise: one from another
    /// authority, expired, issued for other uses than client authentication, or revoked. The files are watched like
    /// those of certificates; a change also affects open connections.
    pub struct ClientCertificates {
        /// What happens to a client without a certificate: `required` ends the handshake, `optional` lets the client
        /// connect without an identity. `ignore_invalid` does so also where its certificate is invalid: routes, policies and
        /// upstreams see a client without one, and nothing is protected by that alone.
        pub mode: CertificateMode = default("required", words(&[
            ("required", CertificateMode::Required),
            ("optional", CertificateMode::Optional),
            ("ignore_invalid", CertificateMode::IgnoreInvalid),
        ])),
        /// A PEM file with the certificate authorities to trust; no others are trusted.
        pub ca: PathBuf = required(file()),
        /// PEM files with certificate revocation lists. If there are any, each authority from a certificate up to `ca`
        /// needs one that is not past its next update; otherwise the certificate is refused.
        pub crl: Vec<PathBuf> = default("[]", one_or_list(file(), 0..=MAX_CRLS)),
    }
}

impl ClientCertificates {
    /// The files that it names.
    fn files(&self) -> impl Iterator<Item = &Path> {
        let ClientCertificates { mode: _, ca, crl } = self;
        std::iter::once(ca).chain(crl).map(PathBuf::as_path)
    }
}

/// What happens to a client that presents no certificate, or an invalid one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateMode {
    /// It gets no connection.
    Required,
    /// It is accepted, but unidentified; one with an invalid certificate is not.
    Optional,
    /// Both are accepted, but unidentified.
    IgnoreInvalid,
}

section! {
    "upstream_tls", "upstream TLS settings", Any;
    /// TLS to the endpoints of an upstream, 1.3 or 1.2. `on` takes all defaults. An endpoint must have a certificate
    /// for its name or address from a trusted authority; otherwise the response is 502.
    pub struct UpstreamTls {
        /// A PEM file with the certificate authorities to trust; no others are trusted.
        pub ca: Option<PathBuf> = optional("the system's authorities", file()),
        /// The name to send (SNI), which the certificate must cover.
        pub name: Option<ServerName> =
            optional("the host name or address of each endpoint", verified_name()),
        /// Names of which the certificate must have one, instead of covering `name`: DNS names, IP addresses, or URIs such as
        /// `spiffe://example.com/shop`, which have to be the same to the letter. `name` is sent all the same.
        pub alt_names: Vec<AltName> = default("[]", one_or_list(alt_name(), 0..=MAX_ALT_NAMES)),
        /// The client certificate that the gateway presents to endpoints.
        pub certificate: Option<Certificate> = optional("nothing", section_of::<Certificate>().then(is_for_no_host)),
        /// Whether to verify certificates. `false` accepts any, so that anyone on the network path can read and change
        /// everything; each start warns about it.
        pub verify: bool = default("true", boolean()),
    }
}

/// A client has one certificate, whichever server asks for it.
fn is_for_no_host(
    certificate: Certificate,
    node: &Node,
    to: &mut Reading<'_>,
) -> Option<Certificate> {
    if certificate.hosts.is_none() {
        return Some(certificate);
    }
    let error = Diagnostic::error(node.key_span("hosts"), "`hosts` has no effect here");
    to.fail(
        error.label("endpoints get this certificate whatever their names are").help("remove it"),
    )
}

impl UpstreamTls {
    /// What `on` stands for.
    pub(crate) const ON: UpstreamTls = UpstreamTls {
        ca: None,
        name: None,
        alt_names: Vec::new(),
        certificate: None,
        verify: true,
    };

    /// The files that it names.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        let UpstreamTls { ca, name: _, alt_names: _, certificate, verify: _ } = self;
        let pair = certificate.iter().flat_map(Certificate::files);
        ca.iter().map(PathBuf::as_path).chain(pair)
    }
}

pub(crate) fn upstream_tls() -> impl Read<Value = Option<UpstreamTls>> {
    let words = [("on", Some(UpstreamTls::ON)), ("off", None)];
    words_or(&words, tls_settings().map(Some))
}

/// The same where it is spoken in any case.
pub(crate) fn tls_settings() -> impl Read<Value = UpstreamTls> {
    section_of::<UpstreamTls>().then(is_of_one_mind)
}

fn is_of_one_mind(tls: UpstreamTls, node: &Node, to: &mut Reading<'_>) -> Option<UpstreamTls> {
    let key = match &tls {
        UpstreamTls { verify: true, .. } => return Some(tls),
        UpstreamTls { ca: Some(_), .. } => "ca",
        UpstreamTls { alt_names, .. } if !alt_names.is_empty() => "alt_names",
        _ => return Some(tls),
    };
    let message = format!("`{key}` has no effect with `verify: false`");
    let error = Diagnostic::error(node.span, message);
    to.fail(
        error.help(format!("remove `verify: false`, and certificates are verified with `{key}`")),
    )
}

/// A DNS name in lower case, or an IP address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerName(String);

impl ServerName {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A name of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AltName {
    /// A DNS name or an address.
    Server(ServerName),
    /// A URI, as it is.
    Uri(String),
}

/// As files have it.
impl fmt::Display for AltName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AltName::Server(name) => name.as_str(),
            AltName::Uri(uri) => uri,
        })
    }
}

/// Names of which a certificate must have one.
const MAX_ALT_NAMES: usize = 16;
/// Bytes of a URI.
const MAX_URI: usize = 2048;

fn verified_name() -> impl Read<Value = ServerName> {
    let shape = TextShape {
        what: "a server name",
        examples: "`api.internal` or `10.0.0.1`",
        pattern: Some("^[A-Za-z0-9.:_-]+$"),
        max: 253,
    };
    text(shape, verifiable)
}

fn verifiable(text: &str) -> Result<ServerName, Problem> {
    let is_label = |label: &str| {
        let is_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        (1..=63).contains(&label.len()) && label.bytes().all(is_byte)
    };
    match text.parse::<IpAddr>().is_ok() || text.len() <= 253 && text.split('.').all(is_label) {
        true => Ok(ServerName(text.to_ascii_lowercase())),
        false => Err(Problem::new("this is neither a DNS name nor an IP address")),
    }
}

fn alt_name() -> impl Read<Value = AltName> {
    let shape = TextShape {
        what: "a name of a certificate",
        examples: "`api.internal` or `spiffe://example.com/shop`",
        pattern: Some("^[!-~]+$"),
        max: MAX_URI,
    };
    text(shape, |text| match text.contains("://") {
        true => Ok(AltName::Uri(text.to_owned())),
        false => verifiable(text).map(AltName::Server),
    })
}

section! {
    "certificate", "a certificate", Any;
    /// A certificate and its key. A relative path starts at the directory of the file that says it. The files are
    /// watched: new ones are used within seconds; while a new one is unusable, the old one stays.
    pub struct Certificate {
        /// A PEM file with the certificate, followed by its chain of intermediate certificates.
        pub cert: PathBuf = required(file()),
        /// A PEM file with its private key: PKCS #8, PKCS #1 or SEC 1, not encrypted.
        pub key: PathBuf = required(file()),
        /// The names that clients of a listener get it for, whatever names are in it: exact ones, or `*.` and a suffix, for one
        /// or more labels. The exact name comes first, then the longest wildcard, and certificates without `hosts` come last. So
        /// each of several owners has a certificate for hosts of its own, and none for those of others.
        pub hosts: Option<Vec<HostPattern>> =
            optional("the names in it", one_or_list(server_name(NAMELESS), 1..=MAX_CERTIFIED)),
    }
}

/// What connections to an address get.
const NAMELESS: &str = "a client that asks for no name gets the first certificate";

impl Certificate {
    /// Both files.
    pub(crate) fn files(&self) -> [&Path; 2] {
        [&self.cert, &self.key]
    }
}

/// What a client gets that asks for an unknown name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownName {
    /// The first certificate.
    Default,
    /// No connection.
    Refuse,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsVersion {
    /// RFC 5246.
    Tls12,
    /// RFC 8446.
    Tls13,
}

pub(crate) fn file() -> impl Read<Value = PathBuf> {
    let shape = TextShape {
        what: "a path to a file",
        examples: "`tls/site.pem` or `/etc/titan/site.pem`",
        pattern: None,
        max: MAX_PATH_BYTES,
    };
    let file = text(shape, |text| match text {
        "" => Err(Problem::new("it is empty")),
        text if text.contains("://") => {
            let problem = Problem::new("expected a file, not a URL");
            Err(problem.help("the gateway does not fetch it: download it to a file first"))
        }
        text if text.contains('\0') => Err(Problem::new("it contains a NUL byte")),
        text => Ok(PathBuf::from(text)),
    });
    file.then(|file, node, to| to.locate(file, node))
}
