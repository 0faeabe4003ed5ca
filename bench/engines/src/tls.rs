//! The client's side of TLS: the same version, group and cipher for every proxy, so that none of them chooses
//! a dearer one.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};

use crate::tickets::Tickets;

/// The name in the certificates, and the one that clients ask for.
pub const NAME: &str = "bench.example";

/// ALPN's name for HTTP/1.1.
pub const HTTP1: &[u8] = b"http/1.1";
/// ALPN's name for HTTP/2.
pub const HTTP2: &[u8] = b"h2";

/// A client that trusts one certificate and speaks one protocol.
pub fn client(certificate: &Path, protocol: &[u8], resume: bool) -> io::Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    let trusted = CertificateDer::from_pem_file(certificate).map_err(io::Error::other)?;
    roots.add(trusted).map_err(io::Error::other)?;
    let mut config = ClientConfig::builder_with_provider(Arc::new(provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(io::Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    config.resumption = if resume {
        Resumption::store(Arc::new(Tickets::default()))
    } else {
        Resumption::disabled()
    };
    Ok(Arc::new(config))
}

/// [`NAME`] as a client asks for it.
pub fn name() -> ServerName<'static> {
    ServerName::try_from(NAME).expect("it is a name of a host")
}

fn provider() -> CryptoProvider {
    CryptoProvider {
        cipher_suites: vec![aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256],
        kx_groups: vec![aws_lc_rs::kx_group::X25519],
        ..aws_lc_rs::default_provider()
    }
}
