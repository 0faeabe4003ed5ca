//! A certificate for tests, and clients that trust it.

use rcgen::SerialNumber;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::{TLS12, TLS13};
use rustls::{
    ClientConfig, ClientConnection, Connection, RootCertStore, ServerConfig, ServerConnection,
    SupportedProtocolVersion,
};
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};
use titan_proxy::Files;

/// A certificate with its key, both as PEM.
pub struct Certificate {
    /// The certificate, which signs itself.
    pub cert: String,
    /// Its key.
    pub key: String,
    der: CertificateDer<'static>,
    /// Its number, where an authority has signed it.
    serial: Option<SerialNumber>,
}

/// The name that clients ask for unless a test says otherwise.
const NAME: &str = "localhost";

/// A certificate for these names.
pub fn certificate(names: &[&str]) -> Certificate {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let made = rcgen::generate_simple_self_signed(names).expect("these are names");
    let (cert, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    Certificate::new(cert, key, made.cert.der().clone(), None)
}

impl Certificate {
    pub(crate) fn new(
        cert: String,
        key: String,
        der: CertificateDer<'static>,
        serial: Option<SerialNumber>,
    ) -> Certificate {
        Certificate { cert, key, der, serial }
    }

    pub(crate) fn serial(&self) -> Option<&SerialNumber> {
        self.serial.as_ref()
    }

    /// The certificate without those that lead to its authority, as DER.
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// The files that a configuration names: `name.pem` and `name.key` of each.
    pub fn files(certificates: &[(&str, &Certificate)]) -> Files {
        let mut files = Files::default();
        for (name, Certificate { cert, key, .. }) in certificates {
            files.insert(PathBuf::from(format!("{name}.pem")), cert.clone().into_bytes());
            files.insert(PathBuf::from(format!("{name}.key")), key.clone().into_bytes());
        }
        files
    }

    /// A client that asks for that name, or address, and trusts this certificate alone.
    pub fn client(&self, name: &str) -> ClientConnection {
        Certificate::client_with(&Arc::new(self.trusted()), name)
    }

    /// The same that speaks one version alone: `1.2` or `1.3`.
    pub fn client_of_version(&self, name: &str, version: &str) -> ClientConnection {
        let version = if version == "1.2" { &TLS12 } else { &TLS13 };
        Certificate::client_with(&Arc::new(self.trusted_with(&[version])), name)
    }

    /// A client that asks for that name, trusts this certificate alone, and offers these protocols (ALPN).
    pub fn client_of_protocols(&self, name: &str, protocols: &[&str]) -> ClientConnection {
        let mut trusted = self.trusted();
        trusted.alpn_protocols = protocols.iter().map(|it| it.as_bytes().to_vec()).collect();
        Certificate::client_with(&Arc::new(trusted), name)
    }

    /// A client of that configuration that asks for that name.
    pub fn client_with(trusted: &Arc<ClientConfig>, name: &str) -> ClientConnection {
        let name = ServerName::try_from(name.to_owned()).expect("it is a name");
        ClientConnection::new(Arc::clone(trusted), name).expect("the configuration is complete")
    }

    /// A client with a ticket of another server of that name, which allows early data; it sends that much of it.
    pub fn client_with_early_data(&self, name: &str, bytes: usize) -> ClientConnection {
        let mut trusted = self.trusted_with(&[&TLS13]);
        trusted.enable_early_data = true;
        let trusted = Arc::new(trusted);
        let mut client = Connection::from(Certificate::client_with(&trusted, name));
        let mut server = Connection::from(self.server_of_early_data());
        // Hellos, the client's end, and the tickets.
        for _ in 0..2 {
            passes(&mut client, &mut server);
            passes(&mut server, &mut client);
        }
        let mut client = Certificate::client_with(&trusted, name);
        let mut early = client.early_data().expect("the ticket allows it");
        early.write_all(&vec![b'x'; bytes]).expect("the ticket allows as much");
        client
    }

    fn server_of_early_data(&self) -> ServerConnection {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ServerConfig::builder_with_provider(provider);
        let builder = builder.with_protocol_versions(&[&TLS13]).expect("there is a version");
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).expect("it was made here");
        let chain = vec![self.der.clone()];
        let config = builder.with_no_client_auth().with_single_cert(chain, key);
        let mut config = config.expect("they fit");
        config.max_early_data_size = 1 << 20;
        ServerConnection::new(Arc::new(config)).expect("the configuration is complete")
    }

    /// What clients need that trust no other authority.
    pub fn trusted(&self) -> ClientConfig {
        self.trusted_with(rustls::ALL_VERSIONS)
    }

    /// The same for clients of that version alone that show `own`, where there is one and they are asked.
    pub fn trusted_by(&self, own: Option<&Certificate>, version: &str) -> ClientConfig {
        let version = if version == "1.2" { &TLS12 } else { &TLS13 };
        let mut config = self.trusted_with(&[version]);
        if let Some(own) = own {
            let chain = CertificateDer::pem_slice_iter(own.cert.as_bytes());
            let chain = chain.collect::<Result<Vec<_>, _>>().expect("it was made here");
            let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).expect("it was made here");
            let provider = rustls::crypto::aws_lc_rs::default_provider().key_provider;
            let key = provider.load_private_key(key).expect("it was made here");
            // Whatever the certificate is: what the gateway makes of it is for tests to say.
            let own = CertifiedKey::new(chain, key);
            config.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(own));
        }
        config
    }

    /// The same that agree to one suite of ciphers alone, by its name at IANA.
    pub fn trusted_for_suite(&self, name: &str) -> ClientConfig {
        let mut provider = rustls::crypto::aws_lc_rs::default_provider();
        let is_it = |suite: &rustls::SupportedCipherSuite| {
            suite.suite().as_str().is_some_and(|it| it.replace("TLS13_", "TLS_") == name)
        };
        provider.cipher_suites.retain(is_it);
        let builder = ClientConfig::builder_with_provider(Arc::new(provider));
        let builder = builder.with_safe_default_protocol_versions().expect("there is a version");
        builder.with_root_certificates(roots(self.der.clone())).with_no_client_auth()
    }

    fn trusted_with(&self, versions: &[&'static SupportedProtocolVersion]) -> ClientConfig {
        trusting(self.der.clone(), versions)
    }
}

