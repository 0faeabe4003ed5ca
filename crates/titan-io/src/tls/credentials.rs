//! Certificates, keys and trusted authorities: from files to what a handshake needs.

use super::verifiers::Verifiers;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use titan_config::{Certificate, HostPattern, UnknownName};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{ASN1Time, CertificateRevocationList, FromDer, X509Certificate};

/// The contents of the files that a configuration names. The caller reads them from disk.
#[derive(Clone, Default)]
pub struct Files {
    /// Where relative paths start.
    folder: PathBuf,
    named: HashMap<PathBuf, Result<Vec<u8>, BadCredentials>>,
    system: Vec<CertificateDer<'static>>,
    verifiers: Verifiers,
}

/// A list of revoked certificates.
pub(super) struct Revocations {
    file: PathBuf,
    /// When the next one is due, and this one no longer good.
    next: ASN1Time,
    pub(super) list: CertificateRevocationListDer<'static>,
}

impl Revocations {
    /// What there is to say of it where the next one is due soon, or overdue.
    pub(super) fn warning(&self, now: ASN1Time) -> Option<String> {
        let Revocations { file, next, list: _ } = self;
        let file = file.display();
        let left = next.timestamp() - now.timestamp();
        match left {
            ..=0 => {
                Some(format!("{file}: the revocation list expired at {next}; clients are refused"))
            }
            1..SOON => Some(format!(
                "{file}: the revocation list expires at {next}; clients will be \
                    refused from then on"
            )),
            _ => None,
        }
    }
}

/// How long before its end a list of revoked certificates is spoken of, in seconds.
const SOON: i64 = 86_400;

/// When a certificate of a listener is valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Validity {
    /// Its file, as the configuration names it.
    pub file: PathBuf,
    /// The DNS names and addresses that it is for.
    pub names: Vec<Box<str>>,
    /// The distinguished name of who has signed it.
    pub issuer: String,
    from: ASN1Time,
    until: ASN1Time,
}

impl Validity {
    /// That of the certificate in that file, which was used already. Nothing where it cannot be read.
    fn of(files: &Files, file: &Path) -> Option<Validity> {
        let chain = files.certificates(file).ok()?;
        let (_, certificate) = X509Certificate::from_der(chain.first()?).ok()?;
        let validity = certificate.validity();
        Some(Validity {
            file: file.to_owned(),
            names: names_of(chain.first()?).unwrap_or_default(),
            issuer: certificate.issuer().to_string(),
            from: validity.not_before,
            until: validity.not_after,
        })
    }

    /// Those of the certificates of a listener, each file once.
    pub(super) fn all(certificates: &[Certificate], files: &Files) -> Vec<Validity> {
        let mut all: Vec<Validity> = Vec::new();
        for Certificate { cert, .. } in certificates {
            if all.iter().all(|known| known.file != *cert) {
                all.extend(Validity::of(files, cert));
            }
        }
        all
    }

    /// The last moment at which it is valid, as Unix time in seconds.
    pub fn expires(&self) -> i64 {
        self.until.timestamp()
    }

    /// The first moment at which it is valid, as Unix time in seconds.
    pub fn begins(&self) -> i64 {
        self.from.timestamp()
    }

    /// What there is to say of it now.
    pub fn warning_now(&self) -> Option<String> {
        self.warning(ASN1Time::now())
    }

    /// What there is to say of it where it is not valid, or not for long: for a fifth of its time, or two weeks if that is less.
    pub(super) fn warning(&self, now: ASN1Time) -> Option<String> {
        let Validity { file, from, until, .. } = self;
        let (file, begin, end) = (file.display(), from.timestamp(), until.timestamp());
        let soon = ((end - begin) / 5).min(14 * 86_400);
        match now.timestamp() {
            now if now < begin => {
                Some(format!("{file}: the certificate is not valid before {from}"))
            }
            now if now >= end => {
                Some(format!("{file}: the certificate expired at {until}; clients refuse it"))
            }
            now if now >= end - soon => Some(format!("{file}: the certificate expires at {until}")),
            _ => None,
        }
    }
}

/// Why a certificate, a key, a list of authorities or a directory cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadCredentials {
    /// The file that is at fault.
    pub file: PathBuf,
    /// What is wrong with it.
    pub reason: String,
}

