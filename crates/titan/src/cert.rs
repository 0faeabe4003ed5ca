//! `titan cert`: certificates for development.
//!
//! The key of the authority is discarded once it has signed: a client that trusts the authority trusts this one
//! certificate, and a stolen directory signs nothing.

use crate::failure::Failure;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use time::{Duration, OffsetDateTime};

/// What was written.
pub(crate) struct Written {
    authority: PathBuf,
    cert: PathBuf,
    key: PathBuf,
    /// The first of the names that it is for.
    name: String,
}

/// Browsers take none that lasts longer.
const LIFETIME: Duration = Duration::days(397);

/// Writes an authority and a certificate for these names, with its key, into a folder. Overwrites nothing.
pub(crate) fn write(folder: &Path, names: &[String]) -> Result<Written, Failure> {
    let (authority, cert, key) = make(names).map_err(|error| {
        Failure::BadInput(format!("cannot make a certificate for {names:?}: {error}"))
    })?;
    let [authority_file, cert_file, key_file] =
        ["ca.pem", "localhost.pem", "localhost.key"].map(|name| folder.join(name));
    let files =
        [(&authority_file, authority, 0o644), (&cert_file, cert, 0o644), (&key_file, key, 0o600)];
    if let Some((file, ..)) = files.iter().find(|(file, ..)| file.exists()) {
        let file = file.display();
        return Err(Failure::BadInput(format!(
            "{file} already exists: choose another directory with --out"
        )));
    }
    std::fs::create_dir_all(folder)
        .map_err(|error| Failure::BadInput(format!("cannot make {}: {error}", folder.display())))?;
    for (file, text, mode) in &files {
        write_new(file, text, *mode).map_err(|error| {
            Failure::BadInput(format!("cannot write {}: {error}", file.display()))
        })?;
    }
    let name = names[0].replacen('*', "www", 1);
    Ok(Written { authority: authority_file, cert: cert_file, key: key_file, name })
}

impl Written {
    /// What was written, and what to do with it.
    pub(crate) fn text(&self) -> String {
        let [authority, cert, key] = [&self.authority, &self.cert, &self.key].map(|path| {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            path.display().to_string()
        });
        let name = &self.name;
        format!(
            "written: {authority}, {cert}, {key}\n\n\
             A configuration that uses them:\n\n\
             listeners:\n\
             \x20 - address: 127.0.0.1:8443\n\
             \x20   tls: {{ certificates: [{{ cert: {cert}, key: {key} }}] }}\n\
             routes:\n\
             \x20 - respond: {{ body: hello }}\n\n\
             And a client for it:\n\n\
             curl --cacert {authority} https://{name}:8443/\n"
        )
    }
}

fn write_new(file: &Path, text: &str, mode: u32) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(file)?;
    file.write_all(text.as_bytes())
}

/// An authority, a certificate that it signed, and the certificate's key, as PEM.
fn make(names: &[String]) -> Result<(String, String, String), rcgen::Error> {
    let signer = KeyPair::generate()?;
    let mut authority = lasting(CertificateParams::new([])?);
    authority.distinguished_name.push(DnType::CommonName, "Titan development authority");
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let signed = authority.self_signed(&signer)?;
    let issuer = Issuer::new(authority, signer);

    let key = KeyPair::generate()?;
    let mut leaf = lasting(CertificateParams::new(names)?);
    leaf.distinguished_name.push(DnType::CommonName, names[0].as_str());
    leaf.use_authority_key_identifier_extension = true;
    leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let certificate = leaf.signed_by(&key, &issuer)?;
    Ok((signed.pem(), certificate.pem(), key.serialize_pem()))
}

/// From yesterday, for clocks differ.
fn lasting(mut params: CertificateParams) -> CertificateParams {
    params.not_before = OffsetDateTime::now_utc() - Duration::DAY;
    params.not_after = params.not_before + LIFETIME;
    params
}
