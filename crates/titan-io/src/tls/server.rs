//! TLS with clients: the configuration of handshakes at a listener, and which client certificates it accepts.

use super::credentials::{BadCredentials, ByName, Files, Revocations, Validity, bad};
use super::identity::{Identity, sha256};
use super::sessions::{Sessions, SessionsWithin};
use super::tickets::{DIGEST, TicketSecrets, Tickets};
use super::{Alpn, H2, H3, HTTP11, Refused};
use quinn_proto::crypto::rustls::QuicServerConfig;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{
    NoServerSessionStorage, ParsedCertificate, ProducesTickets, WebPkiClientVerifier,
};
use rustls::{
    CipherSuite, DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig,
    SignatureScheme, SupportedCipherSuite, SupportedProtocolVersion, version,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use titan_config::{
    Certificate, CertificateMode, Cipher, ClientCertificates, HostPattern, Protocols, Tls,
    TlsVersion,
};
use x509_parser::prelude::ASN1Time;

/// How a listener performs handshakes, and which clients it accepts.
pub struct ServerTls {
    config: Arc<ServerConfig>,
    /// What `config` makes tickets with.
    tickets: Arc<Tickets>,
    /// What clients of QUIC resume that may send early data.
    sessions: Arc<Sessions>,
    /// `None` if client certificates are not requested.
    clients: Option<ClientVerifier>,
    /// When its own certificates are valid.
    validity: Vec<Validity>,
}

/// Decides which client certificates are accepted.
struct ClientVerifier {
    verifier: Arc<dyn ClientCertVerifier>,
    mode: CertificateMode,
    revoked: Vec<Revocations>,
    /// Of the files that say whom to take.
    digest: [u8; 32],
    /// Of which edition those are; unique in the process.
    edition: u64,
}

impl ServerTls {
    /// What a configuration and the files that it names come to.
    pub fn new(
        tls: &Tls,
        protocols: Protocols,
        files: &Files,
    ) -> Result<ServerTls, BadCredentials> {
        let provider = Arc::new(provider(tls.ciphers.as_deref()));
        let clients = tls.client_certificates.as_ref();
        let clients =
            clients.map(|theirs| ClientVerifier::new(theirs, files, &provider)).transpose()?;
        let mut config = server_config(tls, protocols, files, provider, clients.as_ref())?;
        let no_keys =
            |_| bad(&tls.certificates[0].cert, "no randomness for ticket keys".to_owned());
        let tickets = Arc::new(Tickets::new().map_err(no_keys)?);
        config.ticketer = Arc::clone(&tickets) as _;
        let validity = Validity::all(&tls.certificates, files);
        let sessions = Arc::default();
        Ok(ServerTls { config: Arc::new(config), tickets, sessions, clients, validity })
    }

    /// How a server of rare connections performs handshakes: in HTTP/1.1, and without tickets, so that each client is
    /// verified anew.
    pub fn without_resumption(
        tls: &Tls,
        files: &Files,
    ) -> Result<Arc<ServerConfig>, BadCredentials> {
        let protocols = Protocols { h1: true, h2: false, h3: false };
        let mut config = ServerConfig::clone(&ServerTls::new(tls, protocols, files)?.config);
        config.send_tls13_tickets = 0;
        config.ticketer = Arc::new(NoTickets);
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.max_early_data_size = 0;
        Ok(Arc::new(config))
    }

    /// All that is wrong with the files; where one is, the others are looked at too.
    pub fn faults(tls: &Tls, protocols: Protocols, files: &Files) -> Vec<BadCredentials> {
        let provider = Arc::new(provider(tls.ciphers.as_deref()));
        let pair =
            |pair| ByName::new(&[Certificate::clone(pair)], tls.unknown_name, files, &provider);
        let mut faults: Vec<_> = tls.certificates.iter().filter_map(|it| pair(it).err()).collect();
        let theirs = tls.client_certificates.as_ref();
        faults
            .extend(theirs.and_then(|theirs| ClientVerifier::new(theirs, files, &provider).err()));
        if faults.is_empty() {
            faults.extend(ServerTls::new(tls, protocols, files).err());
        }
        faults
    }

    /// Those of the names that no certificate is for: clients that ask for them get one for another name, or none. Nothing where the
    /// certificates cannot be used.
    pub fn uncovered<'n>(
        tls: &Tls,
        files: &Files,
        names: impl Iterator<Item = &'n HostPattern>,
    ) -> Vec<&'n HostPattern> {
        let provider = provider(tls.ciphers.as_deref());
        let Ok(known) = ByName::new(&tls.certificates, tls.unknown_name, files, &provider) else {
            return Vec::new();
        };
        names.filter(|name| !known.covers(name)).collect()
    }

    /// What it would be if `files` were what is on disk. Tickets stay valid, unless other clients are accepted now: a
    /// ticket admits a client that was accepted before.
    pub fn renew(
        &self,
        tls: &Tls,
        protocols: Protocols,
        files: &Files,
    ) -> Result<ServerTls, BadCredentials> {
        let mut renewed = ServerTls::new(tls, protocols, files)?;
        if self.digest() != renewed.digest() {
            return Ok(renewed);
        }
        if let (Some(new), Some(old)) = (&mut renewed.clients, &self.clients) {
            new.edition = old.edition;
        }
        renewed.sessions = Arc::clone(&self.sessions);
        Ok(renewed.with(Arc::clone(&self.tickets)))
    }

    /// The same with the ticket keys of the process before, whose tickets stay valid, unless other clients are accepted now.
    #[must_use]
    pub fn succeeding(self, secrets: &TicketSecrets) -> ServerTls {
        match Tickets::with(secrets, &self.digest()) {
            Some(tickets) => self.with(Arc::new(tickets)),
            None => self,
        }
    }

    /// The keys of its tickets, for a successor of the process.
    pub fn ticket_secrets(&self) -> TicketSecrets {
        self.tickets.secrets(&self.digest())
    }

    fn with(mut self, tickets: Arc<Tickets>) -> ServerTls {
        let config = Arc::get_mut(&mut self.config).expect("nobody else has it yet");
        config.ticketer = Arc::clone(&tickets) as _;
        self.tickets = tickets;
        self
    }

    /// Of the files that say which clients are accepted.
    fn digest(&self) -> [u8; DIGEST] {
        self.clients.as_ref().map_or([0; DIGEST], |clients| clients.digest)
    }

    /// What a handshake is held with in which these protocols are up for agreement.
    pub(super) fn config(&self, alpn: Alpn) -> Arc<ServerConfig> {
        match alpn.instead_of(&self.config.alpn_protocols) {
            None => Arc::clone(&self.config),
            Some(protocols) => {
                let mut config = ServerConfig::clone(&self.config);
                config.alpn_protocols = protocols;
                Arc::new(config)
            }
        }
    }

    /// The same for handshakes of QUIC, which are always of TLS 1.3, and agree on HTTP/3. With `early`, clients may send early data, within
    /// these limits. None where no suite of TLS 1.3 is allowed.
    pub(crate) fn quic(&self, early: Option<Vec<u8>>) -> Option<Arc<QuicServerConfig>> {
        let mut config = ServerConfig::clone(&self.config);
        config.alpn_protocols = vec![H3.to_vec()];
        config.max_early_data_size = 0;
        if let Some(limits) = early {
            // QUIC has limits of its own (RFC 9001 section 4.6.1).
            config.max_early_data_size = u32::MAX;
            // A ticket could be used again, a session that is kept here cannot.
            config.ticketer = Arc::new(NoTickets);
            let sessions = Arc::clone(&self.sessions);
            config.session_storage = Arc::new(SessionsWithin { sessions, limits });
        }
        // Initial packets are protected with this suite, whatever is agreed on (RFC 9001 section 5.2).
        let suites = aws_lc_rs::ALL_CIPHER_SUITES.iter().filter_map(SupportedCipherSuite::tls13);
        let initial = suites
            .filter(|suite| suite.common.suite == CipherSuite::TLS13_AES_128_GCM_SHA256)
            .find_map(rustls::Tls13CipherSuite::quic_suite)?;
        QuicServerConfig::with_initial(Arc::new(config), initial).ok().map(Arc::new)
    }

    /// Who the client is that has shown `chain` in a handshake, and which edition of the files that was
    /// judged by. A resumed session has shown it in an earlier one: it is judged again.
    pub fn identify(
        &self,
        chain: Option<Vec<CertificateDer<'static>>>,
        is_resumed: bool,
    ) -> Result<Option<(Identity, u64)>, Refused> {
        let Some(clients) = &self.clients else { return Ok(None) };
        match chain {
            None if clients.mode == CertificateMode::Required => Err(Refused::NoCertificate),
            None => Ok(None),
            // The handshake has not asked whether it is valid.
            Some(chain)
                if clients.mode == CertificateMode::IgnoreInvalid && !clients.takes(&chain) =>
            {
                Ok(None)
            }
            Some(chain) if is_resumed && !clients.takes(&chain) => {
                Err(Refused::Certificate("it is no longer accepted".to_owned()))
            }
            Some(chain) => match Identity::new(chain) {
                Ok(identity) => Ok(Some((identity, clients.edition))),
                Err(why) => Err(Refused::Certificate(why)),
            },
        }
    }

    /// What there is to say of certificates and lists that are no longer good, or not for long.
    pub fn warnings(&self) -> Vec<String> {
        let now = ASN1Time::now();
        let own = self.validity.iter().filter_map(|validity| validity.warning(now));
        let lists = self.clients.iter().flat_map(|clients| &clients.revoked);
        own.chain(lists.filter_map(|list| list.warning(now))).collect()
    }

    /// When each certificate is valid that it presents.
    pub fn validity(&self) -> &[Validity] {
        &self.validity
    }

    /// The edition of the files that clients are verified with now; 0 if they are not.
    pub fn edition(&self) -> u64 {
        self.clients.as_ref().map_or(0, |clients| clients.edition)
    }

    /// Whether clients must present a certificate.
    pub fn requires_certificates(&self) -> bool {
        self.clients.as_ref().is_some_and(|clients| clients.mode == CertificateMode::Required)
    }

    /// Whether a client that was accepted before would still be accepted.
    pub fn still_takes(&self, identity: &Identity) -> bool {
        self.clients.as_ref().is_some_and(|clients| clients.takes(identity.chain()))
    }
}