/// The certificates of a listener, by what they are for.
#[derive(Debug)]
pub(super) struct ByName {
    /// Those with hosts: by a whole name, and by what names end with, which begins with a dot.
    hosts: HashMap<Box<str>, Vec<Arc<CertifiedKey>>>,
    /// All others, by the names in them.
    names: HashMap<Box<str>, Vec<Arc<CertifiedKey>>>,
    /// Those of the first certificate: for clients that ask for no name, or for one that is in no certificate.
    first: Vec<Arc<CertifiedKey>>,
    unknown: UnknownName,
}

/// What PEM files with keys that need a password have in their first line.
const ENCRYPTED: &[u8] = b"BEGIN ENCRYPTED PRIVATE KEY";
/// What the first line of a PEM file with a key ends with.
const KEY: &[u8] = b"PRIVATE KEY-----";
/// What the first line of one with a certificate is.
const CERTIFICATE: &[u8] = b"BEGIN CERTIFICATE-----";
/// What a file in DER form begins with: a sequence with a length of two bytes.
const DER: &[u8] = &[0x30, 0x82];

impl Files {
    /// Notes where relative paths start; without this where the process runs.
    pub fn set_folder(&mut self, folder: PathBuf) {
        self.folder = folder;
    }

    /// Where relative paths start.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Notes what a file holds.
    pub fn insert(&mut self, path: PathBuf, bytes: Vec<u8>) {
        self.verifiers = Verifiers::default();
        self.named.insert(path, Ok(bytes));
    }

    /// Notes that a file cannot be read, and why.
    pub fn insert_unreadable(&mut self, path: PathBuf, bad: BadCredentials) {
        self.verifiers = Verifiers::default();
        self.named.insert(path, Err(bad));
    }

    /// Something that could not be read.
    pub fn unreadable(&self) -> Option<&BadCredentials> {
        self.named.values().find_map(|bytes| bytes.as_ref().err())
    }

    /// Notes the authorities that the system trusts, as DER.
    pub fn set_system_authorities(&mut self, authorities: Vec<Vec<u8>>) {
        self.verifiers = Verifiers::default();
        self.system = authorities.into_iter().map(CertificateDer::from).collect();
    }

    pub(super) fn system_authorities(&self) -> &[CertificateDer<'static>] {
        &self.system
    }

    /// What a file holds.
    pub fn get(&self, path: &Path) -> Result<&[u8], BadCredentials> {
        match self.named.get(path) {
            Some(Ok(bytes)) => Ok(bytes),
            Some(Err(bad)) => Err(bad.clone()),
            None => Err(bad(path, "the gateway has not read it")),
        }
    }

    /// What checks the certificates of servers that these are the authorities for, as far as it was made.
    pub(super) fn verifiers(&self) -> &Verifiers {
        &self.verifiers
    }

    pub(super) fn certificates(
        &self,
        path: &Path,
    ) -> Result<Vec<CertificateDer<'static>>, BadCredentials> {
        certificates_in(self.get(path)?).map_err(|reason| bad(path, reason))
    }

    /// Lists of revoked certificates that can be read.
    pub(super) fn revocations(&self, path: &Path) -> Result<Vec<Revocations>, BadCredentials> {
        let all = CertificateRevocationListDer::pem_slice_iter(self.get(path)?);
        let all = all.collect::<Result<Vec<_>, _>>();
        let all = all.map_err(|error| bad(path, format!("it is not a PEM file: {error}")))?;
        if all.is_empty() {
            return Err(bad(path, "it contains no certificate revocation list in PEM format"));
        }
        let read = |list: CertificateRevocationListDer<'static>| {
            let (_, parsed) = CertificateRevocationList::from_der(&list).map_err(|error| {
                bad(path, format!("it contains a revocation list that cannot be read: {error}"))
            })?;
            let next = parsed.next_update();
            let next = next
                .ok_or_else(|| bad(path, "it contains a revocation list without an expiry time"))?;
            let file = path.to_owned();
            Ok(Revocations { file, next, list })
        };
        all.into_iter().map(read).collect()
    }

    pub(super) fn key(&self, path: &Path) -> Result<PrivateKeyDer<'static>, BadCredentials> {
        let bytes = self.get(path)?;
        PrivateKeyDer::from_pem_slice(bytes).map_err(|error| {
            let reason = match () {
                () if holds(bytes, ENCRYPTED) => {
                    "its private key is encrypted: decrypt it with `openssl pkey`".to_owned()
                }
                () if holds(bytes, CERTIFICATE) => {
                    "it contains a certificate, but no private key".to_owned()
                }
                () if bytes.starts_with(DER) => {
                    "it is in DER format: convert it with `openssl pkey -inform der`".to_owned()
                }
                () => format!("it contains no private key in PEM format: {error}"),
            };
            bad(path, reason)
        })
    }
}