/// What clients need that trust this certificate, and what it has signed, alone.
pub(crate) fn trusting(
    root: CertificateDer<'static>,
    versions: &[&'static SupportedProtocolVersion],
) -> ClientConfig {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(versions);
    let builder = builder.expect("there are versions");
    builder.with_root_certificates(roots(root)).with_no_client_auth()
}

fn roots(root: CertificateDer<'static>) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    roots.add(root).expect("it is a certificate");
    roots
}

/// Hands over what one side has to say.
fn passes(from: &mut Connection, to: &mut Connection) {
    let mut sealed = Vec::new();
    while from.wants_write() {
        from.write_tls(&mut sealed).expect("memory takes it");
    }
    let mut rest = sealed.as_slice();
    while !rest.is_empty() {
        to.read_tls(&mut rest).expect("there is room");
        to.process_new_packets().expect("the other side keeps to the rules");
    }
}

/// Whether gateways listen with TLS, and their clients speak it, where a test does not say otherwise.
pub(crate) fn is_everywhere() -> bool {
    std::env::var_os("TITAN_TEST_TLS").is_some()
}

/// How clients of a gateway speak where a test does not say otherwise: `http` or `https`.
pub fn scheme() -> &'static str {
    if is_everywhere() { "https" } else { "http" }
}

/// The certificate of gateways where TLS is everywhere.
pub fn usual() -> &'static Certificate {
    static USUAL: LazyLock<Certificate> = LazyLock::new(|| certificate(&[NAME]));
    &USUAL
}

/// A client's side of a session with a gateway that has the usual certificate.
pub fn usual_client() -> ClientConnection {
    static TRUSTED: LazyLock<Arc<ClientConfig>> = LazyLock::new(|| Arc::new(usual().trusted()));
    Certificate::client_with(&TRUSTED, NAME)
}

/// The same for a client that speaks HTTP/2 alone.
pub(crate) fn usual_h2_client() -> ClientConnection {
    usual().client_of_protocols(NAME, &["h2"])
}