impl ClientVerifier {
    fn new(
        clients: &ClientCertificates,
        files: &Files,
        provider: &Arc<CryptoProvider>,
    ) -> Result<ClientVerifier, BadCredentials> {
        let ClientCertificates { mode, ca, crl } = clients;
        let mut roots = RootCertStore::empty();
        for authority in files.certificates(ca)? {
            let added = roots.add(authority);
            added.map_err(|error| bad(ca, format!("no authority: {error}")))?;
        }
        let mut revoked = Vec::new();
        for file in crl {
            revoked.extend(files.revocations(file)?);
        }
        let (roots, provider) = (Arc::new(roots), Arc::clone(provider));
        // An expired list does not say which certificates were revoked since.
        let builder = WebPkiClientVerifier::builder_with_provider(roots, provider)
            .with_crls(revoked.iter().map(|it| it.list.clone()))
            .enforce_revocation_expiration();
        let builder = match mode {
            CertificateMode::Required => builder,
            CertificateMode::Optional | CertificateMode::IgnoreInvalid => {
                builder.allow_unauthenticated()
            }
        };
        let verifier = builder.build().map_err(|error| {
            let file = crl.first().unwrap_or(ca);
            bad(file, format!("it cannot be used to verify clients: {error}"))
        })?;
        let digests = std::iter::once(ca).chain(crl).map(|file| files.get(file).map(sha256));
        let digests = digests.collect::<Result<Vec<_>, _>>()?;
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let (digest, edition) = (sha256(&digests.concat()), NEXT.fetch_add(1, Ordering::Relaxed));
        Ok(ClientVerifier { verifier, mode: *mode, revoked, digest, edition })
    }

