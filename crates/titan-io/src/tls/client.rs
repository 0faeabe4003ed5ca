//! TLS with the endpoints of an upstream: which authorities to trust, and which name to ask for.

use super::alt_names::OneOfNames;
use super::credentials::{BadCredentials, Files, bad};
use super::identity::sha256;
use super::verifiers::Trust;
use super::{Alpn, H2, H3, HTTP11};
use arc_swap::ArcSwap;
use quinn_proto::crypto::rustls::QuicClientConfig;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use titan_config::{Protocol, UpstreamTls};

/// How TLS is spoken with an upstream.
pub struct ClientTls {
    tls: UpstreamTls,
    settings: ArcSwap<ClientSettings>,
}

/// What connections are opened with.
pub struct ClientSettings {
    config: Arc<ClientConfig>,
    /// The same for QUIC, where that is spoken.
    quic: Option<quinn_proto::ClientConfig>,
    /// Of the files that it comes from.
    digest: [u8; 32],
}

/// How it is spoken with one endpoint.
pub struct EndpointTls {
    upstream: Arc<ClientTls>,
    /// `None` for an endpoint whose name no certificate can be for: a connection to it fails.
    name: Option<ServerName<'static>>,
}

impl ClientTls {
    /// What a configuration and the files that it names come to.
    pub fn new(
        tls: &UpstreamTls,
        protocol: Protocol,
        files: &Files,
    ) -> Result<ClientTls, BadCredentials> {
        let config = Arc::new(client_config(tls, protocol, files)?);
        let quic = protocol.is_h3().then(|| quic(&config)).flatten();
        let settings = ClientSettings { config, quic, digest: digest(tls, files)? };
        Ok(ClientTls { tls: tls.clone(), settings: ArcSwap::from_pointee(settings) })
    }

    /// What connections are opened with.
    pub fn settings(&self) -> Arc<ClientSettings> {
        self.settings.load_full()
    }

    /// Opens connections with that from now on. Where the files have not changed, sessions can be resumed as before.
    pub fn replace(&self, renewed: Arc<ClientSettings>) {
        if self.settings.load().digest != renewed.digest {
            self.settings.store(renewed);
        }
    }

    /// How it is spoken with the endpoint of that name or address, with its port.
    pub fn towards(self: &Arc<Self>, host: &str) -> EndpointTls {
        let own = match host.parse::<SocketAddr>() {
            Ok(address) => address.ip().to_string(),
            Err(_) => host.rsplit_once(':').map_or(host, |(name, _)| name).to_owned(),
        };
        let name = self.tls.name.as_ref().map_or(own, |name| name.as_str().to_owned());
        EndpointTls { upstream: Arc::clone(self), name: ServerName::try_from(name).ok() }
    }
}

impl EndpointTls {
    /// A session at its start, in which these protocols are up for agreement.
    pub fn session(&self, alpn: Alpn) -> Result<ClientConnection, Error> {
        let name = self.name.clone().ok_or_else(|| Error::General("no server name".to_owned()))?;
        let config = Arc::clone(&self.upstream.settings.load().config);
        if let Some(protocols) = alpn.instead_of(&config.alpn_protocols) {
            let mut config = ClientConfig::clone(&config);
            config.alpn_protocols = protocols;
            return ClientConnection::new(Arc::new(config), name);
        }
        ClientConnection::new(config, name)
    }

    /// What a handshake of QUIC is held with, and the name that it asks for.
    pub(crate) fn quic(&self) -> Result<(quinn_proto::ClientConfig, String), Error> {
        let name = self.name.as_ref().ok_or_else(|| Error::General("no server name".to_owned()))?;
        let config = self.upstream.settings.load().quic.clone();
        let config = config.ok_or_else(|| Error::General("no HTTP/3 there".to_owned()))?;
        Ok((config, name.to_str().into_owned()))
    }
}

/// The same for handshakes of QUIC, which agree on HTTP/3. None if the provider lacked the suite of the first packets.
fn quic(config: &ClientConfig) -> Option<quinn_proto::ClientConfig> {
    let mut config = config.clone();
    config.alpn_protocols = vec![H3.to_vec()];
    let crypto = QuicClientConfig::try_from(config).ok()?;
    Some(quinn_proto::ClientConfig::new(Arc::new(crypto)))
}

/// That of the files that it names.
fn digest(tls: &UpstreamTls, files: &Files) -> Result<[u8; 32], BadCredentials> {
    let UpstreamTls { ca, name: _, alt_names: _, certificate, verify: _ } = tls;
    let own = certificate.iter().flat_map(|own| [&own.cert, &own.key]);
    let digests = ca.iter().map(|ca| &**ca).chain(own.map(|file| &**file));
    let digests = digests.map(|file| files.get(file).map(sha256));
    Ok(sha256(&digests.collect::<Result<Vec<_>, _>>()?.concat()))
}