/// Never what the files hold: there are keys among them.
impl fmt::Debug for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.named.keys()).finish()
    }
}

impl fmt::Display for BadCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cannot be used: {}", self.file.display(), self.reason)
    }
}

impl std::error::Error for BadCredentials {}

/// The certificates in a PEM file, one at least.
pub(super) fn certificates_in(bytes: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    match CertificateDer::pem_slice_iter(bytes).collect::<Result<Vec<_>, _>>() {
        Ok(all) if all.is_empty() => Err(no_certificate(bytes).to_owned()),
        Ok(all) => Ok(all),
        Err(error) => Err(format!("it is not a PEM file: {error}")),
    }
}

/// What a file is that holds no certificate in PEM form.
fn no_certificate(bytes: &[u8]) -> &'static str {
    match () {
        () if holds(bytes, KEY) => "it contains a private key, but no certificate",
        () if bytes.starts_with(DER) => {
            "it is in DER format: convert it with `openssl x509 -inform der`"
        }
        () if bytes.is_empty() => "it is empty",
        () => "it contains no certificate in PEM format",
    }
}

fn holds(bytes: &[u8], text: &[u8]) -> bool {
    bytes.windows(text.len()).any(|it| it == text)
}

/// What is at fault, and why.
pub fn bad(file: &Path, reason: impl Into<String>) -> BadCredentials {
    BadCredentials { file: file.to_owned(), reason: reason.into() }
}

impl ByName {
    pub(super) fn new(
        certificates: &[Certificate],
        unknown: UnknownName,
        files: &Files,
        provider: &CryptoProvider,
    ) -> Result<ByName, BadCredentials> {
        let mut of_first = Vec::new();
        let mut by_name =
            ByName { hosts: HashMap::new(), names: HashMap::new(), first: Vec::new(), unknown };
        for Certificate { cert, key, hosts } in certificates {
            let chain = files.certificates(cert)?;
            let is_for = |host: &HostPattern| match host {
                HostPattern::Exact(name) => name.as_str().into(),
                HostPattern::Under(end) => end.as_str().into(),
            };
            let names = match hosts {
                None => names_of(&chain[0]).map_err(|reason| bad(cert, reason))?,
                Some(hosts) => hosts.iter().map(is_for).collect(),
            };
            let certified = CertifiedKey::from_der(chain, files.key(key)?, provider);
            let certified = Arc::new(certified.map_err(|error| bad(key, mismatch(cert, &error)))?);
            // The first, or one with another kind of key for one of its names.
            let is_like_first = names.iter().any(|name| of_first.contains(name));
            if by_name.first.is_empty() {
                of_first.clone_from(&names);
            }
            if by_name.first.is_empty() || is_like_first {
                by_name.first.push(Arc::clone(&certified));
            }
            let found = if hosts.is_none() { &mut by_name.names } else { &mut by_name.hosts };
            for name in names {
                found.entry(name).or_default().push(Arc::clone(&certified));
            }
        }
        Ok(by_name)
    }

    /// Whether there is a certificate for that name; of a wildcard, for one of the names that it stands for.
    pub(super) fn covers(&self, name: &HostPattern) -> bool {
        match name {
            HostPattern::Exact(name) => !self.known(name.as_str()).is_empty(),
            HostPattern::Under(end) => {
                let all = self.hosts.keys().chain(self.names.keys());
                let mut ends = all.map(|it| it.strip_prefix('*').unwrap_or(it));
                let is_end = |it: &str| it.starts_with('.') && end.ends_with(it);
                ends.any(|it| it.ends_with(end.as_str()) || is_end(it))
            }
        }
    }

    /// The certificates that may stand for that name, the best first.
    fn of(&self, name: Option<&str>) -> Vec<&Arc<CertifiedKey>> {
        let Some(name) = name else { return self.first.iter().collect() };
        match self.known(name) {
            none if none.is_empty() && self.unknown == UnknownName::Default => {
                self.first.iter().collect()
            }
            known => known,
        }
    }

