//! Certificates of servers that must have one of several names, among them URIs, which rustls does not look for.

use super::verifiers::Trust;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{
    WebPkiServerVerifier, verify_server_cert_signed_by_trust_anchor, verify_server_name,
};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::sync::Arc;
use titan_config::AltName;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

/// Verifies that a certificate is signed by an authority that is trusted, and has one of the names.
#[derive(Debug)]
pub(super) struct OneOfNames {
    roots: Arc<RootCertStore>,
    algorithms: WebPkiSupportedAlgorithms,
    servers: Vec<ServerName<'static>>,
    uris: Vec<String>,
    /// Verifies signatures of handshakes.
    verifier: Arc<WebPkiServerVerifier>,
}

impl OneOfNames {
    pub(super) fn new(
        Trust { roots, verifier }: Trust,
        names: &[AltName],
        provider: &CryptoProvider,
    ) -> OneOfNames {
        let (mut servers, mut uris) = (Vec::new(), Vec::new());
        for name in names {
            match name {
                // One that no certificate can be for is the name of none.
                AltName::Server(name) => {
                    servers.extend(ServerName::try_from(name.as_str().to_owned()));
                }
                AltName::Uri(uri) => uris.push(uri.clone()),
            }
        }
        let algorithms = provider.signature_verification_algorithms;
        OneOfNames { roots, algorithms, servers, uris, verifier }
    }

    fn has_name(&self, certificate: &CertificateDer<'_>, parsed: &ParsedCertificate<'_>) -> bool {
        let is_server = |name: &ServerName<'_>| verify_server_name(parsed, name).is_ok();
        self.servers.iter().any(is_server) || self.has_uri(certificate)
    }

    fn has_uri(&self, certificate: &CertificateDer<'_>) -> bool {
        let Ok((_, parsed)) = X509Certificate::from_der(certificate) else { return false };
        let Ok(Some(extension)) = parsed.subject_alternative_name() else { return false };
        extension.value.general_names.iter().any(|name| match name {
            GeneralName::URI(uri) => self.uris.iter().any(|it| it == uri),
            _ => false,
        })
    }
}

impl ServerCertVerifier for OneOfNames {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let parsed = ParsedCertificate::try_from(certificate)?;
        verify_server_cert_signed_by_trust_anchor(
            &parsed,
            &self.roots,
            intermediates,
            now,
            self.algorithms.all,
        )?;
        match self.has_name(certificate, &parsed) {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(CertificateError::NotValidForName.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}