    /// What handshakes ask.
    fn in_handshakes(&self) -> Arc<dyn ClientCertVerifier> {
        let verifier = Arc::clone(&self.verifier);
        match self.mode {
            CertificateMode::IgnoreInvalid => Arc::new(AnyCertificate(verifier)),
            CertificateMode::Required | CertificateMode::Optional => verifier,
        }
    }

    fn takes(&self, chain: &[CertificateDer<'_>]) -> bool {
        let Some((leaf, others)) = chain.split_first() else { return false };
        self.verifier.verify_client_cert(leaf, others, UnixTime::now()).is_ok()
    }
}

/// Lets all certificates of clients pass, but only from those that have their keys. Whether one is valid is asked later.
#[derive(Debug)]
struct AnyCertificate(Arc<dyn ClientCertVerifier>);

/// A signature by a certificate that cannot be read, as those before X.509 version 3, cannot be verified, and need not be: it is
/// nobody's identity.
fn unless_unreadable(
    certificate: &CertificateDer<'_>,
    verified: Result<HandshakeSignatureValid, rustls::Error>,
) -> Result<HandshakeSignatureValid, rustls::Error> {
    match verified {
        Err(_) if ParsedCertificate::try_from(certificate).is_err() => {
            Ok(HandshakeSignatureValid::assertion())
        }
        verified => verified,
    }
}

impl ClientCertVerifier for AnyCertificate {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let verified = self.0.verify_tls12_signature(message, certificate, signed);
        unless_unreadable(certificate, verified)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let verified = self.0.verify_tls13_signature(message, certificate, signed);
        unless_unreadable(certificate, verified)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

fn server_config(
    tls: &Tls,
    protocols: Protocols,
    files: &Files,
    provider: Arc<CryptoProvider>,
    clients: Option<&ClientVerifier>,
) -> Result<ServerConfig, BadCredentials> {
    let Tls {
        certificates,
        unknown_name,
        min_version,
        // They are in the provider, the client verifier and the listener's entry.
        ciphers: _,
        client_certificates: _,
        hsts: _,
    } = tls;
    let names = ByName::new(certificates, *unknown_name, files, &provider)?;
    let builder = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(versions(*min_version))
        .expect("titan-config checks that there are suites for each version");
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(clients) => builder.with_client_cert_verifier(clients.in_handshakes()),
    };
    let mut config = builder.with_cert_resolver(Arc::new(names));
    // This is how much is skipped of early data that comes with a ticket of another server. None is accepted, and no
    // ticket allows any: rustls does neither for tickets that the server does not store.
    config.max_early_data_size = SKIPPED;
    // HTTP/3 is agreed on in handshakes of its own.
    let Protocols { h1, h2, h3: _ } = protocols;
    let spoken = [(h2, H2), (h1, HTTP11)].into_iter().filter(|(is_spoken, _)| *is_spoken);
    config.alpn_protocols = spoken.map(|(_, name)| name.to_vec()).collect();
    Ok(config)
}

/// Bytes of early data that are skipped. rustls counts a record again with each read until the client's next flight
/// comes, so that this is what 16 KiB may come to. It also bounds the attempts to open what cannot be opened.
const SKIPPED: u32 = 512 << 10;

/// Gives no tickets, and takes none.
#[derive(Debug)]
struct NoTickets;

impl ProducesTickets for NoTickets {
    fn enabled(&self) -> bool {
        false
    }