    /// Those that are for that name.
    fn known(&self, name: &str) -> Vec<&Arc<CertifiedKey>> {
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        let ends = name.match_indices('.').map(|(at, _)| &name[at..]);
        let owned = std::iter::once(name.as_str()).chain(ends).find_map(|it| self.hosts.get(it));
        if let Some(owned) = owned {
            return owned.iter().collect();
        }
        let wildcard = name.split_once('.').map(|(_, domain)| format!("*.{domain}"));
        let names = [Some(name), wildcard].into_iter().flatten();
        names.filter_map(|name| self.names.get(name.as_str())).flatten().collect()
    }
}

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let certified = self.of(hello.server_name());
        let schemes = hello.signature_schemes();
        let fits = certified.iter().find(|it| it.key.choose_scheme(schemes).is_some());
        fits.or(certified.first()).map(|it| Arc::clone(it))
    }
}

fn mismatch(cert: &Path, error: &rustls::Error) -> String {
    match error {
        rustls::Error::InconsistentKeys(_) => {
            format!("it does not match the certificate in {}", cert.display())
        }
        error => error.to_string(),
    }
}

/// The DNS names and addresses that a certificate is for.
fn names_of(certificate: &CertificateDer<'_>) -> Result<Vec<Box<str>>, String> {
    let (_, parsed) = X509Certificate::from_der(certificate)
        .map_err(|error| format!("its first certificate cannot be read: {error}"))?;
    let extension = parsed
        .subject_alternative_name()
        .map_err(|error| format!("the names of its first certificate cannot be read: {error}"))?;
    let names = extension.iter().flat_map(|extension| &extension.value.general_names);
    let names: Vec<Box<str>> = names
        .filter_map(|name| match name {
            GeneralName::DNSName(name) => Some(name.to_ascii_lowercase().into_boxed_str()),
            // Clients do not ask for addresses, but two certificates for one address are still duplicates.
            GeneralName::IPAddress(bytes) => address(bytes).map(|it| it.to_string().into()),
            _ => None,
        })
        .collect();
    Ok(names)
}

/// An address as certificates have it: RFC 5280 section 4.2.1.6.
fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_spoken_of_before_it_expires() {
        let day = |day: i64| ASN1Time::from_timestamp(1_800_000_000 + day * 86_400).unwrap();
        let told = |days: i64, now: i64| {
            let file = PathBuf::from("site.pem");
            let (names, issuer) = (Vec::new(), String::new());
            let validity = Validity { file, names, issuer, from: day(0), until: day(days) };
            let warning = validity.warning(day(now));
            warning.map(|text| text["site.pem: the certificate ".len()..][..10].to_owned())
        };
        assert_eq!(told(90, -1).as_deref(), Some("is not val"));
        assert_eq!([told(90, 0), told(90, 75)], [None, None]);
        assert_eq!([told(90, 76), told(90, 89)].map(|it| it.unwrap()), ["expires at"; 2]);
        assert_eq!(told(90, 90).as_deref(), Some("expired at"));
        // One that is renewed every few days.
        assert_eq!((told(6, 4), told(5, 4).as_deref()), (None, Some("expires at")));
    }

    #[test]
    fn the_wrong_file_is_called_what_it_is() {
        let name = Path::new("it");
        let mut files = Files::default();
        let mut reasons = |bytes: &[u8]| {
            files.insert(name.to_owned(), bytes.to_vec());
            let certificate = files.certificates(name).err().map(|bad| bad.reason);
            (certificate.unwrap_or_default(), files.key(name).unwrap_err().reason)
        };
        let key =
            b"-----BEGIN ENCRYPTED PRIVATE KEY-----\nAA==\n-----END ENCRYPTED PRIVATE KEY-----\n";
        let (certificate, key) = reasons(key);
        assert_eq!(certificate, "it contains a private key, but no certificate");
        assert!(key.starts_with("its private key is encrypted"), "{key}");
        let (_, key) = reasons(b"-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n");
        assert_eq!(key, "it contains a certificate, but no private key");
        let (certificate, key) = reasons(b"\x30\x82\x01\x00");
        assert!(certificate.contains("openssl x509 -inform der"), "{certificate}");
        assert!(key.contains("openssl pkey -inform der"), "{key}");
        assert_eq!(reasons(b"").0, "it is empty");
    }
}