/// What connections are opened with.
pub fn client_config(
    tls: &UpstreamTls,
    protocol: Protocol,
    files: &Files,
) -> Result<ClientConfig, BadCredentials> {
    let UpstreamTls { ca, name: _, alt_names, certificate, verify } = tls;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier: Arc<dyn ServerCertVerifier> = match verify {
        true => {
            let ca = ca.as_deref();
            let trust = files.verifiers().of(ca, || trust(ca, files, &provider))?;
            match alt_names.is_empty() {
                true => trust.verifier,
                false => Arc::new(OneOfNames::new(trust, alt_names, &provider)),
            }
        }
        false => Arc::new(AcceptAnyCertificate(Arc::clone(&provider))),
    };
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has suites for both versions")
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let mut config = match certificate {
        None => builder.with_no_client_auth(),
        Some(own) => builder
            .with_client_auth_cert(files.certificates(&own.cert)?, files.key(&own.key)?)
            .map_err(|error| bad(&own.cert, format!("with {}: {error}", own.key.display())))?,
    };
    config.alpn_protocols = match protocol {
        Protocol::H1 => vec![HTTP11.to_vec()],
        Protocol::H2 => vec![H2.to_vec()],
        // What is spoken over TCP where QUIC does not get through.
        Protocol::H3 { .. } => vec![H2.to_vec()],
        Protocol::Auto => vec![H2.to_vec(), HTTP11.to_vec()],
    };
    Ok(config)
}

fn trust(
    ca: Option<&Path>,
    files: &Files,
    provider: &Arc<CryptoProvider>,
) -> Result<Trust, BadCredentials> {
    let system = Path::new("the system's list of authorities");
    let (file, authorities) = match ca {
        Some(file) => (file, files.certificates(file)?),
        None => (system, files.system_authorities().to_vec()),
    };
    let mut roots = RootCertStore::empty();
    let (good, _) = roots.add_parsable_certificates(authorities);
    if good == 0 {
        return Err(bad(file, "it contains no certificate of an authority"));
    }
    let roots = Arc::new(roots);
    let verifier =
        WebPkiServerVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(provider))
            .build()
            .map_err(|error| bad(file, error.to_string()))?;
    Ok(Trust { roots, verifier })
}

/// Accepts any certificate, but only from a peer that has its key.
#[derive(Debug)]
struct AcceptAnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::pki_types::pem::PemObject;

    const AUTHORITY: &str = "-----BEGIN CERTIFICATE-----
MIIBcTCCARegAwIBAgIUeA6Lux8ErRBfr0McrfOUmnVBXIQwCgYIKoZIzj0EAwIw
DTELMAkGA1UEAwwCY2EwIBcNMjYxMTI4MjA1MjQ5WhgPMjEyNjExMDQyMDUyNDla
MA0xCzAJBgNVBAMMAmNhMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEq6lQpLDf
bny0I1VAMkZRGIMNcwsds5I6wR/q/gknA3c3SdBgQu+5sDs39jLWjq+I15UUA5RP
oh4aa++3dTBNbKNTMFEwHQYDVR0OBBYEFNYRrHW+BB+COHq/iprNA9Ai5FXFMB8G
A1UdIwQYMBaAFNYRrHW+BB+COHq/iprNA9Ai5FXFMA8GA1UdEwEB/wQFMAMBAf8w
CgYIKoZIzj0EAwIDSAAwRQIgWgRHhU02hRxrT4GQzLznt8cxRhRJK7JAaRojNxb9
iO0CIQDFY+xg21pgxSuj7atP8hXhdcJrTBBEY3qju5ajoGQhTw==
-----END CERTIFICATE-----";

    #[test]
    fn authorities_are_read_once_for_all_upstreams_and_again_when_they_change() {
        let authority = CertificateDer::from_pem_slice(AUTHORITY.as_bytes()).unwrap();
        let mut files = Files::default();
        files.insert("ca".into(), AUTHORITY.into());
        files.set_system_authorities(vec![authority.to_vec()]);
        let made = |ca: Option<&str>, files: &Files| {
            let ca = ca.map(Path::new);
            files
                .verifiers()
                .of(ca, || trust(ca, files, &Arc::new(aws_lc_rs::default_provider())))
                .unwrap()
                .verifier
        };
        let of = [made(Some("ca"), &files), made(None, &files)];
        let again = [made(Some("ca"), &files), made(None, &files)];
        assert!(of.iter().zip(&again).all(|(one, other)| Arc::ptr_eq(one, other)));
        assert!(!Arc::ptr_eq(&of[0], &of[1]), "a file is not the system's list");
        assert!(!Arc::ptr_eq(&of[0], &made(Some("ca"), &files.clone())));
        files.insert("ca".into(), AUTHORITY.into());
        assert!(!Arc::ptr_eq(&of[0], &made(Some("ca"), &files)));
    }
}