    fn lifetime(&self) -> u32 {
        0
    }

    fn encrypt(&self, _plain: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn decrypt(&self, _cipher: &[u8]) -> Option<Vec<u8>> {
        None
    }
}

/// The usual provider, with those suites alone where some are named.
fn provider(ciphers: Option<&[Cipher]>) -> CryptoProvider {
    let mut provider = aws_lc_rs::default_provider();
    if let Some(ciphers) = ciphers {
        provider.cipher_suites.retain(|suite| {
            let name = suite.suite().as_str().unwrap_or_default().replace("TLS13_", "TLS_");
            ciphers.iter().any(|cipher| cipher.name == name)
        });
    }
    provider
}

fn versions(least: TlsVersion) -> &'static [&'static SupportedProtocolVersion] {
    const BOTH: &[&SupportedProtocolVersion] = &[&version::TLS13, &version::TLS12];
    match least {
        TlsVersion::Tls12 => BOTH,
        TlsVersion::Tls13 => &BOTH[..1],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cipher_that_can_be_named_exists() {
        for (name, cipher) in Cipher::ALL {
            let suites = provider(Some(&[*cipher])).cipher_suites;
            assert_eq!(suites.len(), 1, "{name}");
        }
        assert_eq!(provider(None).cipher_suites.len(), Cipher::ALL.len());
    }
}
